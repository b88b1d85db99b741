"""Read models rebuilt from a long log, against the bare read of the same rows.

Library: `current_tools` over each conversation's events, one conversation after the other, and
over the whole feed; `error_statistics` over the feed. Every event is read, decoded and folded.

Driver: the same rows, the same columns, in the same order, through a cursor of the same module;
each row is a tuple that is thrown away. By conversation that is one SELECT for each.

Both work in turn, in CPU time, on one thread; a ratio is the driver's time divided by the
library's, the median over the rounds. Peak memory is what a new process adds to what it held once
the store was open, by `VmHWM` (elsewhere `ru_maxrss`), for the rebuild by conversation.
"""

from __future__ import annotations

import gc
import resource
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import bare
import logs
from measure import Figure, arguments, folder, in_subprocess, in_turn, median, report

from eventstore import EventStore
from projections import current_tools, error_statistics

EVENTS_PER_CONVERSATION = 1000
"""Events of a conversation."""

LEAST_RATIO = 0.5
"""Driver's time divided by the library's."""


def by_conversation(store: EventStore) -> int:
    """Rebuild the tools of one conversation after the other; return their number."""
    calls = 0
    for conversation_id, _ in store.conversations():
        calls += len(current_tools(store.conversation(conversation_id).events()))
    return calls


def by_feed(store: EventStore) -> int:
    """Rebuild the tools of all conversations in one go; return their number."""
    return len(current_tools(store.read()))


def statistics(store: EventStore) -> int:
    """Rebuild the error statistics; return the number of their calls."""
    return error_statistics(store.read()).overall.calls


def read_by_conversation(connection: Any) -> int:
    """Read every row, one conversation after the other; return their number."""
    found = connection.execute("SELECT conversation FROM toolledger_conversations")
    statement = f"{bare.READ} WHERE lane = 0 AND conversation = ? ORDER BY version"
    rows = 0
    for key in found.fetchall():
        for _ in connection.execute(statement, key):
            rows += 1
    return rows


def read_by_feed(connection: Any) -> int:
    """Read every row in the order of the feed; return their number."""
    rows = 0
    for _ in connection.execute(f"{bare.READ} WHERE lane = 0 ORDER BY position"):
        rows += 1
    return rows


def figures(path: Path, events: int, rounds: int) -> list[Figure]:
    """Return the figures of the rebuilds and of the bare reads."""
    found = []
    connection = bare.connect(path)
    with EventStore.open(logs.url(path)) as store:
        for name, ours, theirs in (
            ("by conversation", by_conversation, read_by_conversation),
            ("over the feed", by_feed, read_by_feed),
            ("statistics", statistics, read_by_feed),
        ):
            assert theirs(connection) == events
            assert ours(store) > events // 10
            times = []
            for number in range(rounds):
                gc.collect()
                times.append(
                    in_turn(
                        time.process_time,
                        partial(ours, store),
                        partial(theirs, connection),
                        first=number,
                    )
                )
            ratio, us = median(b / a for a, b in times), 1e6 / events
            found += [
                Figure(f"{name}: driver / library", ratio, "", LEAST_RATIO, floor=True),
                Figure(f"{name}: library", median(a for a, _ in times) * us, "µs/event"),
                Figure(f"{name}: driver", median(b for _, b in times) * us, "µs/event"),
            ]
    connection.close()
    return found


def memory_mb(field: str) -> float:
    """Return this process's memory in MB: `VmRSS` now, `VmHWM` at its peak."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(one for one in status.read_text().splitlines() if one.startswith(field))
        return int(line.split()[1]) / 1024
    unit = 1024 * 1024 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def growth(name: str) -> float:
    """Return by how many MB a rebuild by conversation raises this process's peak memory."""
    path = Path(name)
    with EventStore.open(logs.url(path)) as store:
        before = memory_mb("VmRSS")
        by_conversation(store)
        return memory_mb("VmHWM") - before


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__, events=1_000_000, rounds=5)
    events = options.events or (100_000 if options.quick else 1_000_000)
    rounds = options.rounds or (3 if options.quick else 5)
    with folder() as name:
        path = Path(name) / "log.db"
        events = logs.grow(path, -(-events // EVENTS_PER_CONVERSATION), EVENTS_PER_CONVERSATION)
        found = figures(path, events, rounds)
        found.append(
            Figure(
                "by conversation: peak memory",
                in_subprocess(f"rebuild.growth({str(path)!r})"),
                "MB",
                10,
            )
        )
    report(__file__, options, found)


if __name__ == "__main__":
    main()
