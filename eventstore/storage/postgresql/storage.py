"""PostgreSQL: rows go in binary, one event in one statement and many by COPY.

The statement is prepared. It moves the counter, and inserts where that leads: one way to the server
and back. Whoever else writes in the lane is not in its way; who has written in the conversation
has its next version, which is there once, so that nothing is stored and all is looked at anew.
It goes past psycopg's cursor, whose conversions take as long as the server's work.
"""

from __future__ import annotations

import os
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any

from sqlalchemy.dialects.postgresql.base import PGDialect

from eventstore.storage import Appended
from eventstore.storage.binary import copied_events, copied_marks, parameters
from eventstore.storage.notices import NotifyingStorage
from eventstore.storage.reading import REMEMBERED
from eventstore.storage.schema import events, fingerprints, lanes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Table

    from eventstore.storage import Append
    from eventstore.storage.rows import Batch

_BINARY = [1] * len(events.columns)
_chance = os.urandom(8).hex().encode()  # no other process's name, should they share a session
_numbers = count(1)


class AtOnceStorage(NotifyingStorage):
    """The events of one tenant; one that goes alone goes in one statement, others by COPY."""

    def _reads(self, connection: Any) -> Any:
        return connection.cursor(binary=True)  # what a read takes here is its numbers and digests

    def _connect(self) -> None:
        super()._connect()
        self._prepared: _Prepared | None = None
        self._shared: set[str] = set()  # conversations in which others have written

    def _at_once(self, request: Append) -> Appended | None:
        """Store one event behind all others; None where that must be looked at more closely."""
        name = request.conversation_id
        key = self._keys.get(name)
        if key is None or len(request.drafts) != 1 or name in self._shared:
            return None
        lane, conversation = key
        connection = self._writer().connection
        draft = request.drafts[0]
        done = Appended(lane, request.version + 1, request.as_of)
        self._ends = {lane: request.as_of}
        self._torn = True
        try:
            row = parameters(lane, conversation, request.as_of, request.version + 1, draft)
            prepared = self._prepared
            if prepared is None or prepared.connection is not connection:
                prepared = self._prepared = _Prepared(connection, self._driver)
            position = prepared.run(row, begins=draft.begins)
        except BaseException as error:
            if _is_unprepared(error):  # the session is another, as behind a pool of connections
                self._prepared, self._torn = None, False
                return None
            if isinstance(error, self._driver.errors.UniqueViolation):
                self._note_shared(name)
            if self._failed(error, request, done, self._stored):
                last = next(self.conversation(name, request.version))
                return Appended(lane, last.version, last.position)
            raise
        self._torn = False
        if position is None:
            return None
        if self._heads.get(lane) != position - 1:
            self._quiet_since[lane] = position - 1
        self._heads[lane] = position
        return Appended(lane, request.version + 1, position)

    def _note_shared(self, name: str) -> None:
        if len(self._shared) >= REMEMBERED:
            self._shared.clear()
        self._shared.add(name)

    def _write(self, cursor: Any, request: Append) -> Appended:
        done = super()._write(cursor, request)
        if done.version == request.version + len(request.drafts):  # nobody else has, this time
            self._shared.discard(request.conversation_id)
        return done

    def _insert(self, cursor: Any, batches: Sequence[Batch]) -> None:
        # Even few rows take less of our time so than with `executemany`.
        _copy(cursor, events, copied_events(batches))
        _copy(cursor, fingerprints, copied_marks(batches))


def _is_unprepared(error: BaseException) -> bool:
    """No statement of that name, or another of it: nothing was done."""
    return getattr(error, "sqlstate", None) in ("26000", "42P05")


def _copy(cursor: Any, table: Table, pieces: Iterator[bytes]) -> None:
    first = next(pieces, None)
    if first is None:
        return
    columns = ", ".join(column.name for column in table.columns)
    with cursor.copy(f"COPY {table.name} ({columns}) FROM STDIN (FORMAT BINARY)") as copy:
        copy.write(first)
        for piece in pieces:
            copy.write(piece)


class _Prepared:
    """The statements, prepared on a connection."""

    def __init__(self, connection: Any, psycopg: Any) -> None:
        self.connection = connection
        self._psycopg = psycopg
        self._execute = psycopg.generators.execute
        self._fine = (psycopg.pq.ExecStatus.COMMAND_OK, psycopg.pq.ExecStatus.TUPLES_OK)
        names = []
        for statement in statements():
            names.append(b"toolledger_%s_%d" % (_chance, next(_numbers)))
            connection.pgconn.send_prepare(names[-1], statement)
            self._answer()
        self._names = names

    def run(self, row: list[bytes | None], *, begins: bool) -> int | None:
        """Where the event is stored; None where the lane does not reach to where it was read."""
        self.connection.pgconn.send_query_prepared(self._names[begins], row, _BINARY)
        result = self._answer()
        return int(result.get_value(0, 0)) if result.ntuples else None

    def _answer(self) -> Any:
        """What the server says to what was sent; Ctrl-C cancels it."""
        connection = self.connection
        results = connection.wait(self._execute(connection.pgconn))
        if not results:
            raise self._psycopg.InternalError("the server gave no result")
        for result in results:  # the statement is answered before its commit: that may yet fail
            if result.status not in self._fine:
                raise self._psycopg.errors.error_from_result(result)
        return results[0]


@cache
def statements() -> tuple[bytes, bytes]:
    """For an event alone, and for one that goes into the fingerprints' index, too.

    The position that they take is one that the lane has reached; they give that of the event.
    """
    dialect = PGDialect()  # type: ignore[no-untyped-call]
    given = {
        column.name: f"${number}::{column.type.compile(dialect)}"
        for number, column in enumerate(events.columns, 1)
    }

    def insert(table: Table) -> str:
        names = [column.name for column in table.columns]
        values = ", ".join(given[name] if name != "position" else "position" for name in names)
        return f"INSERT INTO {table.name} ({', '.join(names)}) SELECT {values} FROM moved"  # noqa: S608

    moved = (
        f"WITH moved AS (UPDATE {lanes.name} SET position = position + 1 "  # noqa: S608
        f"WHERE lane = {given['lane']} AND position >= {given['position']} RETURNING position)"
    )
    event, mark = f"{insert(events)} RETURNING position", insert(fingerprints)
    return f"{moved} {event}".encode(), f"{moved}, marked AS ({mark}) {event}".encode()
