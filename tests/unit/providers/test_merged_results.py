"""A user message with the results of several calls goes back unchanged, or is rebuilt whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from eventstore import Conversation, EventStore, MessageAdded, Text, ToolCompleted, validate
from eventstore.providers import PROVIDERS, list_key
from projections import History, model_history, repair_messages

Message = dict[str, Any]


def anthropic(*order: str, **more: Any) -> list[Message]:
    """Return two calls and one message with their results, in this order."""
    calls = [{"type": "tool_use", "id": name, "name": "f", "input": {}} for name in "ab"]
    results = [
        {"type": "tool_result", "tool_use_id": name, "content": f"R{name}"} for name in order
    ]
    return [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": calls},
        {"content": [*results, *more.get("said", [])], "role": "user"},
    ]


def bedrock(*order: str, **more: Any) -> list[Message]:
    """Return the same for Converse."""
    calls = [{"toolUse": {"toolUseId": name, "name": "f", "input": {}}} for name in "ab"]
    results = [
        {"toolResult": {"toolUseId": name, "content": [{"text": f"R{name}"}]}} for name in order
    ]
    return [
        {"role": "user", "content": [{"text": "q"}]},
        {"role": "assistant", "content": calls},
        {"content": [*results, *more.get("said", [])], "role": "user"},
    ]


def gemini(*order: str, **more: Any) -> list[Message]:
    """Return the same for Gemini, whose model signed the first call."""
    calls: list[Any] = [{"functionCall": {"id": name, "name": "f", "args": {}}} for name in "ab"]
    calls[0]["thoughtSignature"] = "c2ln"
    results = [
        {"functionResponse": {"id": name, "name": "f", "response": {"output": f"R{name}"}}}
        for name in order
    ]
    return [
        {"role": "user", "parts": [{"text": "q"}]},
        {"role": "model", "parts": calls},
        {"parts": [*results, *more.get("said", [])], "role": more.get("role", "function")},
    ]


WIRES: dict[str, Callable[..., list[Message]]] = {
    "anthropic": anthropic,
    "bedrock": bedrock,
    "gemini": gemini,
}
SAID = {
    "anthropic": [{"type": "text", "text": "and now?"}],
    "bedrock": [{"text": "and now?"}],
    "gemini": [{"text": "and now?"}],
}


def shown(chat: Conversation, provider: str, **options: Any) -> list[Message]:
    """Return the messages that a provider is shown next."""
    history = model_history(chat.events(), **options)
    found: list[Message] = history.render(provider)[list_key(provider)]
    assert validate(found, provider) == []
    return found


@pytest.mark.parametrize("way", ["record_messages", "import_messages", "record"])
@pytest.mark.parametrize("order", ["ab", "ba"])
@pytest.mark.parametrize("provider", WIRES)
def test_results_go_back_in_the_order_of_their_message(
    chat: Conversation, provider: str, order: str, way: str
) -> None:
    """Their members go back, too; other providers get the results in call order."""
    messages = WIRES[provider](*order)
    if way == "record":
        for message in messages:
            chat.record(message, provider)
    else:
        getattr(chat, way)(messages, provider)
    assert json.dumps(shown(chat, provider)) == json.dumps(messages)
    assert model_history(chat.events()).repairs_for(provider) == []
    for other in PROVIDERS:
        reported = json.dumps(shown(chat, other))
        assert other == provider or reported.index("Ra") < reported.index("Rb")


@pytest.mark.parametrize("provider", ["anthropic", "bedrock"])
def test_text_beside_results_stays_with_them(chat: Conversation, provider: str) -> None:
    """Every provider gets the text once."""
    messages = WIRES[provider]("b", "a", said=SAID[provider])
    chat.record_messages(messages, provider)
    assert json.dumps(shown(chat, provider)) == json.dumps(messages)
    for other in PROVIDERS:
        assert json.dumps(shown(chat, other)).count("and now?") == 1


def test_text_stands_before_results_where_it_did(chat: Conversation) -> None:
    """Converse accepts text before results."""
    messages = bedrock("b", "a")
    messages[2]["content"].insert(1, {"text": "and"})
    chat.record_messages(messages, "bedrock")
    assert shown(chat, "bedrock") == messages


@pytest.mark.parametrize("provider", ["anthropic", "bedrock"])
def test_results_outside_a_user_message_move_into_one(provider: str) -> None:
    """A system message cannot hold results."""
    messages = WIRES[provider]("b", "a")
    messages[2]["role"] = "system"
    repaired = repair_messages(messages, provider)
    assert validate(repaired.messages, provider) == []
    assert [message["role"] for message in repaired.messages] == ["user", "assistant", "user"]


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_an_invalid_block_is_not_taken_for_a_result(role: str) -> None:
    """The block is left out, and the message is rebuilt."""
    content = [None, {"text": "so"}]
    given = [{"role": "user", "content": [{"text": "q"}]}, {"role": role, "content": content}]
    repaired = repair_messages(given, "bedrock")
    assert validate(repaired.messages, "bedrock") == []
    assert repaired.messages[1]["content"] == [{"text": "so"}]


def test_text_before_results_moves_after_them(chat: Conversation) -> None:
    """Anthropic refuses text before results."""
    messages = anthropic("b", "a")
    messages[2]["content"].insert(0, {"type": "text", "text": "and"})
    chat.record_messages(messages, "anthropic")
    blocks = shown(chat, "anthropic")[2]["content"]
    assert [block["type"] for block in blocks] == ["tool_result", "tool_result", "text"]


def test_gemini_gets_text_beside_results_in_its_own_content(chat: Conversation) -> None:
    """Some of its models refuse text beside responses; the change is listed."""
    messages = gemini("b", "a", said=SAID["gemini"])
    chat.record_messages(messages, "gemini")
    reported = shown(chat, "gemini")
    assert [len(content["parts"]) for content in reported[2:]] == [2, 1]
    assert "GE08" in {each.rule for each in model_history(chat.events()).repairs_for("gemini")}


def test_results_that_came_one_by_one_are_in_call_order(chat: Conversation) -> None:
    """Such results were not one message, so their order is free."""
    messages = anthropic("b", "a")
    chat.record_messages(messages[:2], "anthropic")
    chat.complete("b", "Rb")
    chat.complete("a", "Ra")
    blocks = shown(chat, "anthropic")[2]["content"]
    assert [block["tool_use_id"] for block in blocks] == ["a", "b"]


def test_a_message_with_some_of_the_results_is_rebuilt(chat: Conversation) -> None:
    """A result that the log adds stands in call order."""
    messages = anthropic("b", said=SAID["anthropic"])
    chat.record_messages(messages, "anthropic")
    blocks = shown(chat, "anthropic")[2]["content"]
    assert [block.get("tool_use_id") for block in blocks] == ["a", "b", None]


@pytest.mark.parametrize(
    "last",
    [
        pytest.param(anthropic("b", "b", "a")[2], id="a result twice"),
        pytest.param(anthropic("b", "a", "c")[2], id="a result of no call"),
    ],
)
def test_a_message_that_was_wrong_does_not_go_back(chat: Conversation, last: Message) -> None:
    """The message is rebuilt."""
    chat.record_messages([*anthropic()[:2], last], "anthropic")
    blocks = shown(chat, "anthropic")[2]["content"]
    assert [block.get("tool_use_id") for block in blocks[:2]] == ["a", "b"]


def test_the_results_of_two_turns_are_separated(chat: Conversation) -> None:
    """Each result stands after its own turn."""
    first, second = anthropic("a", "b"), anthropic("c")
    second[1]["content"] = [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]
    late = anthropic("c", "b", "a")[2]
    chat.record_messages([*first[:2], second[1], late], "anthropic")
    reported = shown(chat, "anthropic")
    assert [[b["tool_use_id"] for b in m["content"]] for m in (reported[2], reported[4])] == [
        ["a", "b"],
        ["c"],
    ]


def test_a_later_result_takes_its_place_in_the_message(chat: Conversation) -> None:
    """The result replaces an earlier failure in the same place."""
    messages = anthropic("b", "a")
    messages[2]["content"][0]["is_error"] = True
    chat.record_messages(messages, "anthropic")
    chat.complete("b", "at last")
    blocks = shown(chat, "anthropic")[2]["content"]
    assert [(block["tool_use_id"], block["content"]) for block in blocks] == [
        ("b", "at last"),
        ("a", "Ra"),
    ]


def test_a_message_of_results_is_not_a_turn(chat: Conversation) -> None:
    """Windows and explanations do not count it."""
    chat.record_messages(
        [*anthropic("b", "a"), {"role": "assistant", "content": "so"}], "anthropic"
    )
    history = model_history(chat.events())
    assert [turn.role for turn in history.turns] == ["user", "assistant", "assistant"]
    assert history.explain().startswith("3 turns, 2 calls")
    assert shown(chat, "anthropic", last_turns=1)[-2] == {"role": "assistant", "content": "so"}


def test_our_own_form_is_not_stored(chat: Conversation) -> None:
    """Results in call order need no copy of the message."""
    messages = anthropic("a", "b")
    messages[2] = {"role": "user", "content": messages[2]["content"]}
    chat.record_messages(messages, "anthropic")
    tags = [recorded.event.tag for recorded in chat.events()]
    assert tags == ["message", "message", "pending", "pending", "completed", "completed"]


@pytest.mark.parametrize("native", [None, 5, {"content": 5}, {"role": "user", "content": [None]}])
def test_a_damaged_message_of_results_is_rebuilt(native: Any) -> None:
    """The stored form of the message may be wrong."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        chat.record_messages(anthropic("a", "b")[:2], "anthropic")
        chat.complete("a", "Ra")
        chat.complete("b", "Rb")
        ids = {"provider": "anthropic", "native": native, "exact": True, "joined": True}
        chat.append(MessageAdded("tool", results=("b", "a"), **ids))
        blocks = shown(chat, "anthropic")[2]["content"]
    assert [block["tool_use_id"] for block in blocks] == ["b", "a"]


def test_a_message_of_results_of_unknown_calls_says_nothing() -> None:
    """Such a message stands in a log that lost events."""
    history = History()
    history.take(MessageAdded("tool", results=("x",), provider="anthropic", exact=True), 1)
    history.take(MessageAdded("user", (Text("and?"),), results=("x",), joined=True), 2)
    assert history.view().render("anthropic")["messages"] == [{"role": "user", "content": "and?"}]


def test_an_event_between_keeps_the_text_apart_from_its_results(chat: Conversation) -> None:
    """The results stand after their calls, and the text where it was said."""
    messages = anthropic("b", "a", said=SAID["anthropic"])
    messages.insert(2, {"role": "user", "content": "hurry"})
    chat.record_messages(messages, "anthropic")
    reported = json.dumps(shown(chat, "anthropic"))
    assert (
        reported.index("Ra")
        < reported.index("Rb")
        < reported.index("hurry")
        < reported.index("and now?")
    )
    assert {type(r.event) for r in chat.events()} >= {ToolCompleted}
