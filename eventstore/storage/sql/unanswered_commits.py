"""A lost COMMIT, when the connection breaks before the server answers.

1. Whether it took place is never guessed.
2. Its lanes are noted. Until the transaction has ended at the server, it holds their counters.
3. Before event ids are looked up, those lanes are locked and released on a new connection; from
   then on the transaction has either taken place or never will. In a cluster whose servers do not
   wait for each other's locks, a change of those lanes is committed instead (`Backend.fence`).
4. The append succeeded if the event at its expected version has the id of its last event, and
   neither a crash nor a failover can take that back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from eventstore.errors import OutcomeUnknown
from eventstore.storage.interface import Append, Appended, AppendOutcome
from eventstore.storage.sql.backend import translated

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPICursor

    from eventstore.storage.sql.log import Log


class UnansweredCommits:
    """The lanes of commits that were not answered, and the look for what became of them.

    `wait_until_lasting` returns when neither a crash nor a failover can take back what its cursor
    has just found.
    """

    def __init__(self, log: Log, wait_until_lasting: Callable[[DBAPICursor], object]) -> None:
        self._connections = log.connections
        self._sql = log.sql
        self._keys = log.keys
        self._seen = log.seen
        self._written = log.written
        self._lock_lane = log.counters.lock
        self._wait_until_lasting = wait_until_lasting
        self.lanes: set[int] = set()
        self.others: list[UnansweredCommits] = []
        """Those of the storages beside this one."""
        log.connections.on_renewal.append(self.lanes.clear)

    def are_stored(self, requests: Iterable[Append], outcomes: Iterable[AppendOutcome]) -> bool:
        """Return whether everything is stored that a transaction was to store."""
        pairs = zip(requests, outcomes, strict=True)
        return all(self._is_stored(r, done) for r, done in pairs if isinstance(done, Appended))

    def _is_stored(self, request: Append, done: Appended) -> bool:
        if self._connections.in_transaction:  # it could not be rolled back
            return False
        if not request.drafts:
            return True
        last = request.drafts[-1].event_id
        try:
            return self.event_id_at(request.conversation_id, done.version) == last
        except OutcomeUnknown:  # it is there, and perhaps not for good
            raise
        except Exception:  # noqa: BLE001 - the server does not answer
            return False

    def known_ids(self, conversation_id: str, event_ids: Sequence[bytes]) -> dict[bytes, int]:
        """Return which event ids are stored already; see `Storage.known_ids`."""
        self.resolve()

        def read() -> dict[bytes, int]:
            known: dict[bytes, int] = {}
            with self._connections.cursor() as cursor:
                key = self._keys.find(cursor, conversation_id)
                for event_id in event_ids if key else ():
                    cursor.execute(self._sql.known, (*(key or ()), bytearray(event_id)))
                    row = cursor.fetchone()
                    if row:
                        known[event_id] = row[0]
                if known:
                    self._wait_until_lasting(cursor)
            return known

        return self._connections.retrying(read)

    def event_id_at(self, conversation_id: str, version: int) -> bytes | None:
        """Return the id of the event at a version; see `Storage.event_id_at`."""
        self.resolve()

        def read() -> bytes | None:
            with self._connections.cursor() as cursor:
                key = self._keys.find(cursor, conversation_id)
                if key is None:
                    return None
                cursor.execute(self._sql.event_id, (*key, version))
                row = cursor.fetchone()
                if row is None:
                    return None
                self._wait_until_lasting(cursor)
                self._seen.check_lasting(cursor, key[0])
                return bytes(row[0])

        return self._connections.retrying(read)

    def resolve(self) -> None:
        """Wait until each COMMIT that was not answered has taken place, or never will."""
        if self.lanes:
            with translated(self._connections.backend), self._connections.lock:
                if self.lanes:
                    self._connections.reconnecting(self._lock_lanes)
        for other in self.others:
            other.resolve()

    def _lock_lanes(self) -> None:
        try:
            with self._connections.transaction() as cursor:
                fence = self._connections.backend.fence
                for lane in sorted(self.lanes):
                    self._lock_lane(cursor, lane)
                    for statement in fence:
                        cursor.execute(statement, (lane,))
                # Without a fence a COMMIT could wait for standbys without end.
                cursor.execute("COMMIT" if fence else "ROLLBACK")
            self.lanes.clear()
        finally:
            self._written.forget()


def ids_of(requests: Iterable[Append]) -> tuple[str, ...]:
    """Return the ids of the events that requests would store, as text."""
    return tuple(draft.event_id.hex() for request in requests for draft in request.drafts)
