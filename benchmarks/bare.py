"""The bare driver's side: the library's own rows and statements, without the library."""

from __future__ import annotations

from pathlib import Path
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
    "SELECT lane, position, conversation, version, event_id, recorded_at, tag, schema, "
    "fingerprint, payload FROM toolledger_events"
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
