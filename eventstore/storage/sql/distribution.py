"""Distributing a log over the nodes of a Citus cluster by lane, and bringing it back.

The way there goes on beside readers and writers, see `eventstore.storage.sql.rebuilding`. On the
way back writers wait and readers go on: tables that are distributed have no triggers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from eventstore.errors import StorageError
from eventstore.storage.brief_locks import tried_briefly
from eventstore.storage.sql import schema
from eventstore.storage.sql.partitions import partitions
from eventstore.storage.sql.placement import (
    BY_LANE,
    EVERYWHERE,
    asked_on,
    check_coordinator,
    has_citus,
    is_distributed,
    misplaced,
    placements,
)
from eventstore.storage.sql.rebuilding import TableAnew, rebuild

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table

    from eventstore.storage.migrations import Progress

MAX_SHARDS = 1024

_HASHES = 2**32


def prepare(connection: Connection, shards: int | None) -> bool:
    """Bring tables that are on wrong nodes back, and make reference tables; see `distribute`.

    Returns whether there is anything to be distributed.

    Raises:
        ValueError: it is no cluster of Citus, `shards` makes no sense, or there are others already.
        StorageError: the tables are partitioned, or this is not the coordinator.
        StoreBusy: long transactions were in the way; the tables are left as they were.
    """
    _check(connection)
    lanes = _lanes(connection)
    if shards is not None and not 1 <= shards <= MAX_SHARDS:
        raise ValueError(f"shards is {shards}: pass 1 to {MAX_SHARDS}; {lanes} lanes are spread")
    if partitions(connection) > 1:
        raise StorageError(
            "the tables are partitioned, which is for one server; nothing was changed: run "
            "`toolledger migrate --partitions 1` first"
        )
    found = placements(asked_on(connection))
    wrong = misplaced(found)
    kept = next((table.name for table in BY_LANE if table.name in {*found} - {*wrong}), None)
    if shards is not None and kept is not None:
        _check_same(connection, shards, kept)
    _bring_back(connection, [table for table in BY_LANE if table.name in {*wrong} & {*found}])
    for name in EVERYWHERE:
        if name in wrong:
            _placed(connection, name, f"create_reference_table('{name}')")
    return bool(wrong)


def distribute(connection: Connection, shards: int | None, progress: Progress | None) -> None:
    """Spread the tables that `prepare` has left over the nodes by lane, beside readers and writers.

    Raises:
        StoreBusy: long transactions were in the way; the tables are left as they were.
    """
    wrong = misplaced(placements(asked_on(connection)))
    tables = [table for table in BY_LANE if table.name in wrong]
    if not tables:
        return
    beside = next((table.name for table in BY_LANE if table.name not in wrong), None)
    count = shards or shard_count(_hashes(connection, _lanes(connection)), _nodes(connection))
    first = f"shard_count := {count}, colocate_with := 'none'"
    with_first = f"colocate_with := '{beside or tables[0].name + '_new'}'"
    rebuild(
        connection,
        [
            _Spread(each, with_first if beside or number else first)
            for number, each in enumerate(tables)
        ],
        progress=progress,
    )


def undistribute(connection: Connection, progress: Progress | None) -> bool:
    """Bring all tables to the coordinator; return whether anything was moved.

    Raises:
        ValueError: it is no cluster of Citus.
        StorageError: this is not the coordinator.
        StoreBusy: long transactions were in the way; the tables are left as they were.
    """
    _check(connection)
    found = placements(asked_on(connection))
    _bring_back(connection, [table for table in BY_LANE if table.name in found], progress)
    for name in EVERYWHERE:
        if name in found:
            _placed(connection, name, f"undistribute_table('{name}')")
    return bool(found)


@contextmanager
def at_the_coordinator(connection: Connection) -> Generator[None]:
    """Let the schema of a PostgreSQL database be changed, also where it is distributed.

    Raises:
        StorageError: the connection is to a worker of a cluster.
    """
    check_coordinator(asked_on(connection))
    yield
    _complete(connection)


def _complete(connection: Connection) -> None:
    """Distribute the tables that an upgrade has made beside a log that is distributed."""
    ask = asked_on(connection)
    if not has_citus(ask):
        return
    found = placements(ask)
    if is_distributed(found):
        beside = next(table.name for table in BY_LANE if table.name in found)
        for table in BY_LANE:
            if table.name not in found:
                _create_distributed(connection, table.name, f"colocate_with := '{beside}'")


def refuse_distributed(connection: Connection) -> None:
    """Refuse to take the schema down while the tables are distributed.

    Raises:
        StorageError: they are.
    """
    ask = asked_on(connection)
    if connection.dialect.name == "postgresql" and has_citus(ask) and placements(ask):
        raise StorageError(
            "the tables are distributed; nothing was changed: run `toolledger migrate "
            "--undistribute` first"
        )


def shard_count(hashes: Sequence[int], nodes: int) -> int:
    """Return the number of shards, up to twice the lanes, that spreads lanes over nodes best.

    `hashes` are those of the lanes. Of equal numbers that is taken by which fewer lanes share a
    shard, as a shard is what can be moved; then the smallest.
    """

    def most(count: int) -> tuple[int, int, int]:
        places = [_shard(value, count) for value in hashes]
        on_a_node = Counter(place % nodes for place in places)
        return max(on_a_node.values()), max(Counter(places).values()), count

    return min(range(len(hashes), 2 * len(hashes) + 1), key=most)


def _shard(value: int, count: int) -> int:
    """Return the shard of a hash: their ranges are equal, but for the last one."""
    return min((value + _HASHES // 2) // (_HASHES // count), count - 1)


def _check(connection: Connection) -> None:
    if connection.dialect.name != "postgresql":
        raise ValueError("only PostgreSQL with the extension Citus distributes a log: name one")
    if not has_citus(asked_on(connection)):
        raise ValueError(
            "the database has no extension Citus: run CREATE EXTENSION citus on each node and "
            "join them, see https://docs.citusdata.com"
        )
    check_coordinator(asked_on(connection))


def _check_same(connection: Connection, shards: int, name: str) -> None:
    """Refuse another number of shards than that of a table that stays as it is."""
    count = connection.exec_driver_sql(
        f"SELECT count(*) FROM pg_dist_shard WHERE logicalrelid = '{name}'::regclass"
    ).scalar_one()
    if count != shards:
        raise ValueError(
            f"shards is {shards}: the tables have {count} already; to have another number, run "
            "`toolledger migrate --undistribute` first"
        )


def _lanes(connection: Connection) -> int:
    found = connection.exec_driver_sql("SELECT lanes FROM toolledger_store WHERE id = 1")
    return int(found.scalar_one())


def _hashes(connection: Connection, lanes: int) -> list[int]:
    found = connection.exec_driver_sql(
        f"SELECT worker_hash(lane) FROM generate_series(0, {lanes - 1}) AS lane"
    )
    return [value for (value,) in found]


def _nodes(connection: Connection) -> int:
    count = connection.exec_driver_sql(
        "SELECT count(*) FROM pg_dist_node "
        "WHERE shouldhaveshards AND isactive AND noderole = 'primary'"
    )
    return max(1, int(count.scalar_one()))


def _placed(connection: Connection, name: str, function: str) -> None:
    """Have Citus put a small table elsewhere, which needs its lock for a moment."""
    place = partial(connection.exec_driver_sql, f"SELECT {function}")
    tried_briefly(connection, place, locks=[name])


def _bring_back(
    connection: Connection, tables: Sequence[Table], progress: Progress | None = None
) -> None:
    """Copy tables to the coordinator while others may read."""
    if not tables:
        return
    # First what every append locks first, so that none waits for us while we wait for it.
    names = sorted((table.name for table in tables), key="toolledger_lanes".__ne__)
    lock = f"LOCK TABLE {', '.join(names)} IN EXCLUSIVE MODE"
    tried_briefly(connection, partial(connection.exec_driver_sql, lock), locks=names)
    rebuild(
        connection,
        [TableAnew(table, grows=table.name in schema.GROWING) for table in tables],
        progress=progress,
    )


class _Spread(TableAnew):
    """A table that is distributed by lane."""

    def __init__(self, table: Table, placing: str) -> None:
        super().__init__(table, grows=table.name in schema.GROWING)
        self.placing = placing

    def create(self, connection: Connection, ending: str) -> None:
        """Create the empty table, on all nodes."""
        super().create(connection, ending)
        _create_distributed(connection, f"{self.name}{ending}", self.placing)


def _create_distributed(connection: Connection, name: str, placing: str) -> None:
    connection.exec_driver_sql(
        f"SELECT create_distributed_table('{name}', 'lane', {placing})"
    ).fetchall()
