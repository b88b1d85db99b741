"""`AsyncEventStore`: the event store for asyncio. It composes `EventStore`, and repeats none of it.

What is to be appended goes, in the order in which it was asked for, to one thread of the store,
which carries out together whatever waits: many tasks share a commit. Reads have a few threads
of their own. No event loop is held on to: any number of them, in any threads, may share a store.

**Cancellation.** Whoever is cancelled waits all the same until what he asked for has been carried
out, and is cancelled then. So an append that was asked for is stored, whole and in its turn, or
refused; one whose task was cancelled before is not asked for. Nothing of a task goes on behind
it.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import weakref
from collections import deque
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from contextvars import Context, copy_context
from functools import partial
from itertools import groupby, islice
from queue import Empty, SimpleQueue
from threading import Lock, Thread, current_thread
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from eventstore.appending import TOGETHER, Appender
from eventstore.conversation import NO_RESULT, Begun, Conversation
from eventstore.errors import EventStoreError, SilentAttempt, StoreClosed
from eventstore.events import Event, Recorded, RunStarted
from eventstore.failure import ErrorKind, Failure
from eventstore.feed import Cursor, cursor_at
from eventstore.following import (
    ConversationSource,
    Decision,
    Following,
    Lag,
    Patience,
    Sought,
    Stop,
    StoreSource,
)
from eventstore.message import Part
from eventstore.storage import Damage, Draft
from eventstore.store import EventStore, system_clock
from eventstore.task import Task
from eventstore.tool import Tool

if TYPE_CHECKING:
    from types import TracebackType
    from uuid import UUID

    from sqlalchemy.ext.asyncio import AsyncConnection

    from eventstore.importing import Imported
    from eventstore.task import Decide

T = TypeVar("T")
C = TypeVar("C")

PAGE = 500
"""Events that an iteration fetches at once."""

READERS = 4
"""Threads that read at once."""

NOT_RUN = Failure(
    ErrorKind.INTERNAL, "cancelled before it ran: nothing has happened", code="not_run"
)
"""What is recorded of an attempt that was cancelled while its start was being recorded."""

Outcome = tuple[Any, BaseException | None]


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


class Asked(Task):
    """An append that a task of an event loop waits for."""

    context: Context | None = None
    then: Callable[[Task], Any] | None = None
    """Makes of it what its caller gets."""
    settling: Settling[Any] | None = None

    def stage(self) -> Sequence[Draft]:
        """Decide, in the caller's context."""
        assert self.context is not None  # noqa: S101 - it is set where the task is made
        return self.context.run(Task.stage, self)

    def outcome(self) -> Outcome:
        """What its caller gets."""
        assert self.context is not None  # noqa: S101
        assert self.then is not None  # noqa: S101
        if self.error is not None:
            return None, self.error
        try:
            return self.context.run(self.then, self), None
        except BaseException as error:  # noqa: BLE001 - it is the caller's
            return None, error


class Writer:
    """The thread that appends; it starts with the first append, and ends when it is told to."""

    def __init__(self, appender: Appender) -> None:
        self._appender = appender
        self._queue: SimpleQueue[Asked | None] = SimpleQueue()
        self._lock = Lock()
        self._thread: Thread | None = None
        self._ended = False
        _writers.add(self)

    def ask(self, asked: Asked) -> None:
        """Queue an append.

        Raises:
            StoreClosed: no more are taken.
        """
        with self._lock:
            if self._ended:
                raise StoreClosed("the store is closed: AsyncEventStore.open() it again")
            if self._thread is None:
                work = partial(_write, self._appender, self._queue)
                # Not one that the interpreter waits for: it is told to end only behind those.
                self._thread = Thread(target=work, name="toolledger-writer", daemon=True)
                self._thread.start()
            self._queue.put(asked)

    def end(self) -> None:
        """Take no more; what is queued is still carried out."""
        with self._lock:
            if not self._ended:
                self._ended = True
                self._queue.put(None)

    def join(self) -> None:
        """Wait until all is carried out."""
        thread = self._thread
        if thread is not None and thread is not current_thread():
            thread.join()


def _write(appender: Appender, queue: SimpleQueue[Asked | None]) -> None:
    """Carry out together what waits together, in the order of the queue."""
    while True:
        waiting = [queue.get()]
        with suppress(Empty):
            while len(waiting) < TOGETHER:
                waiting.append(queue.get_nowait())
        asked = [one for one in waiting if one is not None]
        # Those that go alone would be carried out behind the others.
        for alone, group in groupby(asked, lambda one: one.alone):
            tasks = list(group)
            for some in [[task] for task in tasks] if alone else [tasks]:
                appender.append_together(some)
                _answer(some)
        if len(asked) < len(waiting):
            return
        del waiting, asked


def _answer(tasks: Iterable[Asked]) -> None:
    """Give the callers their outcomes: each event loop is woken once."""
    answers: dict[asyncio.AbstractEventLoop, list[tuple[Settling[Any], Outcome]]] = {}
    for task in tasks:
        assert task.settling is not None  # noqa: S101
        answers.setdefault(task.settling.get_loop(), []).append((task.settling, task.outcome()))
    for loop, settled in answers.items():
        with suppress(RuntimeError):  # it is closed: nobody waits any more
            loop.call_soon_threadsafe(_settle, settled)


def _settle(settled: Iterable[tuple[Settling[Any], Outcome]]) -> None:
    for settling, outcome in settled:
        settling.set_result(outcome)


class Asking:
    """What the verbs of a `Conversation` append to: each gives what is to be awaited."""

    def __init__(self, appender: Appender) -> None:
        self._appender = appender
        self.writer = Writer(appender)
        # for what verbs look up while they decide, in the writer's thread
        self._settled, self._events = appender.settled, appender.events

    def _do(
        self,
        conversation_id: str,
        decide: Decide,
        then: Callable[[Task], Any],
        expected_version: int | None = None,
        ids: Sequence[bytes] = (),
        *,
        alone: bool = False,
    ) -> Settling[Any]:
        settling: Settling[Any] = Settling(loop=asyncio.get_running_loop())
        self.writer.ask(Asked(
            self._appender, conversation_id, decide, expected_version, ids, alone or bool(ids),
            context=copy_context(), then=then, settling=settling,
        ))  # fmt: skip
        return settling

    def _tool(self, conversation_id: str, decide: Decide) -> Settling[Any]:
        return self._do(conversation_id, decide, Task.tool)

    def _tools(self, conversation_id: str, decide: Decide) -> Settling[Any]:
        return self._do(conversation_id, decide, Task.tools, alone=True)


class Reader:
    """The threads that read, so that no event loop waits for a database."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._lock = Lock()

    async def run(self, function: Callable[[], T]) -> T:
        """What the function gives in a thread, in the caller's context."""
        return await outcome(self.ask(function))

    def ask(self, function: Callable[[], T]) -> Settling[T]:
        """The same, to be awaited."""
        loop = asyncio.get_running_loop()
        settling: Settling[T] = Settling(loop=loop)
        context = copy_context()

        def work() -> None:
            try:
                result: Outcome = context.run(function), None
            except BaseException as error:  # noqa: BLE001 - it is the caller's
                result = None, error
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_settle, [(settling, result)])

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

    A wait for the next event that is cancelled, or timed out, loses none.
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
        found = following.next()
        if found is None:
            await _wait(following, self._reader)
            found = following.next()
        if found is None:
            raise StopAsyncIteration
        return found


async def _wait(sought: Sought, reader: Reader) -> None:
    """Until what is sought is there; see `following.wait`."""
    watch = sought.store.watch
    patience = Patience(sought.timeout)
    loop = asyncio.get_running_loop()
    rung = asyncio.Event()

    def wake() -> None:
        if not rung.is_set():  # else he has yet to look
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(rung.set)

    with watch.joined(sought, wake) as waiter:
        while not await reader.run(sought.look):
            left = patience.left()
            if left == 0:
                return
            watch.expect(waiter)
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await rung.wait()
            rung.clear()


class Opening:
    """A store that is being opened: `await` it, or use it in `async with`."""

    def __init__(self, open_: Callable[[], AsyncEventStore]) -> None:
        self._open = open_
        self._store: AsyncEventStore | None = None

    def __await__(self) -> Generator[Any, None, AsyncEventStore]:
        return self._opened().__await__()

    async def __aenter__(self) -> AsyncEventStore:
        self._store = await self._opened()
        return self._store

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._store is not None:
            await self._store.close()

    async def _opened(self) -> AsyncEventStore:
        reader = Reader()
        opened: list[AsyncEventStore] = []
        try:
            await reader.run(lambda: opened.append(self._open()))
        except asyncio.CancelledError:
            for store in opened:  # nobody will close it
                await store.close()
            raise
        finally:
            reader.end()
        return opened[0]


class AsyncEventStore:
    """`EventStore` for asyncio: the same names, awaited; iterations are `async for`.

    Open one with `await AsyncEventStore.open(url)` or `async with AsyncEventStore.open(url)`, or
    wrap an open `EventStore`, which may be used beside it and is closed with it. Event loops in
    several threads may share one. An append that was asked for is carried out, in its turn, even
    when its task is cancelled.
    """

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._reader = Reader()
        self._asking = Asking(store.appender)
        self._watch()
        _stores.add(self)

    @classmethod
    def open(
        cls,
        url: str,
        *,
        tenant: str = "",
        durability: str = "full",
        busy_timeout: float = 30.0,
        create: bool = True,
        clock: Callable[[], int] = system_clock,
    ) -> Opening:
        """Open the store at a database URL; see `EventStore.open`."""
        return Opening(
            lambda: cls(
                EventStore.open(
                    url, tenant=tenant, durability=durability, busy_timeout=busy_timeout,
                    create=create, clock=clock,
                )
            )
        )  # fmt: skip

    def conversation(
        self, conversation_id: str, *, connection: AsyncConnection | None = None
    ) -> AsyncConversation:
        """A handle on a conversation; the first append creates it.

        With `connection`, a SQLAlchemy `AsyncConnection` (of an `AsyncSession`,
        `await session.connection()`), inside the host's own transaction, which is cancelled with
        its task; see `EventStore.conversation`.
        """
        if connection is not None:
            from eventstore.hosted_aio import within  # noqa: PLC0415 - loads SQLAlchemy

            return within(self._store, conversation_id, connection)
        return AsyncConversation(self, self._store.conversation(conversation_id))

    def __repr__(self) -> str:
        return f"<Async{repr(self._store)[1:]}"

    @property
    def url(self) -> str:
        """Where the log is, with the password; see `EventStore.url`."""
        return self._store.url

    @property
    def tenant(self) -> str:
        """Whose log it is."""
        return self._store.tenant

    def conversations(self) -> AsyncIterator[tuple[str, int]]:
        """Every conversation's id with its version, oldest first."""
        return Reading(self._reader, self._store.conversations())

    def read(self, after: Cursor | str | None = None, limit: int | None = None) -> AsyncFeed:
        """The events of all conversations after a cursor; see `EventStore.read`."""
        feed = self._store.read(after, limit)
        return AsyncFeed(self._reader, feed, feed.cursor)

    def follow(
        self,
        after: Cursor | str | None = None,
        *,
        stop: Stop | None = None,
        timeout: float | None = None,
        poll: float = 0.05,
    ) -> AsyncFollow[Cursor]:
        """The events after a cursor, and then those to come; see `EventStore.follow`."""
        source = StoreSource(self._store, after)
        return AsyncFollow(self._reader, Following(self._store, source, stop, timeout, poll))

    async def end(self) -> Cursor:
        """The cursor behind the last event: what is read after it is news."""
        return await self._reader.run(self._store.end)

    def read_call(self, conversation_id: str, call_id: str) -> AsyncIterator[Recorded]:
        """The events of one call, in order."""
        return Reading(self._reader, self._store.read_call(conversation_id, call_id))

    def read_fingerprint(self, fingerprint: str) -> AsyncIterator[Recorded]:
        """The events of every call with these arguments; see `EventStore.read_fingerprint`."""
        return Reading(self._reader, self._store.read_fingerprint(fingerprint))

    def verify(self) -> AsyncIterator[Damage]:
        """What is wrong with the stored log; nothing when all is well."""
        return Reading(self._reader, self._store.verify())

    async def close(self) -> None:
        """Carry out what was asked for, and give up the connections."""
        self._asking.writer.end()
        try:
            await self._reader.run(self._close)
        finally:
            self._reader.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def _close(self) -> None:
        self._asking.writer.join()
        self._store.close()

    def _forked(self) -> None:
        self._reader = Reader()
        ended = self._asking.writer._ended  # noqa: SLF001 - one room
        self._unwatched.detach()
        self._asking.writer = Writer(self._store.appender)
        if ended:
            self._asking.writer.end()
        self._watch()

    def _watch(self) -> None:
        """Let the writer's thread end when the store is thrown away without being closed."""
        self._unwatched = weakref.finalize(self, self._asking.writer.end)
        self._unwatched.atexit = False


class AsyncConversation:
    """One conversation: append to it, read it. `Conversation` has the same names, and says more."""

    def __init__(self, store: AsyncEventStore, conversation: Conversation) -> None:
        self._owner = store
        self._reads = conversation
        self.id = conversation.id
        # Its verbs, told to append to what is awaited.
        self._verbs: Any = Conversation(store._asking, self.id)  # type: ignore[arg-type]  # noqa: SLF001

    def __repr__(self) -> str:
        return f"<AsyncConversation {self.id!r}>"

    @property
    def blocking(self) -> Conversation:
        """The same conversation for those who do not await."""
        return self._reads

    # reading

    def events(self, after: int = 0) -> AsyncIterator[Recorded]:
        """The events after a version, in order, in bounded memory."""
        return Reading(self._reader, self._reads.events(after))

    @property
    def version(self) -> Coroutine[Any, Any, int]:
        """The version of the last event; 0 before the first. To be awaited."""
        return self._reader.run(lambda: self._reads.version)

    @property
    def tools(self) -> Coroutine[Any, Any, dict[str, Tool]]:
        """Every call by its id, as it stands in the log now. To be awaited."""
        return self._reader.run(lambda: self._reads.tools)

    def follow(
        self,
        after: int = 0,
        *,
        stop: Stop | None = None,
        timeout: float | None = None,
        poll: float = 0.05,
    ) -> AsyncFollow[int]:
        """The events after a version, and then those to come; see `EventStore.follow`."""
        store = self._owner._store  # noqa: SLF001 - one room
        source = ConversationSource(store, self.id, after)
        return AsyncFollow(self._reader, Following(store, source, stop, timeout, poll))

    async def decision(
        self,
        call_id: str,
        timeout: float | None = None,  # noqa: ASYNC109 - the same names
        *,
        poll: float = 0.25,
    ) -> Tool:
        """Wait until a call is approved or rejected; see `Conversation.decision`."""
        decision = Decision(self._owner._store, self.id, call_id, timeout, poll)  # noqa: SLF001
        await _wait(decision, self._reader)
        return decision.made

    # appending

    async def append(
        self,
        *events: Event,
        expected_version: int | None = None,
        event_ids: Sequence[UUID | str | bytes] | None = None,
        connection: AsyncConnection | None = None,
    ) -> list[Recorded]:
        """Append events, all or none; see `Conversation.append`."""
        if connection is not None:
            hosted = self._owner.conversation(self.id, connection=connection)
            return await hosted.append(
                *events, expected_version=expected_version, event_ids=event_ids
            )
        return await outcome(
            self._verbs.append(*events, expected_version=expected_version, event_ids=event_ids)
        )

    async def add_message(self, role: str, content: str | Part | Sequence[Part]) -> Recorded:
        """Add a message: text, or parts."""
        return await outcome(self._verbs.add_message(role, content))

    async def request(self, name: str, arguments: Any = None, call_id: str | None = None) -> Tool:
        """Record that the model asks for a call: pending."""
        return await outcome(self._verbs.request(name, arguments, call_id))

    async def approve(
        self,
        call_id: str,
        edited_arguments: dict[str, Any] | None = None,
        by: str | None = None,
        reason: str | None = None,
    ) -> Tool:
        """Allow a call, with edited arguments in force from now on where they are given."""
        return await outcome(self._verbs.approve(call_id, edited_arguments, by, reason))

    async def reject(
        self,
        call_id: str,
        reason: str | None = None,
        source: str = "human",
        by: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> Tool:
        """Refuse a call, for good."""
        return await outcome(self._verbs.reject(call_id, reason, source, by, details))

    async def start(self, call_id: str, attempt: int | None = None) -> Tool:
        """Record that an attempt begins, before it does; see `Conversation.start`."""
        return await outcome(self._verbs.start(call_id, attempt))

    async def complete(self, call_id: str, result: Any, *, synthetic: bool = False) -> Tool:
        """Record a call's result: any value."""
        return await outcome(self._verbs.complete(call_id, result, synthetic=synthetic))

    async def fail(
        self,
        call_id: str,
        error: BaseException | Failure | str,
        *,
        delay: float | None = None,
    ) -> Tool:
        """Record that an attempt failed; `delay` is the wait in seconds before the next one."""
        return await outcome(self._verbs.fail(call_id, error, delay=delay))

    @asynccontextmanager
    async def running(
        self, call_id: str, attempt: int | None = None
    ) -> AsyncIterator[AsyncAttempt]:
        """Run a call: started durably on entry, and its end recorded on exit.

        All is as in `Conversation.running`. Who is cancelled while the start is being recorded
        does not enter the block; that nothing has run is recorded then.
        """
        run = AsyncAttempt(self._verbs, await self._begin(call_id, attempt))
        try:
            yield run
        except BaseException as error:
            if not run.ended:
                try:
                    await run.fail(error)
                except EventStoreError as unrecorded:
                    error.add_note(
                        f"the failure of call {call_id!r} was not recorded: {unrecorded}"
                    )
            raise
        if not run.ended:
            await run.fail(NO_RESULT)
            raise SilentAttempt(call_id)

    async def record(self, message: Any, provider: str = "openai") -> list[Tool]:
        """Record a provider's message; gives the calls that it makes (pending) or answers."""
        return await outcome(self._verbs.record(message, provider))

    async def record_messages(
        self,
        messages: Sequence[Any],
        provider: str = "openai",
        *,
        is_error: Callable[[Any], bool] | None = None,
        is_rejection: Callable[[Any], bool] | None = None,
    ) -> list[Tool]:
        """Record messages, as one append; see `Conversation.record_messages`."""
        return await outcome(
            self._verbs.record_messages(
                messages, provider, is_error=is_error, is_rejection=is_rejection
            )
        )

    async def import_messages(
        self,
        messages: Iterable[Any],
        provider: str = "openai",
        *,
        is_error: Callable[[Any], bool] | None = None,
        is_rejection: Callable[[Any], bool] | None = None,
        started: RunStarted | None = None,
    ) -> Imported:
        """Record a whole history, in a thread of its own; see `Conversation.import_messages`.

        Who is cancelled waits for its end.
        """
        return await self._reader.run(
            lambda: self._reads.import_messages(
                messages, provider, is_error=is_error, is_rejection=is_rejection, started=started
            )
        )

    # drivers

    @property
    def _reader(self) -> Reader:
        return self._owner._reader  # noqa: SLF001

    async def _begin(self, call_id: str, attempt: int | None) -> Tool:
        starting: Settling[Tool] = self._verbs.start(call_id, attempt)
        try:
            return await outcome(starting)
        except asyncio.CancelledError as error:
            tool, refused = starting.result()
            if refused is None:
                try:
                    await outcome(self._verbs._fail(call_id, NOT_RUN, None, attempt=tool.attempts))  # noqa: SLF001
                except EventStoreError as unrecorded:
                    error.add_note(
                        f"call {call_id!r} did not run, which was not recorded: {unrecorded}"
                    )
            raise


class AsyncAttempt(Begun):
    """One attempt under way: `arguments` to run the tool with, then `complete` or `fail`."""

    def __init__(self, verbs: Any, tool: Tool) -> None:
        super().__init__(tool)
        self._verbs = verbs

    async def complete(self, result: Any) -> Tool:
        """Record the result."""
        # The tool has done its work: if that cannot be recorded now, it has still not failed.
        self.ended = True
        self.tool = await outcome(
            self._verbs._complete(  # noqa: SLF001 - the same room
                self.tool.id, result, attempt=self.number, duration=self._took()
            )
        )
        return self.tool

    async def fail(
        self, error: BaseException | Failure | str, *, delay: float | None = None
    ) -> Tool:
        """Record the failure; `delay` is the wait in seconds before the next attempt."""
        self.tool = await outcome(
            self._verbs._fail(  # noqa: SLF001
                self.tool.id, error, delay, attempt=self.number, duration=self._took()
            )
        )
        self.ended = True
        return self.tool


_stores: weakref.WeakSet[AsyncEventStore] = weakref.WeakSet()
_writers: weakref.WeakSet[Writer] = weakref.WeakSet()


@atexit.register
def _at_exit() -> None:
    """Carry out what was asked for before the process ends."""
    writers = list(_writers)
    for writer in writers:
        writer.end()
    for writer in writers:
        writer.join()


def _after_fork() -> None:
    _writers.clear()
    for store in list(_stores):
        store._forked()  # noqa: SLF001 - one room


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
