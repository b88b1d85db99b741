"""`AsyncDispatcher`: drives the same procedures in asyncio."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from eventstore.conversation import Conversation
from eventstore.dispatch import settings
from eventstore.dispatch.blocking import background, ran_of, worst
from eventstore.dispatch.effect import (
    Ask,
    Effect,
    Ran,
    Read,
    Run,
    Steps,
    Together,
    Wait,
    Write,
)
from eventstore.dispatch.function_tool import is_async
from eventstore.dispatch.procedure import Procedure
from eventstore.dispatch.turn import Turn
from eventstore.gate import GateDecision, ToolGateContext
from eventstore.tool import Tool

if TYPE_CHECKING:
    import asyncio

    from eventstore.aio import AsyncConversation  # noqa: F401 - named below, in quotes

T = TypeVar("T")


class AsyncDispatcher(Procedure["AsyncConversation"]):
    """`Dispatcher` for asyncio: the same settings, the same names, awaited.

    The conversation is one of an `AsyncEventStore`; `AsyncEventStore(store)` makes one of an
    `EventStore`. No commit and no read holds up the event loop, and dispatchers that run at once
    share their commits. `gate_context` is called in a thread.

    Functions that are not async run in threads, which cannot be cancelled: after a cancel or a
    timeout they are left behind, and what they give later is still recorded. A cancel cuts no
    step of the log in two: one that comes while a step is being recorded takes effect behind it.
    """

    def _log_of(self, given: Any) -> tuple[Conversation, Any]:
        remedy = (
            "pass store.conversation(id) of an AsyncEventStore; AsyncEventStore(store) makes one "
            "of an EventStore"
        )
        blocking = getattr(given, "blocking", None)
        settings.one("conversation", given, lambda _: isinstance(blocking, Conversation), remedy)
        return given.blocking, given._verbs  # noqa: SLF001 - one room: they give what to await

    async def offer(self, context: ToolGateContext | None = None) -> GateDecision:
        """Which tools the next model call may see; see `Dispatcher.offer`."""
        return await self._drive(self._offering(context))

    async def dispatch(self, tools: Iterable[Tool | str]) -> list[Tool]:
        """Run the calls of a turn; see `Dispatcher.dispatch`."""
        import asyncio  # noqa: PLC0415 - slow to load: whoever is here has it anyway

        turn = self._turn(tools, asyncio.Event())
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
                await self._drive(self._closing(turn, error), wholly=True)
            except Exception as unclosed:  # noqa: BLE001 - the first error is the one to tell
                error.add_note(f"not every call could be closed: {unclosed}")
            raise

    async def _drive(self, steps: Steps[T], *, wholly: bool = False) -> T:
        """Go through a procedure; `wholly`: to its end, whoever is cancelled."""
        answer: Any = None
        error: BaseException | None = None
        cut: BaseException | None = None  # the cancel that came while the log was at work
        while True:
            try:
                effect = steps.send(answer) if error is None else steps.throw(error)
            except StopIteration as end:
                if cut is not None:
                    raise cut from None
                return end.value  # type: ignore[no-any-return]
            try:
                if cut is not None:
                    answer, error, cut = *_not_performed(effect, cut), None
                elif type(effect) is Write or type(effect) is Read:
                    answer, error, cut = await self._settled(effect)
                    cut = None if wholly else cut
                else:
                    answer, error = await self._perform(effect), None
            except BaseException as raised:  # noqa: BLE001 - the procedure decides
                answer, error = None, raised

    async def _settled(
        self, effect: Write | Read
    ) -> tuple[Any, BaseException | None, BaseException | None]:
        """What a step of the log gave or raised, and the cancel that came meanwhile."""
        import asyncio  # noqa: PLC0415 - see above

        reader = self.conversation._reader  # noqa: SLF001 - one room
        settling = reader.ask(effect.look) if isinstance(effect, Read) else effect.verb()
        try:
            return *(await settling), None
        except asyncio.CancelledError as cancelled:
            return *settling.result(), cancelled

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


def _not_performed(effect: Effect, cut: BaseException) -> tuple[Ran | None, BaseException | None]:
    """What a procedure is told in place of an effect, when its run was cancelled before it."""
    from eventstore.aio import NOT_RUN  # noqa: PLC0415 - see above

    return (Ran(NOT_RUN, cut, cancelled=True), None) if type(effect) is Run else (None, cut)


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
    """What the function gives or raises in a thread, which is left behind on a cancel.

    What it gives then is taken in a thread, too: it is no work for the event loop.
    """
    import asyncio  # noqa: PLC0415 - see above

    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Ran] = loop.create_future()

    def leave(ran: Ran) -> None:
        if late is not None and ran.error is None:
            background(partial(late, ran.result)).start()

    def settle(ran: Ran) -> None:
        if ended.done():
            leave(ran)
        else:
            ended.set_result(ran)

    def work() -> None:
        ran = ran_of(function)
        try:
            loop.call_soon_threadsafe(settle, ran)
        except RuntimeError:  # the loop is closed, and what waited for it cancelled
            settle(ran)

    background(work).start()
    try:
        ran = await ended
    except asyncio.CancelledError:
        if not ended.cancelled():  # it had just ended
            leave(ended.result())
        raise
    if ran.error is not None:
        raise ran.error
    return ran.result
