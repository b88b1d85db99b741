"""Distributing a log over the nodes of a Citus cluster by lane, and bringing it back to one server.

The way there goes on beside readers and writers (see `staging`). On the way back writers wait and
readers go on: tables that are distributed have no triggers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from eventstore.errors import StorageError
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
from eventstore.storage.sql.staging import Staging, clear, transaction

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table

    from eventstore.storage.migrations import Progress

MAX_SHARDS = 1024

_HASHES = 2**32


def distribute(connection: Connection, shards: int | None, progress: Progress) -> bool:
    """Spread the tables over the nodes by lane; return whether anything was moved.

    Raises:
        ValueError: it is no cluster of Citus, or `shards` makes no sense.
        StorageError: the tables are partitioned, or this is not the coordinator.
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
    clear(connection)
    found = placements(asked_on(connection))
    wrong = misplaced(found)
    if not wrong:
        return False
    _refer(connection, [name for name in EVERYWHERE if name in wrong])
    _bring_back(connection, [table for table in BY_LANE if table.name in {*wrong} & {*found}])
    tables = [table for table in BY_LANE if table.name in wrong]
    beside = [table.name for table in BY_LANE if table.name not in wrong]
    if tables:
        count = shards or shard_count(_hashes(connection, lanes), _nodes(connection))
        staging = Staging(connection, tables)
        staging.create(_placing(connection, beside, count))
        staging.note_changes()
        staging.copy_beside(progress)
        staging.copy_changes()
        staging.switch()
        clear(connection)
        _look_at(connection, tables)
    return True


def undistribute(connection: Connection) -> bool:
    """Bring all tables to the coordinator; return whether anything was moved.

    Raises:
        ValueError: it is no cluster of Citus.
        StorageError: this is not the coordinator.
    """
    _check(connection)
    clear(connection)
    found = placements(asked_on(connection))
    _bring_back(connection, [table for table in BY_LANE if table.name in found])
    for name in EVERYWHERE:
        if name in found:
            with transaction(connection):
                connection.exec_driver_sql(f"SELECT undistribute_table('{name}')").fetchall()
    return bool(found)


@contextmanager
def at_the_coordinator(connection: Connection) -> Generator[None]:
    """Let the schema of a PostgreSQL database be changed, also where it is distributed.

    Raises:
        StorageError: the connection is to a worker of a cluster.
    """
    check_coordinator(asked_on(connection))
    # Citus refuses some statements after others that went on in many shards at once.
    connection.exec_driver_sql("SET LOCAL citus.multi_shard_modify_mode = 'sequential'")
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
                _create_distributed(connection, table.name, beside, None)


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


def _refer(connection: Connection, names: Sequence[str]) -> None:
    for name in names:
        with transaction(connection):
            connection.exec_driver_sql(f"SELECT create_reference_table('{name}')").fetchall()


def _placing(connection: Connection, beside: Sequence[str], shards: int) -> Callable[[str], object]:
    """Return what distributes a table: the first by itself where none is, the others with it."""
    others = list(beside)

    def place(name: str) -> None:
        if others:
            _create_distributed(connection, name, others[0], None)
        else:
            _create_distributed(connection, name, "none", shards)
        others.append(name)

    return place


def _create_distributed(connection: Connection, name: str, beside: str, shards: int | None) -> None:
    count = "" if shards is None else f", shard_count := {shards}"
    connection.exec_driver_sql(
        f"SELECT create_distributed_table('{name}', 'lane', colocate_with := '{beside}'{count})"
    ).fetchall()


def _bring_back(connection: Connection, tables: Sequence[Table]) -> None:
    if tables:
        staging = Staging(connection, tables)
        staging.create(lambda _: None)
        staging.copy_and_switch()
        clear(connection)


def _look_at(connection: Connection, tables: Sequence[Table]) -> None:
    """Let the nodes count what they have, so that they choose the right indexes."""
    for table in tables:
        connection.exec_driver_sql(f"ANALYZE {table.name}")
