"""Bisection of a log: the first version at which something holds."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from eventstore import Recorded

Predicate: TypeAlias = Callable[[Sequence[Recorded]], bool]
"""From the events up to a version to an answer."""


def bisect(events: Iterable[Recorded], predicate: Predicate) -> int | None:
    """Return the first version at which `predicate` holds; None if it does not hold at the end.

    The predicate gets the events up to a version, and must keep holding once it holds: it is asked
    some twenty times for a million events. "The log has an error" keeps holding, "a call is open"
    does not: use `next(...)` over `replay(events)` for that.
    """
    events = list(events)
    versions = range(len(events) + 1)
    length = bisect_left(versions, 1, key=lambda length: int(bool(predicate(events[:length]))))
    if length > len(events):
        return None
    return events[length - 1].version if length else 0
