"""What statements say of the lanes' counters, and how the newest version of one's row is found.

PostgreSQL keeps each version of a row that an open snapshot may see, however often the row moves
on, and an index has an entry for many of them. A lookup of the lane would read through them all.

1. There the row has a `block`, its position divided by `BLOCK_EVENTS`, and its key ends with it.
2. A lookup reads the lane's blocks backwards, and ends at the first version that is there. A
   statement that knows how far the lane is asks for that block and later ones.
3. Within a block no key changes, so that the server prunes old versions as ever.
4. A process of revision 0003 moves the position alone. Its block is then behind, which costs no
   more than a longer look: the next one to lock the lane brings it up to date.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import Integer, bindparam, literal_column, select, update

from eventstore.storage.sql import schema as tables

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Select, Table, Update

    from eventstore.storage.sql.backend import Backend

Rows: TypeAlias = "Select[*tuple[Any, ...]]"

BLOCK_EVENTS = 64
"""Positions of a block: versions of a row that a lookup may have to read through."""

_ONE: ColumnElement[int] = literal_column("1", Integer)
_BLOCK: ColumnElement[int] = literal_column(str(BLOCK_EVENTS), Integer)

EVERY_COUNTER = "SELECT lane, position FROM toolledger_lanes ORDER BY lane"


def counters(backend: Backend) -> Table:
    """Return the table of counters as a kind of database has it."""
    return tables.lanes_in_blocks if backend.lanes_in_blocks else tables.lanes


def newest(backend: Backend, rows: Rows, *, locked: bool = False) -> Rows:
    """Return the statement that finds what is selected of one lane's counter."""
    if locked and backend.row_locks:
        rows = rows.with_for_update()
    if backend.lanes_in_blocks:
        return rows.order_by(tables.lanes_in_blocks.c.block.desc()).limit(_ONE)
    return rows


def advance(backend: Backend) -> Update:
    """Return the statement that moves the counter of a lane, which is locked."""
    table, to = counters(backend), bindparam("to", type_=tables.lanes.c.position.type)
    moved = update(table).where(table.c.lane == bindparam("at"))
    if not backend.lanes_in_blocks:
        return moved.values(position=to)
    there = table.alias("there")
    block = select(there.c.block).where(there.c.lane == bindparam("at"))
    last = block.order_by(there.c.block.desc()).limit(_ONE).scalar_subquery()
    return moved.where(table.c.block == last).values(position=to, block=to // _BLOCK)


def locked_heads(backend: type[Backend], of: Iterable[int], anchors: str) -> str:
    """Return the statement for the positions of some lanes, locked one after the other.

    `anchors` is what comes with each, of the lane `l`; after it comes the block of its row.
    """
    if backend.lanes_in_blocks:
        numbers = ", ".join(f"({lane})" for lane in of)
        return (
            f"SELECT lane, position, {anchors}, block FROM (VALUES {numbers}) AS wanted (number) "
            "CROSS JOIN LATERAL (SELECT lane, position, block FROM toolledger_lanes "
            "WHERE lane = number ORDER BY block DESC LIMIT 1 FOR UPDATE) AS l"
        )
    numbers = ", ".join(map(str, of))
    lock = " FOR UPDATE" if backend.row_locks else ""
    return (
        f"SELECT lane, position, {anchors} FROM toolledger_lanes l "
        f"WHERE lane IN ({numbers}) ORDER BY lane{lock}"
    )


def advance_all(to: Mapping[int, int], blocks: Mapping[int, int]) -> str:
    """Return the statement that moves some lanes, which are locked, to new positions.

    `blocks` are those of their rows, where these have any.
    """
    cases = " ".join(f"WHEN {lane} THEN {position}" for lane, position in to.items())
    moved = f"UPDATE toolledger_lanes SET position = CASE lane {cases} END"
    where = f"WHERE lane IN ({', '.join(map(str, to))})"
    if blocks:
        there = sorted({blocks[lane] for lane in to})
        cases = " ".join(f"WHEN {n} THEN {end // BLOCK_EVENTS}" for n, end in to.items())
        moved = f"{moved}, block = CASE lane {cases} END"
        where = f"{where} AND block IN ({', '.join(map(str, there))})"
    return f"{moved} {where}"


def all_heads(backend: Backend, lanes: int) -> str:
    """Return the statement for the last positions of so many lanes."""
    if not backend.lanes_in_blocks or backend.commits_by_lane:
        return EVERY_COUNTER  # of all nodes, where lanes live on several
    return (
        "SELECT number, (SELECT position FROM toolledger_lanes WHERE lane = number "
        f"ORDER BY block DESC LIMIT 1) FROM generate_series(0, {lanes - 1}) AS number"
    )
