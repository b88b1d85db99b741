"""The connections of a storage: from SQLAlchemy's pool, replaced when lost, safe over a fork."""

from __future__ import annotations

import os
import random
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from os import getpid
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from eventstore.errors import StoreClosed

if TYPE_CHECKING:
    from eventstore.storage.database import Database

MOMENT = 0.1
"""Seconds for which a fork waits for what is under way on a server: longer than a commit takes."""

Done = TypeVar("Done")


class Connections:
    """One connection held for writing, and others for reads while they last."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._closed = False
        with unforked():
            self._connect()
            _all.add(self)

    def _connect(self) -> None:
        self._pid = getpid()
        self._lock = threading.RLock()  # who holds it writes, on the held connection
        self._door = threading.RLock()  # connections are opened behind it
        self._engine = self._database.connect()
        self._held: Any = None
        self._cursor: Any = None  # the writer's, used again and again
        self._torn = False  # the held connection may have a transaction open

    def _check(self) -> None:
        if self._pid != getpid():
            # Forked behind Python's back: leave the handles to the parent, unclosed.
            _orphans.append((self._engine, self._held))
            self._connect()
        if self._closed:
            raise StoreClosed("the store is closed: EventStore.open() it again")

    def _writer(self) -> Any:
        """The held connection's cursor, with no transaction open."""
        if self._torn:
            self._roll_back()
        if self._cursor is None:
            self._cursor = self._connection().cursor()
        return self._cursor

    def _connection(self) -> Any:
        if self._held is None:
            self._held = self._new_connection()
        return self._held.dbapi_connection

    def _new_connection(self) -> Any:
        """From the pool; a server that is gone may come back within `busy_timeout`."""
        return self._until_there(self._pooled)

    def _pooled(self) -> Any:
        with self._door:
            self._check()
            return self._engine.raw_connection()

    def _until_there(self, attempt: Callable[[], Done]) -> Done:
        """What an attempt gives: made again while its connection is lost, not for ever."""
        waits = pauses(time.monotonic() + self._database.busy_timeout)
        while True:
            try:
                return attempt()
            except Exception as error:
                pause = next(waits, None) if self._database.is_lost(error) else None
                if pause is None:
                    raise
                time.sleep(pause)

    def _let_go(self) -> None:
        held, self._held, self._cursor = self._held, None, None
        if held is not None:
            held.close()

    def _roll_back(self, *, lost: bool = False) -> None:
        """End an open transaction; a connection that cannot is given up, and that ends it too."""
        held, cursor, self._cursor = self._held, self._cursor, None
        if cursor is not None:  # a row not fetched yet would keep the next COMMIT from happening
            with suppress(Exception):
                cursor.close()
        if held is not None:
            try:
                if not lost:
                    held.dbapi_connection.rollback()
            except Exception:  # noqa: BLE001 - whatever the driver says, it is not to be used again
                if self._database.shared():
                    return  # it holds the data: the next append tries again
                lost = True
            if lost:
                self._held = None
                held.invalidate()
        self._torn = False

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        self._check()
        if self._database.shared():
            with self._lock:
                self._check()
                yield self._reads(self._connection())
            return
        pool, connection = self._engine.pool, self._pooled()
        try:
            yield self._reads(connection)
        except BaseException:
            connection.invalidate()  # gone, or out of step with its server
            raise
        finally:
            connection.close()
            if self._closed:  # meanwhile: nobody else would close what is given back
                pool.dispose()

    def _reads(self, connection: Any) -> Any:
        """A cursor to read with."""
        return connection.cursor()

    def _ask(self, job: Callable[[Any], Done]) -> Done:
        with self._reading() as cursor:
            return job(cursor)

    def _read(self, job: Callable[[Any], Done]) -> Done:
        """What a job reads; all over again when its connection was lost."""
        try:
            return self._until_there(partial(self._ask, job))
        except Exception as error:  # noqa: BLE001 - raised again in our own words
            self._raise(error)

    def rows(self, statement: str, *parameters: Any) -> list[Any]:
        """What a statement finds."""
        return self._read(fetching(statement, *parameters))

    def _raise(self, error: BaseException) -> NoReturn:
        translated = self._database.translate(error)
        if translated is error:
            raise error
        raise translated from error

    @property
    def _driver(self) -> Any:
        return self._engine.dialect.loaded_dbapi

    # SQLite cannot be carried over a fork: the child would believe in locks that only its parent
    # has, and another process could take the log away under it. So nothing is open in a fork.
    # A server's connections can, though it is tidier to close them: so a fork waits no more than
    # a moment for who uses one, as the server may not answer, or be gone.

    def _before_fork(self) -> None:
        carried = self._database.inheritable
        locks = self._lock, self._door
        self._stopped = [lock for lock in locks if lock.acquire(timeout=MOMENT if carried else -1)]
        if len(self._stopped) < len(locks) or self._torn or self._database.shared():
            return
        with suppress(Exception):
            self._let_go()
            for _ in range(100 if carried else 1000):  # others' reads under way end soon
                if not self._engine.pool.checkedout():  # type: ignore[attr-defined]
                    break
                time.sleep(0.001)
            self._engine.dispose()

    def _after_fork_in_parent(self) -> None:
        for lock in self._stopped:
            lock.release()

    def _after_fork_in_child(self) -> None:
        _orphans.append((self._engine, self._held))
        if not self._closed:
            self._connect()

    def close(self) -> None:
        """Give up the connections. Twice is once."""
        if self._closed or self._pid != getpid():
            self._closed = True
            return
        with self._lock, self._door:
            self._closed = True
            self._let_go()
            self._engine.dispose()


def fetching(statement: str, *parameters: Any) -> Callable[[Any], list[Any]]:
    """The job that reads what a statement finds."""

    def job(cursor: Any) -> list[Any]:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())

    return job


def pauses(until: float) -> Iterator[float]:
    """How long to wait before each new attempt: longer and longer, by chance, and not for ever."""
    longest = 0.005
    while time.monotonic() < until:
        yield random.uniform(0, longest)  # noqa: S311 - that several do not meet again
        longest = min(2 * longest, 0.5)


_orphans: list[Any] = []  # a forked child keeps its parent's connections from being closed
_all: weakref.WeakSet[Connections] = weakref.WeakSet()
_registry = threading.RLock()  # held over a fork: one at a time, and no store opens meanwhile


@contextmanager
def unforked() -> Iterator[None]:
    """No fork is made meanwhile: for who opens connections that no storage has yet."""
    with _registry:
        yield


def _before_fork() -> None:
    _registry.acquire()
    for connections in _all:
        connections._before_fork()  # noqa: SLF001 - one room


def _after_fork_in_parent() -> None:
    for connections in _all:
        connections._after_fork_in_parent()  # noqa: SLF001
    _registry.release()


def _after_fork_in_child() -> None:
    global _registry  # noqa: PLW0603 - the old one may be held by a thread that is not here
    _registry = threading.RLock()
    for connections in _all:
        connections._after_fork_in_child()  # noqa: SLF001


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
