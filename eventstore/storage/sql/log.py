"""What the parts of a storage share: its connections, and what is known of its log."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from eventstore.storage.sql.check_statements import CheckStatements
from eventstore.storage.sql.connections import Connections
from eventstore.storage.sql.conversation_keys import ConversationKeys
from eventstore.storage.sql.half_restores import Wholeness
from eventstore.storage.sql.lane_counters import LaneCounters
from eventstore.storage.sql.seen_anchors import SeenAnchors
from eventstore.storage.sql.statements import statements_for
from eventstore.storage.sql.store_row import read_store
from eventstore.storage.sql.transaction_notes import Written

if TYPE_CHECKING:
    from eventstore.storage.sql.backend import Backend
    from eventstore.subjects.vault import Vault


class Log:
    """The log of one tenant in a SQL database, as a storage knows it."""

    def __init__(self, backend: Backend, tenant: str) -> None:
        self.backend = backend
        self.tenant = tenant
        self.connections = connections = Connections(backend)
        self.sql = sql = statements_for(connections.engine.dialect, backend)
        try:
            self.epoch, lanes, accepted = read_store(connections)
        except BaseException:
            connections.close()
            raise
        self.lanes = range(lanes)
        self.vault: Vault | None = None
        """What decrypts, where the store was opened with keys."""
        self.written = Written(backend.limits.cached_keys)
        self.keys = ConversationKeys(connections, sql, tenant, lanes)
        whole = Wholeness(sql, lambda: CheckStatements(connections.engine.dialect, backend))
        self.seen = SeenAnchors(connections, sql, self.keys, accepted, whole)
        self.counters = LaneCounters(backend, sql, self.written, self.seen)
        _listen(self)

    def beside(self) -> Log:
        """Return the same log with another connection for writing, and what is known of its writes.

        What was seen of the log, and the keys in it, are known together.
        """
        other = copy(self)
        other.connections = Connections(self.backend, self.connections)
        other.written = Written(self.backend.limits.cached_keys)
        other.counters = LaneCounters(self.backend, self.sql, other.written, self.seen)
        _listen(other)
        return other


def _listen(log: Log) -> None:
    log.connections.on_renewal.append(log.written.forget)
    log.connections.on_loss.append(log.keys.forget)
