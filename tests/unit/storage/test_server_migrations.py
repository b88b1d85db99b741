"""The schema on servers: up and down with data, concurrent, interrupted, beside a host's tables."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from golden.dumps import load, stored_events
from sqlalchemy import inspect, make_url
from support import tiers
from support.migrating import killed
from support.servers import MySQL, PostgreSQL

from eventstore import EventStore
from eventstore.errors import NotAStore, SchemaTooNew, StorageError, StoreBusy
from eventstore.migrate import move
from eventstore.storage import migrations as migrate
from eventstore.storage.brief_locks import tried_briefly
from eventstore.storage.factory import migrating, open_storage
from eventstore.storage.sql.schema import metadata_of
from eventstore.storage.sql.storage import SqlStorage
from eventstore.testing import append, message, run_concurrently

if TYPE_CHECKING:
    from support.servers import Server

GOLDEN = Path(__file__).parents[2] / "golden" / "logs" / "92b71ab"
OURS = {
    f"toolledger_{name}"
    for name in (
        "archives",
        "conversations",
        "event_ids",
        "events",
        "fingerprints",
        "lanes",
        "seals",
        "store",
        "subjects",
        "version",
    )
}

OURS_AT_FIRST = OURS - {
    f"toolledger_{name}" for name in ("archives", "event_ids", "seals", "subjects")
}
"""The tables of revision 0001."""


@pytest.fixture
def url(server: Server) -> str:
    """Return the URL of an empty database."""
    return server.database()


def tables(server: Server, url: str) -> set[str]:
    """Return the names of all tables."""
    with server.connected(url) as connection:
        return set(inspect(connection).get_table_names())


def opened(url: str, *, new: bool = True) -> SqlStorage:
    """Return a storage at the URL."""
    return open_storage(url, "", "full", 30.0, new=new)


def test_the_migrations_make_the_schema(server: Server, url: str) -> None:
    """Alembic finds no difference between them and the tables that the storage uses."""
    opened(url).close()
    with server.connected(url) as connection:
        context = MigrationContext.configure(
            connection, opts={"version_table": migrate.VERSION_TABLE, "compare_type": True}
        )
        assert compare_metadata(context, metadata_of(connection.dialect.name)) == []
    assert tables(server, url) == OURS


def test_a_new_store_has_sixteen_lanes_on_a_server(server: Server, url: str) -> None:
    """The number never changes afterwards, and the store has an epoch of its own."""
    opened(url).close()
    lanes = server.execute("SELECT lane, position FROM toolledger_lanes", database=url)
    assert sorted(map(tuple, lanes)) == [(lane, 0) for lane in range(16)]
    ((number, epoch, count),) = server.execute(
        "SELECT id, epoch, lanes FROM toolledger_store", database=url
    )
    assert (number, len(epoch), count) == (1, 16, 16)


def test_ids_are_compared_byte_for_byte_on_postgresql(postgresql: PostgreSQL) -> None:
    """The database's own collation does not matter."""
    found = postgresql.execute(
        "SELECT column_name, collation_name FROM information_schema.columns "
        "WHERE table_name = 'toolledger_conversations' AND collation_name IS NOT NULL",
        database=postgresql.database(migrated=True),
    )
    assert dict(map(tuple, found)) == {"tenant": "C", "conversation_id": "C"}


@pytest.mark.parametrize(
    ("name", "collation"), [("mariadb", "utf8mb4_nopad_bin"), ("mysql", "utf8mb4_0900_bin")]
)
def test_ids_are_compared_byte_for_byte_on_mysqls_family(
    request: pytest.FixtureRequest, name: str, collation: str
) -> None:
    """The default collation and `utf8mb4_bin` merge different ids; blobs have no collation."""
    server = request.getfixturevalue(name)
    found = server.execute(
        "SELECT DISTINCT collation_name FROM information_schema.columns "
        "WHERE table_schema = DATABASE() AND table_name <> 'toolledger_version' "
        "AND collation_name IS NOT NULL",
        database=server.database(migrated=True),
    )
    assert [tuple(row) for row in found] == [(collation,)]


def test_down_and_up_with_data(server: Server, url: str) -> None:
    """A downgrade drops events and counters; the next upgrade makes another store."""
    with_data = opened(url)
    append(with_data, "chat", message("a"), message("b"))
    assert move(url) == (migrate.REVISIONS[-1], migrate.REVISIONS[-1])
    assert len(list(with_data.conversation("chat"))) == 2
    assert move(url, "base") == (migrate.REVISIONS[-1], None)
    assert tables(server, url) == {migrate.VERSION_TABLE}
    with pytest.raises(StorageError, match="the tables are gone"):
        list(with_data.conversation("chat"))
    assert move(url) == (None, migrate.REVISIONS[-1])
    again = opened(url)
    assert again.epoch != with_data.epoch
    assert list(again.conversation("chat")) == list(again.verify()) == []
    for storage in (with_data, again):
        storage.close()


def test_a_hosts_tables_are_left_alone(server: Server, url: str) -> None:
    """Upgrades and downgrades run beside the host's own alembic history."""
    server.execute(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY)",
        "CREATE TABLE alembic_version (version_num VARCHAR(32))",
        "INSERT INTO alembic_version VALUES ('host')",
        database=url,
    )
    opened(url).close()
    assert tables(server, url) == OURS | {"orders", "alembic_version"}
    move(url, "base")
    assert tables(server, url) == {"orders", "alembic_version", migrate.VERSION_TABLE}
    (row,) = server.execute("SELECT version_num FROM alembic_version", database=url)
    assert row[0] == "host"


def test_a_newer_schema_is_not_touched(server: Server, url: str) -> None:
    """The error says what to upgrade."""
    opened(url).close()
    server.execute("UPDATE toolledger_version SET version_num = '9999'", database=url)
    with pytest.raises(SchemaTooNew, match=r"is at revision 9999, .* upgrade toolledger"):
        opened(url)


def test_a_store_is_not_created_where_that_is_not_wanted(server: Server, url: str) -> None:
    """`create=False` leaves the database as it is."""
    with pytest.raises(NotAStore, match="holds no store: name another database"):
        opened(url, new=False)
    assert tables(server, url) == set()
    opened(url).close()
    opened(url, new=False).close()


def test_our_tables_without_a_revision_are_refused(server: Server, url: str) -> None:
    """Their schema cannot be known, and they hold events."""
    with_data = opened(url)
    append(with_data, "chat", message("a"))
    with_data.close()
    server.execute("DELETE FROM toolledger_version", database=url)
    with pytest.raises(
        NotAStore, match="the tables of toolledger or their revision in toolledger_version"
    ):
        opened(url)
    (row,) = server.execute("SELECT count(*) FROM toolledger_events", database=url)
    assert row[0] == 1


def test_threads_that_create_one_store_at_once_all_use_it(server: Server, url: str) -> None:
    """The tables are created once, however many threads find none."""
    storages: list[Any] = run_concurrently(*[lambda: opened(url)] * 6)
    assert len({storage.epoch for storage in storages}) == 1
    for number, storage in enumerate(storages):
        append(storage, f"chat-{number}", message())
    assert len(list(storages[0].feed({}))) == 6
    assert list(storages[0].verify()) == []
    for storage in storages:
        storage.close()


def broken_after(statements: int) -> Any:
    """Return an upgrade that breaks off after some statements, as in a crash."""

    def broken(connection: Any, to: str = "head") -> None:
        from sqlalchemy import event

        left = iter(range(statements))

        def count(_: Any, __: Any, statement: str, *___: Any) -> None:
            if statement.lstrip().upper().startswith(("CREATE", "INSERT")):
                try:
                    next(left)
                except StopIteration:
                    raise KeyboardInterrupt from None

        event.listen(connection, "before_cursor_execute", count)
        whole(connection, to)

    whole = migrate.upgrade
    return broken


@pytest.mark.parametrize("statements", tiers.also_long((0, 2, 5, 8), (1, 3, 4, 6, 7)))
def test_an_upgrade_that_breaks_off_is_begun_anew(
    server: Server, url: str, monkeypatch: pytest.MonkeyPatch, statements: int
) -> None:
    """A server without transactional DDL has the partial schema dropped first."""
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "upgrade", broken_after(statements))
        with pytest.raises(KeyboardInterrupt):
            opened(url)
    storage = opened(url)
    append(storage, "chat", message())
    assert list(storage.verify()) == []
    storage.close()
    assert tables(server, url) == OURS


def schema(server: Server, url: str) -> set[str]:
    """Return the names of the log's tables, and of what a migration may leave over."""
    endings = ("new", "old", "noted")
    left = {f"{name}_{ending}" for name in OURS for ending in endings} | {
        f"toolledger_{name}" for name in ("digests", "migration", "rebuild")
    }
    return tables(server, url) & (OURS | left)


def stride(server: Server) -> int:
    """Return how many changes lie between two that are killed: fewer in the long runs."""
    if isinstance(server, PostgreSQL):
        return 3 if tiers.LONG else 11
    if tiers.LONG:
        return 1
    return 13 if isinstance(server, MySQL) else 7  # MariaDB shows most of the same


def golden_log(server: Server) -> tuple[str, list[Any]]:
    """Return the URL of a log that version 92b71ab wrote, and its event ids."""
    url = server.database()
    load((GOLDEN / f"{type(server).__name__.lower()}.sql").read_text("utf-8"), url)
    return url, [row.event_id for row in stored_events(url, "")]


def salted(url: str) -> str:
    """Append an event with this version, and return its id."""
    with EventStore.open(url) as store:
        chat = store.conversation("salted")
        chat.append(message())
        (recorded,) = chat.events()
    return recorded.event_id


@pytest.mark.slow
@pytest.mark.parametrize(
    ("begin", "to"), [("0001", None), ("0002", None), ("0004", "0002"), ("0004", "0001")]
)
def test_a_migration_that_is_killed_is_continued_or_undone(
    server: Server, begin: str, to: str | None
) -> None:
    """Before whichever change: the log is whole, and what was left over is removed."""
    for after in count(0, stride(server)):
        url, ids = golden_log(server)
        if begin != "0001":
            ids.append(salted(url))
        if begin == "0002":
            move(url, begin)
        if not killed(url, to, after):
            assert after > 4
            return
        if after % 2:
            assert move(url, "0001")[1] == "0001"
            assert schema(server, url) == OURS_AT_FIRST
            assert move(url) == ("0001", "0004")
        with EventStore.open(url, create=False) as store:
            assert list(store.verify()) == []
            assert sorted(recorded.event_id for recorded in store.read()) == sorted(ids)
            store.conversation("later").append(message())
            assert list(store.verify()) == []
        assert schema(server, url) == OURS


@pytest.mark.slow
def test_a_removal_that_is_killed_is_undone_or_completed(server: Server) -> None:
    """The log is there as before, or nothing of it is."""
    ends = set()
    for after in count(0, stride(server)):
        url, ids = golden_log(server)
        move(url)
        if not killed(url, "base", after):
            break
        try:
            with EventStore.open(url, create=False) as store:
                assert list(store.verify()) == []
                assert sorted(recorded.event_id for recorded in store.read()) == sorted(ids)
            ends.add("undone")
            assert schema(server, url) == OURS
        except NotAStore:
            ends.add("completed")
            assert schema(server, url) <= {migrate.VERSION_TABLE}
        move(url)
        move(url, "base")
        assert schema(server, url) == {migrate.VERSION_TABLE}
    assert ends == {"undone"} if isinstance(server, PostgreSQL) else {"undone", "completed"}


def waits_for_lock(server: Server, url: str) -> bool:
    """Return whether a session waits for the exclusive lock of the events."""
    if isinstance(server, PostgreSQL):
        asked = "SELECT 1 FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'"
    else:
        asked = (
            "SELECT 1 FROM information_schema.processlist "
            "WHERE db = DATABASE() AND LOCATE('metadata lock', state)"
        )
    return bool(server.execute(asked, database=url))


@pytest.mark.parametrize("begin", ["0001", "0002"])
def test_readers_do_not_wait_behind_an_upgrade(server: Server, url: str, begin: str) -> None:
    """An upgrade that waits for a long transaction gives way to those that came after it."""
    reads_beside(server, url, begin, "SELECT position FROM toolledger_events")


@pytest.mark.parametrize("begin", ["0001", "0002"])
def test_readers_do_not_wait_where_counters_are_in_use(postgresql: PostgreSQL, begin: str) -> None:
    """No lock of the events is kept while that of the counters is waited for."""
    reads_beside(postgresql, postgresql.database(), begin, "SELECT * FROM toolledger_lanes")


def reads_beside(server: Server, url: str, begin: str, first_read: str) -> None:
    """Read events while an upgrade waits for a transaction that has read something before."""
    ids = [salted(url)]
    move(url, begin)
    read = "SELECT position FROM toolledger_events"
    with ThreadPoolExecutor(1) as pool:
        with server.connected(url) as sitting:
            sitting.exec_driver_sql("BEGIN")
            sitting.exec_driver_sql(first_read).fetchall()
            moved = pool.submit(move, url)
            patience = time.monotonic() + 60
            while not waits_for_lock(server, url):
                assert time.monotonic() < patience
            assert len(server.execute(read, database=url)) == len(ids)
            assert not moved.done()
            sitting.exec_driver_sql("ROLLBACK")
        assert moved.result() == (begin, "0004")
    with EventStore.open(url) as store:
        assert list(store.verify()) == []


@pytest.mark.parametrize(
    ("used", "change"), [("events", "DROP COLUMN salt"), ("lanes", "ADD COLUMN more INTEGER")]
)
def test_sessions_and_tables_in_the_way_of_an_upgrade_are_named(
    server: Server, url: str, used: str, change: str
) -> None:
    """The table and the sessions; nothing is changed, the transaction around it continues."""
    opened(url).close()
    is_postgresql = isinstance(server, PostgreSQL)
    asked = "pg_backend_pid()" if is_postgresql else "connection_id()"
    table = f"toolledger_{used}"
    locks = (table, "toolledger_store") if is_postgresql else (table,)
    with server.connected(url) as sitting, migrating(url) as connection:
        sitting.exec_driver_sql("BEGIN")
        sitting.exec_driver_sql(f"SELECT * FROM {table}").fetchall()  # noqa: S608 - our own name
        holder = sitting.exec_driver_sql(f"SELECT {asked}").scalar()
        alter = partial(connection.exec_driver_sql, f"ALTER TABLE {table} {change}")
        words = rf"{table} is in use: .*held by the sessions .*\b{holder}\b.*end the long"
        with pytest.raises(StoreBusy, match=words):
            tried_briefly(connection, alter, tries=1, locks=locks)
        connection.exec_driver_sql("SELECT salt FROM toolledger_events").fetchall()
        sitting.exec_driver_sql("ROLLBACK")


@pytest.mark.parametrize("limit", ["statement_timeout", "transaction_timeout"])
def test_no_limit_of_the_administrators_ends_a_migration(
    postgresql: PostgreSQL, limit: str
) -> None:
    """A database, or a user, whose statements may take a minute at most can be upgraded."""
    url = postgresql.database(migrated=True)
    if not postgresql.execute(f"SELECT 1 FROM pg_settings WHERE name = '{limit}'"):  # noqa: S608
        pytest.skip("the limit came with PostgreSQL 17")
    name = make_url(url).database
    postgresql.execute(f"ALTER DATABASE {name} SET {limit} = '1min'")
    with migrating(url) as connection:
        assert connection.exec_driver_sql(f"SHOW {limit}").scalar() == "0"


def test_the_schema_is_changed_by_one_at_a_time(server: Server, url: str) -> None:
    """A second upgrade waits, up to `busy_timeout`."""
    with migrating(url), pytest.raises(StoreBusy, match="try again"):
        open_storage(url, "", "full", 0.05)
    open_storage(url, "", "full", 0.05).close()


def test_a_database_in_another_encoding_is_refused(postgresql: PostgreSQL) -> None:
    """Its encoding cannot hold every text."""
    postgresql.execute(
        "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0",
    )
    with pytest.raises(NotAStore, match="encoding LATIN1: create it with ENCODING 'UTF8'"):
        opened(postgresql.url("latin"))
