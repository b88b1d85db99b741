"""The schema's history: up, down, and what is not ours."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, create_engine, inspect, text

from eventstore import EventStore, migrate
from eventstore.errors import NotAStore, SchemaTooNew
from eventstore.storage.schema import metadata
from eventstore.storage.sqlite import driver
from eventstore.testing import message

ROOT = Path(__file__).parents[2]
TABLES = {
    "toolledger_conversations",
    "toolledger_events",
    "toolledger_fingerprints",
    "toolledger_lanes",
    "toolledger_store",
    "toolledger_version",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the database is to be."""
    return tmp_path / "agent.db"


@pytest.fixture
def connection(path: Path) -> Iterator[Connection]:
    """A connection to an empty database, in autocommit mode."""
    engine = create_engine(
        f"sqlite:///{path}",
        isolation_level="AUTOCOMMIT",
        module=driver(),  # one SQLite a process
    )
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def tables(connection: Connection) -> set[str]:
    """The names of all tables."""
    return set(inspect(connection).get_table_names())


def execute(path: Path, *statements: str) -> None:
    """Run statements behind the library's back."""
    connection = driver().connect(str(path))
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def test_the_migrations_make_the_schema(connection: Connection) -> None:
    """Alembic finds no difference between them and the tables that the storage uses."""
    migrate.upgrade(connection)
    context = MigrationContext.configure(
        connection, opts={"version_table": migrate.VERSION_TABLE, "compare_type": True}
    )
    assert compare_metadata(context, metadata) == []
    assert tables(connection) == TABLES


def test_every_revision_is_known_in_order() -> None:
    """The files, the list and their chain agree."""
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
    """And an epoch of its own."""
    migrate.upgrade(connection)
    assert connection.execute(text("SELECT lane, position FROM toolledger_lanes")).all() == [(0, 0)]
    ((number, epoch, lanes),) = connection.execute(
        text("SELECT id, epoch, lanes FROM toolledger_store")
    )
    assert (number, len(epoch), lanes) == (1, 16, 1)


def test_an_upgrade_that_breaks_off_leaves_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next open begins anew."""

    def broken(connection: Connection) -> None:
        connection.exec_driver_sql("CREATE TABLE toolledger_lanes (lane INTEGER)")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(migrate, "upgrade", broken)
        with pytest.raises(KeyboardInterrupt):
            EventStore.open(f"sqlite:///{path}")
    assert list(path.parent.iterdir()) == []
    execute(path, "PRAGMA user_version = 1")  # an empty database that is there already
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "upgrade", broken)
        with pytest.raises(KeyboardInterrupt):
            EventStore.open(f"sqlite:///{path}")
    with EventStore.open(f"sqlite:///{path}") as store:
        assert list(store.verify()) == []


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
    """Nobody can know what they are."""
    EventStore.open(f"sqlite:///{path}").close()
    execute(path, damage)
    with pytest.raises(NotAStore, match="of our tables and the revision in toolledger_version"):
        EventStore.open(f"sqlite:///{path}")


def test_a_hosts_tables_are_left_alone(connection: Connection, path: Path) -> None:
    """Up and down, beside its own alembic history."""
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


def test_the_migrations_of_a_checkout_are_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inside the package, else beside it where `pyproject.toml` stands, else nowhere."""
    assert migrate.folder() == ROOT / "migrations"
    package = tmp_path / "eventstore"
    package.mkdir()
    monkeypatch.setattr(migrate, "__file__", str(package / "migrate.py"))
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


def test_the_alembic_command_works_in_a_checkout(path: Path) -> None:
    """It needs only the URL; what it made is a store."""
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


def test_the_migrations_are_no_package() -> None:
    """Alembic loads its files by path; an `__init__.py` would make them importable by accident."""
    assert not list((ROOT / "migrations").rglob("__init__.py"))
