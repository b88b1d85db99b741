"""`cutoff`: how long something is kept, and the moment before which it is older than that."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import UTC, datetime, timedelta

_WRITTEN = re.compile(r"(\d{1,6}) ?(d|days?|w|weeks?|mo|months?|y|years?)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def cutoff(keep: str | timedelta, now: int) -> int:
    """Return the moment that is so long before `now`; both in microseconds since 1970 UTC.

    `keep` is a `timedelta`, or text such as "90 days", "26 weeks", "6 months" or "2 years". A month
    goes back to the same day of the month, or to its last day.

    Raises:
        ValueError: it is neither, or not above zero, or longer than there are dates.
    """
    then = _EPOCH + now * _MICROSECOND
    written = _WRITTEN.fullmatch(keep.strip()) if isinstance(keep, str) else None
    try:
        if isinstance(keep, timedelta):
            before = then - keep
        elif written is not None:
            before = _back(then, int(written[1]), written[2][:2])
        else:
            before = then
    except (OverflowError, ValueError) as error:
        raise ValueError(f"keep is {keep!r}: that is longer than there are dates") from error
    if before >= then:
        raise ValueError(
            f"keep is {keep!r}: pass a time above zero, such as '90 days', '6 months' or '2 years'"
        )
    return (before - _EPOCH) // _MICROSECOND


def _back(then: datetime, number: int, unit: str) -> datetime:
    if unit[0] == "d":
        return then - timedelta(days=number)
    if unit[0] == "w":
        return then - timedelta(weeks=number)
    months = 12 * then.year + then.month - 1 - number * (12 if unit[0] == "y" else 1)
    year, month = divmod(months, 12)
    day = min(then.day, monthrange(year, month + 1)[1])
    return then.replace(year=year, month=month + 1, day=day)
