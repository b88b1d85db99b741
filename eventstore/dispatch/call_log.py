"""`CallLog`: the steps of a dispatched call in the log.

1. A step is one command. If the log does not allow it any more, another worker or a person was
   first: their transition stands, and the call is read again.
2. What ends an attempt carries its number, so that it cannot end the attempt that another worker
   has started meanwhile. It is kept as a late end then, and changes nothing.
3. What hooks and the approver said of a call is recorded in the event of the step that follows.
   A call that keeps waiting adds nothing to the log, however often they are asked.
4. What they decide is bound to the call as they saw it. If it is another one by then, nothing is
   decided, and the call is marked as changed.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from eventstore.append.commands import attempts, decisions, messages
from eventstore.attempt import StartedAttempt
from eventstore.dispatch.effects import Workflow, Write, read
from eventstore.domain.decision_errors import CallChanged
from eventstore.domain.events import Event, RunEnded
from eventstore.domain.failure import Failure
from eventstore.domain.statuses import Pending, Running
from eventstore.errors import EventStoreError, IllegalTransition
from eventstore.leases.claim import NO_CLAIM, Claim
from eventstore.leases.under_way import is_under_way

if TYPE_CHECKING:
    from collections.abc import Callable

    from eventstore.append.command import Command
    from eventstore.dispatch.after_hooks import FinalResult
    from eventstore.dispatch.batch import DispatchedCall
    from eventstore.dispatch.decisions import Approve, Reject
    from eventstore.domain.equal_calls import SameEffect
    from eventstore.domain.events import ToolCompleted
    from eventstore.domain.tool import Tool
    from eventstore.policies.termination import ToolErrorTerminal
    from eventstore.session import LogSession


class CallLog:
    """Appends to one conversation, and reads single calls of it."""

    def __init__(self, session: LogSession, conversation_id: str) -> None:
        self.conversation_id = conversation_id
        self._session = session

    def append(self, event: Event) -> Workflow[None]:
        """Append an event that does not concern a call."""
        yield Write(messages.append(self.conversation_id, (event,)))

    def is_under_way(self, tool: Tool) -> bool:
        """Return whether a living worker has a lease on a call."""
        return is_under_way(self.conversation_id, tool, self._session.now())

    def start(
        self,
        call: DispatchedCall,
        now: int,
        effect: SameEffect | None = None,
        lease: int | None = None,
    ) -> Workflow[StartedAttempt | None]:
        """Start the next attempt; return None if another worker or a decision was first.

        A call that was paused, deferred or edited meanwhile is not started either; `now` is in
        microseconds since 1970 UTC. With `effect`, one that asks for the same as a call in doubt is
        rejected. The `lease` is in microseconds.
        """
        before = call.tool
        number = before.attempts + 1
        call.attempt = number
        claim = NO_CLAIM
        if lease is not None:
            claim = Claim(lease, self._session.leases.hold(self.conversation_id, before.id, lease))
        command = attempts.start(
            self.conversation_id, before.id, number, now, before, effect, claim
        )
        try:
            is_written = yield from self.write(call, command)
        except BaseException:
            claim.release()
            raise
        if is_written and type(call.tool.status) is Running:
            return StartedAttempt(self.conversation_id, call.tool, claim.hold)
        claim.release()
        call.attempt = None
        status = call.tool.status
        call.waits = not call.is_changed and type(status) is Pending and status.needs_decision
        return None

    def write(self, call: DispatchedCall, command: Command[Tool]) -> Workflow[bool]:
        """Record a step; return False, with the call read again, if another one was first.

        What the hooks said before the step is recorded with it.
        """
        answers = call.hook_answers
        if answers:
            command = command.with_hooks(answers)
            call.hook_answers = ()
        try:
            call.tool = yield Write(command)
        except IllegalTransition as error:
            call.hook_answers = answers
            call.tool = yield from self.current(call)
            call.is_changed = call.has_not_started and isinstance(error, CallChanged)
            return False
        return True

    def approve(self, call: DispatchedCall, decision: Approve, by: str | None) -> Workflow[bool]:
        """Record an approval of the call as it was seen."""
        command = decisions.approve(
            self.conversation_id,
            call.tool.id,
            decision.edited_arguments,
            by,
            decision.reason,
            seen=call.tool,
            expires=decision.expires,
        )
        return (yield from self.write(call, command))

    def wait(
        self, call: DispatchedCall, until: int | None = None, reason: str | None = None
    ) -> Workflow[None]:
        """Record that the call, as it was seen, waits until a time or until a person decides.

        `until` is in microseconds since 1970 UTC.
        """
        seen = call.tool
        command = attempts.pause(self.conversation_id, seen.id, until, reason)
        yield from self.write(call, decisions.on_seen(command, seen.id, seen))

    def complete(
        self, call: DispatchedCall, final: FinalResult, *, synthetic: bool = False
    ) -> Workflow[None]:
        """Record a result without an attempt; it is `synthetic` if the tool does not run.

        That was decided on the call as it was seen.
        """
        command = attempts.complete(
            self.conversation_id,
            call.tool.id,
            final.result,
            synthetic=synthetic,
            by=final.by,
            reason=final.reason,
        )
        if synthetic:
            command = decisions.on_seen(command, call.tool.id, call.tool)
        yield from self.write(call, command)

    def complete_equally(self, call: DispatchedCall, first: ToolCompleted) -> Workflow[bool]:
        """Record that the call gets the result of an equal one."""
        command = attempts.complete_equally(self.conversation_id, call.tool.id, first)
        return (yield from self.write(call, command))

    def fail(self, call: DispatchedCall, failure: Failure) -> Workflow[bool]:
        """Record a failure, unless another worker has started the next attempt."""
        command = attempts.fail(
            self.conversation_id, call.tool.id, failure, attempt=call.tool.attempts
        )
        return (yield from self.write(call, command))

    def reject(
        self, call: DispatchedCall, refusal: Reject, seen: Tool | None = None
    ) -> Workflow[None]:
        """Record a rejection, which may be bound to the call as `seen`; its source is human."""
        command = decisions.reject(
            self.conversation_id,
            call.tool.id,
            refusal.reason,
            refusal.source or "human",
            refusal.by,
            refusal.details,
            seen=seen,
        )
        yield from self.write(call, command)

    def current(self, call: DispatchedCall) -> Workflow[Tool]:
        """Read the call as it stands now.

        Only this call is read: reading the whole conversation for each of its calls would cost the
        square of its length.
        """
        tool_now = partial(self._session.tool_now, self.conversation_id, call.tool.id)
        _, tool = yield from read(tool_now)
        return tool

    def end_run(self, error: ToolErrorTerminal) -> Workflow[None]:
        """Record that the run was terminated."""
        try:
            yield from self.append(RunEnded("terminated", error.failure))
        except EventStoreError as unrecorded:
            error.add_note(f"the end of the run was not recorded: {unrecorded}")

    def complete_late(self, attempt: StartedAttempt, final: Callable[[], FinalResult]) -> None:
        """Record a late result; `final` gives what is stored of it."""
        with suppress(EventStoreError):  # the call has its answer, or the store is closed
            late = final()
            self._session.run(attempt.completion(late.result, late.by, late.reason))
