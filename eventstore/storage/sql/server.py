"""What database servers have in common: connections that break, ids with a limit, one upgrade.

A transaction that the server gave up is begun again. A connection that was lost is replaced;
one that was lost at COMMIT leaves the question whether the commit took place. It is answered by
looking for the event ids while the lane is locked, never by guessing.
"""

from __future__ import annotations

import time
import warnings
from abc import abstractmethod
from collections.abc import Collection, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import ArgumentError, InvalidatePoolError, NoSuchModuleError

from eventstore.errors import (
    NotAStore,
    OutcomeUnknown,
    StorageError,
    StoreClosed,
    StoreFull,
    StoreReadOnly,
)
from eventstore.storage import migrations
from eventstore.storage.sql.backend import Backend, translated
from eventstore.storage.sql.connections import reconnecting
from eventstore.storage.sql.forks import no_fork
from eventstore.storage.sql.pool import IdlePool
from eventstore.storage.sql.schema import MAX_ID_CHARACTERS, MAX_TENANT_CHARACTERS
from eventstore.storage.sql.storage import SqlStorage
from eventstore.storage.sql.table_engine import TableEngine
from eventstore.storage.urls import check_options, shown_address

if TYPE_CHECKING:
    from sqlalchemy.pool import ConnectionPoolEntry

PROGRAM = "toolledger"
"""What a connection is called at its server, where the URL does not say."""

CONNECT_SECONDS = 10
"""How long a server has to answer a new connection."""


class Server(Backend):
    """A database on a server."""

    drivername: ClassVar[str]
    """SQLAlchemy's name for the engine and its driver."""
    extra: ClassVar[str]
    """The extra of this distribution that installs the driver."""
    database_options: ClassVar[frozenset[str]] = frozenset()
    """Options of the URL that may name the database in its place."""

    ping_after_seconds: float = 0.1
    """How long a pooled connection may be unused before it is tried.

    `pool_pre_ping` always tries, which costs each read a round trip.
    """

    answer_seconds: float = 30.0
    """How long a statement may take besides its waits for locks, which `busy_timeout` bounds."""

    silences = 0
    """How many connections were given up because their server did not answer."""

    sorts_joins = True
    survives_fork = True
    retry_advice = "roll the transaction back, and begin it again, under READ COMMITTED"

    def __init__(self, url: URL, durability: str, busy_timeout: float) -> None:
        super().__init__(url.set(drivername=self.drivername), durability, busy_timeout)
        self.address = shown_address(url)
        if not url.database and self.database_options.isdisjoint(url.query):
            raise ValueError(
                f"{self.address} names no database: append /NAME to the server's address"
            )

    # how servers differ

    @abstractmethod
    def known_options(self) -> Collection[str]:
        """Return the options that a URL may have."""

    @abstractmethod
    def route_options(self) -> dict[str, Any]:
        """Return the options by which the driver finds the right server in time."""

    @abstractmethod
    def connect_options(self) -> dict[str, Any]:
        """Return the driver's options for a connection, which those of the URL override."""

    @abstractmethod
    def prepare(self, connection: Any) -> None:
        """Set up a new connection of the driver."""

    @abstractmethod
    def check_server(self, connection: Connection) -> None:
        """Refuse a database that cannot hold a log."""

    @abstractmethod
    def weak_durability(self, connection: Connection) -> tuple[str, str] | None:
        """Return the setting by which the server answers COMMIT too early, and its right value."""

    def misplaced(self, connection: Connection) -> Iterator[str]:  # noqa: ARG002 - for others
        """Report what is wrong with where the tables are, if they are spread over nodes."""
        yield from ()  # as on a single server

    @abstractmethod
    def schema_lock(self, connection: Connection) -> AbstractContextManager[None]:
        """Keep other processes from changing the schema."""

    def drop_partial_schema(self, connection: Connection) -> None:
        """Remove what is left of a schema whose creation, or removal, was interrupted."""

    @abstractmethod
    def error_for(self, error: BaseException) -> tuple[type[StorageError], str]:
        """Return the library's class for a driver's error, and the remedy."""

    @abstractmethod
    def is_disconnect(self, error: BaseException) -> bool:
        """Return whether a driver's error says that the connection is gone."""

    def error_text(self, error: BaseException) -> str:
        """Return what the driver says."""
        return str(error)

    # what they have in common

    def open(self, tenant: str, *, new: bool) -> SqlStorage:
        """Open the storage of a tenant; see `Backend.open`.

        A server that starts, or that another one replaces, is waited for.
        """
        self.check_names(tenant, "")

        def attempt() -> SqlStorage:
            with no_fork():
                self.upgrade(new=new)
                return self.storage(tenant)

        with translated(self):
            return reconnecting(self, attempt)

    def storage(self, tenant: str) -> SqlStorage:
        """Return the storage of a tenant, once the server was checked."""
        return SqlStorage(self, tenant)

    @contextmanager
    def migrating(self) -> Generator[Connection]:
        """Give a connection that may change the schema while no other process does."""
        with translated(self):
            engine = self.connect()
            try:
                with reconnecting(self, engine.connect) as connection:
                    self.check_server(connection)
                    with self.schema_lock(connection):
                        self.drop_partial_schema(connection)
                        yield connection
            finally:
                engine.dispose()

    def check_names(self, tenant: str, conversation_id: str) -> None:
        """Refuse ids that the server's keys cannot hold.

        Raises:
            ValueError: One is too long.
        """
        for what, text, longest in (
            ("tenant", tenant, MAX_TENANT_CHARACTERS),
            ("conversation id", conversation_id, MAX_ID_CHARACTERS),
        ):
            if len(text) > longest:
                raise ValueError(
                    f"the {what} {text[:20]!r}… has {len(text)} characters, a database server "
                    f"takes {longest} at most: use a shorter one"
                )

    @property
    def engine_url(self) -> URL:
        """The URL as SQLAlchemy takes it."""
        return self.url

    def connect(self) -> Engine:
        """Make an engine whose connections are in autocommit mode."""
        try:
            engine = self._new_engine(
                {**self.connect_options(), **self.route_options()},
                isolation_level="AUTOCOMMIT",
                paramstyle="format",
                poolclass=IdlePool,
                pool_reset_on_return=None,
            )
        except (ImportError, NoSuchModuleError) as error:
            raise StorageError(
                f"{self.address}: {error}: pip install 'toolledger[{self.extra}]'"
            ) from error
        event.listen(engine, "connect", self._connected)
        event.listen(engine, "checkin", _checked_in)
        event.listen(engine, "checkout", self._checked_out)
        return engine

    def table_engine(self) -> TableEngine:
        """Make an engine for tables beside the log, on the server that the log would be written."""
        engine = self._new_engine(self.route_options(), pool_pre_ping=True)
        return TableEngine(engine, self.is_transient, self.is_connection_lost, self._explain)

    def _explain(self, error: BaseException) -> BaseException:
        """Return the library's error for a server that takes no writes; or the same error."""
        translation = self.translate(error)
        return translation if isinstance(translation, StoreFull | StoreReadOnly) else error

    def _new_engine(self, connect_options: dict[str, Any], **options: Any) -> Engine:
        """Make an engine; the URL's own options override those for connecting.

        Raises:
            ValueError: An option of the URL makes no sense.
        """
        unset = {k: v for k, v in connect_options.items() if k not in self.url.query}
        problem: object = None
        check_options(self.url, self.known_options())
        try:
            return create_engine(self.engine_url, connect_args=unset, **options)
        except NoSuchModuleError:
            raise
        except (ArgumentError, TypeError, ValueError) as error:
            problem = error
        raise ValueError(f"{self.address}: {problem}: mend the options of the URL")

    def _connected(self, connection: Any, _: object) -> None:
        self.prepare(connection)

    def _checked_out(self, connection: Any, record: ConnectionPoolEntry, _: object) -> None:
        since = record.info.get("since")
        if since is None or time.monotonic() - since < self.ping_after_seconds:
            return
        try:
            connection.cursor().execute("SELECT 1")
        except self.driver_module.Error as error:
            raise InvalidatePoolError from error  # the pool makes new ones: others may be as dead

    def upgrade(self, *, new: bool) -> None:
        """Bring the schema up to date; create it where it may be `new`."""
        engine = self.connect()
        try:
            with engine.connect() as connection:
                self.check_server(connection)
                _check_settings(self, connection)
                if _is_current(connection):
                    return
                _refuse_old(self, connection)
                with self.schema_lock(connection):
                    self.drop_partial_schema(connection)
                    found = migrations.revision(connection)
                    if found is None and not new:
                        raise NotAStore(f"{self.address} holds no store: name another database")
                    _refuse_old(self, connection)  # another process may have made it meanwhile
                    if migrations.check(found) or migrations.is_broken_off(connection):
                        migrations.upgrade(connection)  # no other process did meanwhile
        finally:
            engine.dispose()

    # errors

    def is_connection_lost(self, error: BaseException) -> bool:
        """Return whether the connection is gone, or out of step, as after a Ctrl-C."""
        if not isinstance(error, Exception):
            return True
        if isinstance(error, StorageError):  # ours: the driver itself may be missing
            return False
        cause = getattr(error, "orig", None) or error
        return isinstance(cause, self.driver_module.Error) and self.is_disconnect(cause)

    def translate(self, error: BaseException) -> BaseException:
        """Return the library's error for a driver's, with the database named; or the same error."""
        if isinstance(error, OutcomeUnknown):
            return error
        if isinstance(error, StorageError):
            is_named = self.address in str(error) or isinstance(error, StoreClosed)
            return error if is_named else type(error)(f"{self.address}: {error}")
        cause = getattr(error, "orig", None) or error
        return self._storage_error(cause) if isinstance(cause, self.driver_module.Error) else error

    def host_error(self, error: Exception) -> BaseException:
        """Return the library's error for one of the host's driver, which may be another."""
        translation = self.translate(error)
        cause = getattr(error, "orig", None)
        return self._storage_error(cause) if translation is error and cause else translation

    def _storage_error(self, error: BaseException) -> StorageError:
        kind, remedy = self.error_for(error)
        if remedy is migrations.CHANGED:  # the server's words would name a column
            return kind(f"{self.address}: {remedy}")
        text = " ".join(self.error_text(error).split())
        return kind(f"{self.address}: {text}: {remedy}")


def _checked_in(_: object, record: ConnectionPoolEntry) -> None:
    record.info["since"] = time.monotonic()


def _refuse_old(server: Server, connection: Connection) -> None:
    if not server.upgrades:
        with suppress(NotAStore):  # another process is about to make it, or a part is left
            found = migrations.revision(connection)
            migrations.refuse_old(found, broken_off=migrations.is_broken_off(connection))


def _check_settings(server: Server, connection: Connection) -> None:
    """Warn of a server that does not keep what "full" promises, and of tables out of place."""
    weak = None if server.durability == "normal" else server.weak_durability(connection)
    if weak is not None:
        setting, right = weak
        warnings.warn(
            f"{server.address}: {setting}: what was appended last may be lost when the server's "
            f"machine or network fails; set it to {right}, or open with durability='normal'",
            RuntimeWarning,
            stacklevel=2,
        )
    for problem in server.misplaced(connection):
        warnings.warn(f"{server.address}: {problem}", RuntimeWarning, stacklevel=2)


def _is_current(connection: Connection) -> bool:
    try:
        found = migrations.revision(connection)
    except NotAStore:  # or another process is about to make it
        return False
    current = found is not None and not migrations.check(found)
    return current and not migrations.is_broken_off(connection)
