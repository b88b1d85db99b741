"""Tables that are made anew on servers, while others read and write, and while it is killed."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import event, inspect, make_url
from sqlalchemy.engine import Engine
from support import first_schema, tiers
from support.migrating import killed_at_partitions
from support.servers import PostgreSQL

from eventstore import AsyncEventStore, EventStore, SchemaTooNew, SchemaTooOld
from eventstore.errors import StorageError, StoreBusy
from eventstore.migrate import inspect as look
from eventstore.migrate import move, partition
from eventstore.storage import brief_locks, migrations
from eventstore.storage.sql.rebuilding import driver
from eventstore.testing import message

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.servers import MariaDB, Server

CONVERSATIONS = tuple(f"chat-{number}" for number in range(7))
LEFT = ("_new", "_old", "_noted", "_rebuild", "_migration", "_digests")
"""How the names end of what a migration may leave over."""


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy few rows at a time, so that a small log has many batches."""
    monkeypatch.setattr(driver, "BATCH_ROWS", 5)
    monkeypatch.setattr(driver, "FEW_ROWS", 3)


def once(change: Callable[[], object]) -> Callable[[int, int], object]:
    """Return a progress that makes a change after the first batch of events, and not again."""
    left = [change]
    return lambda _done, _total: left and left.pop()()


def left_over(server: Server, url: str) -> list[str]:
    """Return what of a migration is there: tables, triggers, functions."""
    with server.connected(url) as connection:
        found = [name for name in inspect(connection).get_table_names() if name.endswith(LEFT)]
    asked = (
        "SELECT proname FROM pg_proc WHERE proname ~ '^toolledger_'"
        if isinstance(server, PostgreSQL)
        else "SELECT trigger_name FROM information_schema.triggers "
        "WHERE trigger_schema = DATABASE()"
    )
    return [*found, *(str(row[0]) for row in server.execute(asked, database=url))]


def texts(url: str) -> dict[str, list[str]]:
    """Return the messages of each conversation of a sound log."""
    found: dict[str, list[str]] = {}
    with EventStore.open(url, create=False) as store:
        assert list(store.verify()) == []
        for recorded in store.read():
            part: Any = recorded.event
            found.setdefault(recorded.conversation_id, []).append(part.parts[0].text)
    return found


def first_log(server: Server, events: int) -> tuple[str, dict[str, list[str]]]:
    """Return a log of revision 0001, and its messages."""
    url = server.database(migrated=True)
    move(url, "0001")
    written: dict[str, list[str]] = {}
    with server.connected(url) as connection:
        for number in range(events):
            for name in CONVERSATIONS:
                first_schema.append(connection, name, f"{name} {number}")
                written.setdefault(name, []).append(f"{name} {number}")
    return url, written


def test_an_upgrade_misses_nothing_that_others_write(server: Server) -> None:
    """Processes of the old version append, and change events that are copied and that are not."""
    url, written = first_log(server, 6)

    def change() -> None:
        with server.connected(url) as connection:
            for name in CONVERSATIONS:
                for version in (1, 4, 6):
                    first_schema.rewrite(connection, name, version, f"changed {version}")
                    written[name][version - 1] = f"changed {version}"
                for number in range(9):
                    first_schema.append(connection, name, f"later {number}")
                    written[name].append(f"later {number}")
            first_schema.append(connection, "new", "one")
            written["new"] = ["one"]

    assert move(url, progress=once(change)) == ("0001", "0004")
    assert texts(url) == written
    assert left_over(server, url) == []
    with EventStore.open(url) as store:
        store.conversation("chat-0").add_message("user", "after")
        assert list(store.verify()) == []


def test_the_way_back_misses_nothing_that_others_write(server: Server) -> None:
    """From revision 0002 on the table is made anew in the same way."""
    url = server.database(migrated=True)
    with EventStore.open(url) as store:
        for name in CONVERSATIONS:
            for number in range(6):
                store.conversation(name).add_message("user", f"{number}")
    move(url, "0002")
    assert move(url, "0001") == ("0002", "0001")
    assert left_over(server, url) == []
    assert texts(url) == {name: [f"{number}" for number in range(6)] for name in CONVERSATIONS}


def test_partitions_miss_nothing_that_others_write(server: Server, tmp_path: Path) -> None:
    """Appends, a redaction, an archive, and one that is restored, while rows are copied."""
    url = server.database(migrated=True)
    day = timedelta(microseconds=1)
    with EventStore.open(url) as store:
        for name in CONVERSATIONS:
            chat = store.conversation(name)
            for number in range(4):
                chat.add_message("user", f"{name} {number}")
                done = chat.request("tool", {"number": number})
                chat.start(done.id)
                chat.complete(done.id, number)
        store.retain(day, folder=tmp_path, match="chat-6", dry_run=False)
        (gone,) = store.archived()

        def change() -> None:
            store.redact("chat-1", by="ann", versions=[1])
            store.retain(day, folder=tmp_path, match="chat-2", dry_run=False)
            store.restore(gone.place if Path(gone.place).is_absolute() else tmp_path / gone.place)
            for name in ("chat-0", "chat-3", "chat-7"):
                chat = store.conversation(name)
                chat.append(message("later"), event_ids=[b"given id" * 2])

        assert partition(url, 4, once(change)) == 1
        assert list(store.verify()) == []
        before = [(each.conversation_id, each.version, each.event) for each in store.read()]
        assert {name for name, _, _ in before} == {*CONVERSATIONS, "chat-7"}
        assert [each.conversation_id for each in store.archived()] == ["chat-2"]
        assert partition(url, 1) == 4
        assert list(store.verify()) == []
        again = [(each.conversation_id, each.version, each.event) for each in store.read()]
        assert again == before
    assert left_over(server, url) == []


@pytest.mark.slow
def test_partitions_that_are_killed_are_made_by_the_next_run(server: Server) -> None:
    """Whichever change was next: the log is whole and in use; the next run tidies up."""
    first = {name: ["one", "two"] for name in CONVERSATIONS}
    for after in count(0, 5 if tiers.LONG else 29):
        url = server.database(migrated=True)
        with EventStore.open(url) as store:
            for name in CONVERSATIONS:
                store.conversation(name).append(*map(message, ("one", "two")))
        died = killed_at_partitions(url, 4, after)
        with EventStore.open(url) as store:
            store.conversation("chat-1").add_message("user", "three")
        expected = {**first, "chat-1": ["one", "two", "three"]}
        assert texts(url) == expected
        partition(url, 4)
        assert texts(url) == expected
        assert left_over(server, url) == []
        if not died:
            assert after > 20
            return


@pytest.mark.parametrize("begin", ["0001", "partitions"])
def test_sessions_in_the_way_are_named(
    server: Server, monkeypatch: pytest.MonkeyPatch, begin: str
) -> None:
    """A long transaction makes the run give up; when it is over, the next run succeeds."""
    monkeypatch.setattr(brief_locks, "TRIES", 1)
    url, written = first_log(server, 2)
    job: Callable[[], object] = partial(move, url)
    if begin == "partitions":
        move(url)
        job = partial(partition, url, 4)
    asked = "pg_backend_pid()" if isinstance(server, PostgreSQL) else "connection_id()"
    with server.connected(url) as sitting:
        sitting.exec_driver_sql("BEGIN")
        sitting.exec_driver_sql("SELECT COUNT(*) FROM toolledger_events").fetchall()
        holder = sitting.exec_driver_sql(f"SELECT {asked}").scalar()
        with pytest.raises(StoreBusy, match=rf"held by the sessions .*\b{holder}\b.*end the long"):
            job()
        sitting.exec_driver_sql("ROLLBACK")
    job()
    assert texts(url) == written
    assert left_over(server, url) == []


ON_POSTGRESQL = (
    (
        "CREATE VIEW theirs AS SELECT lane FROM toolledger_events",
        "view theirs",
        "DROP VIEW theirs",
    ),
    (
        (
            "CREATE TABLE theirs (lane INT, conversation BIGINT, "
            "FOREIGN KEY (lane, conversation) REFERENCES toolledger_conversations)"
        ),
        "on table theirs",
        "DROP TABLE theirs",
    ),
    ("CREATE INDEX theirs ON toolledger_events (recorded_at)", "index theirs", "DROP INDEX theirs"),
    (
        "CREATE PUBLICATION theirs FOR TABLE toolledger_event_ids",
        "publication theirs",
        "DROP PUBLICATION theirs",
    ),
    (
        "CREATE POLICY theirs ON toolledger_fingerprints",
        "policy theirs on table",
        "DROP POLICY theirs ON toolledger_fingerprints",
    ),
)
ON_MYSQL = (
    (
        (
            "CREATE TABLE theirs (lane INT, conversation BIGINT, FOREIGN KEY (lane, conversation) "
            "REFERENCES toolledger_conversations (lane, conversation))"
        ),
        "on table theirs",
        "DROP TABLE theirs",
    ),
    (
        (
            "ALTER TABLE toolledger_event_ids ADD CONSTRAINT theirs FOREIGN KEY "
            "(lane, conversation) REFERENCES toolledger_conversations (lane, conversation)"
        ),
        "constraint theirs on table toolledger_event_ids",
        "ALTER TABLE toolledger_event_ids DROP FOREIGN KEY theirs",
    ),
    (
        "CREATE INDEX theirs ON toolledger_events (recorded_at)",
        "index theirs on table",
        "DROP INDEX theirs ON toolledger_events",
    ),
    (
        "CREATE TRIGGER theirs AFTER INSERT ON toolledger_events FOR EACH ROW SET @seen = 1",
        "trigger theirs on table",
        "DROP TRIGGER theirs",
    ),
)


def test_views_and_indexes_of_others_are_not_lost(server: Server) -> None:
    """Each is named before anything is copied; without it the tables are made anew."""
    url = server.database(migrated=True)
    with EventStore.open(url) as store:
        store.conversation("chat").append(*map(message, "abcdefgh"))
    for made, named, dropped in ON_POSTGRESQL if isinstance(server, PostgreSQL) else ON_MYSQL:
        server.execute(made, database=url)
        with pytest.raises(StorageError, match=f"{named}.*nothing was changed: drop it") as raised:
            partition(url, 4, lambda *_: pytest.fail("rows were copied"))
        assert "CASCADE" not in str(raised.value)
        server.execute(dropped, database=url)
    assert partition(url, 4) == 1
    assert texts(url) == {"chat": list("abcdefgh")}
    assert left_over(server, url) == []


def test_a_run_that_lost_its_lock_writes_no_more(server: Server) -> None:
    """Another run has begun meanwhile, which the next batch finds out."""
    url, written = first_log(server, 4)
    taken = "UPDATE toolledger_rebuild SET token = 'of another run'"
    with pytest.raises(StoreBusy, match="another process changes the schema since this one lost"):
        move(url, progress=once(lambda: server.execute(taken, database=url)))
    move(url)
    assert texts(url) == written


def test_a_run_whose_batches_lose_their_connection_leaves_nothing(postgresql: PostgreSQL) -> None:
    """As after a Ctrl-C, which ends a connection; that with the lock of the schema goes on."""
    url = postgresql.database(migrated=True)
    with EventStore.open(url) as store:
        for name in CONVERSATIONS:
            store.conversation(name).append(*(message(f"{name} {number}") for number in range(4)))
    written = texts(url)
    ended = (
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE state = 'idle' "
        "AND datname = current_database() AND pid <> pg_backend_pid()"
    )
    with pytest.raises(StorageError, match="terminating connection"):
        partition(url, 4, once(lambda: postgresql.execute(ended, database=url)))
    assert left_over(postgresql, url) == []
    assert texts(url) == written


def test_no_limit_ends_a_batch(postgresql: PostgreSQL) -> None:
    """Each transaction of a run lifts the limits of the database for itself."""
    url, written = first_log(postgresql, 2)
    name = make_url(url).database
    postgresql.execute(f"ALTER DATABASE {name} SET statement_timeout = '1min'")
    seen: dict[str, object] = {}

    def ask(connection: Any, _: object, statement: str, *__: object) -> None:
        first, *_ = statement.split(" toolledger")
        if first in ("INSERT INTO", "CREATE TRIGGER", "ALTER TABLE", "LOCK TABLE"):
            cursor = connection.connection.cursor()
            seen[first] = cursor.execute("SHOW statement_timeout").fetchone()[0]

    event.listen(Engine, "after_cursor_execute", ask)
    try:
        move(url)
    finally:
        event.remove(Engine, "after_cursor_execute", ask)
    limits = {"INSERT INTO": "0", "CREATE TRIGGER": "0", "ALTER TABLE": "0", "LOCK TABLE": "0"}
    assert seen == limits
    assert texts(url) == written


def test_writers_wait_where_triggers_are_not_allowed(mariadb: MariaDB) -> None:
    """A warning tells how to avoid that; the tables are made anew all the same."""
    url, written = first_log(mariadb, 3)
    user = mariadb.new_name("untriggered")
    database = make_url(url).database
    mariadb.execute(
        f"CREATE USER {user}",
        "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX, LOCK TABLES "
        f"ON {database}.* TO {user}",
    )
    mine = make_url(url).set(username=user, password=None)
    with pytest.warns(RuntimeWarning, match="may not create triggers, so writers wait"):
        assert move(mine.render_as_string()) == ("0001", "0004")
    mariadb.execute(f"DROP USER {user}")
    assert texts(url) == written
    assert left_over(mariadb, url) == []


def test_a_store_may_be_opened_without_an_upgrade(server: Server) -> None:
    """A schema of an older version is refused, by its revisions and the command; it stays so."""
    url, written = first_log(server, 1)
    words = r"is at revision 0001; this version of toolledger needs 0004: run `toolledger migrate`"
    with pytest.raises(SchemaTooOld, match=words):
        EventStore.open(url, upgrade=False)
    with pytest.raises(SchemaTooOld, match=words):
        EventStore.open(url, read_only=True)

    async def open_it() -> None:
        await AsyncEventStore.open(url, upgrade=False)

    with pytest.raises(SchemaTooOld, match=words):
        asyncio.run(open_it())
    state = look(url)
    assert (state.revision, state.latest, state.events) == ("0001", "0004", len(CONVERSATIONS))
    assert [step[:4] for step in state.steps] == ["0002", "0003", "0004"]
    move(url)
    EventStore.open(url, upgrade=False).close()
    assert look(url).is_current
    assert texts(url) == written


def test_a_new_store_is_made_without_an_upgrade(server: Server) -> None:
    """There is nothing to upgrade in an empty database."""
    url = server.database()
    assert look(url).revision is None
    EventStore.open(url, upgrade=False).close()
    assert look(url).is_current


def test_a_broken_off_migration_is_not_continued_without_an_upgrade(mariadb: MariaDB) -> None:
    """The mark of one that runs, or was broken off, is enough."""
    url = mariadb.database(migrated=True)
    mariadb.execute(f"CREATE TABLE {migrations.UNDER_WAY} (since INTEGER)", database=url)
    assert look(url).is_broken_off
    with pytest.raises(SchemaTooOld, match="a migration runs or was broken off"):
        EventStore.open(url, upgrade=False)
    EventStore.open(url).close()
    assert look(url).is_current


def test_a_refused_way_back_changes_nothing(server: Server, tmp_path: Path) -> None:
    """Archives are looked for before the first step, and no mark of a migration is left."""
    url = server.database(migrated=True)
    with EventStore.open(url) as store:
        store.conversation("chat").add_message("user", "hello")
        store.retain(timedelta(microseconds=1), folder=tmp_path, dry_run=False)
        assert len(list(store.archived())) == 1
    for to in ("0002", "0001", "base"):
        with pytest.raises(StorageError, match=r"archived \(1\).*nothing was changed: restore"):
            move(url, to)
        assert look(url).is_current
    EventStore.open(url, upgrade=False).close()
    assert move(url, "0003") == ("0004", "0003")


def test_a_move_that_was_broken_off_is_named(server: Server) -> None:
    """The log is in use as before; the next `migrate` removes what was left."""
    url = server.database(migrated=True)
    with EventStore.open(url) as store:
        store.conversation("chat").append(*map(message, "abcdefgh"))
    assert killed_at_partitions(url, 4, 20)
    state = look(url)
    assert (state.is_broken_off, state.is_current, state.steps) == (True, False, ())
    EventStore.open(url, upgrade=False).close()
    move(url)
    assert look(url).is_current
    assert left_over(server, url) == []


def test_columns_that_are_gone_are_one_clear_error(server: Server) -> None:
    """A process reads one that names the upgrade, and no column, wherever it meets it."""
    url = server.database(migrated=True)
    with EventStore.open(url, busy_timeout=5) as store:
        chat = store.conversation("chat")
        chat.add_message("user", "before")
        move(url, "0001")
        for use in (
            partial(chat.add_message, "user", "after"),
            partial(chat.append, *map(message, "abc")),
            partial(store.conversation("other").add_message, "user", "after"),
            lambda: list(store.read()),
        ):
            with pytest.raises(SchemaTooNew, match="another version of toolledger has") as raised:
                use()
            assert "column" not in str(raised.value).split(":", 4)[-1]
