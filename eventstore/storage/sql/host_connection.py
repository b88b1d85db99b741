"""The log inside a transaction of the host's own, through the host's SQLAlchemy connection.

1. Nothing is committed here: events are stored or lost with the host's transaction.
2. The lane's counter is locked from the first append until the transaction ends, so versions and
   positions have no gaps, whichever way it ends.
3. An append follows what others have committed, so the transaction must be able to see that. One
   that read before others wrote, and still reads the old state, is refused: on SQLite any, on
   servers those under REPEATABLE READ.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn

from sqlalchemy import Connection, insert
from sqlalchemy.exc import SQLAlchemyError

from eventstore.domain.detached import EventsArchived
from eventstore.domain.fingerprint import slice_of
from eventstore.errors import StorageError, StoreBusy, StoreCorrupt
from eventstore.storage.chain import chained, conversation_digest
from eventstore.storage.interface import Append, Appended, AppendOutcome
from eventstore.storage.sql.archiving import (
    MOST_READS,
    archived_error,
    as_recorded,
    not_recorded,
)
from eventstore.storage.sql.rows import (
    BEFORE_ALL,
    Batch,
    check_first,
    digest_read,
    event_rows,
    id_rows,
    index_rows,
    recorded,
    sound_tags,
    tag_rows,
)
from eventstore.storage.sql.schema import (
    conversations,
    event_ids,
    events,
    fingerprints,
    subjects,
)
from eventstore.storage.sql.statements import HostStatements
from eventstore.storage.sql.storage import SqlStorage
from eventstore.storage.sql.transaction_notes import NOWHERE
from eventstore.storage.urls import shown
from eventstore.subjects.tags import Tag

if TYPE_CHECKING:
    from sqlalchemy import CursorResult, Executable, Table

    from eventstore.domain.events import Recorded


def synchronous(connection: object) -> Connection:
    """Return the connection that SQLAlchemy runs an `AsyncConnection` on.

    Raises:
        TypeError: It is something else.
        ValueError: It is closed, or was not started.
    """
    from sqlalchemy.ext.asyncio import AsyncConnection  # slow to load

    if not isinstance(connection, AsyncConnection):
        raise TypeError(
            f"connection is {connection!r}: pass a SQLAlchemy AsyncConnection (of an AsyncSession, "
            "await session.connection()); a Connection goes to EventStore"
        )
    if connection.sync_connection is None:
        raise ValueError("the connection is not open: pass one inside its `async with`")
    return connection.sync_connection


class _NothingStored(Exception):
    """Every request was refused: what the append has done is taken back."""


class ConnectionStorage:
    """As much of a `Storage` as a conversation needs, over the host's connection.

    Like the connection it is of one thread.
    """

    def __init__(self, storage: object, connection: object) -> None:
        if not isinstance(storage, SqlStorage):
            raise TypeError(
                f"{storage!r} takes no connection: pass one only to a store that was opened by its "
                "URL, and pass it once"
            )
        if not isinstance(connection, Connection):
            raise TypeError(
                f"connection is {connection!r}: pass a SQLAlchemy Connection (of an ORM session, "
                "session.connection()); an AsyncConnection goes to AsyncEventStore"
            )
        self._storage = storage
        self._backend = storage.backend
        self._connection = connection
        self._is_checked = False  # the connection is known to be to the store's database
        self._sql = HostStatements(storage.backend)
        # SQLAlchemy does not know the errors of a SQLite that aiosqlite was given instead of
        # Python's.
        self._errors = (SQLAlchemyError, storage.backend.driver_module.Error)

    @property
    def url(self) -> str:
        """The URL of the store."""
        return self._storage.url

    @property
    def tenant(self) -> str:
        """The tenant whose events these are."""
        return self._storage.tenant

    @property
    def epoch(self) -> str:
        """The mark that distinguishes the store from every other."""
        return self._storage.epoch

    def append(self, requests: Sequence[Append]) -> list[AppendOutcome]:
        """Store what `rebase` makes of the events after each request's version.

        `rebase` is called for every request, after the lane's lock is taken; see `Storage.append`.
        """
        self._storage.log.seen.check_accepted()
        if any(request.rewrites for request in requests):
            raise StorageError(
                "a redaction is a transaction of its own, which nothing takes back: call "
                "`EventStore.redact` outside of the host's transaction"
            )
        outcomes: list[AppendOutcome] = []
        with suppress(_NothingStored), self._savepoint(writes=True):
            outcomes.extend(map(self._append_one, requests))
            if not any(isinstance(outcome, Appended) for outcome in outcomes):
                raise _NothingStored  # so that no lane stays locked
        return outcomes

    def _append_one(self, request: Append) -> AppendOutcome:
        name = request.conversation_id
        lane = self._storage.lane_of(name)
        base, key = self._lock(lane, name)
        self._storage.log.seen.check_end(lane, base, request.as_of)
        tail = [] if key is None else list(self._after(lane, key, name, request.version))
        try:
            drafts = request.rebase(tail)
        except Exception as error:  # noqa: BLE001 - the outcome of this request alone
            return error
        version = tail[-1].version if tail else request.version
        if drafts:
            if key is None:
                key = self._create(name, lane, base + 1)
            previous = self._digest_at(lane, key, name, version)
            digests = chained(previous, version, drafts)
            self._insert(Batch((lane, key), base, version, drafts, digests))
            tags = tag_rows(lane, key, request.tags, version, len(drafts))
            if named := [_named(subjects, row) for row in tags]:
                self._connection.execute(insert(subjects), named)
            self._run(self._sql.advance, at=lane, to=base + len(drafts))
        return Appended(lane, version + len(drafts), base + len(drafts))

    def conversation(self, conversation_id: str, after: int = 0) -> Iterator[Recorded]:
        """Yield the events after a version, in order, in bounded memory."""
        lane = self._storage.lane_of(conversation_id)
        key = self._key(lane, conversation_id)
        if key is not None:
            yield from self._after(lane, key, conversation_id, after or BEFORE_ALL)

    def known_ids(self, conversation_id: str, event_ids: Sequence[bytes]) -> dict[bytes, int]:
        """Return the event ids that are stored in the conversation, with their versions."""
        lane = self._storage.lane_of(conversation_id)
        key = self._key(lane, conversation_id)
        if key is None:
            return {}
        found = self._fetch(self._sql.known, at=lane, key=key, ids=list(event_ids))
        return {bytes(event_id): version for event_id, version in found}

    def tags_of(self, conversation_id: str) -> Sequence[Tag]:
        """Return the tags of a conversation: the persons that its events are about."""
        lane = self._storage.lane_of(conversation_id)
        key = self._key(lane, conversation_id)
        if key is None:
            return []
        found = self._fetch(self._sql.tags, at=lane, key=key)
        return sound_tags(lane, key, found)

    # statements

    def _run(self, statement: Executable, **parameters: Any) -> CursorResult[Any]:
        return self._connection.execute(statement, parameters)

    def _fetch(self, statement: Executable, **parameters: Any) -> Sequence[Any]:
        """Return what a statement finds; raise the library's errors."""
        try:
            return self._run(statement, **parameters).all()
        except self._errors as error:
            self._raise(error)

    def _after(self, lane: int, key: int, name: str, after: int) -> Iterator[Recorded]:
        while True:
            rows, found = self._chunk(lane, key, name, after)
            yield from found
            if len(rows) < self._backend.limits.chunk_rows:
                return
            after = rows[-1].version

    def _chunk(
        self, lane: int, key: int, name: str, after: int
    ) -> tuple[Sequence[Any], list[Recorded]]:
        """Return rows of a conversation that is not archived, and their events."""
        for _ in range(MOST_READS):  # a restore may be committed between both statements
            rows = self._fetch(self._sql.conversation, at=lane, key=key, after=after)
            judge, vault = self._storage.reader.problems, self._storage.log.vault
            found = recorded(lane, rows, {key: name}, judge, vault=vault)
            check_first(found)
            is_whole = len(found) == len(rows)
            if is_whole and (not found or found[-1].event.tag != EventsArchived.tag):
                return rows, found
            there = self._fetch(self._sql.archived, at=lane, key=key)
            if there:
                raise archived_error(as_recorded(name, there[0]))
            if is_whole:
                return rows, found
        raise not_recorded(name)

    def _key(self, lane: int, name: str) -> int | None:
        if not self._is_checked:
            with self._savepoint(writes=False):
                self._check_database()
        found = self._fetch(self._sql.find, at=lane, tenant=self._storage.tenant, id=name, place=0)
        return found[0].conversation if found else None

    def _lock(self, lane: int, name: str) -> tuple[int, int | None]:
        """Lock a lane until the host's transaction ends; return its end and the conversation's key.

        The lock comes before any read, so that a new transaction sees everything. The lane must
        hold what was seen of it: see `seen_anchors`.
        """
        tenant, known = self._storage.tenant, self._storage.log.seen
        anchor = known.furthest.get(lane, NOWHERE)
        if not self._backend.row_locks:
            self._run(self._sql.lock, at=lane)
        head = self._run(self._sql.head, at=lane).scalar()
        self._check_database()
        if head is None:
            self._raise(
                StoreCorrupt(f"lane {lane} has no counter: restore the database from a copy")
            )
        is_proven = lane in known.whole.proven
        find = self._sql.find if is_proven else self._sql.find_whole
        found = self._run(find, at=lane, tenant=tenant, id=name, place=anchor[0])
        seen, key, event_id, recorded_at, *whole = tuple[Any, ...](found.one())
        if seen != head:  # InnoDB locks the newest row, and reads an older one
            self._raise(
                StoreBusy(
                    "others have written what the transaction cannot see: roll back and try again"
                )
            )
        if whole:
            known.whole.check_seen(lane, seen, whole)
        known.check_lane(lane, seen, anchor, event_id, recorded_at)
        return seen, key

    def _create(self, name: str, lane: int, key: int) -> int:
        self._backend.check_names(self._storage.tenant, name)
        self._run(
            insert(conversations),
            lane=lane,
            conversation=key,
            tenant=self._storage.tenant,
            conversation_id=name,
            slice=slice_of(self._storage.tenant, name),
        )
        return key

    def _digest_at(self, lane: int, key: int, name: str, version: int) -> bytes:
        """Return the digest that the event after `version` follows."""
        if version == 0:
            return conversation_digest(self._storage.tenant.encode(), name.encode())
        found = self._run(self._sql.digest, at=lane, key=key, version=version).first()
        return digest_read(found, name, version)

    def _insert(self, batch: Batch) -> None:
        for table, rows in (
            (events, event_rows([batch])),
            (fingerprints, index_rows([batch])),
            (event_ids, id_rows([batch])),
        ):
            if named := [_named(table, row) for row in rows]:
                self._connection.execute(insert(table), named)

    # the transaction

    @contextmanager
    def _savepoint(self, *, writes: bool) -> Generator[None]:
        """Do all of it or nothing, even if the host continues after an error."""
        connection = self._connection
        if connection.closed:
            raise ValueError("the connection is closed: pass one that is open")
        try:
            if not self._is_checked:
                self._check_driver()
            if writes:
                self._begin()
            savepoint = connection.begin_nested()
            try:
                yield
            except BaseException:
                with suppress(*self._errors):  # the database has given up all of it
                    savepoint.rollback()
                raise
            savepoint.commit()
        except self._errors as error:
            self._raise(error)

    def _begin(self) -> None:
        """Begin the host's transaction if it has not begun."""
        connection = self._connection
        if not connection.in_transaction():
            connection.begin()
        if not self._backend.begin_within(connection):
            raise ValueError(
                "the connection is in autocommit mode, so it has no transaction: pass one with "
                "another isolation level"
            )

    def _check_driver(self) -> None:
        """Refuse a connection to another kind of database, or one that its backend refuses."""
        if self._connection.dialect.name not in self._backend.dialect_names:
            raise self._other_database()
        self._backend.check_host_driver(self._connection)

    def _check_database(self) -> None:
        """Refuse another database."""
        if not self._is_checked:
            if self._run(self._sql.store).scalar() != self.epoch:
                raise self._other_database()
            self._is_checked = True

    def _other_database(self) -> ValueError:
        there = shown(self._connection.engine.url)
        return ValueError(
            f"the connection is to {there}, where the store's log is not: pass one to the store's "
            "own database"
        )

    def _raise(self, error: Exception) -> NoReturn:
        reported = self._backend.host_error(error)
        if reported is error:
            reported = StorageError(f"{error}: nothing was written; roll the transaction back")
        if isinstance(reported, StoreCorrupt) and not self._is_checked:  # our tables are missing
            reported = self._other_database()
        elif isinstance(reported, StoreBusy):
            reported = StoreBusy(f"{reported}; {self._backend.retry_advice}")
        raise reported from error


def _named(table: Table, row: Sequence[Any]) -> dict[str, Any]:
    """Return a row by its columns' names; not every driver takes a bytearray."""
    values = (bytes(value) if type(value) is bytearray else value for value in row)
    return dict(zip(table.c.keys(), values, strict=True))
