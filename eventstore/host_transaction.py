"""A conversation inside a transaction of the host's own; see `EventStore.conversation`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from eventstore.appending import Appender
from eventstore.conversation import Conversation
from eventstore.errors import EventStoreError
from eventstore.state import ConversationState
from eventstore.storage import Append, Storage
from eventstore.storage.host_transaction import HostedStorage
from eventstore.store import EventStore
from eventstore.task import Decide, Task

if TYPE_CHECKING:
    from sqlalchemy import Connection


class HostedAppender(Appender):
    """Appends inside the host's transaction.

    It remembers no state: the transaction, or a savepoint of it, may be rolled back at any time.
    What the store remembers has been committed, and is there to begin from.
    """

    def __init__(self, outside: Appender, storage: Storage) -> None:
        super().__init__(storage, outside.clock)
        self._outside = outside

    def opened(self) -> Storage:
        """The transaction, unless the store is closed by now."""
        self._outside.opened()
        return self._storage

    def append(
        self,
        conversation_id: str,
        decide: Decide,
        expected_version: int | None = None,
        ids: Sequence[bytes] = (),
        *,
        alone: bool = True,
    ) -> Task:
        """Append behind the lane's lock, where all is read that the store does not remember."""
        state = self._outside.remembered(conversation_id)
        if ids:  # which of them are stored is seen on reading
            state = self._take(conversation_id)
        task = Task(self, conversation_id, decide, expected_version, ids, alone, state)
        request = Append(conversation_id, state.version, state.as_of, (), task.rebase)
        task.done = self.opened().append(request)
        task.ended = True
        return task

    def _take(self, _: str) -> ConversationState:
        return ConversationState(0)

    def _keep(self, _: str, state: ConversationState) -> None:
        """Forget it. Followers are not told: what is not committed is no news."""


class HostedStore(EventStore):
    """A store as the host's transaction sees it."""

    def __init__(self, store: EventStore, connection: Connection) -> None:
        outside = store.appender
        storage: Any = HostedStorage(outside.opened(), connection)
        self._use(HostedAppender(outside, storage), storage)


class HostedConversation(Conversation):
    """A conversation inside a transaction of the host's own."""

    durable = False

    def follow(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: see `cannot_wait`."""
        raise cannot_wait(self.id)

    def decision(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: see `cannot_wait`."""
        raise cannot_wait(self.id)


def cannot_wait(conversation_id: str) -> EventStoreError:
    """What is to be raised where others would be waited for with a lane locked."""
    return EventStoreError(
        "a transaction must not wait for what others append: follow with "
        f"store.conversation({conversation_id!r}), without a connection"
    )


def within(store: EventStore, conversation_id: str, connection: Connection) -> Conversation:
    """A handle on a conversation inside the transaction of a connection."""
    return HostedConversation(HostedStore(store, connection), conversation_id)
