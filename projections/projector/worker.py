"""`Worker`: applies the events of a log to one projection, each exactly once.

The rule:

1. The log gives each event of a lane a position, without gaps. A lane's checkpoint holds the
   position up to which its events are applied, and a revision.
2. A worker reads the checkpoint, then the next events of the lane, and folds them in memory.
3. One transaction advances the checkpoint from the revision that was read, first, and then writes
   what the fold changed. If the checkpoint has another revision by then, another worker was
   first: nothing is written, the memory is thrown away, and the batch begins again.
4. Rows that the fold needs are read only while the checkpoint has still the same revision. So a
   fold never mixes what two workers wrote.
5. Memory outlives a transaction only if that was committed. An interrupt, an error or a lost race
   throws it away.
6. An event that cannot be read, applied or stored is parked, with the later events of its
   conversation; the checkpoint passes over them. They are applied by `retry`, in a transaction
   that advances the revision and leaves the position. A database that is full, or takes no writes
   at all, parks nothing: that is raised.
7. A checkpoint has the anchor of the event there, of whatever tenant, as a cursor has. That event
   must still be in the log after the next ones were read: else they come from a log that was put
   back.

From this follow: an event is applied once, or parked once, whatever is killed and when (1, 3, 5).
Any number of workers may share a lane: of those that hold the same revision one wins (3, 4).
Batches of any size give the same tables, as a fold of a prefix and then of the rest gives the same
as a fold of the whole.

Why not lock the lane? A lock has to be given back by a process that was killed. A comparison has
nothing to give back, and only repeated work is lost.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice, takewhile
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from eventstore import Cursor, CursorLost, EventStore, Feed, LostPlace, Recorded, StorageError
from eventstore.domain.anchors import event_id_of, is_same
from projections.projector import schema
from projections.projector.database import LostRace, ProjectionDatabase, Refused, ServerLost
from projections.projector.generations import Definition, Generations, pause
from projections.projector.lane import LaneState, Poisoned
from projections.projector.parked import Parked, load_parked, park
from projections.projector.queries import select_rows
from projections.projector.settings import DEFAULT_SETTINGS, ProjectorSettings
from projections.projector.table_projection import TableProjection

_FAR = 2**62

MAX_LOST_WRITES = 3
"""Times in a row that a write may lose its connection before it counts as refused."""
_random = random.SystemRandom()

S = TypeVar("S")
T = TypeVar("T")


class Progress(msgspec.Struct, frozen=True):
    """How far a projection has come: `done` of `total` events."""

    done: int
    total: int


Report = Callable[[Progress], None]
Pages = Iterable[Sequence[Recorded]]


class Goal(NamedTuple):
    """Where a lane ended when work on it began, and the anchor of the event there."""

    position: int
    anchor: str


class Worker(Generic[S]):
    """Applies a log to one projection, `batch` events in a transaction.

    `name` is None for the built-in projections. They need the events' headers only.
    """

    def __init__(
        self,
        store: EventStore,
        database: ProjectionDatabase,
        projection: TableProjection[S],
        definition: Definition,
        *,
        name: str | None,
        batch: int,
        settings: ProjectorSettings = DEFAULT_SETTINGS,
    ) -> None:
        self.name = name
        self.generations = Generations(database, store, definition, settings)
        self._store = store
        self._database = database
        self._projection = projection
        self._definition = definition
        self._batch = batch
        self._settings = settings
        end = store.end()
        self._epoch = end.epoch
        self._other_lanes = dict.fromkeys((lane for lane, _ in end.positions), _FAR)
        self._lanes: dict[tuple[int, int], LaneState[S]] = {}

    def close(self) -> None:
        """Forget what is in memory."""
        self._lanes.clear()

    def catch_up(self, report: Report | None = None) -> int:
        """Apply what the log holds by now to the live generation; return how many events."""
        return self._advance(lambda: self.generations.live().id, report)

    def rebuild(self, report: Report | None = None) -> int:
        """Build a generation that then replaces the live one; return how many events it applied."""
        building = self.begin_rebuild()
        applied = self._build(building, report)
        self.generations.retry_lost_races(lambda: self.generations.switch(building))
        self.generations.clean()
        return applied

    def begin_rebuild(self) -> int:
        """Return the id of the generation that is being built; begin one if necessary."""
        self.generations.clean()
        return self.generations.begin()

    def help_rebuild(self) -> int:
        """Apply events to the generation that another worker builds; return how many."""
        building = self.generations.find("building")
        if building is None or not self._definition.is_of(building):
            return 0
        return self._build(building.id, None)

    def _build(self, building: int, report: Report | None) -> int:
        def generation() -> int | None:
            # Where it is retired, another worker has finished it, and a newer one after it.
            return None if self.generations.is_retired(building) else building

        return self._advance(generation, report)

    def retry(self, conversation_id: str | None = None) -> int:
        """Apply what is parked, of one conversation or all; return how many were applied."""
        applied = 0
        for item in self.parked():
            if conversation_id not in (None, item.conversation_id):
                continue
            with suppress(Refused):
                retry = partial(self._retry, item)
                applied += self.generations.retry_lost_races(partial(self._or_refused, retry))
        return applied

    def parked(self) -> list[Parked]:
        """Return what is parked in the live generation."""
        with self.generations.reading_live() as (connection, generation):
            found = load_parked(connection, {"projection": generation})
        for item in found:
            item.projection = self.name
        return found

    def positions(self) -> dict[int, int]:
        """Return the position of each lane's checkpoint in the live generation."""
        with self.generations.reading_live() as (connection, generation):
            columns, where = ("lane", "position"), {"projection": generation}
            return dict(map(tuple, select_rows(connection, schema.checkpoints, columns, where)))

    def _advance(self, generation: Callable[[], int | None], report: Report | None) -> int:
        """Work on every lane up to where the log ends now, while `generation` is not None."""
        end = self._store.end()
        anchors = dict(end.anchors)
        goals = {lane: Goal(at, anchors.get(lane, "")) for lane, at in end.positions}
        remaining = deque(goals)
        # Begin at another lane than other workers.
        remaining.rotate(_random.randrange(max(len(remaining), 1)))
        places = dict.fromkeys(goals, 0)
        applied = lost_races = 0
        while remaining:
            lane = remaining[0]
            try:
                current = generation()
                if current is None:
                    break
                count, places[lane] = self._forward(current, lane, goals[lane], self._batch)
            except LostRace as lost:
                lost_races += 1
                if lost_races > self._settings.max_lost_races:
                    raise StorageError(f"no batch could be stored ({lost}): try again") from lost
                pause()
                remaining.rotate(-1)
                continue
            lost_races = 0
            applied += count
            if report is not None:
                done = sum(min(places[at], goal.position) for at, goal in goals.items())
                report(Progress(done, sum(goal.position for goal in goals.values())))
            if places[lane] >= goals[lane].position:
                remaining.popleft()
        return applied

    def _forward(self, generation: int, lane: int, goal: Goal, limit: int) -> tuple[int, int]:
        """Apply the next events of a lane; return how many, and the position after them.

        Where the database refuses them, each half is tried by itself, down to the one event that
        is refused alone: that is parked. If even this is refused, no event is at fault.
        """
        apply = partial(self._apply, generation, lane, goal, limit)
        try:
            return self._or_refused(apply)
        except Refused as refused:
            self.generations.find("live")  # raises where the database does not answer
            problem = refused.problem
        if limit == 1:
            with suppress(Refused):  # perhaps the database was away for a moment
                return self._or_refused(apply)
            return self._apply(generation, lane, goal, limit, problem)
        first, _ = self._forward(generation, lane, goal, limit // 2)
        second, position = self._forward(generation, lane, goal, limit - limit // 2)
        return first + second, position

    def _or_refused(self, write: Callable[[], T]) -> T:
        """Return what `write` gives; one that loses its connection every time is refused.

        A server closes the connection of a write that is too large for it, and answers the next.
        """
        for _ in range(MAX_LOST_WRITES - 1):
            with suppress(ServerLost):
                return write()
        try:
            return write()
        except ServerLost as lost:
            raise self._database.refused(lost.reason) from lost

    def _apply(
        self, generation: int, lane: int, goal: Goal, limit: int, problem: str | None = None
    ) -> tuple[int, int]:
        """Apply events, or park them for a `problem`; return how many, and the position after."""

        def pages(state: LaneState[S]) -> Pages:
            position, last = state.lane.position, state.lane.totals.last
            if position > goal.position:  # perhaps another worker was faster
                self._check_end(lane, position, last)
            if goal.anchor and last[0] == goal.position and not is_same(last[1], goal.anchor):
                raise self._lost(_lost_place(lane, *last, goal.anchor))
            if position >= goal.position:
                return
            for events in self._pages(self._feed(lane, state.lane.position, limit)):
                if problem is not None:
                    parked = {r.conversation_id: park(r, problem) for r in events}
                    state.parked = parked | state.parked
                yield events
            self._check_event(lane, last)

        state, count, last = self._fold(generation, lane, pages)
        if state.lane.position >= goal.position:
            self._lanes[generation, lane] = state
            return 0, state.lane.position
        if count < limit and last < goal.position:
            # Positions after the last event, up to the goal, are those of other tenants.
            last = goal.position
            state.lane.totals.last = last, goal.anchor
        self._commit(generation, lane, state, last)
        return count, state.lane.position

    def _retry(self, item: Parked) -> bool:
        """Apply a parked event and those that wait for it; return whether none is left."""

        def pages(state: LaneState[S]) -> Pages:
            if state.parked.pop(item.conversation_id, None) is None:
                return ()
            events = self._store.conversation(item.conversation_id).events(after=item.version - 1)
            end = state.lane.position
            return self._in_pages(takewhile(lambda recorded: recorded.position <= end, events))

        generation = self.generations.live().id
        state, _, _ = self._fold(generation, item.lane, pages)
        self._commit(generation, item.lane, state, state.lane.position)
        return item.conversation_id not in state.parked

    def _fold(
        self, generation: int, lane: int, pages: Callable[[LaneState[S]], Pages]
    ) -> tuple[LaneState[S], int, int]:
        """Fold events into the lane's state; return it, how many, and the last one's position.

        If the projection raises, the fold begins again event by event, so that the one at fault
        is found and parked.
        """
        poison: dict[str, Parked] = {}
        one_by_one = False
        while True:
            state = self._take_lane(generation, lane)
            found = pages(state)
            for name, item in poison.items():
                state.parked[name] = msgspec.structs.replace(item)
            count, last = 0, state.lane.position
            try:
                for page in found:
                    for events in ([recorded] for recorded in page) if one_by_one else (page,):
                        state.apply(events)
                    count += len(page)
                    last = page[-1].position
            except Poisoned as poisoned:
                one_by_one = True
                if len(poisoned.events) == 1:
                    (event,) = poisoned.events
                    poison[event.conversation_id] = park(event, str(poisoned))
                continue
            return state, count, last

    def _take_lane(self, generation: int, lane: int) -> LaneState[S]:
        # It leaves the cache while it changes: an interrupt leaves nothing half done there.
        state = self._lanes.pop((generation, lane), None)
        if state is None:
            # What a generation that was replaced left there is of no use any more.
            self._lanes = {at: kept for at, kept in self._lanes.items() if at[0] == generation}
            state = LaneState(self._database, generation, lane, self._projection, self._events_of)
        return state

    def _events_of(self, conversation_id: str) -> Iterator[Recorded]:
        return self._store.conversation(conversation_id).events()

    def _commit(self, generation: int, lane: int, state: LaneState[S], position: int) -> None:
        with self._database.writing() as connection:
            state.store(connection, position)
        state.committed(position)
        self._lanes[generation, lane] = state

    def _feed(
        self, lane: int, after: int, limit: int, anchors: tuple[tuple[int, str], ...] = ()
    ) -> Feed:
        """Return the next events of one lane."""
        positions = tuple((self._other_lanes | {lane: after}).items())
        return self._store.read(Cursor(self._epoch, positions, anchors), limit)

    def _pages(self, feed: Feed) -> Pages:
        return feed.outlines() if self.name is None else self._in_pages(feed)

    def _in_pages(self, events: Iterable[Recorded]) -> Pages:
        remaining = iter(events)
        return iter(lambda: list(islice(remaining, self._settings.page_events)), [])

    def _check_end(self, lane: int, position: int, last: tuple[int, str]) -> None:
        """Refuse a log that ends before what was projected."""
        if position > dict(self._store.end().positions).get(lane, 0):
            kept = last[1] if last[0] == position else None
            raise self._lost(_lost_place(lane, position, kept, None))

    def _check_event(self, lane: int, last: tuple[int, str]) -> None:
        """Refuse a log without the event that was projected last, after the next were read."""
        at, kept = last
        try:
            next(self._feed(lane, at, 0, ((lane, kept),) if at else ()), None)
        except CursorLost as lost:
            raise self._lost(*lost.lost) from None

    def _lost(self, *places: LostPlace) -> CursorLost:
        """Return the error of tables that are ahead of a log which was put back."""
        remedy = f"the tables were not put back: {self._definition.remedy}"
        return CursorLost(places, str(Cursor(self._epoch)), remedy)


def _lost_place(lane: int, position: int, kept: str | None, found: str | None) -> LostPlace:
    return LostPlace(lane, position, event_id_of(kept), event_id_of(found))


AnyWorker = Worker[Any]
