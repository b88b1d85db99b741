"""Notes of the rows that others change while a table is copied, made by triggers.

A note is committed together with the change, so a note that is seen has its row as it is now or
later. Notes are taken by their numbers and never by a range of them: a smaller number may be
committed later.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateTable, DropTable

from eventstore.storage.brief_locks import tried_briefly
from eventstore.storage.sql.rebuilding.table import TableAnew

SWEEP_TRIES = 3

_EVENTS = ("INSERT", "UPDATE", "DELETE")

_NOT_ALLOWED = frozenset({1142, 1227, 1419})
"""Numbers of MySQL's errors for a user without the right to create triggers.

With a binary log that takes the right SUPER, or `log_bin_trust_function_creators`.
"""


def begin(connection: sa.Connection, table: TableAnew) -> bool:
    """Note changes from now on; return whether the user may have them noted."""
    connection.execute(CreateTable(_noted(table)))
    names = ", ".join(column.name for column in table.key)
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SET LOCAL citus.enable_ddl_propagation = off")
        connection.exec_driver_sql(_function(table, names))
        events = "UPDATE OR DELETE" if table.grows else "INSERT OR UPDATE OR DELETE"
        trigger = (
            f"CREATE TRIGGER {table.noted} AFTER {events} ON {table.name} "
            f"FOR EACH ROW EXECUTE FUNCTION {table.noted}()"
        )
        tried_briefly(connection, partial(connection.exec_driver_sql, trigger), locks=[table.name])
        return True
    for event in _EVENTS[table.grows :]:
        of = {"INSERT": ("NEW",), "UPDATE": ("OLD", "NEW"), "DELETE": ("OLD",)}[event]
        rows = ", ".join(f"({', '.join(f'{row}.{c.name}' for c in table.key)})" for row in of)
        trigger = (
            f"CREATE TRIGGER {table.noted}_{event.lower()} AFTER {event} ON {table.name} "
            f"FOR EACH ROW INSERT INTO {table.noted} ({names}) VALUES {rows}"
        )
        try:
            create = partial(connection.exec_driver_sql, trigger)
            tried_briefly(connection, create, locks=[table.name])
        except DBAPIError as error:
            if error.orig is None or error.orig.args[:1][0] not in _NOT_ALLOWED:
                raise
            return False
    return True


def some(connection: sa.Connection, table: TableAnew, most: int) -> list[int]:
    """Return the numbers of the oldest notes."""
    found = connection.exec_driver_sql(
        f"SELECT note FROM {table.noted} ORDER BY note LIMIT {most}"
    ).fetchall()
    return [int(note) for (note,) in found]


def forget(connection: sa.Connection, table: TableAnew, notes: Collection[int]) -> None:
    """Delete notes."""
    connection.exec_driver_sql(
        f"DELETE FROM {table.noted} WHERE note IN ({', '.join(map(str, notes))})"
    )


def end(connection: sa.Connection, name: str) -> None:
    """Note nothing any more of the table that had a name, if anything is noted of it.

    Raises:
        StoreBusy: the table is in use.
    """
    noted = f"{name}_noted"
    if connection.dialect.name == "postgresql":
        statements = [f"DROP FUNCTION IF EXISTS {noted}() CASCADE"]
    else:
        names = ", ".join(f"'{noted}_{each.lower()}'" for each in _EVENTS)
        triggers = connection.exec_driver_sql(
            "SELECT trigger_name FROM information_schema.triggers "
            f"WHERE trigger_schema = DATABASE() AND trigger_name IN ({names})"
        ).fetchall()
        statements = [f"DROP TRIGGER {trigger}" for (trigger,) in triggers]
    for statement in statements:
        drop = partial(connection.exec_driver_sql, statement)
        tried_briefly(connection, drop, SWEEP_TRIES, locks=[name])
    connection.execute(DropTable(sa.Table(noted, sa.MetaData()), if_exists=True))


def _noted(table: TableAnew) -> sa.Table:
    number: Any = sa.Identity(always=True)
    note = sa.Column("note", sa.BigInteger, number, primary_key=True, autoincrement=True)
    columns = (
        sa.Column(column.name, column.type, nullable=False, autoincrement=False)
        for column in table.key
    )
    return sa.Table(table.noted, sa.MetaData(), note, *columns, mysql_engine="InnoDB")


def _function(table: TableAnew, names: str) -> str:
    """Return the function of PostgreSQL's trigger: it has the rights of the user that migrates."""

    def inserted(row: str) -> str:
        values = ", ".join(f"{row}.{column.name}" for column in table.key)
        return f"INSERT INTO {table.noted} ({names}) VALUES ({values});"

    return (
        f"CREATE FUNCTION {table.noted}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER "
        "SET search_path FROM CURRENT AS $$ BEGIN "
        f"IF TG_OP <> 'INSERT' THEN {inserted('OLD')} END IF; "
        f"IF TG_OP <> 'DELETE' THEN {inserted('NEW')} END IF; "
        "RETURN NULL; END $$"
    )
