"""A conversation inside the host's transaction on an `AsyncConnection`.

All is run by SQLAlchemy on the host's connection, in the host's task: who is cancelled is
cancelled at once, and the host's transaction with him.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from eventstore.aio import AsyncConversation
from eventstore.errors import EventStoreError
from eventstore.hosted import HostedStore, cannot_wait
from eventstore.settling import outcome
from eventstore.storage.host_transaction import synchronous
from eventstore.tool import Tool

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

    from eventstore.settling import Outcome
    from eventstore.store import EventStore

T = TypeVar("T")


class Inside:
    """Where the conversation reads and appends: what `AsyncConversation` asks of its store.

    It is the `Appender` of the conversation's verbs, too, and gives what is to be awaited.
    """

    def __init__(self, store: EventStore, connection: AsyncConnection) -> None:
        self._store = HostedStore(store, synchronous(connection))
        self._connection = connection
        self._reader = self._asking = self
        # for what verbs look up while they decide
        appender = self._appender = self._store.appender
        self.settled, self.events = appender.settled, appender.events

    def conversation(self, conversation_id: str, *, connection: Any) -> Any:
        """Refused: one connection is enough."""
        return self._store.conversation(conversation_id, connection=connection)

    async def run(self, function: Callable[[], T]) -> T:
        """What the function gives, which uses the connection."""
        return await self._connection.run_sync(lambda _: function())

    async def do(self, *what: Any, **options: Any) -> Outcome:
        """See `Appender.do`."""
        return await self.run(lambda: self._appender.do(*what, **options)), None

    async def tool(self, *what: Any) -> Outcome:
        """See `Appender.tool`."""
        return await self.run(lambda: self._appender.tool(*what)), None

    async def tools(self, *what: Any) -> Outcome:
        """See `Appender.tools`."""
        return await self.run(lambda: self._appender.tools(*what)), None


class HostedAsyncConversation(AsyncConversation):
    """A conversation inside a transaction of the host's own."""

    @property
    def blocking(self) -> NoReturn:
        """Refuse: its connection is of who awaits it.

        So does an `AsyncDispatcher`, whose steps have to be on disk before they happen.
        """
        raise EventStoreError(
            "only who awaits can use an AsyncConnection, and a dispatcher's steps must not wait "
            f"for its commit: pass store.conversation({self.id!r}), without a connection"
        )

    def follow(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: see `cannot_wait`."""
        raise cannot_wait(self.id)

    async def decision(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: see `cannot_wait`."""
        raise cannot_wait(self.id)

    async def _begin(self, call_id: str, attempt: int | None) -> Tool:
        tool: Tool = await outcome(self._verbs.start(call_id, attempt))
        return tool


def within(
    store: EventStore, conversation_id: str, connection: AsyncConnection
) -> AsyncConversation:
    """A handle on a conversation inside the transaction of a connection."""
    inside: Any = Inside(store, connection)
    return HostedAsyncConversation(inside, inside._store.conversation(conversation_id))  # noqa: SLF001
