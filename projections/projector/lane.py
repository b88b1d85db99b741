"""One lane of a log, as it is projected: what it holds at hand, and how it takes events in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import length_hint
from typing import TYPE_CHECKING

import msgspec

from eventstore import Recorded, UnknownEvent
from projections.fold import unreadable
from projections.projector.stored_statistics import StoredStatistics, Totals
from projections.projector.stored_tools import StoredTools
from projections.projector.streams import Stream, load_streams, store_streams
from projections.projector.tables import (
    Database,
    LostRace,
    Row,
    add,
    advance,
    change,
    checkpoints,
    find,
    key_of,
    parked,
    remove,
    storable,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection

AT_HAND = 200_000
"""So many things a lane remembers before it forgets them; all are in the tables."""

PARKED = (
    "lane", "conversation_id", "version", "position", "event_id", "recorded_at", "tag", "problem",
    "waiting",
)  # fmt: skip


class Parked(msgspec.Struct, gc=False):
    """An event that could not be projected, and how many of its conversation wait behind it."""

    lane: int
    conversation_id: str
    version: int
    position: int
    event_id: str
    recorded_at: int
    tag: str
    problem: str
    waiting: int = 0

    def __str__(self) -> str:
        waiting = f", {self.waiting:,} later events wait behind it" if self.waiting else ""
        return f"{self.conversation_id!r} version {self.version}: {self.problem}{waiting}"


class Poisoned(Exception):
    """An event that a projection cannot take in."""

    def __init__(self, parked: Parked) -> None:
        super().__init__(str(parked))
        self.parked = parked


class Settings(msgspec.Struct, frozen=True):
    """What a projection is made with."""

    views: tuple[str, ...]
    bucket: int
    fingerprints: int


def park(recorded: Recorded, problem: str) -> Parked:
    """The event, parked."""
    return Parked(
        recorded.lane, recorded.conversation_id, recorded.version, recorded.position,
        recorded.event_id, recorded.recorded_at, recorded.event.tag, problem,
    )  # fmt: skip


class LaneState:
    """The projections of one lane at `position`; what changes is stored at once, or not at all."""

    def __init__(self, database: Database, projection: int, lane: int, to: Settings) -> None:
        self.at: Row = {"projection": projection, "lane": lane}
        self._database = database
        columns = ("position", "revision", "totals")
        with database.reading() as connection:
            rows = find(connection, checkpoints, columns, **self.at)
            found = find(connection, parked, PARKED, **self.at)
        if not rows:
            raise LostRace("the projection was replaced")
        self.position, self._revision, totals = rows[0]
        self._totals = msgspec.json.decode(totals, type=Totals)
        self.parked = {row[1]: Parked(*row) for row in found}
        self._stored_parked = set(self.parked)
        self._streams: dict[str, Stream] = {}
        self._changed: dict[str, Stream] = {}
        self._views: list[StoredTools | StoredStatistics] = []
        if "tools" in to.views:
            self._views.append(StoredTools())
        if "statistics" in to.views:
            self._views.append(StoredStatistics(self._totals, to.bucket, to.fingerprints))
        self._with_asked = "statistics" in to.views

    @property
    def last(self) -> tuple[int, str]:
        """The position and the id of the last event of the log that was taken in."""
        return self._totals.last

    def prepare(self, events: Sequence[Recorded]) -> None:
        """Have at hand what `events` are about.

        Raises:
            LostRace: another worker has moved the lane on, and what is at hand is of no use.
        """
        names = {recorded.conversation_id for recorded in events}
        if new := names - self._streams.keys():
            self._meet(new, events)
        streams = {name: self._streams[name] for name in names}
        self._changed |= streams
        for view in self._views:
            view.load(self._reading, self.at, streams, events)

    def _meet(self, names: set[str], events: Iterable[Recorded]) -> None:
        """Have conversations at hand: those that are stored, and those that begin here."""
        streams = self._streams
        # What begins behind the checkpoint cannot be stored yet.
        begun = {r.conversation_id for r in events if r.version == 1 and r.position > self.position}
        if old := names - begun:
            with self._reading() as connection:
                streams |= load_streams(connection, self.at, old, with_asked=self._with_asked)
        for recorded in events:
            name = recorded.conversation_id
            if name not in streams:
                self._totals.conversations += 1
                number = self._totals.conversations
                streams[name] = Stream(name, number, recorded.version - 1, stored=False)

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """A connection to read what is not at hand yet, if the lane is where it was."""
        with self._database.reading() as connection:
            if find(connection, checkpoints, ("revision",), **self.at) != [(self._revision,)]:
                raise LostRace("another worker was first")
            yield connection

    def take(self, events: Sequence[Recorded]) -> None:
        """Take in events that were prepared for, or park them.

        Raises:
            Poisoned: one cannot be taken in; the state is of no use any more.
        """
        if (last := events[-1]).position > self.last[0]:
            self._totals.last = last.position, last.event_id
        ready = events
        if self.parked or UnknownEvent in {type(recorded.event) for recorded in events}:
            ready = [recorded for recorded in events if not self._waits(recorded)]
        for view in self._views:
            left = iter(ready)
            try:
                view.extend(left)
            except Exception as error:
                culprit = ready[len(ready) - length_hint(left) - 1]
                raise Poisoned(park(culprit, f"{type(error).__name__}: {error}")) from error

    def _waits(self, recorded: Recorded) -> bool:
        """Whether an event is parked, or stands behind one that is."""
        behind = self.parked.get(recorded.conversation_id)
        if behind is not None and recorded.version >= behind.version:
            behind.waiting += recorded.event_id != behind.event_id
            return True
        event = recorded.event
        if type(event) is UnknownEvent and (problem := unreadable(event)):
            self.parked[recorded.conversation_id] = park(recorded, problem)
            return True
        return False

    def store(self, connection: Connection, position: int) -> None:
        """Store everything, at a new position.

        Raises:
            LostRace: another worker has moved the lane on meanwhile.
        """
        # First of all: it locks out the others.
        if not advance(connection, self.at, self._revision, position):
            raise LostRace("another worker was first")
        changed = list(self._changed.values())
        store_streams(connection, self.at, changed)
        for view in self._views:
            view.store(connection, self.at, changed)
        self._store_parked(connection)
        totals = msgspec.json.encode(self._totals).decode()
        change(connection, checkpoints, ("projection", "lane"), [self.at | {"totals": totals}])

    def _store_parked(self, connection: Connection) -> None:
        for name in self._stored_parked:
            remove(connection, parked, key=key_of(name), **self.at)
        add(connection, parked, [
            self.at | {"key": key_of(name)} | {
                n: storable(v) if isinstance(v := getattr(item, n), str) else v
                for n in PARKED[1:]
            }
            for name, item in self.parked.items()
        ])  # fmt: skip

    def stored(self, position: int) -> bool:
        """All was stored. Whether the state may go on; else it has become too large."""
        self.position = position
        self._revision += 1
        self._stored_parked = set(self.parked)
        self._changed.clear()
        size = sum(5 + len(stream.asked) for stream in self._streams.values())
        for view in self._views:
            view.settle()
            size += len(view)
        return size <= AT_HAND
