"""Times as the log keeps them: integer microseconds since 1970 UTC."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from datetime import datetime

Moment: TypeAlias = "datetime | int"
"""A time that a caller passes: a `datetime` with a time zone, or microseconds since 1970 UTC."""


def microseconds_of(name: str, moment: Moment) -> int:
    """Return microseconds since 1970 UTC; `name` is that of the argument.

    Raises:
        TypeError: it is not a time.
        ValueError: it has no time zone, or is before 1970.
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
    if microseconds < 0:
        raise ValueError(f"{name} is {moment!r}: pass a time after 1970")
    return microseconds
