"""`Preparation`: whether a call may start now, as hooks and people decide.

1. A call that was refused beforehand gets its answer, and does not start. A call that is deferred
   to a later time waits.
2. The hooks are called in order. The first decision ends the questions.
3. A pending call that needs approval, or was paused until a person decides, is read again, because
   a person may have decided since it was recorded. If it is still pending, the approver decides.
   Without a decision the call waits.
4. The arguments of an approved edit are checked as those of the model were.
5. A hook or an approver that raises decides nothing: see `host_errors`. It is an error to change
   the arguments of the call that it was given; an edit is `Approve(edited_arguments)`.
6. A decision holds for the call that the hook or the approver saw. If others have edited, started
   or paused it meanwhile, nothing is decided, and the call is prepared again as it is now.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from eventstore.dispatch.after_hooks import FinalResult
from eventstore.dispatch.batch import Batch, DispatchedCall, StopReason
from eventstore.dispatch.decisions import (
    Approve,
    Ask,
    Decision,
    Defer,
    Reject,
    Skip,
    Terminate,
    decision_of,
    name_of,
    unchanged,
)
from eventstore.dispatch.effects import Workflow, call_hook
from eventstore.dispatch.refusals import invalid_arguments
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.domain.hook_answers import HookAnswer
from eventstore.domain.recovery import is_due
from eventstore.domain.statuses import Pending
from eventstore.domain.times import microseconds_of
from eventstore.policies.termination import ToolErrorTerminal

if TYPE_CHECKING:
    from eventstore.dispatch.call_log import CallLog
    from eventstore.dispatch.execution import Execution
    from eventstore.dispatch.function_tool import AnyFunctionTool
    from eventstore.dispatch.options import DispatcherOptions
    from eventstore.dispatch.refusals import Refusal
    from eventstore.domain.tool import Tool


class Preparation:
    """Prepares calls for their start."""

    def __init__(self, log: CallLog, options: DispatcherOptions, execution: Execution) -> None:
        self._log = log
        self._options = options
        self._execution = execution

    def needs_no_decision(self, call: DispatchedCall, refusals: Mapping[str, Refusal]) -> bool:
        """Return whether the call may start without preparation, as most calls may."""
        tool = call.tool
        if (
            call.definition is None
            or self._options.hooks
            or tool.id in refusals
            or tool.edit is not None
            or tool.is_paused
        ):
            return False
        return call.definition.needs_approval is False

    def prepare(
        self, batch: Batch, call: DispatchedCall, refusals: Mapping[str, Refusal]
    ) -> Workflow[bool]:
        """Return whether the call may start now; otherwise it is answered, or waits."""
        refusal = refusals.get(call.tool.id)
        if isinstance(refusal, Failure):
            yield from self._fail_unstarted(batch, call, refusal)
            return False
        if refusal is not None:
            yield from self._log.reject(call, refusal)
            return False
        if not is_due(call.tool.status, self._options.clock()):
            call.waits = True
            return False
        if not (yield from self._call_hooks(batch, call)):
            return False
        definition = call.known_definition
        if (yield from self._waits_for_decision(call, definition)):
            call.tool = yield from self._log.current(call)
            if (yield from self._waits_for_decision(call, definition)) and not (
                yield from self._approve(batch, call)
            ):
                return False
        edited = call.tool.edit is not None
        if edited and (failure := invalid_arguments(definition, call.tool)):
            yield from self._fail_unstarted(batch, call, failure)
        return call.has_not_started

    def _waits_for_decision(
        self, call: DispatchedCall, definition: AnyFunctionTool
    ) -> Workflow[bool]:
        try:
            with unchanged(call.tool, f"needs_approval of tool {definition.name!r}"):
                return _waits_for_decision(call.tool, definition)
        except Exception as error:
            name = definition.name
            yield from self._execution.errors.note(error, "needs_approval", name, call)
            raise

    def _call_hooks(self, batch: Batch, call: DispatchedCall) -> Workflow[bool]:
        for hook in self._options.hooks:
            try:
                with unchanged(call.tool, name_of(hook)):
                    answer = yield from call_hook(hook, call.tool, may_block=False)
                decision = decision_of(answer, name_of(hook))
            except Exception as error:
                yield from self._execution.errors.note(error, "hook", name_of(hook), call)
                raise
            call.hook_answers += (_answer(name_of(hook), decision),)
            if decision is not None:
                return (yield from self._apply(batch, call, decision, name_of(hook), "hook"))
        return True

    def _approve(self, batch: Batch, call: DispatchedCall) -> Workflow[bool]:
        approver = self._options.approver
        decision = None
        if approver is not None:
            try:
                with unchanged(call.tool, "the approver"):
                    answer = yield from call_hook(approver, call.tool, may_block=True)
                decision = decision_of(answer, "the approver")
            except Exception as error:
                yield from self._execution.errors.note(error, "approver", name_of(approver), call)
                raise
            call.hook_answers += (_answer(name_of(approver), decision, approver=True),)
        if approver is None or decision is None:
            call.waits = True
            return False
        return (yield from self._apply(batch, call, decision, name_of(approver), "human"))

    def _apply(
        self, batch: Batch, call: DispatchedCall, decision: Decision, author: str, source: str
    ) -> Workflow[bool]:
        """Record a decision; return whether the call may start."""
        match decision:
            case Approve():
                return (yield from self._apply_approval(call, decision, author, source))
            case Ask():
                yield from self._log.wait(call, None, decision.reason)
                if source == "hook":  # the approver is next
                    return call.has_not_started and not call.is_changed
                call.waits = True
            case Defer():
                call.waits = True
                until = microseconds_of("until", decision.until)
                yield from self._log.wait(call, until, decision.reason)
            case Skip():
                by = decision.by or (author if source == "hook" else None)
                skipped = FinalResult(decision.output, by, decision.reason)
                yield from self._execution.complete(call, skipped, synthetic=True)
            case Terminate():
                failure = Failure(ErrorKind.PERMANENT, decision.reason, code="terminated")
                error = ToolErrorTerminal(failure, call.tool)
                batch.stop(StopReason.terminated(decision.reason, author, error))
            case Reject():
                by = decision.by or (author if source == "hook" else None)
                source = decision.source or source
                refusal = replace(decision, by=by, source=source)
                yield from self._log.reject(call, refusal, seen=call.tool)
        return False

    def _apply_approval(
        self, call: DispatchedCall, decision: Approve, author: str, source: str
    ) -> Workflow[bool]:
        if type(call.tool.status) is not Pending:
            return True  # a person has approved it
        by = decision.by or (author if source == "hook" else None)
        if (yield from self._log.approve(call, decision, by)):
            return True
        return call.has_not_started and not call.is_changed

    def _fail_unstarted(
        self, batch: Batch, call: DispatchedCall, failure: Failure
    ) -> Workflow[None]:
        failure = self._execution.failures.stored(failure)
        if (yield from self._log.fail(call, failure)):
            self._execution.judge(batch, call, failure)


def _answer(name: str, decision: Decision | None, *, approver: bool = False) -> HookAnswer:
    """Return what the log keeps of an answer."""
    if decision is None:
        return HookAnswer(name, approver=approver)
    return HookAnswer(name, type(decision).__name__.lower(), decision.reason, approver)


def _waits_for_decision(tool: Tool, definition: AnyFunctionTool) -> bool:
    """Return whether a person has to decide on a call whose time, if it has one, has come."""
    status = tool.status
    if type(status) is not Pending:
        return False
    if status.needs_decision:
        return True
    return tool.decided_at is None and definition.needs_approval_for(tool)
