"""PostgreSQL: one event in one statement, which is prepared and gets its values in binary.

It moves the counter, if nobody else has, and only then inserts: one way to the server and back,
and nothing is sent twice. It goes around psycopg's cursor, whose conversions cost more than the
statement itself.
"""

from __future__ import annotations

from functools import cache
from itertools import count
from struct import Struct
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, cast, insert, select, update
from sqlalchemy.dialects.postgresql.base import PGDialect

from eventstore.storage import Appended
from eventstore.storage import schema as tables
from eventstore.storage.notices import NotifyingStorage
from eventstore.storage.rows import payload_digest

if TYPE_CHECKING:
    from sqlalchemy import Insert, Table

    from eventstore.storage import Append, Draft

_int = Struct(">i").pack
_big = Struct(">q").pack
_BINARY = [1] * len(tables.events.columns)
_numbers = count(1)


class AtOnceStorage(NotifyingStorage):
    """The events of one tenant; one that goes alone is appended in one statement."""

    def _connect(self) -> None:
        super()._connect()
        self._prepared: tuple[Any, tuple[bytes, bytes]] = (None, (b"", b""))

    def _at_once(self, request: Append) -> Appended | None:
        """Store one event of a conversation that is known; None where others have written."""
        key = self._keys.get(request.conversation_id)
        if key is None or len(request.drafts) != 1:
            return None
        lane, conversation = key
        base = self._heads.get(lane)
        if base is None or not self._quiet_since[lane] <= request.as_of <= base:
            return None
        draft = request.drafts[0]
        done = Appended(lane, request.version + 1, base + 1)
        self._ends = {lane: base + 1}
        connection = self._writer().connection
        self._torn = True
        try:
            values = _values(lane, base + 1, conversation, done.version, draft)
            stored = self._run(connection, draft.begins, values)
        except BaseException as error:
            if self._failed(error, request, done, self._stored):
                return done
            raise
        self._torn = False
        if not stored:
            return None
        self._heads[lane] = base + 1
        return done

    def _run(self, connection: Any, begins: bool, values: list[Any]) -> bool:
        """Whether the counter stood where it was believed to, and the event is stored."""
        prepared_on, names = self._prepared
        pgconn = connection.pgconn
        if prepared_on is not connection:
            names = (b"toolledger_%d" % next(_numbers), b"toolledger_%d" % next(_numbers))
            for name, statement in zip(names, statements(), strict=True):
                pgconn.send_prepare(name, statement.encode())
                self._answer(connection)
            self._prepared = connection, names
        pgconn.send_query_prepared(names[begins], values, _BINARY)
        return bool(self._answer(connection).command_tuples)

    def _answer(self, connection: Any) -> Any:
        """What the server answers to what was sent."""
        (result,) = connection.wait(_execute(connection.pgconn))
        ...
