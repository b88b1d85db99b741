"""Where a subscription reads from: a whole store, or one conversation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import msgspec

from eventstore.domain.anchors import anchor_of, event_id_of, is_same
from eventstore.domain.events import Recorded
from eventstore.errors import CursorLost, LostPlace, StoreCorrupt
from eventstore.subscriptions.conversation_cursor import ConversationCursor
from eventstore.subscriptions.feed import Bookmark, Cursor, check_bookmark, lost_lanes

if TYPE_CHECKING:
    from eventstore.session import LogSession


C = TypeVar("C")
P = TypeVar("P")


class Page(msgspec.Struct, Generic[P], gc=False):
    """Events read in one go, from `start` to `end`; `returned` of them were handed out."""

    events: Sequence[Recorded]
    start: P
    end: P
    returned: int = 0


class EventSource(Protocol[C, P]):
    """What a subscription reads: it has cursors for its users, and positions of its own."""

    start: P

    @property
    def conversation_id(self) -> str | None:
        """The conversation; None for all conversations."""
        ...

    def read(self, start: P, limit: int) -> Page[P]:
        """Return the events after a position that are there now."""
        ...

    def cursor(self, start: P, returned: Sequence[Recorded]) -> C:
        """Return the cursor after events that were read from a position on."""
        ...

    def seen(self, start: P) -> object:
        """Return how far the log is read at a position: the lanes' heads, or a version."""
        ...

    def ahead(self, cursor: C) -> tuple[int, int | None]:
        """Return how many events follow a cursor, and when the oldest was recorded."""
        ...


class StoreSource:
    """The events of a store, proven to be without gaps."""

    conversation_id = None

    def __init__(self, session: LogSession, after: Cursor | str | None) -> None:
        self._session = session
        self._epoch = session.storage.epoch
        self._round: dict[int, int] = {}  # up to where all lanes are read before any continues
        self._is_checked = False
        self.start = Bookmark.of(after, self._epoch)

    def read(self, start: Bookmark, limit: int) -> Page[Bookmark]:
        """Return the next events; the page ends after the events of other tenants, too.

        It reads in rounds: all lanes up to where they stood when the round began, then the next
        round. So a lane that grows as fast as it is read does not keep the others waiting.

        Raises:
            StoreCorrupt: an event is missing.
            CursorLost: the log does not have the events at the start any more.
        """
        if not self._is_checked:
            check_bookmark(self._session.storage, start)
            self._is_checked = True
        page = self._up_to(self._round, start, limit)
        if page.events:
            return page
        self._round = self._heads(start)
        return self._up_to(self._round, page.end, limit)

    def _heads(self, start: Bookmark) -> dict[int, int]:
        """Return where the lanes end; no lane ends before the start."""
        heads = self._session.storage.heads()
        lost = [lane for lane, at in start.positions.items() if heads.get(lane, 0) < at]
        if lost:
            raise lost_lanes(self._session.storage, start, lost, {})
        return heads

    def _up_to(self, heads: dict[int, int], start: Bookmark, limit: int) -> Page[Bookmark]:
        """Return the next events up to the lanes' heads.

        Meanwhile the database may have been put back, or another server may have taken over. So
        the lanes that were read are compared last: the events come from a log that had the start.
        """
        storage, before = self._session.storage, start.positions
        ends = {lane: max(end, before.get(lane, 0)) for lane, end in heads.items()}
        ahead = {lane: end for lane, end in ends.items() if end > before.get(lane, 0)}
        try:
            found = list(storage.feed(before, limit, heads)) if ahead else []
        except StoreCorrupt:
            now = self._heads(start)
            if all(now.get(lane, 0) >= end for lane, end in ahead.items()):
                raise
            self._round = {}  # what the round was to read was taken back, and not yet read
            return Page((), start, start)
        if len(found) == limit:
            ends = {lane: end for lane, end in ends.items() if lane < found[-1].lane}
        after = start.after(found) if found else start
        # Where the last event is another tenant's, its id was not read.
        passed = {lane: end for lane, end in ends.items() if end != after.positions.get(lane)}
        if passed:
            after = after.joined(Bookmark.at(storage, passed))
        check_bookmark(storage, start, ahead)
        return Page(found, start, after)

    def cursor(self, start: Bookmark, returned: Sequence[Recorded]) -> Cursor:
        """Return a cursor: a position for each lane, with the event there."""
        return start.after(returned).cursor(self._epoch)

    def seen(self, start: Bookmark) -> object:
        """Return the lanes' heads."""
        return start.positions

    def ahead(self, cursor: Cursor) -> tuple[int, int | None]:
        """Count by the lanes' counters; the oldest is the first event of one of the lanes."""
        storage = self._session.storage
        positions = dict(cursor.positions)
        grown = {n: end for n, end in storage.heads().items() if end > positions.get(n, 0)}
        firsts = [
            recorded.recorded_at
            for lane, end in grown.items()
            for recorded in storage.feed(positions, 1, {lane: end})
        ]
        events = sum(end - positions.get(lane, 0) for lane, end in grown.items())
        return events, min(firsts, default=None)


class ConversationSource:
    """One conversation's events, proven to be without gaps; its positions are versions."""

    def __init__(self, session: LogSession, conversation_id: str, after: int | str) -> None:
        session.check_open()
        self._session = session
        self._id = conversation_id
        self.start = ConversationCursor.of(after)

    @property
    def conversation_id(self) -> str | None:
        """The conversation."""
        return self._id

    def read(self, start: ConversationCursor, limit: int) -> Page[ConversationCursor]:
        """Return the next events.

        Raises:
            StoreCorrupt: an event is missing.
            CursorLost: the conversation does not have the event at the start any more.
        """
        found: list[Recorded] = []
        end = int(start)
        start, after = self._after(start)
        for recorded in after:
            if recorded.version != end + 1:
                raise StoreCorrupt(
                    f"conversation {self._id!r} has no version {end + 1}, but it has "
                    "later ones: run `toolledger verify`, and restore the database from a copy"
                )
            found.append(recorded)
            end += 1
            if len(found) == limit:
                break
        return Page(found, start, self.cursor(start, found))

    def _after(self, start: ConversationCursor) -> tuple[ConversationCursor, Iterator[Recorded]]:
        """Return the events after a version, read together with the event there.

        A version alone gets the anchor of that event.
        """
        if start == 0:
            return start, self._session.events(self._id)
        events = self._session.events(self._id, start - 1)
        there = next(events, None)
        found = anchor_of(there) if there is not None and there.version == start else None
        if start.anchor is None:
            if there is None:
                raise self._ahead(int(start))
            if found is None:  # its row is damaged
                return start, self._session.events(self._id, int(start))
            return ConversationCursor(int(start), found), events
        if not is_same(start.anchor, found):
            self._session.storage.forget()
            lost = LostPlace(self._id, int(start), event_id_of(start.anchor), event_id_of(found))
            raise CursorLost([lost], "0")
        return start, events

    def _ahead(self, version: int) -> CursorLost:
        end = self._session.storage.versions([self._id]).get(self._id, 0)
        remedy = f"it ends at version {end}: follow it from there, or from 0 to read it again"
        return CursorLost([LostPlace(self._id, version, None, None)], "0", remedy)

    def cursor(self, start: ConversationCursor, returned: Sequence[Recorded]) -> ConversationCursor:
        """Return a version, with the event there."""
        if not returned:
            return start
        return ConversationCursor(returned[-1].version, anchor_of(returned[-1]))

    def seen(self, start: ConversationCursor) -> object:
        """Return the version."""
        return start

    def ahead(self, cursor: ConversationCursor) -> tuple[int, int | None]:
        """Count by the versions."""
        first = next(self._session.events(self._id, int(cursor)), None)
        if first is None:
            return 0, None
        return self._session.version(self._id) - cursor, first.recorded_at
