"""`UncancellableFuture`: the outcome of work in a thread, awaited by a task of an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")

Outcome = tuple[T, None] | tuple[None, BaseException]
"""A result, or the error that was raised."""


class UncancellableFuture(asyncio.Future[Outcome[T]], Generic[T]):
    """A future that a cancelled task does not cancel: the work it stands for is carried out.

    The task gets its `CancelledError` when the future is done.
    """

    def cancel(self, msg: Any | None = None) -> bool:  # noqa: ARG002 - asyncio's signature
        """Refuse."""
        return False


async def wait_result(future: UncancellableFuture[T]) -> T:
    """Wait for the future, and return its result or raise its error."""
    outcome = await future
    if outcome[1] is not None:
        raise outcome[1]
    return outcome[0]


def resolve(outcomes: Iterable[tuple[UncancellableFuture[Any], Outcome[Any]]]) -> None:
    """Give futures their outcomes, from any thread; each event loop is woken once."""
    by_loop: dict[
        asyncio.AbstractEventLoop, list[tuple[UncancellableFuture[Any], Outcome[Any]]]
    ] = {}
    for future, outcome in outcomes:
        by_loop.setdefault(future.get_loop(), []).append((future, outcome))
    for loop, resolved in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed: no task waits any more
            loop.call_soon_threadsafe(_set_results, resolved)


def _set_results(outcomes: Iterable[tuple[UncancellableFuture[Any], Outcome[Any]]]) -> None:
    for future, outcome in outcomes:
        future.set_result(outcome)
