"""Tables of PostgreSQL that are filled beside the ones in use, and then take their place.

1. The new tables are in the schema `MOVING`, under their own names and with their own keys.
2. Triggers on the tables in use note the keys of the rows that change, in a table for each.
3. All rows are copied, many at a time, while others read and write. Then the noted ones are copied
   again, until few are left.
4. The tables in use are locked, the last noted rows are copied, and the new tables come to their
   schema. That is one short transaction.

So a process that is killed leaves the tables in use as they are. The next one drops the schema
with all that is in it, and begins anew.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy import MetaData
from sqlalchemy.schema import CreateTable

from eventstore.storage.brief_locks import lift_time_limits, tried_briefly
from eventstore.storage.sql import schema
from eventstore.storage.sql.placement import MOVING
from eventstore.storage.sql.rebuilding.rights import rights

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table

    from eventstore.storage.migrations import Progress

BATCH_ROWS = 20_000
"""How many positions of a lane are copied in one transaction."""
FEW_CHANGES = 1_000
"""So many noted rows are copied in a moment."""
ROUNDS = 50

TRIGGER = "toolledger_moving"


class Staging:
    """Copies of tables, on an autocommit connection."""

    def __init__(self, connection: Connection, tables: Sequence[Table]) -> None:
        self._connection = connection
        self._run = connection.exec_driver_sql
        self._tables = tables
        self._home = self._run(
            "SELECT nspname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
            f"WHERE c.oid = to_regclass('{tables[0].name}')"
        ).scalar_one()

    def create(self, place: Callable[[str], object]) -> None:
        """Create the new tables, without rows; `place` is called with the name of each."""
        with transaction(self._connection):
            self._run(f"CREATE SCHEMA {MOVING}")
            for table in self._tables:
                self._create(table)
                place(f"{MOVING}.{table.name}")

    def _create(self, table: Table) -> None:
        new = f"{MOVING}.{table.name}"
        self._connection.execute(CreateTable(table.to_metadata(MetaData(), schema=MOVING)))
        options = self._run(
            f"SELECT reloptions FROM pg_class WHERE oid = to_regclass('{table.name}')"
        ).scalar()
        if options:
            self._run(f"ALTER TABLE {new} SET ({', '.join(options)})")
        for right in rights(self._connection, table.name, new):
            self._run(right)

    def note_changes(self) -> None:
        """Let writers note which rows they change from now on."""
        with transaction(self._connection):
            for table in self._tables:
                for use in ("changed", "taken"):
                    self._run(
                        f"CREATE UNLOGGED TABLE {MOVING}.{use}_{table.name} AS "
                        f"SELECT {_key(table)} FROM {table.name} WHERE false"
                    )
            self._run("SET LOCAL citus.enable_ddl_propagation = off")  # no node needs them
            for table in self._tables:
                self._run(_note(table))
            tried_briefly(self._connection, self._create_triggers)

    def _create_triggers(self) -> None:
        for table in self._tables:
            self._run(
                f"CREATE TRIGGER {TRIGGER} AFTER INSERT OR UPDATE OR DELETE ON {table.name} "
                f"FOR EACH ROW EXECUTE FUNCTION {MOVING}.note_{table.name}()"
            )

    def copy_beside(self, progress: Progress) -> None:
        """Copy all rows, many at a time."""
        steps = [
            step
            for table in self._tables
            for lane in self._lanes(table.name)
            for step in self._steps(table, lane)
        ]
        done, total = 0, sum(rows for _, rows in steps)
        for statement, rows in steps:
            self._run(statement)
            done += rows
            progress(done, total)

    def _lanes(self, name: str) -> list[int]:
        """Return the lanes of a table's rows, those of the index alone."""
        found = self._run(
            f"WITH RECURSIVE f AS (SELECT min(lane) AS lane FROM {name} UNION ALL SELECT "
            f"(SELECT min(lane) FROM {name} WHERE lane > f.lane) FROM f WHERE lane IS NOT NULL) "
            "SELECT lane FROM f WHERE lane IS NOT NULL"
        )
        return [lane for (lane,) in found]

    def _steps(self, table: Table, lane: int) -> Iterator[tuple[str, int]]:
        """Yield the statements that copy a lane, each with the number of events that it copies."""
        where = f"WHERE lane = {lane}"
        if table is not schema.events:
            yield f"{_copy(table)} {where}", 0
            return
        first, last = self._run(
            f"SELECT min(position), max(position) FROM {table.name} {where}"
        ).one()
        for start in range(first, last + 1, BATCH_ROWS):
            end = min(start + BATCH_ROWS, last + 1)
            some = f"position >= {start} AND position < {end}"
            yield f"{_copy(table)} {where} AND {some}", end - start

    def copy_changes(self) -> None:
        """Copy the rows that changed meanwhile, until few are left."""
        for _ in range(ROUNDS):
            with transaction(self._connection):
                if self._take_changes() < FEW_CHANGES:
                    return

    def _take_changes(self) -> int:
        """Copy the rows that were noted; return how many there were."""
        return sum(map(self._take_changes_of, self._tables))

    def _take_changes_of(self, table: Table) -> int:
        name, key = table.name, _key(table)
        taken = f"{MOVING}.taken_{name}"
        count = self._run(
            f"WITH noted AS (DELETE FROM {MOVING}.changed_{name} RETURNING *) "
            f"INSERT INTO {taken} SELECT DISTINCT * FROM noted"
        ).rowcount
        if count:
            noted = f"WHERE ({key}) IN (SELECT {key} FROM {taken})"
            self._run(f"DELETE FROM {MOVING}.{name} {noted}")
            self._run(f"{_copy(table)} {noted}")
            self._run(f"DELETE FROM {taken}")
        return count

    def switch(self) -> None:
        """Put the new tables in the place of those in use, with the last changes."""
        with transaction(self._connection):
            self._lock("ACCESS EXCLUSIVE")
            self._take_changes()
            self._replace()

    def copy_and_switch(self) -> None:
        """Copy all rows while others may read, and put the new tables in their place."""
        with transaction(self._connection):
            self._lock("EXCLUSIVE")
            for table in self._tables:
                self._run(_copy(table))
            self._lock("ACCESS EXCLUSIVE")
            self._replace()

    def _lock(self, mode: str) -> None:
        # First what every append locks first, so that none waits for us while we wait for it.
        names = sorted((table.name for table in self._tables), key="toolledger_lanes".__ne__)
        locks = f"LOCK TABLE {', '.join(names)} IN {mode} MODE"
        tried_briefly(self._connection, lambda: self._run(locks))

    def _replace(self) -> None:
        quote = self._connection.dialect.identifier_preparer.quote
        for table in self._tables:
            self._run(f"DROP TABLE {table.name}")
            self._run(f"ALTER TABLE {MOVING}.{table.name} SET SCHEMA {quote(self._home)}")


def clear(connection: Connection) -> None:
    """Remove what is left of a move, whole or broken off."""
    with transaction(connection):
        tried_briefly(
            connection,
            lambda: connection.exec_driver_sql(f"DROP SCHEMA IF EXISTS {MOVING} CASCADE"),
        )


@contextmanager
def transaction(connection: Connection) -> Generator[None]:
    """Begin a transaction without limits of time, and commit it; an error rolls it back."""
    run = connection.exec_driver_sql
    run("BEGIN")
    try:
        lift_time_limits(connection)
        run("SET LOCAL citus.multi_shard_modify_mode = 'sequential'")  # a DROP may follow a copy
        yield
    except BaseException:
        if not connection.invalidated:
            run("ROLLBACK")
        raise
    run("COMMIT")


def _key(table: Table) -> str:
    return ", ".join(column.name for column in table.primary_key.columns)


def _copy(table: Table) -> str:
    columns = ", ".join(f'"{column.name}"' for column in table.columns)
    return f"INSERT INTO {MOVING}.{table.name} ({columns}) SELECT {columns} FROM {table.name}"


def _note(table: Table) -> str:
    """Return the statement for the function that notes a row's key, before and after a change."""
    keys = [column.name for column in table.primary_key.columns]
    insert = f"INSERT INTO {MOVING}.changed_{table.name} VALUES"
    old, new = (", ".join(f"{row}.{key}" for key in keys) for row in ("OLD", "NEW"))
    return (
        f"CREATE FUNCTION {MOVING}.note_{table.name}() RETURNS trigger LANGUAGE plpgsql "
        "SECURITY DEFINER SET search_path = pg_catalog AS $$ BEGIN "
        f"IF TG_OP <> 'INSERT' THEN {insert} ({old}); END IF; "
        f"IF TG_OP <> 'DELETE' THEN {insert} ({new}); END IF; "
        "RETURN NULL; END $$"
    )
