"""What `AsyncEventStore` reads with: a few threads, and the iterations that they feed."""

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
from typing import Generic, Self, TypeVar

from eventstore.events import Recorded
from eventstore.feed import Cursor, cursor_at
from eventstore.following import Following, Lag, Patience, Sought
from eventstore.settling import Outcome, Settling, outcome, settle

T = TypeVar("T")
C = TypeVar("C")

PAGE = 500
"""Events that an iteration fetches at once."""

READERS = 4
"""Threads that read at once."""


class Reader:
    """The threads that read, so that no event loop waits for a database."""

    def __init__(self) -> None:
        self.forked()
        _readers.add(self)

    def forked(self) -> None:
        """Begin anew: in a forked child the threads are not here."""
        self._pool: ThreadPoolExecutor | None = None
        self._lock = Lock()

    async def run(self, function: Callable[[], T]) -> T:
        """What the function gives in a thread, in the caller's context."""
        return await outcome(self.ask(function))

    def ask(self, function: Callable[[], T]) -> Settling[T]:
        """The same, to be awaited."""
        settling: Settling[T] = Settling(loop=asyncio.get_running_loop())
        context = copy_context()

        def work() -> None:
            try:
                result: Outcome = context.run(function), None
            except BaseException as error:  # noqa: BLE001 - it is the caller's
                result = None, error
            settle([(settling, result)])

        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(READERS, "toolledger-reader")
            self._pool.submit(work)
        return settling

    def end(self) -> None:
        """Give up the threads; what comes later gets new ones."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False)


class Reading(Generic[T]):
    """An asynchronous iteration over what is read page by page, in bounded memory."""

    def __init__(self, reader: Reader, items: Iterator[T]) -> None:
        self._reader = reader
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
            await self._reader.run(self._fetch)
        return self._page.popleft()

    def _fetch(self) -> None:
        before = len(self._page)
        try:
            self._page.extend(islice(self._items, PAGE))
        except Exception as error:  # noqa: BLE001 - raised behind what came before it
            self._error = error
            self._ended = True
        else:
            self._ended = len(self._page) - before < PAGE


class AsyncFeed(Reading[Recorded]):
    """Events after a cursor, as they are read; `cursor` is the place behind the last one given."""

    def __init__(self, reader: Reader, feed: Iterator[Recorded], start: Cursor) -> None:
        super().__init__(reader, feed)
        self._epoch = start.epoch
        self._positions = dict(start.positions)

    @property
    def cursor(self) -> Cursor:
        """Where to read on: behind the last event that was given out."""
        return cursor_at(self._epoch, self._positions)

    async def __anext__(self) -> Recorded:
        recorded = await super().__anext__()
        self._positions[recorded.lane] = recorded.position
        return recorded


class AsyncFollow(Generic[C]):
    """Events after a cursor, and then those to come, as they come; see `Follow`.

    A wait for the next event that is cancelled, or timed out, loses none. Tasks may share one:
    each event goes to one of them.
    """

    def __init__(self, reader: Reader, following: Following[C]) -> None:
        self._reader = reader
        self._following = following

    @property
    def cursor(self) -> C:
        """Where to go on: behind the last event that was given out."""
        return self._following.cursor

    async def lag(self) -> Lag:
        """How many events have not been given out yet, and how old the oldest of them is."""
        return await self._reader.run(self._following.lag)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Recorded:
        following = self._following
        while (found := following.next()) is None:
            if not await wait(following, self._reader) or following.over:
                raise StopAsyncIteration
        return found


async def wait(sought: Sought, reader: Reader) -> bool:
    """Until what is sought is there; see `following.wait`."""
    watch = sought.store.watch
    patience = Patience(sought.timeout)
    loop = asyncio.get_running_loop()
    rung = asyncio.Event()

    def wake() -> None:
        if not rung.is_set():  # else he has yet to look
            loop.call_soon_threadsafe(rung.set)

    with watch.joined(sought, wake) as waiter:
        while not await reader.run(sought.look):
            left = patience.left()
            if left == 0:
                return False
            watch.expect(waiter)
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await rung.wait()
            rung.clear()
    return True


_readers: weakref.WeakSet[Reader] = weakref.WeakSet()


def _after_fork() -> None:
    for reader in list(_readers):
        reader.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
