"""Proving commits that may have stopped waiting for their standbys: see `replication`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from eventstore.errors import OutcomeUnknown, StorageError
from eventstore.storage.postgresql.answers import CancelledAt
from eventstore.storage.postgresql.replication import (
    GRACE_SECONDS,
    IS_AWAITED,
    PROOF,
)
from eventstore.storage.sql.unanswered_commits import ids_of

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPICursor

    from eventstore.storage.interface import Append
    from eventstore.storage.sql.log import Log

_UNPROVEN = "the commit was not confirmed by a standby"


class _Watch(NamedTuple):
    """A commit: the monotonic time at which it is cancelled, and how many had failed before."""

    deadline: float
    heard: int


class Unreplicated(Protocol):
    """A backend that hears of commits which no standby may have."""

    unreplicated_commits: int


class StandbyProof:
    """Proves what was committed, where a failover may take it back; see `parts.CommitProof`."""

    def __init__(self, log: Log, notices: Unreplicated) -> None:
        self._connections = log.connections
        self._backend = log.backend
        self._written = log.written
        self._notices = notices
        self._watched = self._new_watch()  # the last commit
        self._is_unproven = False  # a failover may take back what was committed

    def _new_watch(self) -> _Watch:
        seconds = self._backend.busy_timeout + GRACE_SECONDS
        return _Watch(time.monotonic() + seconds, self._notices.unreplicated_commits)

    def watch(self) -> float:
        """Watch a commit that begins now; return the monotonic time at which to cancel it."""
        self._watched = self._new_watch()
        return self._watched.deadline

    def commit(self, cursor: DBAPICursor, statement: str) -> None:
        """End a transaction; at its deadline the COMMIT is cancelled."""
        with CancelledAt(self._connections.connection(), self.watch()):
            cursor.execute(statement)

    def require(self, requests: Sequence[Append]) -> None:
        """Prove the last commit, if it may have stopped waiting for its standbys.

        Raises:
            OutcomeUnknown: nothing has proven it by the deadline.
        """
        self._is_unproven = self._watched.heard != self._notices.unreplicated_commits
        if self._is_unproven:
            self._prove(self._watched.deadline, ids_of(requests))

    def _prove(self, deadline: float, event_ids: tuple[str, ...]) -> None:
        """Prove all that was committed before, by a monotonic time."""
        connections = self._connections
        try:
            self._is_unproven = not self._is_proven(connections.ready_connection, deadline)
        except connections.driver.Error as error:
            self._written.forget()
            connections.roll_back(lost=True)
            reason = f"{_UNPROVEN} ({self._backend.translate(error)})"
            raise OutcomeUnknown(reason, event_ids) from error
        if self._is_unproven:
            raise self._unproven(event_ids)

    def _is_proven(self, connect: Callable[[], Any], deadline: float) -> bool:
        """Return whether standbys have all that was committed before, by a monotonic time.

        `connect` returns the connection for each try.
        """
        while time.monotonic() < deadline:
            connection, before = connect(), self._notices.unreplicated_commits
            with CancelledAt(connection, deadline):
                connection.execute(f"{self._backend.begin}; {PROOF}; COMMIT", prepare=False)
            if self._notices.unreplicated_commits == before:
                return True
        return False

    def _unproven(self, event_ids: tuple[str, ...] = ()) -> OutcomeUnknown:
        return OutcomeUnknown(f"{self._backend.translate(StorageError(_UNPROVEN))}", event_ids)

    def wait_until_lasting(self, cursor: DBAPICursor) -> None:
        """Prove what was found, on the server that has it, where a failover might take it back.

        Raises:
            OutcomeUnknown: it cannot be proven in time.
        """
        if self._backend.durability != "full":
            return
        connection: Any = cursor.connection
        is_awaited = self._is_unproven or connection.execute(IS_AWAITED).fetchone()[0]
        if is_awaited and not self._is_proven(lambda: connection, self._new_watch().deadline):
            raise self._unproven()
