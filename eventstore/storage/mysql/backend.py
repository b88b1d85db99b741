"""MariaDB, and MySQL from 8.0 on, through PyMySQL.

Everything is done under READ COMMITTED, in a strict mode that cuts nothing off. The tables have a
collation that distinguishes every byte: the default merges `Chat`, `chat` and `chät`,
and `utf8mb4_bin` merges `chat` and `chat ` with a blank.

A schema change is not one transaction here. If a crash interrupts the creation of a schema, the
next `open` removes the partial schema: it holds no events yet.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from inspect import signature
from math import ceil
from typing import Any

from sqlalchemy import Connection, inspect

from eventstore.errors import (
    NotAStore,
    SchemaTooNew,
    StorageError,
    StoreBusy,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
)
from eventstore.storage import migrations
from eventstore.storage.brief_locks import lift_time_limits
from eventstore.storage.interface import Draft
from eventstore.storage.mysql.durable_reads import DurableReader
from eventstore.storage.sql.archiving_lock import held
from eventstore.storage.sql.log import Log
from eventstore.storage.sql.parts import COPIES_REMAIN, Parts
from eventstore.storage.sql.reader import LogReader
from eventstore.storage.sql.schema import metadata
from eventstore.storage.sql.server import CONNECT_SECONDS, Server
from eventstore.storage.sql.storage import SqlStorage

_LOCK = "CONCAT('toolledger/', LEFT(SHA2(DATABASE(), 256), 32))"
"""The name of the lock for schema changes, unique in the whole server."""

_ARCHIVING_LOCK = "CONCAT('toolledger/a/', LEFT(SHA2(DATABASE(), 256), 32))"
"""The name of the lock for archiving."""

_LOST = frozenset(
    {
        0,
        1040,
        1053,
        1077,
        1079,
        1080,
        1152,
        1158,
        1159,
        1160,
        1161,
        1184,
        1927,
        2002,
        2003,
        2006,
        2013,
        2014,
        2055,
        4031,
    }
)
_NOT_AS_TEXT = {"self", "conv", "cursorclass", "auth_plugin_map", "defer_connect", "autocommit"}
"""Parameters of PyMySQL's connections that no URL may give."""

_READ_ONLY = frozenset({1290, 1836})
"""Errors of a server that takes no writes, perhaps because another one is to take its place."""

_PASSING = frozenset({1020, 1205, 1213, 1684, 3101})
"""A changed row, a lock that timed out, a deadlock, a table that another session is creating or
altering, and a transaction that a cluster rolled back."""

_AGAIN = "nothing was written, try again"
_RIGHTS = "grant the user the rights to the tables (or to the database)"
_MEANINGS: dict[int, tuple[type[StorageError], str]] = {
    1020: (StoreBusy, f"other writers were in the way; {_AGAIN}"),
    1021: (StoreFull, "nothing was written; free some space and try again"),
    1040: (StoreBusy, f"the server is at its limit; {_AGAIN}"),
    1044: (StoreReadOnly, _RIGHTS),
    1045: (StorageError, "check the user and the password in the URL"),
    1049: (NotAStore, "create the database, or name another"),
    1054: (SchemaTooNew, migrations.CHANGED),
    1062: (
        StoreCorrupt,
        "the log contradicts itself; nothing was written, run `toolledger verify`",
    ),
    1114: (StoreFull, "nothing was written; free some space and try again"),
    1142: (StoreReadOnly, _RIGHTS),
    1146: (StoreCorrupt, "the tables are gone; restore the database from a copy"),
    1153: (StorageError, "nothing was written; raise the server's max_allowed_packet"),
    1203: (StoreBusy, f"the server is at its limit; {_AGAIN}"),
    1205: (StoreBusy, f"another writer holds the lane; {_AGAIN}"),
    1213: (StoreBusy, f"other writers were in the way; {_AGAIN}"),
    1273: (NotAStore, "use MariaDB 10.2, or MySQL 8.0, or a later one"),
    1290: (StoreReadOnly, "nothing was written; connect to the primary server"),
    1406: (StorageError, "nothing was written; use a shorter id or tag"),
    1792: (StoreReadOnly, "nothing was written; connect to the primary server"),
    1836: (StoreReadOnly, "nothing was written; connect to the primary server"),
    3101: (StoreBusy, f"a writer on another server was in the way; {_AGAIN}"),
}


VERSIONS_REMAIN = (
    "the server keeps old versions of the rows until its purge has run, and its binary log keeps "
    "them until `PURGE BINARY LOGS`"
)


def _remains(_: LogReader) -> tuple[str, ...]:
    return VERSIONS_REMAIN, COPIES_REMAIN


def _take_archiving_lock(connection: Connection) -> bool:
    """Take a named lock, which ends with the connection."""
    return bool(connection.exec_driver_sql(f"SELECT GET_LOCK({_ARCHIVING_LOCK}, 0)").scalar())


_exclusive = partial(held, take=_take_archiving_lock)


class Mysql(Server):
    """What MariaDB and MySQL do in their own way."""

    begin = "BEGIN"
    time_query = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
    drivername = "mysql+pymysql"
    extra = "mysql"
    visible_before_durable = False
    """Whether others see a commit before it is on disk."""
    max_statement_bytes = 2**24
    """The largest statement that the server takes, in bytes (max_allowed_packet)."""

    @property
    def driver_module(self) -> Any:
        """PyMySQL, which is imported when an engine is made."""
        import pymysql  # type: ignore[import-untyped,unused-ignore]  # optional

        return pymysql

    def known_options(self) -> Collection[str]:
        """Return what PyMySQL takes, and SQLAlchemy for it."""
        taken = signature(self.driver_module.connections.Connection.__init__).parameters
        return {*taken, "ssl_capath", "ssl_cipher", "ssl_check_hostname"} - _NOT_AS_TEXT

    def route_options(self) -> dict[str, Any]:
        """Return how long a connection may take."""
        return {"connect_timeout": CONNECT_SECONDS}

    def connect_options(self) -> dict[str, Any]:
        """Return options that bound how long a statement waits for its answer."""
        seconds = ceil(self.busy_timeout + self.answer_seconds)
        return {"charset": "utf8mb4", "read_timeout": seconds, "write_timeout": seconds}

    def prepare(self, connection: Any) -> None:
        """Set READ COMMITTED, the strict mode, and waits no longer than allowed.

        A client that stops in the middle of a transaction does not hold its lane for longer than
        the others wait for it; MySQL cannot tell it from one that is idle between transactions.
        """
        wait = max(1, ceil(self.busy_timeout))
        mariadb = "MariaDB" in connection.get_server_info()
        settings = {
            "sql_mode": "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
            "innodb_lock_wait_timeout": wait,
            "idle_transaction_timeout" if mariadb else "wait_timeout": max(1, wait // 2),
        }
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            assigned = ", ".join(f"SESSION {name} = {value}" for name, value in settings.items())
            cursor.execute(f"SET {assigned}")

    def check_server(self, connection: Connection) -> None:
        """Ask how the server is set up; the migration refuses one without the collation."""
        logs, self.max_statement_bytes = connection.exec_driver_sql(
            "SELECT @@log_bin, @@max_allowed_packet"
        ).one()
        self.visible_before_durable = not logs

    def check_sizes(self, drafts: Sequence[Draft]) -> None:
        """Refuse events larger than max_allowed_packet: MariaDB would drop the connection.

        Raises:
            StorageError: An event is too large.
        """
        for draft in drafts:
            size = len(draft.payload) + sum(map(draft.payload.count, _ESCAPED))
            if size + _OVERHEAD_BYTES > self.max_statement_bytes:
                raise StorageError(
                    f"an event of {len(draft.payload):,} bytes is sent as {size:,}, and the server "
                    f"takes {self.max_statement_bytes:,}: {_MEANINGS[1153][1]}"
                )

    @property
    def dialect_names(self) -> frozenset[str]:
        """SQLAlchemy's names for MariaDB and MySQL."""
        return frozenset({"mysql", "mariadb"})

    def storage(self, tenant: str) -> SqlStorage:
        """Return a storage; its readers wait for the disk where InnoDB does not."""
        if self.visible_before_durable and self.durability == "full":
            reader: Callable[[Log], LogReader] = lambda log: DurableReader(log, self)  # noqa: E731
        else:
            reader = LogReader
        return SqlStorage(
            self,
            tenant,
            lambda log: Parts(reader(log), erase=_remains, exclusive=_exclusive),
        )

    def weak_durability(self, connection: Connection) -> tuple[str, str] | None:
        """Return a weak setting of InnoDB's log or of the binary log, which recovers commits."""
        flush, binary, sync = connection.exec_driver_sql(
            "SELECT @@innodb_flush_log_at_trx_commit, @@log_bin, @@sync_binlog"
        ).one()
        if flush in (0, 2):
            return f"innodb_flush_log_at_trx_commit is {flush}", "1"
        if flush == 1 and binary and sync != 1:  # 3 is MariaDB's: InnoDB does without
            return f"sync_binlog is {sync}", "1"
        return None

    @contextmanager
    def schema_lock(self, connection: Connection) -> Generator[None]:
        """Hold a named lock; it ends with the connection."""
        wait = max(1, ceil(self.busy_timeout))
        if connection.exec_driver_sql(f"SELECT GET_LOCK({_LOCK}, {wait})").scalar() != 1:
            raise StoreBusy("another process changes the schema; nothing was changed, try again")
        lift_time_limits(connection)
        yield
        connection.exec_driver_sql(f"SELECT RELEASE_LOCK({_LOCK})")

    def drop_partial_schema(self, connection: Connection) -> None:
        """Drop our tables where one or the revision is missing, unless there are events.

        The conversations of a log whose events were dropped by a migration go, too.
        """
        with suppress(NotAStore):
            if migrations.revision(connection) is not None:
                return
        there = set(inspect(connection).get_table_names())
        ours = [table.name for table in metadata.sorted_tables if table.name in there]
        dropped = migrations.UNDER_WAY in there and "toolledger_events" not in there
        if not dropped and any(_holds_rows(connection, name) for name in ours if name in _EVENTS):
            return
        for name in (*ours, migrations.UNDER_WAY):
            connection.exec_driver_sql(f"DROP TABLE IF EXISTS {name}")
        if migrations.VERSION_TABLE in there:
            connection.exec_driver_sql(f"DELETE FROM {migrations.VERSION_TABLE}")

    def error_for(self, error: BaseException) -> tuple[type[StorageError], str]:
        """Look the error's number up."""
        code = _code(error)
        if code in _MEANINGS:
            return _MEANINGS[code]
        if code in _LOST:
            return StorageError, "check that the server runs and can be reached, then try again"
        return StorageError, f"error {code}"

    def error_text(self, error: BaseException) -> str:
        """Return what the server says, without the number."""
        return str(error.args[-1]) if error.args else type(error).__name__

    def is_disconnect(self, error: BaseException) -> bool:
        """Judge by the error's number; the driver's own errors mean a lost connection."""
        code = _code(error)
        return isinstance(error, self.driver_module.InterfaceError) or code in _LOST | _READ_ONLY

    def is_transient(self, error: BaseException) -> bool:
        """Return whether the same statement may succeed if it is repeated."""
        return isinstance(error, self.driver_module.Error) and _code(error) in _PASSING

    def damage(self, run: Callable[[str], list[Any]]) -> Iterator[str]:
        """Report what `CHECK TABLE` finds."""
        for table in metadata.sorted_tables:
            for _, _, kind, text in run(f"CHECK TABLE {table.name}"):
                if kind in ("error", "warning") or text not in (
                    "OK",
                    "Table is already up to date",
                ):
                    yield f"{table.name}: {text}"


_ESCAPED = (b'"', b"\\", b"'")
_OVERHEAD_BYTES = 1024
"""Bytes of a statement beside the payload."""

_EVENTS = ("toolledger_events", "toolledger_conversations")


def _holds_rows(connection: Connection, table: str) -> bool:
    return connection.exec_driver_sql(f"SELECT 1 FROM {table} LIMIT 1").scalar() is not None


def _code(error: BaseException) -> int:
    code = error.args[0] if error.args else 0
    return code if isinstance(code, int) else -1
