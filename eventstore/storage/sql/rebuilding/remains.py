"""What a run that was broken off has left, and a connection to remove it."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress

import sqlalchemy as sa

from eventstore.storage.brief_locks import prepare_changes
from eventstore.storage.migrations import REBUILDING
from eventstore.storage.sql.rebuilding import notes


def sweep(connection: sa.Connection, tables: Iterable[str]) -> None:
    """Remove what a run that was broken off has left of its work on tables of these names."""
    if connection.dialect.name not in ("postgresql", "mysql", "mariadb"):
        return
    if not sa.inspect(connection).has_table(REBUILDING):
        return
    with beside(connection) as own:
        swept(own, tables)


def swept(connection: sa.Connection, names: Iterable[str]) -> None:
    """Remove what is left of a run; on PostgreSQL in one transaction, elsewhere the mark last.

    Raises:
        StoreBusy: a table is in use, so that its triggers cannot be removed.
    """
    run = connection.exec_driver_sql
    is_postgresql = connection.dialect.name == "postgresql"
    if is_postgresql:
        run("BEGIN ISOLATION LEVEL READ COMMITTED")
        prepare_changes(connection)
    try:
        there = set(sa.inspect(connection).get_table_names())
        for name in names if REBUILDING in there else ():
            notes.end(connection, name)
            if not is_postgresql and {name, f"{name}_old"} <= there:
                run(f"DROP TABLE {name}_old")
            run(f"DROP TABLE IF EXISTS {name}_new")
        run(f"DROP TABLE IF EXISTS {REBUILDING}")
    except BaseException:
        if is_postgresql:
            with suppress(Exception):
                run("ROLLBACK")
        raise
    if is_postgresql:
        run("COMMIT")


@contextmanager
def beside(connection: sa.Connection) -> Generator[sa.Connection]:
    """Give a connection for transactions beside the one that holds the lock of the schema.

    On MariaDB and MySQL that is the same one: there the lock is the session's.
    """
    if connection.dialect.name != "postgresql":
        yield connection
        return
    with connection.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as own:
        try:
            yield own
        finally:
            own.invalidate()
