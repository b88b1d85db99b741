"""Threads for blocking functions: daemon threads in the caller's context.

Such a thread does not keep the program from ending. A thread cannot be cancelled: after a timeout
it is left to run, and its result is passed to `on_late_result`.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from eventstore.dispatch.effects import RunResult

T = TypeVar("T")


def result_of(function: Callable[[], Any]) -> RunResult:
    """Call a function, and return how it ended."""
    try:
        return RunResult(function())
    except BaseException as error:  # noqa: BLE001 - raised by the caller that waits for it
        return RunResult(error=error)


def background_thread(function: Callable[[], None]) -> threading.Thread:
    """Make a daemon thread that runs the function in a copy of the caller's context."""
    context = contextvars.copy_context()
    return threading.Thread(target=context.run, args=(function,), name="dispatch", daemon=True)


def run_in_thread(
    function: Callable[[], T],
    timeout: float | None = None,
    on_late_result: Callable[[T], None] | None = None,
) -> T:
    """Run a function in a thread, and return its result.

    Raises:
        TimeoutError: it did not end within `timeout` seconds.
        BaseException: the function raised it.
    """
    results: list[RunResult] = []
    is_abandoned = False
    lock = threading.Lock()

    def work() -> None:
        result = result_of(function)
        with lock:
            results.append(result)
        if is_abandoned and on_late_result is not None and result.error is None:
            on_late_result(result.result)

    thread = background_thread(work)
    thread.start()
    try:
        thread.join(timeout)
    finally:
        with lock:
            is_abandoned = not results
    if is_abandoned:
        raise TimeoutError(f"timed out: no result within {timeout:g} s")
    (ended,) = results
    if ended.error is not None:
        raise ended.error
    value: T = ended.result
    return value


def run_all(functions: Sequence[Callable[[], None]], max_threads: int) -> list[BaseException]:
    """Call the functions, in at most `max_threads` threads; return the exceptions they raised."""
    errors: list[BaseException] = []
    queue = iter(functions)
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                function = next(queue, None)
            if function is None:
                return
            error = result_of(function).error
            if error is not None:
                errors.append(error)

    threads = [background_thread(work) for _ in range(min(len(functions), max_threads))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def is_in_loop() -> bool:
    """Return whether an event loop runs in this thread.

    What runs in the handler of the error that tells would have that for its `__context__`, in the
    place of its own.
    """
    import asyncio  # slow to load, and seldom needed here

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def resolve_awaitable(value: Any, timeout: float | None = None) -> Any:
    """Return the value; if it is awaitable, its result, from an event loop of its own.

    Raises:
        TimeoutError: the awaitable did not end within `timeout` seconds.
    """
    if not hasattr(value, "__await__"):
        return value
    import asyncio  # slow to load, and seldom needed here

    async def result(value: Awaitable[object]) -> object:
        try:
            return await asyncio.wait_for(value, timeout)
        except TimeoutError as error:
            if error.args:
                raise
            raise TimeoutError(f"timed out: no result within {timeout:g} s") from None

    def run() -> object:
        return asyncio.run(result(value))

    # A loop of this thread is busy further up the stack.
    return run_in_thread(run) if is_in_loop() else run()


def interrupt_behind(error: BaseException) -> BaseException | None:
    """Return the Ctrl-C that `threading` turned into an error about its own lock, if any."""
    cause = error.__context__
    if (
        type(error) is RuntimeError
        and isinstance(cause, KeyboardInterrupt)
        and "lock" in str(error)
    ):
        return cause
    return None


def most_severe(errors: Sequence[BaseException]) -> BaseException:
    """Return the error to raise, with notes on the others: first one that ends the program."""
    error = next((e for e in errors if not isinstance(e, Exception)), errors[0])
    for other in errors:
        if other is not error:
            error.add_note(f"and beside it: {other!r}")
    return error
