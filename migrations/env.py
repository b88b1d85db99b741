"""The alembic environment.

It runs on the connection that `eventstore.migrate` hands over, or on the database that
`sqlalchemy.url` or TOOLLEDGER_URL names.
"""

from __future__ import annotations

import os

from alembic import context
from sqlalchemy import create_engine

from eventstore.storage.opening import parse
from eventstore.storage.schema import metadata

VERSION_TABLE = "toolledger_version"


def include_name(name: str | None, kind: str, _parents: object) -> bool:
    """Ours alone: a host's tables in the same database are none of our business."""
    return kind != "table" or (name or "").startswith("toolledger_")


def run(connection: object) -> None:
    """Run the migrations on `connection`, in its transaction."""
    context.configure(
        connection=connection,  # type: ignore[arg-type]
        target_metadata=metadata,
        version_table=VERSION_TABLE,
        include_name=include_name,
        transactional_ddl=False,
    )
    context.run_migrations()


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
    with create_engine(parse(url)).begin() as connection:
        run(connection)


main()
