"""The log inside a transaction of the host's own, through the host's SQLAlchemy connection.

Nothing is committed here: events stand or fall with the host's transaction. The lane's counter
is locked from the first append until that ends, so versions and positions are without gaps
whichever way it does.

An append goes behind what others have committed, so it must see that. A transaction that reads
from an older snapshot is refused, not led astray: on SQLite one that has read before others wrote,
on servers one under REPEATABLE READ, likewise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn

from sqlalchemy import Connection, and_, bindparam, insert, select, update
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from eventstore.errors import StorageError, StoreBusy, StoreCorrupt
from eventstore.fingerprint import slice_of
from eventstore.storage import Append, Appended, Draft
from eventstore.storage.schema import conversations, events, fingerprints, lanes, store
from eventstore.storage.server import Server
from eventstore.storage.sql import CHUNK, SqlStorage, _index_row, _recorded, _row
from eventstore.storage.sqlite import driver
from eventstore.storage.statements import columns

if TYPE_CHECKING:
    from sqlalchemy import CursorResult, Executable

    from eventstore.events import Recorded

_c, _e, _l = conversations.c, events.c, lanes.c
_STORE = select(store.c.epoch)
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
        self._tenant = storage._tenant  # noqa: SLF001 - one room
        self._database: Any = storage._database  # noqa: SLF001
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
    def epoch(self) -> str:
        """What tells the store from every other."""
        return self._storage.epoch

    def append(self, request: Append) -> Appended:
        """Store what `rebase` makes of the events after `request.version`, all or none.

        It is asked always, behind the lane's lock.
        """
        name = request.conversation_id
        lane = self._storage._lane(name)  # noqa: SLF001
        with self._whole(writes=True):
            base, key = self._lock(lane, name)
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
        lane = self._storage._lane(conversation_id)  # noqa: SLF001
        key = self._key(lane, conversation_id)
        if key is not None:
            yield from self._after(lane, key, conversation_id, after)

    def known_ids(self, conversation_id: str, event_ids: Sequence[bytes]) -> dict[bytes, int]:
        """Which of the event ids are stored in the conversation, with their versions."""
        lane = self._storage._lane(conversation_id)  # noqa: SLF001
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
        except SQLAlchemyError as error:
            self._raise(error)

    def _after(self, lane: int, key: int, name: str, after: int) -> Iterator[Recorded]:
        while True:
            rows = self._told(self._read, at=lane, key=key, after=after)
            yield from _recorded(rows, {key: name})
            if len(rows) < CHUNK:
                return
            after = rows[-1].version

    def _key(self, lane: int, name: str) -> int | None:
        if not self._met:
            with self._whole(writes=False):
                pass
        found = self._told(_FIND, at=lane, tenant=self._tenant, id=name)
        return found[0].conversation if found else None

    def _lock(self, lane: int, name: str) -> tuple[int, int | None]:
        """The lane's last position, nobody else's until the host's end; the conversation's key."""
        if self._sqlite:
            self._run(_LOCK, at=lane)
        head = self._run(_HEAD, at=lane).scalar()
        if head is None:
            self._raise(StoreCorrupt(f"lane {lane} has no counter: restore it from a copy"))
        found = self._run(_FIND, at=lane, tenant=self._tenant, id=name).one()
        seen, key = found.position, found.conversation
        if seen != head:  # InnoDB locks the newest row, and reads an older one
            self._raise(StoreBusy("others have written what the transaction cannot see"))
        return seen, key

    def _create(self, name: str, lane: int, key: int) -> int:
        self._database.check_names(self._tenant, name)
        self._run(
            insert(conversations), lane=lane, conversation=key, tenant=self._tenant,
            conversation_id=name, slice=slice_of(self._tenant, name),
        )  # fmt: skip
        return key

    def _insert(
        self, key: tuple[int, int], position: int, version: int, drafts: Sequence[Draft]
    ) -> None:
        rows, marks = [], []
        for place, draft in enumerate(drafts, 1):
            row = _row(*key, position + place, version + place, draft)
            rows.append(dict(zip(_e.keys(), row, strict=True)))
            if draft.begins:
                mark = _index_row(*key, version + place, draft)
                marks.append(dict(zip(fingerprints.c.keys(), mark, strict=True)))
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
            if writes:
                self._begin()
            savepoint = connection.begin_nested()
            try:
                self._meet()
                yield
            except BaseException:
                with suppress(SQLAlchemyError):  # the database has given up all of it
                    savepoint.rollback()
                raise
            savepoint.commit()
        except SQLAlchemyError as error:
            self._raise(error)

    def _begin(self) -> None:
        """Let the host's transaction begin, where it has not."""
        connection = self._connection
        if not connection.in_transaction():
            connection.begin()
        if self._sqlite:
            given: Any = connection.connection.driver_connection
            # Python's driver begins none before a savepoint, which would then be the whole.
            begun = given.in_transaction
            commits = getattr(given, "autocommit", False) is True or (
                given.isolation_level is None and not begun
            )
        else:
            given, begun = connection.connection.dbapi_connection, True
            ask = getattr(given, "get_autocommit", None)
            commits = ask() if ask else given.autocommit
        if commits:
            raise ValueError(
                "the connection is in autocommit mode, which has no transaction to be part of: "
                "pass one of another isolation level"
            )
        if not begun:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    def _meet(self) -> None:
        """Refuse a connection that is not to the store's database."""
        if self._met:
            return
        connection = self._connection
        if self._sqlite:
            self._check_copy(connection.connection.driver_connection)
        try:
            epoch = self._run(_STORE).scalar() if self._is_alike() else None
        except DBAPIError as error:
            if not isinstance(self._in_our_words(error), StoreCorrupt):  # as one without the table
                raise
            epoch = None
        if epoch != self.epoch:
            raise ValueError(
                f"the connection is to {connection.engine.url}, where the store's log is not: pass "
                "one to the store's own database"
            )
        self._met = True

    def _is_alike(self) -> bool:
        """Whether it is the same engine."""
        names = self._connection.dialect.name, self._storage._engine.dialect.name  # noqa: SLF001
        return len({name.replace("mariadb", "mysql") for name in names}) == 1

    def _check_copy(self, given: Any) -> None:
        ours, raw = driver(), getattr(given, "_conn", given)  # aiosqlite has one within
        if not isinstance(raw, ours.Connection):
            raise ValueError(  # noqa: TRY004 - of the right type
                f"the connection is of {type(raw).__module__}, the store's of {ours.__name__}: two "
                "copies of SQLite in one process undo each other's locks; create the engine with "
                f"module={ours.__name__} (with aiosqlite, an async_creator), or uninstall pysqlite3"
            )

    def _raise(self, error: Exception) -> NoReturn:
        told = self._in_our_words(error)
        if isinstance(told, StoreBusy):
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
