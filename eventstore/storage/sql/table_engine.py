"""Engines for tables that stand beside the log, with SQLAlchemy's own transactions."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine


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


class TableEngine:
    """A database for tables beside the log; this one suits every database server."""

    def __init__(
        self,
        engine: Engine,
        is_transient: Callable[[BaseException], bool] = was_rolled_back,
        is_connection_lost: Callable[[BaseException], bool] = lambda _: False,
        explain: Callable[[BaseException], BaseException] = lambda error: error,
    ) -> None:
        self.engine = engine
        self.is_transient = is_transient
        """Whether a driver's error says that the transaction may be tried again (a deadlock)."""
        self.is_connection_lost = is_connection_lost
        """Whether a driver's error says that the server is gone, or not the one that writes."""
        self.explain = explain
        """Returns the library's error for a driver's that is about the database, not about what is
        written: a full disk, for example. Otherwise the same error."""

    @contextmanager
    def reading(self) -> Generator[Connection]:
        """Give a connection that reads everything as it was at one moment."""
        with self.engine.connect() as connection:
            _isolate(connection, "REPEATABLE READ")
            yield connection

    @contextmanager
    def writing(self) -> Generator[Connection]:
        """Give a connection whose transaction is committed at the end, whole or not at all."""
        with self.engine.connect() as connection:
            _isolate(connection, "READ COMMITTED")
            yield connection
            connection.commit()

    def close(self) -> None:
        """Give up the connections."""
        self.engine.dispose()
