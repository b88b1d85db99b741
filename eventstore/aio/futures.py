"""`Settling`: what a thread will have to say to a task of an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")

Outcome = tuple[Any, BaseException | None]
"""What something gave, or the error that it raised."""


class Settling(asyncio.Future[Outcome], Generic[T]):
    """A future that is not cancelled by whoever waits for it.

    A task that is cancelled meanwhile gets its `CancelledError` when the future is done.
    """

    def cancel(self, msg: Any | None = None) -> bool:  # noqa: ARG002 - asyncio's signature
        """Refuse: what was asked for is carried out."""
        return False


async def outcome(settling: Settling[T]) -> T:
    """What came of it."""
    value: T
    value, error = await settling
    if error is not None:
        raise error
    return value


def settle(answers: Iterable[tuple[Settling[Any], Outcome]]) -> None:
    """Tell the tasks, from any thread: each event loop is woken once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Settling[Any], Outcome]]] = {}
    for settling, answer in answers:
        by_loop.setdefault(settling.get_loop(), []).append((settling, answer))
    for loop, some in by_loop.items():
        with suppress(RuntimeError):  # it is closed: nobody waits any more
            loop.call_soon_threadsafe(_settle, some)


def _settle(answers: Iterable[tuple[Settling[Any], Outcome]]) -> None:
    for settling, answer in answers:
        settling.set_result(answer)
