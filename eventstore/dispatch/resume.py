"""`ResumeWorkflow`: the calls that a crash left open, continued as far as that is safe.

1. Calls that never started are dispatched as in a turn, with the offer of their turn.
2. A call whose next attempt was announced waits for the announced time, then runs.
3. A call of unknown outcome runs again if its tool is idempotent and has attempts left. Otherwise
   its `verify` is asked; without one the call stays as it is.
4. A call whose tool is not registered here is left to another worker. So is one whose attempt is
   under way: its lease lasts, and its worker is not known to have ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventstore.dispatch.batch import Batch, DispatchedCall, StopSignal
from eventstore.dispatch.effects import Wait, Workflow, read
from eventstore.dispatch.open_calls import OpenCalls
from eventstore.dispatch.refusals import invalid_arguments
from eventstore.domain.tool import Tool

if TYPE_CHECKING:
    from eventstore.dispatch.function_tool import AnyFunctionTool
    from eventstore.dispatch.workflow import DispatchWorkflow


class ResumeWorkflow:
    """The workflows after a crash."""

    def __init__(self, workflow: DispatchWorkflow) -> None:
        self._workflow = workflow

    def find(self, stop_signal: StopSignal) -> Workflow[tuple[Batch, OpenCalls]]:
        """Read the open calls, and return them as a batch."""
        workflow = self._workflow
        open_calls = yield from read(
            lambda: OpenCalls(
                workflow.conversation.events(), workflow.tools, workflow.log.is_under_way
            )
        )
        batch = Batch(open_calls.tools, stop_signal)
        batch.calls = workflow.calls_of(batch, {})
        for call in batch.calls:
            # The call may have taken effect elsewhere, so it must not be refused here.
            if call.has_not_started and call.tool.id in open_calls.unknown_outcome:
                call.waits = True
        return batch, open_calls

    def resume(self, batch: Batch, open_calls: OpenCalls) -> Workflow[list[Tool]]:
        """Continue the open calls; see `resume_plan`."""
        workflow = self._workflow
        refusals = yield from workflow.refusals(batch.calls, open_calls)
        for group in batch.groups():
            unstarted = [call for call in group if call.has_not_started and not call.waits]
            yield from workflow.run_group(batch, unstarted, refusals)
            for call in group:
                if batch.stop_reason is None and call.tool.id in open_calls.started:
                    yield from self._continue(batch, call, open_calls)
        return (yield from workflow.end_batch(batch))

    def _continue(
        self, batch: Batch, call: DispatchedCall, open_calls: OpenCalls
    ) -> Workflow[None]:
        definition = call.definition
        if definition is None:
            return
        execution = self._workflow.execution
        if call.tool.id in open_calls.unknown_outcome:
            may_run = definition.idempotent and not _has_no_attempt_left(definition, call.tool)
            if not may_run and not (yield from execution.verify(batch, call)):
                return
        elif due := open_calls.due.get(call.tool.id):
            seconds = max(0, due - self._workflow.options.clock()) / 1_000_000
            if definition.retry is not None:
                # If the clock was set back, do not wait longer than any announced wait.
                seconds = min(seconds, definition.retry.max_backoff)
            yield Wait(batch, seconds)
        if invalid_arguments(definition, call.tool) is None:
            yield from execution.execute(batch, call)


def _has_no_attempt_left(definition: AnyFunctionTool, tool: Tool) -> bool:
    return definition.retry is not None and tool.attempts >= definition.retry.max_attempts
