"""Gemini's contents: parsed and rendered."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from eventstore import (
    Completed,
    Conversation,
    EventStore,
    Failed,
    Image,
    MessageAdded,
    Opaque,
    Text,
    validate,
)
from eventstore.domain.own_texts import OPENING
from eventstore.providers import Answer, Call, Turn, parse, render
from eventstore.providers.gemini.shapes import UNSIGNED
from projections import model_history, repair_messages

Content = dict[str, Any]
FILE = {"inlineData": {"mimeType": "a/b", "data": ""}}
PIXEL = "iVBORw0KGgo-_w8="


def user(*parts: object) -> Content:
    """Return a user's content."""
    return {"role": "user", "parts": list(parts)}


def model(*parts: object) -> Content:
    """Return a content of the model's."""
    return {"role": "model", "parts": list(parts)}


def text(value: str = "hello") -> Content:
    """Return a text part."""
    return {"text": value}


def call(name: str = "f", signature: str | None = "c2ln", **more: Any) -> Content:
    """Return a part with a call."""
    part: Content = {"functionCall": {"name": name, "args": {}, **more}}
    return part if signature is None else {**part, "thoughtSignature": signature}


def result(name: str = "f", response: Any = None, **more: Any) -> Content:
    """Return a part with a response."""
    said = {"output": "R"} if response is None else response
    return {"functionResponse": {"name": name, "response": said, **more}}


def shown(chat: Conversation) -> Any:
    """Return the contents that the log renders."""
    return model_history(chat.events()).render("gemini")["contents"]


def mended(*contents: Any, **options: Any) -> list[Content]:
    """Return the repaired contents, which must be valid and stay as they are."""
    repaired = repair_messages(list(contents), "gemini", **options)
    assert validate(repaired.messages, "gemini") == []
    assert repair_messages(repaired.messages, "gemini").messages == repaired.messages
    return repaired.messages


HISTORIES = [
    pytest.param(
        [user(text()), model(call(), call("g", None)), user(result(), result("g")), model(text())],
        id="without ids",
    ),
    pytest.param([user(text()), model(call(id="1")), user(result(id="1"))], id="with ids"),
    pytest.param(
        [
            user(text()),
            model({"text": "hm", "thought": True}, text("so"), call()),
            user(
                result(
                    response={"a": [1], "$ref": "x"},
                    parts=[FILE],
                )
            ),
        ],
        id="thoughts and parts",
    ),
    pytest.param(
        [
            user(text(), {"inline_data": {"mime_type": "image/png", "data": PIXEL}}),
            model({"executableCode": {"code": "1"}}, {"text": "x", "thoughtSignature": "s"}),
            user({"fileData": {"fileUri": "gs://b/f", "mimeType": "video/mp4"}}),
        ],
        id="media and code",
    ),
    pytest.param(
        [
            user(text()),
            model({"function_call": {"name": "f", "args": None}, "thought_signature": "s"}),
            user({"function_response": {"name": "f", "response": {}}}),
        ],
        id="snake case",
    ),
]


@pytest.mark.parametrize("contents", HISTORIES)
def test_unchanged_contents_go_back_as_they_came(
    chat: Conversation, contents: list[Content]
) -> None:
    """The log, too, gives back every byte of signatures, ids and spelling."""
    assert validate(contents, "gemini") == []
    chat.record_messages(contents, "gemini")
    assert json.dumps(shown(chat)) == json.dumps(contents)
    with EventStore.open("sqlite://") as store:
        imported = store.conversation("i")
        imported.import_messages(contents, "gemini")
        assert json.dumps(shown(imported)) == json.dumps(contents)


def test_a_call_without_an_id_gets_one_that_the_wire_never_sees(chat: Conversation) -> None:
    """The log has a minted id; the call and its response are sent without it."""
    (made,) = chat.record(model(call()), "gemini")
    assert made.id.startswith("call_")
    assert made.provider_call_id is None
    chat.complete(made.id, {"t": 1})
    assert shown(chat)[1:] == [model(call()), user(result(response={"output": '{"t":1}'}))]
    assert model_history(chat.events()).repairs_for("gemini")[0].rule == "GE03"


def test_responses_without_ids_find_their_calls_by_name_and_place(chat: Conversation) -> None:
    """The name is compared first, then the order."""
    chat.record_messages(
        [
            user(text()),
            model(call("a"), call("b"), call("a")),
            user(
                result("b", {"output": "B"}),
                result("a", {"output": "1"}),
                result("a", {"output": "2"}),
            ),
        ],
        "gemini",
    )
    found = [tool.status.response.result for tool in chat.tools.values()]  # type: ignore[union-attr]
    assert found == ["1", "B", "2"]


@pytest.mark.parametrize(
    ("response", "said"),
    [
        ({"output": "x"}, "x"),
        ({"result": "x"}, "x"),
        ({"return_value": "x"}, "x"),
        ({"output": 5}, '{"output":5}'),
        ({"a": "x"}, '{"a":"x"}'),
        ({"output": "x", "more": 1}, '{"output":"x","more":1}'),
        ({}, ""),
        ("x", "x"),
        (None, "R"),
    ],
)
def test_a_response_is_read_as_text(response: Any, said: str) -> None:
    """A single member under a neutral name is read as text, any other response as JSON."""
    (item, _) = parse([user(result(response=response))], "gemini")
    assert item.text == said  # type: ignore[union-attr]


def test_an_error_stays_an_error_both_ways(chat: Conversation) -> None:
    """Only the key `error` marks a failed call."""
    chat.record_messages(
        [user(text()), model(call()), user(result(response={"error": "no"}))], "gemini"
    )
    (tool,) = chat.tools.values()
    assert isinstance(tool.status, Failed)
    other = model_history(chat.events()).render("anthropic")["messages"]
    assert other[2]["content"][0]["is_error"] is True
    back = repair_messages(other, "anthropic", "gemini").messages
    assert back[2]["parts"][0]["functionResponse"]["response"] == {"error": "no"}
    chat.record_messages([model(call()), user(result(response={"error": ""}))], "gemini")
    assert isinstance(list(chat.tools.values())[1].status, Completed)


def test_the_system_text_is_a_parameter() -> None:
    """System text at the start is a parameter; later it becomes a user's text."""
    turns = [
        Turn("system", (Text("a"),)),
        Turn("developer", (Text("b"),)),
        Turn("system"),
        Turn("user", (Text("q"),)),
        Turn("user", (Text(" "),)),
        Turn("user", (Text("x"),), hidden=True),
        Turn("system", (Text("c"),)),
    ]
    rendered = render(turns, "gemini").arguments
    assert rendered == {
        "system_instruction": "a\n\nb",
        "contents": [user(text("q")), user(text("[system] c"))],
    }
    assert repair_messages([{"role": "system", "content": "s"}], "openai", "gemini").system == "s"
    assert mended({"role": "system", "parts": [text("s")]}, user(text())) == [user(text())]


def test_calls_from_elsewhere_get_the_placeholder_signature() -> None:
    """The first call of each content gets Google's placeholder.

    Foreign signatures and thoughts are dropped.
    """
    turn = Turn(
        "assistant",
        (Opaque("anthropic", {"type": "thinking", "thinking": "hm", "signature": "sig"}),),
        [
            Call("a", "f", {"x": 1}, Answer("R")),
            Call("b", "9 lives", [], Answer("E", is_error=True)),
        ],
    )
    rendered = render([Turn("user", (Text("q"),)), turn], "gemini")
    contents = rendered.arguments["contents"]
    name = contents[1]["parts"][1]["functionCall"]["name"]
    assert contents[1] == model(
        {"functionCall": {"id": "a", "name": "f", "args": {"x": 1}}, "thoughtSignature": UNSIGNED},
        {"functionCall": {"id": "b", "name": name, "args": {"raw_arguments": []}}},
    )
    assert contents[2] == user(
        {"functionResponse": {"id": "a", "name": "f", "response": {"output": "R"}}},
        {"functionResponse": {"id": "b", "name": name, "response": {"error": "E"}}},
    )
    assert {change.rule for change in rendered.changes} == {"reasoning", "name", "arguments"}
    assert validate(contents, "gemini") == []


@pytest.mark.parametrize("broken", [False, True])
def test_unsigned_calls_of_older_models_stay_as_they_are(
    chat: Conversation, *, broken: bool
) -> None:
    """The list and the log treat them alike, also where something else is mended."""
    unsigned = [user(text()), model(call(signature=None)), user(result())]
    repaired = repair_messages([*unsigned, *([user(result())] if broken else [])], "gemini")
    assert repaired.messages[:3] == unsigned
    assert "GE06" not in {repair.rule for repair in repaired.repairs}
    chat.record_messages(unsigned, "gemini")
    history = model_history(chat.events())
    assert history.render("gemini")["contents"] == unsigned
    assert history.repairs_for("gemini") == []


def test_unsigned_calls_of_models_that_sign_get_the_placeholder(chat: Conversation) -> None:
    """A signature in the history shows that its model demands them, in the current turn."""
    before = [user(text()), model(call(signature=None)), user(result())]
    words = {**text("so"), "thoughtSignature": "c2ln"}
    asked = [user(text()), model(words, call(signature=None)), user(result())]
    repaired = repair_messages([*before, *asked], "gemini")
    assert repaired.messages == [
        *before,
        asked[0],
        model(words, call(signature=UNSIGNED)),
        user(result()),
    ]
    assert [(repair.what, repair.rule) for repair in repaired.repairs] == [("added", "GE06")]
    chat.record_messages([*before, *asked], "gemini")
    assert shown(chat) == repaired.messages
    again = repair_messages(repaired.messages, "gemini")
    assert (again.messages, again.repairs) == (repaired.messages, [])


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"type": "text", "text": "HELLO"}, [text("HELLO")]),
        ({"text": "HELLO", "cache_control": {"type": "ephemeral"}}, [text("HELLO")]),
        (
            {"text": "HELLO", "inlineData": {"mimeType": "image/png", "data": "QUJD"}},
            [text("HELLO"), {"inlineData": {"mimeType": "image/png", "data": "QUJD"}}],
        ),
        (
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
            [{"inlineData": {"mimeType": "image/png", "data": "QUJD"}}],
        ),
        (
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"},
            },
            [{"inlineData": {"mimeType": "image/png", "data": "QUJD"}}],
        ),
        (
            {"type": "input_image", "image_url": "data:image/png;base64,QUJD"},
            [{"inlineData": {"mimeType": "image/png", "data": "QUJD"}}],
        ),
    ],
)
def test_parts_of_another_api_become_those_of_this_one(
    part: dict[str, Any], expected: list[Any]
) -> None:
    """The API refuses names that it does not know, and parts with two data."""
    repaired = repair_messages([user(part)], "gemini")
    assert repaired.messages == [user(*expected)]
    assert repaired.repairs
    assert validate(repaired.messages, "gemini") == []


def test_a_part_with_words_and_a_call_is_two() -> None:
    """The words keep their place before the call, which keeps its signature."""
    joined = {**text("so"), **call()}
    repaired = repair_messages([user(text()), model(joined), user(result())], "gemini")
    parts = repaired.messages[1]["parts"]
    assert [part.get("text") for part in parts] == ["so", None]
    assert "functionCall" in parts[1]
    assert validate(repaired.messages, "gemini") == []


def test_a_call_from_the_user_is_the_models() -> None:
    """Its response answers it there."""
    repaired = repair_messages([user(text()), user(call()), user(result())], "gemini")
    assert [content["role"] for content in repaired.messages] == ["user", "model", "user"]
    assert validate(repaired.messages, "gemini") == []


def test_calls_in_two_contents_in_a_row_stay_there() -> None:
    """The API was seen to take them, with the responses to both after them."""
    contents = [
        user(text()),
        model(call("a")),
        model(call("b")),
        user(result("a"), result("b")),
    ]
    repaired = repair_messages(contents, "gemini")
    assert (repaired.messages, repaired.repairs) == (contents, [])


def test_text_beside_a_response_moves_after_it(chat: Conversation) -> None:
    """If anything is repaired, the text moves to its own content."""
    contents = [user(text()), model(call()), user(result(), text("go on"))]
    assert repair_messages(contents, "gemini").messages == contents
    chat.record_messages(contents, "gemini")
    assert shown(chat) == [*contents[:2], user(result()), user(text("go on"))]
    assert mended(user(text()), model(call()), user(text("hm"), result()), model(call())) == [
        user(text()),
        model(call()),
        user(result()),
        user(text("hm")),
        model(call()),
        user(
            result(
                response={
                    "error": "[No result was recorded for this call: whether it ran is not known.]"
                }
            )
        ),
    ]


def test_a_call_never_opens_the_contents() -> None:
    """A leading call joins the model's content before it, or a user's content is added."""
    assert mended(model(call()), user(result())) == [
        user(text(OPENING)),
        model(call()),
        user(result()),
    ]
    assert mended(model(text("a")), model(text("b")), model(call()), user(result())) == [
        user(text(OPENING)),
        model(text("a"), text("b"), call()),
        user(result()),
    ]


def test_a_turn_that_lost_a_call_loses_its_signatures() -> None:
    """Thoughts and signatures are valid only with the whole turn."""
    contents = [
        user(text()),
        model(
            {"text": "hm", "thought": True},
            {"text": "so", "thoughtSignature": "s"},
            {"text": "", "thoughtSignature": "s"},
            call("a"),
            call("b", None),
            call("a"),
        ),
        user(result("a", {"error": "no"}), result("b"), result("a", {"output": "yes"})),
    ]
    repaired = repair_messages(contents, "gemini", collapse="failed")
    assert ("dropped", "reasoning") in {(r.what, r.rule) for r in repaired.repairs}
    collapsed = repaired.messages
    assert collapsed[1] == model(
        text("so"), {**call("b", None), "thoughtSignature": UNSIGNED}, call("a", None)
    )
    response = collapsed[2]["parts"][1]["functionResponse"]["response"]
    assert response == {"output": "yes\n[1 other attempt failed: no]"}
    assert validate(collapsed, "gemini") == []


def test_an_edited_call_is_written_anew(chat: Conversation) -> None:
    """The call has the edited arguments and its own id."""
    made = chat.record_messages([user(text()), model(call(id="1"), call(id="2"))], "gemini")
    chat.approve(made[0].id, edited_arguments={"x": 2})
    for tool in made:
        chat.complete(tool.id, "R")
    parts = shown(chat)[1]["parts"]
    assert parts[0] == {
        "functionCall": {"id": "1", "name": "f", "args": {"x": 2}},
        "thoughtSignature": UNSIGNED,
    }
    assert parts[1] == call(id="2", signature=None)


@pytest.mark.parametrize(
    "broken",
    [
        {"functionCall": {"name": "f", "args": "{"}},
        {"functionCall": {"args": {}}},
        {"functionCall": "f"},
        {"functionCall": {"name": 5, "args": None, "id": 7}},
        {"text": 5},
        {"text": 1.5, "thought": True},
        "words",
        {},
        None,
        17,
    ],
)
def test_an_invalid_part_is_repaired_beside_valid_ones(broken: Any) -> None:
    """The other parts of its content stay as they were."""
    repaired = mended(user(text()), model(text("so"), broken, call("g")), user(result("g")))
    parts = repaired[1]["parts"]
    assert parts[0] == text("so")
    assert call("g") in parts or {
        k: v for k, v in call("g").items() if k != "thoughtSignature"
    } in ([{k: v for k, v in part.items() if k != "thoughtSignature"} for part in parts])


@pytest.mark.parametrize(
    ("content", "role"),
    [
        ("hello", "user"),
        (text(), "user"),
        ({"role": "assistant", "parts": [text()]}, "assistant"),
        ({"role": "wizard", "parts": [text()]}, "user"),
        ({"role": 5, "parts": [text()]}, "user"),
        ({"role": "user", "parts": "hello"}, "user"),
        ({"parts": [text()]}, "user"),
        ({"candidates": [{"content": model(text())}]}, "assistant"),
        (b"hello", "user"),
    ],
)
def test_anything_that_says_something_is_read(content: Any, role: str) -> None:
    """Text, single parts, whole responses and other roles are read."""
    (item,) = parse([content], "gemini")
    assert item.role == role  # type: ignore[union-attr]
    assert item.parts == (Text("hello"),)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "content",
    [None, {}, "", user(), user({}), user(None), {"candidates": [{}]}, {"role": "user"}],
)
def test_empty_contents_are_left_out(content: Any) -> None:
    """A content with only empty parts is left out, too."""
    assert [item for item in parse([content], "gemini") if item.parts] == []  # type: ignore[union-attr]
    repaired = repair_messages([content, model(call())], "gemini")
    assert [each["role"] for each in repaired.messages] == ["user", "model", "user"]
    assert repaired.messages[0] == user(text(OPENING))


def test_a_call_in_a_users_content_is_read_as_the_models() -> None:
    """A response in the model's content is read as a response, too."""
    moved = mended(user(text(), call()), user(result()))
    made = moved[1]["parts"][0]
    assert made["thoughtSignature"] == UNSIGNED
    answer = result(id=made["functionCall"]["id"])
    assert moved == [user(text(OPENING)), model(made), user(answer), user(text())]
    assert mended(user(text()), model(call(), result()))[1:] == [model(call()), user(result())]
    (first, second, _) = parse([{"role": "wizard", "parts": [call()]}, user(result())], "gemini")
    assert first.role == "assistant"  # type: ignore[union-attr]
    assert second.name == "f"  # type: ignore[union-attr]


def test_images_travel_and_uploaded_files_stay() -> None:
    """Bytes and public links go to any provider; Google's own files are only named."""
    content = user(
        {"inlineData": {"mimeType": "image/png", "data": PIXEL}},
        {"fileData": {"mimeType": "image/png", "fileUri": "https://example.com/a.png"}},
        {"fileData": {"mimeType": "image/png", "fileUri": "https://x.googleapis.com/v1/files/1"}},
        {"fileData": {"fileUri": "https://example.com/a"}},
        {"inlineData": {"mimeType": "image/png", "data": PIXEL}, "mediaResolution": {}},
        {"inlineData": {"mimeType": "image/png"}},
        {"inlineData": "x"},
        {"inlineData": {"mimeType": "image/gif", "data": b"\xfb\xff"}},
    )
    (item,) = parse([content], "gemini")
    images = [part for part in item.parts if isinstance(part, Image)]  # type: ignore[union-attr]
    assert images == [
        Image(None, "iVBORw0KGgo+/w8=", "image/png"),
        Image("https://example.com/a.png", None, "image/png"),
        Image(None, "+/8=", "image/gif"),
    ]
    repaired = repair_messages([content], "gemini", "openai")
    kinds = [part["type"] for part in repaired.messages[0]["content"]]
    shown, words = ["image_url"], ["text"]
    assert kinds == [*shown * 2, *words * 2, *shown, *words * 2, *shown]
    assert len(repaired.repairs) == 6
    back = repair_messages(repaired.messages[:1], "openai", "gemini").messages[0]["parts"]
    assert back[:2] == [
        {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo+/w8="}},
        {"fileData": {"fileUri": "https://example.com/a.png"}},
    ]
    (again,) = render([Turn("user", (images[1], Image(None, "AA")))], "gemini").arguments[
        "contents"
    ]
    assert again["parts"] == [
        {"fileData": {"mimeType": "image/png", "fileUri": "https://example.com/a.png"}},
        {"inlineData": {"mimeType": "image/png", "data": "AA"}},
    ]


def test_images_of_a_result_cross_where_they_can_be_shown() -> None:
    """Images stand in the result, or after it in the user's message, which is listed."""
    image = {"inlineData": {"mimeType": "image/png", "data": "AA"}}
    contents = [user(text()), model(call()), user(result(parts=[image]))]
    assert repair_messages(contents, "gemini").messages == contents
    anthropic = repair_messages(contents, "gemini", "anthropic").messages
    assert [block["type"] for block in anthropic[2]["content"][0]["content"]] == ["text", "image"]
    chat = repair_messages(contents, "gemini", "openai")
    assert chat.messages[2]["content"] == "R\n[image/png]"
    assert chat.messages[3]["content"][1]["image_url"]["url"] == "data:image/png;base64,AA"
    assert ("moved", "foreign-part") in {(r.what, r.rule) for r in chat.repairs}
    back = repair_messages(anthropic, "anthropic", "gemini").messages
    assert back[2:] == [
        user(
            {
                "functionResponse": {
                    **result()["functionResponse"],
                    "id": back[1]["parts"][0]["functionCall"]["id"],
                    "response": {"output": "R\n[image]"},
                }
            }
        ),
        user(text("[Shown by f:]"), image),
    ]
    file = {"fileData": {"mimeType": "application/pdf", "fileUri": "gs://b/f"}}
    (item, _) = parse([user(result(response={}, parts=[file, {}, 5]))], "gemini")
    assert item.text == "[application/pdf]\n[file]\n[file]"  # type: ignore[union-attr]
    failed = [*contents[:2], user(result(response={"error": "no"}, parts=[image]))]
    error = repair_messages(failed, "gemini", "anthropic").messages[2]["content"][0]
    assert error["content"] == "no\n[image/png]"


def test_code_that_google_ran_becomes_text() -> None:
    """Other providers get the code and its result in a note of the user's, and no thoughts."""
    contents = [
        user(text()),
        model(
            {"text": "hm", "thought": True},
            {"thoughtSignature": "s"},
            {"executableCode": {"language": "PYTHON", "code": "print(6*7)"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "42"}},
            {"toolCall": {"toolType": "GOOGLE_SEARCH"}},
        ),
    ]
    repaired = repair_messages(contents, "gemini", "openai")
    assert [each["role"] for each in repaired.messages] == ["user", "user"]
    said = repaired.messages[1]["content"]
    assert "print(6*7)" in said
    assert "42" in said
    assert "toolCall of gemini" in said
    assert "hm" not in said
    assert [repair.what for repair in repaired.repairs].count("wrapped") == 3


def test_a_log_cut_anywhere_gives_valid_contents(chat: Conversation) -> None:
    """The contents keep the strict rules, too, also in Gemini's own turns."""
    chat.record_messages(
        [
            user(text()),
            model(text("so"), call(id="1"), call("g", None, id="1")),
            user(text("wait")),
            user(result("g", id="1")),
            model(call(signature=None)),
            user(result(), text()),
        ],
        "gemini",
    )
    events = list(chat.events())
    for count in range(len(events) + 1):
        contents = model_history(events[:count]).render("gemini")["contents"]
        assert validate(contents, "gemini") == []


def test_googles_own_objects_are_recorded(chat: Conversation) -> None:
    """Responses, contents and parts are recorded, and the SDK accepts what is rendered."""
    types = pytest.importorskip("google.genai.types", reason="google-genai is not installed")
    part = types.Part(
        function_call=types.FunctionCall(name="f", args={"a": 1}), thought_signature=b"sig"
    )
    content = types.Content(role="model", parts=[types.Part(text="so"), part])
    response = types.GenerateContentResponse(candidates=[types.Candidate(content=content)])
    chat.record(types.Content(role="user", parts=[types.Part(text="q")]), "gemini")
    (made,) = chat.record(response, "gemini")
    assert made.call.arguments == {"a": 1}
    chat.record(
        {
            "role": "user",
            "parts": [types.Part.from_function_response(name="f", response={"output": "R"})],
        },
        "gemini",
    )
    assert isinstance(chat.tools[made.id].status, Completed)
    chat.record(content, "gemini")
    contents = shown(chat)
    assert validate(contents, "gemini") == []
    taken = [types.Content.model_validate(each) for each in contents]
    assert taken[1] == content
    assert taken[3].parts[1].thought_signature == b"sig"


def test_our_own_compact_form_is_stored_for_what_is_plain(chat: Conversation) -> None:
    """Plain text needs no second copy in the log."""
    contents = [user(text()), model(text("so")), model(call()), user(result())]
    chat.record_messages(copy.deepcopy(contents), "gemini")
    natives = [r.event.native for r in chat.events() if isinstance(r.event, MessageAdded)]
    assert natives == [None, None, model(call())]


def test_keys_that_are_not_text_can_be_imported(chat: Conversation) -> None:
    """Values that JSON cannot express are read in their nearest form."""
    contents = [user(text()), model(call(args={1: 2})), user({3: 4})]
    chat.import_messages(contents, "gemini")
    assert chat.import_messages(contents, "gemini").added == 0
    assert validate(shown(chat), "gemini") == []


def test_the_system_instruction_goes_into_the_clients_config(chat: Conversation) -> None:
    """`generate_content` takes it there, and sends the contents as they are."""
    genai = pytest.importorskip("google.genai", reason="google-genai is not installed")
    httpx = pytest.importorskip("httpx", reason="httpx is not installed")
    if "httpx_client" not in genai.types.HttpOptions.model_fields:
        pytest.skip("this google-genai takes no client of httpx")
    sent: list[Any] = []

    def answer(request: Any) -> Any:
        sent.append(json.loads(request.content))
        return httpx.Response(200, json={"candidates": [{"content": model(text("so"))}]})

    chat.add_message("system", "be brief")
    chat.record_messages([user(text()), model(call()), user(result())], "gemini")
    prompt = model_history(chat.events()).render("gemini")
    assert prompt.keys() == {"system_instruction", "contents"}
    with httpx.Client(transport=httpx.MockTransport(answer)) as http:
        options = genai.types.HttpOptions(httpx_client=http)
        client = genai.Client(api_key="none", http_options=options)
        config = genai.types.GenerateContentConfig(
            system_instruction=prompt.pop("system_instruction", None)
        )
        response = client.models.generate_content(model="gemini", config=config, **prompt)
    assert response.text == "so"
    assert sent[0]["systemInstruction"]["parts"] == [{"text": "be brief"}]
    assert sent[0]["contents"] == prompt["contents"]


def test_a_content_in_the_form_of_a_chat_is_read() -> None:
    """Text under the name `content` is not lost."""
    moved = mended({"role": "model", "content": "hello there"}, user(text()))
    assert moved[0] == model(text("hello there"))
    assert mended({"role": "user", "content": [text()]}) == [user(text())]


@pytest.mark.parametrize("parts", [None, "", []])
def test_content_is_read_where_the_parts_are_empty(parts: object) -> None:
    """Neither of the two names hides the text under the other."""
    assert mended({"role": "user", "parts": parts, "content": "hello"}) == [user(text())]
    assert mended({"role": "user", "parts": parts, "content": None}, user(text())) == [user(text())]


def test_members_beside_the_parts_are_listed_for_other_providers() -> None:
    """Every dropped member is listed; without parts, `content` is the text."""
    beside = repair_messages(
        [{"role": "user", "parts": [{"text": "a"}], "content": "x"}], "gemini", to="openai"
    )
    assert [repair.why for repair in beside.repairs] == ["content: only for gemini"]
    instead = repair_messages(
        [{"role": "user", "parts": [], "content": "x"}], "gemini", to="openai"
    )
    assert instead.messages == [{"role": "user", "content": "x"}]
    assert [repair.rule for repair in instead.repairs] == ["form"]


def test_faults_in_calls_are_mended_and_named(chat: Conversation) -> None:
    """Names get legal, null goes, and a call keeps its signature where only this was wrong."""
    signed = {"functionCall": {"name": "f", "args": None}, "thoughtSignature": "c2ln"}
    named = {
        "functionCall": {"id": "a", "name": "3d\n", "args": {}},
        "thoughtSignature": "no base64!",
    }
    given = [
        {"role": "user", "parts": [{"text": "q"}]},
        {"role": "model", "parts": [signed]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}]},
        {"role": "model", "parts": [named]},
        {
            "role": "user",
            "parts": [{"functionResponse": {"id": "a", "name": "3d\n", "response": {}}}],
        },
    ]
    repaired = repair_messages(given, "gemini")
    assert validate(repaired.messages, "gemini") == []
    assert repaired.messages[1]["parts"] == [
        {"functionCall": {"name": "f"}, "thoughtSignature": "c2ln"}
    ]
    (call,) = repaired.messages[3]["parts"]
    (response,) = repaired.messages[4]["parts"]
    assert call["functionCall"]["name"] == response["functionResponse"]["name"]
    assert call["thoughtSignature"] == UNSIGNED
    assert {"name", "form", "GE06"} == {repair.rule for repair in repaired.repairs}
    chat.record_messages(given, "gemini")
    logged, repairs = model_history(chat.events()).rendered("gemini")
    assert logged["contents"] == repaired.messages
    assert {"name", "form", "GE06"} == {repair.rule for repair in repairs}


def test_text_that_leaves_a_content_of_responses_is_named(chat: Conversation) -> None:
    """The text alone can be restored, so that its own form is not stored."""
    made = {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "c2ln"}
    answer = {"functionResponse": {"name": "f", "response": {"output": "R"}}}
    given = [user({"text": "q"}), model(made), user(answer, {"text": "and now?"})]
    chat.record_messages(given, "gemini")
    shown, repairs = model_history(chat.events()).rendered("gemini")
    assert shown["contents"] == [*given[:2], user(answer), user({"text": "and now?"})]
    assert [(repair.what, repair.rule) for repair in repairs] == [("moved", "GE08")]
