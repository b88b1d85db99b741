"""What one kind of database can do, and what it does in its own way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from sqlalchemy import LargeBinary, cast, create_engine

from eventstore.errors import StoreCorrupt
from eventstore.storage.sql.table_engine import TableEngine
from eventstore.storage.urls import shown

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from sqlalchemy import URL, ColumnElement, Connection, Engine
    from sqlalchemy.engine.interfaces import DBAPICursor
    from sqlalchemy.pool import PoolProxiedConnection

    from eventstore.storage.interface import Draft, Storage
    from eventstore.storage.migrations import Progress


class Limits(msgspec.Struct, frozen=True):
    """How much a storage reads at once, and how much it keeps in memory."""

    chunk_rows: int = 500
    """Rows that a read fetches at once; no transaction is open between chunks.

    A fold takes in events while they are in a core's cache: 1,000 at once took some 5 % more CPU,
    and up to a half more beside other programs.
    """

    ids_per_query: int = 500
    """Conversations that are looked up at once."""

    cached_keys: int = 10_000
    """Conversations whose keys are kept in memory."""


class Backend(ABC):
    """One database, and how its kind differs from the others.

    Shared code asks for capabilities, never for a vendor. Derive a backend from this class, which
    has a default for most of it, and register it for the schemes of its URLs with
    `eventstore.engines.register_backend`. `durability` is "full" or "normal", `busy_timeout` is in
    seconds.
    """

    url: URL
    durability: str
    busy_timeout: float

    begin: str = "BEGIN"
    """The statement that begins a transaction which will write."""

    compound_statements: ClassVar[bool] = False
    """Whether several statements without parameters may be sent as one, separated by `;`."""

    row_locks: ClassVar[bool] = True
    """Whether SELECT … FOR UPDATE locks a row until the transaction ends.

    A database without row locks must let only one transaction write, from `begin` or from its
    first write on, or refuse the later one of two that have changed the same row.
    """

    may_spread: bool = False
    """Whether the tables may be distributed over several nodes while a storage is open."""

    commits_by_lane: bool = False
    """Whether lanes live on several nodes, as found when it was opened.

    A transaction of one lane, whose statements each name it, is one node's. Several lanes cost a
    commit in two phases, and their rows cannot be locked by one statement.
    """

    lanes_in_blocks: ClassVar[bool] = False
    """Whether a lane's counter has a block in its key, as PostgreSQL's; see `counter_clauses`."""

    dialect_names: ClassVar[frozenset[str]] = frozenset()
    """SQLAlchemy's names for the databases whose connections a host application may pass."""

    together: str = ""
    """Begins a statement that locks several lanes, where their locks are bounded one by one."""

    erasing: ClassVar[str | None] = None
    """What has a connection overwrite what it deletes, before a redaction."""

    null: ClassVar[str | None] = None
    """What stands for NULL in the row of an event that is to be inserted.

    Where it is an empty text, the statement that inserts the row makes it NULL.
    """

    checks_encoding: ClassVar[bool] = False
    """Whether text in the database is always valid UTF-8.

    If not, payloads are read as bytes, so that a damaged one is reported and not raised.
    """

    time_query: ClassVar[str | None] = None
    """What asks the server for its time, in microseconds since 1970 UTC; None without a server."""

    position_is_rowid: ClassVar[bool] = False
    """Whether an event's position alone is its primary key, as SQLite's rowid."""

    survives_fork: ClassVar[bool] = False
    """Whether a forked child may be left with connections of its parent, which it never uses."""

    sorts_joins: ClassVar[bool] = False
    """Whether rows that are joined to a single one are sorted, though an index has their order."""

    read_only: bool = False
    """Whether its storages refuse to write."""

    upgrades: bool = True
    """Whether `open` upgrades the schema of a database, or refuses it: `SchemaTooOld`."""

    limits: Limits = Limits()
    """What its storages read at once and keep; set it before `open` to have others."""

    retry_advice: ClassVar[str] = "roll the transaction back, and begin it again"
    """What a host does with a transaction that cannot see what others have written."""

    def __init__(self, url: URL, durability: str, busy_timeout: float) -> None:
        self.url = url
        self.durability = durability
        self.busy_timeout = busy_timeout

    @property
    @abstractmethod
    def driver_module(self) -> ModuleType:
        """The driver, a module as PEP 249 describes it."""

    # opening

    @abstractmethod
    def open(self, tenant: str, *, new: bool) -> Storage:
        """Open the storage of a tenant, its schema upgraded, and created where it may be `new`.

        Raises:
            NotAStore, SchemaTooNew, SchemaTooOld, StorageError: The database cannot be used.
        """

    def open_to_read(self, tenant: str) -> Storage:
        """Open the storage of a tenant that is there, its schema up to date."""
        return self.open(tenant, new=False)

    def can_read_otherwise(self, *, refused: bool) -> bool:
        """Return whether another way to read was taken, after or before the usual one."""
        del refused
        return False

    @abstractmethod
    def migrating(self) -> AbstractContextManager[Connection]:
        """Give a connection that may change the schema while no other process does."""

    @abstractmethod
    def connect(self) -> Engine:
        """Make an engine whose connections are in autocommit mode."""

    def log_engine(self) -> Engine:
        """Make the engine of a storage; by default it is the one for changing the schema, too."""
        return self.connect()

    def read_cursor(self, connection: PoolProxiedConnection) -> DBAPICursor:
        """Return a cursor of the driver to read with."""
        return connection.cursor()

    def is_suspect(self, info: Mapping[Any, Any]) -> bool:
        """Return whether a pooled connection, with the pool's `info`, must not be used again."""
        return False

    def backup(self, path: Path, progress: Progress | None) -> None:
        """Copy the database to a new file while others write to it; see `eventstore.backup`.

        Raises:
            ValueError: it is not a file.
        """
        raise ValueError(
            f"{shown(self.url)} is not a SQLite file: back it up with the tools of its server, or "
            "write its events to a file with `toolledger export`"
        )

    def table_engine(self) -> TableEngine:
        """Make an engine for tables that stand beside the log, as the projector's do."""
        return TableEngine(create_engine(self.url, pool_pre_ping=True), self.is_transient)

    @property
    def single_connection(self) -> bool:
        """Whether all threads must share one connection (a database in memory)."""
        return False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {shown(self.url)!r}>"

    # what it holds

    @property
    def fence(self) -> Sequence[str]:
        """Statements for a lane after whose COMMIT no earlier one in that lane takes place.

        There are some where a row that is locked may still be written on another server.
        """
        return ()

    def check_in_place(self) -> None:
        """Refuse to use a database that is no longer the one that was opened."""

    def check_names(self, tenant: str, conversation_id: str) -> None:
        """Refuse ids that the database cannot hold.

        Raises:
            ValueError: One is too long.
        """

    def check_sizes(self, drafts: Sequence[Draft]) -> None:
        """Refuse events so large that the database drops the connection."""

    def payload_as_bytes(self, payload: ColumnElement[str]) -> ColumnElement[bytes]:
        """Return the expression that reads text as bytes, whatever they are."""
        return cast(payload, LargeBinary)

    def text_as_stored(self, text: ColumnElement[str]) -> ColumnElement[bytes]:
        """Return the expression by which checks read text: NULL where no text is stored."""
        return self.payload_as_bytes(text)

    def damage(self, run: Callable[[str], list[Any]]) -> Iterator[str]:
        """Report what the database itself finds wrong in its files."""
        yield from ()

    def remarks(self) -> Iterator[str]:
        """Yield what to know of the driver and the database's files, which are sound."""
        yield from ()

    # errors

    @abstractmethod
    def translate(self, error: BaseException) -> BaseException:
        """Return the library's error for a driver's, or the same error."""

    def is_connection_lost(self, error: BaseException) -> bool:
        """Return whether the connection is gone, or out of step with its server."""
        return False

    def is_commit_in_doubt(self, error: BaseException) -> bool:
        """Return whether a COMMIT that failed with this error may be found stored later."""
        return False

    def is_transient(self, error: BaseException) -> bool:
        """Return whether the transaction was given up and may be tried again (a deadlock)."""
        return False

    def bounded_wait(self, cursor: DBAPICursor) -> AbstractContextManager[object]:
        """Bound the waits for locks within it as a whole, where the database bounds each alone."""
        return nullcontext()

    # the connection of a host application

    def check_host_driver(self, connection: Connection) -> None:
        """Refuse a connection of a driver that must not be used beside the store's own.

        Raises:
            ValueError: It is one.
        """

    def begin_within(self, connection: Connection) -> bool:
        """Return whether a host's connection is in a transaction that events can be part of.

        It is begun where the driver has not yet, unless the connection is in autocommit mode.
        """
        within = connection.connection
        ask = getattr(within.driver_connection, "get_autocommit", None)  # of MySQL's drivers
        return not (ask() if ask else getattr(within.dbapi_connection, "autocommit", None) is True)

    def host_error(self, error: Exception) -> BaseException:
        """Return the library's error for one of a host's driver, or the same error."""
        return self.translate(error)


def library_error(backend: Backend, error: BaseException) -> BaseException:
    """Return the library's error for whatever came of using the database, or the same error."""
    if isinstance(error, UnicodeDecodeError):  # of a driver that reads text, or the schema
        error = StoreCorrupt(
            f"the database holds text that is not UTF-8 ({error.reason}): run `toolledger verify`, "
            "and restore the database from a copy"
        )
    return backend.translate(error)


@contextmanager
def translated(backend: Backend) -> Generator[None]:
    """Raise a database's errors as the library's."""
    try:
        yield
    except Exception as error:
        translation = library_error(backend, error)
        if translation is error:
            raise
        raise translation from error
