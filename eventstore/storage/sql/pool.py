"""`IdlePool`: a pool of connections that Ctrl-C cannot leave locked.

1. `QueuePool` guards its queue with a `threading.Condition`, whose `__enter__` is Python code. An
   interrupt that comes right after it took the lock leaves the lock held for ever: all threads that
   take or give back a connection wait for it.
2. Here the idle connections are in a deque, whose steps are atomic, so that there is no lock.
3. Any number of connections may be in use. At most `pool_size` are kept when they are given back.
4. A connection counts as in use until it is closed or idle: a fork waits for those in use, because
   SQLite's own locks, held while it closes a file, would stay held in the child.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from sqlalchemy.pool import Pool

if TYPE_CHECKING:
    from sqlalchemy.pool import ConnectionPoolEntry


class IdlePool(Pool):
    """A pool without a lock; `pool_size` is how many idle connections it keeps."""

    def __init__(self, creator: Any, pool_size: int = 2, **options: Any) -> None:
        super().__init__(creator, **options)
        self._size = pool_size
        self._idle: deque[ConnectionPoolEntry] = deque()
        self._in_use: WeakSet[ConnectionPoolEntry] = WeakSet()  # an interrupt may lose one

    def checkedin(self) -> int:
        """Return how many connections are idle."""
        return len(self._idle)

    def checkedout(self) -> int:
        """Return how many connections are in use."""
        return len(self._in_use)

    def status(self) -> str:
        """Return the numbers of connections as a text."""
        return f"IdlePool: {self.checkedin()} idle, {self.checkedout()} in use"

    def recreate(self) -> IdlePool:
        """Return an empty pool with the same options."""
        return type(self)(
            self._creator,
            pool_size=self._size,
            recycle=self._recycle,
            echo=self.echo,
            logging_name=self._orig_logging_name,
            reset_on_return=self._reset_on_return,
            pre_ping=self._pre_ping,
            _dispatch=self.dispatch,
            dialect=self._dialect,
        )

    def dispose(self) -> None:
        """Close the idle connections."""
        while (entry := self._take()) is not None:
            entry.close()

    def _do_get(self) -> ConnectionPoolEntry:
        entry = self._take()
        if entry is None:
            entry = self._create_connection()
        self._in_use.add(entry)
        return entry

    def _do_return_conn(self, record: ConnectionPoolEntry) -> None:
        try:
            if len(self._idle) < self._size:
                self._idle.append(record)
            else:
                record.close()
        finally:
            self._in_use.discard(record)

    def _take(self) -> ConnectionPoolEntry | None:
        try:
            return self._idle.popleft()
        except IndexError:
            return None
