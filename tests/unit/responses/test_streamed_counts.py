"""What a stream has given stands: counts before null, 0 or nothing, and pieces of custom calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support import sse

from eventstore import Conversation, Failed, ModelResponded, recording, validate
from projections import model_history

Events = list[dict[str, Any]]


def used(chat: Conversation) -> tuple[int | None, int | None, int | None]:
    """Return what the last response used: tokens read, written, and read from a cache."""
    found = [r.event.usage for r in chat.events() if isinstance(r.event, ModelResponded)]
    assert found[-1] is not None
    return found[-1].input_tokens, found[-1].output_tokens, found[-1].cached_tokens


@pytest.mark.parametrize(
    "later",
    [
        {"output_tokens": 9},
        {"output_tokens": 9, "input_tokens": None, "cache_read_input_tokens": None},
        {"output_tokens": 9, "input_tokens": 0, "cache_read_input_tokens": 0},
        {"output_tokens": 9, "input_tokens": 25, "cache_read_input_tokens": 70},
    ],
)
@pytest.mark.parametrize("again", [False, True])
def test_later_counts_of_anthropics_form_take_nothing_back(
    chat: Conversation, later: dict[str, Any], again: bool
) -> None:
    """Servers that speak its protocol give null or 0 for what `message_start` had."""
    events = sse.anthropic_events()
    events[0]["message"]["usage"] = {
        "input_tokens": 25,
        "output_tokens": 1,
        "cache_read_input_tokens": 70,
    }
    events[-2]["usage"] = later
    if again:  # a last delta with nothing in it
        nothing = {"stop_reason": None, "stop_sequence": None}
        events.insert(-1, {"type": "message_delta", "delta": nothing, "usage": None})
    with recording(iter(events), chat, "anthropic") as response:
        list(response)
    assert not response.broken_off
    assert used(chat) == (95, 9, 70)


def test_later_counts_of_a_completion_take_nothing_back(chat: Conversation) -> None:
    """Some servers send counts with each chunk, and null or 0 at the end."""
    events = sse.chat_chunks(calls=False)
    events[-1]["usage"] = {
        "prompt_tokens": 25,
        "completion_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 7},
    }
    nothing = {"prompt_tokens": 0, "completion_tokens": None, "prompt_tokens_details": None}
    events += [{**events[-1], "choices": [], "usage": nothing}]
    with recording(iter(events), chat, "openai") as response:
        list(response)
    assert used(chat) == (25, 9, 7)


def custom_call() -> Events:
    """Return the chunks of a completion that calls a custom tool, and a function."""
    head, *_, end = sse.chat_chunks()

    def chunk(call: dict[str, Any]) -> dict[str, Any]:
        choice = {"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}
        return {**head, "choices": [choice]}

    custom = {"id": "call_1", "type": "custom", "custom": {"name": "shell", "input": ""}}
    function = {"name": "find", "arguments": "{}"}
    return [
        head,
        chunk({"index": 0, **custom}),
        chunk({"index": 0, "custom": {"input": "ls "}}),
        chunk({"index": 0, "custom": {"input": "-l"}}),
        chunk({"index": 1, "id": "call_2", "type": "function", "function": function}),
        end,
    ]


def called(chat: Conversation) -> Iterator[dict[str, Any]]:
    """Yield the calls of the next prompt, which is valid."""
    messages = model_history(chat.events()).render("openai")["messages"]
    assert validate(messages, "openai") == []
    for message in messages:
        yield from message.get("tool_calls", ())


def test_a_streamed_custom_call_is_the_one_of_the_whole_message(chat: Conversation) -> None:
    """Each call has the members of the wire alone, by the SDK's chunks and by dicts."""
    for stream in (iter(custom_call()), sse.open_stream("openai", custom_call())):
        with recording(stream, chat, "openai") as chunks:
            list(chunks)
        assert [tool.call.name for tool in chunks.tools] == ["shell", "find"]
    custom = {"name": "shell", "input": "ls -l"}
    first, second, *_ = called(chat)
    assert first == {"id": "call_1", "type": "custom", "custom": custom}
    assert second["function"] == {"name": "find", "arguments": "{}"}
    assert set(second) == {"id", "type", "function"}


@pytest.mark.parametrize("count", range(2, 6))
def test_a_custom_call_that_is_cut_keeps_what_came(chat: Conversation, count: int) -> None:
    """The call fails without having run, and has no member of a function."""
    with recording(iter(custom_call()[:count]), chat, "openai") as chunks:
        list(chunks)
    assert chunks.broken_off
    assert all(isinstance(tool.status, Failed) for tool in chunks.tools)
    first = next(called(chat))
    assert set(first) == {"id", "type", "custom"}
    assert "ls -l".startswith(first["custom"]["input"])
