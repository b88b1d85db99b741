"""`Feed`: the events of all conversations as they are read, and `Cursor`: a place among them."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from eventstore.domain.events import Recorded
from eventstore.storage.interface import Storage


class Cursor(msgspec.Struct, frozen=True, gc=False):
    """A place in the feed: a position for each lane, of one store. Opaque; `str()` to keep it."""

    epoch: str
    positions: tuple[tuple[int, int], ...] = ()

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


def cursor_at(epoch: str, positions: Mapping[int, int]) -> Cursor:
    """Return the cursor after these positions of the lanes."""
    return Cursor(epoch, tuple(sorted(positions.items())))


def positions_of(cursor: Cursor | str | None, epoch: str) -> dict[int, int]:
    """Return the lanes' positions that a cursor names, in the store of this epoch.

    Raises:
        ValueError: it is not a cursor, or one of another store.
    """
    if cursor is None:
        return {}
    if not isinstance(cursor, Cursor):
        cursor = Cursor.parse(cursor)
    if cursor.epoch != epoch:
        raise ValueError("the cursor is of another store: start without one")
    return dict(cursor.positions)


class Feed:
    """Events after a cursor; `cursor` is the place after the last one that was returned."""

    def __init__(self, storage: Storage, after: Cursor | str | None, limit: int | None) -> None:
        self._positions = positions_of(after, storage.epoch)
        self._epoch = storage.epoch
        self._last: Recorded | None = None
        self._storage = storage
        self._limit = limit
        self._events = self._following(storage.feed(dict(self._positions), limit))

    def outlines(self) -> Iterator[Sequence[Recorded]]:
        """Return the events from the start of the feed, in batches, as headers without content.

        The fastest way through a long log for counting calls: see `domain.event_headers`. `cursor`
        does not move.
        """
        return self._storage.headers(dict(self._positions), self._limit)

    @property
    def cursor(self) -> Cursor:
        """Where to read on: after the last event that was returned."""
        positions = self._positions
        if self._last is not None:
            positions = positions | {self._last.lane: self._last.position}
        return cursor_at(self._epoch, positions)

    def __iter__(self) -> Iterator[Recorded]:
        return self._events

    def __next__(self) -> Recorded:
        return next(self._events)

    def _following(self, events: Iterator[Recorded]) -> Iterator[Recorded]:
        # One lane after the other: the place in it is noted when the next one begins.
        lane = -1
        for recorded in events:
            if recorded.lane != lane:
                if self._last is not None:
                    self._positions[lane] = self._last.position
                lane = recorded.lane
            self._last = recorded
            yield recorded
