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
import weakref
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Sequence,
)
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NoReturn, Self

from eventstore.conversation import NO_RESULT, Begun, Conversation
from eventstore.errors import EventStoreError, SilentAttempt
from eventstore.events import Event, Recorded, RunStarted
from eventstore.failure import ErrorKind, Failure
from eventstore.feed import Cursor
from eventstore.following import (
    ConversationSource,
    Decision,
    Following,
    Stop,
    StoreSource,
)
from eventstore.message import Part
from eventstore.reader_aio import AsyncFeed, AsyncFollow, Reader, Reading, wait
from eventstore.settling import Settling, outcome
from eventstore.storage import Damage
from eventstore.store import EventStore, system_clock
from eventstore.tool import Tool
from eventstore.writer_aio import Asking

if TYPE_CHECKING:
    from types import TracebackType
    from uuid import UUID

    from sqlalchemy.ext.asyncio import AsyncConnection

    from eventstore.importing import Imported

NOT_RUN = Failure(
    ErrorKind.INTERNAL, "cancelled before it ran: nothing has happened", code="not_run"
)
"""What is recorded of an attempt that was cancelled while its start was being recorded."""


class Opening:
    """A store that is being opened: `await` it, or use it in `async with`."""

    def __init__(self, open_: Callable[[], AsyncEventStore]) -> None:
        self._open = open_
        self._store: AsyncEventStore | None = None

    if not TYPE_CHECKING:  # for type checkers, there is no such attribute

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(
                f"{name!r} of a store that is not open yet: write "
                "`store = await AsyncEventStore.open(url)`, or `async with`"
            )

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
        # The writer's thread ends also when the store is thrown away without being closed.
        weakref.finalize(self, self._asking.writer.end).atexit = False

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


class AsyncConversation:
    """One conversation: append to it, read it. `Conversation` has the same names, and says more."""

    def __init__(self, store: AsyncEventStore, conversation: Conversation) -> None:
        self._owner = store
        self._store, self._reader = store._store, store._reader  # noqa: SLF001 - one room
        self._reads = conversation
        self.id = conversation.id
        # Its verbs, told to append to what is awaited.
        self._verbs: Any = Conversation(self._store, self.id, store._asking)  # type: ignore[arg-type]  # noqa: SLF001

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
        source = ConversationSource(self._store, self.id, after)
        return AsyncFollow(self._reader, Following(self._store, source, stop, timeout, poll))

    async def decision(
        self,
        call_id: str,
        timeout: float | None = None,  # noqa: ASYNC109 - the same names
        *,
        poll: float = 0.25,
    ) -> Tool:
        """Wait until a call is approved or rejected; see `Conversation.decision`."""
        decision = Decision(self._store, self.id, call_id, timeout, poll)
        await wait(decision, self._reader)
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
        messages: Sequence[Any] | dict[str, Any],
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
