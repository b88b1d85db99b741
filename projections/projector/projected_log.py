"""`ProjectedLog`: a log as a projection reads it, lane by lane, and still the log that it was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from eventstore import Cursor, CursorLost, EventStore, Feed, LostPlace, Recorded
from eventstore.domain.anchors import event_id_of, is_same

_FAR = 2**62

Pages = Iterable[Sequence[Recorded]]


class Goal(NamedTuple):
    """Where a lane ended when work on it began, and the anchor of the event there."""

    position: int
    anchor: str


class ProjectedLog:
    """Gives the next events of a lane, and refuses a log that was put back meanwhile.

    A checkpoint has the anchor of the event there, of whatever tenant, as a cursor has. That event
    must still be in the log after the next ones were read: else they come from a log that was put
    back. `remedy` says what to do then.

    `headers_only` is for projections that need no more of the events.
    """

    def __init__(
        self, store: EventStore, page_events: int, *, headers_only: bool, remedy: str
    ) -> None:
        self._store = store
        self._page_events = page_events
        self._headers_only = headers_only
        self._remedy = remedy
        end = store.end()
        self._epoch = end.epoch
        self._other_lanes = dict.fromkeys((lane for lane, _ in end.positions), _FAR)

    def goals(self) -> dict[int, Goal]:
        """Return where each lane ends now."""
        end = self._store.end()
        anchors = dict(end.anchors)
        return {lane: Goal(at, anchors.get(lane, "")) for lane, at in end.positions}

    def conversation(self, conversation_id: str, after: int = 0) -> Iterator[Recorded]:
        """Yield the events of a conversation after a version."""
        return self._store.conversation(conversation_id).events(after=after)

    def following(
        self, lane: int, position: int, last: tuple[int, str], goal: Goal, limit: int
    ) -> Pages:
        """Yield the events of a lane after a position, while it is before the goal.

        Then check that they come from the log as it was: `last` is the position and the anchor of
        the last event that was projected.

        Raises:
            CursorLost: they do not.
        """
        if position > goal.position:  # perhaps another worker was faster
            self._check_end(lane, position, last)
        if goal.anchor and last[0] == goal.position and not is_same(last[1], goal.anchor):
            raise self._lost(_lost_place(lane, *last, goal.anchor))
        if position >= goal.position:
            return
        feed = self._feed(lane, position, limit)
        yield from feed.outlines() if self._headers_only else self._in_pages(feed)
        self._check_event(lane, last)

    def _in_pages(self, events: Iterable[Recorded]) -> Pages:
        remaining = iter(events)
        return iter(lambda: list(islice(remaining, self._page_events)), [])

    def _feed(
        self, lane: int, after: int, limit: int, anchors: tuple[tuple[int, str], ...] = ()
    ) -> Feed:
        """Return the next events of one lane."""
        positions = tuple((self._other_lanes | {lane: after}).items())
        return self._store.read(Cursor(self._epoch, positions, anchors), limit)

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
        remedy = f"the tables were not put back: {self._remedy}"
        return CursorLost(places, str(Cursor(self._epoch)), remedy)


def _lost_place(lane: int, position: int, kept: str | None, found: str | None) -> LostPlace:
    return LostPlace(lane, position, event_id_of(kept), event_id_of(found))
