"""MariaDB, and MySQL from 8.0 on, through PyMySQL.

Everything is done under READ COMMITTED, in a strict mode that cuts nothing off. The tables have a
collation that distinguishes every byte: the default merges `Chat`, `chat` and `chät`,
and `utf8mb4_bin` merges `chat` and `chat ` with a blank.

A schema change is not one transaction here. If a crash interrupts the creation of a schema, the
next `open` removes the partial schema: it holds no events yet.

Several servers in a URL, and servers of a cluster: see `hosts`, `routing` and `storage.clusters`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from inspect import signature
from math import ceil
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL, Connection, event, inspect
from sqlalchemy.exc import DBAPIError, InvalidatePoolError

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
from eventstore.storage.brief_locks import prepare_changes
from eventstore.storage.clusters import (
    FENCE,
    GALERA,
    NOT_IN_GROUP,
    NOT_READY,
    SCHEMA,
    is_galera,
    risk_of_split,
)
from eventstore.storage.interface import Draft
from eventstore.storage.mysql.durable_reads import DurableReader
from eventstore.storage.mysql.hosts import BALANCING
from eventstore.storage.mysql.leases import cluster_lease
from eventstore.storage.mysql.routing import Routing
from eventstore.storage.sql.archiving_lock import held
from eventstore.storage.sql.log import Log
from eventstore.storage.sql.parts import COPIES_REMAIN, Parts
from eventstore.storage.sql.reader import LogReader
from eventstore.storage.sql.schema import metadata
from eventstore.storage.sql.server import CONNECT_SECONDS, PROGRAM, Server
from eventstore.storage.sql.storage import SqlStorage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Engine
    from sqlalchemy.pool import ConnectionPoolEntry

    from eventstore.storage.sql.table_engine import TableEngine

_LOCK = "CONCAT('toolledger/', LEFT(SHA2(DATABASE(), 256), 32))"
"""The name of the lock for schema changes, unique in the whole server."""

_ARCHIVING_LOCK = "CONCAT('toolledger/a/', LEFT(SHA2(DATABASE(), 256), 32))"
"""The name of the lock for archiving."""

_LOST = frozenset(
    {
        0,
        1040,
        NOT_READY,
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
        3032,
        4031,
        *NOT_IN_GROUP,
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
MIN_CONNECT_SECONDS = 2
"""The least time that one of several servers has to answer a new connection."""

_RIGHTS = "grant the user the rights to the tables (or to the database)"
_SET_FORMAT = (
    "nothing was written; set the server's binlog_format to MIXED or ROW, in its file of options, "
    "too"
)
_NO_TRIGGERS = (
    "nothing was changed; set log_bin_trust_function_creators = 1 on each server, or migrate as a "
    "user with the right SUPER"
)
_MEANINGS: dict[int, tuple[type[StorageError], str]] = {
    1020: (StoreBusy, f"other writers were in the way; {_AGAIN}"),
    1021: (StoreFull, "nothing was written; free some space and try again"),
    1040: (StoreBusy, f"the server is at its limit; {_AGAIN}"),
    1044: (StoreReadOnly, _RIGHTS),
    1045: (StorageError, "check the user and the password in the URL"),
    **dict.fromkeys(
        (NOT_READY, *NOT_IN_GROUP),
        (StoreBusy, f"the server is not part of its cluster now; {_AGAIN}"),
    ),
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
    1180: (StoreBusy, f"the server could not commit; {_AGAIN}"),
    1203: (StoreBusy, f"the server is at its limit; {_AGAIN}"),
    1205: (StoreBusy, f"another writer holds the lane; {_AGAIN}"),
    1213: (StoreBusy, f"other writers were in the way; {_AGAIN}"),
    1273: (NotAStore, "use MariaDB 10.2, or MySQL 8.0, or a later one"),
    1290: (StoreReadOnly, "nothing was written; connect to the primary server"),
    1406: (StorageError, "nothing was written; use a shorter id or tag"),
    1419: (StorageError, _NO_TRIGGERS),
    1665: (StorageError, _SET_FORMAT),
    1792: (StoreReadOnly, "nothing was written; connect to the primary server"),
    1836: (StoreReadOnly, "nothing was written; connect to the primary server"),
    1969: (StoreBusy, f"the statement took too long; {_AGAIN}"),
    3032: (StoreBusy, f"the server is offline; {_AGAIN}"),
    3100: (StoreBusy, f"the server is leaving its cluster; {_AGAIN}"),
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


class Mysql(Server):
    """What MariaDB and MySQL do in their own way."""

    begin = "BEGIN"
    dialect_names = frozenset({"mysql", "mariadb"})
    time_query = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
    drivername = "mysql+pymysql"
    extra = "mysql"
    visible_before_durable = False
    """Whether others see a commit before it is on disk."""
    max_statement_bytes = 2**24
    """The largest statement that the server takes, in bytes (max_allowed_packet)."""

    def __init__(self, url: URL, durability: str, busy_timeout: float) -> None:
        super().__init__(url, durability, busy_timeout)
        self.routing = Routing(self, lambda: self.driver_module)

    @property
    def driver_module(self) -> Any:
        """PyMySQL, which is imported when an engine is made."""
        import pymysql  # type: ignore[import-untyped,unused-ignore]  # optional

        return pymysql

    def known_options(self) -> Collection[str]:
        """Return what PyMySQL takes, and SQLAlchemy for it."""
        taken = signature(self.driver_module.connections.Connection.__init__).parameters
        return {*taken, BALANCING, "ssl_capath", "ssl_cipher", "ssl_check_hostname"} - _NOT_AS_TEXT

    @property
    def engine_url(self) -> URL:
        """The URL without the servers, where there are several."""
        ours = (BALANCING, "host", "port") if self.routing.hosts else (BALANCING,)
        return self.url.difference_update_query(ours)

    def route_options(self) -> dict[str, Any]:
        """Return how long a connection may take, and its name among the server's."""
        servers = len(self.routing.hosts) or 1
        seconds = max(MIN_CONNECT_SECONDS, CONNECT_SECONDS // servers)
        return {"connect_timeout": seconds, "program_name": PROGRAM}

    def connect_options(self) -> dict[str, Any]:
        """Return options that bound how long a statement waits for its answer."""
        seconds = ceil(self.busy_timeout + self.answer_seconds)
        return {"charset": "utf8mb4", "read_timeout": seconds, "write_timeout": seconds}

    @property
    def _lock_seconds(self) -> int:
        """How long a statement waits for a lock: so that another server can be tried in time."""
        return max(1, ceil(self.busy_timeout / (3 if self.routing.hosts else 1)))

    def _new_engine(self, connect_options: dict[str, Any], **options: Any) -> Engine:
        return self.routing.route(super()._new_engine(connect_options, **options))

    def log_engine(self) -> Engine:
        """Make the engine of a storage; where there are several servers, a silent one is left."""
        return self.routing.leave_silent(self.connect(), 2 * self._lock_seconds)

    def table_engine(self) -> TableEngine:
        """Make an engine for tables beside the log, on the same servers."""
        opened = super().table_engine()
        if self.routing.hosts:
            self.routing.leave_silent(opened.engine, 2 * self._lock_seconds)
            event.listen(opened.engine, "connect", self._prepare_for_tables)
        return opened

    def _prepare_for_tables(self, connection: Any, _: object) -> None:
        if self.routing.cluster is not None:
            _assign(connection, self.routing.cluster.settings)
            connection.rollback()

    def is_suspect(self, info: Mapping[Any, Any]) -> bool:
        """Return whether other connections go to another server by now."""
        return self.routing.is_left(info)

    def _checked_out(self, connection: Any, record: ConnectionPoolEntry, _: object) -> None:
        if self.is_suspect(record.info):
            self.routing.note_ping(record.info)
            raise InvalidatePoolError
        try:
            super()._checked_out(connection, record, _)
        except InvalidatePoolError:
            self.routing.note_ping(record.info)
            raise

    def prepare(self, connection: Any) -> None:
        """Set READ COMMITTED, the strict mode, and waits no longer than allowed.

        A client that stops in the middle of a transaction does not hold its lane for longer than
        the others wait for it; MySQL cannot tell it from one that is idle between transactions.
        """
        if self.routing.cluster is not None and not self.routing.hosts:
            self.routing.check(connection)
        mariadb = "MariaDB" in connection.get_server_info()
        idle = max(1, ceil(self.busy_timeout) // 2)
        settings = {
            "sql_mode": "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
            "innodb_lock_wait_timeout": self._lock_seconds,
            "idle_transaction_timeout" if mariadb else "wait_timeout": idle,
            **(self.routing.cluster.settings if self.routing.cluster else {}),
        }
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        _assign(connection, settings)

    def check_server(self, connection: Connection) -> None:
        """Ask how the server is set up; the migration refuses one without the collation.

        Raises:
            StorageError: its binary log takes no rows, and so nothing under READ COMMITTED.
        """
        mariadb = getattr(connection.dialect, "is_mariadb", False)
        logs, self.max_statement_bytes, log_format, *of_cluster = _setup(
            connection, mariadb=mariadb
        )
        self.visible_before_durable = not logs
        if mariadb:  # MySQL bounds statements that lock nothing
            self.together = f"SET STATEMENT max_statement_time={self._lock_seconds + 1} FOR "
        if logs and log_format == "STATEMENT":
            raise StorageError(
                f"{self.address}: the binary log takes no write under READ COMMITTED, as "
                "binlog_format is STATEMENT; nothing was written: set it to MIXED or ROW, in the "
                "server's file of options, too"
            )
        in_cluster = is_galera(*of_cluster) if mariadb else of_cluster == [1]
        if in_cluster and self.routing.cluster is None:
            driver = connection.connection.dbapi_connection
            self.routing.check(driver)
            if self.routing.cluster is not None:
                self.prepare(driver)

    @property
    def fence(self) -> Sequence[str]:
        """What keeps a COMMIT without an answer from taking place later; see `Backend.fence`."""
        return FENCE if self.routing.cluster else ()

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

    def storage(self, tenant: str) -> SqlStorage:
        """Return a storage; its readers wait for the disk where InnoDB does not."""
        if self.visible_before_durable and self.durability == "full":
            reader: Callable[[Log], LogReader] = lambda log: DurableReader(log, self)  # noqa: E731
        else:
            reader = LogReader
        return SqlStorage(
            self,
            tenant,
            lambda log: Parts(reader(log), erase=_remains, exclusive=self._exclusive),
        )

    @contextmanager
    def _exclusive(self, reader: LogReader) -> Generator[None]:
        """Keep other processes from archiving."""
        across: AbstractContextManager[None] = nullcontext()
        if self.routing.cluster is not None:
            across = cluster_lease(reader.connections.engine, "archiving", 0.0, "archives now")
        with held(reader, _take_archiving_lock), across:
            yield

    def weak_durability(self, connection: Connection) -> tuple[str, str] | None:
        """Return a weak setting of InnoDB's log or of the binary log, which recovers commits."""
        flush, binary, sync = connection.exec_driver_sql(
            "SELECT @@innodb_flush_log_at_trx_commit, @@log_bin, @@sync_binlog"
        ).one()
        if flush in (0, 2):
            return f"innodb_flush_log_at_trx_commit is {flush}", "1"
        if flush == 1 and binary and sync != 1:  # 3 is MariaDB's: InnoDB does without
            return f"sync_binlog is {sync}", "1"
        if self.routing.cluster is GALERA:
            options = connection.exec_driver_sql("SELECT @@wsrep_provider_options").scalar()
            return risk_of_split(str(options))
        return None

    @contextmanager
    def schema_lock(self, connection: Connection) -> Generator[None]:
        """Hold a named lock, which ends with the connection; and one of the cluster."""
        wait = max(1, ceil(self.busy_timeout))
        if connection.exec_driver_sql(f"SELECT GET_LOCK({_LOCK}, {wait})").scalar() != 1:
            raise StoreBusy("another process changes the schema; nothing was changed, try again")
        prepare_changes(connection)
        if self.routing.cluster is None:
            yield
        else:
            if self.routing.cluster is GALERA:  # the other way changes this server alone
                connection.exec_driver_sql("SET SESSION wsrep_OSU_method = 'TOI'")
            with cluster_lease(connection.engine, SCHEMA, wait, "changes the schema"):
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
        code, cluster = _code(error), self.routing.cluster
        if cluster is not None and code in cluster.in_doubt:
            return True
        return isinstance(error, self.driver_module.InterfaceError) or code in _LOST | _READ_ONLY

    def is_transient(self, error: BaseException) -> bool:
        """Return whether the same statement may succeed if it is repeated."""
        if isinstance(error, StorageError):  # ours: the driver itself may be missing
            return False
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


def _setup(connection: Connection, *, mariadb: bool) -> Sequence[Any]:
    """Ask for a server's settings; those of Galera are not known to each build of MariaDB."""
    general = "SELECT @@log_bin, @@max_allowed_packet, @@binlog_format"
    if not mariadb:
        return list(connection.exec_driver_sql(f"{general}, {_HAS_GROUP}").one())
    try:
        asked = f"{general}, @@GLOBAL.wsrep_on, @@wsrep_provider"
        return list(connection.exec_driver_sql(asked).one())
    except DBAPIError as error:
        if _code(error.orig or error) != _UNKNOWN_VARIABLE:
            raise
        return [*connection.exec_driver_sql(general).one(), 0, None]


def _assign(connection: Any, settings: Mapping[str, object]) -> None:
    """Set variables of a session of the driver."""
    assigned = ", ".join(f"SESSION {name} = {value}" for name, value in settings.items())
    with connection.cursor() as cursor:
        cursor.execute(f"SET {assigned}")


_UNKNOWN_VARIABLE = 1193
_HAS_GROUP = """\
EXISTS (SELECT 1 FROM information_schema.plugins WHERE plugin_name = 'group_replication')"""

_ESCAPED = (b'"', b"\\", b"'")
_OVERHEAD_BYTES = 1024
"""Bytes of a statement beside the payload."""

_EVENTS = ("toolledger_events", "toolledger_conversations")


def _holds_rows(connection: Connection, table: str) -> bool:
    return connection.exec_driver_sql(f"SELECT 1 FROM {table} LIMIT 1").scalar() is not None


def _code(error: BaseException) -> int:
    code = error.args[0] if error.args else 0
    return code if isinstance(code, int) else -1
