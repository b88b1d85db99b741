"""The parts of a storage in which databases differ, and those that suit any of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from eventstore.storage.sql.log import Log
from eventstore.storage.sql.log_writer import Insert, insert_rows
from eventstore.storage.sql.reader import LogReader

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPICursor

    from eventstore.storage.interface import Append, Appended
    from eventstore.storage.sql.transaction_notes import TransactionNotes


class SingleStatement(Protocol):
    """Stores one event in one statement, which is its own transaction."""

    def store(self, request: Append, notes: TransactionNotes) -> Appended | None:
        """Store the event of a request, and note it; return None where a transaction must do it.

        Before a statement is sent that may store it, the `ends` are noted. An error that comes
        before that has cleaned up after itself.
        """
        ...


class CommitProof(Protocol):
    """Proves that a failover cannot take back a commit that was answered."""

    def commit(self, cursor: DBAPICursor, statement: str) -> None:
        """End a transaction, within the time that it may take."""
        ...

    def require(self, requests: Sequence[Append]) -> None:
        """Prove the commit that was just answered.

        Raises:
            OutcomeUnknown: it cannot be proven in time.
        """
        ...

    def wait_until_lasting(self, cursor: DBAPICursor) -> None:
        """Prove what a cursor has just found; raise the same."""
        ...


class Hints(Protocol):
    """Tells other processes of appends, and hears of theirs."""

    def send(self) -> None:
        """Tell the others soon that something was appended."""
        ...

    def send_to_all(self) -> None:
        """Tell this process, too, that a host's transaction may have stored something."""
        ...

    def listen(self, heard: Callable[[], object], /) -> AbstractContextManager[Callable[[], bool]]:
        """Call `heard` when others have appended; see `Storage.hints`."""
        ...

    def close(self) -> None:
        """Send the last hint, and end."""
        ...


COPIES_REMAIN = (
    "backups, replicas and exports that were made before hold it still: destroy them, and make new "
    "ones"
)


def copies_remain(_: LogReader) -> tuple[str, ...]:
    """Return what is left of redacted payloads where nothing is known of the database."""
    return (COPIES_REMAIN,)


def any_permissions(_: LogReader) -> int:
    """Return the permissions that the umask leaves: a server has no file of its own here."""
    return 0o666


def unlocked(_: LogReader) -> AbstractContextManager[None]:
    """Lock nothing."""
    return nullcontext()


class Parts(NamedTuple):
    """What a storage is made of; None stands for what its database does not need."""

    reader: LogReader
    insert: Insert = insert_rows
    single: SingleStatement | None = None
    proof: CommitProof | None = None
    hints: Hints | None = None
    erase: Callable[[LogReader], tuple[str, ...]] = copies_remain
    """Clears what the database still holds of redacted payloads; see `Storage.erase`."""
    exclusive: Callable[[LogReader], AbstractContextManager[None]] = unlocked
    """Keeps other processes from archiving; see `Archives.exclusive`."""
    permissions: Callable[[LogReader], int] = any_permissions
    """Returns the permissions that a file made of the events may have at most."""


MakeParts: TypeAlias = Callable[[Log], Parts]
"""Makes the parts of a storage for its log."""


def plain_parts(log: Log) -> Parts:
    """Return the parts that suit any database."""
    return Parts(LogReader(log))
