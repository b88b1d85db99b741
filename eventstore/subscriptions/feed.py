"""`Feed`: the events of all conversations as they are read, and `Cursor`: a position among them.

A cursor has, for each lane, a position and an anchor: the id and the time of the event there.

1. A reader that begins at a cursor first compares its anchors with the log. If another event, or
   none, stands there, the log was put back, and `CursorLost` is raised. A follower compares with
   each page, after it was read: what it read before that, it read from the log that it knew.
2. An anchor has the whole id, of an event of any tenant. A part would do for ids that the library
   made, but not for those that callers gave, and the error names both events. A cursor of 16 lanes
   takes 1,500 characters.
3. A lane may be without an anchor: nothing stood there, or an older version wrote the cursor.
   Nothing is compared then.

Why: after a restore new events take positions that a kept cursor has passed. They would never be
read, and no position would be missing.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice

import msgspec

from eventstore.domain.anchors import anchor_of, event_id_of, is_same
from eventstore.domain.arguments import MAX_VERSION
from eventstore.domain.events import Recorded
from eventstore.errors import CursorLost, LostPlace
from eventstore.storage.interface import Storage

EVENTS_PER_PAGE = 1000
"""Events of a batch of whole events."""


class Cursor(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A position in each lane of the feed of one store. Opaque; `str()` to keep it.

    `anchors` are the anchors of the events there, by lane; see `eventstore.domain.anchors`.
    """

    epoch: str
    positions: tuple[tuple[int, int], ...] = ()
    anchors: tuple[tuple[int, str], ...] = ()

    def __str__(self) -> str:
        return urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Return the cursor that `str()` wrote.

        Raises:
            ValueError: the text is not a cursor.
        """
        try:
            padded = text + "=" * (-len(text) % 4)
            return msgspec.json.decode(urlsafe_b64decode(padded), type=cls)
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{text!r} is not a cursor: pass what str(feed.cursor) returned"
            ) from error


class Bookmark(msgspec.Struct, frozen=True, gc=False):
    """What a cursor says: a position for each lane, and anchors as far as they are known."""

    positions: Mapping[int, int]
    anchors: Mapping[int, str]

    @classmethod
    def of(cls, cursor: Cursor | str | None, epoch: str) -> Bookmark:
        """Return what a cursor names, in the store of this epoch.

        Raises:
            ValueError: it is not a cursor, or one of another store.
        """
        if cursor is None:
            return cls({}, {})
        if not isinstance(cursor, Cursor):
            cursor = Cursor.parse(cursor)
        if cursor.epoch != epoch:
            raise ValueError("the cursor is of another store: start without one")
        if not all(0 <= position <= MAX_VERSION for _, position in cursor.positions):
            raise ValueError(f"{cursor!r} has a position that no log has: start without one")
        return cls(dict(cursor.positions), dict(cursor.anchors))

    @classmethod
    def at(cls, storage: Storage, heads: Mapping[int, int]) -> Bookmark:
        """Return the bookmark at these positions, with the anchors that the log has there."""
        return cls(heads, storage.anchors_at(heads))

    def cursor(self, epoch: str) -> Cursor:
        """Return the cursor of this bookmark."""
        return Cursor(
            epoch, tuple(sorted(self.positions.items())), tuple(sorted(self.anchors.items()))
        )

    def after(self, events: Iterable[Recorded]) -> Bookmark:
        """Return the bookmark after events that follow this one."""
        last = {recorded.lane: recorded for recorded in events}
        return self.joined(
            Bookmark(
                {lane: recorded.position for lane, recorded in last.items()},
                {lane: anchor_of(recorded) for lane, recorded in last.items()},
            )
        )

    def joined(self, other: Bookmark) -> Bookmark:
        """Return this bookmark, and another one for the lanes that the other names."""
        kept = {n: one for n, one in self.anchors.items() if n not in other.positions}
        return Bookmark({**self.positions, **other.positions}, {**kept, **other.anchors})

    def without(self, lanes: Iterable[int]) -> Bookmark:
        """Return the bookmark that is at the start of some lanes."""
        gone = set(lanes)
        return Bookmark(
            {lane: position for lane, position in self.positions.items() if lane not in gone},
            {lane: one for lane, one in self.anchors.items() if lane not in gone},
        )


def check_bookmark(
    storage: Storage, bookmark: Bookmark, lanes: Container[int] | None = None
) -> None:
    """Refuse a bookmark at which the log has other events than were read there.

    Only `lanes` are compared where they are given.

    Raises:
        CursorLost: the log was put back.
    """
    asked = {n: kept for n, kept in bookmark.anchors.items() if lanes is None or n in lanes}
    if not asked:
        return
    found = storage.anchors_at({lane: bookmark.positions.get(lane, 0) for lane in asked})
    lost = [lane for lane, kept in asked.items() if not is_same(kept, found.get(lane))]
    if lost:
        raise lost_lanes(storage, bookmark, lost, found)


def lost_lanes(
    storage: Storage, bookmark: Bookmark, lanes: Sequence[int], found: Mapping[int, str]
) -> CursorLost:
    """Return the error of a bookmark whose events some lanes do not have any more.

    The storage forgets what it remembers of them.
    """
    storage.forget()
    lost = [
        LostPlace(
            lane,
            bookmark.positions.get(lane, 0),
            event_id_of(bookmark.anchors.get(lane)),
            event_id_of(found.get(lane)),
        )
        for lane in lanes
    ]
    return CursorLost(lost, str(bookmark.without(lanes).cursor(storage.epoch)))


class Feed:
    """Events after a cursor; `cursor` is after the last one that was returned.

    The first event raises `CursorLost` if the log was put back behind the cursor.
    """

    def __init__(self, storage: Storage, after: Cursor | str | None, limit: int | None) -> None:
        self._start = self._bookmark = Bookmark.of(after, storage.epoch)
        self._epoch = storage.epoch
        self._last: Recorded | None = None
        self._storage = storage
        self._limit = limit
        self._events: Iterator[Recorded] = self._following()

    def outlines(self) -> Iterator[Sequence[Recorded]]:
        """Return the rest of the feed in batches, as headers without content.

        The fastest way through a long log for counting calls: see `domain.event_headers`. A feed of
        which some events were read gives the others whole.
        """
        if self._last is not None or self._bookmark is not self._start:
            while rest := list(islice(self._events, EVENTS_PER_PAGE)):
                yield rest
            return
        self._events = iter(())  # a feed is read once
        check_bookmark(self._storage, self._start)
        for page in self._storage.headers(self._start.positions, self._limit):
            self._bookmark = self._bookmark.after(page[-1:])
            yield page

    @property
    def cursor(self) -> Cursor:
        """Where to continue: after the last event that was returned."""
        bookmark = self._bookmark if self._last is None else self._bookmark.after((self._last,))
        return bookmark.cursor(self._epoch)

    def __iter__(self) -> Iterator[Recorded]:
        return self._events

    def __next__(self) -> Recorded:
        return next(self._events)

    def _following(self) -> Iterator[Recorded]:
        check_bookmark(self._storage, self._start)
        # One lane after the other: how far it was read is noted when the next one begins.
        lane = -1
        for recorded in self._storage.feed(self._start.positions, self._limit):
            if recorded.lane != lane:
                if self._last is not None:
                    self._bookmark = self._bookmark.after((self._last,))
                lane = recorded.lane
            self._last = recorded
            yield recorded
