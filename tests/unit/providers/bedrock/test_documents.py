"""What Converse takes of documents and other media: names, formats, numbers, cache points."""

from __future__ import annotations

import re
from typing import Any

import pytest

from eventstore import Conversation, Document, validate
from eventstore.providers.bedrock.reading import MAX_ID, legal_id
from eventstore.providers.bedrock.shapes import FORMATS
from projections import model_history, repair_messages

TEXT = {"text": "Read."}
POINT = {"cachePoint": {"type": "default"}}
PNG = {"format": "png", "source": {"bytes": b"x"}}


def document(name: str = "a", form: str = "pdf", **source: Any) -> dict[str, Any]:
    """Return a document, of these bytes or of this source."""
    return {"document": {"format": form, "name": name, "source": source or {"bytes": b"x"}}}


def user(*blocks: Any) -> dict[str, Any]:
    """Return a user message."""
    return {"role": "user", "content": list(blocks)}


SAID = {"role": "assistant", "content": [{"text": "Done."}]}


def mended(chat: Conversation, *messages: Any) -> tuple[list[Any], list[str]]:
    """Return what messages become, with the changes: by repair, and the same from the log."""
    repaired = repair_messages([*messages], "bedrock")
    assert validate(repaired.messages, "bedrock") == []
    chat.record_messages([*messages], "bedrock")
    logged, repairs = model_history(chat.events()).rendered("bedrock")
    whys = [repair.why for repair in repaired.repairs]
    assert (logged["messages"], [repair.why for repair in repairs]) == (repaired.messages, whys)
    again = repair_messages(repaired.messages, "bedrock")
    assert (again.messages, again.repairs) == (repaired.messages, [])
    return repaired.messages, whys


def test_a_name_that_stands_twice_is_changed_the_second_time(chat: Conversation) -> None:
    """The first document keeps its name, wherever in the request the second one stands."""
    first, second = document("invoice"), document("invoice", "csv")
    shown, whys = mended(chat, user(TEXT, first), SAID, user(TEXT, second))
    assert shown == [user(TEXT, first), SAID, user(TEXT, document("invoice 2", "csv"))]
    assert whys == ["the document 'invoice' is 'invoice 2' here"]


def test_a_sixth_document_becomes_a_line(chat: Conversation) -> None:
    """Five stay, results included, and the words of a document that is a text are kept."""
    call = {"toolUse": {"toolUseId": "t", "name": "f", "input": {}}}
    result = {"toolResult": {"toolUseId": "t", "content": [document("e"), document("f", "md")]}}
    shown, whys = mended(
        chat,
        user(TEXT, *map(document, "abcd")),
        {"role": "assistant", "content": [call]},
        user(result, TEXT, document("g", "txt", text="Words.")),
    )
    assert shown[0] == user(TEXT, *map(document, "abcd"))
    answer, *behind = shown[2]["content"]
    assert answer["toolResult"]["content"] == [document("e"), {"text": "[document f, format md]"}]
    assert behind == [TEXT, {"text": "[document g, format txt]\nWords."}]
    assert whys == ["a request holds no more than 5 documents: a line tells of it"] * 2


def test_six_documents_of_the_log_are_five_and_a_line(chat: Conversation) -> None:
    """Parts of ours keep the limit, too, though they come in six messages."""
    for number in range(6):
        chat.add_message("user", [Document(data="eA==", name=f"n{number}.pdf")])
        chat.add_message("assistant", "Read.")
    chat.add_message("user", "All read?")
    made = model_history(chat.events()).render("bedrock")["messages"]
    assert validate(made, "bedrock") == []
    blocks = [block for message in made for block in message["content"]]
    assert [block["document"]["name"] for block in blocks if "document" in block] == [
        f"n{number}" for number in range(5)
    ]
    assert {"text": "[document n5.pdf, format pdf]"} in blocks


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (document("a/b.bin", "bin"), "[document a/b.bin, format bin]"),
        ({"image": {**PNG, "format": "bmp"}}, "[image, format bmp]"),
        ({"video": {**PNG, "format": "avi"}}, "[video, format avi]"),
    ],
)
def test_a_format_that_is_not_known_becomes_a_line(
    chat: Conversation, given: Any, line: str
) -> None:
    """The line says what was there."""
    shown, whys = mended(chat, user(TEXT, given))
    assert shown == [user(TEXT, {"text": line})]
    assert len(whys) == 1
    assert "knows no" in whys[0]


@pytest.mark.parametrize(
    ("kind", "given", "form"),
    [("document", "PDF", "pdf"), ("document", ".htm", "html"), ("image", "jpg", "jpeg")],
)
def test_a_format_in_other_letters_is_written_as_converse_has_it(
    chat: Conversation, kind: str, given: str, form: str
) -> None:
    """The document and the image can be shown."""
    body = {"name": "a"} if kind == "document" else {}
    block = {kind: {"format": given, **body, "source": {"bytes": b"x"}}}
    shown, whys = mended(chat, user(TEXT, block))
    assert shown == [user(TEXT, {kind: {**block[kind], "format": form}})]
    assert whys == [f"the format {given!r} is {form!r} here"]


def test_a_cache_point_moves_before_documents_that_are_no_pdf(chat: Conversation) -> None:
    """Behind a PDF it stays, and where nothing is before the documents, it goes."""
    table, page = document("t", "csv"), document("p", "md")
    shown, whys = mended(
        chat, user(TEXT, document("a"), POINT), SAID, user(TEXT, table, page, POINT)
    )
    assert shown[0] == user(TEXT, document("a"), POINT)
    assert shown[2] == user(TEXT, POINT, table, page)
    assert len(whys) == 1
    alone = repair_messages([user(table, POINT, TEXT)], "bedrock")
    assert alone.messages == [user(table, TEXT)]
    assert [repair.rule for repair in alone.repairs] == ["BE07"]


def test_a_blank_text_may_part_a_document_from_a_cache_point(chat: Conversation) -> None:
    """The service was seen to answer that; anywhere else a blank text goes."""
    given = user(TEXT, document("t", "txt"), {"text": "\n"}, POINT, TEXT, POINT)
    assert mended(chat, given) == ([given], [])
    other = repair_messages([user(TEXT, {"text": "\n"}, POINT)], "bedrock")
    assert other.messages == [user(TEXT, POINT)]
    assert [repair.rule for repair in other.repairs] == ["form"]


def test_a_media_type_stays_the_format_of_a_video(chat: Conversation) -> None:
    """The service was seen to answer that; of a document it becomes the format."""
    given = user(TEXT, {"video": {**PNG, "format": "video/mp4"}})
    assert mended(chat, given) == ([given], [])
    shown = repair_messages([user(TEXT, document("a", "application/pdf"))], "bedrock").messages
    assert shown == [user(TEXT, document("a"))]


def test_marks_for_the_cache_stand_before_documents_that_are_no_pdf(chat: Conversation) -> None:
    """`cache=True` keeps the same rule."""
    chat.record_messages([user(TEXT, document("t", "csv"))], "bedrock")
    marked = model_history(chat.events()).render("bedrock", cache=True)["messages"]
    assert marked == [user(TEXT, POINT, document("t", "csv"))]
    assert validate(marked, "bedrock") == []


@pytest.mark.parametrize("call_id", ["a.b:c-1", "tooluse_9", "x" * MAX_ID])
def test_an_id_of_the_services_own_pattern_stays(chat: Conversation, call_id: str) -> None:
    """Points and colons are legal in ids."""
    call = {"toolUse": {"toolUseId": call_id, "name": "f", "input": {}}}
    given = [
        user(TEXT),
        {"role": "assistant", "content": [call]},
        user({"toolResult": {"toolUseId": call_id, "content": [TEXT]}}),
    ]
    assert mended(chat, *given) == (given, [])


def test_formats_and_ids_are_those_of_botocore() -> None:
    """The service model that botocore ships says the same."""
    session = pytest.importorskip("botocore.session")
    shapes = session.get_session().get_service_model("bedrock-runtime")
    for kind, formats in FORMATS.items():
        shape = shapes.shape_for(f"{kind.title()}Format")
        assert set(shape.enum) == formats, kind
    name = shapes.shape_for("DocumentBlockNameString")
    assert (name.metadata["min"], name.metadata["max"]) == (1, 200)
    ids = shapes.shape_for("ToolUseId")
    assert ids.metadata["max"] == MAX_ID
    legal = re.compile(shapes._shape_resolver._shape_map["ToolUseId"]["pattern"])
    for text in ("a.b:c-1", "a b", "", "é", "a" * 65, "x_1"):
        fits = legal.fullmatch(text) is not None and len(text) <= MAX_ID
        assert (legal_id(text) == text) is fits, text
