"""The log as it is sealed, over SQL: its rows with the digests of their payloads, and its seals.

1. Rows are read in the order of positions, as many at once as `Limits.chunk_rows`; no transaction
   is open between them. They are handed on when no crash of the database can take them back.
2. A seal is one row, written in one transaction. Its key is the lane with the size of the seal
   before, so of two processes that seal at the same time one is refused, by the database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Integer, and_, bindparam, insert, literal_column, select

from eventstore.domain.redaction import SALTED_DIGEST_BYTES
from eventstore.storage.chain import stored_digest
from eventstore.storage.leaves import SealedRow
from eventstore.storage.sealable_log import Seal
from eventstore.storage.sql import schema as tables
from eventstore.storage.sql.seen_clauses import page
from eventstore.storage.sql.statements import compiled, lane_rows
from eventstore.storage.stored_members import stored_members

if TYPE_CHECKING:
    from sqlalchemy.engine import Dialect
    from sqlalchemy.engine.interfaces import DBAPICursor
    from sqlalchemy.sql.expression import ClauseElement

    from eventstore.storage.sql.backend import Backend
    from eventstore.storage.sql.parts import CommitProof
    from eventstore.storage.sql.reader import LogReader
    from eventstore.storage.sql.seen_clauses import Rows

_e, _c, _s = tables.events.c, tables.conversations.c, tables.seals.c

_FIRST_ROW: ColumnElement[int] = literal_column("0", Integer)
"""The offset, which SQLite's dialect writes in any case."""


class SealStatements:
    """The statements of seals. Text is read as bytes, for damaged text may not be text any more."""

    def __init__(self, dialect: Dialect, backend: Backend) -> None:
        def text(statement: ClauseElement, *parameters: str) -> str:
            return compiled(dialect, statement, parameters)

        self.rows = text(page(_rows(backend)), "at", "after", "most")
        self.position = text(_position(), "at", "key", "version")
        self.lanes = text(select(_s.lane).distinct())
        self.seals = text(page(_seals(backend)), "at", "after", "most")
        self.last = text(_last(backend), "at")
        self.add = text(insert(tables.seals).inline(), *tables.seals.c.keys())


class SqlSealableLog:
    """The log of a SQL database as it is sealed; see `SealableLog`."""

    def __init__(
        self,
        reader: LogReader,
        proof: CommitProof | None,
        wait_until_durable: Callable[[DBAPICursor], None],
    ) -> None:
        self.epoch = reader.log.epoch
        self.heads: Callable[[], Mapping[int, int]] = reader.heads
        self._log = reader.log
        self._connections = reader.connections
        self._proof = proof
        self._wait_until_durable = wait_until_durable
        self._chunk_rows = reader.log.backend.limits.chunk_rows
        self._sql = SealStatements(reader.connections.engine.dialect, reader.log.backend)

    def sealable_rows(self, lane: int, after: int, until: int) -> Iterator[SealedRow]:
        """Yield the rows of a lane; see `SealableLog.sealable_rows`."""
        while after < until:
            most = min(self._chunk_rows, until - after)
            found = self._durable(self._sql.rows, lane, after, most)
            yield from (_sealed(row) for row in found if row[0] <= until)
            if len(found) < most:
                return
            after = found[-1][0]

    def place_of(self, conversation_id: str, version: int) -> tuple[int, int] | None:
        """Return lane and position of an event; see `SealableLog.place_of`."""

        def read() -> tuple[int, int] | None:
            with self._connections.cursor() as cursor:
                key = self._log.keys.find(cursor, conversation_id)
                if key is None:
                    return None
                cursor.execute(self._sql.position, (*key, version))
                found = cursor.fetchone()
                return None if found is None else (key[0], found[0])

        return self._connections.retrying(read)

    def sealed_lanes(self) -> set[object]:
        """Return the lanes that have seals; see `SealableLog.sealed_lanes`."""
        return {lane for (lane,) in self._connections.rows(self._sql.lanes)}

    def seals(self, lane: int) -> Iterator[Seal]:
        """Yield the seals of a lane; see `SealableLog.seals`."""
        after = -1
        while True:
            found = self._connections.rows(self._sql.seals, lane, after, self._chunk_rows)
            yield from (_seal(lane, row) for row in found)
            if len(found) < self._chunk_rows:
                return
            after = found[-1][0]

    def last_seal(self, lane: int) -> Seal | None:
        """Return the last seal of a lane; see `SealableLog.last_seal`."""
        found = self._connections.rows(self._sql.last, lane)
        return _seal(lane, found[0]) if found else None

    def add_seal(self, seal: Seal) -> bool:
        """Store a seal, if no other comes after the same one; see `SealableLog.add_seal`."""
        connections = self._connections
        row = (
            seal.lane,
            seal.previous,
            seal.size,
            bytearray(seal.root),
            bytearray(seal.edge),
            seal.note,
        )

        def write() -> bool:
            try:
                with connections.transaction() as cursor:
                    cursor.execute(self._sql.add, row)
                    if self._proof is None:
                        cursor.execute("COMMIT")
                    else:
                        self._proof.commit(cursor, "COMMIT")
            except connections.driver.IntegrityError:
                return False
            if self._proof is not None:
                self._proof.require(())
            return True

        with connections.lock:
            return connections.retrying(write)

    def _durable(self, statement: str, *parameters: object) -> Sequence[Any]:
        """Return what a statement finds, when no crash of the database can take it back."""

        def read() -> Sequence[Any]:
            with self._connections.cursor() as cursor:
                cursor.execute(statement, parameters)
                found = list(cursor.fetchall())
                if found:
                    self._wait_until_durable(cursor)
                return found

        return self._connections.retrying(read)


def _rows(backend: Backend) -> Rows:
    listed = and_(_c.lane == _e.lane, _c.conversation == _e.conversation)
    columns = (
        _e.position,
        backend.text_as_stored(_c.tenant),
        backend.text_as_stored(_c.conversation_id),
        _e.version,
        _e.event_id,
        _e.recorded_at,
        _e.occurred_at,
        backend.text_as_stored(_e.tag),
        _e.schema,
        _e.fingerprint,
        _e.chain,
        backend.text_as_stored(_e.payload),
        _e.salt,
    )
    return lane_rows(columns, backend).select_from(
        tables.events.outerjoin(tables.conversations, listed)
    )


def _position() -> Rows:
    return select(_e.position).where(
        _e.lane == bindparam("at"),
        _e.conversation == bindparam("key"),
        _e.version == bindparam("version"),
    )


def _seal_columns(backend: Backend) -> Rows:
    note = backend.text_as_stored(_s.note)
    return select(_s.previous, _s.size, _s.root, _s.edge, note).where(_s.lane == bindparam("at"))


def _seals(backend: Backend) -> Rows:
    return _seal_columns(backend).where(_s.previous > bindparam("after")).order_by(_s.previous)


def _last(backend: Backend) -> Rows:
    return (
        _seal_columns(backend)
        .order_by(_s.previous.desc())
        .limit(literal_column("1"))
        .offset(_FIRST_ROW)
    )


def _sealed(row: Sequence[Any]) -> SealedRow:
    """Return a row with the digest of its payload; what it holds may be anything."""
    position, tenant, name, version, event_id, recorded_at, occurred_at, tag, schema, *rest = row
    mark, chain, payload, salt = rest
    digest = stored_digest(payload, salt, mark)
    if digest is not None and len(digest) == SALTED_DIGEST_BYTES:
        mark = None  # the digest covers it
    members = stored_members(str(_text(tag)), schema, payload, salt)
    return SealedRow(
        position,
        _text(tenant),
        _text(name),
        version,
        _bytes(event_id),
        recorded_at,
        occurred_at,
        _text(tag),
        schema,
        _bytes(mark),
        digest,
        members.root,
        _bytes(chain),
        members.unproven,
    )


def _seal(lane: int, row: Sequence[Any]) -> Seal:
    """Return a stored seal; what cannot be one has values that no note says."""
    previous, size, root, edge, note = row
    return Seal(
        lane,
        previous if isinstance(previous, int) else -1,
        size if isinstance(size, int) else -1,
        root if isinstance(root, bytes) else b"",
        edge if isinstance(edge, bytes) else b"",
        note.decode("utf-8", "replace") if isinstance(note, bytes) else "",
    )


def _bytes(value: object) -> object:
    return bytes(value) if isinstance(value, bytearray) else value


def _text(value: object) -> object:
    """Return the text of bytes; bytes that are none as they are."""
    data = _bytes(value)
    if isinstance(data, bytes):
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data
    return data
