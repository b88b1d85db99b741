"""`Execution`: one call, from its start to its end.

1. Each attempt is recorded before it starts and after it ends. Only one worker can start it, and it
   holds a lease while it runs.
2. A returned value completes the call, as the after-hooks leave it. An exception, or a returned
   `Failure`, fails the attempt. An exception of the `pauses` pauses it: the call waits again, and
   the exception is raised when every other call of the batch has its answer.
3. Another attempt follows if the tool has a `RetryPolicy` with attempts left, the classifier says
   that the failure is transient, and the batch continues.
4. After an attempt of unknown outcome (timeout, cancel, interrupt) another one follows only if the
   tool is idempotent, or if its `verify` says that the attempt took no effect.
5. A failure that no attempt follows is judged: its kind may end the run, its tool the batch.
6. A tool may answer the model itself, with a hint (`ModelRetry`) or that it does not apply
   (`NotApplicable`). No attempt follows such a failure, and its kind does not end the run. After a
   fatal error of the tool no attempt follows, and the run ends. So it does after more hints in a
   row than the tool's `max_model_retries`.
7. An error that is not the tool's own (Ctrl-C, an exit, a cancelled run) is recorded and raised.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from eventstore.append.tool_fold import equal_result
from eventstore.attempt import CurrentAttempt, is_pause, run_as
from eventstore.dispatch.after_hooks import FinalResult, final_result, final_result_now
from eventstore.dispatch.batch import Batch, DispatchedCall, StopReason
from eventstore.dispatch.decisions import outcome_of
from eventstore.dispatch.effects import RunResult, RunTool, Wait, Workflow, call_hook, read
from eventstore.dispatch.failures import FailureRules
from eventstore.dispatch.function_tool import is_async
from eventstore.dispatch.host_errors import HostErrors, Raised
from eventstore.domain.arguments import MAX_SECONDS
from eventstore.domain.equal_calls import SameEffect
from eventstore.domain.failure import Failure
from eventstore.domain.statuses import Failed, Running
from eventstore.errors import EventStoreError
from eventstore.policies.model_retries import model_retries
from eventstore.policies.retry import RetryClass
from eventstore.policies.termination import ToolErrorTerminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from eventstore.append.command import Command
    from eventstore.attempt import StartedAttempt
    from eventstore.dispatch.call_log import CallLog
    from eventstore.dispatch.function_tool import AnyFunctionTool
    from eventstore.dispatch.options import DispatcherOptions
    from eventstore.domain.events import Recorded
    from eventstore.domain.tool import Tool
    from eventstore.policies.retry import RetryPolicy


class Execution:
    """Runs calls, attempt after attempt."""

    def __init__(
        self,
        log: CallLog,
        options: DispatcherOptions,
        events: Callable[[], Iterable[Recorded]],
    ) -> None:
        self._log = log
        self._options = options
        self._events = events
        self.failures = FailureRules(
            options.model_text, options.redact, options.clock, tracebacks=options.tracebacks
        )
        self.errors = HostErrors(log, self.failures.stored)

    def execute(self, batch: Batch, call: DispatchedCall) -> Workflow[None]:
        """Run attempts until one settles the call."""
        definition = call.known_definition
        how = definition.equal_calls_or(self._options.equal_calls)
        effect = None if how == "run" else SameEffect(definition.equality, batch.is_running)
        while batch.stop_reason is None:
            if how == "answer" and (yield from self._is_answered(call)):
                return
            now, lease = self._options.clock(), self._options.lease
            attempt = yield from self._log.start(call, now, effect, lease)
            if attempt is None:
                return
            try:
                delay = yield from self._run(batch, call, attempt)
            except GeneratorExit:  # the loop was closed, and a thread may still be at the tool
                raise
            except BaseException:
                attempt.release()
                raise
            attempt.release()
            if delay is None:
                return
            yield Wait(batch, delay)

    def _run(
        self, batch: Batch, call: DispatchedCall, attempt: StartedAttempt
    ) -> Workflow[float | None]:
        """Run an attempt and record its end; return the seconds to the next one, None for none."""
        definition = call.known_definition
        first = (call.tool,) if definition.takes_tool else ()
        function = partial(
            run_as, attempt.current, definition.call, *first, arguments=attempt.arguments
        )
        on_late_result = partial(self._complete_late, call.tool, definition, attempt)
        ran: RunResult = yield RunTool(definition, function, on_late_result)
        if ran.error is None and type(ran.result) is not Failure:
            result = definition.stored(ran.result)
            if not self._options.after_hooks:
                yield from self._log.write(call, attempt.completion(result))
                return None
            final = yield from self._final(call.tool, FinalResult(result))
            command = attempt.completion(final.result, final.by, final.reason)
            yield from self._log.write(call, command)
            if final.error is not None:
                raise final.error
            return None
        if ran.error is not None and is_pause(ran.error, self._options.pauses):
            yield from self._pause_attempt(call, attempt, ran.error)
            return None
        return (yield from self._fail_attempt(batch, call, attempt, ran))

    def _is_answered(self, call: DispatchedCall) -> Workflow[bool]:
        """Return whether a call got the result of an equal one that completed."""
        if not call.has_not_started:
            return False
        equality = call.known_definition.equality
        first = yield from read(lambda: equal_result(self._events(), call.tool, equality))
        if first is None:
            return False
        return (yield from self._log.complete_equally(call, first))

    def complete(
        self, call: DispatchedCall, found: FinalResult, *, synthetic: bool = False
    ) -> Workflow[None]:
        """Record a result without an attempt, as the after-hooks leave it."""
        final = yield from self._final(call.tool, found)
        yield from self._log.complete(call, final, synthetic=synthetic)
        if final.error is not None:
            raise final.error

    def _final(self, tool: Tool, before: FinalResult) -> Workflow[FinalResult]:
        return (yield from final_result(self._options.after_hooks, tool, before))

    def _complete_late(
        self, tool: Tool, definition: AnyFunctionTool, attempt: StartedAttempt, result: object
    ) -> None:
        """Record the result of a tool that returned after the wait for it: it did its work."""

        def final() -> FinalResult:
            hooks, resolve = self._options.after_hooks, self._options.resolve
            return final_result_now(hooks, tool, definition.stored(result), resolve)

        if type(result) is not Failure and not hasattr(result, "__await__"):
            self._log.complete_late(attempt, final)

    def _pause_attempt(
        self, call: DispatchedCall, attempt: StartedAttempt, error: BaseException
    ) -> Workflow[None]:
        """Record that the call waits again; the error is raised at the end of the batch."""
        call.waits = True
        call.pause = error
        yield from self._log.write(call, attempt.end(error, self._options.pauses))

    def _fail_attempt(
        self, batch: Batch, call: DispatchedCall, attempt: StartedAttempt, ran: RunResult
    ) -> Workflow[float | None]:
        """Record a failed attempt; return the seconds to the next one, None if none follows."""
        raised: Raised = []
        failure = self.failures.of_attempt(call.known_definition, ran, raised)
        unsorted: Exception | None = None
        try:
            delay = self._delay(batch, call, ran, failure)
        except Exception as error:  # noqa: BLE001 - raised when the failure is recorded
            delay, unsorted = None, error
            raised.append(("classifier", type(self._options.retry_classifier).__name__, error))
        yield from self._record_failure(call, ran, attempt.failure(failure, delay))
        yield from self.errors.note_all(raised, call)
        if unsorted is not None:
            raise unsorted
        if ran.error is not None and ran.ends_run:
            if batch.stop_reason is not None and batch.stop_reason.aborts_siblings:
                return None  # a sibling ended the batch, and this call with it
            raise ran.error
        if not _is_ended_by(call.tool, attempt, failure):
            return None  # others have taken over: what they did stands
        if delay is None and failure.leaves_doubt and batch.stop_reason is None:
            delay = yield from self._delay_if_verified(batch, call, failure, ran.error)
        if delay is None:
            exhausted = yield from self._retries_exhausted(call, failure)
            self.judge(batch, call, failure, ran.error, ends_run=exhausted)
        return delay

    def _retries_exhausted(self, call: DispatchedCall, failure: Failure) -> Workflow[bool]:
        """Return whether the tool has given more hints in a row than it may."""
        most = call.known_definition.max_model_retries
        if most is None or not failure.is_model_retry:
            return False
        hints = yield from read(lambda: model_retries(self._events(), call.tool.call.name))
        return hints > most

    def _record_failure(
        self, call: DispatchedCall, ran: RunResult, command: Command[Tool]
    ) -> Workflow[None]:
        try:
            yield from self._log.write(call, command)
        except EventStoreError as unrecorded:
            if not ran.ends_run or ran.error is None:
                raise
            ran.error.add_note(
                f"the failure of call {call.tool.id!r} was not recorded: {unrecorded}"
            )
            raise ran.error from None

    def _delay(
        self, batch: Batch, call: DispatchedCall, ran: RunResult, failure: Failure
    ) -> float | None:
        """Return the seconds to wait before the next attempt; None if none may follow (yet)."""
        definition = call.known_definition
        if definition.retry is None or ran.ends_run or batch.stop_reason is not None:
            return None
        if failure.answers_model or definition.is_fatal(ran.error):
            return None
        if failure.leaves_doubt and not definition.idempotent:
            return None
        error = failure if ran.error is None or definition.classify else ran.error
        if self._options.retry_classifier.classify(error) is not RetryClass.TRANSIENT:
            return None
        return self._wait(definition.retry, call, failure)

    def _delay_if_verified(
        self, batch: Batch, call: DispatchedCall, failure: Failure, error: BaseException | None
    ) -> Workflow[float | None]:
        """Return the same for an attempt of unknown outcome, after asking the outside system."""
        definition = call.known_definition
        if definition.verify is None or definition.idempotent:
            return None
        may_run = yield from self.verify(batch, call)
        if not may_run or definition.retry is None or definition.is_fatal(error):
            return None
        return self._wait(definition.retry, call, failure)

    def _wait(self, retry: RetryPolicy, call: DispatchedCall, failure: Failure) -> float | None:
        """Return the seconds until the next attempt; None where that will never come."""
        wait = retry.delay(call.tool.attempts, failure.retry_after, self._options.chance())
        return None if wait is None or wait > MAX_SECONDS else wait

    def verify(self, batch: Batch, call: DispatchedCall) -> Workflow[bool]:
        """Ask the outside system and record its answer; return whether the call may run again."""
        definition = call.known_definition
        if definition.verify is None:
            return False
        try:
            verify = partial(run_as, self._as_next(call), definition.verify)
            may_block = not is_async(definition.verify)
            answer = yield from call_hook(verify, call.tool, may_block=may_block)
            outcome = outcome_of(answer, definition.name)
        except Exception as error:  # noqa: BLE001 - the call stays open, and the others continue
            yield from self.errors.note(error, "verify", definition.name, call)
            batch.verification_errors.append(error)
            return False
        if outcome.found == "done":
            yield from self.complete(call, FinalResult(outcome.result))
        elif outcome.found == "failed" and isinstance(call.tool.status, Running | Failed):
            yield from self._log.fail(call, self.failures.stored(outcome.failure))
        return outcome.found == "not_done"

    def _as_next(self, call: DispatchedCall) -> CurrentAttempt:
        """Return the attempt that would follow: its fence keeps out the one that is asked about."""
        tool = call.tool
        return CurrentAttempt(self._log.conversation_id, tool.id, tool.attempts + 1)

    def judge(
        self,
        batch: Batch,
        call: DispatchedCall,
        failure: Failure,
        cause: BaseException | None = None,
        *,
        ends_run: bool = False,
    ) -> None:
        """Stop the batch if a failure that no attempt follows ends the run, or the batch.

        `cause` is the exception that the tool raised. `ends_run`: it does, whatever its kind.
        """
        if type(call.tool.status) is not Failed:
            return  # the outside system gave another answer
        definition = call.definition
        is_fatal = ends_run or (definition is not None and definition.is_fatal(cause))
        own = None if definition is None else definition.policy
        is_terminal = (own or self._options.policy).classifies_terminal(failure.kind)
        if is_fatal or (is_terminal and not failure.answers_model):
            error = ToolErrorTerminal(failure, call.tool)
            error.__cause__ = cause
            batch.stop(StopReason.failed(call, error))
        elif definition is not None and definition.abort_siblings and not failure.is_not_applicable:
            batch.stop(StopReason.failed(call))


def _is_ended_by(tool: Tool, attempt: StartedAttempt, failure: Failure) -> bool:
    """Return whether a call has failed in an attempt, with a failure of that."""
    status = tool.status
    return type(status) is Failed and tool.attempts == attempt.number and status.failure == failure
