"""A conversation of 100,000 events is opened: would a snapshot of its state be worth it?

append: the first append of a store that was just opened; every event is read, decoded and folded
into the state that appends are checked against. tools: `chat.tools`, which reads the whole
conversation each time. next append: the state is in memory; it is measured beside that of a
conversation of one event.

Driver: the rows of the conversation, the same columns, through a cursor of the same module; each
row is a tuple that is thrown away. Nothing that is rebuilt from the log can be faster.

They work in turn, in CPU time, on one thread; a ratio is the driver's time divided by ours, the
median over the rounds.
"""

from __future__ import annotations

import gc
import time
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import bare
import logs
from measure import Clock, Figure, arguments, folder, median, report, timed

from eventstore import Conversation, EventStore

NEXT = 25
"""The appends of which the fastest counts."""


def grow(path: Path, events: int) -> None:
    """Write the conversation."""
    with EventStore.open(logs.url(path), durability="normal") as store:
        chat, source = store.conversation("long"), logs.endless_conversation(0)
        for start in range(0, events, logs.EVENTS_PER_APPEND):
            chat.append(*islice(source, min(logs.EVENTS_PER_APPEND, events - start)))


def read(connection: Any) -> int:
    """Read every row; return their number."""
    statement = f"{bare.READ} WHERE lane = 0 AND conversation = 1 ORDER BY version"
    return sum(1 for _ in connection.execute(statement))


class Times(NamedTuple):
    """Seconds of each piece of work."""

    first: float
    driver: float
    tools: float
    next_of_long: float
    next_of_short: float


def opened(path: Path, connection: Any, now: Clock) -> Times:
    """Open the store; return what the work on its conversation takes."""
    gc.collect()
    with EventStore.open(logs.url(path)) as store:
        chat = store.conversation("long")
        first = timed(now, lambda: chat.add_message("user", "and now?"))
        driver = timed(now, lambda: read(connection))
        tools = timed(now, lambda: chat.tools)
        short = store.conversation("short")
        short.add_message("user", "hello")
        next_of_short = min(timed(now, partial(say, short)) for _ in range(NEXT))
        next_of_long = min(timed(now, partial(say, chat)) for _ in range(NEXT))
        return Times(first, driver, tools, next_of_long, next_of_short)


def say(chat: Conversation) -> None:
    """Append a message."""
    chat.add_message("user", "so?")


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__, events=100_000, rounds=5)
    events = options.events or 100_000
    rounds = options.rounds or (3 if options.quick else 5)
    with folder() as scratch:
        path = Path(scratch) / "log.db"
        grow(path, events)
        connection = bare.connect(path)
        assert read(connection) == events
        times = [opened(path, connection, time.process_time) for _ in range(rounds)]
        connection.close()
    first = median(one.driver / one.first for one in times)
    tools = median(one.driver / one.tools for one in times)
    grown = median(one.next_of_long / one.next_of_short for one in times)
    us = 1e6 / events
    found = [
        Figure("append: driver / library", first, "", 0.5, floor=True),
        Figure("tools: driver / library", tools, "", 0.5, floor=True),
        Figure("next append / that of a short conversation", grown, "", 1.2),
        Figure("append: library", median(one.first for one in times) * us, "µs/event"),
        Figure("tools: library", median(one.tools for one in times) * us, "µs/event"),
        Figure("driver", median(one.driver for one in times) * us, "µs/event"),
    ]
    report(__file__, options, found)


if __name__ == "__main__":
    main()
