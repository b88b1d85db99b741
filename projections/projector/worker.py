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
   conversation; the checkpoint passes over them. They are applied by `retry`, in transactions
   that advance the revision and leave the position. A database that is full, or takes no writes
   at all, parks nothing: that is raised. How the events at fault are found: `sift` where the
   projection raises, by halves where the database refuses (`_forward`).
7. That the events come from the log as it was is looked at after they were read (`ProjectedLog`).

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
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain, islice, takewhile
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from eventstore import EventStore, Recorded, StorageError
from projections.projector import schema
from projections.projector.database import LostRace, ProjectionDatabase, Refused, ServerLost
from projections.projector.generations import Definition, Generations, pause
from projections.projector.lane import LaneState, Poisoned
from projections.projector.parked import Parked, load_parked, park
from projections.projector.projected_log import Goal, Pages, ProjectedLog
from projections.projector.queries import select_rows
from projections.projector.settings import DEFAULT_SETTINGS, ProjectorSettings
from projections.projector.sift import sift
from projections.projector.table_projection import TableProjection

MAX_LOST_WRITES = 3
"""Times in a row that a write may lose its connection before it counts as refused."""

RETRIED_EVENTS = 100
"""Events of several conversations that a transaction retries at most."""

_random = random.SystemRandom()

S = TypeVar("S")
T = TypeVar("T")


class Progress(msgspec.Struct, frozen=True):
    """How far a projection has come: `done` of `total` events."""

    done: int
    total: int


Report = Callable[[Progress], None]


class Done(NamedTuple):
    """How many events were applied or parked, and the lane's position after them."""

    events: int
    position: int


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
        self._log = ProjectedLog(
            store, settings.page_events, headers_only=name is None, remedy=definition.remedy
        )
        self._database = database
        self._projection = projection
        self._definition = definition
        self._batch = batch
        self._settings = settings
        self._lanes: dict[tuple[int, int], LaneState[S]] = {}
        self._applied = 0
        """Events that were applied or parked, and stored."""

    def close(self) -> None:
        """Forget what is in memory."""
        self._lanes.clear()

    def catch_up(self, report: Report | None = None) -> int:
        """Apply what the log holds by now to the live generation; return how many events."""
        return self._advance(lambda: self.generations.live().id, report)

    def rebuild(self, report: Report | None = None, *, replace_newer: bool = False) -> int:
        """Build a generation that then replaces the live one; return how many events it applied.

        Raises:
            OtherVersion: a later version's is there, and is not to be replaced.
        """
        building = self.begin_rebuild(replace_newer=replace_newer)
        applied = self._build(building, report)
        switch = partial(self.generations.switch, building, replace_newer=replace_newer)
        self.generations.retry_lost_races(switch)
        self.generations.clean()
        return applied

    def begin_rebuild(self, *, replace_newer: bool = False) -> int:
        """Return the id of the generation that is being built; begin one if necessary."""
        self.generations.clean()
        return self.generations.begin(replace_newer=replace_newer)

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
        self.generations.live()
        wanted = [item for item in self.parked() if conversation_id in (None, item.conversation_id)]
        return sum(map(self._retry_all, _groups(wanted)))

    def _retry_all(self, items: Sequence[Parked]) -> int:
        """Retry what is parked in one lane; where the database refuses, in halves."""
        retry = partial(self._or_refused, partial(self._retry, items))
        try:
            return self.generations.retry_lost_races(retry)
        except Refused:
            if len(items) == 1:
                return 0
        half = len(items) // 2
        return self._retry_all(items[:half]) + self._retry_all(items[half:])

    def parked(self) -> list[Parked]:
        """Return what is parked in the live generation, whichever version made it."""
        with self.generations.reading_any() as (connection, generation):
            found = load_parked(connection, {"projection": generation})
        for item in found:
            item.projection = self.name
        return found

    def positions(self) -> dict[int, int]:
        """Return the position of each lane's checkpoint in the live generation, of any version."""
        with self.generations.reading_any() as (connection, generation):
            columns, where = ("lane", "position"), {"projection": generation}
            return dict(map(tuple, select_rows(connection, schema.checkpoints, columns, where)))

    def _advance(self, generation: Callable[[], int | None], report: Report | None) -> int:
        """Work on every lane up to where the log ends now, while `generation` is not None."""
        goals = self._log.goals()
        remaining = deque(goals)
        # Begin at another lane than other workers.
        remaining.rotate(_random.randrange(max(len(remaining), 1)))
        places = dict.fromkeys(goals, 0)
        before, lost_races = self._applied, 0
        while remaining:
            lane = remaining[0]
            try:
                current = generation()
                if current is None:
                    break
                places[lane] = self._forward(current, lane, goals[lane], self._batch)
            except LostRace as lost:
                lost_races += 1
                if lost_races > self._settings.max_lost_races:
                    raise StorageError(f"no batch could be stored ({lost}): try again") from lost
                pause()
                remaining.rotate(-1)
                continue
            lost_races = 0
            if report is not None:
                done = sum(min(places[at], goal.position) for at, goal in goals.items())
                report(Progress(done, sum(goal.position for goal in goals.values())))
            if places[lane] >= goals[lane].position:
                remaining.popleft()
        return self._applied - before

    def _forward(self, generation: int, lane: int, goal: Goal, limit: int) -> int:
        """Apply the next events of a lane; return the position after them.

        Where the database refuses them, parts are tried by themselves: halves of what was refused,
        down to the one event that is refused alone, and after it as many as were taken before it.
        That event is parked. If even this is refused, no event is at fault.
        """
        apply = partial(self._apply, generation, lane, goal)
        try:
            return self._or_refused(partial(apply, limit)).position
        except Refused:
            self.generations.find("live")  # raises where the database does not answer
        failing, size, taken = limit, max(limit // 2, 1), 0
        while True:
            try:
                done = self._or_refused(partial(apply, size))
            except Refused as refused:
                if size > 1:
                    failing, size = size, size // 2
                    continue
                done = self._park_refused(apply, refused.problem)
                failing, size, taken = 0, max(taken, 1), 0
            else:
                taken += done.events
                failing = max(failing - size, 0)
                size = max(failing // 2, 1) if failing else 2 * size
            limit -= done.events
            if limit <= 0 or done.position >= goal.position:
                return done.position
            size = min(size, limit)

    def _park_refused(self, apply: Callable[..., Done], problem: str) -> Done:
        with suppress(Refused):  # perhaps the database was away for a moment
            return self._or_refused(partial(apply, 1))
        self.generations.find("live")
        return apply(1, problem)

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
    ) -> Done:
        """Apply the next events of a lane, or park them for a `problem`, and store them."""
        with self._taken(generation, lane) as state:
            count, last = 0, state.lane.position
            try:
                for page in self._next(state, goal, limit):
                    for recorded in page if problem is not None else ():
                        if recorded.conversation_id not in state.parked:
                            state.park(park(recorded, problem or ""))
                    state.apply(page)
                    count += len(page)
                    last = page[-1].position
            except Poisoned:
                state.reset()
                return self._apply_in_parts(state, goal, limit)
            self._store_up_to(state, goal, count, last, is_end=count < limit)
            return Done(count, state.lane.position)

    def _apply_in_parts(self, state: LaneState[S], goal: Goal, limit: int) -> Done:
        """Apply the next events of a lane, some of which the projection raises on."""
        count, is_end = 0, False
        while count < limit and not is_end:
            size = min(limit - count, self._settings.page_events)
            # All of them are read, and the log is checked after that, before any is stored.
            page = [*chain.from_iterable(self._next(state, goal, size))]
            is_end = len(page) < size
            stored = 0
            for good in sift(state, page):
                last = page[good - 1].position if good else state.lane.position
                at_end = is_end and good == len(page)
                self._store_up_to(state, goal, good - stored, last, is_end=at_end)
                stored = good
            count += len(page)
        return Done(count, state.lane.position)

    def _next(self, state: LaneState[S], goal: Goal, limit: int) -> Pages:
        lane = state.lane
        return self._log.following(state.number, lane.position, lane.totals.last, goal, limit)

    def _store_up_to(
        self, state: LaneState[S], goal: Goal, count: int, last: int, *, is_end: bool
    ) -> None:
        """Store a lane up to its last event; at the log's end, up to the goal."""
        if state.lane.position >= goal.position:
            return
        if is_end and last < goal.position:
            # Positions after the last event, up to the goal, are those of other tenants.
            last = goal.position
            state.lane.totals.last = last, goal.anchor
        self._commit(state, last)
        self._applied += count

    def _retry(self, items: Sequence[Parked]) -> int:
        """Apply parked events of a lane, and those that wait; return how many conversations."""
        with self._taken(self.generations.live().id, items[0].lane) as state:
            names = [item.conversation_id for item in items if item.conversation_id in state.parked]
            left = {name: self._events_from(state, state.parked[name]) for name in names}
            while left:
                left = self._retry_page(state, left)
            return sum(item.conversation_id not in state.parked for item in items)

    def _events_from(self, state: LaneState[S], item: Parked) -> Iterator[Recorded]:
        """Yield a parked event and those that wait for it, up to where the lane is."""
        end = state.lane.position
        events = self._log.conversation(item.conversation_id, after=item.version - 1)
        return takewhile(lambda recorded: recorded.position <= end, events)

    def _retry_page(
        self, state: LaneState[S], left: dict[str, Iterator[Recorded]]
    ) -> dict[str, Iterator[Recorded]]:
        """Apply a page of each conversation; return those of which events are left.

        Of these the next event is parked until it has its turn.
        """
        items = {name: state.parked[name] for name in left}
        pages = {name: [*islice(left[name], self._settings.page_events)] for name in left}
        state.retry(left)
        events = [*chain.from_iterable(pages.values())]
        for _ in sift(state, events, len(events) + 1):
            pass  # it is stored in one go: in between a conversation would be half applied
        more: dict[str, Iterator[Recorded]] = {}
        for name in left.keys() - state.parked.keys():
            following = next(left[name], None)
            if following is not None:
                more[name] = chain([following], left[name])
                waiting = items[name].waiting - len(pages[name])
                state.park(replace(park(following, items[name].problem), waiting=waiting))
        self._commit(state, state.lane.position)
        return more

    @contextmanager
    def _taken(self, generation: int, lane: int) -> Generator[LaneState[S]]:
        """Give what memory holds of a lane, which is kept for later if nothing is raised.

        It leaves the cache while it changes: an interrupt leaves nothing half done there.
        """
        state = self._lanes.pop((generation, lane), None)
        if state is None:
            # What a generation that was replaced left there is of no use any more.
            self._lanes = {at: kept for at, kept in self._lanes.items() if at[0] == generation}
            read = self._log.conversation
            state = LaneState(self._database, generation, lane, self._projection, read)
        try:
            yield state
        except Refused:
            state.retry(())  # what is stored is known: all that is parked is not loaded again
            self._lanes[generation, lane] = state
            raise
        self._lanes[generation, lane] = state

    def _commit(self, state: LaneState[S], position: int) -> None:
        with self._database.writing() as connection:
            state.store(connection, position)
        state.committed(position)


def _groups(items: Iterable[Parked]) -> Iterator[list[Parked]]:
    """Yield what is parked in parts that are retried in one transaction, each of one lane.

    What fails again has all of its part applied again, so the parts have few events.
    """
    group: list[Parked] = []
    events = 0
    for item in items:
        events += 1 + item.waiting
        if group and (events > RETRIED_EVENTS or item.lane != group[0].lane):
            yield group
            group, events = [], 1 + item.waiting
        group.append(item)
    if group:
        yield group


AnyWorker = Worker[Any]
