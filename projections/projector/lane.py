"""`LaneState`: one lane of a projection between two checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from msgspec.structs import replace

from eventstore import ConversationArchived, Recorded, UnknownEvent
from eventstore.domain.anchors import anchor_of
from projections.projector import schema
from projections.projector.database import LostRace, ProjectionDatabase
from projections.projector.parked import Parked, load_parked, park, store_parked
from projections.projector.queries import advance_checkpoint, update_rows
from projections.projector.table_projection import (
    FollowsRedactions,
    ProjectedLane,
    TableProjection,
)
from projections.projector.traced import TracedEvents
from projections.redactions import READ_ANEW

if TYPE_CHECKING:
    from sqlalchemy import Connection

S = TypeVar("S")


class Poisoned(Exception):
    """The projection raised when it had come to `event`; the state is of no use any more.

    `is_certain` says whether it had seen no later one.
    """

    def __init__(self, event: Recorded, error: Exception, *, is_certain: bool = True) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.event = event
        self.is_certain = is_certain


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
        self.generation, self.number = generation, lane
        self.lane = ProjectedLane(database, generation, lane)
        with self.lane.reading() as connection:
            found = load_parked(connection, self.lane.key)
        self.parked = {item.conversation_id: item for item in found}
        """The first parked event of each conversation that has one: change it by `park`."""
        self._replaced: dict[str, Parked | None] = {}  # as they are stored, where they have changed
        self._retried: tuple[str, ...] = ()
        self._projection = projection
        self._state: S | None = None
        self._read = read

    def reset(self) -> None:
        """Go back to what is stored, after an error."""
        self._state = None
        self.lane.forget_changes()
        for conversation_id, item in self._replaced.items():
            self.parked.pop(conversation_id, None)
            if item is not None:
                self.parked[conversation_id] = item
        self._replaced.clear()
        for conversation_id in self._retried:
            self._replace(conversation_id)
            del self.parked[conversation_id]

    def park(self, item: Parked) -> None:
        """Park an event, and have its conversation wait for it."""
        self._replace(item.conversation_id)
        self.parked[item.conversation_id] = item

    def retry(self, conversation_ids: Iterable[str]) -> None:
        """Begin anew from what is stored, and let parked conversations go on.

        That holds until it is stored, or until others are named.
        """
        self._retried = tuple(conversation_ids)
        self.reset()

    def _replace(self, conversation_id: str) -> None:
        self._replaced.setdefault(conversation_id, self.parked.get(conversation_id))

    def apply(self, events: Sequence[Recorded], *, traced: bool = False) -> None:
        """Apply the lane's next events; park those that are unreadable, or wait for a parked one.

        Where it is not `traced`, the error names the last event, whichever is at fault.

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
            seen = TracedEvents(events) if traced else None
            try:
                self._projection.apply(state, events if seen is None else seen)
            except Exception as error:
                if seen is None:
                    raise Poisoned(events[-1], error, is_certain=False) from error
                raise Poisoned(seen.last, error, is_certain=seen.is_farthest) from error
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
            raise Poisoned(record, error) from error

    def _is_waiting(self, recorded: Recorded) -> bool:
        """Return whether an event is parked or waits for one that is."""
        parked = self.parked.get(recorded.conversation_id)
        if parked is not None and recorded.version >= parked.version:
            if recorded.event_id != parked.event_id:
                self.park(replace(parked, waiting=parked.waiting + 1))
            return True
        event = recorded.event
        if type(event) is UnknownEvent and (problem := event.problem):
            self.park(park(recorded, problem))
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
        replaced = [name for name, item in self._replaced.items() if item is not None]
        changed = [self.parked[name] for name in self._replaced if name in self.parked]
        store_parked(connection, self.lane.key, changed, replaced)
        update_rows(connection, schema.checkpoints, [self.lane.key | self.lane.encoded_totals()])

    def committed(self, position: int) -> None:
        """Go on from what `store` wrote."""
        self.lane.committed(position)
        self._replaced.clear()
        self._retried = ()


AnyLane: TypeAlias = LaneState[Any]
