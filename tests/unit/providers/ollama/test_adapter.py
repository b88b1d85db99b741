"""Ollama's messages in and out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from eventstore import Conversation, EventStore, Image, Opaque, Text, validate
from eventstore.wire import parse
from projections import model_history, repair_messages


@pytest.fixture
def chat() -> Iterator[Conversation]:
    """An empty conversation."""
    with EventStore.open("sqlite://") as store:
        yield store.conversation("c")


def user(content: Any = "q", **more: Any) -> dict[str, Any]:
    """A user message."""
    return {"role": "user", "content": content, **more}


def call(name: Any = "f", arguments: Any = None, **more: Any) -> dict[str, Any]:
    """A call."""
    return {"function": {"name": name, "arguments": arguments or {}}, **more}


def calling(*calls: Any, **more: Any) -> dict[str, Any]:
    """An assistant message with these calls."""
    return {"role": "assistant", "content": "", **more, "tool_calls": list(calls)}


def result(name: Any = "f", content: Any = "R", **more: Any) -> dict[str, Any]:
    """A tool message."""
    return {"role": "tool", "content": content, "tool_name": name, **more}


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([user(images=["AAE="]), calling(call(), thinking="hm"), result()],
                     id="an image and thoughts"),
        pytest.param([{"role": "system", "content": "be brief"}, user(),
                      calling(call("get weather", {"a": {"b": 1}}), call("get weather")),
                      result("get weather", "1"), result("get weather", ""), user()],
                     id="parallel calls of one tool"),
        pytest.param([user(), {"role": "assistant", "content": None, "thinking": "hm"}, user(),
                      {"role": "assistant", "content": "the last word"}], id="thoughts alone"),
        pytest.param([user(images=["a/path.png"]), calling({**call(), "x": 1}), result(x=1)],
                     id="a path, and members that we do not know"),
    ],
)  # fmt: skip
def test_a_turn_that_nothing_changed_goes_back_as_it_came(
    chat: Conversation, messages: list[Any]
) -> None:
    """From a log and from a list: every byte."""
    assert validate(messages, "ollama") == []
    chat.record_messages(messages, "ollama")
    history = model_history(chat.events())
    assert history.render("ollama") == {"messages": messages}
    assert history.repairs_for("ollama") == []
    assert repair_messages(messages, "ollama").messages == messages


def test_calls_get_ids_for_others_and_lose_them_here() -> None:
    """Minted by place, the same on both halves; what was dropped is listed."""
    given = [user(), calling(call("a"), call("b"), call("a")), result("a", "1"), result("b", "2"),
             result("a", "3")]  # fmt: skip
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
    """The first unanswered call of the name, else the first of all."""
    given = [user(), calling(call("a"), call("b"), call("b"), call("c")), result("b", "b1"),
             result("c", "c1"), result("b", "b2"), {"role": "tool", "content": "a1"}]  # fmt: skip
    repaired = repair_messages(given, "ollama")
    assert [message["content"] for message in repaired.messages[2:]] == ["a1", "b1", "b2", "c1"]
    assert [message["tool_name"] for message in repaired.messages[2:]] == ["a", "b", "b", "c"]
    assert validate(repaired.messages, "ollama") == []


def test_ids_that_newer_servers_write_are_used() -> None:
    """They pair, and are left out again."""
    given = [
        user(),
        calling(call(id="x"), call(id="y")),
        result(content="second", tool_call_id="y"),
        result(content="first", tool_call_id="x"),
    ]
    repaired = repair_messages(given, "ollama")
    assert repaired.messages == [user(), calling(call(), call()), result(content="first"),
                                 result(content="second")]  # fmt: skip


def test_texts_are_joined_and_images_stand_beside_them(chat: Conversation) -> None:
    """One text is all there is; an address of an image cannot be sent."""
    chat.add_message("developer", "be brief")
    chat.add_message("user", [
        Text("a"), Image(data="AAE="), Text("b"), Image("https://a.b/c.png"),
        Opaque("anthropic", {"type": "document"}), Opaque("anthropic", {"type": "thinking"}),
    ])  # fmt: skip
    chat.add_message("assistant", [])
    history = model_history(chat.events())
    system, asked = history.render("ollama")["messages"]
    assert system == {"role": "system", "content": "be brief"}
    assert asked == user(
        "a\nb\n[image https://a.b/c.png]\n[document of anthropic, not shown here]", images=["AAE="]
    )
    assert {repair.rule for repair in history.repairs_for("ollama")} == {
        "text", "image", "foreign-part", "reasoning",
    }  # fmt: skip


def test_images_travel_as_base64() -> None:
    """Bytes become base64, which the client takes as well; a path says nothing to others."""
    for image in (b"\x00\x01", bytearray(b"\x00\x01"), "AAE="):
        (item,) = parse([user(images=(image, "no/such.png"))], "ollama")
        assert item.parts == (  # type: ignore[union-attr]
            Text("q"), Image(None, "AAE="), Opaque("ollama", {"type": "image",
                                                             "image": "no/such.png"}),
        )  # fmt: skip
    crossed = repair_messages([user(images=["AAE=", "x.png"])], "ollama", "anthropic").messages
    assert [block["type"] for block in crossed[0]["content"]] == ["text", "image", "text"]
    kept = repair_messages([user(images=["AAE=", "x.png"], tool_calls=5)], "ollama").messages
    assert kept == [user(images=["AAE=", "x.png"])]


def test_thinking_goes_with_its_whole_turn_or_not_at_all(chat: Conversation) -> None:
    """A call that is left out takes it along; another provider never sees it."""
    chat.record_messages([user(), calling(call("a"), call("b"), thinking="hm"), result("a")],
                         "ollama")  # fmt: skip
    dropped = model_history(chat.events(), open_calls="drop")
    assert "hm" not in str(dropped.render("ollama"))
    assert "reasoning" in {repair.rule for repair in dropped.repairs_for("ollama")}
    answered = model_history(chat.events()).render("ollama")["messages"]
    assert answered[1]["thinking"] == "hm"
    assert "hm" not in str(model_history(chat.events()).render("openai"))
    mended = repair_messages([user(), calling(call("a", id="x"), thinking="hm")], "ollama")
    assert mended.messages[1]["thinking"] == "hm"


def test_errors_and_notes_are_told_in_the_text(chat: Conversation) -> None:
    """There is no flag for them."""
    chat.record_messages([user(), calling(call()), result(content="no", is_error=True),
                          calling(call()), result(x=1)], "ollama")  # fmt: skip
    shown = model_history(chat.events()).render("ollama")["messages"]
    assert shown[-1] == result(content="R\n[1 other attempt failed: no]", x=1)
    again = chat.request("g", {"b": 1})
    for n in (1, 2):
        attempt = chat.start(again.id)
        assert attempt is not None
        chat.fail(again.id, ValueError(f"no {n}"))
    every = model_history(chat.events(), collapse="none").render("ollama")["messages"]
    assert every[2] == result(content="no", is_error=True)
    assert every[-1]["content"] == '{"error":"no 2"}'
    kept = model_history(
        [*chat.events()], collapse="all"
    ).render("ollama")["messages"][2]["content"]  # fmt: skip
    assert kept == "R\n[1 other attempt failed: no]"


def test_a_tool_without_a_name_gets_one() -> None:
    """The same on both halves."""
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
def test_a_role_is_told_from_what_a_message_holds(message: Any, role: str) -> None:
    """Where it is missing or unknown."""
    (item,) = parse([message], "ollama")
    assert getattr(item, "role", "tool") == role


def test_what_is_no_form_of_ollamas_is_read_for_what_it_says() -> None:
    """Parts instead of text, arguments as text, junk."""
    given = [
        user([{"type": "text", "text": "one"}]),
        "", None, user(""),
        user(images=[5]),
        user(thinking=5),
        {"role": "assistant", "content": 5, "tool_calls": ["x", {"function": {"name": "f",
                                                               "arguments": '{"a": 1}'}}]},
        {"role": "function", "name": "f", "content": {"b": 2}},
        calling(call(arguments=None), {"name": "g", "arguments": "cut off"}),
        user(images="AAE=", tool_calls=[call()]),
    ]  # fmt: skip
    repaired = repair_messages(given, "ollama").messages
    assert validate(repaired, "ollama") == []
    assert [message["role"] for message in repaired] == [
        "user", "user", "user", "user", "assistant", "tool", "assistant", "tool", "tool", "user",
    ]  # fmt: skip
    assert repaired[4]["tool_calls"] == [call("f", {"a": 1})]
    assert repaired[5] == result("f", '{"b":2}')
    assert repaired[6]["tool_calls"][1] == call("g", {"raw_arguments": "cut off"})


def test_ollamas_own_objects_are_recorded(chat: Conversation) -> None:
    """What the client gives goes in as it is, and back."""
    ollama = pytest.importorskip("ollama", reason="ollama is not installed")
    function = ollama.Message.ToolCall.Function(name="f", arguments={"a": 1})
    message = ollama.Message(
        role="assistant", content="", thinking="hm",
        tool_calls=[ollama.Message.ToolCall(function=function)],
    )  # fmt: skip
    chat.record(ollama.Message(role="user", content="q", images=[ollama.Image(value=b"\x00")]),
                "ollama")  # fmt: skip
    (made,) = chat.record(ollama.ChatResponse(model="m", message=message, done=True), "ollama")
    assert made.provider_call_id is None
    chat.complete(made.id, "R")
    shown = model_history(chat.events()).render("ollama")["messages"]
    assert validate(shown, "ollama") == []
    assert shown == [user(images=["AA=="]), calling(call("f", {"a": 1}), thinking="hm"), result()]
    assert ollama.Message(**shown[1]) == message


def test_an_object_that_cannot_be_written_is_kept_readable(chat: Conversation) -> None:
    """The client looks for the file of an image when it writes a message; it may be gone."""
    ollama = pytest.importorskip("ollama", reason="ollama is not installed")
    chat.record(ollama.Message(role="user", content="q", images=[ollama.Image(value="no.png")]),
                "ollama")  # fmt: skip
    assert "no.png" in str(model_history(chat.events()).render("ollama"))
