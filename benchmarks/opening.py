"""A conversation of 100,000 events is opened: would a snapshot of its state be worth it?

append: the first append of a store that was just opened; every event is read, decoded and folded
into the state that appends are checked against. tools: `chat.tools`, which reads the whole
conversation each time. next append: the state is in memory.

Driver: the rows of the conversation, the same columns, through a cursor of the same module; each
row is a tuple that is thrown away. Nothing that is rebuilt from the log can be faster.

They work in turn, in CPU time, on one thread; a ratio is the driver's time divided by ours, the
median over the rounds.
"""

from __future__ import annotations

import gc
import time
from itertools import islice
from pathlib import Path
from typing import Any

import bare
import logs
from measure import Clock, Figure, arguments, folder, median, report, timed

from eventstore import EventStore


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


def opened(path: Path, connection: Any, now: Clock) -> tuple[float, float, float, float]:
    """Return the seconds of the first append, the bare read, the tools and the next append."""
    gc.collect()
    with EventStore.open(logs.url(path)) as store:
        chat = store.conversation("long")
        first = timed(now, lambda: chat.add_message("user", "and now?"))
        driver = timed(now, lambda: read(connection))
        tools = timed(now, lambda: chat.tools)
        return first, driver, tools, timed(now, lambda: chat.add_message("user", "so?"))


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
    found = []
    for name, column in (("append", 0), ("tools", 2)):
        seconds = median(one[column] for one in times)
        ratio = median(one[1] / one[column] for one in times)
        found += [
            Figure(f"{name}: {events:,} events", seconds, "s", 1),
            Figure(f"{name}: driver / library", ratio),
        ]
    found.append(Figure("driver", median(one[1] for one in times), "s"))
    found.append(Figure("next append", median(one[3] for one in times) * 1e3, "ms"))
    report(__file__, options, found)


if __name__ == "__main__":
    main()
