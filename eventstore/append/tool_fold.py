"""`fold_tools`: the calls of a conversation as its log says they stand."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Any, Protocol

from eventstore.domain.equal_calls import Equality, calls_equal_to
from eventstore.domain.events import TOOL_EVENTS, Recorded, ToolCompleted
from eventstore.domain.lifecycle import evolve
from eventstore.domain.statuses import Completed
from eventstore.domain.tool import Tool
from eventstore.errors import IllegalTransition


class LookUp(Protocol):
    """Reads calls of one conversation from its log."""

    def __call__(self, call_ids: AbstractSet[str] | None = None) -> dict[str, Tool]:
        """Return the calls with these ids, or every call, by id."""
        ...


def equal_result(
    events: Iterable[Recorded], tool: Tool, equality: Equality
) -> ToolCompleted | None:
    """Return the last result of a call that asks for the same as `tool`, or None."""
    recorded = list(events)
    equal = calls_equal_to(tool, fold_tools(recorded), equality)
    ids = {each.id for each in equal if type(each.status) is Completed}
    results = (each.event for each in reversed(recorded) if each.call_id in ids)
    return next((event for event in results if type(event) is ToolCompleted), None)


def fold_tools(
    events: Iterable[Recorded], call_ids: AbstractSet[str] | None = None
) -> dict[str, Tool]:
    """Return each call, or those with these ids, as the events leave it.

    An event that breaks the rules of the lifecycle is passed over: the log is damaged or foreign,
    and `EventStore.verify` names the event.
    """
    tools: dict[str, Tool] = {}
    for recorded in events:
        if call_ids is not None and recorded.call_id not in call_ids:
            continue
        event: Any = recorded.event
        if type(event) in TOOL_EVENTS:
            call_id = event.call_id
            try:
                tools[call_id] = evolve(
                    tools.get(call_id), event, recorded.time, recorded.fingerprint
                )
            except IllegalTransition:
                continue
    return tools
