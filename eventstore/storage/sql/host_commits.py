"""Hints of what a host's transaction has stored: the host alone knows when it commits.

1. SQLAlchemy gives its connection back to the pool after that, or uses it for another transaction.
   That is when the hint is sent. After a rollback it tells nothing, which costs others a poll.
2. NOTIFY inside the host's transaction would come with its COMMIT. But all commits of a server that
   notify wait for one another, for as long as each waits for its disk and its standbys; and such a
   transaction cannot be prepared, as one that commits in two phases is.
3. Where the connection is kept, and not used any more, no hint comes: polls find the events.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlalchemy import event

if TYPE_CHECKING:
    from sqlalchemy import Connection

_TELL = "toolledger: tell"


def tell_afterwards(connection: Connection, tell: Callable[[], object]) -> None:
    """Call `tell` once the transaction of a host's connection has ended, as far as that shows."""
    connection.info[_TELL] = tell
    pool = connection.engine.pool
    if not event.contains(pool, "checkin", _tell_of):
        event.listen(pool, "checkin", _tell_of)
    if not event.contains(connection, "begin", _tell_before):
        event.listen(connection, "begin", _tell_before)


def _tell_before(connection: Connection) -> None:
    """Tell of the last transaction when the next one begins."""
    _tell(connection.info)


def _tell_of(_: object, record: Any) -> None:
    """Tell of the last transaction of a connection, by the pool's record of it."""
    _tell(record.info)


def _tell(info: dict[Any, Any]) -> None:
    tell = info.pop(_TELL, None)
    if tell is not None:
        tell()
