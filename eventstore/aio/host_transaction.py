"""A session inside the host's transaction on an `AsyncConnection`.

SQLAlchemy runs everything on the host's connection, in the host's task. A task that is cancelled
ends at once, and its transaction with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NoReturn, TypeVar

from eventstore.aio.session import AsyncLogSession, AsyncSession, IfCancelled
from eventstore.append.command import Command
from eventstore.host_transaction import must_not_wait
from eventstore.storage.sql.host_connection import synchronous

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

    from eventstore.session import Session

T = TypeVar("T")


class AsyncConnectionSession:
    """A session inside the transaction of a host's connection."""

    def __init__(self, blocking: Session, connection: AsyncConnection) -> None:
        self.blocking = blocking
        self._connection = connection

    async def run(self, command: Command[T], _: IfCancelled[T] | None = None, /) -> T:
        """Append what a command decides, and return its result.

        Nothing is to be done for a cancelled task: its transaction is rolled back.
        """
        return await self.call(partial(self.blocking.run, command))

    async def call(self, function: Callable[[], T]) -> T:
        """Call a function that uses the connection, and return what it returns."""
        return await self._connection.run_sync(lambda _: function())

    def about(self, subjects: Sequence[str]) -> AsyncConnectionSession:
        """Return the session whose appends are about these subjects; see `Session.about`."""
        return AsyncConnectionSession(self.blocking.about(subjects), self._connection)

    def in_transaction(self, connection: AsyncConnection) -> AsyncSession:
        """Raise `TypeError`: the session has its connection."""
        blocking = self.blocking.in_transaction(synchronous(connection))
        return AsyncConnectionSession(blocking, connection)

    def outside_transaction(self, conversation_id: str, /) -> NoReturn:
        """Raise `EventStoreError`: nothing may wait inside a host's transaction."""
        raise must_not_wait(conversation_id)


def bind_to_connection(session: AsyncLogSession, connection: AsyncConnection) -> AsyncSession:
    """Return a session inside the transaction of a connection.

    Raises:
        TypeError, ValueError: it is not an `AsyncConnection`, or is not open.
    """
    blocking = session.blocking.in_transaction(synchronous(connection))
    return AsyncConnectionSession(blocking, connection)
