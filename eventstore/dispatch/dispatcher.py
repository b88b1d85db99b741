"""`Dispatcher`: the driver of the workflows with plain calls and threads."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeVar, assert_never, cast

from eventstore.conversation import Conversation
from eventstore.dispatch.effects import (
    CallHook,
    Effect,
    Read,
    RunConcurrently,
    RunResult,
    RunTool,
    Wait,
    Workflow,
    Write,
)
from eventstore.dispatch.setup import DispatcherSetup
from eventstore.dispatch.threads import (
    interrupt_behind,
    most_severe,
    resolve_awaitable,
    run_all,
    run_in_thread,
)
from eventstore.domain.tool import Tool
from eventstore.errors import EventStoreError
from eventstore.latch import Latch
from eventstore.policies.gates import GateDecision, Question, ToolGate, ToolGateContext

if TYPE_CHECKING:
    from eventstore.dispatch.batch import Batch
    from eventstore.session import LogSession

T = TypeVar("T")


class Dispatcher(DispatcherSetup[Conversation, ToolGate]):
    """Runs the calls of a turn to their end, and records each step before and after.

    A loop calls `offer` for what the model may see, records the model's message, and passes the
    calls to `dispatch`. After a crash, `resume` continues with what is safe.

    - `tools`: functions or `FunctionTool`s, or either of them by name.
    - `gates`: decide which tools the model may see. `gate_context` makes their context from the
      log (as `projections.gate_context` does); without it they see no messages. With
      `on_all_empty="deny"` nothing is offered if all gates allow nothing; the default is
      everything. `denial` gives the text for a call of a hidden tool, if no gate does. Async gates
      are for `AsyncDispatcher`.
    - `hooks`: called in order before a call starts. None continues, `Approve` ends the questions,
      `Reject`, `Ask`, `Defer`, `Skip` and `Terminate` keep the call from running. Called
      `BeforeToolCall` in clark-agent, and `DispatchHook` in rig-compose, whose `Continue` is None
      here.
    - `after_hooks`: called in order with the `Tool` and each result, before it is recorded. None
      keeps the result, `Replace` changes it. Called `AfterToolCall` in clark-agent, and the `after`
      of a dispatch hook in rig-compose.
    - `approver`: decides on calls that need approval. Without one, or if it returns None, they stay
      pending for a later decision. What hooks and approver decide holds for the call that they
      saw: they are asked again where it has changed by then.
    - `pauses`: the exceptions by which a framework pauses a tool, as for `Conversation.running`:
      the call waits until a person decides, and the exception is raised after the other calls.
    - `policy`: the failures that end the run, with `ToolErrorTerminal`.
    - `model_text`: what the model reads of a failure. "raw" is the failure's own text, "kind" a
      sentence for its kind that holds nothing of what an exception said, and a function of the
      `Failure` returns the text. `Failure.message` stays with the operators.
    - `tracebacks`: whether failures keep the traceback of the exception. `redact`: a function of
      the `Failure` that returns the one to store.
    - `retry_classifier`: which failures are transient, for tools that have a `RetryPolicy`.
    - `equal_calls`: what a call gets that asks for the same as an earlier one under another id.
      While that one is in doubt, "refuse" and "answer" reject it, and the model is told of the
      first. After the first has completed, "refuse" lets it run, and "answer" gives it the recorded
      result. "run" runs it always. It is for tools that are neither read-only nor idempotent;
      `FunctionTool(equal_calls=, equal_by=)` says it of one tool.
    - `lease`: how long an attempt counts as under way (a `timedelta`, or seconds), renewed while
      its tool runs. `resume` of other workers leaves it alone for so long. None where no other
      worker is at the conversation; see `docs/several-workers.md`.
    - `max_calls_per_turn`: the calls beyond it are rejected. `max_parallel`: how many calls run
      concurrently.
    - `clock` returns microseconds since 1970 UTC, by default those of the store; leases always go
      by the store's. `chance` returns a random number from 0 to 1, `sleep` waits for some seconds.
    """

    def offer(self, context: ToolGateContext | None = None) -> GateDecision:
        """Decide which tools the next model call may see, and record it.

        `.visible` are their names. Without `context` it is made from the log. The decision is valid
        for one turn.
        """
        return self._drive(self._workflow.offers.offer(context))

    def dispatch(self, tools: Iterable[Tool | str]) -> list[Tool]:
        """Run the calls of a turn, as `record()` returned them, and return them as they are then.

        Each is completed, failed or rejected; or pending, if a person has to decide or if it is
        deferred to a later time; or running, if another worker was first, or has taken it over.
        Calls that have started before are left alone: see `resume`. An error of a tool is recorded
        and never raised.

        Raises:
            ToolErrorTerminal: the policy, a hook or a tool ends the run. Every call has its answer.
            BaseException: one of the `pauses`, the first in the order of the calls. The calls that
                paused wait, and every other call has its answer.
            Exception: a gate, hook or approver raised, or the store. Calls that had not started
                stay open, and so do calls whose result could not be recorded.
            BaseException: Ctrl-C and the like. Calls that had not started are rejected.
        """
        batch = self._workflow.new_batch(tools, Latch())
        return self._finish(batch, self._workflow.dispatch(batch))

    def resume(self) -> list[Tool]:
        """Continue the calls that a crash left open.

        A call that another worker is at is left alone, and is returned as running: its lease lasts,
        and its process is not known to have ended. Without leases there must be no other worker.

        Calls that never started are dispatched, announced retries are made. A call whose outcome
        is unknown is never simply run again: the `verify` of its tool is asked for the outcome.
        Without one it stays as it is, unless the tool is `idempotent`.

        Raises:
            Exception: as `dispatch` does; also the error of a `verify`, after all others have been
                asked. An interruption while the log is read changes nothing.
        """
        batch, open_calls = self._drive(self._resume_workflow.find(Latch()))
        return self._finish(batch, self._resume_workflow.resume(batch, open_calls))

    def _log_of(self, conversation: Conversation) -> tuple[Conversation, LogSession]:
        if not isinstance(cast("object", conversation), Conversation):
            raise TypeError(
                f"conversation is {conversation!r}: pass store.conversation(id) of an EventStore; "
                "AsyncDispatcher takes those of an AsyncEventStore"
            )
        if not conversation.durable:
            raise EventStoreError(
                "a dispatcher records each step on disk before it happens, and cannot wait for a "
                f"host's commit: pass store.conversation({conversation.id!r}), without a connection"
            )
        self._session = conversation.session.outside_transaction(conversation.id)
        return conversation, self._session

    def _finish(self, batch: Batch, workflow: Workflow[T]) -> T:
        try:
            return self._drive(workflow)
        except BaseException as error:
            try:
                self._drive(self._workflow.close(batch, error))
            except Exception as unclosed:  # noqa: BLE001 - the first error is raised
                error.add_note(f"not every call could be closed: {unclosed}")
            raise

    def _drive(self, workflow: Workflow[T]) -> T:
        answer: object = None
        error: BaseException | None = None
        while True:
            try:
                effect = workflow.send(answer) if error is None else workflow.throw(error)
            except StopIteration as end:
                result: T = end.value
                return result
            try:
                answer, error = self._perform(effect), None
            except BaseException as raised:  # noqa: BLE001 - the workflow decides
                answer, error = None, interrupt_behind(raised) or raised

    def _perform(self, effect: Effect) -> object:
        match effect:
            case Write():
                return self._session.run(effect.command)
            case RunTool():
                return self._run_tool(effect)
            case Read():
                return effect.function()
            case Question():
                return effect.answer()
            case CallHook():
                return resolve_awaitable(effect.function(effect.tool), None)
            case Wait():
                self._wait(effect)
            case RunConcurrently():
                self._run_concurrently(effect)
            case _:
                assert_never(effect)
        return None

    def _run_tool(self, effect: RunTool) -> RunResult:
        timeout = effect.definition.timeout
        try:
            if timeout is None or effect.definition.is_async:
                return RunResult(resolve_awaitable(effect.function(), timeout))

            def run() -> object:
                return resolve_awaitable(effect.function(), None)

            return RunResult(run_in_thread(run, timeout, effect.on_late_result))
        except BaseException as error:  # noqa: BLE001 - the workflow decides
            return RunResult(error=error)

    def _wait(self, wait: Wait) -> None:
        if self._options.sleep is not None:
            self._options.sleep(wait.seconds)
        else:
            # The latch that `dispatch` or `resume` made.
            cast("Latch", wait.batch.stop_signal).wait(wait.seconds)

    def _run_concurrently(self, effect: RunConcurrently) -> None:
        jobs = [partial(self._drive, workflow) for workflow in effect.workflows]
        errors = run_all(jobs, self._options.max_parallel)
        if errors:
            raise most_severe(errors)
