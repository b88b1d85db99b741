"""Commits that wait for a standby: when they are acknowledged, and how long they may wait.

1. Where PostgreSQL has synchronous standbys, it answers a COMMIT when enough of them have it. Until
   then nothing bounds its wait: neither `lock_timeout` nor `statement_timeout` counts.
2. If the wait is cancelled, the server answers as if all were well, after a warning that the commit
   "might not have been replicated". That is not an acknowledgement: a failover may take it back.
3. A standby receives the log in its order. So a later commit that is answered without the warning
   proves the ones before it. `PROOF` is such a commit, which changes no table.
4. A COMMIT that is not answered in time is cancelled here, which gives the same warning.
5. What is not proven in time has an unknown outcome: it is stored on the primary, and may be gone
   after a failover.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.errors import Diagnostic

Steps: TypeAlias = Generator[Any, Any, Any]
"""What psycopg waits with: it yields what it waits for, and is sent what is ready."""

GRACE_SECONDS = 1.0
"""How much longer a commit may take than a lock: the server's own error for a lock comes first."""

CANCEL_SECONDS = 5.0
"""How long the server has to take a request to cancel."""

PROOF = "SELECT pg_logical_emit_message(true, 'toolledger', '')"

IS_AWAITED = "SELECT current_setting('synchronous_standby_names') <> ''"
"""Whether a commit waits for a standby."""


def is_unreplicated(notice: Diagnostic) -> bool:
    """Return whether a notice says that a commit has stopped waiting for its standbys.

    The server's function is named in every language; SQLSTATE 01000 is that of any warning.
    """
    return notice.source_function == "SyncRepWaitForLSN"


class CancelledAt:
    """Cancel what a connection of psycopg waits for at a monotonic time, once."""

    def __init__(self, connection: Any, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline
        self._bounded: Callable[..., Any] | None = None

    def __enter__(self) -> None:
        connection = self._connection
        own: dict[str, Any] = connection.__dict__
        self._bounded = own.get("wait")  # see `answers`
        connection.wait = partial(_wait, connection, connection.wait, self._deadline)

    def __exit__(self, *_: object) -> None:
        if self._bounded is None:
            del self._connection.wait
        else:
            self._connection.wait = self._bounded


def _wait(
    connection: Any,
    wait: Callable[..., Any],
    deadline: float,
    steps: Steps,
    *more: object,
    **named: object,
) -> Any:
    return wait(cancelled_after(connection, steps, deadline), *more, **named)


def cancelled_after(connection: Any, steps: Steps, deadline: float) -> Steps:
    """Yield the steps of a generator of psycopg; cancel what it waits for at a monotonic time.

    Steps come at least ten times a second. What is ready at such a step is not looked at: some
    versions of psycopg 3.2 call everything ready when nothing is.
    """
    try:
        wanted = next(steps)
        while True:
            wanted = steps.send((yield wanted))
            if time.monotonic() >= deadline:
                deadline = float("inf")
                _cancel(connection)
    except StopIteration as done:
        return done.value


def _cancel(connection: Connection[Any]) -> None:
    with suppress(Exception):  # the server does not answer: there is nothing to do but to wait
        connection.cancel_safe(timeout=CANCEL_SECONDS)
