"""`Command`: one append as a value, and the functions that make the commands.

A command says what to append, decided on the state that the append really follows, and what its
caller gets. It does nothing by itself: a session runs it, blocking or awaited.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar, cast

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from eventstore.append.call_ids import mint_call_id
from eventstore.append.conversation_state import IdentifiedEvents
from eventstore.append.encoding import encode_event
from eventstore.append.inputs import check_event, failure_of, is_unplaced, times_at_source
from eventstore.append.pending_append import Decide, PendingAppend
from eventstore.append.places import calls_at, event_id_at, event_ids_at, place_of_step
from eventstore.domain.arguments import check_version, event_ids_as_bytes, in_microseconds
from eventstore.domain.asked_anew import is_replacement, settled_by_new_answer
from eventstore.domain.calls import FunctionCall, FunctionResponse, is_tool_name, same_json
from eventstore.domain.decision_errors import ApprovalExpired, CallChanged
from eventstore.domain.equal_calls import EQUAL_CALL, refusal, refused
from eventstore.domain.events import (
    FORKED,
    RUN_AGAIN,
    SETTLED,
    Event,
    HookAnswer,
    MessageAdded,
    Recorded,
    ToolApproved,
    ToolCompleted,
    ToolEndedLate,
    ToolEvent,
    ToolFailed,
    ToolPaused,
    ToolPending,
    ToolRejected,
    ToolRenewed,
    ToolRunning,
)
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.domain.lifecycle import check_no_doubt, check_seen, check_startable
from eventstore.domain.messages import ROLES, Part, as_parts
from eventstore.domain.recovery import is_due
from eventstore.domain.revision import Revision
from eventstore.domain.statuses import (
    Approved,
    Completed,
    Failed,
    Pending,
    Rejected,
    Running,
)
from eventstore.domain.times import expiry_of
from eventstore.domain.tool import Tool
from eventstore.errors import IllegalTransition, UnparsedArguments
from eventstore.leases.claim import NO_CLAIM, Claim
from eventstore.leases.under_way import check_not_under_way

if TYPE_CHECKING:
    from uuid import UUID

    from eventstore.append.conversation_state import ConversationState
    from eventstore.append.tool_fold import LookUp
    from eventstore.domain.equal_calls import SameEffect
    from eventstore.domain.json_types import JsonObject
    from eventstore.domain.times import Expiry, Moment

T_co = TypeVar("T_co", covariant=True)

Seen: TypeAlias = Tool | Revision | str
"""What a decision was made on: the call that was shown, its `revision`, or the text of that."""


class Command(msgspec.Struct, Generic[T_co], frozen=True, eq=False):
    """One append to a conversation, and the selector of its result."""

    conversation_id: str
    decide: Decide
    result: Callable[[PendingAppend], T_co]
    """Selects the caller's result from the finished append."""
    expected_version: int | None = None
    event_ids: Sequence[bytes] = ()
    exclusive: bool = False
    """Its decision looks things up in the log, so that it shares no transaction with others."""


def with_hooks(command: Command[T_co], hooks: tuple[HookAnswer, ...]) -> Command[T_co]:
    """Return the command whose first event says what hooks answered before it."""

    def decide(state: ConversationState, look_up: LookUp) -> Sequence[Event]:
        first, *others = command.decide(state, look_up)
        return (replace(first, hooks=hooks), *others)

    return replace(command, decide=decide)


def stored_once(
    command: Command[list[Tool]], place: bytes, step: str | None = None
) -> Command[list[Tool]]:
    """Return the command, which stores its events once; told again, it returns their calls.

    With `step` the calls are those of a step of a run; see `eventstore.domain.asked_anew`.
    """
    known = [event_id_at(place, 0)]

    def decide(state: ConversationState, look_up: LookUp) -> Sequence[Event]:
        events = command.decide(state, look_up)
        if step is not None:
            events = _events_of_step(step, events, state, look_up)
        return IdentifiedEvents(events, event_ids_at(place, len(events)))

    def result(done: PendingAppend) -> list[Tool]:
        if done.stored_ids >= set(known):
            return calls_at(done, place)
        replaced = {e.call_id for e in done.events if is_replacement(e)}
        return [tool for tool in command.result(done) if tool.id not in replaced]

    return replace(command, decide=decide, result=result, event_ids=known, exclusive=True)


def _events_of_step(
    step: str, events: Sequence[Event], state: ConversationState, look_up: LookUp
) -> list[Event]:
    """Return the events of a step, and what they settle of an earlier answer of the model."""
    of_step = [replace(e, step=step) if type(e) is ToolPending else e for e in events]
    ended = {event.call_id for event in of_step if type(event) is ToolFailed}  # it was cut off
    made = [e for e in of_step if type(e) is ToolPending and e.call_id not in ended]
    is_answer = made or any(type(e) is MessageAdded and e.role == "assistant" for e in of_step)
    earlier = state.tools_of_step(step, look_up) if is_answer else ()
    return [*of_step, *settled_by_new_answer(made, earlier)]


def on_seen(command: Command[T_co], call_id: str, seen: Seen | None) -> Command[T_co]:
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
        decision = cast("ToolEvent", events[-1])
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


def append(
    conversation_id: str,
    events: Sequence[Event],
    expected_version: int | None = None,
    event_ids: Sequence[UUID | str | bytes] | None = None,
    occurred_at: Sequence[Moment | None] | None = None,
) -> Command[list[Recorded]]:
    """Append events, all or none; see `Conversation.append`."""
    if expected_version is not None:
        check_version("expected_version", expected_version)
    checked = tuple(map(check_event, events))
    ids = event_ids_as_bytes(event_ids, len(checked))
    times = times_at_source(occurred_at, len(checked))
    unplaced = any(map(is_unplaced, checked))

    def decide(state: ConversationState, _: LookUp) -> Sequence[Event]:
        placed = state.placed(checked) if unplaced else checked
        return IdentifiedEvents(placed, times=times) if times else placed

    def result(done: PendingAppend) -> list[Recorded]:
        return _recorded_under(done, ids)

    return Command(conversation_id, decide, result, expected_version, ids, exclusive=bool(ids))


def _recorded_under(done: PendingAppend, ids: Sequence[bytes]) -> list[Recorded]:
    """Return what was written, or was there under these ids before."""
    recorded = done.recorded()
    if len(recorded) == len(ids) or not ids:
        return recorded
    wanted = {event_id.hex() for event_id in ids}
    return [found for found in done.read_log(done.conversation_id) if found.event_id in wanted]


def add_message(
    conversation_id: str,
    role: str,
    content: str | Part | Sequence[Part],
    step: str | None = None,
) -> Command[Recorded]:
    """Add a message; see `Conversation.add_message`."""
    if role not in ROLES or role == "tool":
        raise ValueError(
            f"role is {role!r}: pass system, developer, user or assistant "
            "(a tool's answer is complete() or fail())"
        )
    parts = as_parts(content)
    ids = [] if step is None else [event_id_at(place_of_step(step, (role, parts)), 0)]

    def decide(state: ConversationState, _: LookUp) -> Sequence[Event]:
        turn = state.turn + 1 if role == "assistant" else None
        return (MessageAdded(role, parts, turn),)

    def result(done: PendingAppend) -> Recorded:
        return _recorded_under(done, ids)[0]

    return Command(conversation_id, decide, result, None, ids, exclusive=bool(ids))


def request(
    conversation_id: str, name: str, arguments: object = None, call_id: str | None = None
) -> Command[Tool]:
    """Record that the model asks for a call; see `Conversation.request`."""
    if not is_tool_name(name):
        raise ValueError(f"a tool's name is text and not blank, got {name!r}")
    if call_id is not None and (not isinstance(call_id, str) or not call_id):
        raise ValueError(f"call_id is {call_id!r}: pass text, or None for a new id")

    def decide(state: ConversationState, _: LookUp) -> Sequence[Event]:
        turn, index = state.next_turn()
        minted = call_id or mint_call_id(conversation_id, turn, index, state.known)
        asked = ToolPending(FunctionCall.of(name, arguments, minted), call_id, turn, index)
        return (asked, *state.not_run((asked,)))

    return Command(conversation_id, decide, PendingAppend.tool)


def turn(
    conversation_id: str,
    content: str | Part | Sequence[Part],
    calls: Sequence[FunctionCall],
    step: str | None = None,
) -> Command[list[Tool]]:
    """Record what the model said and the calls that it made; see `Conversation.turn`."""
    parts = () if content == "" else as_parts(content)
    said = MessageAdded("assistant", parts, calls=len(calls))
    events = (said, *map(_asked_for, calls))

    def decide(state: ConversationState, _: LookUp) -> Sequence[Event]:
        placed = state.placed(events)
        return [*placed, *state.not_run(placed)]

    command = Command(conversation_id, decide, PendingAppend.tools)
    if step is None:
        return command
    asked = [(call.id, call.name, call.arguments, call.raw) for call in calls]
    return stored_once(command, place_of_step(step, (parts, asked)), step)


def _asked_for(call: object) -> Event:
    if not isinstance(call, FunctionCall):
        raise TypeError(f"a call is {call!r}: pass FunctionCall.of(name, arguments)")
    return check_event(ToolPending(call, call.id))


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
        taken_back = _taken_back(tool, state.now)
        if taken_back is None:
            return (approved,)
        return (taken_back, approved) if seen is None else (taken_back,)

    def result(done: PendingAppend) -> Tool:
        return _unless_taken_back(done, "approved")

    return on_seen(Command(conversation_id, decide, result), call_id, seen)


def _taken_back(tool: Tool, now: int) -> ToolPaused | None:
    """Return the event that takes back an approval which has expired, before its attempt began.

    The next attempt of a call that has failed may be announced, and needs the approval, too.
    """
    status = tool.status
    waits = type(status) in (Pending, Approved) or tool.retries_on_approval
    if not _has_expired(tool, now) or not waits:
        return None
    by = f" by {status.by}" if type(status) is Approved and status.by else ""
    return ToolPaused(tool.id, reason=f"the approval{by} has expired")


def _has_expired(tool: Tool, now: int) -> bool:
    return tool.expires_at is not None and now >= tool.expires_at


def _unless_taken_back(done: PendingAppend, event: str) -> Tool:
    """Return the call after the event, unless its approval was taken back in place of that."""
    tool = done.tool()
    if done.events and type(done.events[-1]) is ToolPaused:
        raise ApprovalExpired(event, tool)
    return tool


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
        if _has_expired(tool, state.now):
            if (taken_back := _taken_back(tool, state.now)) is not None:
                return (taken_back,)
            raise ApprovalExpired("running", tool)
        if effect is not None and state.doubtful and not tool.in_doubt:
            first = state.in_the_way(tool, effect)
            if first is not None:
                return (_refused(tool, first),)
        number = tool.attempts + 1 if attempt is None else attempt
        arguments = tool.effective_call.arguments
        return (ToolRunning(call_id, number, arguments, (), claim.lease, claim.worker_of(number)),)

    def result(done: PendingAppend) -> Tool:
        return _unless_taken_back(done, "running")

    return Command(conversation_id, decide, result)


def _check_may_start(tool: Tool, attempt: int | None, now: int | None) -> None:
    check_startable(tool)
    if attempt is None:
        _check_known(tool)
    if now is not None or attempt is None:
        _check_not_paused(tool, now)


def renew(conversation_id: str, call_id: str, attempt: int, lease: int) -> Command[Tool]:
    """Record that the worker of an attempt is still at it; `lease` is in microseconds."""

    def decide(_: ConversationState, __: LookUp) -> Sequence[Event]:
        return (ToolRenewed(call_id, attempt, lease),)

    return Command(conversation_id, decide, PendingAppend.tool)


def _is_over(tool: Tool, attempt: int) -> bool:
    """Return whether another attempt has begun, or a person has settled the call meanwhile."""
    return type(tool.status) is not Running or tool.attempts != attempt


def _late_end(tool: Tool, end: ToolEndedLate) -> ToolEndedLate | None:
    """Return the end of an attempt that is over, as it is kept; None if it ends the call after all.

    That is so for the result of an attempt that has failed, and for what the log has already.
    """
    status = tool.status
    if end.response is not None:
        completed: ToolCompleted = encode_event(ToolCompleted(end.call_id, end.response))[0]
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


def _check_known(tool: Tool) -> None:
    """Raise an error where only the number of the next attempt says that another one is meant."""
    status = tool.status
    if tool.in_doubt:
        why = f"{_what_left_a_doubt(tool)}, it may have taken effect; to run it all the same"
    elif type(status) is Failed and status.failure.code in _CLOSED_AS:
        why = f"{_CLOSED_AS[status.failure.code]}; to run it all the same"
    elif type(status) is Failed and tool.approval_used:
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
        if is_own and _is_over(tool, attempt):
            end = ToolEndedLate(call_id, attempt, reason=reason, duration=duration)
            if (late := _late_end(tool, end)) is not None:
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
        if is_own and _is_over(tool, number):
            end = ToolEndedLate(call_id, number, response, duration=duration)
            if (late := _late_end(tool, end)) is not None:
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
        if is_own and attempt is not None and _is_over(tool, attempt):
            end = ToolEndedLate(call_id, attempt, failure=failure, duration=duration)
            if (late := _late_end(tool, end)) is not None:
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
            _check_settled(tool, event)
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
