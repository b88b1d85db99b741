"""`LaneState`: one lane of a projection between two checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

import msgspec

from eventstore import ConversationArchived, Recorded, UnknownEvent
from eventstore.domain.anchors import anchor_of
from projections.projector import schema
from projections.projector.database import LostRace, ProjectionDatabase
from projections.projector.parked import load_parked, park, store_parked
from projections.projector.queries import advance_checkpoint, update_rows
from projections.projector.table_projection import (
    FollowsRedactions,
    ProjectedLane,
    TableProjection,
)
from projections.redactions import READ_ANEW

if TYPE_CHECKING:
    from sqlalchemy import Connection

S = TypeVar("S")


class Poisoned(Exception):
    """The projection's `apply` raised on these events; the state is of no use any more."""

    def __init__(self, events: Sequence[Recorded], error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.events = events


ReadConversation: TypeAlias = Callable[[str], Iterator[Recorded]]
"""Returns the events of a conversation, by its id, as they are in the log now."""


class LaneState(Generic[S]):
    """What memory holds of a lane; its changes are stored all at once, or not at all.

    A batch with the record of a redaction has the projection give up what was redacted. So has one
    that says that archived events came back: such records may have been among them.

    Raises:
        LostRace: the generation was replaced.
    """

    def __init__(
        self,
        database: ProjectionDatabase,
        generation: int,
        lane: int,
        projection: TableProjection[S],
        read: ReadConversation,
    ) -> None:
        self.lane = ProjectedLane(database, generation, lane)
        with self.lane.reading() as connection:
            found = load_parked(connection, self.lane.key)
        self.parked = {item.conversation_id: item for item in found}
        """The first parked event of each conversation that has one."""
        self._stored_parked = set(self.parked)
        self._projection = projection
        self._state: S | None = None
        self._read = read

    def apply(self, events: Sequence[Recorded]) -> None:
        """Apply the lane's next events; park those that are unreadable, or wait for a parked one.

        Raises:
            Poisoned: the projection raised. The state is of no use any more.
            LostRace: another worker has advanced the lane. The state is of no use any more.
        """
        if (last := events[-1]).position > self.lane.totals.last[0]:
            self.lane.totals.last = last.position, anchor_of(last)
        redacted = {each.conversation_id: each for each in events if type(each.event) in READ_ANEW}
        if self.parked or UnknownEvent in {type(recorded.event) for recorded in events}:
            events = [recorded for recorded in events if not self._is_waiting(recorded)]
        if events:
            state = self._state = self._projection.load(self.lane, events, self._state)
            try:
                self._projection.apply(state, events)
            except Exception as error:
                raise Poisoned(events, error) from error
        for record in redacted.values():
            self._redact(record)

    def _redact(self, record: Recorded) -> None:
        """Give up what was redacted of a conversation, up to a record of it."""
        projection, parked = self._projection, self.parked.get(record.conversation_id)
        if not isinstance(projection, FollowsRedactions):
            return
        if parked is not None and parked.event_id == record.event_id:
            return  # the projection raised on it
        end = record.version + 1 if parked is None else min(parked.version, record.version + 1)
        read = self._read(record.conversation_id)
        try:
            events = list(takewhile(lambda each: each.version < end, read))
        except ConversationArchived:
            return  # meanwhile: it is done when they come back
        if not events:
            return
        state = self._state = projection.load(self.lane, events, self._state)
        try:
            projection.redact(state, events)
        except Exception as error:
            raise Poisoned([record], error) from error

    def _is_waiting(self, recorded: Recorded) -> bool:
        """Return whether an event is parked or waits for one that is."""
        parked = self.parked.get(recorded.conversation_id)
        if parked is not None and recorded.version >= parked.version:
            parked.waiting += recorded.event_id != parked.event_id
            return True
        event = recorded.event
        if type(event) is UnknownEvent and (problem := event.problem):
            self.parked[recorded.conversation_id] = park(recorded, problem)
            return True
        return False

    def store(self, connection: Connection, position: int) -> None:
        """Write everything, and the checkpoint at a new position.

        Raises:
            LostRace: another worker has advanced the lane meanwhile.
        """
        # The checkpoint first: its row lock keeps other workers of the lane out.
        if not advance_checkpoint(connection, self.lane.key, self.lane.revision, position):
            raise LostRace("another worker was first")
        if self._state is not None:
            self._state = self._projection.store(connection, self.lane, self._state)
        store_parked(connection, self.lane.key, self.parked.values(), self._stored_parked)
        totals = msgspec.json.encode(self.lane.totals).decode()
        update_rows(connection, schema.checkpoints, [self.lane.key | {"totals": totals}])

    def committed(self, position: int) -> None:
        """Go on from what `store` wrote."""
        self.lane.position = position
        self.lane.revision += 1
        self._stored_parked = set(self.parked)
