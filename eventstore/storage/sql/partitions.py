"""Partitions by lane, on servers: several smaller tables behind the name of one.

1. Every key begins with the lane, so each row has one partition, and a statement for a lane reads
   that one alone. Each partition has as many lanes as the next, one behind the other.
2. Nothing else changes: the rows, their digests, the names of tables and keys are the same.
3. The tables are made anew beside readers and writers, and all change places at once; see
   `eventstore.storage.sql.rebuilding`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlalchemy.schema import CreateTable

from eventstore.errors import StorageError
from eventstore.storage.sql import schema
from eventstore.storage.sql.placement import asked_on, has_citus, placements
from eventstore.storage.sql.rebuilding import TableAnew, rebuild, sweep
from eventstore.storage.sql.rebuilding.table import without_keys

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table

    from eventstore.storage.migrations import Progress

_DIALECTS = frozenset({"postgresql", "mysql", "mariadb"})

_TABLES = (schema.conversations, schema.event_ids, schema.fingerprints, schema.events)

Bounds = Sequence[tuple[int, int | None]]
"""The first lane of each partition, and the one behind its last; None behind the last of all."""


def partitions(connection: Connection, name: str = schema.events.name) -> int:
    """Return how many partitions a table is in; 1 where it is one table."""
    if connection.dialect.name not in _DIALECTS:
        return 1
    counted = (
        f"SELECT count(*) FROM pg_inherits WHERE inhparent = to_regclass('{name}')"
        if connection.dialect.name == "postgresql"
        else "SELECT count(partition_name) FROM information_schema.partitions "
        f"WHERE table_schema = DATABASE() AND table_name = '{name}'"
    )
    return max(1, int(connection.exec_driver_sql(counted).scalar_one()))


def partition(connection: Connection, count: int, progress: Progress | None = None) -> None:
    """Put the events into `count` partitions by lane; with 1, into one table again.

    Raises:
        ValueError: the store has fewer lanes, or is a SQLite file.
        StorageError: it is distributed over a cluster.
        StoreBusy: the tables are in use by a long transaction; they are as they were.
    """
    if connection.dialect.name not in _DIALECTS:
        raise ValueError("a SQLite store has one lane, no partitions: use PostgreSQL or MariaDB")
    ask = asked_on(connection)
    if connection.dialect.name == "postgresql" and has_citus(ask) and placements(ask):
        raise StorageError(
            "the tables are distributed, and partitions are for one server; nothing was changed: "
            "run `toolledger migrate --undistribute` first"
        )
    lanes = int(connection.exec_driver_sql("SELECT count(*) FROM toolledger_lanes").scalar_one())
    if not 1 <= count <= lanes:
        raise ValueError(f"partitions is {count}: the store has {lanes} lanes, pass 1 to {lanes}")
    firsts = [part * lanes // count for part in range(count)]
    bounds = list(zip(firsts, [*firsts[1:], None], strict=True))
    rebuild(connection, [_Divided(table, bounds) for table in _TABLES], progress=progress)


def tidy(connection: Connection) -> None:
    """Remove what is left where tables were made anew, and that was broken off."""
    sweep(connection, [table.name for table in schema.metadata.sorted_tables])


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


class _Divided(TableAnew):
    """A table in partitions, or in one piece."""

    def __init__(self, table: Table, bounds: Bounds) -> None:
        super().__init__(table, grows=table.name in schema.GROWING)
        self.bounds = bounds

    def create(self, connection: Connection, ending: str) -> None:
        """Create the empty table, and its partitions."""
        run, name = connection.exec_driver_sql, f"{self.name}{ending}"
        if connection.dialect.name != "postgresql":
            run(f"CREATE TABLE {name} LIKE {self.name}")  # with its collation
            if partitions(connection, self.name) > 1:
                run(f"ALTER TABLE {name} REMOVE PARTITIONING")
            if len(self.bounds) > 1:
                run(f"ALTER TABLE {name} {_mysql_clause(self.bounds)}")
            return
        divided = {"postgresql_partition_by": "RANGE (lane)"} if len(self.bounds) > 1 else {}
        connection.execute(CreateTable(without_keys(self.table, name, **divided)))
        for number, (first, end) in enumerate(self.bounds if divided else ()):
            run(
                f"CREATE TABLE {self.name}_{number + 1}_of_{len(self.bounds)} PARTITION OF {name} "
                f"FOR VALUES FROM ({first}) TO ({'MAXVALUE' if end is None else end})"
            )


def _mysql_clause(bounds: Bounds) -> str:
    parts = ", ".join(
        f"PARTITION p{number} VALUES LESS THAN {'MAXVALUE' if end is None else f'({end})'}"
        for number, (_, end) in enumerate(bounds)
    )
    return f"PARTITION BY RANGE (lane) ({parts})"
