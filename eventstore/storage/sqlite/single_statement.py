"""SQLite: one event in one statement.

It inserts into a view of the writer's connection, whose trigger does what an
append is made of:

1. It moves the lane's counter from where this storage left it, if the event there is the one that
   it saw: an older copy may have grown to the same length. A counter that stands elsewhere stores
   nothing, and the append falls back to the locking path, which reads what others wrote.
2. It inserts the event, and its row in the index of fingerprints: an event that brings none there
   has a view of its own.
3. The statement is its own transaction: it locks as BEGIN IMMEDIATE does, and ends with the commit.

Views and triggers are temporary: they belong to the connection, and are in no file.

Gain, measured in memory: a tenth of the CPU of an append, which five statements took before.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from sqlalchemy import literal_column
from sqlalchemy.dialects.sqlite.base import SQLiteDialect

from eventstore.storage.chain import event_digest
from eventstore.storage.interface import Append, Appended
from eventstore.storage.sql.rows import event_row
from eventstore.storage.sql.schema import events, fingerprints, lanes
from eventstore.storage.sql.statements import insert_event

if TYPE_CHECKING:
    from sqlalchemy import Table
    from sqlalchemy.engine.interfaces import DBAPICursor

    from eventstore.storage.sql.log import Log
    from eventstore.storage.sql.transaction_notes import TransactionNotes

_PLAIN, _INDEXED = "toolledger_append", "toolledger_append_indexed"
"""The views for an event, and for one that brings its fingerprint into the conversation."""
_SEEN_ID, _SEEN_TIME = "seen_id", "seen_time"
_SEEN_COLUMNS = f", NULL AS {_SEEN_ID}, NULL AS {_SEEN_TIME}"


class SqliteSingleStatement:
    """Stores one event; see `parts.SingleStatement`."""

    def __init__(self, log: Log) -> None:
        self._connections = log.connections
        self._null = log.backend.null
        self._integrity_error = log.backend.driver_module.IntegrityError
        self._keys = log.keys
        self._written = log.written
        self._seen = log.seen
        self._compares = not log.backend.single_connection
        self._statements = statements(compared=self._compares)
        self._ready_cursor: DBAPICursor | None = None  # the writer's, when its view is there

    def store(self, request: Append, notes: TransactionNotes) -> Appended | None:
        """Store the event of a request, and note it; return None where a transaction must do it."""
        name, connections = request.conversation_id, self._connections
        cursor, written = connections.writer_cursor, self._written
        key, known = self._keys.known.get(name), written.digests.get(name)
        draft = request.drafts[0]
        if (
            key is None
            or known is None
            or known[0] != request.version
            or len(request.drafts) != 1
            or draft.id_given
            or request.rewrites
            or request.tags
            or cursor is None
            or connections.in_transaction
        ):
            return None
        lane, conversation = key
        anchor = self._seen.furthest[lane]
        base = written.ends[lane]  # known as the digest is: see `Written.forget`
        if (
            request.as_of < written.ours_since[lane]
            or base < request.as_of
            or base != anchor[0]
            or connections.opened != connections.proven
        ):
            return None
        position, version = base + 1, request.version + 1
        notes.ends[lane] = position
        try:
            if cursor is not self._ready_cursor:
                for definition in definitions(self._null, compared=self._compares):
                    cursor.execute(definition)
                self._ready_cursor = cursor
            digest = event_digest(known[1], version, draft)
            row = event_row(lane, conversation, position, version, draft, digest, self._null)
            seen = anchor[1:] if self._compares else ()
            cursor.execute(self._statements[draft.begins], (*row, *seen))
        except self._integrity_error:  # others have written: nothing is stored
            return None
        notes.anchors[lane] = position, row[4], draft.recorded_at
        notes.digests[name] = version, digest
        return Appended(lane, version, position)


def _names(table: Table, prefix: str = "") -> str:
    return ", ".join(f"{prefix}{column.name}" for column in table.columns)


@cache
def definitions(null: str | None, *, compared: bool) -> tuple[str, ...]:
    """Return the statements that make the views and their triggers; see `Backend.null`.

    The event before is compared where the file may be put back, which memory is not.
    """
    same = (
        f" AND EXISTS (SELECT 1 FROM {events.name} WHERE position = NEW.position - 1 "
        f"AND event_id = NEW.{_SEEN_ID} AND recorded_at = NEW.{_SEEN_TIME})"
    )
    insert = insert_event(null, lambda name: literal_column(f"NEW.{name}"))
    append = (
        f"UPDATE {lanes.name} SET position = NEW.position "
        f"WHERE lane = NEW.lane AND position = NEW.position - 1{same if compared else ''}; "
        "SELECT RAISE(ABORT, 'the counter stands elsewhere') WHERE changes() = 0; "
        f"{insert.compile(dialect=SQLiteDialect())};"
    )
    index = (
        f"INSERT INTO {fingerprints.name} ({_names(fingerprints)}) "
        f"VALUES ({_names(fingerprints, 'NEW.')});"
    )
    return (
        *_definitions(_PLAIN, append, compared=compared),
        *_definitions(_INDEXED, f"{append} {index}", compared=compared),
    )


def _definitions(view: str, does: str, *, compared: bool) -> tuple[str, str]:
    """Return what makes a view, and the trigger that says what an INSERT into it does."""
    trigger = f"CREATE TEMP TRIGGER IF NOT EXISTS {view}_one INSTEAD OF INSERT ON {view}"
    columns = f"{_names(events)}{_SEEN_COLUMNS if compared else ''}"
    return (
        f"CREATE TEMP VIEW IF NOT EXISTS {view} AS SELECT {columns} FROM {events.name}",
        f"{trigger} BEGIN {does} END",
    )


@cache
def statements(*, compared: bool) -> tuple[str, str]:
    """Return the statement that stores an event, and that for one that begins its fingerprint.

    They take the event's columns, and the id and time of the one before where that is compared.
    """
    marks = ", ".join("?" for _ in events.columns)
    values = f"VALUES ({marks}{', ?, ?' if compared else ''})"
    return f"INSERT INTO {_PLAIN} {values}", f"INSERT INTO {_INDEXED} {values}"
