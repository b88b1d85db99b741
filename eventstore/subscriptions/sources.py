"""Where a subscription reads from: a whole store, or one conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import msgspec

from eventstore.domain.arguments import check_version
from eventstore.domain.events import Recorded
from eventstore.errors import StoreCorrupt
from eventstore.subscriptions.feed import Cursor, cursor_at, positions_of

if TYPE_CHECKING:
    from eventstore.session import LogSession


C = TypeVar("C")
P = TypeVar("P")


class Page(msgspec.Struct, Generic[P], gc=False):
    """Events read in one go, from a place to another; `returned` of them were handed out."""

    events: Sequence[Recorded]
    start: P
    end: P
    returned: int = 0


class EventSource(Protocol[C, P]):
    """What a subscription reads: it has cursors for its users, and places of its own."""

    start: P

    @property
    def conversation_id(self) -> str | None:
        """The conversation; None for all conversations."""
        ...

    def read(self, place: P, limit: int) -> Page[P]:
        """Return the events after a place that are there now."""
        ...

    def cursor(self, place: P, returned: Sequence[Recorded]) -> C:
        """Return the cursor after events that were read from a place on."""
        ...

    def ahead(self, cursor: C) -> tuple[int, int | None]:
        """Return how many events follow a cursor, and when the oldest was recorded."""
        ...


class StoreSource:
    """The events of a store, proven to be without gaps; its places are positions by lane."""

    conversation_id = None

    def __init__(self, session: LogSession, after: Cursor | str | None) -> None:
        self._session = session
        self._epoch = session.storage.epoch
        self._round: dict[int, int] = {}  # up to where all lanes are read before any goes on
        self.start = positions_of(after, self._epoch)

    def read(self, place: dict[int, int], limit: int) -> Page[dict[int, int]]:
        """Return the next events; the place after them is past those of other tenants.

        It reads in rounds: all lanes up to where they stood when the round began, then the next
        round. So a lane that grows as fast as it is read does not keep the others waiting.

        Raises:
            StoreCorrupt: an event is missing, or the log ends before the place.
        """
        page = self._up_to(self._round, place, limit)
        if page.events:
            return page
        heads = self._session.storage.heads()
        for lane, position in place.items():
            if heads.get(lane, 0) < position:
                raise StoreCorrupt(
                    f"lane {lane} ends at position {heads.get(lane, 0)}, and was read up to "
                    f"{position} before: the database was replaced by an older copy"
                )
        self._round = heads
        return self._up_to(heads, page.end, limit)

    def _up_to(
        self, heads: dict[int, int], place: dict[int, int], limit: int
    ) -> Page[dict[int, int]]:
        found: list[Recorded] = []
        if any(end > place.get(lane, 0) for lane, end in heads.items()):
            found = list(self._session.storage.feed(place, limit, heads))
        ends = {lane: max(end, place.get(lane, 0)) for lane, end in heads.items()}
        if len(found) < limit:
            return Page(found, place, place | ends)
        last = found[-1]
        passed = {lane: end for lane, end in ends.items() if lane < last.lane}
        return Page(found, place, place | passed | {last.lane: last.position})

    def cursor(self, place: dict[int, int], returned: Sequence[Recorded]) -> Cursor:
        """Return a cursor: a position for each lane."""
        positions = place | {recorded.lane: recorded.position for recorded in returned}
        return cursor_at(self._epoch, positions)

    def ahead(self, cursor: Cursor) -> tuple[int, int | None]:
        """Count by the lanes' counters; the oldest is the first event of one of the lanes."""
        storage = self._session.storage
        place = dict(cursor.positions)
        grown = {n: end for n, end in storage.heads().items() if end > place.get(n, 0)}
        firsts = [
            recorded.recorded_at
            for lane, end in grown.items()
            for recorded in storage.feed(place, 1, {lane: end})
        ]
        events = sum(end - place.get(lane, 0) for lane, end in grown.items())
        return events, min(firsts, default=None)


class ConversationSource:
    """One conversation's events, proven to be without gaps; its places are versions."""

    def __init__(self, session: LogSession, conversation_id: str, after: int) -> None:
        check_version("after", after)
        session.check_open()
        self._session = session
        self._id = conversation_id
        self.start = after

    @property
    def conversation_id(self) -> str | None:
        """The conversation."""
        return self._id

    def read(self, place: int, limit: int) -> Page[int]:
        """Return the next events.

        Raises:
            StoreCorrupt: an event is missing.
        """
        found: list[Recorded] = []
        end = place
        for recorded in self._session.events(self._id, place):
            if recorded.version != end + 1:
                raise StoreCorrupt(
                    f"conversation {self._id!r} has no version {end + 1}, but it has "
                    "later ones: run `toolledger verify`, and restore the database from a copy"
                )
            found.append(recorded)
            end += 1
            if len(found) == limit:
                break
        return Page(found, place, end)

    def cursor(self, place: int, returned: Sequence[Recorded]) -> int:
        """Return a version."""
        return returned[-1].version if returned else place

    def ahead(self, cursor: int) -> tuple[int, int | None]:
        """Count by the versions."""
        first = next(self._session.events(self._id, cursor), None)
        if first is None:
            return 0, None
        return self._session.version(self._id) - cursor, first.recorded_at
