"""The migrations of the schema: up, down, and beside tables of other programs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, NullPool, create_engine, inspect, text
from support import unmeasured
from support.migrating import killed
from support.statements import after_statements

from eventstore import EventStore
from eventstore.domain.codec import encode
from eventstore.errors import NotAStore, SchemaTooNew, SchemaTooOld
from eventstore.migrate import move
from eventstore.storage import migrations as migrate
from eventstore.storage.chain import event_digest
from eventstore.storage.interface import Draft
from eventstore.storage.sql.schema import metadata
from eventstore.storage.sqlite.driver import driver
from eventstore.testing import message

ROOT = Path(__file__).parents[3]
TABLES = {
    "toolledger_archives",
    "toolledger_conversations",
    "toolledger_event_ids",
    "toolledger_events",
    "toolledger_fingerprints",
    "toolledger_lanes",
    "toolledger_seals",
    "toolledger_store",
    "toolledger_subjects",
    "toolledger_version",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of the database to be created."""
    return tmp_path / "agent.db"


@pytest.fixture
def connection(path: Path) -> Iterator[Connection]:
    """Return a connection to an empty database, in autocommit mode."""
    engine = create_engine(
        f"sqlite:///{path}",
        isolation_level="AUTOCOMMIT",
        module=driver(),  # one SQLite a process
    )
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def tables(connection: Connection) -> set[str]:
    """Return the names of all tables."""
    return set(inspect(connection).get_table_names())


def execute(path: Path, *statements: str) -> None:
    """Run statements without the library."""
    with closing(driver().connect(str(path))) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def test_the_migrations_make_the_schema(connection: Connection) -> None:
    """Alembic finds no difference between them and the tables that the storage uses."""
    migrate.upgrade(connection)
    context = MigrationContext.configure(
        connection, opts={"version_table": migrate.VERSION_TABLE, "compare_type": True}
    )
    assert compare_metadata(context, metadata) == []
    assert tables(connection) == TABLES


def test_every_revision_is_known_in_order() -> None:
    """The files, the list and the chain of revisions agree."""
    files = sorted(path.name for path in (ROOT / "migrations" / "versions").glob("*.py"))
    assert [name[:4] for name in files] == list(migrate.REVISIONS)
    for name, before in zip(files, (None, *migrate.REVISIONS), strict=False):
        source = (ROOT / "migrations" / "versions" / name).read_text(encoding="utf-8")
        assert f'revision = "{name[:4]}"' in source
        assert f"down_revision = {before!r}".replace("'", '"') in source


def test_down_and_up_again(connection: Connection) -> None:
    """Down to the base leaves only the version table behind, and up makes a new store."""
    assert migrate.revision(connection) is None
    migrate.upgrade(connection)
    assert migrate.revision(connection) == migrate.REVISIONS[-1]
    epoch = connection.execute(text("SELECT epoch FROM toolledger_store")).scalar()
    migrate.downgrade(connection, "base")
    assert tables(connection) == {migrate.VERSION_TABLE}
    assert migrate.revision(connection) is None
    migrate.upgrade(connection)
    assert tables(connection) == TABLES
    assert connection.execute(text("SELECT epoch FROM toolledger_store")).scalar() != epoch


def test_a_new_store_has_one_lane_on_sqlite(connection: Connection) -> None:
    """Each new store also has an epoch of its own."""
    migrate.upgrade(connection)
    assert connection.execute(text("SELECT lane, position FROM toolledger_lanes")).all() == [(0, 0)]
    ((number, epoch, lanes),) = connection.execute(
        text("SELECT id, epoch, lanes FROM toolledger_store")
    )
    assert (number, len(epoch), lanes) == (1, 16, 1)


def test_an_upgrade_that_breaks_off_leaves_nothing(path: Path) -> None:
    """The next open starts from the beginning."""
    EventStore.open("sqlite://").close()  # which runs the migrations in memory, once in a process

    def broken(statement: str, _: object) -> None:
        if "CREATE TABLE toolledger_lanes" in statement:
            raise KeyboardInterrupt

    with after_statements(broken), pytest.raises(KeyboardInterrupt):
        EventStore.open(f"sqlite:///{path}")
    assert list(path.parent.iterdir()) == []
    execute(path, "PRAGMA user_version = 1")  # an empty database that is there already
    with after_statements(broken), pytest.raises(KeyboardInterrupt):
        EventStore.open(f"sqlite:///{path}")
    with EventStore.open(f"sqlite:///{path}") as store:
        assert list(store.verify()) == []


def test_a_new_store_is_what_the_migrations_make(connection: Connection, path: Path) -> None:
    """Its tables and rows are theirs, but each, and the first one too, has an epoch of its own."""
    migrate.upgrade(connection)
    connection.commit()
    epochs = set()
    for number in range(2):
        url = f"sqlite:///{path.with_name(str(number))}"
        engine = create_engine(url, poolclass=NullPool)  # whose connections close
        with EventStore.open(url) as store, engine.connect() as made:
            assert list(store.verify()) == []
            epochs.add(store.session.storage.epoch)
            for rows in (
                "SELECT name, sql FROM sqlite_master ORDER BY name",
                "SELECT * FROM toolledger_lanes",
                "SELECT * FROM toolledger_version",
                "SELECT id, lanes FROM toolledger_store",
            ):
                assert made.execute(text(rows)).all() == connection.execute(text(rows)).all()
    epochs.update(
        epoch for (epoch,) in connection.execute(text("SELECT epoch FROM toolledger_store"))
    )
    assert len(epochs) == 3


def test_a_newer_schema_is_not_touched(path: Path) -> None:
    """The error says what to upgrade."""
    EventStore.open(f"sqlite:///{path}").close()
    execute(path, "UPDATE toolledger_version SET version_num = '9999'")
    before = path.read_bytes()
    with pytest.raises(SchemaTooNew, match=r"is at revision 9999, .* upgrade toolledger"):
        EventStore.open(f"sqlite:///{path}")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "damage", ["DROP TABLE toolledger_version", "DELETE FROM toolledger_version"]
)
def test_our_tables_without_a_revision_are_refused(path: Path, damage: str) -> None:
    """Their schema cannot be known."""
    EventStore.open(f"sqlite:///{path}").close()
    execute(path, damage)
    with pytest.raises(
        NotAStore, match="the tables of toolledger or their revision in toolledger_version"
    ):
        EventStore.open(f"sqlite:///{path}")


def test_a_hosts_tables_are_left_alone(connection: Connection, path: Path) -> None:
    """Upgrades and downgrades run beside the host's own alembic history."""
    connection.exec_driver_sql("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    connection.exec_driver_sql("CREATE TABLE alembic_version (version_num TEXT)")
    connection.exec_driver_sql("INSERT INTO alembic_version VALUES ('host')")
    connection.exec_driver_sql("INSERT INTO orders VALUES (1)")
    migrate.upgrade(connection)
    with EventStore.open(f"sqlite:///{path}") as store:
        store.conversation("chat").append(message())
        assert list(store.verify()) == []
    assert tables(connection) == TABLES | {"orders", "alembic_version"}
    migrate.downgrade(connection, "base")
    assert tables(connection) == {"orders", "alembic_version", "toolledger_version"}
    assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == "host"
    assert connection.execute(text("SELECT id FROM orders")).scalar() == 1


def test_migrations_are_found_in_the_package_or_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the package they are accepted only if `pyproject.toml` is there, too."""
    assert migrate.folder() == ROOT / "migrations"
    package = tmp_path / "eventstore"
    package.mkdir()
    monkeypatch.setattr(migrate, "__file__", str(package / "storage" / "migrations.py"))
    stranger = tmp_path / "migrations"
    stranger.mkdir()
    (stranger / "env.py").touch()
    with pytest.raises(NotAStore, match="missing from this installation: install toolledger again"):
        migrate.folder()
    (tmp_path / "pyproject.toml").touch()
    assert migrate.folder() == stranger
    (package / "migrations").mkdir()
    assert migrate.folder() == package / "migrations"


def alembic(*arguments: str, url: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the `alembic` command in the checkout."""
    environment = {k: v for k, v in os.environ.items() if k != "TOOLLEDGER_URL"}
    if url:
        environment["TOOLLEDGER_URL"] = url
    command = [sys.executable, "-m", "alembic", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_the_alembic_command_works_in_a_checkout(path: Path) -> None:
    """The command needs only the URL, and makes a valid store."""
    missing = alembic("upgrade", "head")
    assert missing.returncode != 0
    assert "set TOOLLEDGER_URL, for example sqlite:///agent.db" in missing.stderr
    done = alembic("upgrade", "head", url=f"sqlite:///{path}")
    assert done.returncode == 0, done.stderr
    current = alembic("current", url=f"sqlite:///{path}")
    assert f"{migrate.REVISIONS[-1]} (head)" in current.stdout
    assert alembic("check", url=f"sqlite:///{path}").returncode == 0
    with EventStore.open(f"sqlite:///{path}") as store:
        store.conversation("chat").append(message())
        assert list(store.verify()) == []


def test_the_migrations_are_not_a_package() -> None:
    """Alembic loads its files by path, and nothing can import them by accident."""
    assert not list((ROOT / "migrations").rglob("__init__.py"))


GOLDEN = ROOT / "tests" / "golden" / "logs" / "92b71ab" / "sqlite.db"


def digests(path: Path, column: str) -> list[tuple[int, bytes]]:
    """Return what stands in the column of digests."""
    with closing(driver().connect(str(path))) as connection:
        found = connection.execute(f"SELECT position, {column} FROM toolledger_events")  # noqa: S608
        return sorted(found.fetchall())


def test_an_old_log_goes_up_and_back_again(path: Path) -> None:
    """With its events as they were, and how much is done is told."""
    shutil.copyfile(GOLDEN, path)
    before = digests(path, "digest")
    reported: list[tuple[int, int]] = []
    url = f"sqlite:///{path}"
    assert move(url, progress=lambda done, total: reported.append((done, total))) == (
        "0001",
        "0004",
    )
    assert reported[-1] == (len(before), len(before))
    with EventStore.open(url) as store:
        assert list(store.verify()) == []
        events = list(store.read())
        store.conversation("new").append(message())
    assert move(url, "0001") == ("0004", "0001")
    assert digests(path, "digest")[:-1] == before
    assert move(url) == ("0001", "0004")
    with EventStore.open(url) as store:
        assert list(store.verify()) == []
        assert list(store.read())[:-1] == events


def test_damage_of_an_old_log_is_still_damage_in_the_new_one(path: Path) -> None:
    """The chain does not confirm what did not match its digest, up or down."""
    shutil.copyfile(GOLDEN, path)
    execute(path, "UPDATE toolledger_events SET payload = payload || ' ' WHERE position = 7")
    url = f"sqlite:///{path}"
    for to in (None, "0001", None):
        move(url, to)
    with EventStore.open(url) as store:
        assert [found.position for found in store.verify()] == [7]
        store.conversation("new").append(message())
        assert [found.position for found in store.verify()] == [7]


def test_a_flipped_bit_in_a_tag_of_an_old_log_is_damage(path: Path) -> None:
    """The old digests did not cover the tag; a tag of another program is left as it is."""
    shutil.copyfile(GOLDEN, path)
    execute(path, "UPDATE toolledger_events SET tag = 'rujning' WHERE tag = 'running'")
    execute(path, "UPDATE toolledger_events SET tag = 'note' WHERE tag = 'tools_offered'")
    with closing(driver().connect(str(path))) as connection:
        statement = "SELECT position FROM toolledger_events WHERE tag = 'rujning'"
        flipped = sorted(row[0] for row in connection.execute(statement))
    with EventStore.open(f"sqlite:///{path}") as store:
        rows = [found.position for found in store.session.storage.verify()]
    assert rows == flipped != []


def test_an_id_of_an_old_log_is_still_known(path: Path) -> None:
    """Its caller may have given it: an append repeated with it stores nothing."""
    shutil.copyfile(GOLDEN, path)
    with EventStore.open(f"sqlite:///{path}") as store:
        first = next(store.read())
        chat = store.conversation(first.conversation_id)
        version = chat.version
        chat.append(first.event, event_ids=[first.event_id])
        assert chat.version == version


def test_an_older_version_cannot_write_to_the_new_layout(path: Path) -> None:
    """A process of it may have the log open while it is migrated."""
    shutil.copyfile(GOLDEN, path)
    move(f"sqlite:///{path}")
    with pytest.raises(driver().OperationalError, match="no column named digest"):
        execute(
            path,
            "INSERT INTO toolledger_events (lane, position, conversation, version, event_id, "
            "recorded_at, tag, schema, fingerprint, digest, payload) "
            "VALUES (0, 9999, 1, 9999, x'00', 0, 'message', 1, NULL, x'00', '{}')",
        )


def test_a_file_of_an_older_version_may_be_refused(path: Path) -> None:
    """`upgrade=False` leaves it as it is, and names both revisions and the command."""
    shutil.copyfile(GOLDEN, path)
    before, url = path.read_bytes(), f"sqlite:///{path}"
    words = r"is at revision 0001; this version of toolledger needs 0004: run `toolledger migrate`"
    with pytest.raises(SchemaTooOld, match=words):
        EventStore.open(url, upgrade=False)
    assert path.read_bytes() == before
    move(url)
    EventStore.open(url, upgrade=False).close()


def test_columns_that_are_gone_are_one_clear_error(path: Path) -> None:
    """A process reads one that names the upgrade, and no column."""
    url = f"sqlite:///{path}"
    with EventStore.open(url) as store:
        store.conversation("chat").append(message("a"))
        move(url, "0002")
        with pytest.raises(SchemaTooNew, match=r"agent\.db: the tables are of another revision"):
            store.conversation("chat").append(message("b"))


def test_an_older_version_continues_beside_the_newest(path: Path) -> None:
    """A process that had the log open at revision 0002 reads and appends, without salts."""
    url, named = f"sqlite:///{path}", "lane, position, conversation, version, event_id, recorded_at"
    with EventStore.open(url) as store:
        store.conversation("chat").append(message("a"))
    move(url, "0002")
    with closing(driver().connect(str(path))) as older:
        ((before, key),) = older.execute("SELECT chain, conversation FROM toolledger_events")
        assert move(url) == ("0002", "0004")
        draft = Draft(b"i" * 16, 7, "message", 1, encode(message("b")))
        with older:
            older.execute(
                f"INSERT INTO toolledger_events ({named}, tag, schema, chain, payload) "  # noqa: S608
                "VALUES (0, 2, ?, 2, ?, 7, 'message', 1, ?, ?)",
                (key, draft.event_id, event_digest(before, 2, draft), draft.payload.decode()),
            )
            older.execute("UPDATE toolledger_lanes SET position = 2")
        with EventStore.open(url) as store:
            chat = store.conversation("chat")
            chat.append(message("c"))
            assert [recorded.event for recorded in chat.events()] == [*map(message, "abc")]
            assert list(store.verify()) == []
        assert older.execute("SELECT MAX(version) FROM toolledger_events").fetchone() == (3,)


@pytest.mark.slow
@pytest.mark.parametrize("to", [None, "0001"])
def test_a_migration_that_is_killed_leaves_the_old_log(path: Path, to: str | None) -> None:
    """Wherever it is killed: the log is of the one revision or of the other, and whole."""
    url = f"sqlite:///{path}"
    for after in range(0, 40, 5):
        shutil.copyfile(GOLDEN, path)
        if to is not None:
            with EventStore.open(url) as store:
                store.conversation("salted").append(message())
        killed(url, to, after)
        with closing(driver().connect(str(path))) as connection:
            found = connection.execute("SELECT version_num FROM toolledger_version").fetchone()[0]
            columns = connection.execute("PRAGMA table_info(toolledger_events)").fetchall()
        names = {row[1] for row in columns}
        assert {"chain", "salt"} & names == ({"chain", "salt"} if found >= "0003" else set())
        with EventStore.open(url) as store:
            assert list(store.verify()) == []


def test_a_store_that_needs_no_migration_is_opened_without_alembic(path: Path) -> None:
    """Alembic is loaded where a schema is made or moved, and nowhere else."""
    code = (
        "import sys; from eventstore import EventStore; "
        f"EventStore.open('sqlite:///{path}').close(); "
        "sys.exit('alembic' in sys.modules)"
    )
    opened = [
        subprocess.run([sys.executable, "-c", code], check=False, env=unmeasured.environment())
        for _ in range(2)
    ]
    assert [done.returncode for done in opened] == [1, 0]
