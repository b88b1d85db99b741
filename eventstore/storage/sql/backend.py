"""What one database does in its own way, behind the SQL that all have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine

    from eventstore.storage import Draft


class Database(Protocol):
    """What one database does in its own way."""

    url: URL
    begin: str
    busy_timeout: float
    inheritable: bool
    """Whether a forked child may be left with connections of its parent, which it never uses."""

    def connect(self) -> Engine:
        """A new engine, its connections in autocommit mode."""

    def shared(self) -> bool:
        """Whether all must use one connection (a database in memory)."""

    def check_in_place(self) -> None:
        """Refuse a write to a database that is no longer what was opened."""

    def check_names(self, tenant: str, conversation_id: str) -> None:
        """Refuse ids that the database cannot hold."""

    def check_sizes(self, drafts: Sequence[Draft]) -> None:
        """Refuse events for whose size the database gave up the connection."""

    def translate(self, error: BaseException) -> BaseException:
        """The library's error for a driver's, or the same error."""

    def is_lost(self, error: BaseException) -> bool:
        """Whether the connection is gone, or out of step with its server."""

    def is_passing(self, error: BaseException) -> bool:
        """Whether the database gave the transaction up, to be begun again (a deadlock)."""

    def damage(self, run: Callable[[str], list[Any]]) -> Iterator[str]:
        """What the database itself finds wrong in its file."""


@contextmanager
def translated(database: Database) -> Iterator[None]:
    """A database's errors are raised in the library's words."""
    try:
        yield
    except Exception as error:
        told = database.translate(error)
        if told is error:
            raise
        raise told from error
