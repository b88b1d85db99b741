"""Settlements: the events by which a person says what became of a call in doubt. Pure.

1. A failure of one of the `SETTLEMENTS` says that nothing took effect. With a `delay` the call may
   run again.
2. A result that no tool returned, of a call that had begun, says that it took effect, if it has the
   name of a person. Without one it may as well be what a loop supplied in place of its tool.
"""

from __future__ import annotations

from typing import Literal

from eventstore.domain.closing_codes import SETTLEMENTS
from eventstore.domain.event_headers import CompletedHeader, FailedHeader
from eventstore.domain.events import ToolCompleted, ToolFailed

Settled = Literal["completed", "failed", "run_again"]
"""What a person says of a call in doubt."""


def settled_as(
    event: ToolCompleted | ToolFailed | CompletedHeader | FailedHeader, *, has_begun: bool
) -> Settled | None:
    """Return what a person says by the end of a call; None if the end is no settlement.

    `has_begun`: the call was running, had failed, or had run elsewhere, before it.
    """
    if isinstance(event, ToolCompleted | CompletedHeader):
        return "completed" if event.synthetic and event.by is not None and has_begun else None
    if event.failure.code not in SETTLEMENTS:
        return None
    return "failed" if event.delay is None else "run_again"
