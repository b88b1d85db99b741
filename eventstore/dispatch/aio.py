"""`AsyncDispatcher`: drives the same procedures in asyncio."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from eventstore.dispatch import settings
from eventstore.dispatch.blocking import background, worst
from eventstore.dispatch.effect import Ask, Effect, Log, Ran, Run, Steps, Together, Wait
from eventstore.dispatch.function_tool import is_async
from eventstore.dispatch.procedure import Procedure
from eventstore.dispatch.turn import Turn
from eventstore.gate import GateDecision, ToolGateContext
from eventstore.tool import Tool

if TYPE_CHECKING:
    import asyncio

    from eventstore.conversation import Conversation

T = TypeVar("T")


class AsyncDispatcher(Procedure):
    """`Dispatcher` for asyncio: the same settings, the same names, awaited.

    The conversation may be one of an `AsyncEventStore`, or of an `EventStore`.

    Functions that are not async run in threads, which cannot be cancelled: after a cancel or a
    timeout they are left behind, and what they give later is still recorded. The log is written
    without giving way to other tasks, so that no step of it can be cut in two.
    """

    def _log_of(self, given: Any) -> Conversation:
        blocking = getattr(given, "_reads", given)  # an AsyncConversation's own, of the same store
        remedy = "pass store.conversation(id) of an AsyncEventStore or an EventStore"
        return settings.conversation(blocking, remedy)

    async def offer(self, context: ToolGateContext | None = None) -> GateDecision:
        """Which tools the next model call may see; see `Dispatcher.offer`."""
        return await self._drive(self._offering(context))

    async def dispatch(self, tools: Iterable[Tool | str]) -> list[Tool]:
        """Run the calls of a turn; see `Dispatcher.dispatch`."""
        import asyncio  # noqa: PLC0415 - slow to load: whoever is here has it anyway

        turn = await self._drive(self._turn(tools, asyncio.Event()))
        return await self._finish(turn, self._dispatching(turn))

    async def resume(self) -> list[Tool]:
        """Go on after a crash; see `Dispatcher.resume`."""
        import asyncio  # noqa: PLC0415 - see above

        turn, resumption = await self._drive(self._resumption(asyncio.Event()))
        return await self._finish(turn, self._resuming(turn, resumption))

    async def _finish(self, turn: Turn, steps: Steps[T]) -> T:
        import asyncio  # noqa: PLC0415 - see above

        try:
            await asyncio.sleep(0)  # who is cancelled already starts nothing
            return await self._drive(steps)
        except BaseException as error:
            try:
                await self._drive(self._closing(turn, error))
            except Exception as unclosed:  # noqa: BLE001 - the first error is the one to tell
                error.add_note(f"not every call could be closed: {unclosed}")
            raise

    async def _drive(self, steps: Steps[T]) -> T:
        answer: Any = None
        error: BaseException | None = None
        while True:
            try:
                effect = steps.send(answer) if error is None else steps.throw(error)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            try:
                answer = effect.verb() if type(effect) is Log else await self._perform(effect)
                error = None
            except BaseException as raised:  # noqa: BLE001 - the procedure decides
                answer, error = None, raised

    async def _perform(self, effect: Effect) -> Any:
        if type(effect) is Run:
            timeout = effect.tool.timeout
            return await (self._run(effect) if timeout is None else self._run_in(timeout, effect))
        if type(effect) is Ask:
            return await self._ask(effect)
        if type(effect) is Wait:
            return await self._wait(effect)
        assert type(effect) is Together  # noqa: S101 - there are no others
        return await self._together_in_tasks(effect)

    async def _run(self, run: Run) -> Ran:
        try:
            if run.tool.is_async:
                return Ran(await run.function())
            value = await _from_thread(run.function, run.late)
            return Ran(await value if hasattr(value, "__await__") else value)
        except BaseException as error:  # noqa: BLE001 - the procedure decides
            return Ran(error=error, cancelled=_is_cancelled())

    async def _run_in(self, seconds: float, run: Run) -> Ran:
        import asyncio  # noqa: PLC0415 - see above

        async with asyncio.timeout(seconds) as deadline:
            ran = await self._run(run)
        if not isinstance(ran.error, asyncio.CancelledError):
            return ran
        if deadline.expired() and not _is_cancelled():
            return Ran(error=TimeoutError(f"no result within {seconds:g} s"))
        return Ran(error=ran.error, cancelled=_is_cancelled())

    async def _ask(self, ask: Ask) -> Any:
        if ask.outside:
            function = partial(ask.function, ask.tool)
            answer = function() if is_async(ask.function) else await _from_thread(function)
        else:
            answer = ask.function(ask.tool)
        return await answer if hasattr(answer, "__await__") else answer

    async def _wait(self, wait: Wait) -> None:
        import asyncio  # noqa: PLC0415 - see above

        if self._sleep is not None:
            done = self._sleep(wait.seconds)
            if hasattr(done, "__await__"):
                await done
            return
        try:
            async with asyncio.timeout(wait.seconds):
                await wait.turn.stopping.wait()
        except TimeoutError:
            return

    async def _together_in_tasks(self, together: Together) -> None:
        import asyncio  # noqa: PLC0415 - see above

        limit = asyncio.Semaphore(self._max_parallel)

        async def settle(steps: Steps[None]) -> BaseException | None:
            try:
                async with limit:
                    await self._drive(steps)
            except BaseException as error:  # noqa: BLE001 - raised below
                return error
            return None

        tasks = [asyncio.ensure_future(settle(steps)) for steps in together.procedures]
        cancelled = await _all_ended(together.turn, tasks)
        if cancelled is not None:
            raise cancelled
        errors = [error for task in tasks if (error := _error_of(task)) is not None]
        if errors:
            raise worst(errors)


def _is_cancelled() -> bool:
    """Whether somebody wants this task to end."""
    import asyncio  # noqa: PLC0415 - see above

    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _all_ended(
    turn: Turn, tasks: list[asyncio.Task[BaseException | None]]
) -> BaseException | None:
    """Wait until all tasks have ended, cancelling them where that is due; our own cancellation."""
    import asyncio  # noqa: PLC0415 - see above

    cancelled = None
    left = set(tasks)
    while left:
        try:
            _, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError as error:
            cancelled = error
            _cancel(left)
        if cancelled is None and turn.stop is not None and turn.stop.aborts:
            _cancel(left)
    return cancelled


def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()


def _error_of(task: asyncio.Task[BaseException | None]) -> BaseException | None:
    # One that was cancelled before it began has raised nothing: its call never started.
    return None if task.cancelled() else task.result()


async def _from_thread(
    function: Callable[[], Any], late: Callable[[Any], None] | None = None
) -> Any:
    """What the function gives or raises in a thread, which is left behind on a cancel."""
    import asyncio  # noqa: PLC0415 - see above

    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Ran] = loop.create_future()

    def settle(ran: Ran) -> None:
        if not ended.done():
            ended.set_result(ran)
        elif late is not None and ran.error is None:
            late(ran.result)

    def work() -> None:
        try:
            ran = Ran(function())
        except BaseException as error:  # noqa: BLE001 - raised below
            ran = Ran(error=error)
        try:
            loop.call_soon_threadsafe(settle, ran)
        except RuntimeError:  # the loop is closed, and what waited for it cancelled
            settle(ran)

    background(work).start()
    ran = await ended
    if ran.error is not None:
        raise ran.error
    return ran.result
