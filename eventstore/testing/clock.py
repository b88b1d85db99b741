"""A frozen clock."""

from __future__ import annotations

NOON = 1_700_000_000_000_000
"""A time, in microseconds since 1970 UTC."""


class FrozenClock:
    """A clock that changes only with `advance`."""

    def __init__(self, now: int = NOON) -> None:
        self.now = now

    def __call__(self) -> int:
        """Return the time."""
        return self.now

    def advance(self, seconds: float) -> int:
        """Add seconds and return the new time."""
        self.now += round(seconds * 1_000_000)
        return self.now
