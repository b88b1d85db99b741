"""Ollama's messages: parsed and rendered."""

from __future__ import annotations

from typing import Any

import pytest

from eventstore import Conversation, Image, Opaque, Text, validate
from eventstore.providers import parse
from projections import model_history, repair_messages


def user(content: Any = "q", **more: Any) -> dict[str, Any]:
    """Return a user message."""
    return {"role": "user", "content": content, **more}


def call(name: Any = "f", arguments: Any = None, **more: Any) -> dict[str, Any]:
    """Return a call."""
    return {"function": {"name": name, "arguments": arguments or {}}, **more}


def calling(*calls: Any, **more: Any) -> dict[str, Any]:
    """Return an assistant message with these calls."""
    return {"role": "assistant", "content": "", **more, "tool_calls": list(calls)}


def result(name: Any = "f", content: Any = "R", **more: Any) -> dict[str, Any]:
    """Return a tool message."""
    return {"role": "tool", "content": content, "tool_name": name, **more}


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param(
            [user(images=["AAE="]), calling(call(), thinking="hm"), result()],
            id="an image and thoughts",
        ),
        pytest.param(
            [
                {"role": "system", "content": "be brief"},
                user(),
                calling(call("get weather", {"a": {"b": 1}}), call("get weather")),
                result("get weather", "1"),
                result("get weather", ""),
                user(),
            ],
            id="parallel calls of one tool",
        ),
        pytest.param(
            [
                user(),
                {"role": "assistant", "content": None, "thinking": "hm"},
                user(),
                {"role": "assistant", "content": "the last word"},
            ],
            id="thoughts alone",
        ),
        pytest.param(
            [user(images=["a/path.png"]), calling({**call(), "x": 1}), result(x=1)],
            id="a path, and members that we do not know",
        ),
    ],
)
def test_a_turn_that_nothing_changed_goes_back_as_it_came(
    chat: Conversation, messages: list[Any]
) -> None:
    """The log and the list give back every byte."""
    assert validate(messages, "ollama") == []
    chat.record_messages(messages, "ollama")
    history = model_history(chat.events())
    assert history.render("ollama") == {"messages": messages}
    assert history.repairs_for("ollama") == []
    assert repair_messages(messages, "ollama").messages == messages


def test_calls_get_ids_for_others_and_lose_them_here() -> None:
    """Ids are minted by place, the same for call and result; dropped ids are listed."""
    given = [
        user(),
        calling(call("a"), call("b"), call("a")),
        result("a", "1"),
        result("b", "2"),
        result("a", "3"),
    ]
    crossed = repair_messages(given, "ollama", "openai").messages
    ids = [made["id"] for made in crossed[1]["tool_calls"]]
    assert len(set(ids)) == 3
    assert [(m["tool_call_id"], m["content"]) for m in crossed[2:]] == list(
        zip(ids, "123", strict=True)
    )
    back = repair_messages(crossed, "openai", "ollama")
    assert back.messages == given
    assert [(repair.what, repair.rule) for repair in back.repairs] == [("dropped", "OL01")]


def test_results_are_matched_by_name_and_order() -> None:
    """A result answers the first open call of its name, otherwise the first open call."""
    given = [
        user(),
        calling(call("a"), call("b"), call("b"), call("c")),
        result("b", "b1"),
        result("c", "c1"),
        result("b", "b2"),
        {"role": "tool", "content": "a1"},
    ]
    repaired = repair_messages(given, "ollama")
    assert [message["content"] for message in repaired.messages[2:]] == ["a1", "b1", "b2", "c1"]
    assert [message["tool_name"] for message in repaired.messages[2:]] == ["a", "b", "b", "c"]
    assert validate(repaired.messages, "ollama") == []


def test_ids_that_newer_servers_write_are_used() -> None:
    """The ids pair calls and results, and are left out when sent."""
    given = [
        user(),
        calling(call(id="x"), call(id="y")),
        result(content="second", tool_call_id="y"),
        result(content="first", tool_call_id="x"),
    ]
    repaired = repair_messages(given, "ollama")
    assert repaired.messages == [
        user(),
        calling(call(), call()),
        result(content="first"),
        result(content="second"),
    ]


def test_texts_are_joined_and_images_stand_beside_them(chat: Conversation) -> None:
    """A message has one text; an image that is only an address cannot be sent."""
    chat.add_message("developer", "be brief")
    chat.add_message(
        "user",
        [
            Text("a"),
            Image(data="AAE="),
            Text("b"),
            Image("https://a.b/c.png"),
            Opaque("anthropic", {"type": "document"}),
            Opaque("anthropic", {"type": "thinking"}),
        ],
    )
    chat.add_message("assistant", [])
    history = model_history(chat.events())
    system, asked = history.render("ollama")["messages"]
    assert system == {"role": "system", "content": "be brief"}
    assert asked == user(
        "a\nb\n[image https://a.b/c.png]\n[document of anthropic, not shown here]", images=["AAE="]
    )
    assert {repair.rule for repair in history.repairs_for("ollama")} == {
        "text",
        "image",
        "foreign-part",
        "reasoning",
    }


def test_images_travel_as_base64() -> None:
    """Bytes become base64, which the client accepts; other providers do not get a file's path."""
    for image in (b"\x00\x01", bytearray(b"\x00\x01"), "AAE="):
        (item,) = parse([user(images=(image, "no/such.png"))], "ollama")
        assert item.parts == (  # type: ignore[union-attr]
            Text("q"),
            Image(None, "AAE="),
            Opaque("ollama", {"type": "image", "image": "no/such.png"}),
        )
    crossed = repair_messages([user(images=["AAE=", "x.png"])], "ollama", "anthropic").messages
    assert [block["type"] for block in crossed[0]["content"]] == ["text", "image", "text"]
    kept = repair_messages([user(images=["AAE=", "x.png"], tool_calls=5)], "ollama").messages
    assert kept == [user(images=["AAE=", "x.png"])]


def test_thinking_goes_with_its_whole_turn_or_not_at_all(chat: Conversation) -> None:
    """Thinking is dropped with a call that is left out; another provider never gets it."""
    chat.record_messages(
        [user(), calling(call("a"), call("b"), thinking="hm"), result("a")], "ollama"
    )
    dropped = model_history(chat.events(), open_calls="drop")
    assert "hm" not in str(dropped.render("ollama"))
    assert "reasoning" in {repair.rule for repair in dropped.repairs_for("ollama")}
    answered = model_history(chat.events()).render("ollama")["messages"]
    assert answered[1]["thinking"] == "hm"
    assert "hm" not in str(model_history(chat.events()).render("openai"))
    mended = repair_messages([user(), calling(call("a", id="x"), thinking="hm")], "ollama")
    assert mended.messages[1]["thinking"] == "hm"


def test_errors_and_notes_are_part_of_the_text(chat: Conversation) -> None:
    """The API has no flag for errors."""
    chat.record_messages(
        [
            user(),
            calling(call()),
            result(content="no", is_error=True),
            calling(call()),
            result(x=1),
        ],
        "ollama",
    )
    shown = model_history(chat.events(), collapse="failed").render("ollama")["messages"]
    assert shown[-1] == result(content="R\n[1 other attempt failed: no]", x=1)
    again = chat.request("g", {"b": 1})
    for n in (1, 2):
        attempt = chat.start(again.id)
        assert attempt is not None
        chat.fail(again.id, ValueError(f"no {n}"))
    every = model_history(chat.events(), collapse="none").render("ollama")["messages"]
    assert every[2] == result(content="no", is_error=True)
    assert every[-1]["content"] == '{"error":"no 2"}'
    kept = model_history([*chat.events()], collapse="all").render("ollama")["messages"][2][
        "content"
    ]
    assert kept == "R\n[1 other attempt failed: no]"


def test_a_tool_without_a_name_gets_one() -> None:
    """The call and its result get the same name."""
    repaired = repair_messages([user(), calling(call("")), result("", "R")], "ollama")
    assert repaired.messages[1]["tool_calls"] == [call("unnamed_tool")]
    assert repaired.messages[2] == result("unnamed_tool")
    assert ("re-keyed", "name") in {(repair.what, repair.rule) for repair in repaired.repairs}


@pytest.mark.parametrize(
    ("message", "role"),
    [
        ({"tool_calls": [{"name": "f", "arguments": {}}]}, "assistant"),
        ({"tool_name": "f", "content": "R"}, "tool"),
        ({"content": "hi"}, "user"),
        ("hi", "user"),
        (17, "user"),
    ],
)
def test_a_missing_role_is_detected_from_the_message(message: Any, role: str) -> None:
    """An unknown role is replaced in the same way."""
    (item,) = parse([message], "ollama")
    assert getattr(item, "role", "tool") == role


def test_messages_in_another_form_are_parsed_for_their_content() -> None:
    """Parts instead of text, arguments as text and junk are read."""
    given = [
        user([{"type": "text", "text": "one"}]),
        "",
        None,
        user(""),
        user(images=[5]),
        user(thinking=5),
        {
            "role": "assistant",
            "content": 5,
            "tool_calls": ["x", {"function": {"name": "f", "arguments": '{"a": 1}'}}],
        },
        {"role": "function", "name": "f", "content": {"b": 2}},
        calling(call(arguments=None), {"name": "g", "arguments": "cut off"}),
        user(images="AAE=", tool_calls=[call()]),
    ]
    repaired = repair_messages(given, "ollama").messages
    assert validate(repaired, "ollama") == []
    assert [message["role"] for message in repaired] == [
        "user",
        "user",
        "user",
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
        "tool",
        "user",
    ]
    assert repaired[4]["tool_calls"] == [call("f", {"a": 1})]
    assert repaired[5] == result("f", '{"b":2}')
    assert repaired[6]["tool_calls"][1] == call("g", {"raw_arguments": "cut off"})


def test_ollamas_own_objects_are_recorded(chat: Conversation) -> None:
    """The client's objects are recorded and rendered unchanged."""
    ollama = pytest.importorskip("ollama", reason="ollama is not installed")
    function = ollama.Message.ToolCall.Function(name="f", arguments={"a": 1})
    message = ollama.Message(
        role="assistant",
        content="",
        thinking="hm",
        tool_calls=[ollama.Message.ToolCall(function=function)],
    )
    chat.record(
        ollama.Message(role="user", content="q", images=[ollama.Image(value=b"\x00")]), "ollama"
    )
    (made,) = chat.record(ollama.ChatResponse(model="m", message=message, done=True), "ollama")
    assert made.provider_call_id is None
    chat.complete(made.id, "R")
    shown = model_history(chat.events()).render("ollama")["messages"]
    assert validate(shown, "ollama") == []
    assert shown == [user(images=["AA=="]), calling(call("f", {"a": 1}), thinking="hm"), result()]
    assert ollama.Message(**shown[1]) == message


def test_an_object_that_cannot_be_written_is_kept_readable(chat: Conversation) -> None:
    """The client reads an image's file when it encodes a message, and the file may be missing."""
    ollama = pytest.importorskip("ollama", reason="ollama is not installed")
    chat.record(
        ollama.Message(role="user", content="q", images=[ollama.Image(value="no.png")]), "ollama"
    )
    assert "no.png" in str(model_history(chat.events()).render("ollama"))


def test_images_of_a_result_stay_or_follow_it() -> None:
    """Ollama takes them in the result; elsewhere the user shows them."""
    given = [
        {"role": "user", "content": "q"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"function": {"name": "shoot", "arguments": {}}}],
        },
        {"role": "tool", "tool_name": "shoot", "content": "SHOT", "images": ["iVBORw0KGgo="]},
    ]
    assert repair_messages(given, "ollama").messages == given
    made = repair_messages(given, "ollama", "openai").messages
    assert made[2]["content"] == "SHOT\n[image]"
    assert "iVBORw0KGgo=" in str(made[3])
    assert validate(made, "openai") == []
    assert "iVBORw0KGgo=" in str(repair_messages(given, "ollama", "anthropic").messages)


@pytest.mark.parametrize("more", [{}, {"name": "f"}])
def test_results_of_older_clients_go_back_without_the_name(
    chat: Conversation, more: dict[str, Any]
) -> None:
    """Results go by their order."""
    unnamed = {"role": "tool", "content": "R", **more}
    given = [user(), calling(call(), call()), unnamed, unnamed, user("more")]
    chat.record_messages(given, "ollama")
    history = model_history(chat.events())
    assert history.render("ollama")["messages"] == given
    assert history.repairs_for("ollama") == []
