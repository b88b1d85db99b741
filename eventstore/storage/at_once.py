"""PostgreSQL: rows go in binary, one event in one statement and many by COPY.

The statement is prepared. It moves the counter, if nobody else has, and only then inserts: one way
to the server and back, and nothing is sent twice. It goes past psycopg's cursor, whose conversions
take as long as the server's work.
"""

from __future__ import annotations

from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any

from sqlalchemy.dialects.postgresql.base import PGDialect

from eventstore.storage import Appended
from eventstore.storage.binary import copied_events, copied_marks, parameters
from eventstore.storage.notices import NotifyingStorage
from eventstore.storage.schema import events, fingerprints, lanes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Table

    from eventstore.storage import Append
    from eventstore.storage.rows import Batch

_BINARY = [1] * len(events.columns)
_numbers = count(1)


class AtOnceStorage(NotifyingStorage):
    """The events of one tenant; one that goes alone goes in one statement, others by COPY."""

    def _reads(self, connection: Any) -> Any:
        return connection.cursor(binary=True)  # what a read takes here is its numbers and digests

    def _connect(self) -> None:
        super()._connect()
        self._prepared: _Prepared | None = None

    def _at_once(self, request: Append) -> Appended | None:
        """Store one event behind those that we know of; None where there are others."""
        key = self._keys.get(request.conversation_id)
        if key is None or len(request.drafts) != 1:
            return None
        lane, conversation = key
        base = self._heads.get(lane)
        if base is None or not self._quiet_since[lane] <= request.as_of <= base:
            return None
        connection = self._writer().connection
        draft = request.drafts[0]
        done = Appended(lane, request.version + 1, base + 1)
        self._ends = {lane: base + 1}
        self._torn = True
        try:
            row = parameters(lane, conversation, base + 1, request.version + 1, draft)
            prepared = self._prepared
            if prepared is None or prepared.connection is not connection:
                prepared = self._prepared = _Prepared(connection, self._driver)
            moved = prepared.run(row, begins=draft.begins)
        except BaseException as error:
            if self._failed(error, request, done, self._stored):
                return done
            raise
        self._torn = False
        if not moved:
            return None
        self._heads[lane] = base + 1
        return done

    def _insert(self, cursor: Any, batches: Sequence[Batch]) -> None:
        # Even few rows take less of our time so than with `executemany`.
        _copy(cursor, events, copied_events(batches))
        _copy(cursor, fingerprints, copied_marks(batches))


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
        self._fine = psycopg.pq.ExecStatus.COMMAND_OK
        names = []
        for statement in statements():
            names.append(b"toolledger_%d" % next(_numbers))
            connection.pgconn.send_prepare(names[-1], statement)
            self._answer()
        self._names = names

    def run(self, row: list[bytes | None], *, begins: bool) -> bool:
        """Whether the counter stood where it was thought to, and so the event is stored."""
        self.connection.pgconn.send_query_prepared(self._names[begins], row, _BINARY)
        return bool(self._answer().command_tuples)

    def _answer(self) -> Any:
        """What the server says to what was sent; Ctrl-C cancels it."""
        connection = self.connection
        results = connection.wait(self._execute(connection.pgconn))
        if not results:
            raise self._psycopg.InternalError("the server gave no result")
        if results[0].status != self._fine:
            raise self._psycopg.errors.error_from_result(results[0])
        return results[0]


@cache
def statements() -> tuple[bytes, bytes]:
    """For an event alone, and for one that goes into the fingerprints' index, too."""
    dialect = PGDialect()  # type: ignore[no-untyped-call]
    given = {
        column.name: f"${number}::{column.type.compile(dialect)}"
        for number, column in enumerate(events.columns, 1)
    }

    def insert(table: Table) -> str:
        names = [column.name for column in table.columns]
        values = ", ".join(given[name] for name in names)
        return f"INSERT INTO {table.name} ({', '.join(names)}) SELECT {values} FROM moved"  # noqa: S608

    moved = (
        f"WITH moved AS (UPDATE {lanes.name} SET position = {given['position']} "  # noqa: S608
        f"WHERE lane = {given['lane']} AND position = {given['position']} - 1 RETURNING lane)"
    )
    event, mark = insert(events), insert(fingerprints)
    return f"{moved} {event}".encode(), f"{moved}, marked AS ({mark}) {event}".encode()
