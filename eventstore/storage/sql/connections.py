"""The connections of a storage: from SQLAlchemy's pool, replaced when lost, safe over a fork.

They know nothing of the log. What is remembered of the database may not hold any more:

1. after a fork, when all connections are new ones (`on_renewal`);
2. after a connection was given up, as the next one may find another database (`on_loss`);
3. on a new connection. Those for writing are counted (`opened`).
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from os import getpid
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from eventstore.errors import StoreClosed, StoreReadOnly
from eventstore.storage.sql.backend import library_error
from eventstore.storage.sql.forks import FORK_WAIT_SECONDS, leave, no_fork, register
from eventstore.storage.sql.pool import IdlePool

if TYPE_CHECKING:
    from types import ModuleType

    from sqlalchemy import Engine
    from sqlalchemy.engine.interfaces import DBAPICursor
    from sqlalchemy.pool import PoolProxiedConnection

    from eventstore.storage.sql.backend import Backend

FIRST_DELAY_SECONDS = 0.005
LONGEST_DELAY_SECONDS = 0.5

Result = TypeVar("Result")


class Connections:
    """One connection held for writing, and others for reads while they last.

    They come from a pool of their own, or from the one of other connections that are `beside`.
    """

    def __init__(self, backend: Backend, beside: Connections | None = None) -> None:
        self.backend = backend
        self.beside = beside
        self.fork_rank = 1 if beside is None else 0  # whose pool it is, comes last
        self.closed = False
        self.opened = 0
        """How many connections were opened for writing."""
        self.proven = 0
        """The one for writing, by its number, on which all that was seen was in its place."""
        self.on_renewal: list[Callable[[], object]] = []
        self.on_loss: list[Callable[[], object]] = []
        with no_fork():
            self._connect()
            register(self)

    def _connect(self) -> None:
        self.pid = getpid()
        self.lock = threading.RLock()
        """Its holder writes, on the writer's connection."""
        self.open_lock = threading.RLock()
        """Its holder opens a connection."""
        if self.beside is None:
            self._engine = self.backend.log_engine()
        self.writer_connection: PoolProxiedConnection | None = None
        self.writer_cursor: DBAPICursor | None = None  # used again and again
        self.in_transaction = False
        """The writer's connection may have a transaction open."""

    @property
    def engine(self) -> Engine:
        """The engine whose pool the connections come from."""
        return self._engine if self.beside is None else self.beside.engine

    def _renew(self) -> None:
        leave(self.engine, self.writer_connection)
        self._connect()
        for listener in self.on_renewal:
            listener()

    def check(self) -> None:
        """Refuse a storage that is closed; leave connections to the process that opened them."""
        if self.pid != getpid():  # forked without Python's hooks
            self._renew()
        if self.closed:
            raise StoreClosed("the store is closed: open it again with EventStore.open()")

    def writer(self) -> DBAPICursor:
        """Return the writer's cursor, with no transaction open.

        Raises:
            StoreReadOnly: the store was opened to read alone.
        """
        if self.backend.read_only:
            raise StoreReadOnly(
                "the store was opened with read_only=True, and nothing was written: open it again "
                "without that"
            )
        held = self.writer_connection
        if held is not None and self.backend.is_suspect(held.info):
            self.roll_back(lost=True)
        if self.in_transaction:
            self.roll_back()
        cursor = self.writer_cursor
        if cursor is None:
            cursor = self.writer_cursor = self.connection().cursor()
        return cursor

    def connection(self) -> Any:
        """Return the driver's connection that is held for writing."""
        if self.writer_connection is None:
            self.opened += 1
            self.writer_connection = self.new_connection()
        return self.writer_connection.dbapi_connection

    def ready_connection(self) -> Any:
        """Return the driver's connection for writing, with no transaction open."""
        self.writer()
        return self.connection()

    def new_connection(self) -> PoolProxiedConnection:
        """Take one from the pool; a server that is gone may come back within `busy_timeout`."""
        return self.reconnecting(self._pooled)

    def _pooled(self) -> PoolProxiedConnection:
        with self.open_lock:
            self.check()
            return self.engine.raw_connection()

    def reconnecting(self, attempt: Callable[[], Result]) -> Result:
        """Return what an attempt gives; repeat it while its connection is lost."""
        return reconnecting(self.backend, attempt)

    def _release_writer(self) -> None:
        held, self.writer_connection, self.writer_cursor = self.writer_connection, None, None
        if held is not None:
            held.close()

    def roll_back(self, *, lost: bool = False) -> None:
        """End an open transaction; a connection that cannot is given up, which ends it too."""
        held, cursor, self.writer_cursor = self.writer_connection, self.writer_cursor, None
        if cursor is not None:  # a row not fetched yet would keep the next COMMIT from happening
            with suppress(Exception):
                cursor.close()
        if held is not None:
            try:
                if not lost:
                    held.dbapi_connection.rollback()  # type: ignore[union-attr]
            except Exception:  # noqa: BLE001 - whatever the driver says, it is not to be used again
                if self.backend.single_connection:
                    return  # it holds the data: the next append tries again
                lost = True
            if lost:
                self.writer_connection = None
                held.invalidate()
                self._gave_up()
        self.in_transaction = False

    @contextmanager
    def transaction(self) -> Generator[DBAPICursor]:
        """Give the writer's cursor in a transaction, which must have ended when it is given back.

        After an error it is rolled back.
        """
        self.check()
        cursor = self.writer()
        self.in_transaction = True
        try:
            cursor.execute(self.backend.begin)
            yield cursor
        except BaseException as error:
            self.roll_back(lost=self.backend.is_connection_lost(error))
            raise
        self.in_transaction = False

    def _gave_up(self) -> None:
        for listener in self.on_loss:
            listener()

    @contextmanager
    def cursor(self) -> Generator[DBAPICursor]:
        """Give a cursor to read with."""
        self.check()
        backend = self.backend
        backend.check_in_place()
        if backend.single_connection:
            with self.lock:
                self.check()
                yield backend.read_cursor(self.connection())
            return
        pool, connection = self.engine.pool, self._pooled()
        try:
            yield backend.read_cursor(connection)
        except BaseException:
            connection.invalidate()  # gone, or out of step with its server
            self._gave_up()
            raise
        finally:
            connection.close()
            if self.closed:  # meanwhile: nothing else closes what is given back
                pool.dispose()

    def retrying(self, read: Callable[[], Result]) -> Result:
        """Return what `read` gives; it is called again when its connection was lost, or it was.

        A standby cancels a read that is in the way of what it replays.

        Raises:
            StorageError: Whatever the driver raised, in the library's words.
        """
        try:
            return reconnecting(self.backend, read)
        except Exception as error:  # noqa: BLE001 - raised again in the library's words
            self.raise_ours(error)

    def rows(self, statement: str, *parameters: object) -> list[Any]:
        """Return what a statement finds."""

        def read() -> list[Any]:
            with self.cursor() as cursor:
                cursor.execute(statement, parameters)
                return list(cursor.fetchall())

        return self.retrying(read)

    def raise_ours(self, error: BaseException) -> NoReturn:
        """Raise the library's error for a driver's; or the same error."""
        translated = library_error(self.backend, error)
        if translated is error:
            raise error
        raise translated from error

    @property
    def driver(self) -> ModuleType:
        """The driver, a module as PEP 249 describes it."""
        return self.backend.driver_module

    # SQLite cannot be carried over a fork: the child would believe in locks that only its parent
    # has, and another process could take the log away under it. So nothing is open in a fork.
    # A server's connections can be carried, though closing them is tidier. So a fork waits only
    # `FORK_WAIT_SECONDS` for the thread that uses one: the server may not answer.

    def before_fork(self) -> None:
        """Wait for what is under way, and close the connections where that is possible."""
        carried = self.backend.survives_fork
        timeout = FORK_WAIT_SECONDS if carried else -1
        locks = self.lock, self.open_lock
        self._locked_for_fork = [lock for lock in locks if lock.acquire(timeout=timeout)]
        timed_out = len(self._locked_for_fork) < len(locks)
        if timed_out or self.in_transaction or self.backend.single_connection:
            return
        with suppress(Exception):
            self._release_writer()
            if self.beside is not None:
                return
            for _ in range(100 if carried else 1000):  # others' reads under way end soon
                pool = self.engine.pool
                if not isinstance(pool, IdlePool) or not pool.checkedout():
                    break
                time.sleep(0.001)
            self.engine.dispose()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        for lock in self._locked_for_fork:
            lock.release()

    def after_fork_in_child(self) -> None:
        """Leave the connections to the parent, and open others when they are needed."""
        if self.closed:
            leave(self.engine, self.writer_connection)
        else:
            self._renew()

    def close(self) -> None:
        """Give up the connections. A second call does nothing."""
        if self.closed or self.pid != getpid():
            self.closed = True
            return
        with self.lock, self.open_lock:
            self.closed = True
            self._release_writer()
            if self.beside is None:
                self.engine.dispose()


def reconnecting(backend: Backend, attempt: Callable[[], Result]) -> Result:
    """Return what an attempt gives; repeat it for `busy_timeout` while no server takes it.

    It is repeated, too, where the server gave it up for others: in a deadlock, or on a standby that
    it kept from replaying.
    """
    began, delays = time.monotonic(), None
    while True:
        try:
            return attempt()
        except Exception as error:
            delays = delays or backoff_delays(began + backend.busy_timeout)
            passes = backend.is_connection_lost(error) or backend.is_transient(error)
            delay = next(delays, None) if passes else None
            if delay is None:
                raise
            time.sleep(delay)


def backoff_delays(until: float) -> Iterator[float]:
    """Yield how many seconds to wait before each new attempt, `until` a monotonic time.

    Delays grow, and are random so that several callers do not meet again.
    """
    longest = FIRST_DELAY_SECONDS
    while time.monotonic() < until:
        yield random.uniform(0, longest)  # noqa: S311 - not a secret
        longest = min(2 * longest, LONGEST_DELAY_SECONDS)
