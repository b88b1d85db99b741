"""Where the tables of a log are: together on one server, or spread over the nodes of Citus.

1. A table with a lane is distributed by it, and all of these are in one group: a lane's rows are on
   one node, whichever table they are in. The others are on every node (reference tables).
2. A store of which only some tables are so is half distributed. Its answers are right, but what an
   append writes is on several nodes, and some statements are refused.
3. While tables are moved, the table `REBUILDING` is there. Where no process holds the lock of
   schema changes meanwhile, a move was broken off.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from eventstore.errors import StorageError
from eventstore.storage.migrations import REBUILDING, VERSION_TABLE
from eventstore.storage.sql import schema

if TYPE_CHECKING:
    from sqlalchemy import Connection

Ask: TypeAlias = "Callable[[str], Sequence[Sequence[Any]]]"
"""Gives the rows of a statement."""

SCHEMA_LOCK = 0x746F6F6C
"""The advisory lock for schema changes, of this database alone."""

_TABLES = schema.metadata_of("postgresql").sorted_tables
BY_LANE = tuple(
    sorted(
        (table for table in _TABLES if "lane" in table.columns),
        key=lambda table: table.name == schema.events.name,
    )
)
"""The tables that are distributed, those of events last."""

EVERYWHERE = (schema.store.name, VERSION_TABLE)
"""The tables of which every node has a copy."""

AGAIN = "run `toolledger migrate --distribute` again, or with --undistribute"


class Placement(NamedTuple):
    """How Citus knows a table; one that it does not know is on one server."""

    method: str
    """`h` by the hash of a column, `n` without a column."""
    column: str | None
    group: int
    """The tables of a group have equal shards at equal places."""
    model: str
    """`t` where each node has all rows."""


def asked_on(connection: Connection) -> Ask:
    """Return what gives the rows of a statement on a connection."""
    return lambda statement: connection.exec_driver_sql(statement).fetchall()


def has_citus(ask: Ask) -> bool:
    """Return whether a database of PostgreSQL has the extension."""
    return bool(ask("SELECT 1 FROM pg_extension WHERE extname = 'citus'"))


def placements(ask: Ask) -> dict[str, Placement]:
    """Return how Citus knows the tables of the log, without those that it does not know."""
    names = ", ".join(f"to_regclass('{name}')" for name in _names())
    found = ask(
        "SELECT c.relname, p.partmethod::text, column_to_column_name(p.logicalrelid, p.partkey), "
        "p.colocationid, p.repmodel::text FROM pg_dist_partition p "
        f"JOIN pg_class c ON c.oid = p.logicalrelid WHERE c.oid IN ({names})"
    )
    return {name: Placement(*rest) for name, *rest in found}


def is_distributed(found: Mapping[str, Placement]) -> bool:
    """Return whether tables are distributed, all or some."""
    return any(table.name in found for table in BY_LANE)


def misplaced(found: Mapping[str, Placement]) -> list[str]:
    """Return the tables of a distributed log that are not at their place."""
    group = _group(found)
    apart = [
        table.name
        for table in BY_LANE
        if (placement := found.get(table.name)) is None
        or not _is_by_lane(placement)
        or placement.group != group
    ]
    return apart + [name for name in EVERYWHERE if name not in found or found[name].model != "t"]


def problem(found: Mapping[str, Placement]) -> str | None:
    """Return what is wrong with where the tables are; None where nothing is."""
    if not is_distributed(found):
        return None
    wrong = misplaced(found)
    if not wrong:
        return None
    return (
        f"the store is half distributed: {', '.join(wrong)} "
        f"{'is' if len(wrong) == 1 else 'are'} not beside the other tables: {AGAIN}"
    )


def broken_off(ask: Ask) -> str | None:
    """Return what is to be done about a move of the tables that did not end; None without one."""
    left = ask(
        f"SELECT 1 WHERE to_regclass('{REBUILDING}') IS NOT NULL AND NOT EXISTS (SELECT FROM "
        "pg_locks JOIN pg_database d ON d.oid = database AND d.datname = current_database() "
        f"WHERE locktype = 'advisory' AND classid = 0 AND objid = {SCHEMA_LOCK} AND granted)"
    )
    if not left:
        return None
    return (
        "a move of the tables was broken off, and each append notes what it changes for it: "
        f"{AGAIN}"
    )


def problems(ask: Ask) -> list[str]:
    """Return all that is wrong with where the tables are."""
    if not has_citus(ask):
        return []
    return list(filter(None, (problem(placements(ask)), broken_off(ask))))


def check_coordinator(ask: Ask) -> None:
    """Refuse to change the schema at a node that cannot do it for the others.

    Raises:
        StorageError: it is not the coordinator of its cluster.
    """
    if not has_citus(ask) or ask("SELECT 1 WHERE citus_is_coordinator()"):
        return
    found = ask(
        "SELECT nodename, nodeport FROM pg_dist_node WHERE groupid = 0 AND noderole = 'primary'"
    )
    where = "".join(f" ({host}:{port})" for host, port in found)
    raise StorageError(
        "this is a worker of a Citus cluster, which cannot change tables for all nodes; nothing "
        f"was changed: name the coordinator{where} in the URL"
    )


def _names() -> list[str]:
    return [*(table.name for table in BY_LANE), *EVERYWHERE]


def _group(found: Mapping[str, Placement]) -> int | None:
    """Return the group of the first table that is distributed by lane."""
    of_tables = (found.get(table.name) for table in BY_LANE)
    return next((each.group for each in of_tables if each and _is_by_lane(each)), None)


def _is_by_lane(placement: Placement) -> bool:
    return (placement.method, placement.column) == ("h", "lane")
