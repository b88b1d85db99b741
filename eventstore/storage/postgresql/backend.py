"""PostgreSQL, through psycopg 3.

A lane's counter is locked by its row, so writers of one lane wait for each other and no others.
All is done under READ COMMITTED: a writer that waited for the row sees what the other committed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import event, func, literal_column
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
from eventstore.storage.brief_locks import prepare_changes
from eventstore.storage.migrations import CHANGED
from eventstore.storage.postgresql.answers import CancelledAt, is_suspect, limit_waits
from eventstore.storage.postgresql.binary_rows import insert_copies
from eventstore.storage.postgresql.notify import Notifications
from eventstore.storage.postgresql.replication import (
    GRACE_SECONDS,
    is_unreplicated,
)
from eventstore.storage.postgresql.single_statement import PostgresqlSingleStatement
from eventstore.storage.postgresql.spread import (
    CATALOG,
    FENCE,
    LOST_NODE,
    LaneTransaction,
    insert_together,
    is_spread,
    share,
    take_archiving_lock,
    weak_node,
)
from eventstore.storage.postgresql.standby_proof import StandbyProof
from eventstore.storage.sql.archiving_lock import held
from eventstore.storage.sql.parts import COPIES_REMAIN, Parts
from eventstore.storage.sql.placement import SCHEMA_LOCK, asked_on, problems
from eventstore.storage.sql.reader import LogReader
from eventstore.storage.sql.server import CONNECT_SECONDS, PROGRAM, Server
from eventstore.storage.sql.storage import SqlStorage
from eventstore.storage.urls import server_count

if TYPE_CHECKING:
    from psycopg.errors import Diagnostic
    from sqlalchemy import ColumnElement, Connection, Dialect, Engine
    from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor
    from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection

    from eventstore.storage.sql.log import Log
    from eventstore.storage.sql.log_writer import Insert
    from eventstore.storage.sql.parts import SingleStatement
    from eventstore.storage.sql.table_engine import TableEngine

ARCHIVING_LOCK = 0x746F6F6D
"""The advisory lock for archiving, of this database alone."""

MIN_CONNECT_SECONDS = 2
"""The least time that libpq waits for a connection."""

MIN_IDLE_TRANSACTION_MS = 1000
"""How long a transaction may always be idle."""

_SETTINGS = """\
set_config('default_transaction_isolation', 'read committed', {local}),
       set_config('enable_seqscan', 'off', {local}),
       set_config('enable_bitmapscan', 'off', {local}),
       set_config('enable_sort', 'off', {local}),
       set_config('jit', 'off', {local}),
       set_config('lock_timeout', '{wait}', {local}),
       set_config('idle_in_transaction_session_timeout', '{idle}', {local}),
       set_config('client_min_messages', 'warning', {local}),
       set_config('synchronous_commit',
                  CASE WHEN {asynchronous} THEN 'off'
                       WHEN current_setting('synchronous_commit') = 'remote_apply'
                       THEN 'remote_apply' ELSE 'on' END, {local})"""
"""What a session is set to; behind a pooler, a transaction: there a session is anyone's."""

_SERVERS = ("host", "hostaddr", "service")
"""Options that name servers; without them, libpq's environment may."""

_POOLED = "pg_backend_pid() <> {process}"
"""Whether another server process answers than the one that the connection was promised."""

_AGAIN = "nothing was written, try again"
_CANCELLED_BY_STANDBY = (
    "the standby cancelled the read, to replay what the primary has removed; read again, and raise "
    "max_standby_streaming_delay on the standby, or set hot_standby_feedback to on"
)
_MEANINGS: tuple[tuple[str, type[StorageError], str], ...] = (
    ("08", StorageError, "check that the server runs and can be reached, then try again"),
    ("22001", StorageError, "nothing was written; use a shorter id"),
    ("22023", StorageError, "mend the options of the URL"),
    (
        "23",
        StoreCorrupt,
        "the log contradicts itself; nothing was written, run `toolledger verify`",
    ),
    ("25006", StoreReadOnly, "nothing was written; connect to the primary server"),
    ("25P03", StoreBusy, f"the transaction stood still for too long; {_AGAIN}"),
    ("25P04", StoreBusy, f"the transaction took too long; {_AGAIN}"),
    ("28", StorageError, "check the user and the password in the URL"),
    ("3D000", NotAStore, "create the database, or name another"),
    ("40", StoreBusy, f"other writers were in the way; {_AGAIN}"),
    ("42501", StoreReadOnly, "grant the user the rights to the tables (or to the schema)"),
    ("42703", SchemaTooNew, CHANGED),
    ("42P01", StoreCorrupt, "the tables are gone; restore the database from a copy"),
    ("53100", StoreFull, "nothing was written; free some space and try again"),
    ("53", StoreBusy, f"the server is at its limit; {_AGAIN}"),
    ("55P03", StoreBusy, f"another writer holds the lane; {_AGAIN}"),
    ("57014", StoreBusy, f"the statement took too long; {_AGAIN}"),
    ("57P", StorageError, "check that the server runs and can be reached, then try again"),
    ("XX", StoreCorrupt, "the database is damaged; restore it from a copy"),
)


VERSIONS_REMAIN = (
    "the server keeps old versions of the rows until they are vacuumed: run "
    "`VACUUM toolledger_events`; its write-ahead log holds them until it is recycled"
)


def _remains(_: LogReader) -> tuple[str, ...]:
    return VERSIONS_REMAIN, COPIES_REMAIN


def _take_archiving_lock(connection: Connection) -> bool:
    """Take an advisory lock in a transaction, so that a pooler keeps the session for it.

    The transaction reads and writes nothing: it keeps no old rows from being cleared away.
    """
    connection.exec_driver_sql("BEGIN")
    connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
    taken = connection.exec_driver_sql(f"SELECT pg_try_advisory_xact_lock({ARCHIVING_LOCK})")
    return bool(taken.scalar())


class Postgresql(Server):
    """What PostgreSQL does in its own way."""

    begin = "BEGIN ISOLATION LEVEL READ COMMITTED"
    dialect_names = frozenset({"postgresql"})
    time_query = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
    drivername = "postgresql+psycopg"
    extra = "postgresql"
    database_options = frozenset({"dbname", "service"})
    pooled = False
    """Whether a pooler (pgbouncer) may give each transaction another session of the server."""
    unreplicated_commits = 0
    """How many commits were answered that no standby may have."""
    compound_statements = True
    lanes_in_blocks = True
    checks_encoding = True

    @property
    def driver_module(self) -> Any:
        """psycopg, which is imported when an engine is made."""
        import psycopg  # optional

        return psycopg

    def known_options(self) -> Collection[str]:
        """Return what libpq takes."""
        defaults = self.driver_module.pq.Conninfo.get_defaults()
        return _values(defaults).keys()

    def route_options(self) -> dict[str, Any]:
        """Return options by which the primary is found among several servers, in time.

        libpq waits `connect_timeout` for each server, and 2 seconds at least.
        """
        defaults = _values(self.driver_module.pq.Conninfo.get_defaults())
        is_named = self.url.host or not self.url.query.keys().isdisjoint(_SERVERS)
        servers = server_count(self.url) if is_named else _host_count(defaults)
        options: dict[str, Any] = {
            "connect_timeout": max(MIN_CONNECT_SECONDS, CONNECT_SECONDS // servers)
        }
        if servers > 1 and defaults["target_session_attrs"] == "any":
            options["target_session_attrs"] = "read-write"
        return options

    def _new_engine(self, connect_options: dict[str, Any], **options: Any) -> Engine:
        named = {"fallback_application_name": PROGRAM, **connect_options}
        engine = super()._new_engine(named, **options)
        event.listen(engine, "do_connect", _connect_to_primary)
        return engine

    @property
    def wants_standby(self) -> bool:
        """Whether the URL asks for a server that takes no writes."""
        return self.url.query.get("target_session_attrs") in ("read-only", "standby")

    def log_engine(self) -> Engine:
        """Make the engine of a storage, whose connections give a silent server up."""
        engine = self.connect()
        # First of all: it bounds the statements of `prepare`, too.
        event.listen(engine, "connect", partial(limit_waits, self), insert=True)
        return engine

    def read_cursor(self, connection: PoolProxiedConnection) -> DBAPICursor:
        """Return a cursor that reads in binary: reads have few parameters."""
        return connection.cursor(binary=True)

    def is_suspect(self, info: Mapping[Any, Any]) -> bool:
        """Return whether the server fell silent since a connection was made."""
        return is_suspect(self, info)

    def _checked_out(self, connection: Any, record: ConnectionPoolEntry, _: object) -> None:
        if self.is_suspect(record.info):
            raise InvalidatePoolError
        super()._checked_out(connection, record, _)

    def connect_options(self) -> dict[str, Any]:
        """Return options by which a cut network is noticed within half a minute."""
        return {
            "client_encoding": "utf8",
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 25_000,
        }

    def prepare(self, connection: Any) -> None:
        """Set the durability asked for, whatever the server's default, and waits as allowed.

        Each statement has an index that gives its rows in order. Before the server has looked at
        new tables it would take others, and read a conversation once for each page of it.

        A client that stops in the middle of a transaction (frozen, or cut off) does not hold
        its lane for longer than the others wait for it.

        Where there are no synchronous standbys, `on` waits for the same as `local` does.

        A database, or a role, may keep warnings from its clients. That of a commit which stopped
        waiting for its standbys must come.
        """
        connection.add_notice_handler(self._hear)
        pooled = _POOLED.format(process=connection.pgconn.backend_pid)
        ((is_pooled, *_),) = connection.execute(f"SELECT {pooled}, {self._settings(pooled)}")
        if is_pooled:
            self._pass_pooler(connection)

    def _settings(self, local: str) -> str:
        wait = max(1, round(self.busy_timeout * 1000))
        return _SETTINGS.format(
            local=local,
            wait=wait,
            idle=max(MIN_IDLE_TRANSACTION_MS, wait // 2),
            asynchronous=self.durability == "normal",
        )

    def _pass_pooler(self, connection: Any) -> None:
        """Let settings travel with each transaction, and give no statement a name."""
        connection.prepare_threshold = None
        if not self.pooled:
            self.pooled = True
            self.begin = f"{type(self).begin}; SELECT {self._settings('true')}"

    def table_engine(self) -> TableEngine:
        """Make an engine for tables beside the log; behind a pooler no statement has a name.

        A commit waits for no standby: what a failover takes back is made again from the log, from
        the place that the tables then have.
        """
        opened = super().table_engine()
        opened.share = share
        event.listen(opened.engine, "connect", partial(limit_waits, self))
        event.listen(opened.engine, "connect", self._prepare_for_tables)
        event.listen(opened.engine, "commit", _wait_for_no_standby)
        return opened

    def _prepare_for_tables(self, connection: Any, _: object) -> None:
        pooled = _POOLED.format(process=connection.pgconn.backend_pid)
        ((is_pooled,),) = connection.execute(f"SELECT {pooled}")
        connection.rollback()
        if is_pooled:
            connection.prepare_threshold = None

    def _hear(self, notice: Diagnostic) -> None:
        self.unreplicated_commits += is_unreplicated(notice)

    def check_server(self, connection: Connection) -> None:
        """Refuse a database that does not store text as it is.

        Raises:
            NotAStore: The database has another encoding than UTF-8.
        """
        encoding, catalog = connection.exec_driver_sql(
            f"SELECT current_setting('server_encoding'), {CATALOG}"
        ).one()
        self.may_spread = catalog is not None
        if encoding != "UTF8":
            raise NotAStore(
                f"the database has the encoding {encoding}: create it with ENCODING 'UTF8'"
            )
        if self.may_spread and is_spread(connection):
            self.commits_by_lane = True

    def weak_durability(self, connection: Connection) -> tuple[str, str] | None:
        """Look at `fsync`, which no session can set, and at what became of the session's setting.

        With `fsync` off no commit waits for the disk. A pooler may not pass on what was set.
        """
        if connection.exec_driver_sql("SHOW fsync").scalar() == "off":
            return "fsync is off", "on"
        setting = connection.exec_driver_sql("SHOW synchronous_commit").scalar()
        if not self.pooled and setting not in ("on", "remote_apply"):
            return f"synchronous_commit is {setting}, and cannot be set", "on"
        return weak_node(connection) if self.may_spread and self.commits_by_lane else None

    def misplaced(self, connection: Connection) -> Iterator[str]:
        """Report what is wrong with where the tables are; nothing is asked of a plain server."""
        if self.may_spread:
            yield from problems(asked_on(connection))

    def damage(self, run: Callable[[str], list[Any]]) -> Iterator[str]:
        """Report tables that are not where the others are."""
        yield from problems(run)

    @contextmanager
    def schema_lock(self, connection: Connection) -> Generator[None]:
        """Hold an advisory lock in one transaction; an error undoes all of it."""
        connection.exec_driver_sql(type(self).begin)
        connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = '60s'")
        prepare_changes(connection)
        try:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({SCHEMA_LOCK})")
        except DBAPIError as error:
            if _state(error.orig or error) != "55P03":
                raise
            connection.exec_driver_sql("ROLLBACK")
            raise StoreBusy(
                "another process changes the schema; nothing was changed, try again when it is done"
            ) from error
        yield
        # It waits for standbys no longer than an append: the first append proves it, too.
        deadline = time.monotonic() + self.busy_timeout + GRACE_SECONDS
        with CancelledAt(connection.connection.dbapi_connection, deadline):
            connection.exec_driver_sql("COMMIT")

    def payload_as_bytes(self, payload: ColumnElement[str]) -> ColumnElement[bytes]:
        """Return the expression that reads text as bytes; a cast would read escapes in it."""
        return func.convert_to(payload, literal_column("'UTF8'"))

    def storage(self, tenant: str) -> SqlStorage:
        """Return one that appends in binary, and notifies other processes."""
        return SqlStorage(self, tenant, self._parts)

    def _parts(self, log: Log) -> Parts:
        proof = StandbyProof(log, self)
        single: SingleStatement = PostgresqlSingleStatement(log, proof)
        insert: Insert = insert_copies
        if self.commits_by_lane:
            single, insert = LaneTransaction(log, proof), insert_together
        hints = Notifications(log)
        take = take_archiving_lock if self.commits_by_lane else _take_archiving_lock
        exclusive = partial(held, take=take)
        return Parts(LogReader(log), insert, single, proof, hints, _remains, exclusive)

    @property
    def fence(self) -> Sequence[str]:
        """Let a lane's node commit: a session elsewhere does not hear what its standbys have."""
        return (FENCE,) if self.commits_by_lane else ()

    def bounded_wait(self, cursor: DBAPICursor) -> AbstractContextManager[object]:
        """Cancel what waits for longer than one lock may: a row that others want, too, has two.

        Where lanes live on several nodes, these know nothing of the session's `lock_timeout`.
        """
        deadline = time.monotonic() + self.busy_timeout + GRACE_SECONDS
        return CancelledAt(cast("Any", cursor).connection, deadline)

    def error_for(self, error: BaseException) -> tuple[type[StorageError], str]:
        """Look the SQLSTATE up; an error without one is the connection's."""
        state = _state(error)
        if _is_cancelled_by_standby(error):
            return StoreBusy, _CANCELLED_BY_STANDBY
        for start, kind, remedy in _MEANINGS:
            if state.startswith(start):
                return kind, remedy
        return StorageError, f"SQLSTATE {state}"

    def is_disconnect(self, error: Any) -> bool:
        """Look for a SQLSTATE of a server that goes down or closed the connection, or for none.

        A server that takes no writes (25006) may be one that is about to be promoted, or that is
        the primary no more: another connection leads to the primary.

        After a FATAL or a PANIC there is no connection, and it may have come in the middle of a
        COMMIT.
        """
        kinds = (
            self.driver_module.OperationalError,
            self.driver_module.InterfaceError,
            self.driver_module.InternalError,
        )
        if not isinstance(error, kinds):
            return False
        state = _state(error)
        fatal = error.diag.severity_nonlocalized in ("FATAL", "PANIC")
        if state == "25006":
            return not self.wants_standby
        if state == "XX000" and (error.diag.message_primary or "").startswith(LOST_NODE):
            return True  # a node's connection was lost, and so may be what this one passes on
        return fatal or state.startswith(("08", "57P0", "25P03", "53300"))

    def is_transient(self, error: BaseException) -> bool:
        """Return whether it is a serialization failure, a deadlock, or a standby's cancel."""
        return getattr(error, "sqlstate", None) in ("40001", "40P01")


def _is_cancelled_by_standby(error: BaseException) -> bool:
    """Return whether a standby cancelled a statement that was in the way of its replay.

    Other errors with this SQLSTATE come from where rows are changed. Functions of the server have
    the same name in every language.
    """
    function = getattr(getattr(error, "diag", None), "source_function", None) or ""
    is_cancel = function.startswith("Process")  # its interrupts, by whatever name
    return is_cancel and getattr(error, "sqlstate", None) == "40001"


def _connect_to_primary(
    dialect: Dialect, _: object, arguments: Any, options: dict[str, Any]
) -> DBAPIConnection:
    """Connect as asked; find the primary where a service names several servers.

    That is known when libpq has read its service file. The options are those of all later
    connections, too.
    """
    connection: Any = dialect.connect(*arguments, **options)
    if "target_session_attrs" not in options:
        read = _values(connection.pgconn.info)
        if _host_count(read) > 1 and read["target_session_attrs"] == "any":
            connection.close()
            options["target_session_attrs"] = "read-write"
            return dialect.connect(*arguments, **options)
    return cast("DBAPIConnection", connection)


def _values(options: Iterable[Any]) -> dict[str, str]:
    """Return the values of libpq's options by their names, "" for an option without a value."""
    return {
        option.keyword.decode(): (option.val or b"").decode(errors="replace") for option in options
    }


def _host_count(values: Mapping[str, str]) -> int:
    """Return how many servers libpq's options name."""
    return max(len(values[name].split(",")) for name in ("host", "hostaddr"))


def _wait_for_no_standby(connection: Connection) -> None:
    connection.exec_driver_sql("SET LOCAL synchronous_commit = local")


def _state(error: BaseException) -> str:
    """Return the SQLSTATE; for a refused connection the driver only has the server's words."""
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)  # psycopg2's
    if state is not None:
        return str(state)
    text = str(error)
    return next((state for words, state in _REFUSALS if words in text), "08000")


_REFUSALS = (
    ("too many c", "53300"),  # clients; connections for a role, or a database
    ("connection slots", "53300"),
    ("authentication failed", "28P01"),
    ("no password supplied", "28P01"),
    ("role ", "28000"),
    ("pg_hba.conf", "28000"),
    ("does not exist", "3D000"),
    ("invalid connection option", "22023"),
    ("invalid integer value", "22023"),
    (' value: "', "22023"),
    ("definition of service", "22023"),
    ("service file", "22023"),
    ("session is read-only", "25006"),
    ("server is in hot standby mode", "25006"),
)
