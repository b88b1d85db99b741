"""The bare driver's side: the library's own rows and statements, without the library."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

from measure import driver

from eventstore import EventStore

Row = tuple[Any, ...]

PRAGMAS = ("synchronous=FULL", "mmap_size=0", "foreign_keys=ON")
ADVANCE = "UPDATE toolledger_lanes SET position=? WHERE lane = ? AND position = ?"
COLUMNS = (
    "lane, position, conversation, version, event_id, recorded_at, tag, schema, fingerprint, "
    "digest, payload"
)
TAG, FINGERPRINT = 6, 8
INSERT = f"INSERT INTO toolledger_events ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
INDEX = (
    "INSERT INTO toolledger_fingerprints (lane, fingerprint, conversation, version) "
    "VALUES (?, ?, ?, ?)"
)
READ = (
    "SELECT position, conversation, version, event_id, recorded_at, tag, schema, fingerprint, "
    "payload FROM toolledger_events"
)


def connect(path: Path) -> Any:
    """A connection, set up as the library sets its own up."""
    connection = driver().connect(path, isolation_level=None, check_same_thread=False)
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    assert mode == "wal", mode
    return connection


def empty(path: Path) -> Any:
    """A connection to a new database with the library's schema and nothing in it."""
    EventStore.open(f"sqlite:///{path}").close()
    return connect(path)


def rows(path: Path) -> list[Row]:
    """Every event of a store as a row, in order, its blobs of the type that binds fastest."""
    connection = connect(path)
    found = [
        tuple(bytearray(value) if isinstance(value, bytes) else value for value in row)
        for row in connection.execute(f"SELECT {COLUMNS} FROM toolledger_events ORDER BY position")  # noqa: S608
    ]
    connection.close()
    return found


def index_row(row: Row) -> Row:
    """The fingerprint index's row for a pending call's row."""
    return row[0], row[FINGERPRINT], row[2], row[3]


def brings_arguments(row: Row) -> bool:
    """Whether the row belongs into the fingerprint index, too."""
    return bool(row[TAG] == "pending")


def commit(connection: Any, rows: Sequence[Row]) -> None:
    """One commit for all the rows."""
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(INSERT, rows)
    connection.execute(
        "UPDATE toolledger_lanes SET position = position + ? WHERE lane = 0", (len(rows),)
    )
    connection.execute("COMMIT")


class Group:
    """Group commit and nothing else: whoever comes first commits the rows of all who wait."""

    def __init__(self, store: Callable[[Sequence[Row]], object]) -> None:
        self._store = store
        self._gate = Lock()
        self._led = False
        self._waiting: deque[_Turn] = deque()

    def commit(self, row: Row) -> None:
        """Store a row; back when it is on disk."""
        turn = _Turn(row)
        with self._gate:
            leads, self._led = not self._led, True
            if not leads:
                self._waiting.append(turn)
        if not leads:
            turn.up.acquire()
            if turn.done:
                return
        with self._gate:
            others = [one for one in self._waiting if one is not turn]
            self._waiting.clear()
        self._store([turn.row, *(one.row for one in others)])
        for one in others:
            one.done = True
            one.up.release()
        with self._gate:
            self._led = bool(self._waiting)
            if self._led:
                self._waiting[0].up.release()

    def commit_all(self, pool: ThreadPoolExecutor, callers: int, rows: Sequence[Row]) -> None:
        """Store the rows of so many callers, each of whom waits for one before the next."""

        def live(part: Sequence[Row]) -> None:
            for row in part:
                self.commit(row)

        parts = [rows[number::callers] for number in range(callers)]
        for done in [pool.submit(live, part) for part in parts]:
            done.result()


class _Turn:
    """A row that waits, and the lock that its thread waits for."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self.done = False
        self.up = Lock()
        self.up.acquire()
