"""Model retries: how often in a row a tool has answered with a hint (`ModelRetry`). Pure.

1. The count is of one tool in one conversation, from its log: a restart does not forget it.
2. A completed call of the tool, a message of a user and the start of a run end the row.
3. Other failures of the tool neither count nor end the row: the model has still not found arguments
   that the tool accepts.
"""

from __future__ import annotations

from collections.abc import Iterable

from eventstore.domain.events import (
    MessageAdded,
    Recorded,
    RunStarted,
    ToolCompleted,
    ToolFailed,
    ToolPending,
)
from eventstore.domain.failure import MODEL_RETRY


def model_retries(events: Iterable[Recorded], name: str) -> int:
    """Return how many hints in a row the tool `name` has given by the end of these events."""
    ids: set[str] = set()
    hints = 0
    for recorded in events:
        match recorded.event:
            case ToolPending(call=call) if call.name == name and call.id is not None:
                ids.add(call.id)
            case ToolFailed(call_id=call_id, failure=failure) if call_id in ids:
                hints += failure.code == MODEL_RETRY
            case ToolCompleted(call_id=call_id) if call_id in ids:
                hints = 0
            case RunStarted() | MessageAdded(role="user"):
                hints = 0
            case _:
                pass
    return hints
