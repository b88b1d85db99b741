"""Commands of the worker of a call: its attempts, from their starts to their ends.

1. A call starts only as it was last seen, and where it may: not while an attempt is under way, an
   equal call is in doubt, or the call waits, and not on an approval that has expired.
2. One that may have taken effect, or is closed, starts only with the number of its next attempt: a
   person says so that another one is meant.
3. An attempt ends under its own number. If it is over by then, because another worker has begun the
   next one or a person has settled the call, its end is kept as a late one, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from eventstore.append.command import Command, PendingAppend
from eventstore.append.commands.decisions import taken_back, unless_taken_back
from eventstore.append.inputs import failure_of
from eventstore.append.staging import at_door, encode_event
from eventstore.domain.arguments import in_microseconds
from eventstore.domain.calls import FunctionResponse, same_json
from eventstore.domain.closing_codes import FORKED, SETTLED
from eventstore.domain.decision_errors import ApprovalExpired, CallChanged
from eventstore.domain.equal_calls import EQUAL_CALL, refusal, refused
from eventstore.domain.events import (
    Event,
    ToolCompleted,
    ToolEndedLate,
    ToolFailed,
    ToolPaused,
    ToolRejected,
    ToolRenewed,
    ToolRunning,
)
from eventstore.domain.lifecycle import check_startable
from eventstore.domain.recovery import has_expired, is_due, waits_again
from eventstore.domain.statuses import Completed, Failed, Pending, Rejected, Running
from eventstore.errors import IllegalTransition
from eventstore.leases.claim import NO_CLAIM, Claim
from eventstore.leases.under_way import check_not_under_way

if TYPE_CHECKING:
    from eventstore.append.conversation_state import ConversationState
    from eventstore.append.tool_fold import LookUp
    from eventstore.domain.equal_calls import SameEffect
    from eventstore.domain.failure import Failure
    from eventstore.domain.tool import Tool


def start(
    conversation_id: str,
    call_id: str,
    attempt: int | None = None,
    now: int | None = None,
    checked: Tool | None = None,
    effect: SameEffect | None = None,
    claim: Claim = NO_CLAIM,
) -> Command[Tool]:
    """Record that an attempt begins, with the lease of its `claim`; see `Conversation.start`.

    With `now` (microseconds since 1970 UTC), a call that is paused, or deferred to a later time, is
    not started. Neither is one that was edited, started or paused since it was `checked`. An
    approval ends by the clock of the store, not by `now`. With `effect`, a call that asks for the
    same as one in doubt is rejected; one that has failed stays so.
    """

    def decide(state: ConversationState, look_up: LookUp) -> Sequence[Event]:
        tool = state.tool(call_id, look_up)
        if type(tool.status) is Running and not claim.takes_over:
            check_not_under_way(conversation_id, tool, state.now)
        _check_may_start(tool, attempt, now)
        if checked is not None and not _is_unchanged(checked, tool):
            raise CallChanged("running", checked.revision, tool)
        if has_expired(tool, state.now):
            if waits_again(tool, state.now):
                return (taken_back(tool),)
            raise ApprovalExpired("running", tool)
        if effect is not None and state.doubtful and not tool.in_doubt:
            first = state.in_the_way(tool, effect)
            if first is not None:
                return (_refused(tool, first),)
        number = tool.attempts + 1 if attempt is None else attempt
        arguments = tool.effective_call.arguments
        return (ToolRunning(call_id, number, arguments, (), claim.lease, claim.worker_of(number)),)

    def result(done: PendingAppend) -> Tool:
        return unless_taken_back(done, "running")

    return Command(conversation_id, decide, result)


def _check_may_start(tool: Tool, attempt: int | None, now: int | None) -> None:
    check_startable(tool)
    if attempt is None:
        _check_known(tool)
    if now is not None or attempt is None:
        _check_not_paused(tool, now)


def _is_unchanged(checked: Tool, now: Tool) -> bool:
    """Return whether a call has the same revision; that of a call without an edit is not made."""
    if checked.attempts != now.attempts or checked.pauses != now.pauses:
        return False
    return (checked.edit is None and now.edit is None) or checked.revision == now.revision


def _refused(tool: Tool, first: Tool) -> ToolRejected:
    """Return the rejection of a call that asks for the same as `first`.

    Raises:
        IllegalTransition: the call has failed before, and waits for its next attempt.
    """
    if type(tool.status) is Failed:
        raise IllegalTransition("Failed", "running", tool.id, refusal(first))
    return refused(tool.id, first)


def _check_known(tool: Tool) -> None:
    """Raise an error where only the number of the next attempt says that another one is meant."""
    status = tool.status
    if tool.in_doubt:
        why = f"{_what_left_a_doubt(tool)}, it may have taken effect; to run it all the same"
    elif type(status) is Failed and status.failure.code in _CLOSED_AS:
        why = f"{_CLOSED_AS[status.failure.code]}; to run it all the same"
    elif tool.approval_used:
        why = "its approval was for what has failed; to run it once more"
    else:
        return
    reason = f"{why} pass attempt={tool.attempts + 1}"
    raise IllegalTransition(status.name, "running", tool.id, reason)


_CLOSED_AS = {
    FORKED: "it belongs to the origin of this copy, where it may have run",
    SETTLED: "it was settled as failed for good",
}
"""The codes of failures that no attempt follows by itself, and what they mean."""


def _what_left_a_doubt(tool: Tool) -> str:
    status = tool.status
    if type(status) is Running:
        return f"attempt {tool.attempts} has no recorded end"
    if type(status) is Failed and status.failure.leaves_doubt:
        return f"attempt {tool.attempts} ended in doubt"
    return (
        "an attempt before the last one ended in doubt"
        if tool.attempts
        else "it was imported without a result"
    )


def _check_not_paused(tool: Tool, now: int | None) -> None:
    status = tool.status
    if type(status) is not Pending:
        return
    if status.needs_decision:
        raise IllegalTransition(
            "Pending",
            "running",
            tool.id,
            "it is paused until a person decides: approve() or reject() it; to run it all the same "
            f"pass attempt={tool.attempts + 1}",
        )
    if now is not None and not is_due(status, now):
        raise IllegalTransition(
            "Pending", "running", tool.id, "it is deferred to a later time: start() it then"
        )


def renew(conversation_id: str, call_id: str, attempt: int, lease: int) -> Command[Tool]:
    """Record that the worker of an attempt is still at it; `lease` is in microseconds."""

    def decide(_: ConversationState, __: LookUp) -> Sequence[Event]:
        return (ToolRenewed(call_id, attempt, lease),)

    return Command(conversation_id, decide, PendingAppend.tool)


def pause(
    conversation_id: str,
    call_id: str,
    until: int | None = None,
    reason: str | None = None,
    *,
    attempt: int = 0,
    duration: int | None = None,
    is_own: bool = False,
) -> Command[Tool]:
    """Record that an attempt pauses; with `attempt` 0, that a call which has not started waits.

    `until` is in microseconds since 1970 UTC, `duration` in microseconds. `is_own`: see `complete`.
    """

    def decide(state: ConversationState, look_up: LookUp) -> Sequence[Event]:
        tool = state.tool(call_id, look_up)
        if is_own:
            end = ToolEndedLate(call_id, attempt, reason=reason, duration=duration)
            if (late := _late_end(state, tool, end)) is not None:
                return (late,)
        return (ToolPaused(tool.id, attempt, until, reason, duration),)

    return Command(conversation_id, decide, PendingAppend.tool)


def complete(  # noqa: PLR0913 - each with a default
    conversation_id: str,
    call_id: str,
    result: object,
    *,
    attempt: int | None = None,
    duration: int | None = None,
    synthetic: bool = False,
    by: str | None = None,
    reason: str | None = None,
    is_own: bool = False,
) -> Command[Tool]:
    """Record a call's result; see `Conversation.complete`. `duration` is in microseconds.

    `by` and `reason` say what answered a call without running its tool, or changed the result.
    `is_own`: the worker of the `attempt` ends it. If that is over by then, because another one has
    begun or a person has settled the call, its end is kept as a late one.
    """

    def decide(state: ConversationState, look_up: LookUp) -> Sequence[Event]:
        tool = state.tool(call_id, look_up)
        number = tool.attempts if attempt is None else attempt
        response = FunctionResponse(tool.call.name, result, call_id)
        if is_own:
            end = ToolEndedLate(call_id, number, response, duration=duration)
            if (late := _late_end(state, tool, end)) is not None:
                return (late,)
        completed = ToolCompleted(
            call_id, response, number, duration, synthetic, by=by, reason=reason
        )
        return (completed,)

    return Command(conversation_id, decide, PendingAppend.tool)


def fail(
    conversation_id: str,
    call_id: str,
    error: BaseException | Failure | str,
    delay: float | None = None,
    *,
    attempt: int | None = None,
    duration: int | None = None,
    is_own: bool = False,
) -> Command[Tool]:
    """Record that an attempt failed; see `Conversation.fail`. `duration` is in microseconds.

    With `attempt`, only that attempt is failed, and only if no later one has begun. A call that
    failed in doubt is settled by a failure without one. `is_own`: see `complete`.
    """
    failure, wait = failure_of(error), in_microseconds("delay", delay)

    def decide(state: ConversationState, look_up: LookUp) -> Sequence[Event]:
        tool = state.tool(call_id, look_up)
        if is_own and attempt is not None:
            end = ToolEndedLate(call_id, attempt, failure=failure, duration=duration)
            if (late := _late_end(state, tool, end)) is not None:
                return (late,)
        if attempt not in (None, tool.attempts):
            raise IllegalTransition(
                tool.status.name,
                "failed",
                call_id,
                f"attempt {attempt} is over: look at the last, which is {tool.attempts}",
            )
        recorded = failure
        if type(tool.status) is Failed and tool.in_doubt and not failure.leaves_doubt:
            recorded = replace(failure, in_doubt=False)  # it settles the doubt
        return (ToolFailed(call_id, recorded, tool.attempts, duration, wait),)

    return Command(conversation_id, decide, PendingAppend.tool)


def complete_equally(conversation_id: str, call_id: str, first: ToolCompleted) -> Command[Tool]:
    """Record that a call gets the result of an equal one, without an attempt."""

    def decide(state: ConversationState, look_up: LookUp) -> Sequence[Event]:
        tool = state.tool(call_id, look_up)
        response = replace(first.response, id=call_id)
        reason = f"the result of the call {first.call_id!r}"
        answer = ToolCompleted(
            tool.id,
            response,
            synthetic=True,
            lossy=first.lossy,
            in_parts=first.in_parts,
            by=EQUAL_CALL,
            reason=reason,
        )
        return (answer,)

    return Command(conversation_id, decide, PendingAppend.tool)


def _late_end(state: ConversationState, tool: Tool, end: ToolEndedLate) -> ToolEndedLate | None:
    """Return the end of an attempt that is over, as it is kept; None if it ends the call.

    So does the end of an attempt under way, the result of one that has failed, and what the log has
    already.
    """
    status = tool.status
    if type(status) is Running and tool.attempts == end.attempt:
        return None
    if end.response is not None:
        given: ToolCompleted = encode_event(ToolCompleted(end.call_id, end.response))[0]
        completed = cast("ToolCompleted", at_door(state, (given,))[0])
        end = replace(
            end, response=completed.response, lossy=completed.lossy, in_parts=completed.in_parts
        )
    if tool.attempts != end.attempt or type(status) is Rejected:
        return end
    if type(status) is Completed:
        result = None if end.response is None else end.response.result
        is_repeated = end.response is not None and same_json(status.response.result, result)
        return None if is_repeated else end
    return end if type(status) is Failed and end.response is None else None
