"""Whether an attempt is under way: it is leased, and its worker is not known to have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventstore.domain.decision_errors import CallUnderWay
from eventstore.domain.leases import is_leased
from eventstore.domain.statuses import Running
from eventstore.leases.keeper import is_held_here
from eventstore.leases.worker import has_ended, this_worker

if TYPE_CHECKING:
    from eventstore.domain.tool import Tool


def is_under_way(conversation_id: str, tool: Tool, now: int) -> bool:
    """Return whether the attempt of a call is leased, and its worker is not known to have ended.

    `now` is the time of the store, in microseconds since 1970 UTC.
    """
    if not is_leased(tool, now):
        return False
    status = tool.status
    if type(status) is not Running or status.worker is None:
        return True
    if status.worker != this_worker():
        return not has_ended(status.worker)
    return is_held_here(conversation_id, tool.id, status.attempt)


def check_not_under_way(conversation_id: str, tool: Tool, now: int) -> None:
    """Raise an error if the last attempt is leased to a worker that may still be at it.

    Raises:
        CallUnderWay: it is.
    """
    status = tool.status
    if type(status) is Running and is_under_way(conversation_id, tool, now):
        until = status.leased_until or 0
        raise CallUnderWay(tool, until, _utc(until))


def _utc(microseconds: int) -> str:
    """Return a time as text, as in 2026-01-02T12:00:30+00:00."""
    from datetime import UTC, datetime  # slow to load, and seldom needed

    try:
        return datetime.fromtimestamp(microseconds // 1_000_000, UTC).isoformat()
    except (OverflowError, ValueError):
        return "the year 10000"
