"""SQLite: one file, one lane, WAL.

Python's own SQLite may carry the WAL-reset bug (3.7.0 to 3.51.2, except 3.50.7 and 3.44.6): a
checkpoint that runs beside writers can lose committed rows. So nothing here checkpoints
explicitly, `mmap_size` stays 0, and `pysqlite3` is used where it is installed.

Only SQLite opens the file here. Closing a file gives up every POSIX lock that the process has on
it, and with them the log of a store that is open elsewhere in the process. For the same reason a
process must not use the file through another copy of SQLite (`sqlite3` beside an installed
`pysqlite3`). Other processes and tools may.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    case,
    create_engine,
    event,
    func,
    literal_column,
)
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import StaticPool

from eventstore.errors import NotAStore, StorageError, StoreClosed
from eventstore.storage import migrations
from eventstore.storage.sql.backend import Backend, translated
from eventstore.storage.sql.forks import no_fork
from eventstore.storage.sql.opening import migrate_in_transaction
from eventstore.storage.sql.parts import COPIES_REMAIN, Parts
from eventstore.storage.sql.pool import IdlePool
from eventstore.storage.sql.reader import LogReader
from eventstore.storage.sql.storage import SqlStorage
from eventstore.storage.sqlite.archiving import exclusive, file_permissions
from eventstore.storage.sqlite.copying import SqliteConnection, backup
from eventstore.storage.sqlite.driver import LIMIT_WAL, driver, loses_rows
from eventstore.storage.sqlite.errors import STUMBLED, driver_error, system_error
from eventstore.storage.sqlite.files import (
    StoreFile,
    UnchangedFile,
    create,
    is_of_another_user,
    path_of,
    permissions,
)
from eventstore.storage.sqlite.many_rows import insert_many_rows
from eventstore.storage.sqlite.new_store import make_store
from eventstore.storage.sqlite.single_statement import SqliteSingleStatement
from eventstore.storage.sqlite.table_engine import SqliteTableEngine
from eventstore.storage.urls import check_options, shown

if TYPE_CHECKING:
    from sqlalchemy.pool import ConnectionPoolEntry

    from eventstore.storage.sql.log import Log
    from eventstore.storage.sql.table_engine import TableEngine

_SYNCHRONOUS = {"full": "FULL", "normal": "NORMAL"}

_OPTIONS = frozenset(
    {
        "cached_statements",
        "check_same_thread",
        "detect_types",
        "isolation_level",
        "timeout",
        "uri",
    }
)
"""Options of a URL that SQLAlchemy hands to the driver."""
_URI_OPTIONS = _OPTIONS | {"cache", "immutable", "mode", "modeof", "nolock", "psow", "vfs"}
"""Options of a URL for SQLite's own URIs."""

_WAL_PAUSE_SECONDS = 0.002


class Sqlite(Backend):
    """A SQLite file, or a database in memory."""

    begin = "BEGIN IMMEDIATE"
    erasing = "PRAGMA secure_delete = ON"
    null = ""  # Python's driver takes 0.3 µs to bind None: it asks its adapters
    row_locks = False
    dialect_names = frozenset({"sqlite"})
    position_is_rowid = True
    retry_advice = "roll the transaction back, and begin it with BEGIN IMMEDIATE"

    def __init__(self, url: URL, durability: str, busy_timeout: float) -> None:
        super().__init__(url, durability, busy_timeout)
        if url.host or url.username or url.password:
            raise ValueError(
                f"{shown(url)} names a server, and SQLite has none: write sqlite:///agent.db for a "
                "file of the working directory, sqlite:////var/agent.db for one anywhere"
            )
        check_options(url, _URI_OPTIONS if "uri" in url.query else _OPTIONS)
        path = path_of(url)
        if path is not None and not self._is_uri:
            # Now, not when a connection is made: the working directory may be another by then.
            path = path.resolve()
            self.url = url.set(database=str(path))
        self.path = path
        """The file, or None for a database in memory."""
        self._file = None if path is None else StoreFile(path)
        if self._file is not None:  # without a frame between: each append and read asks
            self.check_in_place = self._file.check_in_place  # type: ignore[method-assign]
        self._is_immutable = False
        self._memory: Engine | None = None

    @property
    def driver_module(self) -> ModuleType:
        """`pysqlite3` where it is installed, otherwise Python's `sqlite3`."""
        return driver()

    @property
    def single_connection(self) -> bool:
        """Whether all threads must share one connection (a database in memory)."""
        return self.path is None

    # opening

    def open(self, tenant: str, *, new: bool) -> SqlStorage:
        """Open the storage of a tenant; see `Backend.open`."""
        with translated(self), no_fork():
            if self.path is None or self.file_exists():
                self.upgrade(new=new)
            else:
                self._create(new=new)
            self.check_in_place()
            return SqlStorage(self, tenant, _parts)

    def open_to_read(self, tenant: str) -> SqlStorage:
        """Open the storage of a tenant that is there; see `Backend.open_to_read`."""
        with translated(self), no_fork():
            return SqlStorage(self, tenant, _parts)

    def can_read_otherwise(self, *, refused: bool) -> bool:
        """Take the file for immutable, where no writer is there and no `-wal`.

        In WAL mode SQLite reads with the help of the `-shm`. Where there is none, and the folder
        cannot be written, this is the only way. SQLite would pass over a `-wal` then. Where the
        file is another user's, it would leave a `-shm` there which the owner could not write.

        Raises:
            StorageError: there is one, or no file.
        """
        if refused and not self.file_exists():
            raise NotAStore(f"there is no store at {self.path}: name another file")
        if self.path is None or self._is_uri:
            return False
        if not (self._is_read_only() if refused else is_of_another_user(self.path)):
            return False
        self._is_immutable = True
        self.check_in_place = UnchangedFile(self.path).check  # type: ignore[method-assign]
        return True

    @contextmanager
    def migrating(self) -> Generator[Connection]:
        """Give a connection in a transaction, to change the schema; make no file."""
        with translated(self):
            if not self.file_exists():
                self._create(new=False)
            with migrate_in_transaction(self) as connection:
                yield connection

    def connect(self) -> Engine:
        """Make an engine whose connections are in autocommit mode; in memory, always the same."""
        if self._memory is not None:
            return self._memory
        options: dict[str, Any] = {"check_same_thread": False, "timeout": self.busy_timeout}
        module = driver()
        if self.single_connection:
            engine = self._memory = create_engine(
                self.url, module=module, poolclass=StaticPool, connect_args=options
            )
        else:
            engine = create_engine(
                self.url,
                module=module,
                poolclass=IdlePool,
                pool_reset_on_return=None,  # what is given back is in autocommit mode
                connect_args=options,
                **self._existing(options),
            )
        event.listen(engine, "connect", self._prepare)
        if self._file is not None:
            event.listen(engine, "close", self._file.companions.closes)
        return engine

    def table_engine(self) -> TableEngine:
        """Make an engine for tables beside the log, on the same copy of SQLite."""
        return SqliteTableEngine(self.url, self.busy_timeout, self.explain, self.is_transient)

    @property
    def _is_uri(self) -> bool:
        return str(self.url.database).startswith("file:")

    def _existing(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return how to connect without making a file, should ours be gone."""
        if self.url.query or self.path is None or self._is_uri:
            return {}
        mode = "mode=ro" if self.read_only else "mode=rw"
        if self._is_immutable:
            mode = "immutable=1"
        place = f"{self.path.as_uri()}?{mode}"
        return {"creator": lambda: driver().connect(place, uri=True, **options)}

    def _prepare(self, connection: Any, entry: ConnectionPoolEntry) -> None:
        try:
            self._set_up(connection, entry)
        except BaseException:
            connection.close()  # the pool lets go of it as it is
            raise

    def _set_up(self, connection: Any, entry: ConnectionPoolEntry) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA synchronous={_SYNCHRONOUS[self.durability]}")
        cursor.execute("PRAGMA mmap_size=0")
        cursor.execute(LIMIT_WAL)
        cursor.execute("PRAGMA foreign_keys=ON")
        if self.read_only:
            cursor.execute("PRAGMA query_only=ON")
        if self._file is not None:
            (mode,) = cursor.execute("PRAGMA journal_mode").fetchone()  # it opens what is beside
            if mode == "wal":
                self._file.companions.opened(entry)
                self._file.check_beside()
        cursor.close()

    # the schema

    def _create(self, *, new: bool) -> None:
        path = Path(str(self.path))
        if not new:
            raise NotAStore(f"there is no store at {path}: name another file")

        def build(draft: Path) -> None:
            draft.touch(exist_ok=False)  # connections make no files
            name = draft.absolute().as_uri() if self._is_uri else str(draft)
            beside = self.url.set(database=name)
            Sqlite(beside, self.durability, self.busy_timeout).upgrade(new=True)

        create(path, build)

    def upgrade(self, *, new: bool) -> None:
        """Bring the schema up to date; create it where it may be `new`."""
        engine = self.connect()
        try:
            with engine.connect() as connection:
                self._upgrade_over(connection, new=new)
        finally:
            if not self.single_connection:
                engine.dispose()

    def _upgrade_over(self, connection: Connection, *, new: bool) -> None:
        connection.exec_driver_sql("BEGIN")  # otherwise another may upgrade while we look
        found = migrations.revision(connection)
        if found is None:
            self._refuse_foreign(connection)
            if not new and self.path is not None:
                raise NotAStore(f"{self.path} holds no store: name another file")
        connection.exec_driver_sql("COMMIT")
        if not self.upgrades:
            migrations.refuse_old(found)
        self._set_wal(connection)
        if not migrations.check(found):
            return
        connection.exec_driver_sql(self.begin)
        found = migrations.revision(connection)
        if found is None:
            make_store(connection)
        elif migrations.check(found):  # no other process did meanwhile
            migrations.upgrade(connection)
        connection.exec_driver_sql("COMMIT")

    def _set_wal(self, connection: Connection) -> None:
        """Set WAL, which the file keeps; where it is set already this writes nothing."""
        until = time.monotonic() + self.busy_timeout
        while True:
            try:
                connection.exec_driver_sql("PRAGMA journal_mode=WAL")
            except OperationalError as error:
                # For this statement SQLite itself does not wait for other processes.
                if "locked" not in str(error) or time.monotonic() > until:
                    raise
                time.sleep(_WAL_PAUSE_SECONDS)
            else:
                return

    def _refuse_foreign(self, connection: Connection) -> None:
        names = connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type='table'")
        foreign = sorted(n for (n,) in names if not n.startswith(("toolledger_", "sqlite_")))
        if foreign:
            raise NotAStore(
                f"{self.path} is the database of another program (it has a table {foreign[0]!r}): "
                "name another file, or run `toolledger migrate` to keep the log in this one, too"
            )

    # the file

    def backup(self, path: Path, progress: migrations.Progress | None) -> None:
        """Copy the file to a new one; see `eventstore.backup`."""
        if self.path is None:
            raise ValueError(
                f"{shown(self.url)} is in memory: write its events to a file with `store.read()`"
            )
        with translated(self):
            if not self.file_exists():
                raise NotAStore(f"there is no store at {self.path}: name another file")
            engine = self.connect()
            try:
                with engine.connect() as connection:
                    if migrations.revision(connection) is None:
                        raise NotAStore(f"{self.path} holds no store: name another file")
                    source = connection.connection.driver_connection
                    mode = permissions(self.path)
                    backup(cast("SqliteConnection", source), path, progress, mode)
            finally:
                engine.dispose()

    def file_exists(self) -> bool:
        """Return whether the file is there; see `StoreFile.exists`. Memory always is."""
        return self._file is None or self._file.exists()

    def text_as_stored(self, text: ColumnElement[str]) -> ColumnElement[bytes]:
        """Return the bytes of a text; a single bit of a row says whether it is one, or bytes."""
        is_text = func.typeof(text) == literal_column("'text'")
        return case((is_text, self.payload_as_bytes(text)))

    def damage(self, run: Callable[[str], list[Any]]) -> Iterator[str]:
        """Report what SQLite itself finds wrong in the file."""
        try:
            rows = run("PRAGMA integrity_check(20)")
        except driver().Error as error:
            yield f"SQLite cannot check the file: {error}"
            return
        for (text,) in rows:
            if text != "ok":
                yield f"SQLite: {text}"

    def remarks(self) -> Iterator[str]:
        """Yield that SQLite can lose committed rows, and that the -wal is large."""
        if self._file is not None:
            yield from self._file.large_wal()
        if loses_rows(driver().sqlite_version_info):
            yield (
                f"SQLite {driver().sqlite_version} can lose committed rows when several processes "
                "write to one file and one of them asks for a checkpoint; toolledger never asks, "
                "but others may: pip install 'toolledger[sqlite]' brings a SQLite without that "
                "fault"
            )

    # errors

    def translate(self, error: BaseException) -> BaseException:
        """Return the library's error for a driver's, with the file named; or the same error."""
        where = str(self.path or "the database in memory")
        if isinstance(error, StorageError):
            is_named = where in str(error) or isinstance(error, StoreClosed)
            return error if is_named else type(error)(f"{where}: {error}")
        if isinstance(error, OSError) and self.path is not None:
            return system_error(where, error)
        cause = getattr(error, "orig", None) or error
        if not isinstance(cause, driver().Error):
            return error
        if self._file is not None and any(word in str(cause).lower() for word in STUMBLED):
            damage = self._file.behind(str(cause))
            if damage is not None:
                return damage
        read_only = "unable to open" in str(cause).lower() and self._is_read_only()
        return driver_error(where, cause, read_only=read_only)

    def explain(self, error: BaseException) -> BaseException:
        """Return the library's error for one of a connection that makes files."""
        try:
            if "unable to open" in str(error):
                self.file_exists()
        except StorageError as found:
            return self.translate(found)
        return self.translate(error)

    def _is_read_only(self) -> bool:
        return self._file is not None and self._file.is_read_only()

    # the connection of a host application

    def check_host_driver(self, connection: Connection) -> None:
        """Refuse a connection of another copy of SQLite; see `Backend.check_host_driver`."""
        ours, given = driver(), connection.connection.driver_connection
        raw = getattr(given, "_conn", given)  # aiosqlite has one within
        if not isinstance(raw, ours.Connection):
            raise ValueError(  # noqa: TRY004 - the wrong one of two copies
                f"the connection is of {type(raw).__module__}, the store's of {ours.__name__}: "
                "two copies of SQLite in one process undo each other's locks; create the "
                f"engine with module={ours.__name__} (with aiosqlite, an async_creator), or "
                "uninstall pysqlite3"
            )

    def is_commit_in_doubt(self, error: BaseException) -> bool:
        """Return whether the disk failed: whole frames may stand in the WAL, and are recovered."""
        return "disk i/o error" in str(error).lower()

    def begin_within(self, connection: Connection) -> bool:
        """Begin: Python's driver does not before a savepoint, which would then be the whole."""
        given: Any = connection.connection.driver_connection
        within = connection.connection.dbapi_connection
        never_begins = not given.in_transaction and given.isolation_level is None
        if never_begins or getattr(within, "autocommit", None) is True:
            return False
        if not given.in_transaction:
            connection.exec_driver_sql(self.begin)
        return True


def _parts(log: Log) -> Parts:
    """Return the parts of a storage in SQLite."""
    return Parts(
        LogReader(log),
        insert_many_rows,
        SqliteSingleStatement(log),
        erase=_empty_wal,
        exclusive=exclusive,
        permissions=file_permissions,
    )


def _empty_wal(reader: LogReader) -> tuple[str, ...]:
    """Bring the pages that a redaction has overwritten into the file, and empty the -wal.

    A SQLite that can lose rows by it is not asked to.
    """
    path = reader.log.backend.url.database
    if reader.connections.backend.single_connection:
        return ()
    if loses_rows(driver().sqlite_version_info):
        in_wal = (
            f"{path}-wal may hold it still: it goes when the last process closes the store; pip "
            "install 'toolledger[sqlite]' brings a SQLite that can empty it at once"
        )
    else:
        ((busy, *_),) = reader.connections.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        if not busy:
            return (COPIES_REMAIN,)
        in_wal = (
            f"{path}-wal holds it still: it goes when the last process closes the store, or with "
            "the next redaction while no other process reads"
        )
    return in_wal, COPIES_REMAIN
