"""`DispatchWorkflow`: a turn of the model, from its calls to their answers.

1. A batch is the calls that are dispatched together, in the order of the model's message. Calls
   that have started before are left alone; `resume` continues them.
2. Before anything starts, each call is checked: an unknown tool or invalid arguments fail it, a
   hidden tool or the limit of the turn rejects it (`refusals`).
3. Neighbours whose tools are `parallel` run concurrently. Every other call runs alone, in order.
4. A call is prepared before it starts: hooks, approval, edited arguments (`preparation`). It may
   be answered, rejected or left to wait for a person.
5. A call then runs, attempt after attempt, each recorded before and after (`execution`).
6. A stop reason ends the batch: the calls that have not started are rejected, and its error is
   raised after every call has its answer.
7. If another worker or a person was first, their transition stands (`call_log`).
8. An error of the host or of the store leaves the calls that have not started open: they can be
   dispatched again. Where the run was interrupted (Ctrl-C, a cancelled task), they are rejected,
   and attempts in progress are recorded as failed with unknown outcome.
9. A tool that pauses leaves its call waiting, and the other calls continue. The exception by which
   it paused is raised after them, so that it reaches the framework that has to stop.

So every call that `dispatch` returns is completed, failed or rejected, or waits for a person; and
no attempt runs that is not in the log.

The workflows are generators of effects (see `effects`) and perform nothing. A driver performs each
effect and sends its result back. One workflow therefore serves threads and asyncio alike, and tests
can decide every race.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from eventstore.dispatch.batch import Batch, DispatchedCall, StopReason, StopSignal
from eventstore.dispatch.effects import RunConcurrently, Workflow, read
from eventstore.dispatch.execution import Execution
from eventstore.dispatch.offers import ToolOffers
from eventstore.dispatch.preparation import Preparation
from eventstore.dispatch.refusals import Refusal, invalid_arguments, over_limit, unknown_tool
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.domain.recovery import is_due
from eventstore.domain.statuses import Running
from eventstore.domain.tool import Tool
from eventstore.errors import UnknownCall
from eventstore.policies.termination import ToolErrorTerminal

if TYPE_CHECKING:
    from eventstore.conversation import Conversation
    from eventstore.dispatch.call_log import CallLog
    from eventstore.dispatch.function_tool import AnyFunctionTool
    from eventstore.dispatch.open_calls import OpenCalls
    from eventstore.dispatch.options import DispatcherOptions
    from eventstore.policies.gates import GateDecision


class DispatchWorkflow:
    """The workflows of one turn."""

    def __init__(
        self,
        conversation: Conversation,
        log: CallLog,
        tools: Mapping[str, AnyFunctionTool],
        options: DispatcherOptions,
    ) -> None:
        self.conversation = conversation
        self.log = log
        self.tools = tools
        self.options = options
        self.names = tuple(tools)
        self.execution = Execution(log, options, conversation.events)
        errors = self.execution.errors
        self.offers = ToolOffers(log, options, self.names, conversation.events, errors)
        self.preparation = Preparation(log, options, self.execution)

    def new_batch(self, tools: Iterable[Tool | str], stop_signal: StopSignal) -> Batch:
        """Return the batch of the calls that a host passes.

        Raises:
            TypeError: one of them is neither a call nor an id.
        """
        requested = list(tools)
        for tool in requested:
            if not isinstance(cast("object", tool), Tool | str):
                raise TypeError(
                    "dispatch() takes the Tools that record() or request() gave, or ids"
                )
        return Batch(requested, stop_signal)

    def dispatch(self, batch: Batch) -> Workflow[list[Tool]]:
        """Run the calls that have not started to their end; leave the others as they are."""
        yield from self._look_up(batch)
        refusals = yield from self.refusals(batch.calls)
        for group in batch.groups():
            unstarted = [call for call in group if call.has_not_started and not call.waits]
            yield from self.run_group(batch, unstarted, refusals)
        return (yield from self.end_batch(batch))

    def _look_up(self, batch: Batch) -> Workflow[None]:
        """Find the calls that were passed by their ids."""
        known: Mapping[str, Tool] = {}
        names = [tool for tool in batch.requested if isinstance(tool, str)]
        if names:
            known = yield from read(lambda: self.conversation.tools)
        for name in names:
            if name not in known:
                raise UnknownCall(name, self.conversation.id)
        batch.calls = self.calls_of(batch, known)

    def calls_of(self, batch: Batch, known: Mapping[str, Tool]) -> list[DispatchedCall]:
        """Return the calls of a batch; `known` are the calls of the conversation by id."""
        now = self.options.clock()
        calls: list[DispatchedCall] = []
        for asked in batch.requested:
            tool = known.get(asked) if isinstance(asked, str) else asked
            if tool is not None:
                call = DispatchedCall(tool, self.tools.get(tool.call.name))
                call.waits = not is_due(tool.status, now) or call.may_have_run
                calls.append(call)
        return calls

    def refusals(
        self, calls: Sequence[DispatchedCall], open_calls: OpenCalls | None = None
    ) -> Workflow[dict[str, Refusal]]:
        """Return why calls that have not started cannot, by id."""
        logged = open_calls.offered if open_calls else None
        refusals: dict[str, Refusal] = {}
        turns: dict[int, list[DispatchedCall]] = {}
        decisions: dict[int, GateDecision | None] = {}
        for call in calls:
            if call.waits or not call.has_not_started:
                continue
            turn = call.tool.turn
            if turn not in decisions:
                decisions[turn] = yield from self.offers.of_turn(turn, logged)
                turns[turn] = []
            turns[turn].append(call)
            refusal = yield from self._refusal(call, decisions[turn])
            if refusal is not None:
                refusals[call.tool.id] = refusal
        max_calls = self.options.max_calls_per_turn
        if max_calls is None:
            return refusals
        beyond: dict[str, Refusal] = {}
        for turn, made in turns.items():
            counted = open_calls.counted_calls[turn] if open_calls else 0
            before = open_calls.answered_calls[turn] if open_calls else 0
            beyond |= over_limit(max_calls, made, counted, before)
        return beyond | refusals

    def _refusal(
        self, call: DispatchedCall, decision: GateDecision | None
    ) -> Workflow[Refusal | None]:
        """Return why a call cannot start: an unknown tool, a hidden tool or invalid arguments."""
        if call.definition is None:
            known = self.names if decision is None else decision.visible
            return unknown_tool(call.tool.call.name, known)
        if decision is not None:
            denial = yield from self.offers.denial(decision, call.definition, call)
            if denial is not None:
                return denial
        return invalid_arguments(call.definition, call.tool)

    def run_group(
        self, batch: Batch, group: Sequence[DispatchedCall], refusals: Mapping[str, Refusal]
    ) -> Workflow[None]:
        """Prepare the calls in order, then run those that may start concurrently.

        A call that others have changed in between is prepared again: hooks, the approver and checks
        see it as it is then.
        """
        while group:
            for call in group:
                if call.is_changed:
                    call.is_changed, call.waits, call.hook_answers = False, False, ()
            ready = yield from self._prepared(batch, group, refusals)
            if len(ready) == 1:
                yield from self.execution.execute(batch, ready[0])
            elif ready:
                executions = [self.execution.execute(batch, call) for call in ready]
                yield RunConcurrently(batch, executions)
            group = [call for call in group if call.is_changed]

    def _prepared(
        self, batch: Batch, group: Sequence[DispatchedCall], refusals: Mapping[str, Refusal]
    ) -> Workflow[list[DispatchedCall]]:
        """Return the calls of a group that may start."""
        ready: list[DispatchedCall] = []
        for call in group:
            if batch.stop_reason is not None:
                break
            if self.preparation.needs_no_decision(call, refusals) or (
                yield from self.preparation.prepare(batch, call, refusals)
            ):
                ready.append(call)
        return ready

    def end_batch(self, batch: Batch) -> Workflow[list[Tool]]:
        """Close what a stop reason left, and return the calls or raise the batch's error."""
        reason = batch.stop_reason
        if reason is not None:
            yield from self._reject_unstarted(batch, reason)
            if reason.error is not None:
                if isinstance(reason.error, ToolErrorTerminal):
                    yield from self._end_run(batch, reason.error)
                raise reason.error
        if batch.pause is not None:
            raise batch.pause
        if batch.verification_errors:
            raise batch.verification_errors[0]
        return [call.tool for call in batch.calls]

    def _end_run(self, batch: Batch, error: ToolErrorTerminal) -> Workflow[None]:
        # A hook may have ended the run before the call was closed: read the call again.
        error.tool = next(call.tool for call in batch.calls if call.tool.id == error.tool.id)
        yield from self.log.end_run(error)

    def _reject_unstarted(self, batch: Batch, reason: StopReason) -> Workflow[None]:
        for call in batch.calls:
            if call.has_not_started and not call.waits:
                yield from self.log.reject(call, reason.refusal)

    def close(self, batch: Batch, error: BaseException) -> Workflow[None]:
        """Close a batch that ended with an error; see rule 8."""
        reason = batch.stop_reason
        is_expected = error is batch.pause or (reason is not None and error is reason.error)
        batch.stop(StopReason.cancelled())
        if is_expected or isinstance(error, Exception):
            return
        tools = yield from read(lambda: self.conversation.tools)
        # The interruption may have come before the calls were looked up.
        batch.calls = batch.calls or self.calls_of(batch, tools)
        for call in batch.calls:
            call.tool = tools.get(call.tool.id, call.tool)
        # A start whose answer was not awaited may still be recorded: the rejection then fails.
        yield from self._reject_unstarted(batch, StopReason.cancelled())
        for call in batch.calls:
            status = call.tool.status
            if type(status) is Running and status.attempt == call.attempt:
                message = "the run was cut short while it was under way"
                failure = Failure(ErrorKind.INTERNAL, message, code="interrupted", in_doubt=True)
                yield from self.log.fail(call, failure)
