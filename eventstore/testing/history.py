"""A checker of histories: acknowledgements and what followers saw, against what is stored.

Writers note each append: before it with `unknown`, after it with `acknowledged` or `refused`.
Followers note what they saw. When all have ended, or were killed, `check_history` compares this
with the stored rows and names what breaks a guarantee. It knows nothing of how a storage works.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple, Protocol


class Guarantee(StrEnum):
    """What a log promises; a violation names one."""

    STORED = "an acknowledged event is stored"
    STORED_ONCE = "an event is stored once"
    PLACE = "an event stands where writers and followers were told"
    ASKED_FOR = "only what a writer asked for is stored"
    REFUSED = "nothing of a refused append is stored"
    ATOMIC = "the events of an append are stored together or not at all"
    VERSIONS = "the versions of a conversation are 1, 2, 3 …"
    POSITIONS = "the positions of a lane are 1, 2, 3 …"
    LANE = "a conversation stands in one lane, in the order of its versions"
    WRITERS_ORDER = "an append stands behind those that its writer had finished before"
    COMMITTED = "a follower sees only what is stored"
    SEEN_ONCE = "a follower sees no event twice"
    SEEN_IN_ORDER = "a follower sees a lane in its order"
    NOT_SKIPPED = "a follower skips no event"


class Violation(NamedTuple):
    """A guarantee that was broken, the event where it shows, and how."""

    guarantee: Guarantee
    event_id: str
    found: str


class Placed(Protocol):
    """An event's place in the log; every `Recorded` is one."""

    @property
    def lane(self) -> int:
        """The lane that its conversation is in."""
        ...

    @property
    def position(self) -> int:
        """Its position in the lane."""
        ...

    @property
    def conversation_id(self) -> str:
        """Its conversation."""
        ...

    @property
    def version(self) -> int:
        """Its version in the conversation."""
        ...

    @property
    def event_id(self) -> str:
        """Its id, as 32 hex digits."""
        ...


class Place(NamedTuple):
    """The place of an event without its content, small enough to be sent between processes."""

    lane: int
    position: int
    conversation_id: str
    version: int
    event_id: str

    def __str__(self) -> str:
        return f"{self.conversation_id}:{self.version} at {self.position} of lane {self.lane}"


class Acknowledgement(NamedTuple):
    """What a writer knows of one append.

    A writer is one thread: an append begins when the one before it has ended. `places` is what the
    append returned; None if nothing is known, and empty if it was refused.
    """

    writer: str
    event_ids: tuple[str, ...]
    places: tuple[Place, ...] | None


class Reading(NamedTuple):
    """What a follower saw, in order.

    `after` has the positions of lanes that it began behind; `conversation_id` is set if it follows
    that one alone. A follower that was killed or stopped early is not `complete`.
    """

    follower: str
    events: Sequence[Placed]
    complete: bool = True
    after: Mapping[int, int] = {}
    conversation_id: str | None = None


def places(events: Iterable[Placed]) -> tuple[Place, ...]:
    """Return the places of events, without their content."""
    return tuple(
        Place(one.lane, one.position, one.conversation_id, one.version, one.event_id)
        for one in events
    )


def acknowledged(writer: str, recorded: Iterable[Placed]) -> Acknowledgement:
    """Note that an append returned these events."""
    stored = places(recorded)
    return Acknowledgement(writer, tuple(one.event_id for one in stored), stored)


def refused(writer: str, event_ids: Iterable[str]) -> Acknowledgement:
    """Note that an append raised an error that says that nothing was stored."""
    return Acknowledgement(writer, tuple(event_ids), ())


def unknown(writer: str, event_ids: Iterable[str]) -> Acknowledgement:
    """Note that an append begins, or that its outcome is not known.

    A later note of the same append, also by a writer that repeats it, says more and is believed.
    """
    return Acknowledgement(writer, tuple(event_ids), None)


def check_history(
    acknowledgements: Iterable[Acknowledgement],
    readings: Iterable[Reading],
    rows: Iterable[Placed],
) -> list[Violation]:
    """Return what breaks a guarantee of the log; an empty list if all of them were kept.

    Args:
        acknowledgements: the notes of all writers of the store, each writer's in their order
        readings: what followers saw
        rows: all that is stored at the end, of the only tenant of the store
    """
    notes = list(acknowledgements)
    stored = sorted(places(rows))
    by_id: dict[str, Place] = {}
    for row in stored:
        by_id.setdefault(row.event_id, row)
    return [
        *_stored_twice(stored),
        *_not_as_acknowledged(notes, by_id),
        *_not_asked_for(notes, stored),
        *_torn(notes, by_id),
        *_overtaken(notes, by_id),
        *_gaps(stored),
        *_astray(stored),
        *(violation for one in readings for violation in _misread(one, stored, by_id)),
    ]


# what was acknowledged


def _stored_twice(stored: Sequence[Place]) -> Iterator[Violation]:
    for event_id, times in Counter(row.event_id for row in stored).items():
        if times > 1:
            yield Violation(Guarantee.STORED_ONCE, event_id, f"stored {times} times")


def _not_as_acknowledged(
    notes: Sequence[Acknowledgement], by_id: Mapping[str, Place]
) -> Iterator[Violation]:
    for note in notes:
        for place in note.places or ():
            row = by_id.get(place.event_id)
            if row is None:
                found = f"{note.writer} got as its acknowledgement: {place}"
                yield Violation(Guarantee.STORED, place.event_id, found)
            elif row != place:
                found = f"{note.writer} got as its acknowledgement: {place}; stored: {row}"
                yield Violation(Guarantee.PLACE, place.event_id, found)


def _not_asked_for(
    notes: Sequence[Acknowledgement], stored: Sequence[Place]
) -> Iterator[Violation]:
    # The last note of an append counts: one that was refused may be repeated, and then be stored.
    last = {event_id: note for note in notes for event_id in note.event_ids}
    may_be = {event_id for event_id, note in last.items() if note.places != ()}
    may_be |= {place.event_id for note in notes for place in note.places or ()}
    for row in stored:
        if row.event_id not in last:
            yield Violation(Guarantee.ASKED_FOR, row.event_id, f"stored: {row}")
        elif row.event_id not in may_be:
            found = f"{last[row.event_id].writer} was refused; stored: {row}"
            yield Violation(Guarantee.REFUSED, row.event_id, found)


def _torn(notes: Sequence[Acknowledgement], by_id: Mapping[str, Place]) -> Iterator[Violation]:
    # A repeat may bring more events: they are another append.
    asked: set[str] = set()
    for note in notes:
        new = [event_id for event_id in note.event_ids if event_id not in asked]
        asked.update(new)
        rows = [by_id[event_id] for event_id in new if event_id in by_id]
        if rows and len(rows) < len(new):
            found = f"{len(rows)} of the {len(new)} events of its append are stored"
            yield Violation(Guarantee.ATOMIC, rows[0].event_id, found)
        for before, row in pairwise(rows):
            if (row.lane, row.position) != (before.lane, before.position + 1):
                found = f"{row}, behind {before} of the same append"
                yield Violation(Guarantee.ATOMIC, row.event_id, found)


def _overtaken(notes: Sequence[Acknowledgement], by_id: Mapping[str, Place]) -> Iterator[Violation]:
    # An append that is repeated may have been stored at its first try: that one's floor counts.
    heads: defaultdict[str, dict[int, int]] = defaultdict(dict)
    floors: dict[str, Mapping[int, int]] = {}
    for note in notes:
        now = dict(heads[note.writer])
        for event_id in note.event_ids:
            floors.setdefault(event_id, now)
        for place in note.places or ():
            row = by_id.get(place.event_id, place)
            floor = floors[row.event_id].get(row.lane, 0)
            if row.position <= floor:
                found = f"{row}; {note.writer} had stored up to {floor} before"
                yield Violation(Guarantee.WRITERS_ORDER, row.event_id, found)
            head = heads[note.writer].get(row.lane, 0)
            heads[note.writer][row.lane] = max(head, row.position)


# what is stored


def _gaps(stored: Sequence[Place]) -> Iterator[Violation]:
    lanes: Counter[int] = Counter()
    for row in stored:
        if row.position != lanes[row.lane] + 1:
            found = f"{row}, behind {lanes[row.lane]}"
            yield Violation(Guarantee.POSITIONS, row.event_id, found)
        lanes[row.lane] = row.position
    versions: Counter[str] = Counter()
    for row in sorted(stored, key=lambda row: (row.conversation_id, row.version)):
        if row.version != versions[row.conversation_id] + 1:
            found = f"{row}, behind version {versions[row.conversation_id]}"
            yield Violation(Guarantee.VERSIONS, row.event_id, found)
        versions[row.conversation_id] = row.version


def _astray(stored: Sequence[Place]) -> Iterator[Violation]:
    last: dict[str, Place] = {}
    for row in stored:
        before = last.get(row.conversation_id, row)
        if row.lane != before.lane or row.version < before.version:
            yield Violation(Guarantee.LANE, row.event_id, f"{row}, behind {before}")
        last[row.conversation_id] = row


# what followers saw


def _misread(
    reading: Reading, stored: Sequence[Place], by_id: Mapping[str, Place]
) -> Iterator[Violation]:
    seen: set[str] = set()
    heads = dict(reading.after)
    for event in places(reading.events):
        problem = _problem(event, seen, heads.get(event.lane, 0), by_id)
        if problem is not None:
            yield Violation(problem, event.event_id, f"{reading.follower} saw {event}")
        seen.add(event.event_id)
        heads[event.lane] = max(heads.get(event.lane, 0), event.position)
    for row in stored:
        followed = reading.conversation_id in (None, row.conversation_id)
        new = row.position > reading.after.get(row.lane, 0)
        passed = reading.complete or row.position < heads.get(row.lane, 0)
        if followed and new and passed and row.event_id not in seen:
            found = f"{reading.follower} did not see {row}"
            yield Violation(Guarantee.NOT_SKIPPED, row.event_id, found)


def _problem(
    event: Place, seen: set[str], head: int, by_id: Mapping[str, Place]
) -> Guarantee | None:
    if event.event_id not in by_id:
        return Guarantee.COMMITTED
    if event.event_id in seen:
        return Guarantee.SEEN_ONCE
    if by_id[event.event_id] != event:
        return Guarantee.PLACE
    return Guarantee.SEEN_IN_ORDER if event.position <= head else None
