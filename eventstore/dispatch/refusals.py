"""Refusals: why a call that has not started cannot. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from eventstore.dispatch.batch import DispatchedCall, not_executed_details
from eventstore.dispatch.decisions import Reject
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.policies.gates import listed_names

if TYPE_CHECKING:
    from eventstore.dispatch.function_tool import AnyFunctionTool
    from eventstore.domain.tool import Tool

Refusal = Failure | Reject


def unknown_tool(name: str, known: Sequence[str]) -> Failure:
    """Return the failure of a call to a tool that is not registered; `known` are shown instead."""
    message = f"Tool `{name}` not found"
    return Failure(
        ErrorKind.VALIDATION,
        message,
        f"{message}. Available: {listed_names(known)}.",
        code="tool_not_found",
    )


def invalid_arguments(definition: AnyFunctionTool, tool: Tool) -> Failure | None:
    """Return why the tool cannot take the arguments in force; None if it can.

    The edit of a log of an older version may name another tool. It is refused, because neither the
    tool of the call nor the other one may be run with it.
    """
    if tool.edit_names_other_tool:
        name = tool.effective_call.name
        message = (
            f"the approved edit names the tool `{name}`, and the call is of `{tool.call.name}`"
        )
        text = f"Not executed: {message}. Call `{name}` by itself."
        return Failure(ErrorKind.VALIDATION, message, text, code="edit_of_other_tool")
    return definition.invalid(tool.effective_call)


def over_limit(
    max_calls: int, calls: Sequence[DispatchedCall], counted_before: int = 0, before: int = 0
) -> dict[str, Reject]:
    """Return the rejections, by call id, of the counted calls of a turn beyond the limit.

    A call that is refused for another reason counts for the limit, too; a call of an unknown
    tool does not. `before` calls of the turn were answered before, `counted_before` of them count.
    """
    counted = [call for call in calls if _is_counted(call)]
    total = len(counted) + counted_before
    if total <= max_calls:
        return {}
    reason = (
        f"not executed: only the first {max_calls} call{'s' * (max_calls != 1)} of a turn may run "
        f"({total} were made); ask for the others again, one at a time"
    )
    details = not_executed_details(
        "max_tool_calls_per_turn",
        total_tool_calls=len(calls) + before,
        limit_counted_tool_calls=total,
        max_executed=max_calls,
    )
    refusal = Reject(reason, None, details, "limit")
    return {call.tool.id: refusal for call in counted[max(0, max_calls - counted_before) :]}


def _is_counted(call: DispatchedCall) -> bool:
    return call.definition is not None and call.definition.is_counted
