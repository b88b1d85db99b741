"""`ReadExecutor`: the threads that read for asyncio, and the iterations that they feed."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from itertools import islice
from threading import Lock
from typing import Generic, Protocol, Self, TypeVar

from eventstore.aio.futures import Outcome, UncancellableFuture, resolve, wait_result
from eventstore.domain.events import Recorded
from eventstore.subscriptions.feed import Bookmark, Cursor
from eventstore.subscriptions.subscription import Lag, Subscription
from eventstore.subscriptions.waiting import Deadline, WaitCondition

T = TypeVar("T")
C = TypeVar("C")

PAGE_EVENTS = 500
"""Events that an iteration fetches in one go."""

MAX_THREADS = 4
"""Threads that read at the same time."""


class Caller(Protocol):
    """Calls blocking functions without blocking the event loop."""

    async def call(self, function: Callable[[], T]) -> T:
        """Call a function, and return what it returns."""
        ...


class ReadExecutor:
    """The threads that read, so that no event loop waits for a database."""

    def __init__(self) -> None:
        self.reset_after_fork()
        _executors.add(self)

    def reset_after_fork(self) -> None:
        """Start again without threads: a forked child does not have them."""
        self._pool: ThreadPoolExecutor | None = None
        self._lock = Lock()

    async def call(self, function: Callable[[], T]) -> T:
        """Call a function in a thread, in the caller's context, and return what it returns."""
        return await wait_result(self.submit(function))

    def submit(self, function: Callable[[], T]) -> UncancellableFuture[T]:
        """Call a function on a reader thread; return the future of its result."""
        future: UncancellableFuture[T] = UncancellableFuture(loop=asyncio.get_running_loop())
        context = copy_context()

        def work() -> None:
            outcome: Outcome[T]
            try:
                outcome = context.run(function), None
            except BaseException as error:  # noqa: BLE001 - it is raised in the caller
                outcome = None, error
            resolve([(future, outcome)])

        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(MAX_THREADS, "toolledger-reader")
            self._pool.submit(work)
        return future

    def shut_down(self) -> None:
        """Give up the threads; a later call gets new ones."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False)


class Reading(Generic[T]):
    """An asynchronous iteration that reads page by page, in bounded memory."""

    def __init__(self, caller: Caller, items: Iterator[T]) -> None:
        self._caller = caller
        self._items = items
        self._page: deque[T] = deque()
        self._error: BaseException | None = None
        self._ended = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        while not self._page:
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            if self._ended:
                raise StopAsyncIteration
            await self._caller.call(self._fetch)
        return self._page.popleft()

    def _fetch(self) -> None:
        before = len(self._page)
        try:
            self._page.extend(islice(self._items, PAGE_EVENTS))
        except Exception as error:  # noqa: BLE001 - raised after the items before it
            self._error = error
            self._ended = True
        else:
            self._ended = len(self._page) - before < PAGE_EVENTS


class AsyncFeed(Reading[Recorded]):
    """Events after a cursor; `cursor` is after the last one that was returned."""

    def __init__(self, caller: Caller, feed: Iterator[Recorded], start: Cursor) -> None:
        super().__init__(caller, feed)
        self._epoch = start.epoch
        self._start = Bookmark.of(start, start.epoch)
        self._last: dict[int, Recorded] = {}  # of each lane

    @property
    def cursor(self) -> Cursor:
        """Where to continue: after the last event that was returned."""
        return self._start.after(self._last.values()).cursor(self._epoch)

    async def __anext__(self) -> Recorded:
        recorded = await super().__anext__()
        self._last[recorded.lane] = recorded
        return recorded


class AsyncFollow(Generic[C]):
    """Events after a cursor, and then those to come, as they come; see `Follow`.

    A wait for the next event may be cancelled, or time out: no event is lost. Tasks may share one:
    each event goes to one of them.
    """

    def __init__(self, caller: Caller, subscription: Subscription[C]) -> None:
        self._caller = caller
        self._subscription = subscription

    @property
    def cursor(self) -> C:
        """Where to continue: after the last event that was returned."""
        return self._subscription.cursor

    async def lag(self) -> Lag:
        """Return how many events have not been returned yet, and how old the oldest of them is."""
        return await self._caller.call(self._subscription.lag)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Recorded:
        subscription = self._subscription
        while (found := subscription.next()) is None:
            if not await wait(subscription, self._caller) or subscription.ended:
                raise StopAsyncIteration
        return found


async def wait(condition: WaitCondition, caller: Caller) -> bool:
    """Wait until the condition is met; return False when its timeout came first."""
    watcher = condition.session.watcher
    deadline = Deadline(condition.timeout)
    loop = asyncio.get_running_loop()
    woken = asyncio.Event()

    def wake() -> None:
        if not woken.is_set():  # otherwise the task has yet to check
            loop.call_soon_threadsafe(woken.set)

    with watcher.joined(condition, wake) as waiter:
        while not await caller.call(condition.is_met):
            remaining = deadline.remaining()
            if remaining == 0:
                return False
            watcher.expect(waiter)
            with suppress(TimeoutError):
                async with asyncio.timeout(remaining):
                    await woken.wait()
            woken.clear()
    return True


_executors: weakref.WeakSet[ReadExecutor] = weakref.WeakSet()


def _reset_after_fork() -> None:
    for executor in list(_executors):
        executor.reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
