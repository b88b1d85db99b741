"""How long a connection waits for its server to answer.

1. A suspended machine keeps its connections open, and its system keeps acknowledging what it is
   sent: no keepalive notices it.
2. A statement that is not answered within `busy_timeout`, which a lock may take, and
   `answer_seconds` is given up. Its connection is closed, and counts as lost.
3. Connections that are older than a loss of this kind lead to the same machine: they are given up,
   too, before they are used, so that a caller waits for one of them and not for each.
4. Changes of the schema are not bounded: they may take long.
5. A wait for locks, or for a standby, is cancelled at its own deadline, which comes sooner: the
   connection stays, and the server says what became of the statement.
"""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any
from weakref import ref

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from typing import TypeAlias

    from sqlalchemy.pool import ConnectionPoolEntry

    from eventstore.storage.sql.server import Server

    Steps: TypeAlias = Generator[Any, Any, Any]

CANCEL_SECONDS = 5.0
"""How long the server has to take a request to cancel."""

_SILENCES_BEFORE = "toolledger: silences before"


def limit_waits(backend: Server, connection: Any, record: ConnectionPoolEntry) -> None:
    """Bound every wait of a new connection of psycopg; `record` is the pool's entry for it."""
    record.info[_SILENCES_BEFORE] = backend.silences
    connection.wait = _Waits(connection, backend)


def is_suspect(backend: Server, info: Mapping[Any, Any]) -> bool:
    """Return whether a server fell silent since a connection, with the pool's `info`, was made."""
    before: int = info.get(_SILENCES_BEFORE, backend.silences)
    return before != backend.silences


class CancelledAt:
    """Cancel what a connection of psycopg waits for at a monotonic time, once."""

    __slots__ = ("_deadline", "_waits")

    def __init__(self, connection: Any, deadline: float) -> None:
        waits = connection.wait
        if not isinstance(waits, _Waits):  # that of a connection which changes the schema
            waits = connection.wait = _Waits(connection, None)
        self._waits = waits
        self._deadline = deadline

    def __enter__(self) -> None:
        self._waits.cancelled_at = self._deadline

    def __exit__(self, *_: object) -> None:
        self._waits.cancelled_at = inf


class _Waits:
    """Takes the place of a connection's `wait`, which psycopg calls with a generator of steps.

    Steps come at least ten times a second. What is ready at such a step is not looked at: some
    versions of psycopg 3.2 call everything ready when nothing is.
    """

    __slots__ = ("_backend", "_held", "_wait", "cancelled_at")

    def __init__(self, connection: Any, backend: Server | None) -> None:
        wait = connection.wait
        # A bound method would hold the connection, which holds this.
        self._wait: Callable[..., Any] = getattr(wait, "__func__", None) or partial(_called, wait)
        self._held = ref(connection)
        self._backend = backend
        self.cancelled_at = inf
        """The monotonic time at which what is waited for is cancelled."""

    def __call__(self, steps: Steps, *more: object, **named: object) -> Any:
        connection = self._held()
        return self._wait(connection, self._bounded(connection, steps), *more, **named)

    def _bounded(self, connection: Any, steps: Steps) -> Steps:
        """Yield the steps; raise psycopg's `OperationalError` when the server has not answered."""
        backend, seconds, given_up_at = self._backend, 0.0, inf
        if backend is not None:
            seconds = backend.busy_timeout + backend.answer_seconds
            given_up_at = time.monotonic() + seconds
        try:
            wanted = next(steps)
            while True:
                wanted = steps.send((yield wanted))
                now = time.monotonic()
                if now >= self.cancelled_at:
                    self.cancelled_at = inf
                    with suppress(Exception):  # no answer comes: there is nothing to do but to wait
                        connection.cancel_safe(timeout=CANCEL_SECONDS)
                if backend is not None and now >= given_up_at:
                    connection.close()
                    backend.silences += 1
                    raise backend.driver_module.OperationalError(
                        f"the server has not answered for {seconds:g} seconds"
                    )
        except StopIteration as done:
            return done.value


def _called(wait: Callable[..., Any], _: object, *given: object, **named: object) -> Any:
    return wait(*given, **named)
