"""Error statistics of a long log, kept in SQL tables, against the bare read of the same rows.

Library: `Projector.catch_up` from an empty database: every event is read, decoded and folded, and
the counters are stored with the checkpoint, batch by batch, in another SQLite file.

Driver: the same rows, the same columns, in the order of the feed, through a cursor of the same
module; each row is a tuple that is thrown away.

In memory: `error_statistics` over the feed of the same log, which stores nothing.

All work in turn, in CPU time, on one thread; a ratio is the other's time divided by the
projector's, the median over the rounds. Peak memory is what a new process adds to what it held once
the log was open.
"""

from __future__ import annotations

import gc
import time
from pathlib import Path

import bare
import logs
import msgspec
from measure import Figure, arguments, folder, in_subprocess, in_turn, median, report, timed
from rebuild import memory_mb, read_by_feed

from eventstore import EventStore
from projections import Projector, error_statistics

EVENTS_PER_CONVERSATION = 1000
"""Events of a conversation."""


def project(store: EventStore, tables: Path) -> int:
    """Project the whole log into a new database; return the number of events."""
    for end in ("", "-wal", "-shm"):
        tables.with_name(tables.name + end).unlink(missing_ok=True)
    with Projector(store, f"sqlite:///{tables}", views=["statistics"]) as projector:
        return projector.catch_up()


def figures(path: Path, events: int, rounds: int) -> list[Figure]:
    """Return the figures of the projection and of both reads."""
    tables = path.with_name("tables.db")
    connection = bare.connect(path)
    with EventStore.open(logs.url(path)) as store:
        assert project(store, tables) == events
        with Projector(store, f"sqlite:///{tables}") as projector:
            assert projector.statistics().overall == _rounded(store, projector)
        times, driver = [], []
        for number in range(rounds):
            gc.collect()
            times.append(
                in_turn(
                    time.process_time,
                    lambda: project(store, tables),
                    lambda: error_statistics(store.read()),
                    first=number,
                )
            )
            driver.append(timed(time.process_time, lambda: read_by_feed(connection)))
    connection.close()
    ratio, us = median(b / a for (a, _), b in zip(times, driver, strict=True)), 1e6 / events
    return [
        Figure("driver / library", ratio, "", 0.4, floor=True),
        Figure("library", median(a for a, _ in times) * us, "µs/event"),
        Figure("driver", median(driver) * us, "µs/event"),
        Figure("in memory / projected", median(b / a for a, b in times)),
        Figure("in memory", median(b for _, b in times) * us, "µs/event"),
        Figure("tables", tables.stat().st_size / events, "B/event"),
    ]


def _rounded(store: EventStore, projector: Projector) -> object:
    """Return the numbers in memory with the percentiles of the tables, which are rounded."""
    found, wanted = projector.statistics().overall, error_statistics(store.read()).overall
    times = {name: getattr(found, name) for name in ("waiting", "queueing", "running")}
    assert [t.count for t in times.values()] == [getattr(wanted, name).count for name in times]
    return msgspec.structs.replace(wanted, **times)


def growth(name: str) -> float:
    """Return by how many MB a projection raises the peak memory of this process."""
    path = Path(name)
    with EventStore.open(logs.url(path)) as store:
        before = memory_mb("VmRSS")
        project(store, path.with_name("subprocess.db"))
        return memory_mb("VmHWM") - before


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__, events=1_000_000, rounds=3)
    events = options.events or (100_000 if options.quick else 1_000_000)
    rounds = options.rounds or (2 if options.quick else 3)
    with folder() as name:
        path = Path(name) / "log.db"
        half = -(-events // EVENTS_PER_CONVERSATION // 2) * EVENTS_PER_CONVERSATION
        logs.grow(path, half // EVENTS_PER_CONVERSATION, EVENTS_PER_CONVERSATION)
        before = in_subprocess(f"projector.growth({str(path)!r})")
        events = half + logs.grow(
            path,
            -(-(events - half) // EVENTS_PER_CONVERSATION),
            EVENTS_PER_CONVERSATION,
            half // EVENTS_PER_CONVERSATION,
        )
        found = figures(path, events, rounds)
        after = in_subprocess(f"projector.growth({str(path)!r})")
        found += [
            Figure("peak memory / that of half of the log", after / before, "", 1.2),
            Figure("peak memory", after, "MB"),
        ]
    report(__file__, options, found)


if __name__ == "__main__":
    main()
