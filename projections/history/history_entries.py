"""`history_entries`: the ends of a log's calls, as `repair_history` takes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from eventstore import (
    DefaultRetryClassifier,
    Recorded,
    RetryClass,
    RetryClassifier,
    Tool,
    ToolCompleted,
    ToolFailed,
    ToolRejected,
)
from projections.current_tools import CurrentTools
from projections.history.repair_history import HistoryEntry

_DEFAULT = DefaultRetryClassifier()


def history_entries(
    events: Iterable[Recorded], classifier: RetryClassifier = _DEFAULT
) -> list[HistoryEntry]:
    """Return an entry for each end of a call in the log, in the order in which they ended.

    1. Every failed attempt is a failure, with the class that `classifier` gives it and its text
       for operators; every completion is a completion, also one that a hook or a person gave.
    2. A rejected call is a permanent failure, with the text that the model reads.
    3. The call is the one in force: an approved edit replaces what the model asked for.
    4. An open or paused call has not ended, and has no entry. Neither has an event that its call's
       lifecycle does not allow.

    `repair_history` of the result is the log's repaired history: for each distinct call its first
    completion, otherwise its last failure. `model_history(events, collapse="all")` keeps the same.
    """
    return list(_entries(events, classifier))


def _entries(events: Iterable[Recorded], classifier: RetryClassifier) -> Iterator[HistoryEntry]:
    tools = CurrentTools()
    for recorded in events:
        known = len(tools.anomalies)
        tools.apply(recorded)
        event = recorded.event
        if len(tools.anomalies) > known:
            continue
        if isinstance(event, ToolCompleted | ToolFailed | ToolRejected):
            tool = tools.get(recorded.conversation_id, event.call_id)
            if tool is not None:
                yield _entry(tool, event, classifier)


def _entry(
    tool: Tool, event: ToolCompleted | ToolFailed | ToolRejected, classifier: RetryClassifier
) -> HistoryEntry:
    match event:
        case ToolCompleted():
            return HistoryEntry.completed(tool.effective_call, event.response.result)
        case ToolFailed():
            return HistoryEntry.failed(tool.effective_call, event.failure, classifier)
        case ToolRejected():
            call, response = tool.to_tuple()
            message = response.result["error"] if response is not None else None
            return HistoryEntry.failed(call, RetryClass.PERMANENT, message=message)
