"""A response of several items is stored as one message with its calls."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from eventstore import EventStore, MessageAdded, Text
from eventstore.append.conversation_state import ConversationState
from eventstore.domain.events import Event
from eventstore.providers.parsing import parse
from eventstore.providers.registry import PROVIDERS
from eventstore.providers.to_events import to_events
from projections import model_history


def call(number: int) -> dict[str, Any]:
    """Return an item that calls a function."""
    return {
        "type": "function_call",
        "id": f"fc_{number}",
        "call_id": f"call_{number}",
        "name": "look",
        "arguments": json.dumps({"at": number}),
        "status": "completed",
    }


def words(text: str) -> dict[str, Any]:
    """Return an item that says something."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {
        "type": "message",
        "id": f"msg_{text}",
        "role": "assistant",
        "status": "completed",
        "content": content,
    }


REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2ln"}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}}
CUSTOM = {"type": "custom_tool_call", "id": "ct_1", "call_id": "c1", "name": "sh", "input": "ls"}
UNREADABLE = {"type": "function_call", "call_id": "call_9", "name": "look", "arguments": "{"}

RESPONSES = {
    "calls": [call(0), call(1), call(2)],
    "reasoning": [REASONING, call(0), call(1)],
    "words": [words("a"), call(0), words("b"), call(1)],
    "server": [REASONING, SEARCH, words("a"), call(0), CUSTOM],
    "unreadable": [words("a"), UNREADABLE, call(1)],
    "text": [words("a")],
}


def item_by_item(output: list[Any]) -> list[Event]:
    """Return the events that a response was stored as before: a message for each item."""
    items = parse(output, "openai-responses")
    state = ConversationState("", 0)
    return to_events(items, state, dict, "openai-responses", imported=False).events


@pytest.mark.parametrize("name", RESPONSES)
def test_a_response_of_several_items_is_one_message(store: EventStore, name: str) -> None:
    """Its calls follow; the message has all items, in their order."""
    output = RESPONSES[name]
    chat = store.conversation("c")
    chat.add_message("user", "look")
    tools = chat.record({"id": "r1", "output": output}, "openai-responses")
    _, message, *others = (recorded.event for recorded in chat.events())
    assert isinstance(message, MessageAdded)
    assert message.native == output
    assert message.calls == len(tools)
    assert Counter(event.tag for event in others) == Counter(
        {"pending": len(tools)} | {"model_responded": 1}
    )


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("name", RESPONSES)
def test_a_response_of_an_older_log_is_shown_alike(
    store: EventStore, name: str, provider: str
) -> None:
    """There each item is a message of its own; the prompts are the same."""
    output = RESPONSES[name]
    new, old = store.conversation("new"), store.conversation("old")
    new.add_message("user", "look")
    old.add_message("user", "look")
    new.record({"id": "r1", "output": output}, "openai-responses", usage=False)
    old.append(*item_by_item(output))
    for chat in (new, old):
        for tool in chat.tools.values():
            if tool.call.raw is None:
                chat.start(tool.id)
                chat.complete(tool.id, "seen")
    shown = [model_history(chat.events()).render(provider) for chat in (new, old)]
    assert shown[0] == shown[1]


def test_a_further_piece_is_added_to_a_message() -> None:
    """The provider's own form goes back as it is only while all pieces have their items."""
    first = MessageAdded("assistant", (Text("a"),), 1, 1, "openai-responses", [words("a")], True)
    more = MessageAdded("assistant", (Text("b"),), 1, 2, "openai-responses", [words("b")], True)
    whole = first.continued_by(more)
    assert (whole.parts, whole.calls, whole.exact) == ((Text("a"), Text("b")), 3, True)
    assert whole.native == [words("a"), words("b")]
    without = first.continued_by(MessageAdded("assistant", (), 1))
    assert (without.native, without.exact) == (None, False)
