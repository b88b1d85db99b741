"""`AsyncSession`: what an asynchronous conversation is read and appended through."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Sequence
from contextvars import copy_context
from copy import copy
from time import monotonic
from typing import TYPE_CHECKING, Protocol, TypeVar

from eventstore.aio.futures import UncancellableFuture, wait_result
from eventstore.aio.reader import ReadExecutor
from eventstore.aio.writer import QueuedAppend, Writer

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

    from eventstore.append.command import Command
    from eventstore.session import LogSession, Session

T = TypeVar("T")

IfCancelled = Callable[[T, asyncio.CancelledError], Awaitable[object]]
"""Awaited when the task was cancelled, but the append is stored: gets its result."""


class AsyncSession(Protocol):
    """What one conversation is read and appended through, awaited."""

    @property
    def blocking(self) -> Session:
        """The same session for blocking functions, which `call` calls."""
        ...

    async def run(self, command: Command[T], if_cancelled: IfCancelled[T] | None = None, /) -> T:
        """Append what a command decides, and return its result; see `Session.run`."""
        ...

    async def call(self, function: Callable[[], T]) -> T:
        """Call a function that uses the blocking session, and return what it returns."""
        ...

    def about(self, subjects: Sequence[str]) -> AsyncSession:
        """Return the session whose appends are about these subjects; see `Session.about`."""
        ...

    def in_transaction(self, connection: AsyncConnection) -> AsyncSession:
        """Return a session inside the host's transaction on a connection.

        Raises:
            TypeError, ValueError: the connection cannot be used.
        """
        ...

    def outside_transaction(self, conversation_id: str, /) -> AsyncLogSession:
        """Return the session on the store's own connections, which may wait for other writers.

        Raises:
            EventStoreError: this session is inside a host's transaction.
        """
        ...


BindToConnection = Callable[["AsyncLogSession", "AsyncConnection"], AsyncSession]
"""Makes a session inside the transaction of a connection."""


class AsyncLogSession:
    """The session of an open store for asyncio: one thread appends, a few threads read."""

    def __init__(self, session: LogSession, bind_to_connection: BindToConnection) -> None:
        self.blocking = session
        self.executor = ReadExecutor()
        self.writer = Writer(session.committer)
        self._bind_to_connection = bind_to_connection
        self.whole: AsyncLogSession = self
        """The session of the store itself, which one with tags keeps alive."""
        # The thread also ends when the store and its handles are collected without being closed.
        weakref.finalize(self, self.writer.end).atexit = False

    def submit(self, command: Command[T]) -> UncancellableFuture[T]:
        """Queue a command; return the future of its result.

        Raises:
            StoreClosed: the store was closed.
        """
        future: UncancellableFuture[T] = UncancellableFuture(loop=asyncio.get_running_loop())
        if self.blocking.tags:
            command = self.blocking.tagged(command, self.blocking.tags)
        committer = self.blocking.committer
        self.writer.put(
            QueuedAppend(
                committer.clock,
                committer.events,
                command,
                monotonic(),
                door=committer.door,
                context=copy_context(),
                future=future,
            )
        )
        return future

    async def run(self, command: Command[T], if_cancelled: IfCancelled[T] | None = None, /) -> T:
        """Queue a command, and return its result.

        A task that is cancelled meanwhile waits until the append is stored or refused.
        """
        future = self.submit(command)
        try:
            return await wait_result(future)
        except asyncio.CancelledError as cancelled:
            outcome = future.result()
            if outcome[1] is None and if_cancelled is not None:
                await if_cancelled(outcome[0], cancelled)
            raise

    async def call(self, function: Callable[[], T]) -> T:
        """Call a function in a thread; see `ReadExecutor.call`."""
        return await self.executor.call(function)

    def about(self, subjects: Sequence[str]) -> AsyncLogSession:
        """Return the session whose appends are about these subjects; see `Session.about`."""
        session = copy(self)
        session.blocking = self.blocking.about(subjects)
        return session

    def in_transaction(self, connection: AsyncConnection) -> AsyncSession:
        """Return a session inside the host's transaction on a connection."""
        return self._bind_to_connection(self, connection)

    def outside_transaction(self, _: str, /) -> AsyncLogSession:
        """Return this session: it is on the store's own connections."""
        return self

    async def close(self) -> None:
        """Commit what is queued, and give up the connections."""
        self.writer.end()
        try:
            await self.executor.call(self._close)
        finally:
            self.executor.shut_down()

    def _close(self) -> None:
        self.writer.join()
        self.blocking.close()
