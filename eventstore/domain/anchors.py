"""Anchors: what tells an event at a position from any other that may come to stand there.

1. An anchor is the id of an event and the time of its recording: `ID@MICROSECONDS`.
2. The id alone does not tell: an event that a restore took back may be repeated with its id, as
   `OutcomeUnknown` advises. It can come to its old position while others before it are lost. Its
   time of recording is another one then.
3. Anchors of older versions are ids alone, and are compared by the id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eventstore.domain.events import Recorded

_BETWEEN = "@"


def anchor(event_id: str, recorded_at: object) -> str:
    """Return the anchor of an event, by its id and the microseconds at which it was recorded."""
    return f"{event_id}{_BETWEEN}{recorded_at}"


def anchor_of(recorded: Recorded) -> str:
    """Return the anchor of an event of the log."""
    return anchor(recorded.event_id, recorded.recorded_at)


def event_id_of(kept: str | None) -> str | None:
    """Return the id in an anchor; None where there is no anchor."""
    return None if kept is None else kept.partition(_BETWEEN)[0]


def is_same(kept: str, found: str | None) -> bool:
    """Return whether the event that is found has the anchor that was kept."""
    if found is None or _BETWEEN in kept:
        return kept == found
    return kept == event_id_of(found)
