"""Times as the sources write them, as microseconds since 1970 UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

_UNITS: Final = ((10**17, 1000, 1), (10**14, 1, 1), (10**11, 1, 1000), (0, 1, 1_000_000))
"""From which number a time counts nano-, micro-, milliseconds and seconds: each has the years
from 1973 to 5138 for itself."""


def time_of(value: object) -> int | None:
    """Return the time that a value says, or None where it says none.

    Text is ISO 8601, in UTC where it names no zone, or a number. The size of a number tells its
    unit.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return _time_of_text(value)
    return _time_of_number(value) if isinstance(value, int | float) else None


def duration_of(seconds: object) -> int | None:
    """Return a number of seconds in microseconds, or None where it is not one."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    return round(seconds * 1_000_000) if 0 <= seconds < 10**12 else None


def time_between(start: object, end: object) -> int | None:
    """Return how long something took in microseconds, or None where a time is not one."""
    began, ended = time_of(start), time_of(end)
    return None if began is None or ended is None else max(ended - began, 0)


def _time_of_text(text: str) -> int | None:
    if text.isascii() and text.isdigit():
        return _time_of_number(int(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    microseconds = (moment - _EPOCH) // _MICROSECOND
    return microseconds if microseconds > 0 else None


def _time_of_number(number: float) -> int | None:
    if not 0 < number < 10**20:
        return None
    divisor, factor = next((d, f) for least, d, f in _UNITS if number >= least)
    exact = number if isinstance(number, int) else None
    microseconds = round(number * factor / divisor) if exact is None else exact * factor // divisor
    return microseconds if microseconds < 2**63 else None
