"""The alembic environment.

It runs on the connection that `eventstore.migrate` hands over, or on the database that
`sqlalchemy.url` or TOOLLEDGER_URL names.

Where a migration cannot be one transaction (MariaDB, MySQL), a table marks the database while it
goes on. If it is broken off, the mark stays, and the next process finishes the work: see
`eventstore.storage.migrations`.
"""

from __future__ import annotations

import os

from alembic import context
from sqlalchemy import Connection, create_engine, inspect

from eventstore.storage.brief_locks import prepare_changes
from eventstore.storage.factory import backend_for
from eventstore.storage.migrations import UNDER_WAY, mark
from eventstore.storage.sql.distribution import at_the_coordinator
from eventstore.storage.sql.schema import metadata_of

VERSION_TABLE = "toolledger_version"


def include_name(name: str | None, kind: str, _parents: object) -> bool:
    """Return whether a table is the library's: the host's tables in the database are left alone."""
    return kind != "table" or (name or "").startswith("toolledger_")


def run(connection: Connection) -> None:
    """Run the migrations on `connection`, in its transaction."""
    in_steps = connection.dialect.name in ("mysql", "mariadb")
    if in_steps:
        mark(connection, new=not inspect(connection).has_table("toolledger_lanes"))
    context.configure(
        connection=connection,
        target_metadata=metadata_of(connection.dialect.name),
        version_table=VERSION_TABLE,
        include_name=include_name,
        transactional_ddl=False,
    )
    if connection.dialect.name == "postgresql":
        with at_the_coordinator(connection):
            context.run_migrations()
    else:
        context.run_migrations()
    if in_steps:
        connection.exec_driver_sql(f"DROP TABLE {UNDER_WAY}")


def main() -> None:
    """Find the connection and run."""
    given = context.config.attributes.get("connection")
    if given is not None:
        run(given)
        return
    config = context.config
    options = config.get_section(config.config_ini_section, {})  # of an alembic.ini, if any
    url = options.get("sqlalchemy.url") or os.environ.get("TOOLLEDGER_URL")
    if not url:
        raise SystemExit("name the database: set TOOLLEDGER_URL, for example sqlite:///agent.db")
    parsed = backend_for(url).url
    # A table that is made anew is read again at the end, as it is then.
    is_server = parsed.get_backend_name() in ("postgresql", "mysql", "mariadb")
    engine = create_engine(parsed)
    if is_server:
        engine = engine.execution_options(isolation_level="READ COMMITTED")
    with engine.begin() as connection:
        prepare_changes(connection)
        run(connection)


main()
