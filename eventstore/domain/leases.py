"""Leases: how long an attempt without an end counts as under way. Pure.

1. A lease begins with its attempt, and each renewal prolongs it. Time is that of the store, so of
   the database: one for all workers, see `DatabaseClock`. A store with a clock of its own has that.
2. While it lasts, no other worker starts the call, not even with the number of the next attempt. A
   person may settle it, or take it over by an explicit word.
3. It is over when the attempt has ended, when the time of the store is past its end, or when its
   worker is known to have ended. Without an end the call is in doubt then, as one without a lease.
4. A renewal never shortens it. Where the clock of the database was set back, it continues from
   where it was, for the time between two renewals.
5. A lease keeps others away and proves nothing: a worker that was suspended continues when
   it wakes. What keeps two effects apart is the number of the attempt, as a fence: see
   `CurrentAttempt`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from eventstore.domain.statuses import Running

if TYPE_CHECKING:
    from datetime import timedelta

    from eventstore.domain.tool import Tool

Lease: TypeAlias = "timedelta | float | None"
"""How long a lease lasts, in seconds where it is a number; None is no lease."""

DEFAULT_LEASE_SECONDS = 30.0
"""The lease of a dispatcher's attempts."""

RENEWALS_PER_LEASE = 3
"""How often a lease is renewed while it lasts: two renewals may be missed."""


def lease_in_microseconds(lease: Lease) -> int | None:
    """Return the microseconds of a lease; None for no lease.

    Raises:
        TypeError: it is neither a duration nor a number of seconds.
        ValueError: it is not above zero, or without end.
    """
    if lease is None:
        return None
    duration: object = getattr(lease, "total_seconds", None)
    seconds: object = duration() if callable(duration) else lease
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError(f"lease is {lease!r}: pass a timedelta, seconds, or None")
    if not 0 < seconds < float("inf"):
        raise ValueError(f"lease is {lease!r}: pass a duration above zero, or None for no lease")
    return max(round(seconds * 1_000_000), 1)


def end_of_lease(at: int | None, lease: int | None) -> int | None:
    """Return the end of a lease that begins at a time; both in microseconds."""
    return None if at is None or lease is None else at + lease


def renewed_end(before: int | None, at: int | None, lease: int) -> int | None:
    """Return the end of a lease that is renewed at a time, and ended at `before` until then."""
    if at is None:
        return before
    if before is None:
        return at + lease
    return max(at + lease, before + lease // RENEWALS_PER_LEASE)


def is_leased(tool: Tool, now: int) -> bool:
    """Return whether the lease of an attempt lasts at a time, in microseconds since 1970 UTC."""
    status = tool.status
    return type(status) is Running and status.leased_until is not None and now < status.leased_until
