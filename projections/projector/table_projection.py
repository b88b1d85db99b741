"""`TableProjection`: what a projection says of itself so that a `Projector` keeps it in tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import msgspec

from eventstore import Recorded
from projections.projector import schema
from projections.projector.checkpoint import Totals
from projections.projector.database import LostRace, ProjectionDatabase
from projections.projector.queries import Row, select_rows

if TYPE_CHECKING:
    from sqlalchemy import Column, ColumnElement, Connection, Table

S = TypeVar("S")

Reading: TypeAlias = Callable[[], "Connection"]
"""Returns the connection from which all views of a batch are loaded; the first call opens it."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_LANE_KEY = ["projection", "lane"]


class ProjectedLane:
    """A lane of the log in the tables of one generation of a projection.

    `key` are the values of the columns `projection` and `lane` in each of its rows. `position` is
    that of the last event that is stored, `totals` the built-in projections' part of the
    checkpoint.
    """

    def __init__(self, database: ProjectionDatabase, projection: int, number: int) -> None:
        self.key: Row = {"projection": projection, "lane": number}
        self._database = database
        columns = ("position", "revision", "totals")
        with database.reading() as connection:
            rows = select_rows(connection, schema.checkpoints, columns, self.key)
        if not rows:
            raise LostRace("the projection was replaced")
        self.position: int
        self.revision: int
        self.position, self.revision, self._totals = rows[0]
        self.forget_changes()

    def forget_changes(self) -> None:
        """Go back to the totals that are stored."""
        self.totals = msgspec.json.decode(self._totals, type=Totals)

    def encoded_totals(self) -> Row:
        """Return the totals as they are stored: from now on, once they are committed."""
        self._next_totals = msgspec.json.encode(self.totals).decode()
        return {"totals": self._next_totals}

    def committed(self, position: int) -> None:
        """Note that the lane was stored at a position."""
        self.position = position
        self.revision += 1
        self._totals = self._next_totals

    @staticmethod
    def columns() -> tuple[Column[int], Column[int]]:
        """Return the columns that a table of a projection begins with: `projection` and `lane`."""
        return schema.lane_columns()

    def owns(self, table: Table) -> ColumnElement[bool]:
        """Return the SQL condition for the rows of a table that are this lane's."""
        owned: ColumnElement[bool] = table.c.projection == self.key["projection"]
        return owned & (table.c.lane == self.key["lane"])

    @contextmanager
    def reading(self) -> Generator[Connection]:
        """Open a connection to read the lane's rows, as they were at the end of the last batch.

        Raises:
            LostRace: another worker has advanced the lane meanwhile. Let it pass: the projector
                begins the batch again.
        """
        with self._database.reading() as connection:
            rows = select_rows(connection, schema.checkpoints, ("revision",), self.key)
            if rows != [(self.revision,)]:
                raise LostRace("another worker was first")
            yield connection


class TableProjection(Protocol[S]):
    """A projection of your own, which a `Projector` keeps in SQL tables beside the built-in ones.

    The projector calls `load`, `apply` and `store` for each batch of events of a lane. What
    `store` writes is committed together with how far the lane is, so each event counts exactly
    once, whatever is killed and when. `S` is the state that memory holds of a lane meanwhile.

    A rebuild runs beside the live tables, in the same tables: the columns `projection` (the number
    of the generation) and `lane` distinguish the rows.
    """

    @property
    def name(self) -> str:
        """The projection's name in the database: lower-case letters, digits, underscores."""
        ...

    @property
    def version(self) -> int:
        """A number from 1. Raise it with every change of what is stored, then `rebuild()`."""
        ...

    @property
    def tables(self) -> Sequence[Table]:
        """The tables that it writes; they are created where they do not exist yet.

        Each begins with `ProjectedLane.columns()`, the beginning of its primary key. A version
        whose columns are others needs tables with other names.
        """
        ...

    def load(self, lane: ProjectedLane, events: Sequence[Recorded], state: S | None) -> S:
        """Return the state that `events` need.

        `state` is None at first. Later it is what memory holds already, changes that are not
        stored yet among it: read with `lane.reading()` only what it lacks.
        """
        ...

    def apply(self, state: S, events: Sequence[Recorded]) -> None:
        """Change the state by the events, each conversation's in their order.

        A fold: it depends on nothing but the state and the events, and events one by one give
        the same as all at once. An event that it raises on is parked.
        """
        ...

    def store(self, connection: Connection, lane: ProjectedLane, state: S) -> S | None:
        """Write what has changed, in the transaction of the lane's checkpoint.

        Return the state to continue with, or None to have it loaded again.
        """
        ...


@runtime_checkable
class FollowsRedactions(Protocol):
    """A `TableProjection` whose tables hold what events say, and which gives it up again.

    Without this method, what was redacted stays in the tables until they are rebuilt.
    """

    def redact(self, state: Any, events: Sequence[Recorded], /) -> None:
        """Change the state so that the tables hold no more of a conversation than `events` do.

        It is called when events of the conversation were redacted that the lane may have applied:
        after `load` for the same events, and before `store`. `events` are all that were applied of
        it, from the first on, as they are in the log now; those with `redacted` have lost content.
        It may be called again for the same redaction.
        """
        ...


AnyProjection = TableProjection[Any]


def check_projections(projections: Sequence[AnyProjection], taken: Sequence[str]) -> None:
    """Check what users' projections say of themselves.

    Raises:
        ValueError: a name, version or table cannot be used; it says which, and what to do.
    """
    names = set(taken)
    for projection in projections:
        name = projection.name
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"the projection's name is {name!r}: pass at most 40 lower-case letters, digits "
                "and underscores, a letter first"
            )
        if name in names:
            raise ValueError(f"two projections are named {name!r}: give each its own name")
        names.add(name)
        if type(projection.version) is not int or not 1 <= projection.version < 10**9:
            raise ValueError(f"version of {name} is {projection.version!r}: pass a number from 1")
        for table in projection.tables:
            if [column.name for column in table.primary_key][:2] != _LANE_KEY:
                raise ValueError(
                    f"the primary key of table {table.name} does not begin with projection and "
                    "lane: begin its columns with *ProjectedLane.columns()"
                )
            if table.name in schema.metadata.tables:
                raise ValueError(f"{table.name} is a table of toolledger: choose another name")
