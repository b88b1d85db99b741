"""`AsyncEventStore`: the event store for asyncio. It composes `EventStore` and repeats nothing.

Appends go, in order, to one thread of the store, which commits all that wait together: many
tasks share a commit. Reads have a few threads of their own. The store keeps no event loop: any
number of loops, in any threads, may share it.

**Cancellation.** A task that is cancelled while it appends or reads waits until that is done,
and is cancelled then. So an append is stored, whole and in order, or refused; a task that was
cancelled earlier appends nothing. Nothing of a task continues after it has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Generator, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack

from eventstore.aio.conversation import AsyncConversation
from eventstore.aio.reader import AsyncFeed, AsyncFollow, ReadExecutor, Reading
from eventstore.aio.session import AsyncLogSession
from eventstore.domain.arguments import check_conversation_id
from eventstore.domain.events import Recorded
from eventstore.storage.interface import Damage
from eventstore.store import EventStore
from eventstore.subjects.secret import subjects_of
from eventstore.subscriptions.feed import Cursor
from eventstore.subscriptions.sources import StoreSource
from eventstore.subscriptions.subscription import Subscription
from eventstore.subscriptions.waiting import StopSignal

if TYPE_CHECKING:
    import re
    from datetime import timedelta
    from os import PathLike
    from pathlib import Path
    from types import TracebackType

    from sqlalchemy.ext.asyncio import AsyncConnection

    from eventstore.aio.session import AsyncSession
    from eventstore.detectors import Redact
    from eventstore.policies.prices import Prices
    from eventstore.redaction.erase import Erasure, ErasureSaid
    from eventstore.redaction.redact import Chosen, Redaction, Said
    from eventstore.retention.archive_file import ArchiveForm
    from eventstore.retention.check import ArchiveProblem
    from eventstore.retention.restore import Restored
    from eventstore.retention.retain import Retention, Wanted
    from eventstore.seals import Anchor, Seal, SigningKey, VerifierKey
    from eventstore.storage.interface import Archived
    from eventstore.subjects.keys import SubjectKeys
    from eventstore.subjects.secret import SubjectSecret


class Opening:
    """A store that is being opened: `await` it, or use it in `async with`."""

    def __init__(self, open_: Callable[[], AsyncEventStore]) -> None:
        self._open = open_
        self._store: AsyncEventStore | None = None

    if not TYPE_CHECKING:  # for type checkers: the attribute does not exist

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
        executor = ReadExecutor()
        opened: list[AsyncEventStore] = []
        try:
            await executor.call(lambda: opened.append(self._open()))
        except asyncio.CancelledError:
            for store in opened:  # the caller does not get it, so cannot close it
                await store.close()
            raise
        finally:
            executor.shut_down()
        return opened[0]


class AsyncEventStore:
    """`EventStore` for asyncio: the same names, awaited; iterations are `async for`.

    Open one with `await AsyncEventStore.open(url)` or `async with AsyncEventStore.open(url)`, or
    wrap an open `EventStore`, which may be used beside it and is closed with it. Event loops in
    several threads may share one. An append is carried out, in order, even if its task is
    cancelled meanwhile.
    """

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self.session = AsyncLogSession(store.session, _bind_to_connection)
        """What its handles share; for the package's own use."""

    @classmethod
    def open(  # noqa: PLR0913 - see `EventStore.open`
        cls,
        url: str,
        *,
        tenant: str = "",
        durability: str = "full",
        busy_timeout: float = 30.0,
        create: bool = True,
        read_only: bool = False,
        upgrade: bool = True,
        clock: Callable[[], int] | None = None,
        prices: Prices | None = None,
        subjects: SubjectSecret | str | PathLike[str] | None = None,
        keys: SubjectKeys | str | PathLike[str] | None = None,
        redact: Iterable[Redact] = (),
    ) -> Opening:
        """Open the store at a database URL; see `EventStore.open`."""

        def open_() -> AsyncEventStore:
            store = EventStore.open(
                url,
                tenant=tenant,
                durability=durability,
                busy_timeout=busy_timeout,
                create=create,
                read_only=read_only,
                upgrade=upgrade,
                clock=clock,
                prices=prices,
                subjects=subjects,
                keys=keys,
                redact=redact,
            )
            return cls(store)

        return Opening(open_)

    async def now(self) -> int:
        """Return the time by which leases and approvals end; see `EventStore.now`."""
        return await self.session.call(self._store.now)

    def conversation(
        self,
        conversation_id: str,
        *,
        connection: AsyncConnection | None = None,
        subjects: str | Iterable[str] = (),
    ) -> AsyncConversation:
        """Return a handle on a conversation; the first append creates it.

        With `connection`, a SQLAlchemy `AsyncConnection` (of an `AsyncSession`,
        `await session.connection()`), it is inside the host's own transaction, which is cancelled
        with its task; see `EventStore.conversation`.
        """
        check_conversation_id(conversation_id)
        session: AsyncSession = self.session
        if connection is not None:
            session = session.in_transaction(connection)
        if named := subjects_of(subjects):
            session = session.about(named)
        return AsyncConversation(session, conversation_id)

    def __repr__(self) -> str:
        return f"<Async{repr(self._store)[1:]}"

    @property
    def sync_store(self) -> EventStore:
        """The store that this one composes, for blocking code in a thread; closed with this one."""
        return self._store

    @property
    def url(self) -> str:
        """The URL of the log, with the password; see `EventStore.url`."""
        return self._store.url

    @property
    def tenant(self) -> str:
        """The tenant whose log it is."""
        return self._store.tenant

    def conversations(self) -> AsyncIterator[tuple[str, int]]:
        """Return every conversation's id with its version, oldest first."""
        return Reading(self.session, self._store.conversations())

    def read(self, after: Cursor | str | None = None, limit: int | None = None) -> AsyncFeed:
        """Return the events of all conversations after a cursor; see `EventStore.read`."""
        feed = self._store.read(after, limit)
        return AsyncFeed(self.session, feed, feed.cursor)

    def follow(
        self,
        after: Cursor | str | None = None,
        *,
        stop: StopSignal | None = None,
        timeout: float | None = None,
        poll: float = 0.05,
    ) -> AsyncFollow[Cursor]:
        """Return the events after a cursor, and then those to come; see `EventStore.follow`."""
        session = self._store.session
        source = StoreSource(session, after)
        return AsyncFollow(
            self.session.executor, Subscription(session, source, stop, timeout, poll)
        )

    async def end(self) -> Cursor:
        """Return the cursor after the last event."""
        return await self.session.call(self._store.end)

    def read_call(self, conversation_id: str, call_id: str) -> AsyncIterator[Recorded]:
        """Return the events of one call, in order."""
        return Reading(self.session, self._store.read_call(conversation_id, call_id))

    def read_fingerprint(self, fingerprint: str) -> AsyncIterator[Recorded]:
        """Return the events of calls with these arguments; see `EventStore.read_fingerprint`."""
        return Reading(self.session, self._store.read_fingerprint(fingerprint))

    def verify(self) -> AsyncIterator[Damage]:
        """Return what is wrong with the stored log: nothing, for a log without damage."""
        return Reading(self.session, self._store.verify())

    async def redact(self, conversation_id: str, **chosen: Unpack[Chosen]) -> Redaction:
        """Take the content out of events that are stored; see `EventStore.redact`."""
        return await self.session.call(partial(self._store.redact, conversation_id, **chosen))

    async def redact_everywhere(
        self, text: str | re.Pattern[str], **said: Unpack[Said]
    ) -> list[Redaction]:
        """Take a text out of every conversation; see `EventStore.redact_everywhere`."""
        return await self.session.call(partial(self._store.redact_everywhere, text, **said))

    async def tag_subject(
        self, subject: str, conversation_id: str, versions: Iterable[int] | None = None
    ) -> int:
        """Tag events that are stored; see `EventStore.tag_subject`."""
        tag = partial(self._store.tag_subject, subject, conversation_id, versions)
        return await self.session.call(tag)

    async def erase_subject(self, subject: str, **said: Unpack[ErasureSaid]) -> Erasure:
        """Redact all events that are about a subject; see `EventStore.erase_subject`."""
        return await self.session.call(partial(self._store.erase_subject, subject, **said))

    def redactions(self) -> AsyncIterator[Recorded]:
        """Return the events that record redactions, of all conversations."""
        return Reading(self.session, self._store.redactions())

    async def seal(
        self,
        key: SigningKey,
        *,
        anchors: Sequence[Anchor] = (),
        trusted: Collection[VerifierKey] = (),
    ) -> list[Seal]:
        """Sign what the log holds now; see `EventStore.seal`."""
        return await self.session.call(
            lambda: self._store.seal(key, anchors=anchors, trusted=trusted)
        )

    async def retain(self, keep: str | timedelta, **wanted: Unpack[Wanted]) -> Retention:
        """Take what is older than `keep` out of the log; see `EventStore.retain`."""
        return await self.session.call(partial(self._store.retain, keep, **wanted))

    def archived(self) -> AsyncIterator[Archived]:
        """Return the conversations that are archived; see `EventStore.archived`."""
        return Reading(self.session, self._store.archived())

    def verify_archives(
        self, *forms: ArchiveForm, whole: bool = True
    ) -> AsyncIterator[ArchiveProblem]:
        """Return what is wrong with the files of archives; see `EventStore.verify_archives`."""
        return Reading(self.session, self._store.verify_archives(*forms, whole=whole))

    async def restore(
        self, path: str | Path, *, by: str = "restore", form: ArchiveForm | None = None
    ) -> Restored:
        """Bring back the conversations of an archive; see `EventStore.restore`."""
        return await self.session.call(partial(self._store.restore, path, by=by, form=form))

    async def accept_loss(self) -> None:
        """Record that the log was put back to an older state; see `EventStore.accept_loss`."""
        await self.session.call(self._store.accept_loss)

    async def close(self) -> None:
        """Commit what is queued, and give up the connections."""
        await self.session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def _bind_to_connection(session: AsyncLogSession, connection: AsyncConnection) -> AsyncSession:
    from eventstore.aio.host_transaction import bind_to_connection  # loads SQLAlchemy

    return bind_to_connection(session, connection)
