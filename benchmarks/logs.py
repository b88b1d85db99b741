"""Logs to read: conversations of tool calls, written by the library itself."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import measure  # noqa: F401 - puts this checkout on the path

from eventstore import (
    ErrorKind,
    Event,
    EventStore,
    Failure,
    FunctionCall,
    FunctionResponse,
    MessageAdded,
    Text,
    ToolApproved,
    ToolCompleted,
    ToolFailed,
    ToolPending,
    ToolRejected,
    ToolRunning,
)

INTERLEAVED_CONVERSATIONS = 10
"""Conversations whose events are mixed in the log, as if that many agents worked at a time."""

EVENTS_PER_APPEND = 100
"""Events of one append."""

_TOOLS = ("search_orders", "read_file", "http_get", "run_query")


def url(path: Path | str) -> str:
    """Return the URL of a store in a file, or the URL that is given."""
    return path if isinstance(path, str) else f"sqlite:///{path}"


def grow(path: Path | str, conversations: int, events: int, first: int = 0) -> int:
    """Write that many conversations of `events` events each; return the number of all events.

    `first` is the number of the first conversation.
    """
    with EventStore.open(url(path), durability="normal") as store:
        for start in range(first, first + conversations, INTERLEAVED_CONVERSATIONS):
            group = range(start, min(start + INTERLEAVED_CONVERSATIONS, first + conversations))
            sources = {number: islice(endless_conversation(number), events) for number in group}
            while sources:
                for number, source in list(sources.items()):
                    piece = list(islice(source, EVENTS_PER_APPEND))
                    store.conversation(f"conversation-{number}").append(*piece)
                    if len(piece) < EVENTS_PER_APPEND:
                        del sources[number]
    return conversations * events


def endless_conversation(number: int) -> Iterator[Event]:
    """Yield the events of one conversation without end: messages, and calls with every outcome."""
    turn = 0
    serial = 0
    while True:
        asked = f"Case {number}-{turn}: the customer says that an order has not come. Please look."
        yield MessageAdded("user", (Text(asked),))
        for _ in range(4):
            turn += 1
            said = "Let me look at the customer's orders first, and at what was shipped when."
            yield MessageAdded("assistant", (Text(said),), turn, calls=2)
            for index in range(2):
                yield from call(number, serial, turn, index)
                serial += 1
        turn += 1
        answer = (
            f"The order of case {number}-{turn} left the warehouse this morning and is on its way. "
            "It should be there in two days; the customer has been told, and nothing is left to do."
        )
        yield MessageAdded("assistant", (Text(answer),), turn)


def call(number: int, serial: int, turn: int, index: int) -> Iterator[Event]:
    """Yield one call's events: most complete, some need approval or a retry, a few are refused."""
    call_id = f"call_{number:012x}{serial:012x}"
    name = _TOOLS[serial % len(_TOOLS)]
    arguments = {"customer": f"c-{number:06}", "query": f"status:{serial}", "limit": 20}
    yield ToolPending(FunctionCall(name, arguments, call_id), call_id, turn, index)
    if serial % 10 == 7:  # one in ten
        yield ToolRejected(call_id, "not during office hours", "human", "ada")
        return
    if serial % 5 == 0:
        yield ToolApproved(call_id, None, "ada")
    attempt = 1
    if serial % 8 == 3:  # one in eight
        yield ToolRunning(call_id, attempt, arguments)
        failure = Failure(ErrorKind.TRANSIENT, "connection reset by peer", http_status=502)
        yield ToolFailed(call_id, failure, attempt, 10_250_000, 1_000_000)
        attempt = 2
    yield ToolRunning(call_id, attempt, arguments)
    yield ToolCompleted(
        call_id, FunctionResponse(name, result(number, serial), call_id), attempt, 181_402
    )


def result(number: int, serial: int) -> Any:
    """Return the answer of a tool."""
    return {
        "orders": [
            {"id": f"A-{number}-{serial}", "status": "shipped", "total": 129.9, "items": 3},
            {"id": f"B-{number}-{serial}", "status": "open", "total": 18.5, "items": 1},
        ],
        "next": None,
    }
