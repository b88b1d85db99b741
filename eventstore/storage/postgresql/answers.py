"""How long a connection waits for its server to answer.

1. A suspended machine keeps its connections open, and its system keeps acknowledging what it is
   sent: no keepalive notices it.
2. A statement that is not answered within `busy_timeout`, which a lock may take, and
   `answer_seconds` is given up. Its connection is closed, and counts as lost.
3. Connections that are older than a loss of this kind lead to the same machine: they are given up,
   too, before they are used, so that a caller waits for one of them and not for each.
4. Changes of the schema are not bounded: they may take long.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import ref

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy.pool import ConnectionPoolEntry

    from eventstore.storage.postgresql.replication import Steps
    from eventstore.storage.sql.server import Server

_SILENCES_BEFORE = "toolledger: silences before"


def limit_waits(backend: Server, connection: Any, record: ConnectionPoolEntry) -> None:
    """Bound every wait of a new connection of psycopg; `record` is the pool's entry for it."""
    record.info[_SILENCES_BEFORE] = backend.silences
    wait = connection.wait.__func__  # no bound method: the connection would hold itself
    connection.wait = partial(_wait, wait, backend, ref(connection))


def is_suspect(backend: Server, info: Mapping[Any, Any]) -> bool:
    """Return whether a server fell silent since a connection, with the pool's `info`, was made."""
    before: int = info.get(_SILENCES_BEFORE, backend.silences)
    return before != backend.silences


def _wait(
    wait: Callable[..., Any],
    backend: Server,
    held: ref[Any],
    steps: Steps,
    *more: object,
    **named: object,
) -> Any:
    connection = held()
    return wait(connection, _in_time(backend, connection, steps), *more, **named)


def _in_time(backend: Server, connection: Any, steps: Steps) -> Steps:
    """Yield the steps of a generator of psycopg; raise its `OperationalError` when time is over.

    Steps come at least ten times a second.
    """
    seconds = backend.busy_timeout + backend.answer_seconds
    deadline = time.monotonic() + seconds
    try:
        wanted = next(steps)
        while True:
            wanted = steps.send((yield wanted))
            if time.monotonic() >= deadline:
                connection.close()
                backend.silences += 1
                raise backend.driver_module.OperationalError(
                    f"the server has not answered for {seconds:g} seconds"
                )
    except StopIteration as done:
        return done.value
