"""The calls of a step whose model was asked anew, because the run did not keep its answer. Pure.

1. The new answer takes the place of the first: calls of that which have not started are rejected,
   so that only one of both runs.
2. A call that asks for the same as one that has completed gets its result. One that asks for the
   same as one in doubt is rejected, and the model is told of the first. What a person rejected
   stays rejected. The same are the arguments that the model asked for, and those of an edit.
3. Each call of the first answer stands for one call of the new one. All others may run.
4. A failed call whose next attempt is announced continues, and an equal call is rejected instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeGuard

import msgspec

from eventstore.domain.calls import FunctionResponse
from eventstore.domain.closing_codes import NOT_EXECUTED
from eventstore.domain.equal_calls import EQUAL_CALL, Equality, refused, stands_in_the_way
from eventstore.domain.events import ToolCompleted, ToolEvent, ToolPending, ToolRejected
from eventstore.domain.messages import Part
from eventstore.domain.statuses import Approved, Completed, Pending, Rejected
from eventstore.domain.tool import Tool

ASKED_ANEW = "asked_anew"
"""Why a call of the first answer is rejected, as the log names it."""

_EQUAL = Equality()


def settled_by_new_answer(made: Sequence[ToolPending], earlier: Iterable[Tool]) -> list[ToolEvent]:
    """Return what a new answer settles: `earlier` calls of its step, and calls that it `made`."""
    left = [*earlier]
    settled: list[ToolEvent] = [_replaced(tool) for tool in left if _has_not_started(tool)]
    for asked in made:
        first = next((tool for tool in left if _stands_for(tool, asked)), None)
        if first is not None:
            left.remove(first)
            settled.append(_answered(asked, first))
    return settled


def is_replacement(event: object) -> TypeGuard[ToolRejected]:
    """Return whether an event rejects a call because of a new answer."""
    return type(event) is ToolRejected and event.by == ASKED_ANEW


def _has_not_started(tool: Tool) -> bool:
    return isinstance(tool.status, Pending | Approved) and not stands_in_the_way(tool)


def _stands_for(tool: Tool, asked: ToolPending) -> bool:
    if not any(_EQUAL.holds(call, asked.call) for call in (tool.call, tool.effective_call)):
        return False
    status = tool.status
    if isinstance(status, Completed):
        return status.by != EQUAL_CALL  # that has no effect of its own
    if isinstance(status, Rejected):
        return status.source == "human"
    return stands_in_the_way(tool)


def _replaced(tool: Tool) -> ToolRejected:
    reason = "not executed: the model was asked anew, and its other answer is in force"
    details = {"kind": NOT_EXECUTED, "reason": ASKED_ANEW}
    return ToolRejected(tool.id, reason, "rule", ASKED_ANEW, details)


def _answered(asked: ToolPending, first: Tool) -> ToolEvent:
    if not isinstance(first.status, Completed):
        return refused(asked.call_id, first)
    result = first.status.response.result
    response = FunctionResponse(asked.call.name, _parts_in(result) or result, asked.call_id)
    reason = f"the result of the call {first.id!r}"
    return ToolCompleted(asked.call_id, response, synthetic=True, by=EQUAL_CALL, reason=reason)


def _parts_in(result: object) -> list[Part]:
    """Return the parts of a message that a result was; none if it was something else."""
    try:
        return msgspec.convert(result, list[Part])
    except msgspec.ValidationError:
        return []
