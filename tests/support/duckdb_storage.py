"""A backend for DuckDB, brought from outside: nothing in `eventstore/` knows of it.

What it keeps of the log's promises (DuckDB 2.0):

- Durable: a commit has been synced to the write-ahead log. `durability="normal"` is no faster.
- Atomic, ordered, idempotent, without gaps: yes.
- One writer at a time: in the process, transactions that write wait for each other behind a lock,
  for `busy_timeout` at most. DuckDB itself would let both begin and refuse the later one.
- **Several processes: no.** DuckDB opens a file for one process; a second one gets `StoreBusy`.
- A fork carries nothing: like SQLite, the connections are closed before it and opened anew.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
from alembic.ddl import impl
from sqlalchemy import URL, ColumnElement, Connection, Engine, create_engine, func
from sqlalchemy.dialects import registry
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.pool import QueuePool, StaticPool

from eventstore.engines import (
    Backend,
    migrate_in_transaction,
    open_in_transaction,
    register_backend,
)
from eventstore.errors import NotAStore, StorageError, StoreBusy, StoreCorrupt
from eventstore.storage.interface import Storage

_writers: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
"""The lock of each database's writers."""


class DuckDb(Backend):
    """A DuckDB file, or a database in memory."""

    begin = "BEGIN TRANSACTION"
    row_locks = False
    checks_encoding = True

    def __init__(self, url: URL, durability: str, busy_timeout: float) -> None:
        super().__init__(url, durability, busy_timeout)
        self._path = Path(url.database).resolve() if url.database else None
        if self._path is not None:
            self.url = url.set(database=str(self._path))
        self._memory: Engine | None = None

    @property
    def driver_module(self) -> ModuleType:
        """Return the driver."""
        return duckdb

    @property
    def single_connection(self) -> bool:
        """Return whether the database is in memory."""
        return self._path is None

    def open(self, tenant: str, *, new: bool) -> Storage:
        """Open the storage of a tenant."""
        if not new and self._path is not None and not self._path.exists():
            raise NotAStore(f"there is no store at {self._path}: name another file")
        return open_in_transaction(self, tenant, new=new)

    def migrating(self) -> AbstractContextManager[Connection]:
        """Give a connection that may change the schema."""
        return migrate_in_transaction(self)

    def connect(self) -> Engine:
        """Make an engine; in memory, always the same."""
        if self._memory is not None:
            return self._memory
        options: dict[str, Any] = {"connect_args": {"busy_timeout": self.busy_timeout}}
        if self.single_connection:
            self._memory = create_engine(self.url, poolclass=StaticPool, **options)
            return self._memory
        return create_engine(
            self.url,
            poolclass=QueuePool,
            pool_size=2,
            max_overflow=-1,
            pool_reset_on_return=None,
            **options,
        )

    def payload_as_bytes(self, payload: ColumnElement[str]) -> ColumnElement[bytes]:
        """Return the expression that reads text as bytes; a cast would read escapes in it."""
        return func.encode(payload)

    def translate(self, error: BaseException) -> BaseException:
        """Return the library's error for DuckDB's, or the same error."""
        where = str(self._path or "the database in memory")
        cause = getattr(error, "orig", None) or error
        if isinstance(error, StorageError):
            return error if where in str(error) else type(error)(f"{where}: {error}")
        if not isinstance(cause, duckdb.Error):
            return error
        text = " ".join(str(cause).split())
        if isinstance(cause, duckdb.TransactionException) or "lock" in text:
            return StoreBusy(f"{where}: {text}: nothing was written, try again")
        if isinstance(cause, duckdb.IntegrityError | duckdb.CatalogException):
            return StoreCorrupt(f"{where}: {text}: nothing was written, run `toolledger verify`")
        return StorageError(f"{where}: {text}")


class Cursor:
    """A cursor of the connection's transaction; DuckDB's own have each a transaction."""

    def __init__(self, connection: DbapiConnection) -> None:
        self._connection = connection
        self._rows: Iterator[Any] = iter(())
        self.description: Any = None
        self.rowcount = -1
        self.lastrowid = None

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """Run a statement, and fetch what it finds."""
        done = self._connection.run(statement, parameters)
        self.description, self.rowcount = done.description, done.rowcount
        self._rows = iter(done.fetchall() if done.description else ())

    def executemany(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement once for each row."""
        for row in rows:
            self.execute(statement, row)

    def fetchone(self) -> Any:
        """Return the next row, or None."""
        return next(self._rows, None)

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""
        return list(self._rows)

    def close(self) -> None:
        """Forget the rows."""
        self._rows = iter(())


class DbapiConnection:
    """A connection whose transactions wait for those of the other writers."""

    def __init__(self, database: str, busy_timeout: float) -> None:
        self._raw = duckdb.connect(database)
        self._writers = _writers[database] if database != ":memory:" else threading.Lock()
        self._busy_timeout = busy_timeout
        self._in_transaction = False

    def cursor(self) -> Cursor:
        """Make a cursor."""
        return Cursor(self)

    def run(self, statement: str, parameters: Sequence[Any]) -> Any:
        """Run a statement; those that begin or end a transaction, behind the writers' lock."""
        if statement.startswith("BEGIN") and not self._in_transaction:
            if not self._writers.acquire(timeout=self._busy_timeout):
                raise duckdb.TransactionException("another writer holds the lock")
            self._in_transaction = True
        done = self._raw.execute(statement, parameters or None)
        if statement == "COMMIT":
            self._end()
        return done

    def commit(self) -> None:
        """Commit, if a transaction is open."""
        if self._in_transaction:
            self.run("COMMIT", ())

    def rollback(self) -> None:
        """Roll back, if a transaction is open."""
        if self._in_transaction:
            try:
                self._raw.rollback()
            finally:
                self._end()

    def close(self) -> None:
        """Give up the connection; DuckDB rolls an open transaction back."""
        self._raw.close()
        if self._in_transaction:
            self._end()

    def _end(self) -> None:
        self._in_transaction = False
        self._writers.release()


class DuckDbDialect(DefaultDialect):
    """The part of a dialect that the log needs: plain SQL, and a look for a table."""

    name = "duckdb"
    driver = "duckdb"
    default_paramstyle = "qmark"
    supports_statement_cache = True
    supports_native_boolean = True
    supports_default_values = True

    @classmethod
    def import_dbapi(cls) -> Any:
        """Return the driver."""
        return duckdb

    def create_connect_args(self, url: URL) -> Any:
        """Return the file's name, or memory's."""
        return ([url.database or ":memory:"], {})

    def connect(self, *arguments: Any, **options: Any) -> Any:
        """Connect."""
        return DbapiConnection(*arguments, **options)

    def has_table(
        self, connection: Connection, table_name: str, schema: str | None = None, **_: Any
    ) -> bool:
        """Return whether a table of the name exists."""
        statement = "SELECT count(*) FROM duckdb_tables() WHERE table_name = ?"
        return bool(connection.exec_driver_sql(statement, (table_name,)).scalar())


class DuckDbImpl(impl.DefaultImpl):
    """The registration of the dialect with alembic."""

    __dialect__ = "duckdb"


registry.register("duckdb", __name__, DuckDbDialect.__name__)
register_backend("duckdb", DuckDb)
