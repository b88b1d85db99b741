"""MariaDB, and MySQL from 8.0 on, through PyMySQL.

Everything is done under READ COMMITTED, in a strict mode that cuts nothing off. The tables have a
collation that keeps apart what differs in a byte: the default merges `Chat`, `chat` and `chät`,
and `utf8mb4_bin` merges `chat` and `chat ` with a blank.

A schema change is not one transaction here. What a crash leaves of a schema that was just being
made is cleared away by the next who opens it: there are no events in it yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import ceil
from typing import Any

from sqlalchemy import Connection, inspect

from eventstore import migrate
from eventstore.errors import (
    NotAStore,
    StorageError,
    StoreBusy,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
)
from eventstore.storage import Draft
from eventstore.storage.flushed import FlushedStorage
from eventstore.storage.schema import metadata
from eventstore.storage.server import CONNECTING, Server
from eventstore.storage.sql import SqlStorage

_LOCK = "CONCAT('toolledger/', LEFT(SHA2(DATABASE(), 256), 32))"
"""The name of the lock that whoever changes the schema holds: names are the whole server's."""

_LOST = frozenset({
    0, 1040, 1053, 1077, 1079, 1080, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 2002, 2003, 2006,
    2013, 2014, 2055, 4031,
})  # fmt: skip
_PASSING = frozenset({1020, 1205, 1213, 3101})

_AGAIN = "nothing was written, try again"
_RIGHTS = "grant the user the rights to the tables (or to the database)"
_MEANINGS: dict[int, tuple[type[StorageError], str]] = {
    1020: (StoreBusy, f"other writers were in the way; {_AGAIN}"),
    1021: (StoreFull, "nothing was written; free some space and try again"),
    1040: (StoreBusy, f"the server is at its limit; {_AGAIN}"),
    1044: (StoreReadOnly, _RIGHTS),
    1045: (StorageError, "check the user and the password in the URL"),
    1049: (NotAStore, "create the database, or name another"),
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


class Mysql(Server):
    """What MariaDB and MySQL do in their own way."""

    begin = "BEGIN"
    driver = "mysql+pymysql"
    extra = "mysql"
    hasty = False
    """Whether others see a commit before it is on disk."""
    longest = 2**24
    """Bytes that the server takes in one piece."""

    @property
    def module(self) -> Any:
        """PyMySQL, which is imported when an engine is made."""
        import pymysql  # type: ignore[import-untyped,unused-ignore]  # noqa: PLC0415 - optional

        return pymysql

    def options(self) -> dict[str, Any]:
        """A network that was cut is noticed once a lock should have been had, and more."""
        return {
            "charset": "utf8mb4",
            "connect_timeout": CONNECTING,
            "read_timeout": ceil(self.busy_timeout) + 30,
            "write_timeout": ceil(self.busy_timeout) + 30,
        }

    def prepare(self, connection: Any) -> None:
        """READ COMMITTED, strict, waiting no longer than allowed.

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
        """Any will do that has the collation (the migration says so); and how it is set up."""
        logs, self.longest = connection.exec_driver_sql(
            "SELECT @@log_bin, @@max_allowed_packet"
        ).one()
        self.hasty = not logs

    def check_sizes(self, drafts: Sequence[Draft]) -> None:
        """One hangs up on who sends it more in one piece than it takes, in the middle of it.

        Raises:
            StorageError: an event is as large.
        """
        for draft in drafts:
            size = len(draft.payload) + sum(map(draft.payload.count, _ESCAPED))
            if size + _BESIDE > self.longest:
                raise StorageError(
                    f"an event of {len(draft.payload):,} bytes is sent as {size:,}, and the server "
                    f"takes {self.longest:,}: {_MEANINGS[1153][1]}"
                )

    def storage(self, tenant: str) -> SqlStorage:
        """One whose readers wait for the disk, where InnoDB does not."""
        kind = FlushedStorage if self.hasty and self.durability == "full" else SqlStorage
        return kind(self, tenant)

    def lax(self, connection: Connection) -> tuple[str, str] | None:
        """InnoDB's log, and the binary log, from which a commit is recovered where there is one."""
        flush, binary, sync = connection.exec_driver_sql(
            "SELECT @@innodb_flush_log_at_trx_commit, @@log_bin, @@sync_binlog"
        ).one()
        if flush in (0, 2):
            return f"innodb_flush_log_at_trx_commit is {flush}", "1"
        if flush == 1 and binary and sync != 1:  # 3 is MariaDB's: InnoDB does without
            return f"sync_binlog is {sync}", "1"
        return None

    @contextmanager
    def alone(self, connection: Connection) -> Iterator[None]:
        """Behind a named lock; it goes with the connection."""
        wait = max(1, ceil(self.busy_timeout))
        if connection.exec_driver_sql(f"SELECT GET_LOCK({_LOCK}, {wait})").scalar() != 1:
            raise StoreBusy("another process changes the schema; nothing was changed, try again")
        yield
        connection.exec_driver_sql(f"SELECT RELEASE_LOCK({_LOCK})")

    def clear(self, connection: Connection) -> None:
        """Drop our tables where one or the revision is missing, unless there are events."""
        with suppress(NotAStore):
            if migrate.revision(connection) is not None:
                return
        there = set(inspect(connection).get_table_names())
        ours = [table for table in metadata.sorted_tables if table.name in there]
        if any(_holds_rows(connection, table.name) for table in ours if table.name in _EVENTS):
            return
        for table in ours:
            connection.exec_driver_sql(f"DROP TABLE {table.name}")
        if migrate.VERSION_TABLE in there:
            connection.exec_driver_sql(f"DELETE FROM {migrate.VERSION_TABLE}")  # noqa: S608

    def meaning(self, error: Any) -> tuple[type[StorageError], str]:
        """By the error's number."""
        code = _code(error)
        if code in _MEANINGS:
            return _MEANINGS[code]
        if code in _LOST:
            return StorageError, "check that the server runs and can be reached, then try again"
        return StorageError, f"error {code}"

    def text(self, error: Any) -> str:
        """What the server says, without the number."""
        return str(error.args[-1]) if error.args else type(error).__name__

    def says_lost(self, error: Any) -> bool:
        """By the error's number; the driver's own say that there is no connection."""
        return isinstance(error, self.module.InterfaceError) or _code(error) in _LOST

    def is_passing(self, error: BaseException) -> bool:
        """A deadlock, a row that changed, a lock that was waited for in vain."""
        return isinstance(error, self.module.Error) and _code(error) in _PASSING

    def damage(self, run: Callable[[str], list[Any]]) -> Iterator[str]:
        """What `CHECK TABLE` finds."""
        for table in metadata.sorted_tables:
            for _, _, kind, text in run(f"CHECK TABLE {table.name}"):
                if kind in ("error", "warning") or text not in (
                    "OK",
                    "Table is already up to date",
                ):
                    yield f"{table.name}: {text}"


_ESCAPED = (b'"', b"\\", b"'")
_BESIDE = 1024
"""Bytes of a statement beside the payload."""

_EVENTS = ("toolledger_events", "toolledger_conversations")


def _holds_rows(connection: Connection, table: str) -> bool:
    return connection.exec_driver_sql(f"SELECT 1 FROM {table} LIMIT 1").scalar() is not None  # noqa: S608


def _code(error: Any) -> int:
    code = error.args[0] if error.args else 0
    return code if isinstance(code, int) else -1
