"""`TracedEvents`: events that know how far a projection has looked at them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from eventstore import Recorded


class TracedEvents(Sequence[Recorded]):
    """Events, and the index of the one that was given out last; 0 while none was."""

    def __init__(self, events: Sequence[Recorded]) -> None:
        self._events = events
        self._last = 0
        self._farthest = 0

    @property
    def last(self) -> Recorded:
        """The event that was given out last."""
        return self._events[self._last]

    @property
    def is_farthest(self) -> bool:
        """Whether no later event was given out before: what came of them is known by this one."""
        return self._last >= self._farthest

    def _reach(self, index: int) -> None:
        self._last = index
        self._farthest = max(self._farthest, index)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._events)

    def __iter__(self) -> Iterator[Recorded]:
        """Yield them in their order."""
        for index, recorded in enumerate(self._events):
            self._reach(index)
            yield recorded

    @overload
    def __getitem__(self, index: int) -> Recorded: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Recorded]: ...
    def __getitem__(self, index: int | slice) -> Recorded | Sequence[Recorded]:
        """Return an event, or several."""
        places = range(len(self._events))[index]
        for place in (places,) if isinstance(places, int) else places:
            self._reach(place)
        return self._events[index]
