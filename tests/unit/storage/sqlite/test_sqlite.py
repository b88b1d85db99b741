"""SQLite's own behaviour, and the SQL storage when its database fails."""

from __future__ import annotations

import errno
import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url
from support.projected_logs import new_store
from support.storages import open_limited

from eventstore import EventStore
from eventstore.errors import (
    EventStoreError,
    NotAStore,
    StorageError,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
    VersionConflict,
)
from eventstore.storage import migrations as migrate
from eventstore.storage.factory import backend_for, open_storage
from eventstore.storage.interface import Append, Appended, AppendOutcome
from eventstore.storage.sql import forks
from eventstore.storage.sql.storage import SqlStorage
from eventstore.storage.sqlite import driver as sqlite
from eventstore.storage.sqlite import files
from eventstore.storage.sqlite.backend import Sqlite
from eventstore.testing import (
    append,
    append_one,
    completed,
    draft,
    forbid_rebase,
    message,
    pending,
    rebase_with,
    run_concurrently,
)
from projections import Projector


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of the file to be created."""
    return tmp_path / "agent.db"


@pytest.fixture
def opened(path: Path) -> Iterator[Callable[..., SqlStorage]]:
    """Return a function that opens storages on the file."""
    storages: list[SqlStorage] = []

    def opened(tenant: str = "", durability: str = "full", timeout: float = 30.0) -> SqlStorage:
        storages.append(open_storage(f"sqlite:///{path}", tenant, durability, timeout))
        return storages[-1]

    yield opened
    for storage in storages:
        storage.close()


@pytest.fixture
def storage(opened: Callable[..., SqlStorage]) -> SqlStorage:
    """Return one storage on the file."""
    return opened()


def connect(path: Path) -> Any:
    """Return a connection of the library's driver: a process may use only one copy of SQLite."""
    return sqlite.driver().connect(str(path), isolation_level=None)


def execute(path: Path, *statements: str) -> list[Any]:
    """Run statements without the library; return the rows of the last one."""
    connection = connect(path)
    rows: list[Any] = []
    for statement in statements:
        rows = connection.execute(statement).fetchall()
    connection.close()
    return rows


def pragma(storage: SqlStorage, name: str) -> Any:
    """Return a setting of the connection that writes."""
    return storage.connections.connection().execute(f"PRAGMA {name}").fetchone()[0]


# connections


@pytest.mark.parametrize(("durability", "synchronous"), [("full", 2), ("normal", 1)])
def test_connections_are_durable(
    opened: Callable[..., SqlStorage], durability: str, synchronous: int
) -> None:
    """WAL and `synchronous` are set, memory mapping is off, the driver begins no transaction."""
    storage = opened(durability=durability)
    assert pragma(storage, "journal_mode") == "wal"
    assert pragma(storage, "synchronous") == synchronous
    assert pragma(storage, "mmap_size") == 0
    assert pragma(storage, "journal_size_limit") == 16 * 2**20
    assert storage.connections.connection().isolation_level is None


@pytest.mark.parametrize(
    ("version", "loses"),
    [
        ((3, 6, 23), False),
        ((3, 7, 0), True),
        ((3, 40, 1), True),
        ((3, 44, 5), True),
        ((3, 44, 6), False),
        ((3, 45, 0), True),
        ((3, 50, 6), True),
        ((3, 50, 7), False),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
        ((3, 53, 4), False),
    ],
)
def test_the_versions_that_can_lose_rows_are_known(version: tuple[int, ...], loses: bool) -> None:
    """The list has the versions with the WAL-reset bug and those that fixed it."""
    assert sqlite.loses_rows(version) is loses


def test_the_newer_sqlite_is_used_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise Python's own SQLite is used."""
    newer = type(sys)("pysqlite3")
    newer.dbapi2 = type(sys)("dbapi2")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pysqlite3", newer)
    look = sqlite.driver.__wrapped__  # once in a process
    assert look() is newer.dbapi2  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pysqlite3", None)
    assert look() is sqlite3


def test_pythons_own_sqlite_is_enough(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library needs no newer version."""
    monkeypatch.setattr(sqlite, "driver", lambda: sqlite3)
    with EventStore.open(f"sqlite:///{path}") as store:
        chat = store.conversation("chat")
        chat.append(pending(), completed(attempt=0))
        assert list(store.verify()) == []
        assert chat.version == 2


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file::memory:?uri=true",
        "sqlite:///file:x?mode=memory&cache=shared&uri=true",
    ],
)
def test_a_database_in_memory_is_one_connection(url: str) -> None:
    """All threads share it, however its URL is spelt."""
    with EventStore.open(url) as store:
        run_concurrently(*[lambda: store.conversation("chat").append(message())] * 4)
        assert store.conversation("chat").version == 4


@pytest.mark.parametrize("name", ["a b.db", "50%.db", "ä.db", "a+b.db", "memory", "file.db"])
def test_a_file_may_have_any_name(tmp_path: Path, name: str) -> None:
    """Exactly the file that was named is opened."""
    with EventStore.open(f"sqlite:///{tmp_path / name}") as store:
        store.conversation("chat").append(message())
        assert [r.version for r in store.read()] == [1]
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_file_may_be_named_as_a_uri(tmp_path: Path) -> None:
    """The URI may have SQLite's own options."""
    for n in (1, 2):
        with EventStore.open(f"sqlite:///file:{tmp_path}/a%20b.db?cache=private&uri=true") as store:
            store.conversation("chat").append(message())
            assert store.conversation("chat").version == n
    assert [path.name for path in tmp_path.iterdir()] == ["a b.db"]


def test_a_relative_path_is_of_the_folder_where_it_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later connections find the same file after the process changed its folder, as daemons do."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with EventStore.open("sqlite:///agent.db") as store:
        store.conversation("chat").append(message())
        monkeypatch.chdir(tmp_path / "elsewhere")
        store.session.storage.connections._release_writer()  # type: ignore[attr-defined]
        store.session.storage.connections.engine.dispose()  # type: ignore[attr-defined]
        assert store.conversation("chat").append(message())[0].version == 2
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_second_open_keeps_the_locks_of_the_open_store(path: Path) -> None:
    """POSIX drops a process's locks when any handle on the file closes, so only SQLite opens it.

    Without its lock, another program that looked at the file removed the log when it closed the
    file, and later appends were lost.
    """
    look = (
        "import sqlite3,sys; c=sqlite3.connect(sys.argv[1]); c.execute('{}').fetchall(); c.close()"
    )
    script = look.format("SELECT * FROM toolledger_events")
    with EventStore.open(f"sqlite:///{path}") as store:
        chat = store.conversation("chat")
        chat.append(message("a"))
        with EventStore.open(f"sqlite:///{path}", tenant="other"):
            subprocess.run([sys.executable, "-c", script, path], check=True)
        chat.append(message("b"))
        assert execute(path, "SELECT count(*) FROM toolledger_events") == [(2,)]
    with EventStore.open(f"sqlite:///{path}") as store:
        assert store.conversation("chat").version == 2


# creating a file


def test_a_file_is_created_whole(path: Path) -> None:
    """No temporary file is left."""
    open_storage(f"sqlite:///{path}", "", "full", 30.0).close()
    assert list(path.parent.iterdir()) == [path]


def test_the_second_creator_of_a_file_uses_the_first_ones(path: Path) -> None:
    """If two processes create the file, one of the two stays."""

    def build(draft: Path) -> None:
        draft.write_text("mine")
        if not path.exists():
            path.write_text("theirs")

    files.create(path, build)
    assert path.read_text() == "theirs"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("there", [False, True])
def test_a_file_system_without_links_is_enough(
    path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    """The new file is moved into place, unless one exists by then."""

    def no_links(*_: object) -> None:
        if there:
            path.write_text("theirs")
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", no_links)
    files.create(path, lambda draft: draft.write_text("mine") and None)
    assert path.read_text() == ("theirs" if there else "mine")


def test_a_store_is_not_created_where_that_is_not_wanted(path: Path) -> None:
    """`create=False` leaves everything as it is."""
    with pytest.raises(NotAStore, match=f"there is no store at {path}: name another file"):
        EventStore.open(f"sqlite:///{path}", create=False)
    assert not path.exists()
    execute(path, "PRAGMA user_version = 1")
    before = path.read_bytes()
    with pytest.raises(NotAStore, match="holds no store: name another file"):
        EventStore.open(f"sqlite:///{path}", create=False)
    assert path.read_bytes() == before
    EventStore.open("sqlite://", create=False).close()


def test_the_second_opener_upgrades_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables that were missing at the first look may exist at the second."""
    open_storage(f"sqlite:///{path}", "", "full", 30.0).close()
    looks = iter([None, migrate.REVISIONS[-1]])
    monkeypatch.setattr(migrate, "revision", lambda _: next(looks))
    monkeypatch.setattr(migrate, "upgrade", None)
    open_storage(f"sqlite:///{path}", "", "full", 30.0).close()


def test_a_database_that_another_reads_is_waited_for(path: Path) -> None:
    """Changing a database to WAL waits for readers, up to `busy_timeout`."""
    execute(path, "CREATE TABLE toolledger_ballast (a INTEGER)")
    reader = connect(path)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM toolledger_ballast").fetchall()
    with pytest.raises(StoreBusy, match=f"{path}: database is locked"):
        open_storage(f"sqlite:///{path}", "", "full", 0.01)
    reader.close()
    open_storage(f"sqlite:///{path}", "", "full", 0.01).close()


def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    """The error has the words of the operating system."""
    name = tmp_path / ("x" * 5000)
    with pytest.raises(StorageError, match="cannot be read: File name too long"):
        open_storage(f"sqlite:///{name}", "", "full", 30.0)


def test_a_group_over_lanes_needs_the_counter_of_each(tmp_path: Path) -> None:
    """Without it nothing of the group is stored."""
    path = tmp_path / "lanes.db"
    with new_store(path, lanes=4) as store:
        storage = store.session.storage
        names = {storage.lane_of(str(number)): str(number) for number in range(64)}

        def append_to(*lanes: int) -> list[AppendOutcome]:
            return storage.append([Append(names[n], 0, 0, (), lambda _: ()) for n in lanes])

        assert append_to(0, 3) == [Appended(0, 0, 0), Appended(3, 0, 0)]
        execute(path, "DELETE FROM toolledger_lanes WHERE lane = 3")
        with pytest.raises(StoreCorrupt, match="lane 3 has no counter: restore"):
            append_to(0, 3)
        assert append_to(0, 1) == [Appended(0, 0, 0), Appended(1, 0, 0)]


# forks (with real ones in tests/torture)


def test_no_connection_is_open_during_a_fork(storage: SqlStorage) -> None:
    """No thread can open one either; the parent continues after the fork."""
    append(storage, "chat", message("a"))
    assert len(list(storage.conversation("chat"))) == 1
    forks._before_fork()
    doors = partial(storage.connections.open_lock.acquire, blocking=False)
    locks = partial(storage.connections.lock.acquire, blocking=False)
    assert (
        run_concurrently(doors, locks, partial(forks._registry.acquire, blocking=False))
        == [False] * 3
    )
    assert storage.connections.writer_connection is None
    assert storage.connections.engine.pool.checkedin() == 0  # type: ignore[attr-defined]
    forks._after_fork_in_parent()
    assert append(storage, "chat", message("b"), version=1).version == 2


def test_a_reader_that_never_ends_does_not_keep_others_from_forking(
    storage: SqlStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader keeps its connection."""
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with storage.connections.cursor() as cursor:
        forks._before_fork()
        forks._after_fork_in_parent()
        assert cursor.execute("SELECT 1").fetchone() == (1,)
        left = cursor.connection
    left.close()
    assert append(storage, "chat", message("a")).version == 1


def handles(storage: SqlStorage) -> tuple[object, ...]:
    """Return what a process must have for itself."""
    held = storage.connections
    return held.engine, held.lock, held.open_lock


def test_a_child_begins_with_nothing_of_its_parents(
    opened: Callable[..., SqlStorage],
) -> None:
    """Its locks are free, its connections are new, and a closed storage stays closed."""
    storage, closed = opened(), opened()
    append(storage, "chat", message("a"))
    closed.close()
    before = handles(storage)
    forks._before_fork()
    forks._after_fork_in_child()
    assert not set(before) & set(handles(storage))
    assert storage.log.written.ends == {}
    assert append(storage, "chat", message("b"), version=1).version == 2
    with pytest.raises(StoreClosed):
        closed.heads()


# errors


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("database is locked", StoreBusy),
        ("attempt to write a readonly database", StoreReadOnly),
        ("database or disk is full", StoreFull),
        ("file is not a database", NotAStore),
        ("database disk image is malformed", StoreCorrupt),
        ("no such table: toolledger_lanes", StoreCorrupt),
        ("unable to open database file", StorageError),
        ("UNIQUE constraint failed: toolledger_events.lane", StoreCorrupt),
        ("something else", StorageError),
    ],
)
def test_a_drivers_error_becomes_the_librarys(text: str, kind: type[StorageError]) -> None:
    """The error names the file and says what to do; the driver's error is its cause."""
    database = Sqlite(make_url("sqlite:////data/agent.db"), "full", 1.0)
    translated = database.translate(database.driver_module.OperationalError(text))
    assert type(translated) is kind
    assert str(translated).startswith(f"/data/agent.db: {text}")
    other = KeyError("x")
    assert database.translate(other) is other


def test_an_error_in_memory_names_no_file() -> None:
    """A database in memory has no file."""
    database = Sqlite(make_url("sqlite://"), "full", 1.0)
    translated = database.translate(database.driver_module.OperationalError("database is locked"))
    assert str(translated).startswith("the database in memory: database is locked")


def test_a_lock_that_another_keeps_is_waited_for(
    opened: Callable[..., SqlStorage], path: Path
) -> None:
    """After `busy_timeout` the append fails, nothing is written, and the next append succeeds."""
    storage = opened(timeout=0.01)
    append(storage, "chat", message("a"))
    connection = connect(path)
    connection.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy, match=f"{path}: database is locked: .* try again"):
        append(storage, "chat", message("b"), version=1)
    connection.execute("ROLLBACK")
    connection.close()
    assert append(storage, "chat", message("b"), version=1).version == 2


# when the driver fails in the middle

SINGLE_STATEMENT = "INSERT INTO toolledger_append"
"""It stores one event, and commits; see `eventstore.storage.sqlite.single_statement`."""


class Cursor:
    """The writer's cursor, which fails at a statement: before it, or after it was carried out."""

    def __init__(self, cursor: Any, word: str, error: BaseException, *, after: bool) -> None:
        self.cursor = cursor
        self.word = word
        self.error = error
        self.after = after

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cursor, name)

    def execute(self, statement: str, *parameters: Any) -> Any:
        """Run the statement, or fail."""
        hit = statement.startswith(self.word)
        if hit and not self.after:
            raise self.error
        done = self.cursor.execute(statement, *parameters)
        if hit:
            raise self.error
        return done


def fail_at(storage: SqlStorage, word: str, error: BaseException, *, after: bool = False) -> None:
    """Let the next statement that begins with `word` fail."""
    if word != SINGLE_STATEMENT:
        storage.log.written.forget()  # the next append takes the locking path
    writer: Any = storage.connections
    writer.writer_cursor = Cursor(writer.writer(), word, error, after=after)


@pytest.mark.parametrize(
    "word", ["BEGIN", "UPDATE", "INSERT INTO toolledger_events", "COMMIT", SINGLE_STATEMENT]
)
@pytest.mark.parametrize("interrupted", [False, True])
@pytest.mark.parametrize("after", [False, True])
def test_an_append_that_fails_anywhere_leaves_no_trace(
    storage: SqlStorage, word: str, interrupted: bool, after: bool
) -> None:
    """If only the answer to the COMMIT was lost, the append is stored and returns."""
    append(storage, "chat", message("a"))
    error: BaseException = storage.connections.driver.OperationalError("disk I/O error")
    expected: type[BaseException] = StorageError
    if interrupted:
        error, expected = KeyboardInterrupt(), KeyboardInterrupt
    fail_at(storage, word, error, after=after)
    committed = word in ("COMMIT", SINGLE_STATEMENT) and after
    if committed and not interrupted:
        assert append(storage, "chat", message("b"), version=1).version == 2
    else:
        with pytest.raises(expected):
            append(storage, "chat", message("b"), version=1)
    assert not storage.connections.connection().in_transaction
    version = 2 if committed else 1
    assert len(list(storage.conversation("chat"))) == version
    assert append(storage, "chat", message("c"), version=version).version == version + 1
    assert list(storage.verify()) == []


def test_an_append_without_events_cannot_be_lost(storage: SqlStorage) -> None:
    """A COMMIT without an answer and without events is not an error."""
    append(storage, "chat", message("a"))
    fail_at(storage, "COMMIT", storage.connections.driver.OperationalError("gone"), after=True)
    assert append(storage, "chat", message("b"), rebase=lambda _: []).version == 1


def test_a_commit_that_cannot_be_checked_is_an_error(
    storage: SqlStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error tells the caller to repeat the append with its event ids."""
    append(storage, "chat", message("a"))
    fail_at(storage, "COMMIT", storage.connections.driver.OperationalError("gone"), after=True)

    def gone(*_: object) -> None:
        raise StorageError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(storage.unanswered, "event_id_at", gone)
        with pytest.raises(StorageError, match="gone"):
            append(storage, "chat", message("b"), version=1)
    assert len(list(storage.conversation("chat"))) == 2


class Stubborn:
    """A connection whose transaction cannot be ended."""

    def __init__(self, held: Any, error: BaseException) -> None:
        self.held = held
        self.error = error
        self.dbapi_connection = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self.held, name)

    def rollback(self) -> None:
        """Raise the error."""
        raise self.error


def test_a_connection_that_cannot_roll_back_is_given_up(storage: SqlStorage) -> None:
    """A new connection replaces it, and no lock remains."""
    append(storage, "chat", message("a"))
    writer: Any = storage.connections
    error = writer.driver.OperationalError("disk I/O error")
    fail_at(storage, "COMMIT", error)
    writer.writer_connection = Stubborn(writer.writer_connection, error)
    with pytest.raises(StorageError):
        append(storage, "chat", message("b"), version=1)
    assert writer.writer_connection is None
    assert append(storage, "chat", message("b"), version=1).version == 2


def test_an_interrupted_rollback_is_made_up_for(storage: SqlStorage) -> None:
    """The next append rolls back first."""
    append(storage, "chat", message("a"))
    writer: Any = storage.connections
    fail_at(storage, "INSERT", KeyboardInterrupt(), after=True)
    held = writer.writer_connection
    writer.writer_connection = Stubborn(held, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        append(storage, "chat", message("b"), version=1)
    writer.writer_connection = held
    assert held.dbapi_connection.in_transaction
    assert append(storage, "chat", message("c"), version=1).version == 2
    assert [r.event for r in storage.conversation("chat")] == [message("a"), message("c")]


def test_the_database_in_memory_survives_errors() -> None:
    """Its one connection holds the data, so it is never closed."""
    storage: Any = open_storage("sqlite://", "", "full", 30.0)
    append(storage, "chat", message("a"))
    writer = storage.connections
    fail_at(storage, "COMMIT", writer.driver.OperationalError("disk I/O error"))
    held = writer.writer_connection
    writer.writer_connection = Stubborn(held, writer.driver.OperationalError("no"))
    with pytest.raises(StorageError):
        append(storage, "chat", message("b"), version=1)
    held.dbapi_connection.rollback()
    writer.writer_connection = held
    assert append(storage, "chat", message("b"), version=1).version == 2
    storage.close()


# what a storage knows of the others


def test_a_storage_looks_only_when_others_have_written(
    opened: Callable[..., SqlStorage],
) -> None:
    """Own writes are known; a state that is older than another process's write is read again."""
    one, other = opened(), opened()
    first = append_one(one, Append("chat", 0, 0, [draft(message("a"))], forbid_rebase))
    own = append_one(one, Append("chat", 1, first.position, [draft(message("b"))], forbid_rebase))
    append(other, "elsewhere", message("x"))
    again = append_one(one, Append("chat", 2, own.position, [draft(message("c"))], forbid_rebase))
    append(other, "chat", message("theirs"), version=3)
    late = [draft(message("late"))]
    with pytest.raises(AssertionError, match="others wrote"):
        append_one(one, Append("chat", 3, again.position, late, forbid_rebase))
    request = Append("chat", 3, again.position, late, partial(rebase_with, message("d")))
    assert append_one(one, request).version == 5


def test_a_state_that_claims_too_much_is_still_decided_again(storage: SqlStorage) -> None:
    """The unique key on versions finds the error, so no version is stored twice."""
    last = append(storage, "chat", message("a"), message("b"))
    wrong = Append(
        "chat", 1, last.position - 1, [draft(message("c"))], partial(rebase_with, message("c"))
    )
    storage.log.written.ours_since = {0: 0}
    assert append_one(storage, wrong).version == 3
    hopeless = Append("chat", 1, last.position + 1, [draft(message("d"))], forbid_rebase)
    with pytest.raises(StorageError):
        storage.append([hopeless])
    assert list(storage.verify()) == []


@pytest.mark.parametrize("projected", [False, True])
def test_a_wal_that_grew_beside_a_reader_becomes_smaller(path: Path, *, projected: bool) -> None:
    """Its space comes back with the appends after the reader, and no store takes that for a cut."""
    url, wal = f"sqlite:///{path}", Path(f"{path}-wal")
    with ExitStack() as stack:
        store, other = (
            stack.enter_context(EventStore.open(url, durability="normal")) for _ in range(2)
        )
        projector = stack.enter_context(closing(Projector(store, url))) if projected else None
        chat = store.conversation("chat")
        chat.add_message("user", "first")
        reader = stack.enter_context(closing(sqlite3.connect(path, isolation_level=None)))
        reader.execute("BEGIN")
        reader.execute("SELECT COUNT(*) FROM toolledger_events").fetchall()
        for _ in range(25):
            chat.add_message("user", "x" * 10**6)
        if projector is not None:
            projector.catch_up()
        assert wal.stat().st_size > 25 * 10**6
        (note,) = [each for each in backend_for(url).remarks() if str(wal) in each]
        assert f"{wal.stat().st_size:,} bytes, more than the file" in note
        reader.execute("ROLLBACK")
        for _ in range(6):
            chat.add_message("user", "y" * 10**6)
            assert other.conversation("chat").append(message("z"))
            if projector is not None:
                projector.catch_up()
        assert wal.stat().st_size <= 16 * 2**20
        assert not [each for each in backend_for(url).remarks() if str(wal) in each]
        assert list(other.verify()) == []


@pytest.mark.parametrize("beside", ["wal", "shm"])
@pytest.mark.parametrize("settled", [False, True])
def test_a_file_beside_the_database_is_missed_while_a_connection_is_open(
    opened: Callable[..., SqlStorage], path: Path, beside: str, *, settled: bool
) -> None:
    """The last connection removes them, and the next one makes new ones."""
    storage = opened()
    append(storage, "chat", message("1"))
    storage.connections.before_fork()  # it closes all connections
    storage.connections.after_fork_in_parent()
    assert not [end for end in ("wal", "shm") if Path(f"{path}-{end}").exists()]
    with path.with_name("other").open("w"):  # may have the inode of one that is gone
        assert append(storage, "chat", message("2"), version=1).version == 2
    if settled:  # the folder has not changed for long, and is asked alone
        os.utime(path.parent, (0, 0))
        trust_no_longer(storage)
        assert append(storage, "chat", message("3"), version=2).version == 3
    gone = Path(f"{path}-{beside}")
    gone.rename(path.with_name("elsewhere"))
    for _ in range(2):
        trust_no_longer(storage)
        with pytest.raises(StoreCorrupt, match=f"{gone} was removed or replaced while the store"):
            append(storage, "chat", message("4"), version=2 + settled)
        with pytest.raises(StoreCorrupt, match=f"{gone} was removed or replaced while the store"):
            list(storage.conversation("chat"))
        gone.touch()  # another one takes its place


@pytest.mark.parametrize("left", [0, 32, -1])
def test_a_wal_that_was_cut_is_noticed(
    opened: Callable[..., SqlStorage], path: Path, left: int
) -> None:
    """SQLite itself would write on behind the gap, and lose all of it when it is opened next."""
    storage = opened()
    append(storage, "chat", *(message("x" * 500) for _ in range(40)))
    wal = Path(f"{path}-wal")
    left = left if left >= 0 else wal.stat().st_size + left
    os.truncate(wal, left)
    for _ in range(2):
        trust_no_longer(storage)
        with pytest.raises(StoreCorrupt, match=rf"{wal} was cut to {left:,} of [\d,]+ bytes while"):
            append(storage, "chat", message("lost"), version=40)
        with pytest.raises(StoreCorrupt, match=f"{wal} was cut to"):
            list(storage.conversation("chat"))
    with pytest.raises(StoreCorrupt, match=f"{wal} was cut to"):
        opened()


def test_a_removed_wal_is_named_to_who_opens_the_store(
    opened: Callable[..., SqlStorage], path: Path
) -> None:
    """SQLite makes another one, and may say that the disk fails."""
    append(opened(), "chat", message("1"))
    Path(f"{path}-wal").unlink()
    with pytest.raises(StoreCorrupt, match=f"{path}-wal was cut to 0 of"):
        opened()


def test_lawful_changes_of_other_processes_are_no_damage(storage: SqlStorage, path: Path) -> None:
    """The -wal is emptied and begun anew, the file gets smaller, and is touched."""
    large = [message("x" * 9000) for _ in range(100)]
    append(storage, "chat", *large)
    for version, done in enumerate(
        (
            "PRAGMA wal_checkpoint(TRUNCATE)",
            "PRAGMA wal_checkpoint(RESTART)",
            "CREATE TABLE other AS SELECT payload FROM toolledger_events",
            "PRAGMA wal_checkpoint(TRUNCATE)",
            "DROP TABLE other",
            "VACUUM",
            "PRAGMA wal_checkpoint(TRUNCATE)",
        ),
        len(large),
    ):
        before = path.stat().st_size
        execute(path, done)
        os.utime(path)
        trust_no_longer(storage)
        append(storage, "chat", message("more"), version=version)
    assert path.stat().st_size < before
    assert list(storage.verify()) == []


def test_a_database_that_was_overwritten_in_place_is_noticed(
    storage: SqlStorage, path: Path, tmp_path: Path
) -> None:
    """An older copy of the same size, as `cp` leaves it: the -wal hides it from SQLite."""
    append(storage, "chat", message("1"))
    older = tmp_path / "older"
    with closing(sqlite.driver().connect(str(path))) as source:
        with closing(sqlite.driver().connect(str(older))) as copy:
            source.backup(copy)
        append(storage, "chat", *(message("x" * 9000) for _ in range(9)), version=1)
        source.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for version in (10, 11):  # after the second the -wal has begun anew, and this was seen
            trust_no_longer(storage)
            append(storage, "chat", message("small"), version=version)
    trust_no_longer(storage)
    storage.backend.check_in_place()
    content = older.read_bytes().ljust(path.stat().st_size, bytes(1))
    # Another process: closing the file here would give up SQLite's locks.
    subprocess.run([sys.executable, "-c", OVERWRITE, str(path)], input=content, check=True)
    for _ in range(2):
        trust_no_longer(storage)
        with pytest.raises(StoreCorrupt, match=f"{path} was overwritten while it was open"):
            append(storage, "chat", message("lost"), version=12)


OVERWRITE = "import sys; open(sys.argv[1], 'r+b').write(sys.stdin.buffer.read())"


def trust_no_longer(storage: SqlStorage) -> None:
    """Let the time pass for which a file that was seen is taken to be there."""
    backend: Any = storage.backend
    backend._file._trusted_until = 0.0


def test_one_query_finds_the_conversations_that_others_wrote_to(
    opened: Callable[..., SqlStorage],
) -> None:
    """Only the events of those conversations are read."""
    mine, other = opened(), opened()
    places = {name: append(mine, name, message(name)) for name in map(str, range(20))}
    append(other, "7", message("theirs"), version=1)
    reads: list[str] = []
    mine.connections.connection().set_trace_callback(
        lambda sql: reads.append(sql) if sql.startswith("SELECT") else None
    )
    done = mine.append(
        [
            Append(name, 1, at.position, (), partial(rebase_with, message(name)))
            for name, at in places.items()
        ]
    )
    versions = [one.version for one in done if isinstance(one, Appended)]
    assert versions == [3 if name == "7" else 2 for name in places]
    # the counter with what was seen in the lane, the versions, one tail, the digest at its end
    assert len(reads) == 4
    assert list(other.verify()) == []


def test_a_log_that_went_back_is_noticed(storage: SqlStorage, path: Path) -> None:
    """A server may fall back to a copy without the last commits; no gap is written."""
    store = EventStore(storage)
    chat = store.conversation("chat")
    chat.append(message("a"))
    chat.append(message("b"))
    execute(
        path,
        "DELETE FROM toolledger_events WHERE version = 2",
        "UPDATE toolledger_lanes SET position = 1",
    )
    with pytest.raises(StoreCorrupt, match=r"was read up to 2 before: .* older copy"):
        chat.append(message("c"))
    with pytest.raises(StoreCorrupt, match="until the loss is accepted"):
        chat.append(message("c"))
    store.accept_loss()
    assert chat.append(message("c"))[0].version == 2
    assert list(store.verify()) == []


def test_the_memory_of_conversations_is_bounded(path: Path) -> None:
    """The limit holds for any number of conversations."""
    storage = open_limited(f"sqlite:///{path}", cached_keys=5)
    for n in range(20):
        append(storage, f"chat-{n}", message())
        append(storage, f"chat-{n}", message(), version=1)
        assert len(list(storage.feed({}))) == 2 * n + 2
        assert len(storage.log.keys.known) <= 5
        assert len(storage.log.keys.names) <= 2 * (n + 1)
    assert len(storage.log.keys.names) <= 25
    storage.close()


def test_threads_may_read_while_names_are_forgotten(path: Path) -> None:
    """A thread still finds a name that it has just looked up."""
    storage = open_limited(f"sqlite:///{path}", cached_keys=1)
    for n in range(10):
        append(storage, f"chat-{n}", message())
    read: list[Any] = run_concurrently(
        *[lambda: [len(list(storage.feed({}))) for _ in range(20)]] * 4
    )
    assert read == [[10] * 20] * 4
    storage.close()


# a closed or damaged store


def test_an_append_that_waits_while_the_store_is_closed_raises(storage: SqlStorage) -> None:
    """The error is `StoreClosed`, not one of the driver."""
    with storage.connections.lock:
        jobs = [partial(append, storage, "chat", message())] * 2

        def close() -> None:
            storage.connections.closed = True

        run_concurrently(close)
        results: list[Any] = []
    results = run_concurrently(*jobs)
    assert [type(r) for r in results] == [StoreClosed] * 2
    storage.connections.closed = False


DAMAGES = {
    "UPDATE toolledger_events SET payload = '{}' WHERE position = 2": "does not match its digest",
    "DELETE FROM toolledger_events WHERE position = 2": "positions 2 to 2 are missing",
    "DELETE FROM toolledger_events WHERE position = 3": "1 events are missing",
    "UPDATE toolledger_lanes SET position = 2": "head 2 is behind its events",
    "UPDATE toolledger_events SET version = 7 WHERE position = 3": "version 7 follows version 2",
    "DELETE FROM toolledger_conversations": "its conversation is not listed",
    "DELETE FROM toolledger_lanes": "the lane's head is missing",
    "INSERT INTO toolledger_version VALUES ('0002')": "no version of toolledger writes",
}


@pytest.mark.parametrize("statement", DAMAGES)
def test_verify_finds_what_was_changed(
    opened: Callable[..., SqlStorage], path: Path, statement: str
) -> None:
    """The finding names the place."""
    storage = opened()
    append(storage, "chat", message("a"), message("b"), message("c"))
    assert list(storage.verify()) == []
    execute(path, statement)
    problems = [damage.problem for damage in opened().verify()]
    assert any(DAMAGES[statement] in problem for problem in problems)


def test_verify_finds_what_sqlite_finds(storage: SqlStorage, path: Path) -> None:
    """An example is a row that is missing in an index."""
    append(storage, "chat", message("a"))
    execute(
        path,
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = replace(sql, 'payload TEXT NOT NULL', 'payload TEXT NOT "
        "NULL CHECK (payload = 1)') WHERE name = 'toolledger_events'",
    )
    again = open_storage(f"sqlite:///{path}", "", "full", 30.0)
    assert any(damage.problem.startswith("SQLite: CHECK") for damage in again.verify())
    again.close()


def test_a_store_without_its_one_row_is_refused(path: Path) -> None:
    """Without an epoch no cursor would be safe."""
    open_storage(f"sqlite:///{path}", "", "full", 30.0).close()
    execute(path, "DELETE FROM toolledger_store")
    with pytest.raises(StoreCorrupt, match="toolledger_store is empty: restore the database"):
        EventStore.open(f"sqlite:///{path}")


def test_a_revision_that_no_version_writes_is_not_a_newer_one(
    storage: SqlStorage, path: Path
) -> None:
    """An open store finds it with `verify`."""
    execute(path, "UPDATE toolledger_version SET version_num = '000s'")
    assert [damage.problem for damage in storage.verify()] == [
        "toolledger_version has ['000s'], which no version of toolledger writes"
    ]
    with pytest.raises(StoreCorrupt, match="toolledger_version has '000s', which no version"):
        open_storage(f"sqlite:///{path}", "", "full", 30.0)


def test_a_lane_without_its_counter_takes_no_events(storage: SqlStorage, path: Path) -> None:
    """Positions would start at 1 again."""
    chat = EventStore(storage).conversation("chat")
    chat.append(message())
    execute(path, "DELETE FROM toolledger_lanes")
    with pytest.raises(StoreCorrupt, match="lane 0 has no counter: restore"):
        chat.append(message())
    with pytest.raises(StoreCorrupt):
        EventStore(storage).conversation("chat").append(message())


def test_a_counter_behind_its_events_takes_no_events(storage: SqlStorage, path: Path) -> None:
    """Positions would be used twice."""
    append(storage, "chat", message("a"), message("b"))
    execute(path, "UPDATE toolledger_lanes SET position = 0")
    with pytest.raises(EventStoreError):
        append(storage, "other", message())
    assert len(list(storage.feed({}))) == 2


def test_a_refusal_keeps_its_own_class(storage: SqlStorage) -> None:
    """An error that `rebase` raises is not translated into one of the database."""
    append(storage, "chat", message())

    def rebase(_: Any) -> Any:
        raise VersionConflict(0, 1)

    with pytest.raises(VersionConflict):
        append(storage, "chat", message(), rebase=rebase)


# what is never done


def test_events_are_only_ever_inserted_and_nothing_checkpoints(
    storage: SqlStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No statement updates or deletes an event, or starts a checkpoint."""
    statements: list[str] = []
    prepare = Sqlite._prepare

    def traced(database: Sqlite, connection: Any, record: Any) -> None:
        prepare(database, connection, record)
        connection.set_trace_callback(statements.append)

    monkeypatch.setattr(Sqlite, "_prepare", traced)
    with EventStore.open(storage.backend.url.render_as_string()) as store:  # type: ignore[attr-defined]
        chat = store.conversation("chat")
        chat.add_message("user", "hello")
        tool = chat.request("search")
        chat.approve(tool.id, {"q": "x"})
        with chat.running(tool.id) as attempt:
            attempt.complete(b"\xff")
        with pytest.raises(EventStoreError):
            chat.start(tool.id)
        append(storage, "chat", message(), version=5)
        chat.append(*(message(str(n)) for n in range(50)))
        assert len(list(store.read())) == chat.version == 56
        list(store.read_fingerprint(str(tool.fingerprint)))
        list(store.conversations())
        assert list(store.verify()) == []
    words = [" ".join(s.split()).lower() for s in statements]
    singles = {w for w in words if w.startswith(SINGLE_STATEMENT.lower())}
    assert len(singles) == 4  # the counter is not known at first, and not after `storage` wrote
    inserts = [w for w in words if re.match(r"insert (or fail )?into toolledger_events\b", w)]
    nullable = 2  # columns of an event that often hold nothing
    assert sum(w.count("nullif(") for w in inserts) == nullable * (55 - len(singles))
    triggers = [w for w in words if w.startswith("create temp trigger")]
    for trigger in triggers:
        assert "delete" not in trigger
        assert re.findall(r"update (\w+)", trigger) == ["toolledger_lanes"]
    assert len(triggers) == 2
    assert not [w for w in words if "checkpoint" in w or "vacuum" in w]
    changes = [w for w in words if w.startswith(("update", "delete", "replace", "drop", "alter"))]
    assert {w.split()[1] for w in changes} == {"toolledger_lanes"}
