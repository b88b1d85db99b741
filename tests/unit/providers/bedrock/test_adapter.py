"""Amazon Bedrock's messages: parsed and rendered."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from eventstore import (
    Completed,
    Conversation,
    Failed,
    Image,
    MessageAdded,
    Opaque,
    Text,
    validate,
)
from eventstore.domain.own_texts import STOPPED
from eventstore.providers import is_valid, parse
from projections import model_history, repair_messages

PIXEL = b"\x89PNG\xff"
IMAGE = {"image": {"format": "png", "source": {"bytes": PIXEL}}}
REDACTED = {"reasoningContent": {"redactedContent": b"\xff\x00"}}
THOUGHT = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}}


def user(*blocks: Any) -> dict[str, Any]:
    """Return a user message."""
    return {"role": "user", "content": list(blocks or ({"text": "q"},))}


def says(*blocks: Any) -> dict[str, Any]:
    """Return an assistant message."""
    return {"role": "assistant", "content": list(blocks)}


def call(call_id: Any = "t1", name: Any = "f", given: Any = None, **more: Any) -> dict[str, Any]:
    """Return a toolUse block."""
    return {"toolUse": {"toolUseId": call_id, "name": name, "input": given or {}, **more}}


def result(call_id: Any = "t1", *content: Any, **more: Any) -> dict[str, Any]:
    """Return a toolResult block."""
    said = list(content or ({"text": "R"},))
    return {"toolResult": {"toolUseId": call_id, "content": said, **more}}


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param(
            [
                user({"text": "q"}, IMAGE, {"cachePoint": {"type": "default"}}),
                says(REDACTED, THOUGHT, {"text": "so"}, call(given={"bytes": {"a": 1}})),
                user(result("t1", {"json": {"a": 1}}, IMAGE, status="success"), {"text": "go on"}),
            ],
            id="everything",
        ),
        pytest.param(
            [
                user(
                    {"document": {"name": "a", "format": "txt", "source": {"bytes": b"a"}}},
                    {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://b"}}}},
                    {"text": "q"},
                    {"guardContent": {"text": {"text": "q"}}},
                )
            ],
            id="a document",
        ),
        pytest.param(
            [
                user({"image": {"format": "png", "source": {"bytes": "iVBORw=="}}}),
                says({"text": "as JSON"}),
            ],
            id="a request that was logged as JSON",
        ),
        pytest.param(
            [
                user(),
                says(
                    call("s1", type="server_tool_use"),
                    result("s1", type="web_result"),
                    {"text": "so"},
                ),
            ],
            id="a tool that the service runs",
        ),
        pytest.param(
            [
                user(),
                user({"text": "a"}),
                says(call("a"), call("b")),
                user({"text": "first"}, result("b"), result("a", status="error")),
                user(),
            ],
            id="text before results, and neighbours",
        ),
    ],
)
def test_a_turn_that_nothing_changed_goes_back_as_it_came(
    chat: Conversation, messages: list[Any]
) -> None:
    """The log and the list give back every byte, and bytes stay bytes."""
    assert is_valid(messages, "bedrock")
    assert repair_messages(messages, "bedrock").messages == messages
    chat.record_messages(messages, "bedrock")
    view = model_history(chat.events(), collapse="none", prefill=True)
    shown = view.render("bedrock")["messages"]
    assert shown == messages


def test_system_text_is_a_parameter(chat: Conversation) -> None:
    """System text is a list of blocks; later system messages become the user's text."""
    chat.add_message("system", "be brief")
    chat.add_message("developer", "really")
    chat.add_message("system", " ")
    chat.add_message("user", "q")
    chat.add_message("system", "it rains")
    chat.add_message("assistant", "a")
    chat.add_message("assistant", "b")
    history = model_history(chat.events(), prefill=True)
    assert history.render("bedrock") == {
        "system": [{"text": "be brief"}, {"text": "really"}],
        "messages": [
            user({"text": "q"}, {"text": "[system] it rains"}),
            says({"text": "a"}, {"text": "b"}),
        ],
    }
    repaired = repair_messages(
        [{"role": "system", "content": "be brief"}, {"role": "system", "content": "really"}],
        "openai",
        "bedrock",
    )
    assert (repaired.messages, repaired.system) == ([], "be brief\n\nreally")


def test_images_travel_as_bytes_and_as_base64() -> None:
    """Both forms reach Bedrock and come back.

    An image that it does not take is named and listed.
    """
    given = [
        {
            "role": "user",
            "content": [
                {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}
                for kind, data in (
                    ("image/png", "iVBORw=="),
                    ("image/jpg", "AAE="),
                    ("image/tiff", "AAE="),
                    ("image/png", "?"),
                    ("image/png", "A"),
                    ("image/png", "é"),
                )
            ]
            + [{"type": "image", "source": {"type": "url", "url": "https://a.b/c.png"}}],
        }
    ]
    repaired = repair_messages(given, "anthropic", "bedrock")
    (message,) = repaired.messages
    assert message["content"][:2] == [
        {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}},
        {"image": {"format": "jpeg", "source": {"bytes": b"\x00\x01"}}},
    ]
    assert [block["text"] for block in message["content"][2:]] == [
        "[image]",
        "[image]",
        "[image]",
        "[image]",
        "[image https://a.b/c.png]",
    ]
    assert [repair.rule for repair in repaired.repairs] == ["image"] * 5
    back = repair_messages(repaired.messages[:1], "bedrock", "anthropic").messages[0]["content"]
    assert back[:1] == given[0]["content"][:1]  # type: ignore[index]
    assert back[1]["source"]["media_type"] == "image/jpeg"


def test_a_status_is_a_failure_and_back(chat: Conversation) -> None:
    """An error has a flag in Bedrock's form, and its text is never empty."""
    chat.record_messages(
        [user(), says(call("a"), call("b")), user(result("a", status="error"), result("b"))],
        "bedrock",
    )
    assert isinstance(chat.tools["a"].status, Failed)
    assert isinstance(chat.tools["b"].status, Completed)
    history = model_history(chat.events(), collapse="none")
    crossed = history.render("anthropic")["messages"][2]["content"]
    assert [block.get("is_error") for block in crossed] == [True, None]
    back = repair_messages(
        [user(), says(call("a")), user(result("a", {"text": " "}, status="error"))], "bedrock"
    ).messages[2]["content"]
    assert back == [result("a", {"text": "[The result is empty.]"}, status="error")]


def test_a_blank_result_says_so_and_is_listed() -> None:
    """Some models refuse blank text, so a text replaces it."""
    given = [
        {"role": "user", "content": "q"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": ""},
    ]
    repaired = repair_messages(given, "openai", "bedrock")
    assert repaired.messages[2]["content"] == [result("a", {"text": "[The result is empty.]"})]
    assert ("wrapped", "BE02") in {(repair.what, repair.rule) for repair in repaired.repairs}


def test_a_document_has_a_text_beside_it() -> None:
    """The service requires a text beside a document."""
    document = {"document": {"name": "a", "format": "txt", "source": {"bytes": b"a"}}}
    repaired = repair_messages([user(document)], "bedrock")
    assert repaired.messages == [user(document, {"text": "[document]"})]
    assert [(change.what, change.rule) for change in repaired.repairs] == [("added", "BE02")]
    assert validate(repaired.messages, "bedrock") == []


def test_images_of_a_result_cross_and_return() -> None:
    """Images go to a provider whose results hold images, and come back."""
    given = [user(), says(call()), user(result("t1", {"json": {"a": 1}}, IMAGE))]
    crossed = repair_messages(given, "bedrock", "anthropic").messages
    (answer,) = crossed[2]["content"]
    assert [block["type"] for block in answer["content"]] == ["text", "image"]
    assert answer["content"][0]["text"] == '{"a":1}'
    back = repair_messages(crossed, "anthropic", "bedrock").messages
    assert back[2]["content"] == [result("t1", {"text": '{"a":1}'}, IMAGE)]
    named = repair_messages(given, "bedrock", "openai")
    assert named.messages[2]["content"] == '{"a":1}\n[image]'
    assert "foreign-part" in {repair.rule for repair in named.repairs}


def test_reasoning_goes_with_its_whole_turn_or_not_at_all(chat: Conversation) -> None:
    """Reasoning is dropped with a call that is left out; another provider never gets it."""
    chat.record_messages(
        [user(), says(THOUGHT, {"text": "so"}, call("a"), call("b")), user(result("a"))], "bedrock"
    )
    dropped = model_history(chat.events(), open_calls="drop")
    assert "hm" not in str(dropped.render("bedrock"))
    assert "reasoning" in {repair.rule for repair in dropped.repairs_for("bedrock")}
    assert THOUGHT in model_history(chat.events()).render("bedrock")["messages"][1]["content"]
    for other in ("anthropic", "openai"):
        assert "hm" not in str(model_history(chat.events()).render(other))


def test_a_note_stands_under_a_result(chat: Conversation) -> None:
    """The note is a block of its own if the result is Bedrock's."""
    tries = [
        user(),
        says(call("a")),
        user(result("a", status="error")),
        says(call("b")),
        user(result("b", {"json": {"a": 1}})),
    ]
    chat.record_messages(tries, "bedrock")
    (_, _, answer) = model_history(chat.events(), collapse="failed").render("bedrock")["messages"]
    assert answer["content"] == [
        result("b", {"json": {"a": 1}}, {"text": "[1 other attempt failed: R]"})
    ]
    again = chat.request("g", {})
    for _ in (1, 2):
        attempt = chat.start(again.id)
        assert attempt is not None
        chat.fail(again.id, ValueError("no"))
    shown = model_history(chat.events(), collapse="failed").render("bedrock")["messages"]
    assert shown[-1]["content"][0]["toolResult"]["status"] == "error"


def test_citations_cross_as_text_and_cache_points_do_not() -> None:
    """Other providers get the text of citations, and no cache points."""
    cited = {"citationsContent": {"content": [{"text": "It rains."}], "citations": []}}
    repaired = repair_messages(
        [user({"text": "q"}, {"cachePoint": {"type": "default"}}), says(cited)],
        "bedrock",
        "openai",
    )
    assert repaired.messages[0]["content"] in ("q", [{"type": "text", "text": "q"}])
    assert "It rains." in str(repaired.messages[1])
    assert [repair.what for repair in repaired.repairs] == ["dropped"]


def test_messages_in_another_form_are_parsed_for_their_content(chat: Conversation) -> None:
    """Plain texts, blocks with two members, another provider's blocks and junk are read."""
    chat.record_messages(
        [
            {"role": "user", "content": "plain"},
            "bare",
            " ",
            None,
            17,
            {"role": "user", "content": " "},
            user({"text": "one", "image": {"format": "png", "source": {"bytes": PIXEL}}}),
            user({"type": "text", "text": "other"}, "loose", {"text": 5}, {}, {"a": "b"}, [None]),
            user(call("u"), {"image": {"format": "png", "source": 5}}, {"toolUse": 5}),
            user({"image": {"format": "png", "source": {"bytes": 5}}}),
            says(call("a"), call("", None), result("a")),
            says(call(given=[1]), {"toolUse": {"type": "server_tool_use", "toolUseId": "é"}}),
            user({"toolResult": {"toolUseId": "t1", "content": "text"}}),
            user(result("t1", {"image": {}}, 5, {"json": [1]})),
            {"role": 5, "content": [{"text": "who"}]},
        ],
        "bedrock",
    )
    shown = model_history(chat.events()).render("bedrock")["messages"]
    assert validate(shown, "bedrock") == []
    said = str(shown)
    for text in ("plain", "bare", "17", "one", "other", "loose", "'5'", '{"a":"b"}', "who", "text"):
        assert text in said, text
    assert IMAGE in shown[2]["content"] or IMAGE in shown[1]["content"] or str(PIXEL) in said


def test_parts_made_by_hand_are_sent_as_they_are(chat: Conversation) -> None:
    """Our mark for bytes without base64 under it gives no bytes, and no error."""
    chat.append(
        MessageAdded(
            "user",
            (
                Text(" "),
                Text("a"),
                Opaque("bedrock", {"video": {"source": {"bytes": {"$bytes": 5}}}}),
                Image(data="", media_type="image/png"),
            ),
        )
    )
    (shown,) = model_history(chat.events()).render("bedrock")["messages"]
    assert shown["content"] == [
        {"text": "a"},
        {"video": {"source": {"bytes": b""}}},
        {"text": "[image]"},
    ]


def test_foreign_parts_become_text_or_nothing(chat: Conversation) -> None:
    """A message without any content is left out."""
    chat.add_message("user", [Opaque("anthropic", {"type": "document"})])
    chat.add_message("assistant", [Opaque("anthropic", {"type": "thinking"})])
    chat.add_message("assistant", [Opaque("openai", {"type": "refusal", "refusal": "No."})])
    assert model_history(chat.events()).render("bedrock")["messages"] == [
        user({"text": "[document of anthropic, not shown here]"}),
        says({"text": "No."}),
        user({"text": STOPPED}),
    ]
    odd = user({"text": " "}, {"image": "x"}, {"image": {"format": "png", "source": {"a": 1}}})
    (mended,) = repair_messages([odd], "bedrock").messages
    shown = '{"image":{"format":"png","source":{"a":1}}}'
    assert mended == user({"text": '{"image":"x"}'}, {"text": shown})


def test_deep_input_is_passed_on(chat: Conversation) -> None:
    """Bytes are searched only where they can be, and no deeper."""
    deep: Any = {"a": 1}
    for _ in range(50):
        deep = {"a": [deep]}
    given = [user(), says(call(given=deep), call("call|1")), user(result(), result("call|1"))]
    chat.record_messages(given[:2], "bedrock")
    assert (
        model_history(chat.events()).render("bedrock")["messages"][1]["content"][0]
        == given[1]["content"][0]
    )
    repaired = repair_messages(given, "bedrock").messages
    assert repaired[1]["content"][0] == given[1]["content"][0]
    (_, second) = repaired[1]["content"]
    assert second["toolUse"]["toolUseId"].startswith("call_1_")


def test_the_clients_responses_are_recorded(chat: Conversation) -> None:
    """The client's response consists of plain values and bytes."""
    session = pytest.importorskip("botocore.session", reason="botocore is not installed")
    from botocore.parsers import create_parser

    model = session.get_session().get_service_model("bedrock-runtime")
    body = (
        b'{"output": {"message": {"role": "assistant", "content": ['
        b'{"reasoningContent": {"redactedContent": "/wA="}},'
        b'{"toolUse": {"toolUseId": "tooluse_1", "name": "f", "input": {"a": 1}}}]}},'
        b'"stopReason": "tool_use"}'
    )
    response = create_parser("rest-json").parse(
        {"status_code": 200, "headers": {}, "body": body},
        model.operation_model("Converse").output_shape,
    )
    message = response["output"]["message"]
    assert message["content"][0] == REDACTED
    chat.record(user(), "bedrock")
    (made,) = chat.record(response, "bedrock")
    chat.complete(made.id, {"b": 2})
    shown = model_history(chat.events()).render("bedrock")["messages"]
    assert shown == [user(), message, user(result("tooluse_1", {"text": '{"b":2}'}))]


def test_bytes_of_any_kind_are_kept() -> None:
    """`bytes`, `bytearray` and other byte types are recorded."""
    for held in (bytearray(PIXEL), memoryview(PIXEL)):
        (item,) = parse([user({"image": {"format": "png", "source": {"bytes": held}}})], "bedrock")
        assert item.parts == (Image(None, b64encode(PIXEL).decode(), "image/png"),)  # type: ignore[union-attr]


POINT = {"cachePoint": {"type": "default"}}
THOUGHT = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "sig"}}}


def mended(*messages: Any) -> tuple[list[Any], list[tuple[str, str]]]:
    """Return messages as they are repaired, valid and for good, and what was done."""
    repaired = repair_messages(messages, "bedrock")
    assert validate(repaired.messages, "bedrock") == []
    again = repair_messages(repaired.messages, "bedrock")
    assert (again.messages, again.repairs) == (repaired.messages, [])
    return repaired.messages, [(repair.what, repair.rule) for repair in repaired.repairs]


def test_the_newest_cache_points_stay(chat: Conversation) -> None:
    """The service takes 4: a log whose user set one each turn is told so."""
    for number in range(6):
        asked = user({"text": f"q{number}"}, POINT)
        chat.record_messages([asked, says({"text": "a"})], "bedrock")
    chat.record_messages([user()], "bedrock")
    history = model_history(chat.events())
    shown = history.render("bedrock")["messages"]
    assert validate(shown, "bedrock") == []
    pointed = [POINT in each["content"] for each in shown if each["role"] == "user"]
    assert pointed == [False, False, True, True, True, True, False]
    repairs = [(repair.what, repair.rule) for repair in history.repairs_for("bedrock")]
    assert repairs == [("dropped", "BE04")]


def test_a_cache_point_does_not_follow_reasoning() -> None:
    """The service refuses it; the reasoning stays as it was signed."""
    twice, _ = mended(user(), says(THOUGHT, POINT, POINT, {"text": "so"}), user())
    shown, done = mended(user(), says(THOUGHT, POINT, {"text": "so"}), user())
    assert twice[1]["content"] == shown[1]["content"] == [THOUGHT, {"text": "so"}]
    assert done == [("dropped", "BE04")]


def test_a_message_of_nothing_but_old_cache_points_goes() -> None:
    """No message is empty."""
    shown, _ = mended(user(POINT), user({"text": "q"}, *[POINT] * 4))
    assert shown == [user({"text": "q"}, *[POINT] * 4)]
    begun, _ = mended(user(POINT), says({"text": "a"}), user({"text": "q"}, *[POINT] * 4))
    assert [each["role"] for each in begun] == ["user", "assistant", "user"]


def test_an_image_of_an_error_follows_the_results() -> None:
    """Claude takes only text in an error: the image is shown by the user."""
    failed = result("call", status="error") | {}
    failed["toolResult"] = {
        "toolUseId": "t1",
        "content": [{"text": "FAILED"}, IMAGE],
        "status": "error",
    }
    asked = {"toolUse": {"toolUseId": "t1", "name": "look", "input": {}}}
    shown, done = mended(user(), says(asked), user(failed))
    reported, *behind = shown[2]["content"]
    assert reported["toolResult"]["content"] == [{"text": "FAILED"}]
    assert behind == [{"text": "[Shown by look:]"}, IMAGE]
    assert done == [("moved", "BE06")]


def test_one_id_in_two_turns_is_distinguished() -> None:
    """The later call and its result get an id of their own."""
    asked = {"toolUse": {"toolUseId": "t1", "name": "f", "input": {}}}
    answer = {"toolResult": {"toolUseId": "t1", "content": [{"text": "R"}]}}
    shown, done = mended(user(), says(asked), user(answer), says(asked), user(answer))
    assert shown[3]["content"][0]["toolUse"]["toolUseId"] == "t1_2"
    assert shown[4]["content"][0]["toolResult"]["toolUseId"] == "t1_2"
    assert done == [("re-keyed", "id")]


def test_only_the_user_shows_and_only_the_assistant_reasons() -> None:
    """An image of the assistant is told of; reasoning of the user is left out."""
    shown, done = mended(user(), says({"text": "t"}, IMAGE), user())
    assert shown[1] == says({"text": "t"}, {"text": "[image]"})
    assert ("wrapped", "image") in done
    shown, done = mended(user({"text": "t"}, THOUGHT))
    assert shown == [user({"text": "t"})]
    assert ("dropped", "reasoning") in done


@pytest.mark.parametrize("form", ["pdf", "txt"])
@pytest.mark.parametrize("target", ["bedrock", "openai", "anthropic", "gemini", "mistral"])
def test_a_document_whose_name_is_a_number_is_no_error(form: str, target: Any) -> None:
    """The name becomes text."""
    document = {"document": {"format": form, "name": 7, "source": {"bytes": b"%PDF"}}}
    repaired = repair_messages([user({"text": "t"}, document)], "bedrock", target)
    assert validate(repaired.messages, target) == []
    if target == "bedrock":
        assert repaired.messages[0]["content"][1]["document"]["name"] == "7"


def test_a_member_of_a_block_that_stands_alone_becomes_text() -> None:
    """No block is called `bytes`."""
    done = repair_messages([user({"text": "q"}, {"bytes": b"x"})], "bedrock")
    assert validate(done.messages, "bedrock") == []
    assert [repair.rule for repair in done.repairs] == ["form"]


def test_a_call_of_the_service_goes_where_its_result_is_not_whole() -> None:
    """The user speaks next, so that no result comes."""
    asked = call("t9", "nova_grounding", type="server_tool_use")
    broken = {"toolResult": {"toolUseId": "t9", "content": {}, "type": "nova_grounding_result"}}
    done = repair_messages([user({"text": "q"}), says(asked, broken, {"text": "d"})], "bedrock")
    assert validate(done.messages, "bedrock") == []
    assert done.messages[1] == says({"text": "d"})
    assert repair_messages(done.messages, "bedrock").repairs == []
