"""The schema and its versions: the only door to alembic, opened only when a migration runs.

A migration that was broken off, on a database whose schema has no transactions:

1. The table `UNDER_WAY` is there while a migration runs, and stays if the process is killed.
2. Where it is found, the upgrade to the revision that is noted is run again, and those after it.
   Each continues from whatever it finds.
3. So a broken-off upgrade is continued, and a broken-off downgrade is undone; `downgrade` then
   begins anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from eventstore.errors import (
    NotAStore,
    SchemaTooNew,
    SchemaTooOld,
    StorageError,
    StoreCorrupt,
)

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy import Connection


Progress = Callable[[int, int], object]
"""Called with the number of events that are migrated, and with that of all."""

VERSION_TABLE = "toolledger_version"
CHANGED = (
    "the tables are of another revision than when this process opened them: another version of "
    "toolledger has upgraded them, or taken them back; nothing was written, end this process and "
    "start it again with that version (`toolledger migrate --check` names the revision)"
)
"""What a process reads whose columns are gone."""

UNDER_WAY = "toolledger_migration"
"""The table that marks a database on which a migration runs, or was broken off."""

REBUILDING = "toolledger_rebuild"
"""The table with the token of a run that makes tables anew; it stays if that is killed."""

REVISIONS = ("0001", "0002", "0003", "0004")
"""Every revision of the schema, oldest first; the last is the one this library writes."""

WITH_ARCHIVES = REVISIONS[REVISIONS.index("0003") :]
"""The revisions that know of archived conversations."""

STEPS = {
    "0001": "creates the tables",
    "0002": "copies all events into a new table, with chained digests; on a server others go on "
    "reading and writing meanwhile, in a file writers wait",
    "0003": "adds a column and three tables; no row is rewritten",
    "0004": "on PostgreSQL, gives the lanes' counters a column and a key; events are not touched",
}
"""What the upgrade to each revision does."""


def folder() -> Path:
    """Return the folder of migrations: in the installed package, or beside it in a checkout.

    Raises:
        NotAStore: Neither exists; the installation is broken.
    """
    package = Path(__file__).parents[1]
    inside = package / "migrations"
    if inside.is_dir():
        return inside
    checkout = package.parent
    # Another project's `migrations` may stand beside a broken install: ours is in our checkout.
    if (checkout / "pyproject.toml").is_file() and (checkout / "migrations" / "env.py").is_file():
        return checkout / "migrations"
    raise NotAStore("the migrations are missing from this installation: install toolledger again")


def revision(connection: Connection) -> str | None:
    """Return the revision that the database is at; None when our tables are missing."""
    from sqlalchemy import Text, column, inspect, select, table  # when a store opens

    tables = inspect(connection)
    found: str | None = None
    if tables.has_table(VERSION_TABLE):
        version = select(column("version_num", Text)).select_from(table(VERSION_TABLE))
        found = connection.execute(version).scalar()
    if (found is not None) != tables.has_table("toolledger_events"):
        raise NotAStore(
            f"the tables of toolledger or their revision in {VERSION_TABLE} are missing: "
            "restore the database from a copy, or name another"
        )
    return found


def is_revision(found: object) -> bool:
    """Return whether a version of the library, this one or a later one, may write a revision."""
    return isinstance(found, str) and re.fullmatch(r"[0-9]{4}", found) is not None


def check(found: str | None) -> bool:
    """Return whether a database at revision `found` must be upgraded.

    Raises:
        SchemaTooNew: This library does not know the revision.
        StoreCorrupt: No version of the library writes such a one.
    """
    if found is not None and not is_revision(found):
        raise StoreCorrupt(
            f"{VERSION_TABLE} has {found!r}, which no version of toolledger writes: restore the "
            "database from a copy"
        )
    if found is not None and found not in REVISIONS:
        raise SchemaTooNew(
            f"the schema is at revision {found}, this version of toolledger knows "
            f"{REVISIONS[-1]} at most: upgrade toolledger"
        )
    return found != REVISIONS[-1]


def refuse_old(found: str | None, *, broken_off: bool = False) -> None:
    """Refuse a database that must be upgraded; one without tables is not old.

    Raises:
        SchemaTooOld: it must, or its upgrade runs or was broken off.
        SchemaTooNew, StoreCorrupt: see `check`.
    """
    if found is None or not (check(found) or broken_off):
        return
    begun = ", and a migration runs or was broken off" if broken_off else ""
    raise SchemaTooOld(
        f"the schema is at revision {found}{begun}; this version of toolledger needs "
        f"{REVISIONS[-1]}: run `toolledger migrate` as a user with the right to write"
    )


def refuse_upwards(found: str | None, to: str) -> None:
    """Refuse a way back that would lead to a later revision.

    Raises:
        ValueError: the schema is older than `to`, or the database holds no store.
    """
    if found is None or found < to:
        raise ValueError(
            f"the schema is at revision {found or 'none'}, and {to} is no way back from there; "
            "nothing was changed: run `toolledger migrate` to upgrade it"
        )


def refuse_archived(connection: Connection, to: str) -> None:
    """Refuse a way back to a revision that knows of no archives, while conversations are archived.

    It is asked before the first step: MariaDB and MySQL cannot undo one.

    Raises:
        StorageError: some are.
    """
    from sqlalchemy import inspect  # when a migration is asked for

    if to in WITH_ARCHIVES or not inspect(connection).has_table("toolledger_archives"):
        return
    archived = connection.exec_driver_sql("SELECT COUNT(*) FROM toolledger_archives").scalar()
    if archived:
        raise StorageError(
            f"conversations are archived ({archived}), which revision 0002 cannot know; "
            "nothing was changed: restore them first, with `toolledger restore`"
        )


def epoch(connection: Connection) -> str | None:
    """Return the mark of the store, which no other store has; None without a store."""
    from sqlalchemy import inspect  # when a migration is asked for

    if not inspect(connection).has_table("toolledger_store"):
        return None
    asked = "SELECT epoch FROM toolledger_store ORDER BY id LIMIT 1"
    found = connection.exec_driver_sql(asked).scalar()
    return None if found is None else str(found)


def events(connection: Connection) -> int:
    """Return how many events the lanes count; 0 where there are no tables."""
    from sqlalchemy import inspect  # when a migration is asked for

    if not inspect(connection).has_table("toolledger_lanes"):
        return 0
    counted = connection.exec_driver_sql("SELECT SUM(position) FROM toolledger_lanes").scalar()
    return int(counted or 0)


def is_broken_off(connection: Connection) -> bool:
    """Return whether a migration runs, or was broken off."""
    from sqlalchemy import inspect  # when a store opens

    return inspect(connection).has_table(UNDER_WAY)


def mark(connection: Connection, *, new: bool) -> None:
    """Mark the database while a migration runs; `new`, if no process can have the store open."""
    # Group replication takes no rows without a primary key.
    columns = "since INTEGER PRIMARY KEY"
    connection.exec_driver_sql(f"CREATE TABLE IF NOT EXISTS {UNDER_WAY} ({columns})")
    if new:
        connection.exec_driver_sql(f"INSERT IGNORE INTO {UNDER_WAY} VALUES (0)")


def is_being_made(connection: Connection) -> bool:
    """Return whether the migration that runs makes the store: see `mark`."""
    if not is_broken_off(connection):
        return False
    rows = connection.exec_driver_sql(f"SELECT since FROM {UNDER_WAY} LIMIT 1")
    return rows.first() is not None


def is_under_way(connection: Connection) -> bool:
    """Return whether a migration, or a move of the tables, runs or was broken off."""
    from sqlalchemy import inspect  # when a migration is asked for

    return is_broken_off(connection) or inspect(connection).has_table(REBUILDING)


def upgrade(
    connection: Connection,
    to: str = "head",
    progress: Progress | None = None,
    lanes: int | None = None,
) -> None:
    """Bring the schema up to revision `to`, in the connection's transaction.

    A new store gets `lanes`; see `eventstore.migrate.move`.
    """
    from alembic import command

    found = revision(connection) if is_broken_off(connection) else None
    if found in REVISIONS[1:]:  # its downgrade may be what was broken off
        before = REVISIONS[REVISIONS.index(found) - 1]
        connection.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '{before}'")
    command.upgrade(_config(connection, progress, lanes), to)


def downgrade(connection: Connection, to: str, progress: Progress | None = None) -> None:
    """Take the schema down to revision `to` ("base" drops everything)."""
    from alembic import command

    if is_broken_off(connection):
        upgrade(connection, progress=progress)
    command.downgrade(_config(connection, progress), to)


def _config(connection: Connection, progress: Progress | None, lanes: int | None = None) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(folder()).replace("%", "%%"))
    config.attributes["connection"] = connection
    config.attributes["progress"] = progress
    config.attributes["lanes"] = lanes
    return config
