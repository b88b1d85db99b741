"""Partitions by lane, on servers: several smaller tables behind the name of one.

1. Every key begins with the lane, so each row has one partition, and a statement for a lane reads
   that one alone. Each partition has as many lanes as the next, one behind the other.
2. Nothing else changes: the rows, their digests, the names of tables and keys are the same.
3. Writers wait meanwhile. On PostgreSQL all is one transaction. On MariaDB and MySQL each table is
   changed by itself, the table of events last: what was broken off is done again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, MetaData, Table
from sqlalchemy.schema import CreateTable

from eventstore.errors import StorageError
from eventstore.storage.sql import schema
from eventstore.storage.sql.placement import asked_on, has_citus, placements

_DIALECTS = frozenset({"postgresql", "mysql", "mariadb"})

_TABLES = (schema.conversations, schema.event_ids, schema.fingerprints, schema.events)

Bounds = Sequence[tuple[int, int | None]]
"""The first lane of each partition, and the one behind its last; None behind the last of all."""


def partitions(connection: Connection) -> int:
    """Return how many partitions the events are in; 1 where they are in one table."""
    if connection.dialect.name not in _DIALECTS:
        return 1
    counted = (
        "SELECT count(*) FROM pg_inherits WHERE inhparent = to_regclass('toolledger_events')"
        if connection.dialect.name == "postgresql"
        else "SELECT count(partition_name) FROM information_schema.partitions "
        "WHERE table_schema = DATABASE() AND table_name = 'toolledger_events'"
    )
    return max(1, int(connection.exec_driver_sql(counted).scalar_one()))


def partition(connection: Connection, count: int) -> None:
    """Put the events into `count` partitions by lane; with 1, into one table again.

    Raises:
        ValueError: the store has fewer lanes, or is a SQLite file.
        StorageError: it is distributed over a cluster.
    """
    if connection.dialect.name not in _DIALECTS:
        raise ValueError("a SQLite store has one lane, no partitions: use PostgreSQL or MariaDB")
    ask = asked_on(connection)
    if connection.dialect.name == "postgresql" and has_citus(ask) and placements(ask):
        raise StorageError(
            "the tables are distributed, so each shard has some of the lanes; nothing was changed: "
            "partitions are for one server"
        )
    lanes = int(connection.exec_driver_sql("SELECT count(*) FROM toolledger_lanes").scalar_one())
    if not 1 <= count <= lanes:
        raise ValueError(f"partitions is {count}: the store has {lanes} lanes, pass 1 to {lanes}")
    firsts = [part * lanes // count for part in range(count)]
    bounds = list(zip(firsts, [*firsts[1:], None], strict=True))
    if connection.dialect.name == "postgresql":
        # First what every append locks first, so that none waits for us while we wait for it.
        connection.exec_driver_sql("LOCK TABLE toolledger_lanes IN ACCESS EXCLUSIVE MODE")
        for table in _TABLES:
            _rebuild(connection, table, bounds)
    else:
        for table in _TABLES:
            connection.exec_driver_sql(f"ALTER TABLE {table.name} {_mysql_clause(bounds)}")


def refuse_partitioned(connection: Connection) -> None:
    """Refuse to take the schema down while the tables are partitioned.

    Raises:
        StorageError: they are.
    """
    if partitions(connection) > 1:
        raise StorageError(
            "the tables are partitioned; nothing was changed: run `toolledger migrate "
            "--partitions 1` first"
        )


def _mysql_clause(bounds: Bounds) -> str:
    if len(bounds) == 1:
        return "REMOVE PARTITIONING"
    parts = ", ".join(
        f"PARTITION p{number} VALUES LESS THAN {'MAXVALUE' if end is None else f'({end})'}"
        for number, (_, end) in enumerate(bounds)
    )
    return f"PARTITION BY RANGE (lane) ({parts})"


def _rebuild(connection: Connection, table: Table, bounds: Bounds) -> None:
    """Put a new table with the same rows, owner and grants in the place of a PostgreSQL table."""
    run, name, old = connection.exec_driver_sql, table.name, f"{table.name}_old"
    restored = list(rights(connection, name, name))
    run(f"ALTER TABLE {name} RENAME TO {old}")
    for constraint in table.constraints:
        if isinstance(constraint.name, str):
            run(f"ALTER TABLE {old} RENAME CONSTRAINT {constraint.name} TO {constraint.name}_old")
    new = table.to_metadata(MetaData())
    if len(bounds) > 1:
        new.dialect_options["postgresql"]["partition_by"] = "RANGE (lane)"
    connection.execute(CreateTable(new))
    for number, (first, end) in enumerate(bounds if len(bounds) > 1 else ()):
        run(
            f"CREATE TABLE {name}_{number + 1}_of_{len(bounds)} PARTITION OF {name} "
            f"FOR VALUES FROM ({first}) TO ({'MAXVALUE' if end is None else end})"
        )
    columns = ", ".join(f'"{column.name}"' for column in table.columns)
    run(f"INSERT INTO {name} ({columns}) SELECT {columns} FROM {old}")
    run(f"DROP TABLE {old}")
    for right in restored:
        run(right)


def rights(connection: Connection, name: str, new: str) -> Iterator[str]:
    """Yield the statements that give a new table the owner and the grants of an old one."""
    quote = connection.dialect.identifier_preparer.quote
    owner = connection.exec_driver_sql(
        f"SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = to_regclass('{name}')"
    ).scalar_one()
    yield f"ALTER TABLE {new} OWNER TO {quote(owner)}"
    granted = connection.exec_driver_sql(
        "SELECT grantee, privilege_type FROM information_schema.table_privileges "
        f"WHERE table_schema = current_schema() AND table_name = '{name}'"
    )
    for grantee, privilege in granted.fetchall():
        to = "PUBLIC" if grantee == "PUBLIC" else quote(grantee)
        yield f"GRANT {privilege} ON {new} TO {to}"
