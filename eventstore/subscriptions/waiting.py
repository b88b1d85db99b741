"""Waiting for events, with a timeout and a poll interval."""

from __future__ import annotations

import time
from contextlib import suppress
from threading import TIMEOUT_MAX, Lock
from typing import TYPE_CHECKING, Protocol

from eventstore.domain.arguments import is_number
from eventstore.notifications.watcher import Interest

if TYPE_CHECKING:
    from eventstore.session import LogSession


class StopSignal(Protocol):
    """The signal that ends a subscription: a `threading.Event` or an `asyncio.Event`."""

    def is_set(self) -> bool:
        """Return whether the subscription is to end."""
        ...


def check_waiting(timeout: float | None, poll: float) -> None:
    """Refuse times that make no sense.

    Raises:
        ValueError: one is negative or not a number, or `poll` is 0.
    """
    if timeout is not None and not (is_number(timeout) and timeout >= 0):
        raise ValueError(f"timeout is {timeout!r}: pass None, or seconds, 0 or more")
    if not (is_number(poll) and poll > 0):
        raise ValueError(f"poll is {poll!r}: pass seconds, more than 0")


class WaitCondition(Interest, Protocol):
    """What is waited for, and how to check for it."""

    session: LogSession
    timeout: float | None

    def is_met(self) -> bool:
        """Return whether it is there, or can never come."""
        ...


def wait(condition: WaitCondition) -> bool:
    """Block until the condition is met; return False when its timeout came first."""
    watcher = condition.session.watcher
    deadline = Deadline(condition.timeout)
    # A lock, and not an Event, whose methods are Python code: an interrupt in there would leave it
    # locked, and the watcher's thread would wait for it for ever.
    woken = Lock()
    woken.acquire()

    def wake() -> None:
        with suppress(RuntimeError):  # it was woken before
            woken.release()

    with watcher.joined(condition, wake) as waiter:
        while not condition.is_met():
            remaining = deadline.remaining()
            if remaining == 0:
                return False
            watcher.expect(waiter)
            woken.acquire(timeout=-1 if remaining is None else remaining)
    return True


class Deadline:
    """The time at which a wait ends, by the monotonic clock."""

    def __init__(self, timeout: float | None) -> None:
        self._at = None if timeout is None else time.monotonic() + timeout

    def remaining(self) -> float | None:
        """Return the seconds left; None for a wait without end."""
        if self._at is None:
            return None
        return min(max(self._at - time.monotonic(), 0), TIMEOUT_MAX)
