"""`Feed`: the events of all conversations as they are read, and `Cursor`: a place among them."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from eventstore.events import Recorded
from eventstore.storage import Storage

# base64 for URLs; the module that has it loads regular expressions
_URL_SAFE = str.maketrans("+/", "-_")
_FROM_URL_SAFE = str.maketrans("-_", "+/")


class Cursor(msgspec.Struct, frozen=True, gc=False):
    """A place in the feed: a position for each lane, of one store. Opaque; `str()` to keep it."""

    epoch: str
    positions: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        text = b2a_base64(msgspec.json.encode(self), newline=False).decode()
        return text.rstrip("=").translate(_URL_SAFE)

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """The cursor that `str()` wrote.

        Raises:
            ValueError: the text is no cursor.
        """
        try:
            padded = text.translate(_FROM_URL_SAFE) + "=" * (-len(text) % 4)
            return msgspec.json.decode(a2b_base64(padded), type=cls)
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{text!r} is no cursor: pass what str(feed.cursor) gave") from error


def cursor_at(epoch: str, positions: Mapping[int, int]) -> Cursor:
    """The cursor behind these positions of the lanes."""
    return Cursor(epoch, tuple(sorted(positions.items())))


def positions_of(cursor: Cursor | str | None, epoch: str) -> dict[int, int]:
    """The lanes' positions that a cursor names, in the store of this epoch.

    Raises:
        ValueError: the cursor is none, or of another store.
    """
    if cursor is None:
        return {}
    if not isinstance(cursor, Cursor):
        cursor = Cursor.parse(cursor)
    if cursor.epoch != epoch:
        raise ValueError("the cursor is of another store: start without one")
    return dict(cursor.positions)


class Feed:
    """Events after a cursor, as they are read; `cursor` is the place behind the last one given."""

    def __init__(self, storage: Storage, after: Cursor | str | None, limit: int | None) -> None:
        self._positions = positions_of(after, storage.epoch)
        self._epoch = storage.epoch
        self._last: Recorded | None = None
        self._storage = storage
        self._limit = limit
        self._events = self._give_out(storage.feed(dict(self._positions), limit))

    def outlines(self) -> Iterator[Sequence[Recorded]]:
        """The same events from the beginning, many at a time, each without its content.

        The fastest way over a long log for who counts calls: see `eventstore.outline`. `cursor`
        does not move.
        """
        return self._storage.outlines(dict(self._positions), self._limit)

    @property
    def cursor(self) -> Cursor:
        """Where to read on: behind the last event that was given out."""
        positions = self._positions
        if self._last is not None:
            positions = positions | {self._last.lane: self._last.position}
        return cursor_at(self._epoch, positions)

    def __iter__(self) -> Iterator[Recorded]:
        return self._events

    def __next__(self) -> Recorded:
        return next(self._events)

    def _give_out(self, events: Iterator[Recorded]) -> Iterator[Recorded]:
        # One lane after the other: the place in it is told when it is asked for.
        lane = -1
        for recorded in events:
            if recorded.lane != lane:
                if self._last is not None:
                    self._positions[lane] = self._last.position
                lane = recorded.lane
            self._last = recorded
            yield recorded
