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
from eventstore.storage.sqlite.backend import Sqlite
from eventstore.storage.sqlite.single_statement import definitions, statements

Row = tuple[Any, ...]

PRAGMAS = ("synchronous=FULL", "mmap_size=0", "foreign_keys=ON")
ADVANCE = "UPDATE toolledger_lanes SET position=? WHERE lane = ? AND position = ?"
COLUMNS = (
    "lane, position, conversation, version, event_id, recorded_at, occurred_at, tag, schema, "
    "fingerprint, chain, payload, salt"
)
TAG, FINGERPRINT = 7, 9
INSERT = f"INSERT INTO toolledger_events ({COLUMNS}) VALUES ({', '.join('?' * 13)})"
INDEX = (
    "INSERT INTO toolledger_fingerprints (lane, fingerprint, conversation, version) "
    "VALUES (?, ?, ?, ?)"
)
DEFINITIONS = definitions(Sqlite.null, compared=False)
"""What the library's statement for one event needs on the connection."""
READ = (
    "SELECT position, conversation, version, event_id, recorded_at, occurred_at, tag, schema, "
    "fingerprint, payload FROM toolledger_events"
)


def connect(path: Path) -> Any:
    """Return a connection that is set up like the library's own."""
    connection = driver().connect(path, isolation_level=None, check_same_thread=False)
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    assert mode == "wal", mode
    return connection


def empty(path: Path) -> Any:
    """Return a connection to a new database with the library's schema and nothing in it."""
    EventStore.open(f"sqlite:///{path}").close()
    return connect(path)


def rows(path: Path) -> list[Row]:
    """Return every event of a store as a row, in order; blobs have the type that binds fastest."""
    connection = connect(path)
    found = [
        tuple(bytearray(value) if isinstance(value, bytes) else value for value in row)
        for row in connection.execute(f"SELECT {COLUMNS} FROM toolledger_events ORDER BY position")
    ]
    connection.close()
    return found


def index_row(row: Row) -> Row:
    """Return the fingerprint index's row for a pending call's row."""
    return row[0], row[FINGERPRINT], row[2], row[3]


def appended(row: Row) -> tuple[str, Row]:
    """Return the library's statement for an event, and the row for it; see `Backend.null`."""
    statement = statements(compared=False)[is_indexed(row)]
    return statement, tuple("" if value is None else value for value in row)


def is_indexed(row: Row) -> bool:
    """Return whether the row belongs in the fingerprint index, too."""
    return bool(row[TAG] == "pending")


def commit(connection: Any, rows: Sequence[Row]) -> None:
    """Store all rows in one commit."""
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(INSERT, rows)
    connection.execute(
        "UPDATE toolledger_lanes SET position = position + ? WHERE lane = 0", (len(rows),)
    )
    connection.execute("COMMIT")


class Group:
    """Group commit and nothing else: the first thread commits the rows of all that wait."""

    def __init__(self, store: Callable[[Sequence[Row]], object]) -> None:
        self._store = store
        self._gate = Lock()
        self._leading = False
        self._waiting: deque[_PendingRow] = deque()

    def commit(self, row: Row) -> None:
        """Store a row; return when it is on disk."""
        pending = _PendingRow(row)
        with self._gate:
            leads, self._leading = not self._leading, True
            if not leads:
                self._waiting.append(pending)
        if not leads:
            pending.wakeup.acquire()
            if pending.done:
                return
        with self._gate:
            others = [one for one in self._waiting if one is not pending]
            self._waiting.clear()
        self._store([pending.row, *(one.row for one in others)])
        for one in others:
            one.done = True
            one.wakeup.release()
        with self._gate:
            self._leading = bool(self._waiting)
            if self._leading:
                self._waiting[0].wakeup.release()

    def commit_all(self, pool: ThreadPoolExecutor, callers: int, rows: Sequence[Row]) -> None:
        """Store the rows of that many callers; each waits for one row before it sends the next."""

        def commit_each(part: Sequence[Row]) -> None:
            for row in part:
                self.commit(row)

        parts = [rows[number::callers] for number in range(callers)]
        for done in [pool.submit(commit_each, part) for part in parts]:
            done.result()


class _PendingRow:
    """A row that waits, and the lock that blocks its thread until then."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self.done = False
        self.wakeup = Lock()
        self.wakeup.acquire()
