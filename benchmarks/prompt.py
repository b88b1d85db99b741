"""The next prompt of a conversation of 50 calls, inside a short log and inside a long one.

Library: `model_history(chat.events()).render("openai")`: the conversation is read from the store,
folded, repaired and rendered. It is measured inside logs of 10,000 and of 1,000,000 events, with
the conversation's own events spread over the whole log. The ratio is the long log's time divided
by the short one's: what a prompt costs must not depend on what else is in the log. The fold alone
is `model_history` over events that were read before, without rendering.

Floor: the driver's read of the conversation's rows, and `json.loads` of their payloads.

Again: `model_history(chat).render("openai")` by a handle that has made a prompt before, after one
more event. The ratio is its time divided by that of the handle's first prompt, which reads all.

Both logs are read in turn; the clock is CPU time, the figures are medians.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import bare
import logs
from measure import Figure, arguments, folder, in_turn, median, report, timed

from eventstore import Conversation, Event, EventStore, ToolPending
from projections import model_history

EVENTS_PER_CONVERSATION = 1000
"""Events of each other conversation."""

CALLS = 50
GROWN = 50
"""The most events that the conversation grows by."""

APPENDS = 10
"""The appends that write the conversation, spread over the log."""


def conversation() -> list[Event]:
    """Return the events of a conversation with 50 calls, up to the last call's end."""
    events: list[Event] = []
    calls = 0
    for event in logs.endless_conversation(0):
        calls += type(event) is ToolPending
        if calls > CALLS:
            return events
        events.append(event)
    return events


def log(path: Path, events: int) -> Conversation:
    """Return the conversation inside a log of `events` events."""
    own = conversation()
    size = -(-len(own) // APPENDS)
    others = max(1, events // EVENTS_PER_CONVERSATION // APPENDS)
    for number, first in enumerate(range(0, len(own), size)):
        with EventStore.open(logs.url(path)) as store:
            store.conversation("ours").append(*own[first : first + size])
        logs.grow(path, others, EVENTS_PER_CONVERSATION, first=number * others)
    return EventStore.open(logs.url(path)).conversation("ours")


def first_and_again(path: Path, events: Iterator[Event]) -> Iterator[tuple[float, float]]:
    """Yield the times of a handle's first prompt, and of the next after each of `events`."""
    now = time.process_time
    with EventStore.open(logs.url(path)) as store:
        for event in events:
            chat = store.conversation("ours")
            first = timed(now, partial(kept_prompt, chat))
            chat.append(event)
            again = timed(now, partial(kept_prompt, chat))
            assert kept_prompt(chat) == prompt(chat)
            yield first, again


def prompt(chat: Conversation) -> object:
    """Return what is sent to the model next."""
    return model_history(chat.events()).render("openai")


def kept_prompt(chat: Conversation) -> object:
    """Return the same, from what the handle keeps."""
    return model_history(chat).render("openai")


def read_and_parsed(connection: Any, key: tuple[int]) -> int:
    """Read the conversation's rows and parse their payloads; return their number."""
    statement = f"{bare.READ} WHERE lane = 0 AND conversation = ? ORDER BY version"
    return len([json.loads(row[-1]) for row in connection.execute(statement, key)])


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__, events=1_000_000, rounds=201)
    large = options.events or (100_000 if options.quick else 1_000_000)
    rounds = options.rounds or (41 if options.quick else 201)
    now = time.process_time
    with folder() as name:
        short = log(Path(name) / "short.db", 10_000)
        long = log(Path(name) / "long.db", large)
        assert prompt(short) == prompt(long)
        times = [
            in_turn(now, lambda: prompt(short), lambda: prompt(long), first=number)
            for number in range(rounds)
        ]
        connection = bare.connect(Path(name) / "short.db")
        found = "SELECT conversation FROM toolledger_conversations WHERE conversation_id = 'ours'"
        read = partial(read_and_parsed, connection, connection.execute(found).fetchone())
        events = list(short.events())
        assert read() == len(events)
        floors = [in_turn(now, partial(prompt, short), read, first=n) for n in range(rounds)]
        connection.close()
        folds = [timed(now, lambda: model_history(events)) for _ in range(rounds)]
        more = islice(logs.endless_conversation(0), len(events), len(events) + min(rounds, GROWN))
        kept = list(first_and_again(Path(name) / "short.db", more))
    report(
        __file__,
        options,
        [
            Figure("prompt / json.loads and read", median(a / b for a, b in floors), "times", 2),
            Figure(f"{large:,} events / 10,000 events", median(b / a for a, b in times), "", 1.2),
            Figure("in 10,000 events", median(a for a, _ in times) * 1e3, "ms"),
            Figure(f"in {large:,} events", median(b for _, b in times) * 1e3, "ms"),
            Figure("again / first", median(b / a for a, b in kept), "", 0.1),
            Figure("the first of a handle", median(a for a, _ in kept) * 1e3, "ms"),
            Figure("again, after one more event", median(b for _, b in kept) * 1e3, "ms"),
            Figure(f"the fold alone ({len(events)} events)", median(folds) * 1e3, "ms"),
        ],
    )


if __name__ == "__main__":
    main()
