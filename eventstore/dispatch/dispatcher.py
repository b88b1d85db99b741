"""`Dispatcher`: drives the procedures with plain calls, and threads where tools run at once."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from eventstore.conversation import Conversation
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
from eventstore.dispatch.procedure import Procedure
from eventstore.dispatch.turn import Turn
from eventstore.gate import GateDecision, ToolGateContext
from eventstore.tool import Tool

T = TypeVar("T")


class Dispatcher(Procedure[Conversation]):
    """Takes the calls of a turn to their end, and records each step before and after.

    A loop asks `offer` what the model may see, records the model's message, and gives the calls
    to `dispatch`. After a crash, `resume` goes on with what is safe.

    - `tools`: functions or `FunctionTool`s, or either by name.
    - `gates`: which tools the model may see. `gate_context` makes what they decide on of the
      log (`projections.gate_context` does); without it they see no messages. `on_all_empty`
      is "deny" where nothing is offered if all gates allow nothing, and not everything. `denial`
      words what the model is told of a hidden tool where no gate does.
    - `hooks`: asked in order before a call starts: None goes on, `Approve` ends the asking,
      `Reject`, `Skip` and `Terminate` keep the call from running.
    - `approver`: decides on calls that need approval; without one, or where it gives None, they
      stay pending for whoever decides later.
    - `policy`: the failures that end the run, with `ToolErrorTerminal`.
    - `retry_classifier`: which failures may pass, of tools that carry a `RetryPolicy`.
    - `max_calls_per_turn`: the calls beyond it are rejected. `max_parallel`: how many run at once.
    - `clock` gives microseconds since 1970 UTC, `chance` a number from 0 to 1, `sleep` waits for
      some seconds.
    """

    def offer(self, context: ToolGateContext | None = None) -> GateDecision:
        """Which tools the next model call may see: `.visible` are their names. Recorded.

        Without `context` the log gives it. The answer holds for one turn.
        """
        return self._drive(self._offering(context))

    def dispatch(self, tools: Iterable[Tool | str]) -> list[Tool]:
        """Run the calls of a turn, as `record()` gave them, and give them back as they now stand.

        Each is completed, failed or rejected then; or it is pending, where a person has yet to
        decide. Calls that have started before are left alone: see `resume`. A tool's error is
        recorded and never raised.

        Raises:
            ToolErrorTerminal: the policy, or a hook, ends the run. Every call has its answer.
            Exception: a gate, hook or approver raised, or the store: what had not started then
                stays open. So do calls whose result could not be recorded.
            BaseException: Ctrl-C and the like. Calls that had not started are rejected.
        """
        turn = self._turn(tools, threading.Event())
        return self._finish(turn, self._dispatching(turn))

    def resume(self) -> list[Tool]:
        """Go on after a crash, with no other worker on this conversation: the calls left open.

        Calls that never started are dispatched, announced retries are made. A call whose outcome
        is unknown is never just run again: its tool's `verify` is asked what became of it, and
        without one it stays as it is, unless the tool is `idempotent`.

        Raises:
            As `dispatch` does; and what a `verify` raised, after all others have been asked. Who
            is interrupted while the log is read leaves all as it was.
        """
        turn, resumption = self._drive(self._resumption(threading.Event()))
        return self._finish(turn, self._resuming(turn, resumption))

    def _finish(self, turn: Turn, steps: Steps[T]) -> T:
        try:
            return self._drive(steps)
        except BaseException as error:
            try:
                self._drive(self._closing(turn, error))
            except Exception as unclosed:  # noqa: BLE001 - the first error is the one to tell
                error.add_note(f"not every call could be closed: {unclosed}")
            raise

    def _drive(self, steps: Steps[T]) -> T:
        answer: Any = None
        error: BaseException | None = None
        while True:
            try:
                effect = steps.send(answer) if error is None else steps.throw(error)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            try:
                answer = effect.verb() if type(effect) is Write else self._perform(effect)
                error = None
            except BaseException as raised:  # noqa: BLE001 - the procedure decides
                answer, error = None, _interrupt(raised) or raised

    def _perform(self, effect: Effect) -> Any:
        if type(effect) is Run:
            return self._run(effect)
        if type(effect) is Read:
            return effect.look()
        if type(effect) is Ask:
            return _awaited(effect.function(effect.tool), None)
        if type(effect) is Wait:
            return self._wait(effect)
        assert type(effect) is Together  # noqa: S101 - there are no others
        return self._together_in_threads(effect)

    def _run(self, run: Run) -> Ran:
        try:
            if run.tool.timeout is None or run.tool.is_async:
                return Ran(_awaited(run.function(), run.tool.timeout))
            timeout = run.tool.timeout
            return Ran(_in_thread(lambda: _awaited(run.function(), None), timeout, run.late))
        except BaseException as error:  # noqa: BLE001 - the procedure decides
            return Ran(error=error)

    def _wait(self, wait: Wait) -> None:
        if self._sleep is not None:
            self._sleep(wait.seconds)
        else:
            wait.turn.stopping.wait(wait.seconds)

    def _together_in_threads(self, together: Together) -> None:
        errors: list[BaseException] = []
        queue = iter(together.procedures)
        turns = threading.Lock()

        def work() -> None:
            while True:
                with turns:
                    steps = next(queue, None)
                if steps is None:
                    return
                try:
                    self._drive(steps)
                except BaseException as error:  # noqa: BLE001 - raised below
                    errors.append(error)

        count = min(len(together.procedures), self._max_parallel)
        threads = [background(work) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise worst(errors)


def worst(errors: list[BaseException]) -> BaseException:
    """The error to raise: one that ends the program rather than one that does not."""
    error = next((e for e in errors if not isinstance(e, Exception)), errors[0])
    for other in errors:
        if other is not error:
            error.add_note(f"and beside it: {other!r}")
    return error


def _interrupt(error: BaseException) -> BaseException | None:
    """The Ctrl-C that came out as another error: inside `threading`, as one about its lock."""
    cause = error.__context__
    if (
        type(error) is RuntimeError
        and isinstance(cause, KeyboardInterrupt)
        and "lock" in str(error)
    ):
        return cause
    return None


def ran_of(function: Callable[[], Any]) -> Ran:
    """How a function ended."""
    try:
        return Ran(function())
    except BaseException as error:  # noqa: BLE001 - for who waits for it
        return Ran(error=error)


def background(work: Callable[[], None]) -> threading.Thread:
    """A thread in the caller's context that keeps no program from ending."""
    context = contextvars.copy_context()
    return threading.Thread(target=context.run, args=(work,), name="dispatch", daemon=True)


def _in_thread(
    function: Callable[[], T],
    timeout: float | None = None,
    late: Callable[[T], None] | None = None,
) -> T:
    """What the function gives or raises, if it does so in time; else it is left behind."""
    ended: list[Ran] = []
    is_left = False
    handover = threading.Lock()

    def work() -> None:
        ran = ran_of(function)
        with handover:
            ended.append(ran)
        if is_left and late is not None and ran.error is None:
            late(ran.result)

    thread = background(work)
    thread.start()
    try:
        thread.join(timeout)
    finally:
        with handover:
            is_left = not ended
    if is_left:
        raise TimeoutError(f"no result within {timeout:g} s")
    if ended[0].error is not None:
        raise ended[0].error
    return ended[0].result  # type: ignore[no-any-return]


def _awaited(value: Any, timeout: float | None) -> Any:
    """The value, or what it gives when it is awaited, in an event loop of its own."""
    if not hasattr(value, "__await__"):
        return value
    import asyncio  # noqa: PLC0415 - slow to load, and seldom needed here

    async def result(value: Awaitable[Any]) -> Any:
        try:
            return await asyncio.wait_for(value, timeout)
        except TimeoutError as error:
            if error.args:
                raise
            raise TimeoutError(f"no result within {timeout:g} s") from None

    def run() -> Any:
        return asyncio.run(result(value))

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run()
    return _in_thread(run)  # this thread's own loop is at work further up
