"""The tables of the materialised projections, in any SQL database, and how they are reached.

Every state row belongs to a projection (one generation of one log's) and to a lane of that log,
and is written only by who advances that lane's checkpoint in the same transaction. Keys are
integers and 16-byte digests, so that no text, however long or collated, is ever compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from hashlib import blake2b
from itertools import islice
from operator import itemgetter
from typing import Any

from sqlalchemy import (
    BINARY,
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Index,
    Insert,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    Update,
    bindparam,
    create_engine,
    delete,
    event,
    func,
    insert,
    inspect,
    make_url,
    select,
    update,
)
from sqlalchemy.dialects.mysql import LONGBLOB, LONGTEXT
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError
from sqlalchemy.pool import StaticPool

from eventstore import StorageError, StoreCorrupt
from eventstore.storage.sqlite import Sqlite, driver

Row = dict[str, Any]
Reading = Callable[[], AbstractContextManager[Connection]]

AT_ONCE = 500
"""Keys that one statement asks for; SQLite takes 999 parameters at least."""

REMOVED = 10_000
"""Rows that are removed in one transaction."""

BUSY_TIMEOUT = 30.0
TRIES = 50
_DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}
_DRIVERS["mariadb"] = "mariadb+pymysql"
_LOST_RACES = ("40001", "40P01", 1020, 1205, 1213)
"""What servers say of a transaction that lost against another, and may be tried again."""

_MYSQL = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
_OPTIONS: dict[str, Any] = {**_MYSQL, **{f"mariadb{k[5:]}": v for k, v in _MYSQL.items()}}

metadata = MetaData()


def _long() -> Any:
    return Text().with_variant(LONGTEXT(), "mysql", "mariadb")


def _key() -> Any:
    return LargeBinary(16).with_variant(BINARY(16), "mysql", "mariadb")


def _state(name: str, key: Sequence[str], *columns: Column[Any], **more: Any) -> Table:
    """A table of rows that belong to a lane of a projection."""
    return Table(
        f"toolledger_{name}",
        metadata,
        Column("projection", BigInteger, autoincrement=False, nullable=False),
        Column("lane", Integer, autoincrement=False, nullable=False),
        *columns,
        PrimaryKeyConstraint("projection", "lane", *key, name=f"toolledger_{name}_pk"),
        *more.get("constraints", ()),
        **_OPTIONS,
    )


projections = Table(
    "toolledger_projections",
    metadata,
    Column("id", BigInteger, autoincrement=False, nullable=False),
    Column("owner", _key(), nullable=False),
    Column("state", String(32), nullable=False),
    Column("tenant", _long(), nullable=False),
    Column("epoch", String(64), nullable=False),
    Column("format", Integer, nullable=False),
    Column("views", String(64), nullable=False),
    Column("bucket", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("id", name="toolledger_projections_pk"),
    UniqueConstraint("owner", "state", name="toolledger_projections_state"),
    **_OPTIONS,
)
"""`owner` is the log and its tenant; `state` is live, building, or retired and the id."""

checkpoints = _state(
    "checkpoints",
    (),
    Column("position", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("totals", _long(), nullable=False),
)
"""How far a lane is projected; who advances it compares and sets `revision`."""

parked = _state(
    "parked",
    ("key",),
    Column("key", _key(), nullable=False),
    Column("conversation_id", _long(), nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("event_id", String(32), nullable=False),
    Column("recorded_at", BigInteger, nullable=False),
    Column("tag", _long(), nullable=False),
    Column("problem", _long(), nullable=False),
    Column("waiting", BigInteger, nullable=False),
)

streams = _state(
    "streams",
    ("key",),
    Column("key", _key(), nullable=False),
    Column("conversation_id", _long(), nullable=False),
    Column("conversation", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
)
"""The conversations, `conversation` counting them in their lane."""

asked = _state(
    "asked",
    ("conversation", "page"),
    Column("conversation", BigInteger, autoincrement=False, nullable=False),
    Column("page", Integer, autoincrement=False, nullable=False),
    Column("marks", LargeBinary().with_variant(LONGBLOB(), "mysql", "mariadb"), nullable=False),
)
"""What each conversation asked for: the first 8 bytes of each call's key, page by page."""

calls = _state(
    "calls",
    ("position",),
    Column("position", BigInteger, autoincrement=False, nullable=False),
    Column("key", _key(), nullable=False),
    Column("conversation", BigInteger, nullable=False),
    Column("conversation_id", _long(), nullable=False),
    Column("call_id", _long(), nullable=False),
    Column("tool", _long(), nullable=False),
    Column("status", String(16), nullable=False),
    Column("attempts", BigInteger, nullable=False),
    Column("fingerprint", String(64), nullable=True),
    Column("imported", Integer, nullable=False),
    Column("requested_at", BigInteger, nullable=True),
    Column("changed_at", BigInteger, nullable=False),
    Column("body", _long(), nullable=False),
    constraints=(
        UniqueConstraint("projection", "lane", "key", name="toolledger_calls_key"),
        Index("toolledger_calls_status", "projection", "status", "lane", "position"),
        Index("toolledger_calls_of", "projection", "lane", "conversation", "position"),
    ),
)
"""The current tools; `position` is the request's, `body` the whole call as JSON."""

open_calls = _state(
    "open_calls",
    ("key",),
    Column("key", _key(), nullable=False),
    Column("body", _long(), nullable=False),
)
"""What the statistics keep of each call that is not settled."""

COUNTS = (
    "calls", "open", "attempts", "retries", "completions", "failures", "terminal_failures",
    "recovered", "rejections", "outcome_unknown", "repeated", "first_tries", "first_try_successes",
)  # fmt: skip

tool_statistics = _state(
    "tool_statistics",
    ("starts_at", "key"),
    Column("starts_at", BigInteger, autoincrement=False, nullable=False),
    Column("key", _key(), nullable=False),
    Column("tool", _long(), nullable=False),
    *(Column(name, BigInteger, nullable=False) for name in COUNTS),
    Column("body", _long(), nullable=False),
)
"""A tool's numbers of one time bucket; `body` has all, distributions too, as JSON."""

kind_statistics = _state(
    "kind_statistics",
    ("starts_at", "kind"),
    Column("starts_at", BigInteger, autoincrement=False, nullable=False),
    Column("kind", String(32), nullable=False),
    *(Column(n, BigInteger, nullable=False) for n in ("failures", "retried", "recovered")),
    Column("terminal", BigInteger, nullable=False),
    Column("body", _long(), nullable=False),
)
"""An error kind's numbers of one time bucket."""

call_statistics = _state(
    "call_statistics",
    ("page",),
    Column("page", BigInteger, autoincrement=False, nullable=False),
    Column("body", _long(), nullable=False),
)
"""The numbers of all calls with one fingerprint, many fingerprints a row: all are read at once."""

STATES = (
    checkpoints,
    *(t for t in metadata.sorted_tables if t is not projections and t is not checkpoints),
)
"""The tables whose rows belong to a projection; without a checkpoint nobody adds to the others."""


def key_of(*texts: str) -> bytes:
    """16 bytes that stand for the texts in a key."""
    parts = [text.encode("utf-8", "surrogatepass") for text in texts]
    return blake2b(b"".join(b"%d:%b" % (len(p), p) for p in parts), digest_size=16).digest()


def storable(text: str) -> str:
    """`text` as any database can hold it, for people to read: NUL is shown as an escape."""
    if text.isascii() and "\x00" not in text:
        return text
    return text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")


class Refused(StorageError):
    """The database does not take a statement, for a `reason`, or does not answer at all."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(text)
        self.reason = reason


class LostRace(Exception):
    """Another transaction was first; nothing was written."""


class Database:
    """The database of the projections. Its tables are created when they are not there."""

    def __init__(self, url: str) -> None:
        self._engine = _engine(url)
        self.name = self._engine.url.render_as_string()
        """The URL without its password."""
        is_sqlite = self._engine.dialect.name == "sqlite"
        self._file = Sqlite(self._engine.url, "normal", BUSY_TIMEOUT) if is_sqlite else None
        try:
            with self._translated():
                self._create()
        except BaseException:
            self.close()
            raise

    def _create(self) -> None:
        # Others may be creating them, too, and be first with one table after the other.
        for left in range(TRIES, 0, -1):
            try:
                with self._engine.begin() as connection:
                    metadata.create_all(connection)
            except DBAPIError:
                if left == 1:
                    raise
            else:
                return

    def close(self) -> None:
        """Give up the connections."""
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection to read from: everything as it was at one moment."""
        with self._translated(), self._engine.connect() as connection:
            if self._file is not None:
                connection.exec_driver_sql("BEGIN")
            else:
                connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A connection whose transaction is committed at the end, whole or not at all.

        Raises:
            LostRace: another transaction was first.
        """
        with self._translated(), self._engine.connect() as connection:
            if self._file is not None:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            else:
                connection.execution_options(isolation_level="READ COMMITTED")
            yield connection
            connection.commit()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except IntegrityError as error:
            raise LostRace(str(error.orig)) from error
        except DBAPIError as error:
            code = getattr(error.orig, "sqlstate", None)
            if code is None and error.orig is not None:
                code = next(iter(error.orig.args), None)
            if code in _LOST_RACES:
                raise LostRace(str(error.orig)) from error
            raise self._told(error.orig or error) from error

    def _told(self, error: BaseException) -> StorageError:
        """The library's error for a driver's: of a file, what a store in it says."""
        told = error
        if self._file is not None:
            try:
                if "unable to open" in str(error):
                    self._file.check_file()
            except StorageError as found:
                told = found
            told = self._file.translate(told)
        damaged = isinstance(told, StoreCorrupt)  # but `verify` looks at the log, not here
        if isinstance(told, StorageError) and not damaged:
            return told
        reason = " ".join(str(error).split())
        text = (
            f"{self.name}: {reason}: nothing was projected; see that the "
            "database is there and whole, and that it can be written to, then try again"
        )
        return StoreCorrupt(text) if damaged else Refused(text, reason)


def forget(url: str, epoch: str) -> None:
    """Remove the projections of a log that is no more; the tables, too, if they hold no other's."""
    engine = _engine(url)
    try:
        if not inspect(engine).has_table(projections.name):
            return
        with engine.begin() as connection:
            for (number,) in find(connection, projections, ("id",), epoch=epoch):
                for table in STATES:
                    remove(connection, table, projection=number)
                remove(connection, projections, id=number)
            if not highest(connection, projections.c.id):
                metadata.drop_all(connection)
    finally:
        engine.dispose()


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
    except Exception as error:
        raise ValueError(
            f"{url!r} is not a database URL: for a file write for example sqlite:///agent.db"
        ) from error
    try:
        name = parsed.drivername
        if name.startswith("sqlite"):
            return _sqlite(url)
        return create_engine(parsed.set(drivername=_DRIVERS.get(name, name)), pool_pre_ping=True)
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise ValueError(
            f"{parsed.render_as_string()} cannot be used for projections ({error}): pass for "
            "example sqlite:///agent.db or postgresql://user@host/name, with its driver installed"
        ) from error


def _sqlite(url: str) -> Engine:
    # The same copy of SQLite that has the log: two in one process undo each other's locks.
    options: dict[str, Any] = {"module": driver()}
    options["connect_args"] = {"timeout": BUSY_TIMEOUT, "check_same_thread": False}
    if make_url(url).database in (None, "", ":memory:"):
        options["poolclass"] = StaticPool
    engine = create_engine(url, **options)

    def prepare(connection: Any, _: Any) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA mmap_size=0")
        cursor.execute("PRAGMA journal_mode=WAL")
        # What a power cut takes away is projected again.
        cursor.execute("PRAGMA synchronous=NORMAL")
        cursor.close()

    event.listen(engine, "connect", prepare)
    return engine


# statements


def _of(table: Table, given: Mapping[str, Any]) -> list[ColumnElement[bool]]:
    return [
        table.c[name].in_(value) if isinstance(value, list | tuple) else table.c[name] == value
        for name, value in given.items()
    ]


def find(
    connection: Connection, table: Table, names: Sequence[str], /, order: Sequence[str] = (),
    limit: int | None = None, after: tuple[int, int] | None = None, **given: Any,
) -> Sequence[Any]:  # fmt: skip
    """The rows whose columns are as `given` (one of several, for a list)."""
    statement = select(*(table.c[name] for name in names)).where(*_of(table, given))
    if after is not None:
        lane, position = after
        statement = statement.where(
            (table.c.lane > lane) | ((table.c.lane == lane) & (table.c.position > position))
        )
    statement = statement.order_by(*(table.c[name] for name in order))
    return connection.execute(statement if limit is None else statement.limit(limit)).fetchall()


def find_span(
    connection: Connection, table: Table, names: Sequence[str], key: str,
    /, since: int | None, until: int | None, **given: Any,
) -> Sequence[Any]:  # fmt: skip
    """The rows whose `key` column is at least `since` and less than `until`."""
    where = _of(table, given)
    if since is not None:
        where.append(table.c[key] >= since)
    if until is not None:
        where.append(table.c[key] < until)
    return connection.execute(select(*(table.c[n] for n in names)).where(*where)).fetchall()


def find_keys(
    connection: Connection, table: Table, names: Sequence[str], key: str, keys: Iterable[Any],
    /, **given: Any,
) -> Iterator[Any]:  # fmt: skip
    """The rows whose `key` column is one of `keys`, however many."""
    left = iter(keys)
    while some := list(islice(left, AT_ONCE)):
        where = _of(table, given | {key: some})
        yield from connection.execute(select(*(table.c[name] for name in names)).where(*where))


def highest(connection: Connection, column: Column[Any]) -> int:
    """The highest value of a column; 0 where there is none."""
    return int(connection.execute(select(func.max(column))).scalar() or 0)


def add(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Add rows."""
    if rows:
        _run(connection, insert(table).values({name: bindparam(name) for name in rows[0]}), rows)


def change(connection: Connection, table: Table, key: Sequence[str], rows: Sequence[Row]) -> None:
    """Change rows, each found by its columns `key`."""
    if rows:
        values: Row = {name: bindparam(name) for name in rows[0] if name not in key}
        found = (table.c[name] == bindparam(f"its_{name}") for name in key)
        named = [row | {f"its_{name}": row[name] for name in key} for row in rows]
        _run(connection, update(table).where(*found).values(values), named)


def _run(connection: Connection, statement: Insert | Update, rows: Sequence[Row]) -> None:
    """Hand rows to the driver as they are: bringing them into its form would take a third."""
    compiled: Any = statement.compile(dialect=connection.dialect)
    if compiled.positional:
        rows = [*map(itemgetter(*compiled.positiontup), rows)]
    connection.exec_driver_sql(str(compiled), rows)


def turn(connection: Connection, projection: int, before: str, after: str) -> bool:
    """Give a projection another state, if it is still in the one before; whether it was."""
    given = {"id": projection, "state": before}
    statement = update(projections).where(*_of(projections, given)).values(state=after)
    return connection.execute(statement).rowcount == 1


def advance(connection: Connection, at: Row, revision: int, position: int) -> bool:
    """Move a lane's checkpoint on, if it is still at that revision; whether it was."""
    statement = (
        update(checkpoints)
        .where(*_of(checkpoints, at | {"revision": revision}))
        .values(position=position, revision=revision + 1)
    )
    return connection.execute(statement).rowcount == 1


def remove(connection: Connection, table: Table, /, **given: Any) -> None:
    """Remove the rows that are as `given`."""
    connection.execute(delete(table).where(*_of(table, given)))


def remove_some(connection: Connection, table: Table, projection: int) -> bool:
    """Remove some rows of a projection; whether there were any."""
    key = [column.name for column in table.primary_key][1:3]  # the lane, and what follows it
    rows = find(connection, table, key, key, REMOVED, projection=projection)
    if not rows:
        return False
    lane = rows[0][0]
    last = [row[-1] for row in rows if row[0] == lane][-1]
    where = _of(table, {"projection": projection, "lane": lane})
    connection.execute(delete(table).where(*where, table.c[key[-1]] <= last))
    return True


def remove_keys(
    connection: Connection, table: Table, key: str, keys: Iterable[Any], /, **given: Any
) -> None:
    """Remove the rows whose `key` column is one of `keys`, however many."""
    left = iter(keys)
    while some := list(islice(left, AT_ONCE)):
        remove(connection, table, **given, **{key: some})
