"""Times as the log keeps them: integer microseconds since 1970 UTC."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, timedelta

MAX_MICROSECONDS = 253_402_300_799_999_999
"""The end of the year 9999, the last that a `datetime` has: a later time will not come."""

Moment: TypeAlias = "datetime | int"
"""A time that a caller passes: a `datetime` with a time zone, or microseconds since 1970 UTC."""

Expiry: TypeAlias = "datetime | timedelta | int"
"""When something ends: a `Moment`, or how long it lasts by the clock of the store."""


def microseconds_of(name: str, moment: Moment) -> int:
    """Return microseconds since 1970 UTC; `name` is that of the argument.

    Raises:
        TypeError: it is not a time.
        ValueError: it has no time zone, or is before 1970, or after the year 9999.
    """
    if type(moment) is int:
        microseconds = moment
    elif isinstance(moment, int) or not hasattr(moment, "utcoffset"):
        raise TypeError(
            f"{name} is {moment!r}: pass a datetime with a time zone, or microseconds since 1970 "
            "UTC as an integer"
        )
    elif moment.utcoffset() is None:
        raise ValueError(
            f"{name} is {moment!r}, which has no time zone: pass for example datetime.now(UTC)"
        )
    else:
        microseconds = round(moment.timestamp() * 1_000_000)
    if not 0 <= microseconds <= MAX_MICROSECONDS:
        raise ValueError(f"{name} is {moment!r}: pass a time between 1970 and the year 9999")
    return microseconds


def expiry_of(expires: Expiry) -> Callable[[int], int]:
    """Return the function that gives the end for the time now; both in microseconds since 1970 UTC.

    It raises `ValueError` for an end that is not after that time.

    Raises:
        TypeError: `expires` is neither a time nor a duration.
        ValueError: it is a time without a zone, or a duration that is not above zero, or one of
            thousands of years.
    """
    seconds: Callable[[], float] | None = getattr(expires, "total_seconds", None)
    if seconds is not None:
        lasts = round(seconds() * 1_000_000)
        if not 0 < lasts <= MAX_MICROSECONDS // 2:
            raise ValueError(f"expires is {expires!r}: pass a duration above zero, of some years")
        return lambda now: now + lasts
    end = microseconds_of("expires", cast("Moment", expires))

    def fixed(now: int) -> int:
        if end <= now:
            raise ValueError(
                f"expires is {expires!r}, and the clock of the store is past that: pass a time to "
                "come, or a timedelta"
            )
        return end

    return fixed
