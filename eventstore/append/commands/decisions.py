"""Commands of a person: to approve, reject or settle a call, as it was seen.

1. A decision is bound to what was seen of the call. It is refused where the call has changed.
2. An approval that has expired is taken back first, so that the call waits again. A decision on
   what was seen before that is then refused.
3. A rejection never hides a doubt: a call that may have taken effect is settled.
4. A settlement says what became of a call in doubt, and of no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from msgspec import UNSET
from msgspec.structs import replace

from eventstore.append.command import Command, PendingAppend
from eventstore.append.staging import at_door
from eventstore.domain.calls import FunctionCall, FunctionResponse
from eventstore.domain.closing_codes import RUN_AGAIN, SETTLED
from eventstore.domain.decision_errors import ApprovalExpired
from eventstore.domain.events import (
    Event,
    ToolApproved,
    ToolCompleted,
    ToolEvent,
    ToolFailed,
    ToolPaused,
    ToolRejected,
)
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.domain.lifecycle import check_no_doubt, check_seen
from eventstore.domain.recovery import waits_again
from eventstore.domain.revision import Revision
from eventstore.domain.statuses import Approved, Completed, Failed, Pending
from eventstore.domain.times import expiry_of
from eventstore.domain.tool import Tool
from eventstore.errors import IllegalTransition, UnparsedArguments

if TYPE_CHECKING:
    from eventstore.append.conversation_state import ConversationState
    from eventstore.append.tool_fold import LookUp
    from eventstore.domain.json_types import JsonObject
    from eventstore.domain.times import Expiry

T = TypeVar("T")

Seen: TypeAlias = Tool | Revision | str
"""What a decision was made on: the call that was shown, its `revision`, or the text of that."""


def on_seen(command: Command[T], call_id: str, seen: Seen | None) -> Command[T]:
    """Return the command, refused with `CallChanged` where the call is not as it was `seen`.

    Raises:
        ValueError: `seen` is another call, or no revision.
        TypeError: `seen` is something else.
    """
    if seen is None:
        return command
    revision = _revision_of(call_id, seen)

    def decide(state: ConversationState, look_up: LookUp) -> Sequence[Event]:
        events = command.decide(state, look_up)
        (decision,) = cast("tuple[ToolEvent]", at_door(state, events[-1:]))
        check_seen(state.tool(call_id, look_up), decision, revision)
        return events

    return replace(command, decide=decide)


def _revision_of(call_id: str, seen: Seen) -> Revision:
    if isinstance(seen, Tool):
        if seen.id != call_id:
            raise ValueError(
                f"seen is call {seen.id!r}, and the decision is on {call_id!r}: pass the Tool of "
                "the call that was shown"
            )
        return seen.revision
    if isinstance(seen, str):
        return Revision.parse(seen)
    if isinstance(cast("object", seen), Revision):
        return seen
    raise TypeError(f"seen is {seen!r}: pass the Tool that was shown, or its `revision`")


def approve(
    conversation_id: str,
    call_id: str,
    edited_arguments: JsonObject | None = None,
    by: str | None = None,
    reason: str | None = None,
    *,
    seen: Seen | None = None,
    expires: Expiry | None = None,
) -> Command[Tool]:
    """Allow a call; see `Conversation.approve`.

    An approval that has expired is taken back first, so that the call waits again. A decision on
    what was seen before that is then refused.
    """
    if isinstance(cast("object", edited_arguments), FunctionCall):
        raise TypeError(
            f"edited_arguments is {edited_arguments!r}: pass its arguments; an edit changes the "
            "arguments alone, so to run another tool reject the call and request() that one"
        )

    end = None if expires is None else expiry_of(expires)

    def decide(state: ConversationState, look_up: LookUp) -> Sequence[Event]:
        tool = state.tool(call_id, look_up)
        edit = None
        if edited_arguments is not None:
            edit = FunctionCall.of(tool.call.name, edited_arguments, call_id)
        elif tool.is_pending and tool.effective_call.raw is not None:
            raise UnparsedArguments(call_id, tool.effective_call.raw)
        expires_at = None if end is None else end(state.now)
        approved = ToolApproved(call_id, edit, by, reason, expires_at=expires_at)
        if not waits_again(tool, state.now):
            return (approved,)
        return (taken_back(tool), approved) if seen is None else (taken_back(tool),)

    def result(done: PendingAppend) -> Tool:
        return unless_taken_back(done, "approved")

    return on_seen(Command(conversation_id, decide, result), call_id, seen)


def reject(
    conversation_id: str,
    call_id: str,
    reason: str | None = None,
    source: str = "human",
    by: str | None = None,
    details: JsonObject | None = None,
    *,
    seen: Seen | None = None,
) -> Command[Tool]:
    """Refuse a call; see `Conversation.reject`."""

    def decide(state: ConversationState, look_up: LookUp) -> Sequence[Event]:
        tool = state.tool(call_id, look_up)
        if type(tool.status) in (Pending, Approved):
            check_no_doubt(tool)
        return (ToolRejected(call_id, reason, source, by, details),)

    return on_seen(Command(conversation_id, decide, PendingAppend.tool), call_id, seen)


def settle(
    conversation_id: str,
    call_id: str,
    seen: Seen,
    completed: object = UNSET,
    failed: str | None = None,
    by: str | None = None,
    reason: str | None = None,
    *,
    run_again: bool = False,
) -> Command[Tool]:
    """Say what became of a call in doubt; see `Conversation.settle`."""
    if [completed is not UNSET, failed is not None, run_again].count(True) != 1:
        raise ValueError("pass one of completed=, failed= and run_again=True")
    if cast("object", seen) is None:
        raise TypeError("seen is None: pass the Tool that you looked up, or its `revision`")
    if failed is not None and not str(failed).strip():
        raise ValueError(f"failed is {failed!r}: say why the call has not taken effect")
    said = failed or "it has not taken effect, and will be tried again"
    code = RUN_AGAIN if run_again else SETTLED
    failure = Failure(ErrorKind.PERMANENT, said, code=code, in_doubt=False)

    def decide(state: ConversationState, look_up: LookUp) -> Sequence[Event]:
        tool = state.tool(call_id, look_up)
        delay = 0 if run_again else None
        event: ToolEvent = ToolFailed(
            call_id, failure, tool.attempts, delay=delay, by=by, reason=reason
        )
        if completed is not UNSET:
            response = FunctionResponse(tool.call.name, completed, call_id)
            event = ToolCompleted(
                call_id, response, tool.attempts, synthetic=True, by=by, reason=reason
            )
        if run_again:
            state.check_readable()
            if tool.effective_call.raw is not None:
                raise UnparsedArguments(call_id, tool.effective_call.raw)
        if not state.leaves_doubt(tool):
            _check_settled(tool, *cast("tuple[ToolEvent]", at_door(state, (event,))))
        return (event,)

    return on_seen(Command(conversation_id, decide, PendingAppend.tool), call_id, seen)


def _check_settled(tool: Tool, event: ToolEvent) -> None:
    """Raise an error unless a call has been settled so before."""
    status = tool.status
    if type(status) is Completed and status.synthetic and type(event) is ToolCompleted:
        return  # another result is refused, and the same one is not written again
    if type(status) is Failed and type(event) is ToolFailed and status.failure == event.failure:
        return
    reason = f"nothing about it is in doubt: it is {status.name}"
    raise IllegalTransition(status.name, event.tag, tool.id, reason)


def taken_back(tool: Tool) -> ToolPaused:
    """Return the event that takes back an approval which has expired: the call waits again."""
    status = tool.status
    by = f" by {status.by}" if type(status) is Approved and status.by else ""
    return ToolPaused(tool.id, reason=f"the approval{by} has expired")


def unless_taken_back(done: PendingAppend, event: str) -> Tool:
    """Return the call after the event, unless its approval was taken back in place of that.

    Raises:
        ApprovalExpired: it was.
    """
    tool = done.tool()
    if done.events and type(done.events[-1]) is ToolPaused:
        raise ApprovalExpired(event, tool)
    return tool
