"""The schema and its versions: the only door to alembic, opened only when a migration runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from eventstore.errors import NotAStore, SchemaTooNew

if TYPE_CHECKING:
    from sqlalchemy import Connection

VERSION_TABLE = "toolledger_version"
REVISIONS = ("0001",)
"""Every revision of the schema, oldest first; the last is the one this library writes."""


def folder() -> Path:
    """The migrations: inside the installed package, else beside it in a checkout.

    Raises:
        NotAStore: neither is there; the installation is broken.
    """
    package = Path(__file__).parent
    inside = package / "migrations"
    if inside.is_dir():
        return inside
    checkout = package.parent
    # A stranger's `migrations` may stand beside a broken install: ours stands in our checkout.
    if (checkout / "pyproject.toml").is_file() and (checkout / "migrations" / "env.py").is_file():
        return checkout / "migrations"
    raise NotAStore("the migrations are missing from this installation: install toolledger again")


def revision(connection: Connection) -> str | None:
    """The revision that the database is at; None when our tables are not there."""
    from sqlalchemy import Text, column, inspect, select, table  # noqa: PLC0415 - when a store opens

    tables = inspect(connection)
    found: str | None = None
    if tables.has_table(VERSION_TABLE):
        version = select(column("version_num", Text)).select_from(table(VERSION_TABLE))
        found = connection.execute(version).scalar()
    if (found is not None) != tables.has_table("toolledger_events"):
        raise NotAStore(
            f"of our tables and the revision in {VERSION_TABLE} one is missing: "
            "restore the database from a copy, or name another"
        )
    return found


def check(found: str | None) -> bool:
    """Whether a database at revision `found` must be upgraded.

    Raises:
        SchemaTooNew: this library does not know the revision.
    """
    if found is not None and found not in REVISIONS:
        raise SchemaTooNew(
            f"the schema is at revision {found}, this version of toolledger knows "
            f"{REVISIONS[-1]} at most: upgrade toolledger"
        )
    return found != REVISIONS[-1]


def upgrade(connection: Connection, to: str = "head") -> None:
    """Bring the schema up to revision `to`, in the connection's transaction."""
    from alembic import command  # noqa: PLC0415

    command.upgrade(_config(connection), to)


def downgrade(connection: Connection, to: str) -> None:
    """Take the schema down to revision `to` ("base" drops everything)."""
    from alembic import command  # noqa: PLC0415

    command.downgrade(_config(connection), to)


def move(url: str, to: str | None = None) -> tuple[str | None, str | None]:
    """Bring the schema at a URL up to date, or down to revision `to`; where it was, and is.

    "base" drops everything. A database that others use, too, keeps their tables.

    Raises:
        SchemaTooNew, StorageError: the schema is left as it was.
    """
    from eventstore.storage.opening import migrating  # noqa: PLC0415 - loads SQLAlchemy

    with migrating(url) as connection:
        before = revision(connection)
        check(before)
        if to is None:
            upgrade(connection)
        else:
            downgrade(connection, to)
        return before, revision(connection)


def _config(connection: Connection):  # type: ignore[no-untyped-def]  # noqa: ANN202
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(folder()).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
