"""`AsyncDispatcher`: the driver of the same workflows in asyncio.

1. A step of the log is never interrupted. A cancel that comes while a step is recorded takes effect
   after it: the workflow gets the result of the step, and the cancel in place of the next effect.
2. Async tools, gates, hooks and approvers run in the task that dispatches them. Other tools,
   approvers and `verify` run in threads, so that they do not block the event loop.
3. A thread cannot be cancelled. After a cancel or a timeout it is left to run, and its result is
   still recorded. If the loop is closed under its task, the thread records the result itself.
4. When an error closes a batch, the closing steps run to their end, also if the task is cancelled
   again.

asyncio is imported inside the functions: it is slow to load, and `import eventstore` must not pay
for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, assert_never, cast

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
from eventstore.dispatch.function_tool import is_async
from eventstore.dispatch.setup import DispatcherSetup
from eventstore.dispatch.threads import background_thread, is_in_loop, most_severe, result_of
from eventstore.domain.tool import Tool
from eventstore.policies.gate_checks import is_awaitable
from eventstore.policies.gates import AsyncToolGate, GateDecision, Question, ToolGateContext

if TYPE_CHECKING:
    import asyncio

    from eventstore.aio.conversation import AsyncConversation
    from eventstore.aio.futures import UncancellableFuture
    from eventstore.aio.session import AsyncLogSession
    from eventstore.dispatch.batch import Batch
    from eventstore.session import LogSession

T = TypeVar("T")


class AsyncDispatcher(DispatcherSetup["AsyncConversation", AsyncToolGate]):
    """`Dispatcher` for asyncio: the same options and the same methods, awaited.

    The conversation is one of an `AsyncEventStore`; `AsyncEventStore(store)` makes one of an
    `EventStore`. No commit and no read blocks the event loop, and concurrent dispatchers share
    their commits. `gate_context` is called in a thread. The methods of a gate may be async
    (`AsyncToolGate`).

    Functions that are not async run in threads, which cannot be cancelled: after a cancel or a
    timeout they are left to run, and their results are still recorded, also where the event loop
    was closed meanwhile. A cancel that comes while a step is recorded takes effect after it.
    """

    _awaits_gates = True

    async def offer(self, context: ToolGateContext | None = None) -> GateDecision:
        """Decide which tools the next model call may see; see `Dispatcher.offer`."""
        return await self._drive(self._workflow.offers.offer(context))

    async def dispatch(self, tools: Iterable[Tool | str]) -> list[Tool]:
        """Run the calls of a turn; see `Dispatcher.dispatch`."""
        import asyncio

        batch = self._workflow.new_batch(tools, asyncio.Event())
        return await self._finish(batch, self._workflow.dispatch(batch))

    async def resume(self) -> list[Tool]:
        """Continue after a crash; see `Dispatcher.resume`."""
        import asyncio

        batch, open_calls = await self._drive(self._resume_workflow.find(asyncio.Event()))
        return await self._finish(batch, self._resume_workflow.resume(batch, open_calls))

    def _log_of(self, conversation: AsyncConversation) -> tuple[Conversation, LogSession]:
        blocking = getattr(conversation, "blocking", None)
        if not isinstance(blocking, Conversation):
            raise TypeError(
                f"conversation is {conversation!r}: pass store.conversation(id) of an "
                "AsyncEventStore; AsyncEventStore(store) makes one of an EventStore"
            )
        session: AsyncLogSession = conversation.session.outside_transaction(conversation.id)
        self._session = session
        return blocking, session.blocking

    async def _finish(self, batch: Batch, workflow: Workflow[T]) -> T:
        import asyncio

        try:
            await asyncio.sleep(0)  # a task that is cancelled already starts nothing
            return await self._drive(workflow)
        except BaseException as error:
            if _is_abandoned(error):
                raise
            try:
                await self._drive(self._workflow.close(batch, error), ignore_cancel=True)
            except Exception as unclosed:  # noqa: BLE001 - the first error is raised
                error.add_note(f"not every call could be closed: {unclosed}")
            raise

    async def _drive(self, workflow: Workflow[T], *, ignore_cancel: bool = False) -> T:
        """Run a workflow; with `ignore_cancel`, to its end, also if the task is cancelled."""
        answer: object = None
        error: BaseException | None = None
        cancel: BaseException | None = None  # came while a step of the log was recorded
        while True:
            try:
                effect = workflow.send(answer) if error is None else workflow.throw(error)
            except StopIteration as end:
                if cancel is not None:
                    raise cancel from None
                result: T = end.value
                return result
            try:
                if cancel is not None:
                    answer, error, cancel = *_cancelled_before(effect, cancel), None
                elif isinstance(effect, Write | Read):
                    answer, error, cancel = await self._finish_step(effect)
                    cancel = None if ignore_cancel else cancel
                else:
                    answer, error = await self._perform(effect), None
            except BaseException as raised:
                if _is_abandoned(raised):
                    raise
                answer, error = None, raised

    async def _finish_step(
        self, effect: Write | Read
    ) -> tuple[object, BaseException | None, BaseException | None]:
        """Return the result or error of a step of the log, and the cancel that came meanwhile."""
        import asyncio

        future: UncancellableFuture[Any]
        if isinstance(effect, Read):
            future = self._session.executor.submit(effect.function)
        else:
            future = self._session.submit(effect.command)
        try:
            answer, error = await future
        except asyncio.CancelledError as cancelled:
            answer, error = future.result()
            return answer, error, cancelled
        return answer, error, None

    async def _perform(
        self, effect: RunTool | CallHook | Question | Wait | RunConcurrently
    ) -> object:
        match effect:
            case RunTool():
                timeout = effect.definition.timeout
                if timeout is None:
                    return await self._run_tool(effect)
                return await self._run_tool_within(timeout, effect)
            case Question():
                answer = effect.ask()
                return await answer if is_awaitable(answer) else answer
            case CallHook():
                return await self._call_hook(effect)
            case Wait():
                await self._wait(effect)
            case RunConcurrently():
                await self._run_concurrently(effect)
            case _:
                assert_never(effect)
        return None

    async def _run_tool(self, effect: RunTool) -> RunResult:
        try:
            if effect.definition.is_async:
                return RunResult(await effect.function())
            value = await _run_in_thread(effect.function, effect.on_late_result)
            return RunResult(await value if hasattr(value, "__await__") else value)
        except BaseException as error:
            if _is_abandoned(error):
                raise
            return RunResult(error=error, cancelled=_is_cancelled())

    async def _run_tool_within(self, seconds: float, effect: RunTool) -> RunResult:
        import asyncio

        async with asyncio.timeout(seconds) as deadline:
            result = await self._run_tool(effect)
        if not isinstance(result.error, asyncio.CancelledError):
            return result
        if deadline.expired() and not _is_cancelled():
            return RunResult(error=TimeoutError(f"timed out: no result within {seconds:g} s"))
        return RunResult(error=result.error, cancelled=_is_cancelled())

    async def _call_hook(self, effect: CallHook) -> object:
        function = partial(effect.function, effect.tool)
        if effect.may_block and not is_async(effect.function):
            answer: Any = await _run_in_thread(function)
        else:
            answer = function()
        return await answer if hasattr(answer, "__await__") else answer

    async def _wait(self, wait: Wait) -> None:
        import asyncio

        if self._options.sleep is not None:
            done: Any = self._options.sleep(wait.seconds)
            if hasattr(done, "__await__"):
                await done
            return
        # The event that `dispatch` or `resume` made.
        stop_signal = cast("asyncio.Event", wait.batch.stop_signal)
        try:
            async with asyncio.timeout(wait.seconds):
                await stop_signal.wait()
        except TimeoutError:
            return

    async def _run_concurrently(self, effect: RunConcurrently) -> None:
        import asyncio

        limit = asyncio.Semaphore(self._options.max_parallel)

        async def error_of(workflow: Workflow[None]) -> BaseException | None:
            try:
                async with limit:
                    await self._drive(workflow)
            except BaseException as error:  # noqa: BLE001 - raised below
                return error
            return None

        tasks = [asyncio.ensure_future(error_of(workflow)) for workflow in effect.workflows]
        cancelled = await _wait_for_all(effect.batch, tasks)
        if cancelled is not None:
            raise cancelled
        errors = [error for task in tasks if (error := _error_of(task)) is not None]
        if errors:
            raise most_severe(errors)


def _cancelled_before(
    effect: Effect, cancel: BaseException
) -> tuple[RunResult | None, BaseException | None]:
    """Return the answer and error of an effect that a cancel came before."""
    from eventstore.aio.attempt import NOT_RUN

    if isinstance(effect, RunTool):
        return RunResult(NOT_RUN, cancel, cancelled=True), None
    return None, cancel


def _is_abandoned(error: BaseException) -> bool:
    """Return whether a coroutine is thrown away, because its loop was closed: it cannot await."""
    return isinstance(error, GeneratorExit) and not is_in_loop()


def _is_cancelled() -> bool:
    """Return whether the current task was asked to end."""
    import asyncio

    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _wait_for_all(
    batch: Batch, tasks: list[asyncio.Task[BaseException | None]]
) -> BaseException | None:
    """Wait until all tasks have ended, and return the cancel of the current task, if any.

    The tasks are cancelled with the current task, and when the batch aborts siblings.
    """
    import asyncio

    cancelled = None
    pending = set(tasks)
    while pending:
        try:
            _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError as error:
            cancelled = error
            _cancel(pending)
        reason = batch.stop_reason
        if cancelled is None and reason is not None and reason.aborts_siblings:
            _cancel(pending)
    return cancelled


def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()


def _error_of(task: asyncio.Task[BaseException | None]) -> BaseException | None:
    # A task that was cancelled before it began has no error: its call never started.
    return None if task.cancelled() else task.result()


def _hand_over(
    loop: asyncio.AbstractEventLoop,
    result: RunResult,
    resolve: Callable[[RunResult], None],
    record_late: Callable[[RunResult], None],
) -> None:
    """Give the result of a thread to its loop; if that is closed, record it here."""
    try:
        loop.call_soon_threadsafe(resolve, result)
    except RuntimeError:  # no task waits any more, and no future can be set
        record_late(result)


async def _run_in_thread(
    function: Callable[[], Any], on_late_result: Callable[[Any], None] = lambda _: None
) -> Any:
    """Run a function in a thread, and return its result; on a cancel the thread is left to run.

    A late result is handled in a thread, too, because it must not block the event loop.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    ended: asyncio.Future[RunResult] = loop.create_future()

    def record_late(result: RunResult) -> None:
        if result.error is None:
            on_late_result(result.result)

    def handle_late(result: RunResult) -> None:
        background_thread(partial(record_late, result)).start()

    def resolve(result: RunResult) -> None:
        if ended.done():
            handle_late(result)
        else:
            ended.set_result(result)

    background_thread(lambda: _hand_over(loop, result_of(function), resolve, record_late)).start()
    try:
        result = await ended
    except asyncio.CancelledError:
        if not ended.cancelled():  # the function ended just before the cancel
            handle_late(ended.result())
        raise
    if result.error is not None:
        raise result.error
    return result.result
