"""The connections of a storage: from SQLAlchemy's pool, replaced when lost, safe over a fork."""

from __future__ import annotations

import os
import random
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from os import getpid
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from eventstore.errors import StoreClosed
from eventstore.storage.sql.backend import library_error
from eventstore.storage.sql.pool import IdlePool

if TYPE_CHECKING:
    from types import ModuleType

    from sqlalchemy.engine.interfaces import DBAPICursor
    from sqlalchemy.pool import PoolProxiedConnection

    from eventstore.storage.sql.backend import Backend

FORK_WAIT_SECONDS = 0.1
"""How long a fork waits for what is under way on a server: longer than a commit takes."""

FIRST_DELAY_SECONDS = 0.005
LONGEST_DELAY_SECONDS = 0.5

_IS_KNOWN = "toolledger: is known"
"""Mark of a pooled connection on which the database was found as it was seen before."""

Result = TypeVar("Result")


class Connections:
    """One connection held for writing, and others for reads while they last."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._closed = False
        with no_fork():
            self._connect()
            _all.add(self)

    def _connect(self) -> None:
        self._pid = getpid()
        self._lock = threading.RLock()  # its holder writes, on the writer's connection
        self._open_lock = threading.RLock()  # its holder opens a connection
        self._engine = self._backend.connect()
        self._writer_connection: PoolProxiedConnection | None = None
        self._writer_cursor: DBAPICursor | None = None  # used again and again
        self._in_transaction = False  # the writer's connection may have a transaction open

    def _check(self) -> None:
        if self._pid != getpid():
            # Forked without Python's hooks: leave the handles to the parent, unclosed.
            _inherited.append((self._engine, self._writer_connection))
            self._connect()
        if self._closed:
            raise StoreClosed("the store is closed: open it again with EventStore.open()")

    def _writer(self) -> DBAPICursor:
        """Return the writer's cursor, with no transaction open."""
        if self._in_transaction:
            self._roll_back()
        cursor = self._writer_cursor
        if cursor is None:
            cursor = self._writer_cursor = self._connection().cursor()
        return cursor

    def _connection(self) -> Any:
        """Return the driver's connection that is held for writing."""
        if self._writer_connection is None:
            self._writer_connection = self._new_connection()
        return self._writer_connection.dbapi_connection

    def _new_connection(self) -> PoolProxiedConnection:
        """Take one from the pool; a server that is gone may come back within `busy_timeout`."""
        return self._reconnecting(self._pooled)

    def _pooled(self) -> PoolProxiedConnection:
        with self._open_lock:
            self._check()
            return self._engine.raw_connection()

    def _reconnecting(self, attempt: Callable[[], Result]) -> Result:
        """Return what an attempt gives; repeat it while its connection is lost."""
        return reconnecting(self._backend, attempt)

    def _release_writer(self) -> None:
        held, self._writer_connection, self._writer_cursor = self._writer_connection, None, None
        if held is not None:
            held.close()

    def _roll_back(self, *, lost: bool = False) -> None:
        """End an open transaction; a connection that cannot is given up, which ends it too."""
        held, cursor, self._writer_cursor = self._writer_connection, self._writer_cursor, None
        if cursor is not None:  # a row not fetched yet would keep the next COMMIT from happening
            with suppress(Exception):
                cursor.close()
        if held is not None:
            try:
                if not lost:
                    held.dbapi_connection.rollback()  # type: ignore[union-attr]
            except Exception:  # noqa: BLE001 - whatever the driver says, it is not to be used again
                if self._backend.single_connection:
                    return  # it holds the data: the next append tries again
                lost = True
            if lost:
                self._writer_connection = None
                held.invalidate()
                self._gave_up()
        self._in_transaction = False

    def _gave_up(self) -> None:
        """Take note that a connection is gone: the next one may find another database there."""

    def _is_ours(self, cursor: DBAPICursor) -> bool:  # noqa: ARG002 - `SqlStorage` overrides this
        """Return whether a new connection finds the database as it was seen before."""
        return True

    @contextmanager
    def cursor(self) -> Generator[DBAPICursor]:
        """Give a cursor to read with."""
        self._check()
        self._backend.check_in_place()
        if self._backend.single_connection:
            with self._lock:
                self._check()
                yield self._read_cursor(self._connection())
            return
        pool, connection = self._engine.pool, self._pooled()
        try:
            cursor = self._read_cursor(connection)
            if _IS_KNOWN not in connection.info and self._is_ours(cursor):
                connection.info[_IS_KNOWN] = True
            yield cursor
        except BaseException:
            connection.invalidate()  # gone, or out of step with its server
            self._gave_up()
            raise
        finally:
            connection.close()
            if self._closed:  # meanwhile: nothing else closes what is given back
                pool.dispose()

    def _read_cursor(self, connection: Any) -> DBAPICursor:
        cursor: DBAPICursor = connection.cursor()
        return cursor

    def retrying(self, read: Callable[[], Result]) -> Result:
        """Return what `read` gives; it is called again when its connection was lost.

        Raises:
            StorageError: Whatever the driver raised, in the library's words.
        """
        try:
            return self._reconnecting(read)
        except Exception as error:  # noqa: BLE001 - raised again in the library's words
            self._raise(error)

    def rows(self, statement: str, *parameters: object) -> list[Any]:
        """Return what a statement finds."""

        def read() -> list[Any]:
            with self.cursor() as cursor:
                cursor.execute(statement, parameters)
                return list(cursor.fetchall())

        return self.retrying(read)

    def _raise(self, error: BaseException) -> NoReturn:
        translated = library_error(self._backend, error)
        if translated is error:
            raise error
        raise translated from error

    @property
    def _driver(self) -> ModuleType:
        return self._backend.driver_module

    # SQLite cannot be carried over a fork: the child would believe in locks that only its parent
    # has, and another process could take the log away under it. So nothing is open in a fork.
    # A server's connections can be carried, though closing them is tidier. So a fork waits only
    # `FORK_WAIT_SECONDS` for the thread that uses one: the server may not answer.

    def before_fork(self) -> None:
        """Wait for what is under way, and close the connections where that is possible."""
        carried = self._backend.survives_fork
        timeout = FORK_WAIT_SECONDS if carried else -1
        locks = self._lock, self._open_lock
        self._locked_for_fork = [lock for lock in locks if lock.acquire(timeout=timeout)]
        timed_out = len(self._locked_for_fork) < len(locks)
        if timed_out or self._in_transaction or self._backend.single_connection:
            return
        with suppress(Exception):
            self._release_writer()
            for _ in range(100 if carried else 1000):  # others' reads under way end soon
                pool = self._engine.pool
                if not isinstance(pool, IdlePool) or not pool.checkedout():
                    break
                time.sleep(0.001)
            self._engine.dispose()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        for lock in self._locked_for_fork:
            lock.release()

    def after_fork_in_child(self) -> None:
        """Leave the connections to the parent, and open others when they are needed."""
        _inherited.append((self._engine, self._writer_connection))
        if not self._closed:
            self._connect()

    def close(self) -> None:
        """Give up the connections. A second call does nothing."""
        if self._closed or self._pid != getpid():
            self._closed = True
            return
        with self._lock, self._open_lock:
            self._closed = True
            self._release_writer()
            self._engine.dispose()


def reconnecting(backend: Backend, attempt: Callable[[], Result]) -> Result:
    """Return what an attempt gives; repeat it for `busy_timeout` while no server takes it."""
    delays = backoff_delays(time.monotonic() + backend.busy_timeout)
    while True:
        try:
            return attempt()
        except Exception as error:
            delay = next(delays, None) if backend.is_connection_lost(error) else None
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


_inherited: list[Any] = []  # a forked child keeps its parent's connections from being closed
_all: weakref.WeakSet[Connections] = weakref.WeakSet()
_registry = threading.RLock()  # held during a fork: no store opens meanwhile


@contextmanager
def no_fork() -> Generator[None]:
    """Hold forks back while connections are opened that no storage owns yet."""
    with _registry:
        yield


def _before_fork() -> None:
    _registry.acquire()
    for connections in _all:
        connections.before_fork()


def _after_fork_in_parent() -> None:
    for connections in _all:
        connections.after_fork_in_parent()
    _registry.release()


def _after_fork_in_child() -> None:
    global _registry  # noqa: PLW0603 - the old one may be held by a thread that is not here
    _registry = threading.RLock()
    for connections in _all:
        connections.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
