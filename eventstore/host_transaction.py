"""A session inside a transaction of the host's own; see `EventStore.conversation`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from eventstore.append.command import Command, PendingAppend
from eventstore.append.conversation_state import ConversationState
from eventstore.append.tool_fold import fold_tools
from eventstore.errors import EventStoreError, StoreCorrupt, UnknownCall
from eventstore.storage.interface import Append
from eventstore.storage.sql.host_connection import ConnectionStorage

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from eventstore.domain.events import Recorded
    from eventstore.domain.tool import Tool
    from eventstore.policies.prices import Prices
    from eventstore.session import LogSession, Session
    from eventstore.subjects.tags import Tag

T = TypeVar("T")


class ConnectionSession:
    """A session inside the transaction of a host's connection; it is used by one thread.

    1. It remembers no state: the transaction, or a savepoint of it, may be rolled back at any
       time. What the store's session remembers is committed, so an append begins from there.
    2. Every append decides after the lane's lock is taken, on what the transaction reads there.
    3. Nothing waits in it, and no waiter is woken: what is not committed is not news.
    """

    durable = False

    def __init__(self, store_session: LogSession, storage: ConnectionStorage) -> None:
        self._store_session = store_session
        self._storage = storage

    def _opened(self) -> ConnectionStorage:
        self._store_session.check_open()
        return self._storage

    @property
    def clock(self) -> Callable[[], int]:
        """The clock of the store."""
        return self._store_session.clock

    @property
    def prices(self) -> Prices | None:
        """The price table of the store."""
        return self._store_session.prices

    def run(self, command: Command[T]) -> T:
        """Append what a command decides, with the lane's lock held, and return its result."""
        self._store_session.committer.keep_time()
        name = command.conversation_id
        if self._store_session.tags:
            command = self.tagged(command, self._store_session.tags)
        if command.event_ids:  # which of them are stored is found by reading all events
            state = ConversationState(name, 0)
        else:
            state = self._store_session.committer.remembered_state(name)
        door = self._store_session.committer.door
        pending = PendingAppend(self.clock, self.events, command, state=state, door=door)
        request = Append(name, state.version, state.as_of, (), pending.rebase, tags=command.tags)
        try:
            (outcome,) = self._opened().append([request])
        except StoreCorrupt:
            self._store_session.committer.forget_states()
            raise
        pending.finish(outcome)
        if pending.error is not None:
            raise pending.error
        return command.result(pending)

    def events(self, conversation_id: str, after: int = 0) -> Iterator[Recorded]:
        """Return the events of a conversation after a version, as the transaction sees them."""
        return self._opened().conversation(conversation_id, after)

    def version(self, conversation_id: str) -> int:
        """Return the version of a conversation, as the transaction sees it."""
        version = 0
        for recorded in self.events(conversation_id):
            version = recorded.version
        return version

    def tool(self, conversation_id: str, call_id: str) -> Tool:
        """Return one call, as the transaction sees it."""
        tool = fold_tools(self.events(conversation_id), {call_id}).get(call_id)
        if tool is None:
            raise UnknownCall(call_id, conversation_id)
        return tool

    def known_ids(self, conversation_id: str, event_ids: Sequence[bytes]) -> dict[bytes, int]:
        """Return which of the event ids are stored in the conversation, with their versions."""
        return self._opened().known_ids(conversation_id, event_ids)

    def about(self, subjects: Sequence[str]) -> ConnectionSession:
        """Return the session whose appends are about these subjects, too."""
        return ConnectionSession(self._store_session.about(subjects), self._storage)

    def tagged(self, command: Command[T], tags: Sequence[Tag]) -> Command[T]:
        """Return the command whose events have these tags, too, and are encrypted for them."""
        return self._store_session.tagged(command, tags)

    def tags_of(self, conversation_id: str) -> Sequence[Tag]:
        """Return the tags of a conversation, as the transaction sees them."""
        return self._opened().tags_of(conversation_id)

    def covered(self, value: Any) -> Any:
        """Return a JSON value as the rules of the store let it be stored."""
        return self._store_session.covered(value)

    def in_transaction(self, connection: Connection) -> NoReturn:
        """Raise `TypeError`: the session has its connection."""
        raise TypeError(
            f"the conversation uses a connection already and takes no other, got {connection!r}: "
            "pass the connection once, to EventStore.conversation() or to append()"
        )

    def outside_transaction(self, conversation_id: str, /) -> NoReturn:
        """Raise `EventStoreError`: nothing may wait while the transaction holds a lane's lock."""
        raise must_not_wait(conversation_id)


def must_not_wait(conversation_id: str) -> EventStoreError:
    """Return the error for what may not be done inside a host's transaction."""
    return EventStoreError(
        "a host's transaction must not wait for other writers, and its events are on disk only "
        f"when the host commits: use store.conversation({conversation_id!r}), without a connection"
    )


def bind_to_connection(session: LogSession, connection: Connection) -> Session:
    """Return a session inside the transaction of a connection.

    Raises:
        TypeError: the store is not on an SQL database, or it is not a SQLAlchemy `Connection`.
    """
    return ConnectionSession(session, ConnectionStorage(session.storage, connection))
