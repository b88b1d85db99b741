"""The clocks of a store, in microseconds since 1970 UTC: the machine's, and a server's."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from eventstore.errors import EventStoreError

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_AGE_SECONDS = 5.0
"""How old the answer of a server may be before `keep` asks again."""

_STEADY = getattr(time, "CLOCK_BOOTTIME", None) or getattr(time, "CLOCK_MONOTONIC", None)
"""A clock that is never set, and runs while the machine sleeps, where there is one."""


def system_clock() -> int:
    """Return microseconds since 1970 UTC."""
    return time.time_ns() // 1000


def steady_clock() -> int:
    """Return microseconds since some moment, by a clock of the machine that is never set."""
    nanoseconds = time.monotonic_ns() if _STEADY is None else time.clock_gettime_ns(_STEADY)
    return nanoseconds // 1000


class DatabaseClock:
    """The time of a database's server, so one time for all its workers.

    1. `ask` asks the server. From one answer to the next the time runs by a steady clock of this
       machine, so that a step of the machine's wall clock changes nothing.
    2. The server read its clock at some moment between question and answer. An answer that may
       agree with the time as it runs here leaves it alone. Otherwise it is set by the least.
    3. A question that fails leaves the time as it runs here.

    Raises:
        EventStoreError: the first question fails.
    """

    def __init__(self, ask: Callable[[], int], steady: Callable[[], int] = steady_clock) -> None:
        self._ask = ask
        self._steady = steady
        self._asked_at = steady()
        self._offset = ask() - steady()

    def __call__(self) -> int:
        """Return microseconds since 1970 UTC; nothing is asked."""
        return self._steady() + self._offset

    def keep(self) -> None:
        """Ask the server again if its last answer is old."""
        asked_at = self._steady()
        if asked_at - self._asked_at > MAX_AGE_SECONDS * 1_000_000:
            self._asked_at = asked_at  # also where it fails: not every append is to wait for that
            with suppress(EventStoreError):
                there = self._ask()
                latest, earliest = there - asked_at, there - self._steady()
                self._offset = min(max(self._offset, earliest), latest)
