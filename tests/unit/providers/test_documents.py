"""A PDF document stays a document for every provider that accepts one."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from eventstore import Document, EventStore, Opaque, Text, validate
from eventstore.providers import PROVIDERS, Turn, list_key, render
from projections import model_history, repair_messages

BYTES = b"%PDF pages"
DATA = base64.b64encode(BYTES).decode()
HELD = f"data:application/pdf;base64,{DATA}"
URL = "https://a.b/c.pdf?page=1"


def user(*parts: Any) -> dict[str, Any]:
    """Return a user's message of Anthropic, OpenAI, Mistral or Bedrock with these parts."""
    return {"role": "user", "content": [*parts]}


def gemini(*parts: Any) -> dict[str, Any]:
    """Return a user's content."""
    return {"role": "user", "parts": [*parts]}


def block(**beside: Any) -> dict[str, Any]:
    """Return a document of Anthropic."""
    source = {"type": "base64", "media_type": "application/pdf", "data": DATA}
    return {"type": "document", "source": source, **beside}


def bedrock(name: str = "document", **beside: Any) -> dict[str, Any]:
    """Return a document of Bedrock."""
    return {"document": {"format": "pdf", "name": name, "source": {"bytes": BYTES}, **beside}}


def file(name: str = "document.pdf") -> dict[str, Any]:
    """Return a document of Chat Completions."""
    return {"type": "file", "file": {"filename": name, "file_data": HELD}}


def input_file(name: str = "document.pdf") -> dict[str, Any]:
    """Return a document of Responses."""
    return {"type": "input_file", "filename": name, "file_data": HELD}


INLINE = {"inlineData": {"mimeType": "application/pdf", "data": DATA}}


def held_by(provider: str, name: str | None) -> dict[str, Any]:
    """Return a message with the document under that name, as each provider writes it."""
    if provider == "gemini":  # where none has a name
        return gemini(INLINE)
    if provider == "bedrock":  # whose names have no endings
        return user(bedrock((name or "document").removesuffix(".pdf")), {"text": "[document]"})
    if provider == "anthropic":
        return user(block(title=name) if name else block())
    if provider == "mistral":
        reported = {"document_name": name} if name else {}
        return user({"type": "document_url", "document_url": HELD, **reported})
    whole = (name or "document").removesuffix(".pdf") + ".pdf"
    return user(file(whole) if provider in ("openai", "litellm") else input_file(whole))


def shows_documents(provider: str) -> bool:
    """Return whether a document reaches the provider as a document, not as text."""
    changes = render([Turn("user", (Document(None, DATA),))], provider).changes
    return not any(change.what == "wrapped" for change in changes)


SHOWING = tuple(name for name in sorted(PROVIDERS) if shows_documents(name))
"""Providers that can be given a document."""


@pytest.mark.parametrize("target", SHOWING)
@pytest.mark.parametrize("provider", SHOWING)
def test_a_document_stays_one(provider: str, target: str) -> None:
    """A log and a list give it back, with its name if the provider has names."""
    given = held_by(provider, "c.pdf")
    repaired = repair_messages([given], provider, target)
    assert validate(repaired.messages, target) == []
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        chat.record_messages([given], provider)
        logged, repairs = model_history(chat.events()).rendered(target)
    assert (logged[list_key(target)], repairs) == (repaired.messages, repaired.repairs)
    if provider == target:
        assert (repaired.messages, repairs) == ([given], [])
    name = {"bedrock": "c", "gemini": None}.get(provider, "c.pdf")
    key = "parts" if target == "gemini" else "content"
    assert repaired.messages[0][key][0] == held_by(target, name)[key][0]


@pytest.mark.parametrize(
    ("provider", "given", "target", "arrived", "why"),
    [
        (
            "anthropic",
            block(title="c", context="words", citations={"enabled": True}),
            "openai",
            file("c.pdf"),
            ["context, citations of a document has no place here"],
        ),
        (
            "anthropic",
            block(cache_control={"type": "ephemeral"}),
            "openai-responses",
            input_file(),
            ["cache_control of a document has no place here"],
        ),
        (
            "anthropic",
            block(title="c"),
            "gemini",
            INLINE,
            ["title of a document has no place here"],
        ),
        (
            "openai-responses",
            {**input_file("c.pdf"), "detail": "low"},
            "anthropic",
            block(title="c.pdf"),
            ["detail of a document has no place here"],
        ),
        (
            "openai-responses",
            {**input_file("c.pdf"), "detail": "auto"},
            "anthropic",
            block(title="c.pdf"),
            [],
        ),
        (
            "bedrock",
            bedrock("c", context="words"),
            "anthropic",
            block(title="c"),
            ["context of a document has no place here"],
        ),
        (
            "gemini",
            {"inlineData": {**INLINE["inlineData"], "displayName": "c"}},
            "anthropic",
            block(title="c"),
            [],
        ),
        (
            "anthropic",
            {"type": "document", "source": {"type": "url", "url": URL}, "title": "c"},
            "openai-responses",
            {"type": "input_file", "file_url": URL},
            ["title of a document has no place here"],
        ),
        (
            "openai-responses",
            {"type": "input_file", "file_url": URL},
            "anthropic",
            {"type": "document", "source": {"type": "url", "url": URL}},
            [],
        ),
        (
            "mistral",
            {"type": "document_url", "document_url": URL},
            "gemini",
            {"fileData": {"mimeType": "application/pdf", "fileUri": URL}},
            [],
        ),
        (
            "gemini",
            {"fileData": {"mimeType": "application/pdf", "fileUri": URL}},
            "mistral",
            {"type": "document_url", "document_url": URL},
            [],
        ),
        (
            "anthropic",
            {"type": "document", "source": {"type": "url", "url": URL}, "title": "c"},
            "openai",
            {"type": "text", "text": f"[document c {URL}]"},
            ["an address of a document became text"],
        ),
        (
            "openai-responses",
            {"type": "input_file", "file_url": URL},
            "bedrock",
            {"text": f"[document {URL}]"},
            ["a document can be sent only as bytes"],
        ),
    ],
)
def test_members_beside_a_document_are_listed(
    provider: str, given: Any, target: str, arrived: Any, why: list[str]
) -> None:
    """Dropped members are listed as those of images are.

    A URL is kept if the provider takes one.
    """
    message = gemini(given) if provider == "gemini" else user(given)
    if provider == "bedrock":
        message["content"].append({"text": "look"})
    repaired = repair_messages([message], provider, target)
    assert repaired.messages[0]["parts" if target == "gemini" else "content"][0] == arrived
    assert [repair.why for repair in repaired.repairs] == why


def test_a_document_is_named_where_none_can_be_shown() -> None:
    """Most providers accept documents only from the user, so a text names it elsewhere."""
    made = Document(None, DATA, "c")
    for role in ("system", "assistant"):
        turns = [Turn("user", (Text("look"),)), Turn(role, (made,)), Turn("user", (Text("a"),))]
        for target in PROVIDERS:
            rendered = render(turns, target)
            said = str(rendered.arguments)
            shown = (role, target) in {("assistant", "gemini"), ("system", "openai-responses")}
            assert (DATA in said or str(BYTES) in said) is shown, (role, target)
            assert ("[document" in said) is not shown, (role, target)
            assert shown is not any(change.what == "wrapped" for change in rendered.changes)
    (reported,) = render([Turn("user", (made,))], "ollama").arguments["messages"]
    assert reported == {"role": "user", "content": "[document c]"}


def test_a_file_that_may_not_be_a_pdf_does_not_cross() -> None:
    """The file is named, and its text is kept if it has one."""
    for provider, part in (
        ("anthropic", {"type": "document", "source": {"type": "file", "file_id": "f"}}),
        ("openai", {"type": "file", "file": {"file_id": "f"}}),
        ("openai", {"type": "file", "file": {"file_data": "data:text/csv;base64,AAEC"}}),
        ("mistral", {"type": "document_url", "document_url": "https://a.b/c.docx"}),
        ("bedrock", bedrock() | {"document": {**bedrock()["document"], "format": "csv"}}),
        ("gemini", {"inlineData": {"mimeType": "application/zip", "data": DATA}}),
    ):
        message = gemini(part) if provider == "gemini" else user(part)
        target = "anthropic" if provider != "anthropic" else "openai"
        repaired = repair_messages([message], provider, target)
        assert DATA not in str(repaired.messages), part
        assert "became text" in str(repaired.repairs), part


def test_bedrocks_documents_have_each_their_own_plain_name() -> None:
    """Names are made unique and legal, in results, too; a legal name stays."""
    assert names_in_bedrock("C: a_b (1).pdf", "c a b (1)", in_result="c") == [
        *("C a b (1)", "c a b (1) 2"),
        "c",
    ]
    assert names_in_bedrock("c", "c", "", "é", in_result="c") == [
        *("c", "c 2", "document", "document 2"),
        "c 3",
    ]
    long = "x" * 300
    assert names_in_bedrock(long, long, in_result="d.PDF") == ["x" * 200, f"{'x' * 198} 2", "d"]


def names_in_bedrock(*titles: str, in_result: str) -> list[str]:
    """Return what Bedrock is told that Anthropic's documents are named, the last in a result."""
    content = [block(title=title) for title in titles]
    asked = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    answer = {"type": "tool_result", "tool_use_id": "t", "content": [block(title=in_result)]}
    given = [user(*content), {"role": "assistant", "content": [asked]}, user(answer)]
    repaired = repair_messages(given, "anthropic", "bedrock")
    assert validate(repaired.messages, "bedrock") == []
    (shown,) = repaired.messages[2]["content"][0]["toolResult"]["content"]
    made = [part["document"]["name"] for part in [*repaired.messages[0]["content"][:-1], shown]]
    given_names = [title or "document" for title in [*titles, in_result]]
    changed = sum(before != after for before, after in zip(given_names, made, strict=True))
    assert [repair.rule for repair in repaired.repairs].count("document") == changed
    again = repair_messages(repaired.messages, "bedrock")
    assert (again.messages, again.repairs) == (repaired.messages, [])
    return made


def test_a_document_is_a_part_of_ours() -> None:
    """A log holds it, and it is rendered like any other part."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        chat.add_message("user", [Document(None, DATA, "c"), Opaque("anthropic", block(title="d"))])
        made = model_history(chat.events()).render("anthropic")
    assert made["messages"] == [user(block(title="c"), block(title="d"))]
