"""SQLite's engine for tables that stand beside the log."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine, event
from sqlalchemy.pool import StaticPool

from eventstore.storage.sql.forks import FORK_WAIT_SECONDS
from eventstore.storage.sql.table_engine import TableEngine
from eventstore.storage.sqlite.driver import LIMIT_WAL, driver
from eventstore.storage.sqlite.files import path_of

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection


class SqliteTableEngine(TableEngine):
    """A SQLite file for tables; a power cut may take back the last commits."""

    def __init__(
        self,
        url: URL,
        busy_timeout: float,
        explain: Callable[[BaseException], BaseException],
        is_transient: Callable[[BaseException], bool],
    ) -> None:
        # The same copy of SQLite that has the log: two in one process undo each other's locks.
        options: dict[str, Any] = {"module": driver()}
        options["connect_args"] = {"timeout": busy_timeout, "check_same_thread": False}
        if path_of(url) is None:
            options["poolclass"] = StaticPool
        engine = create_engine(url, **options)
        patience = max(busy_timeout, FORK_WAIT_SECONDS)
        super().__init__(engine, is_transient, explain=explain, fork_wait=patience)
        event.listen(self.engine, "connect", _prepare)
        self._writing: set[int] = set()
        """The threads that write."""

    @contextmanager
    def reading(self) -> Generator[Connection]:
        """Give a connection that reads everything as it was at one moment."""
        with self.connect() as connection:
            connection.exec_driver_sql("BEGIN")
            yield connection

    @contextmanager
    def writing(self) -> Generator[Connection]:
        """Give a connection whose transaction is committed at the end, whole or not at all."""
        with self.connect() as connection:
            thread = threading.get_ident()
            self._writing.add(thread)
            try:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                yield connection
                connection.commit()
            finally:
                self._writing.discard(thread)

    def _leave(self, connection: Any, thread: int) -> None:
        """Close one that reads: while it is open here, the child's locks are not all its own.

        Its locks are the parent's, which keeps them. What one that writes would take back is the
        parent's, too: it stays open.
        """
        if thread in self._writing:
            super()._leave(connection, thread)
        else:
            connection.close()


def _prepare(connection: Any, _: object) -> None:
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA mmap_size=0")
    cursor.execute(LIMIT_WAL)
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")  # what a power cut takes is projected again
    cursor.close()
