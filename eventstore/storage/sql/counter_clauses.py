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

from collections.abc import Iterable, Mapping, Sequence
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


def hold(lane: int) -> str:
    """Return the statement that keeps a lane at its node until the transaction ends.

    Where lanes live on several nodes, one that is moved waits for transactions that have written to
    it, and not for those that have locked a row: what these write then is lost, or is counted by no
    one.
    """
    return f"UPDATE toolledger_lanes SET position = position WHERE lane = {lane}"


def head_beside(backend: type[Backend], lane: int, beside: str) -> str:
    """Return the statement for the position of one lane, with what is read beside, of `{lane}`."""
    newest_block = " ORDER BY block DESC LIMIT 1" if backend.lanes_in_blocks else ""
    return (
        f"SELECT position, {beside.format(lane=lane)} FROM toolledger_lanes "
        f"WHERE lane = {lane}{newest_block}"
    )


def locked_heads(
    backend: type[Backend], of: Iterable[int], places: Mapping[int, int], beside: str
) -> str:
    """Return the statement for the positions of some lanes, locked one after the other.

    With each comes the id of the event at its place among `places`, and when it was recorded; what
    is to be read `beside`, of `{lane}`; and where rows have blocks, that of its row.
    """
    if backend.lanes_in_blocks:
        return _locked_blocks([(lane, places.get(lane, 0)) for lane in of], beside)
    numbers = ", ".join(map(str, of))
    cases = " ".join(f"WHEN {lane} THEN {place}" for lane, place in places.items())
    at = f"FROM toolledger_events e WHERE e.lane = l.lane AND e.position = CASE l.lane {cases} END"
    anchor = f"(SELECT event_id {at}), (SELECT recorded_at {at})" if places else "NULL, NULL"
    lock = " FOR UPDATE" if backend.row_locks else ""
    return (
        f"SELECT lane, position, {anchor}{beside.format(lane='l.lane')} FROM toolledger_lanes l "
        f"WHERE lane IN ({numbers}) ORDER BY lane{lock}"
    )


def _locked_blocks(wanted: Sequence[tuple[int, int]], beside: str) -> str:
    seen = any(place for _, place in wanted)
    found = f"SELECT l.lane, l.position, {'event_id, recorded_at' if seen else 'NULL, NULL'}"
    if len(wanted) == 1:  # which is planned sooner than the general form, and by one node
        ((lane, place),) = wanted
        at = f"e.lane = {lane} AND e.position = {place}"
        event = f" LEFT JOIN toolledger_events e ON {at}" if seen else ""
        return (
            f"{found}{beside.format(lane=lane)}, block FROM toolledger_lanes l{event} "
            f"WHERE l.lane = {lane} ORDER BY block DESC LIMIT 1 FOR UPDATE OF l"
        )
    rows = ", ".join(map(str, wanted))
    event = (
        " LEFT JOIN LATERAL (SELECT event_id, recorded_at FROM toolledger_events "
        "WHERE lane = number AND position = place LIMIT 1) AS e ON true"
    )
    return (
        f"{found}{beside.format(lane='l.lane')}, block FROM (VALUES {rows}) AS wanted "
        "(number, place) CROSS JOIN LATERAL (SELECT lane, position, block FROM toolledger_lanes "
        "WHERE lane = number ORDER BY block DESC LIMIT 1 FOR UPDATE) AS l"
        f"{event if seen else ''}"
    )


def advance_all(to: Mapping[int, int], blocks: Mapping[int, int]) -> str:
    """Return the statement that moves some lanes, which are locked, to new positions.

    `blocks` are those of their rows, where these have any.
    """
    moved = f"position = {_by_lane(to)}"
    where = f"lane IN ({', '.join(map(str, to))})"
    if blocks:
        ends = {lane: end // BLOCK_EVENTS for lane, end in to.items()}
        there = {lane: blocks[lane] for lane in to}
        if ends != there:
            moved = f"{moved}, block = {_by_lane(ends)}"
        where = f"{where} AND block IN ({', '.join(map(str, sorted({*there.values()})))})"
    return f"UPDATE toolledger_lanes SET {moved} WHERE {where}"


def _by_lane(values: Mapping[int, int]) -> str:
    """Return the expression for a value that each lane has."""
    if len(values) == 1:
        return str(*values.values())
    cases = " ".join(f"WHEN {lane} THEN {value}" for lane, value in values.items())
    return f"CASE lane {cases} END"


def newest_counters(lanes: int) -> str:
    """Return the statement for the last positions of so many lanes, of rows that have blocks."""
    return (
        "SELECT number, (SELECT position FROM toolledger_lanes WHERE lane = number "
        f"ORDER BY block DESC LIMIT 1) FROM generate_series(0, {lanes - 1}) AS number"
    )
