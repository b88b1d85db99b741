"""`Parked`: an event that could not be projected, and its row."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from eventstore import Recorded
from projections.projector import schema
from projections.projector.queries import Row, delete_keys, insert_rows, select_rows
from projections.projector.schema import key_of, storable

if TYPE_CHECKING:
    from sqlalchemy import Connection

_COLUMNS = (
    "lane",
    "conversation_id",
    "version",
    "position",
    "event_id",
    "recorded_at",
    "tag",
    "problem",
    "waiting",
)


class Parked(msgspec.Struct, gc=False):
    """An event that could not be projected, and how many of its conversation wait after it.

    `projection` is the name of the projection of yours that could not apply it; None for the
    built-in ones.
    """

    lane: int
    conversation_id: str
    version: int
    position: int
    event_id: str
    recorded_at: int
    tag: str
    problem: str
    waiting: int = 0
    projection: str | None = None

    def __str__(self) -> str:
        of = f"{self.projection}: " if self.projection else ""
        waiting = f", {self.waiting:,} later events wait behind it" if self.waiting else ""
        return f"{of}{self.conversation_id!r} version {self.version}: {self.problem}{waiting}"


def park(recorded: Recorded, problem: str) -> Parked:
    """Return the event, parked for a problem."""
    return Parked(
        lane=recorded.lane,
        conversation_id=recorded.conversation_id,
        version=recorded.version,
        position=recorded.position,
        event_id=recorded.event_id,
        recorded_at=recorded.recorded_at,
        tag=recorded.event.tag,
        problem=problem,
    )


def load_parked(connection: Connection, where: Row) -> list[Parked]:
    """Return what is parked in a lane of a generation, or in all its lanes, in their order."""
    rows = select_rows(connection, schema.parked, _COLUMNS, where, ("lane", "position"))
    return [Parked(*row) for row in rows]


def store_parked(
    connection: Connection, at: Row, parked: Iterable[Parked], stored: Iterable[str]
) -> None:
    """Replace the rows of the conversations in `stored` by those of `parked`."""
    delete_keys(connection, schema.parked, at, "key", map(key_of, stored))
    insert_rows(connection, schema.parked, [at | _row(item) for item in parked])


def _row(item: Parked) -> Row:
    row: Row = {"key": key_of(item.conversation_id)}
    for name in _COLUMNS[1:]:
        value = getattr(item, name)
        row[name] = storable(value) if isinstance(value, str) else value
    return row
