"""Engines for tables that stand beside the log, with SQLAlchemy's own transactions.

Safe over a fork, as the log is (`forks`):

1. A fork waits for the transactions of other threads, and no thread begins one meanwhile. Then the
   connections are closed. On a server it waits for a moment only, and what is still in use is
   carried over: the child never touches it.
2. A file's connections are not carried over, except those that the forking thread itself uses:
   SQLite in the child would believe in locks that only the parent has. Where such a one reads, the
   child closes its copy.
3. A transaction that was open at the fork is the parent's. In the child it refuses to go on, and
   its end does nothing.
4. A database in memory is copied by the fork, and nothing is done.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from os import getpid
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from sqlalchemy import event
from sqlalchemy.pool import NullPool, QueuePool

from eventstore.errors import StorageError
from eventstore.storage.sql.forks import FORK_WAIT_SECONDS, leave, register
from eventstore.storage.sql.pool import IdlePool

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, ExceptionContext
    from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection


_ROLLED_BACK = (1020, 1205, 1213)
"""MySQL's codes for a changed row, a lock that timed out and a deadlock."""


def was_rolled_back(error: BaseException) -> bool:
    """Return whether a server rolled the transaction back for another one, by any driver's error.

    Either the error has an SQLSTATE, which is of class 40 then, or its first argument is the code
    of MySQL or MariaDB.
    """
    state = getattr(error, "sqlstate", None)
    if state is not None:
        return str(state).startswith("40")
    return bool(error.args) and error.args[0] in _ROLLED_BACK


def _isolate(connection: Connection, level: str) -> None:
    """Begin a transaction of an isolation level.

    SQLAlchemy's own option speaks to the driver directly, so a server that is lost then would raise
    the driver's bare error; and it speaks once more when the connection is given back.
    """
    connection.exec_driver_sql(f"SET TRANSACTION ISOLATION LEVEL {level}")


def _keep_to_itself(_: Connection, __: Sequence[str]) -> None:
    """Share no table: there is one server."""


class _InUse(NamedTuple):
    """A connection that is in use, and by which thread. To forget it gives it back."""

    thread: int
    connection: weakref.ref[PoolProxiedConnection]


class _LeftToParent:
    """What a forked child has in place of a driver's connection that its parent uses."""

    def rollback(self) -> None:
        """Do nothing: the transaction is the parent's."""

    close = rollback

    def __getattr__(self, name: str) -> NoReturn:
        raise StorageError(
            "the process was forked in the middle of a transaction, which its parent has: nothing "
            "was written here, begin again"
        )


def _ours_as_it_is(context: ExceptionContext) -> BaseException | None:
    """Return the error of `_LeftToParent`, which SQLAlchemy would wrap in one of a statement."""
    error = context.original_exception
    return error if isinstance(error, StorageError) else None


class TableEngine:
    """A database for tables beside the log; this one suits every database server."""

    fork_rank = 0

    def __init__(
        self,
        engine: Engine,
        is_transient: Callable[[BaseException], bool] = was_rolled_back,
        is_connection_lost: Callable[[BaseException], bool] = lambda _: False,
        explain: Callable[[BaseException], BaseException] = lambda error: error,
        fork_wait: float = FORK_WAIT_SECONDS,
    ) -> None:
        self.engine = engine
        self.is_transient = is_transient
        """Whether a driver's error says that the transaction may be tried again (a deadlock)."""
        self.is_connection_lost = is_connection_lost
        """Whether a driver's error says that the server is gone, or not the one that writes."""
        self.explain = explain
        """Returns the library's error for a driver's that is about the database, not about what is
        written: a full disk, for example. Otherwise the same error."""
        self.share: Callable[[Connection, Sequence[str]], None] = _keep_to_itself
        """Lets all servers of a cluster know tables, by name, that one of them has."""
        self._fork_wait = fork_wait
        self._in_memory = not isinstance(engine.pool, IdlePool | NullPool | QueuePool)
        self._begin_anew()
        event.listen(engine, "checkout", self._checked_out)
        event.listen(engine, "checkin", self._checked_in)
        event.listen(engine, "handle_error", _ours_as_it_is, retval=True)
        register(self)

    def _begin_anew(self) -> None:
        self._pid = getpid()
        self._gate = threading.RLock()
        """Its holder takes a connection; during a fork no one does."""
        self._is_gate_held = False
        self._in_use: dict[ConnectionPoolEntry, _InUse] = {}

    def _checked_out(
        self, _: object, entry: ConnectionPoolEntry, connection: PoolProxiedConnection
    ) -> None:
        self._in_use[entry] = _InUse(threading.get_ident(), weakref.ref(connection))

    def _checked_in(self, _: object, entry: ConnectionPoolEntry) -> None:
        self._in_use.pop(entry, None)

    def connect(self) -> Connection:
        """Return a connection, with no transaction open: to be closed in the end."""
        if self._pid != getpid():  # forked without Python's hooks
            self.after_fork_in_child()
        if self._in_use and self._is_used_by(threading.get_ident()):  # the fork waits for it
            return self.engine.connect()
        with self._gate:
            return self.engine.connect()

    def _is_used_by(self, thread: int) -> bool:
        return any(used.thread == thread for used in list(self._in_use.values()))

    @contextmanager
    def reading(self) -> Generator[Connection]:
        """Give a connection that reads everything as it was at one moment."""
        with self.connect() as connection:
            _isolate(connection, "REPEATABLE READ")
            yield connection

    @contextmanager
    def writing(self) -> Generator[Connection]:
        """Give a connection whose transaction is committed at the end, whole or not at all."""
        with self.connect() as connection:
            _isolate(connection, "READ COMMITTED")
            yield connection
            connection.commit()

    def close(self) -> None:
        """Give up the connections, which in a forked child are its own."""
        if self._pid == getpid():
            self.engine.dispose()

    def before_fork(self) -> None:
        """Wait for other threads' transactions, and close the connections if none is left."""
        deadline = time.monotonic() + self._fork_wait
        self._is_gate_held = self._gate.acquire(timeout=self._fork_wait)
        if not self._is_gate_held:
            return
        own = threading.get_ident()
        while any(used.thread != own for used in list(self._in_use.values())):
            if time.monotonic() >= deadline:
                break
            time.sleep(0.001)
        if not self._in_use and not self._in_memory:
            self.engine.dispose()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        if self._is_gate_held:
            self._is_gate_held = False
            self._gate.release()

    def after_fork_in_child(self) -> None:
        """Leave the connections to the parent, and open others when they are needed."""
        in_use = dict(self._in_use)
        self._begin_anew()
        if self._in_memory:
            return
        leave(self.engine.pool)
        for entry, used in in_use.items():
            self._leave(entry.dbapi_connection, used.thread)
        holders: list[Any] = [*in_use, *(used.connection() for used in in_use.values())]
        for holder in filter(None, holders):
            holder.dbapi_connection = _LeftToParent()
        self.engine.dispose(close=False)

    def _leave(self, connection: Any, thread: int) -> None:
        """Leave the driver's connection, which a thread used at the fork, to the parent."""
        del thread  # a server's is left whatever was done on it
        leave(connection)
