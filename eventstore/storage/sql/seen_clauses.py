"""What statements say of an event that was seen before: that it is still in its place.

A page of the log is read beside such an event in one of two forms (see `Backend.sorts_joins`):

1. Joined to it: without the event nothing comes, and for an empty page a row of NULLs.
2. Marked by it: where the event is in its place, a row of NULLs comes before the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from sqlalchemy import (
    ColumnElement,
    Integer,
    Select,
    and_,
    bindparam,
    exists,
    literal_column,
    null,
    select,
    union_all,
)

from eventstore.storage.sql import schema as tables

if TYPE_CHECKING:
    from sqlalchemy.sql.expression import ClauseElement

Rows: TypeAlias = "Select[*tuple[Any, ...]]"

_e, _l = tables.events.c, tables.lanes.c

SEEN = ("lane", "place", "event", "time")
"""The parameters for the event: a lane, and an `Anchor` of it."""

FIRST_ROW: ColumnElement[int] = literal_column("0", Integer)
"""The offset, which SQLite's dialect writes in any case."""

_ONE: ColumnElement[int] = literal_column("1", Integer)


def page(rows: Rows) -> Rows:
    """Return the first of the rows, `most` of them."""
    return rows.limit(bindparam("most")).offset(FIRST_ROW)


def anchor_columns() -> tuple[ColumnElement[Any], ...]:
    """Return the id of the event at a place of a lane, and when it was recorded.

    These are read beside the lane's row: a join would lock the event, too. The lane `at` is named
    here, too, so that one node has all that is read.
    """
    place = _e.lane == bindparam("at"), _e.position == bindparam("place")
    return tuple(
        select(column).where(*place).correlate(tables.lanes).scalar_subquery()
        for column in (_e.event_id, _e.recorded_at)
    )


def holds_anchor() -> ColumnElement[bool]:
    """Return whether an event is at its place of a lane."""
    there = select(_ONE).select_from(tables.events).where(_e.lane == _l.lane, _is_seen(_e))
    return exists(there.correlate(tables.lanes))


def beside_seen(rows: Rows, order: ColumnElement[Any], *, marked: bool) -> ClauseElement:
    """Return a page of events beside one that was seen: joined to it, or marked by it."""
    before = tables.events.alias("before")
    in_place = and_(before.c.lane == bindparam("lane"), _is_seen(before.c))
    columns = rows.selected_columns
    if marked:
        mark = select(*(null() for _ in columns)).select_from(before).where(in_place)
        return union_all(mark, page(rows))
    seen = select(_ONE).select_from(before).where(in_place).subquery("seen")
    wanted = cast("ColumnElement[bool]", rows.whereclause)
    joined = seen.outerjoin(tables.events, wanted)
    return page(select(*columns).select_from(joined).order_by(order))


def _is_seen(event: Any) -> ColumnElement[bool]:
    return and_(
        event.position == bindparam("place"),
        event.event_id == bindparam("event"),
        event.recorded_at == bindparam("time"),
    )


def seen_rows_joined(rows: Sequence[Any]) -> Sequence[Any] | None:
    """Return the rows of a page that was joined to an event; None where that was missing."""
    if rows and rows[0][0] is None:
        return ()
    return rows or None


def seen_rows_marked(rows: Sequence[Any]) -> Sequence[Any] | None:
    """Return the rows of a page that was marked by an event; None where that was missing."""
    return rows[1:] if rows and rows[0][0] is None else None
