"""The log inside a transaction of the host's own, through the host's SQLAlchemy connection.

Nothing is committed here: events stand or fall with the host's transaction. The lane's counter
is locked from the first append until that ends, so versions and positions are without gaps
whichever way it does.

An append goes behind what others have committed, so it must see that. A transaction that has read
before others wrote, and still reads what was there then, is refused, not led astray: on SQLite
any, on servers those under REPEATABLE READ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn

from sqlalchemy import Connection, and_, bindparam, insert, select, update
from sqlalchemy.exc import SQLAlchemyError

from eventstore.errors import StorageError, StoreBusy, StoreCorrupt
from eventstore.fingerprint import slice_of
from eventstore.storage import Append, Appended, Draft
from eventstore.storage.reading import CHUNK
from eventstore.storage.rows import event_row, index_row, recorded
from eventstore.storage.schema import conversations, events, fingerprints, lanes, store
from eventstore.storage.server import Server
from eventstore.storage.sql import SqlStorage
from eventstore.storage.sqlite import driver
from eventstore.storage.statements import columns

if TYPE_CHECKING:
    from sqlalchemy import CursorResult, Executable, Table

    from eventstore.events import Recorded

# SQLAlchemy does not know the errors of a SQLite that aiosqlite was given instead of Python's.
_ERRORS = (SQLAlchemyError, driver().Error)

_c, _e, _l = conversations.c, events.c, lanes.c
_STORE = select(store.c.epoch).where(store.c.id > 0)  # below are those of `flushed`
# SQLite knows no lock but a write's
_LOCK = update(lanes).where(_l.lane == bindparam("at")).values(position=_l.position)
_HEAD = select(_l.position).where(_l.lane == bindparam("at")).with_for_update()
_FIND = (
    select(_l.position, _c.conversation)
    .outerjoin(
        conversations,
        and_(
            _c.lane == _l.lane,
            _c.tenant == bindparam("tenant"),
            _c.conversation_id == bindparam("id"),
        ),
    )
    .where(_l.lane == bindparam("at"))
)
_ADVANCE = update(lanes).where(_l.lane == bindparam("at")).values(position=bindparam("to"))
_THERE = (_e.lane == bindparam("at"), _e.conversation == bindparam("key"))
_KNOWN = select(_e.event_id, _e.version).where(
    *_THERE, _e.event_id.in_(bindparam("ids", expanding=True))
)

_AGAIN = {
    True: "roll the transaction back, and begin it with BEGIN IMMEDIATE",
    False: "roll the transaction back, and begin it again, under READ COMMITTED",
}  # by whether it is SQLite


def synchronous(connection: Any) -> Connection:
    """What SQLAlchemy runs an `AsyncConnection` on.

    Raises:
        TypeError: it is something else.
        ValueError: it is closed, or was not started.
    """
    from sqlalchemy.ext.asyncio import AsyncConnection  # noqa: PLC0415 - of who has one

    if not isinstance(connection, AsyncConnection):
        raise TypeError(
            f"connection is {connection!r}: pass a SQLAlchemy AsyncConnection (of an AsyncSession, "
            "await session.connection()); a Connection goes to EventStore"
        )
    if connection.sync_connection is None:
        raise ValueError("the connection is not open: pass one inside its `async with`")
    return connection.sync_connection


class HostedStorage:
    """As much of a `Storage` as a conversation needs, over the host's connection.

    Like the connection it is of one thread.
    """

    def __init__(self, storage: Any, connection: Any) -> None:
        if not isinstance(storage, SqlStorage):
            raise TypeError(
                f"{storage!r} takes no connection: pass one to a store that is open on a database, "
                "and that once"
            )
        if not isinstance(connection, Connection):
            raise TypeError(
                f"connection is {connection!r}: pass a SQLAlchemy Connection (of an ORM session, "
                "session.connection()); an AsyncConnection goes to AsyncEventStore"
            )
        self._storage = storage
        self._database: Any = storage._database  # noqa: SLF001 - one room
        self._connection = connection
        self._sqlite = connection.dialect.name == "sqlite"
        self._met = False  # the connection is known to be to the store's database
        self._read = (
            select(*columns(connection.dialect))
            .where(*_THERE, _e.version > bindparam("after"))
            .order_by(_e.version)
            .limit(CHUNK)
        )

    @property
    def url(self) -> str:
        """Where the store is."""
        return self._storage.url

    @property
    def tenant(self) -> str:
        """Whose events these are."""
        return self._storage.tenant

    @property
    def epoch(self) -> str:
        """What tells the store from every other."""
        return self._storage.epoch

    def append(self, request: Append) -> Appended:
        """Store what `rebase` makes of the events after `request.version`, all or none.

        It is asked always, behind the lane's lock.
        """
        name = request.conversation_id
        lane = self._storage.lane_of(name)
        with self._whole(writes=True):
            base, key = self._lock(lane, name)
            if base < request.as_of:
                self._storage.refuse_older(lane, base, request)
            tail = [] if key is None else list(self._after(lane, key, name, request.version))
            drafts = request.rebase(tail)
            version = tail[-1].version if tail else request.version
            if drafts:
                if key is None:
                    key = self._create(name, lane, base + 1)
                self._insert((lane, key), base, version, drafts)
                self._run(_ADVANCE, at=lane, to=base + len(drafts))
        return Appended(lane, version + len(drafts), base + len(drafts))

    def conversation(self, conversation_id: str, after: int = 0) -> Iterator[Recorded]:
        """The events after a version, in order, in bounded memory."""
        lane = self._storage.lane_of(conversation_id)
        key = self._key(lane, conversation_id)
        if key is not None:
            yield from self._after(lane, key, conversation_id, after)

    def known_ids(self, conversation_id: str, event_ids: Sequence[bytes]) -> dict[bytes, int]:
        """Which of the event ids are stored in the conversation, with their versions."""
        lane = self._storage.lane_of(conversation_id)
        key = self._key(lane, conversation_id)
        if key is None:
            return {}
        found = self._told(_KNOWN, at=lane, key=key, ids=list(event_ids))
        return {bytes(event_id): version for event_id, version in found}

    # statements

    def _run(self, statement: Executable, **parameters: Any) -> CursorResult[Any]:
        return self._connection.execute(statement, parameters)

    def _told(self, statement: Executable, **parameters: Any) -> Sequence[Any]:
        """What it finds; its errors in our own words."""
        try:
            return self._run(statement, **parameters).all()
        except _ERRORS as error:
            self._raise(error)

    def _after(self, lane: int, key: int, name: str, after: int) -> Iterator[Recorded]:
        while True:
            rows = self._told(self._read, at=lane, key=key, after=after)
            yield from recorded(lane, rows, {key: name})
            if len(rows) < CHUNK:
                return
            after = rows[-1].version

    def _key(self, lane: int, name: str) -> int | None:
        if not self._met:
            with self._whole(writes=False):
                self._meet()
        found = self._told(_FIND, at=lane, tenant=self._storage.tenant, id=name)
        return found[0].conversation if found else None

    def _lock(self, lane: int, name: str) -> tuple[int, int | None]:
        """The lane's last position, nobody else's until the host's end; the conversation's key.

        The lock comes before whatever reads, so that a new transaction sees all.
        """
        if self._sqlite:
            self._run(_LOCK, at=lane)
        head = self._run(_HEAD, at=lane).scalar()
        self._meet()
        if head is None:
            self._raise(StoreCorrupt(f"lane {lane} has no counter: restore it from a copy"))
        found = self._run(_FIND, at=lane, tenant=self._storage.tenant, id=name).one()
        seen, key = found.position, found.conversation
        if seen != head:  # InnoDB locks the newest row, and reads an older one
            self._raise(StoreBusy("others have written what the transaction cannot see"))
        return seen, key

    def _create(self, name: str, lane: int, key: int) -> int:
        self._database.check_names(self._storage.tenant, name)
        self._run(
            insert(conversations), lane=lane, conversation=key, tenant=self._storage.tenant,
            conversation_id=name, slice=slice_of(self._storage.tenant, name),
        )  # fmt: skip
        return key

    def _insert(
        self, key: tuple[int, int], position: int, version: int, drafts: Sequence[Draft]
    ) -> None:
        rows, marks = [], []
        for place, draft in enumerate(drafts, 1):
            rows.append(_named(events, event_row(*key, position + place, version + place, draft)))
            if draft.begins:
                marks.append(_named(fingerprints, index_row(*key, version + place, draft)))
        self._connection.execute(insert(events), rows)
        if marks:
            self._connection.execute(insert(fingerprints), marks)

    # the transaction

    @contextmanager
    def _whole(self, *, writes: bool) -> Iterator[None]:
        """All of it or nothing, also where the host goes on behind an error."""
        connection = self._connection
        if connection.closed:
            raise ValueError("the connection is closed: pass one that is open")
        try:
            if not self._met:
                self._check_driver()
            if writes:
                self._begin()
            savepoint = connection.begin_nested()
            try:
                yield
            except BaseException:
                with suppress(*_ERRORS):  # the database has given up all of it
                    savepoint.rollback()
                raise
            savepoint.commit()
        except _ERRORS as error:
            self._raise(error)

    def _begin(self) -> None:
        """Let the host's transaction begin, where it has not."""
        connection = self._connection
        if not connection.in_transaction():
            connection.begin()
        within: Any = connection.connection
        given = within.driver_connection
        # Python's driver begins none before a savepoint, which would then be the whole.
        begun = not self._sqlite or given.in_transaction
        ask = getattr(given, "get_autocommit", None)  # MySQL's drivers'
        commits = ask() if ask else getattr(within.dbapi_connection, "autocommit", None) is True
        if commits or (not begun and given.isolation_level is None):
            raise ValueError(
                "the connection is in autocommit mode, which has no transaction to be part of: "
                "pass one of another isolation level"
            )
        if not begun:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    def _check_driver(self) -> None:
        """Refuse a connection to another engine, or to the same file by another SQLite."""
        names = self._connection.dialect.name, self._database.url.get_backend_name()
        if len({name.replace("mariadb", "mysql") for name in names}) != 1:
            raise self._stranger()
        if self._sqlite:
            ours, given = driver(), self._connection.connection.driver_connection
            raw = getattr(given, "_conn", given)  # aiosqlite has one within
            if not isinstance(raw, ours.Connection):
                raise ValueError(
                    f"the connection is of {type(raw).__module__}, the store's of {ours.__name__}: "
                    "two copies of SQLite in one process undo each other's locks; create the "
                    f"engine with module={ours.__name__} (with aiosqlite, an async_creator), or "
                    "uninstall pysqlite3"
                )

    def _meet(self) -> None:
        """Refuse another database."""
        if not self._met:
            if self._run(_STORE).scalar() != self.epoch:
                raise self._stranger()
            self._met = True

    def _stranger(self) -> ValueError:
        there = self._connection.engine.url.render_as_string(hide_password=True)
        return ValueError(
            f"the connection is to {there}, where the store's log is not: pass one to the store's "
            "own database"
        )

    def _raise(self, error: Exception) -> NoReturn:
        told = self._in_our_words(error)
        if isinstance(told, StoreCorrupt) and not self._met:  # there are no tables of ours
            told = self._stranger()
        elif isinstance(told, StoreBusy):
            told = StoreBusy(f"{told}; {_AGAIN[self._sqlite]}")
        raise told from error

    def _in_our_words(self, error: Exception) -> BaseException:
        told: BaseException = self._database.translate(error)
        if told is not error:
            return told
        cause = getattr(error, "orig", None)
        if cause is not None and isinstance(self._database, Server):
            return self._database.told(cause)
        return StorageError(f"{error}: nothing was written; roll the transaction back")


def _named(table: Table, row: Sequence[Any]) -> dict[str, Any]:
    """A row by its columns' names; not every driver takes a bytearray."""
    values = (bytes(value) if type(value) is bytearray else value for value in row)
    return dict(zip(table.c.keys(), values, strict=True))
