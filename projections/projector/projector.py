"""`Projector`: what feeds the materialised projections from the log, and what is read of them."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec

from eventstore import Cursor, EventStore, Feed, Lag, Recorded, SchemaTooNew, StorageError, Tool
from projections.approvals import PendingApproval, order
from projections.figures import KindNumbers, Statistics, ToolNumbers
from projections.projector import tables
from projections.projector.lane import PARKED, LaneState, Parked, Poisoned, Settings, park
from projections.projector.stored_statistics import Bucket, read_buckets, read_statistics, summed
from projections.projector.stored_tools import tools_of
from projections.projector.tables import Database, LostRace, Refused
from projections.statistics import FINGERPRINTS

if TYPE_CHECKING:
    from types import TracebackType

    from sqlalchemy import Connection, Table

HOUR = 3_600_000_000
FORMAT = 2
"""What the tables hold, and how; an older format is built anew, a newer one left alone."""

REMEDY = (
    "rebuild them: Projector(store, url).rebuild() or `toolledger stats --tables URL --rebuild`"
)

VIEWS = ("statistics", "tools")
CHUNK = 1_000
"""Parked events that are read in one go."""

PAGE = 1_000
STATUSES = ("Pending", "Approved", "Running", "Completed", "Failed", "Rejected")

_FAR = 2**62
_PATIENCE = 1_000


class Progress(msgspec.Struct, frozen=True):
    """How far a projection has come: `done` of `total` events."""

    done: int
    total: int


class TimeBucket(msgspec.Struct, frozen=True):
    """What became of the calls that were asked for from `start` to before `end`."""

    start: datetime
    end: datetime
    overall: ToolNumbers
    by_tool: dict[str, ToolNumbers]
    by_kind: dict[str, KindNumbers]


class _Generation(msgspec.Struct, frozen=True):
    """One projection of one log: the live one, or the one that is being built."""

    id: int
    format: int
    views: str
    bucket: int


T = TypeVar("T")
Report = Callable[[Progress], None]
Pages = Iterable[Sequence[Recorded]]


class Projector:
    """Keeps current tools, pending approvals and error statistics of a log in SQL tables.

    The tables are prefixed `toolledger_`; they are created when they are not there, in the
    database at `url`, which may be the log's own (so without `url`) or another one. What is
    projected is committed together with how far it is, `batch` events at a time, so each event
    is applied exactly once, whatever is killed and when. Any number of projectors, in as many
    processes, may work on one log: they share its lanes. A projector itself is used by one
    thread at a time. In a SQLite file others cannot write while a batch is stored: beside the
    log a smaller `batch` keeps them waiting for less.

    `views` says what is kept, `bucket` how long a time bucket of the statistics is, in seconds:
    where they are not given, as what is there was made, else everything, and an hour.
    `fingerprints` is how many fingerprints are told apart.

    Raises:
        ValueError: an argument makes no sense.
        StorageError: the database cannot be used.
        SchemaTooNew: a newer version of the library made the tables.
    """

    def __init__(
        self,
        store: EventStore,
        url: str | None = None,
        *,
        views: Sequence[str] | None = None,
        bucket: int | None = None,
        batch: int = 10_000,
        fingerprints: int = FINGERPRINTS,
    ) -> None:
        if views is not None and (not views or set(views) - set(VIEWS)):
            raise ValueError(f"views are {tuple(views)!r}: pass some of {', '.join(VIEWS)}")
        for name, number in (("bucket", bucket), ("batch", batch), ("fingerprints", fingerprints)):
            if number is not None and (type(number) is not int or number < 1):
                raise ValueError(f"{name} is {number!r}: pass 1 or more")
        self._store = store
        end = store.end()
        self._epoch = end.epoch
        self._owner = tables.key_of(store.tenant, end.epoch)
        self._batch = batch
        self._states: dict[tuple[int, int], LaneState] = {}
        self._database = Database(store.url if url is None else url)
        try:
            live = self._find("live")
        except BaseException:
            self.close()
            raise
        self._settings = Settings(
            tuple(sorted(set(views))) if views else tuple(live.views.split(",")) if live else VIEWS,
            bucket * 1_000_000 if bucket else live.bucket if live else HOUR,
            max(fingerprints // max(len(end.positions), 1), 1),
        )

    def close(self) -> None:
        """Give up the connections; the store stays open."""
        self._states.clear()
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # keeping up

    def catch_up(self, progress: Report | None = None) -> int:
        """Apply what the log holds by now; how many events that was, by this projector's work.

        `progress` is called after each batch.
        """
        return self._advance(lambda: self._live().id, progress)

    def rebuild(self, progress: Report | None = None) -> int:
        """Build all of it anew, beside what is there, and put it in its place at the end.

        What is there stays readable, and is kept up by other projectors, until then. Several
        may build at once; a rebuild that was broken off goes on.
        """
        self._clean()
        building = _insist(self._begin)

        def which() -> int | None:
            with self._database.reading() as connection:
                rows = tables.find(connection, tables.projections, ("state",), id=building)
            # Replaced already, it was finished by another, who has begun after us and is done.
            return building if rows and not rows[0][0].startswith("retired") else None

        applied = self._advance(which, progress)
        _insist(lambda: self._switch(building))
        self._clean()
        return applied

    def retry(self, conversation_id: str | None = None) -> int:
        """Apply what was parked, of one conversation or of all; how many are parked no more.

        An event that fails again stays parked, with those behind it.
        """
        mended = 0
        for item in self.parked():
            if conversation_id not in (None, item.conversation_id):
                continue
            with suppress(Refused):
                mended += _insist(partial(self._retry, item))
        return mended

    def lag(self) -> Lag:
        """How far the tables are behind the log."""
        with self._reading() as (connection, projection):
            columns = ("lane", "position")
            rows = tables.find(connection, tables.checkpoints, columns, projection=projection)
        place = Cursor(self._epoch, tuple((lane, position) for lane, position in rows))
        return self._store.follow(place).lag()

    # reading

    def tools(
        self, conversation_id: str | None = None, status: str | None = None
    ) -> Iterator[tuple[str, Tool]]:
        """The calls as they stood after the last event applied, each with its conversation.

        Of one conversation, or of all; of one status (`"pending"`), or of any; in bounded memory.
        """
        self._needs("tools")
        given: dict[str, Any] = {}
        if status is not None:
            given["status"] = status.capitalize()
            if given["status"] not in STATUSES:
                known = ", ".join(STATUSES).lower()
                raise ValueError(f"status is {status!r}: pass one of {known}")
        return self._tools(conversation_id, given)

    def pending_approvals(self) -> list[PendingApproval]:
        """The calls that wait for a person, the longest first; see `pending_approvals`."""
        self._needs("tools")
        found = [
            PendingApproval.of(name, tool)
            for name, tool in self._tools(None, {"status": "Pending", "imported": 0})
        ]
        return sorted(found, key=order)

    def statistics(self) -> Statistics:
        """The error statistics of the whole log; see `error_statistics`.

        Percentiles are within 1/128 of the true values.
        """
        self._needs("statistics")
        with self._reading() as (connection, projection):
            return read_statistics(connection, projection)

    def timeline(
        self,
        since: datetime | None = None,
        until: datetime | None = None,
        every: timedelta | None = None,
    ) -> list[TimeBucket]:
        """The error statistics over time, where calls were asked for; the oldest come first.

        A call counts where it was asked for, whenever it ended. `every` joins buckets: it is a
        multiple of theirs. Buckets are whole: also those that `since` and `until` fall into.

        Raises:
            ValueError: a time has no time zone, or `every` is no multiple.
        """
        self._needs("statistics")
        width = self._settings.bucket
        step = width if every is None else every // timedelta(microseconds=1)
        if step < width or step % width:
            raise ValueError(
                f"every is {every}: pass a multiple of the buckets of {width // 1_000_000} s"
            )
        first = None if since is None else max(_micros(since) // step * step, -_FAR)
        last = None if until is None else min(-(-_micros(until) // step) * step, _FAR)
        with self._reading() as (connection, projection):
            buckets = read_buckets(connection, projection, first, last)
        joined: dict[int, list[Bucket]] = {}
        for bucket in buckets:
            joined.setdefault(bucket.starts_at // step * step, []).append(bucket)
        return [_time_bucket(start, step, joined[start]) for start in sorted(joined)]

    def parked(self) -> list[Parked]:
        """The events that could not be projected; each holds up its own conversation only."""
        with self._reading() as (connection, projection):
            order = ("lane", "position")
            rows = tables.find(connection, tables.parked, PARKED, order, projection=projection)
        return [Parked(*row) for row in rows]

    # the work

    def _advance(self, which: Callable[[], int | None], progress: Report | None) -> int:
        """Work on every lane until it is where the log ends now; `which` is None: no further."""
        goals = dict(self._store.end().positions)
        left = deque(goals)
        # Not where the others begin.
        left.rotate(random.randrange(max(len(left), 1)))  # noqa: S311
        places = dict.fromkeys(goals, 0)
        applied = losses = 0
        while left:
            lane = left[0]
            try:
                projection = which()
                if projection is None:
                    break
                count, places[lane] = self._forward(projection, lane, goals[lane], self._batch)
            except LostRace as lost:
                losses += 1
                if losses > _PATIENCE:
                    raise StorageError(f"no batch got through: {lost}; try again") from lost
                time.sleep(random.random() / 100)  # noqa: S311
                left.rotate(-1)
                continue
            losses = 0
            applied += count
            if progress is not None:
                done = sum(min(places[at], goal) for at, goal in goals.items())
                progress(Progress(done, sum(goals.values())))
            if places[lane] >= goals[lane]:
                left.popleft()
        return applied

    def _forward(self, projection: int, lane: int, goal: int, limit: int) -> tuple[int, int]:
        """Apply the next events of a lane; how many, and where that leads.

        Where the database refuses them, it is asked again for each half: an event that it does
        not take by itself is parked. If it does not take even that, nothing is wrong with events.
        """
        try:
            return self._apply(projection, lane, goal, limit)
        except Refused as refused:
            self._find("live")  # it answers
            problem = f"the database does not take it: {refused.reason}"
        if limit == 1:
            with suppress(Refused):  # perhaps it was gone for a moment
                return self._apply(projection, lane, goal, limit)
            return self._apply(projection, lane, goal, limit, problem)
        first, _ = self._forward(projection, lane, goal, limit // 2)
        second, position = self._forward(projection, lane, goal, limit - limit // 2)
        return first + second, position

    def _apply(
        self, projection: int, lane: int, goal: int, limit: int, problem: str | None = None
    ) -> tuple[int, int]:
        """Apply events, or park them for a `problem`; how many, and where that leads."""

        def events(state: LaneState) -> Pages:
            self._check_log(lane, state, goal)
            if state.position >= goal:
                return
            for some in self._feed(lane, state.position, limit).outlines():
                if problem is not None:
                    state.parked = {
                        r.conversation_id: park(r, problem) for r in some
                    } | state.parked
                yield some

        state, count, last = self._fold(projection, lane, events)
        if state.position >= goal:
            self._states[projection, lane] = state
            return 0, state.position
        # What was passed over behind the last one is of other tenants.
        self._commit(state, max(last, goal) if count < limit else last)
        return count, state.position

    def _retry(self, item: Parked) -> bool:
        """Apply an event and those behind it; whether all could be."""

        def events(state: LaneState) -> Pages:
            if state.parked.pop(item.conversation_id, None) is None:
                return ()
            chat = self._store.conversation(item.conversation_id)
            source = takewhile(
                lambda recorded: recorded.position <= state.position,
                chat.events(after=item.version - 1),
            )
            return iter(lambda: list(islice(source, CHUNK)), [])

        state, _, _ = self._fold(self._live().id, item.lane, events)
        self._commit(state, state.position)
        return item.conversation_id not in state.parked

    def _fold(
        self, projection: int, lane: int, events: Callable[[LaneState], Pages]
    ) -> tuple[LaneState, int, int]:
        """The lane's state after some events, how many they are, and the last one's position."""
        poison: dict[str, Parked] = {}
        while True:
            state = self._state(projection, lane)
            pages = events(state)
            for name, item in poison.items():
                state.parked[name] = msgspec.structs.replace(item)
            count, last = 0, state.position
            try:
                for some in pages:
                    state.prepare(some)
                    state.take(some)
                    count += len(some)
                    last = some[-1].position
            except Poisoned as found:
                # What it may have left half done is thrown away, and all but it done again.
                poison[found.parked.conversation_id] = found.parked
                continue
            return state, count, last

    def _state(self, projection: int, lane: int) -> LaneState:
        # Out of the cache while it changes: who is interrupted leaves nothing half done there.
        state = self._states.pop((projection, lane), None)
        if state is None:
            # Of a projection that was replaced nothing is wanted any more.
            self._states = {at: s for at, s in self._states.items() if at[0] == projection}
            state = LaneState(self._database, projection, lane, self._settings)
        return state

    def _commit(self, state: LaneState, position: int) -> None:
        with self._database.writing() as connection:
            state.store(connection, position)
        if state.stored(position):
            self._states[state.at["projection"], state.at["lane"]] = state

    def _feed(self, lane: int, after: int, limit: int) -> Feed:
        """The next events of one lane."""
        others = dict.fromkeys((n for n, _ in self._store.end().positions), _FAR)
        positions = tuple(sorted((others | {lane: after}).items()))
        return self._store.read(Cursor(self._epoch, positions), limit)

    def _check_log(self, lane: int, state: LaneState, goal: int) -> None:
        """Refuse a log that does not hold what was projected."""
        head = dict(self._store.end().positions).get(lane, 0)
        lost = state.position > head
        at, event_id = state.last
        if at and goal > state.position:
            lost = [r.event_id for r in self._feed(lane, at - 1, 1)] != [event_id]
        if lost:
            raise StorageError(
                f"the projection is at position {state.position} of lane {lane}, and the log, "
                f"which ends at {head}, does not hold what was projected there: it was restored "
                f"from an older copy, not the tables; {REMEDY}"
            )

    # generations

    def _live(self) -> _Generation:
        """The projection that is read and kept up; made where there is none.

        Raises:
            ValueError: it was made with other settings.
            StorageError: it was made by another version of the library.
        """
        found = self._find("live") or _insist(lambda: self._create("live"))
        self._check(found)
        return found

    def _begin(self) -> int:
        """The projection that is being built, with our settings."""
        found = self._find("building")
        if found is not None and not self._is_mine(found):
            with self._database.writing() as connection:
                _move(connection, found.id, "building", f"retired {found.id}")
            found = None
        return (found or self._create("building")).id

    def _check(self, found: _Generation) -> None:
        if found.format != FORMAT:
            raise StorageError(
                f"{self._database.name}: another version of toolledger made the tables (format "
                f"{found.format}, not {FORMAT}); {REMEDY}"
            )
        if not self._is_mine(found):
            raise ValueError(
                f"the projection was made with views {found.views} and buckets of "
                f"{found.bucket // 1_000_000} s, not with {','.join(self._settings.views)} and "
                f"{self._settings.bucket // 1_000_000} s: pass the same, or rebuild() it with these"
            )

    def _is_mine(self, found: _Generation) -> bool:
        settings = (FORMAT, ",".join(self._settings.views), self._settings.bucket)
        return (found.format, found.views, found.bucket) == settings

    def _find(self, state: str, connection: Connection | None = None) -> _Generation | None:
        if connection is None:
            with self._database.reading() as opened:
                return self._find(state, opened)
        columns = ("id", "format", "views", "bucket")
        rows = tables.find(connection, tables.projections, columns, owner=self._owner, state=state)
        if not rows:
            return None
        found = _Generation(*rows[0])
        if found.format > FORMAT:
            raise SchemaTooNew(
                f"{self._database.name}: a newer version of toolledger made the tables (format "
                f"{found.format}, this one knows {FORMAT}): upgrade toolledger, or keep the "
                "projections of this one in another database"
            )
        return found

    def _create(self, state: str) -> _Generation:
        views = ",".join(self._settings.views)
        lanes = [lane for lane, _ in self._store.end().positions]
        with self._database.writing() as connection:
            found = self._find(state, connection)
            if found is not None:
                return found
            made = _Generation(
                tables.highest(connection, tables.projections.c.id) + 1, FORMAT, views,
                self._settings.bucket,
            )  # fmt: skip
            row = msgspec.structs.asdict(made) | {
                "owner": self._owner, "state": state, "tenant": tables.storable(self._store.tenant),
                "epoch": self._epoch, "created_at": time.time_ns() // 1000,
            }  # fmt: skip
            tables.add(connection, tables.projections, [row])
            start = {"projection": made.id, "position": 0, "revision": 0, "totals": "{}"}
            rows = [start | {"lane": lane} for lane in lanes]
            tables.add(connection, tables.checkpoints, rows)
        return made

    def _switch(self, building: int) -> None:
        """Make what was built the live one, if another has not."""
        with self._database.writing() as connection:
            found = self._find("building", connection)
            if found is None or found.id != building:
                return
            live = self._find("live", connection)
            if live is not None:
                _move(connection, live.id, "live", f"retired {live.id}")
            _move(connection, building, "building", "live")

    def _clean(self) -> None:
        """Remove what was replaced, some rows at a time: others write meanwhile."""
        with self._database.reading() as connection:
            rows = tables.find(connection, tables.projections, ("id", "state"), owner=self._owner)
        for projection in (number for number, state in rows if state.startswith("retired")):
            for table in tables.STATES:
                while _insist(partial(self._remove, table, projection)):
                    pass
            with self._database.writing() as connection:
                tables.remove(connection, tables.projections, id=projection)

    def _remove(self, table: Table, projection: int) -> bool:
        with self._database.writing() as connection:
            return tables.remove_some(connection, table, projection)

    # reading, all at one moment

    @contextmanager
    def _reading(self) -> Iterator[tuple[Connection, int]]:
        self._live()  # else there is nothing to read
        with self._database.reading() as connection:
            found = self._find("live", connection)
            if found is None:
                raise StorageError("the projection was removed meanwhile: try again")
            yield connection, found.id

    def _needs(self, view: str) -> None:
        if view not in self._settings.views:
            kept = ", ".join(self._settings.views)
            raise ValueError(f"the {view} are not projected, only {kept}: pass views with them")

    def _tools(
        self, conversation_id: str | None, given: dict[str, Any]
    ) -> Iterator[tuple[str, Tool]]:
        after: tuple[int, int] = (-1, 0)
        columns = ("conversation_id", "body", "lane", "position")
        while True:
            with self._reading() as (connection, projection):
                where = given | {"projection": projection}
                if conversation_id is not None:
                    key = tables.key_of(conversation_id)
                    names = ("lane", "conversation")
                    found = tables.find(
                        connection, tables.streams, names, projection=projection, key=key
                    )
                    if not found:
                        return
                    where |= {"lane": found[0][0], "conversation": found[0][1]}
                rows = tables.find(
                    connection, tables.calls, columns, ("lane", "position"), PAGE, after, **where
                )
            yield from tools_of([row[:2] for row in rows])
            if len(rows) < PAGE:
                return
            after = rows[-1][2], rows[-1][3]


def _insist(attempt: Callable[[], T]) -> T:
    """What comes of an attempt; where others are first, it is made again."""
    for _ in range(_PATIENCE):
        try:
            return attempt()
        except LostRace as found:
            lost = found
            time.sleep(random.random() / 100)  # noqa: S311
    raise StorageError(f"others were always first: {lost}; try again")


def _move(connection: Connection, projection: int, before: str, after: str) -> None:
    if not tables.turn(connection, projection, before, after):
        raise LostRace(f"projection {projection} is not {before} any more")


def _micros(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} has no time zone: pass for example datetime.now(UTC)")
    return (moment - _EPOCH) // timedelta(microseconds=1)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def _time_bucket(start: int, width: int, buckets: Iterable[Bucket]) -> TimeBucket:
    numbers = summed(buckets)
    return TimeBucket(
        _moment(start), _moment(start + width), numbers.overall, numbers.by_tool, numbers.by_kind
    )


def _moment(microseconds: int) -> datetime:
    """A time, as near as a calendar has it."""
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:  # in a log made by hand
        return _FIRST if microseconds < 0 else _LAST
