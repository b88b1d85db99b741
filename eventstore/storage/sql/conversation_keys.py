"""Which conversation has which key, as far as it was looked up: the number of its first event.

1. A key never changes, so it is looked up once, and kept for as many conversations as
   `Limits.cached_keys` says.
2. After a loss a key may be another conversation's. So all are forgotten when a connection is
   given up, and when a loss is noticed or accepted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from eventstore.domain.fingerprint import slice_of

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPICursor

    from eventstore.storage.sql.connections import Connections
    from eventstore.storage.sql.statements import Statements

Key = tuple[int, int]
"""The lane of a conversation, and its key there."""


class ConversationKeys:
    """The keys of the conversations of one tenant."""

    def __init__(self, connections: Connections, sql: Statements, tenant: str, lanes: int) -> None:
        self._connections = connections
        self._sql = sql
        self._tenant = tenant
        self._lanes = lanes
        self._limits = connections.backend.limits
        self.forget()

    def forget(self) -> None:
        """Trust nothing that is remembered."""
        # New ones: other threads may be reading the old.
        self.known: dict[str, Key] = {}
        """The keys of conversations of this tenant, by their ids."""
        self.names: dict[Key, str | None] = {}
        """The ids of conversations, by their keys; None for those of other tenants."""

    def remember(self, keys: Mapping[str, Key]) -> None:
        """Keep keys that the database has."""
        if len(self.known) >= self._limits.cached_keys:
            self.known.clear()
        self.known |= keys

    def lane_of(self, conversation_id: str) -> int:
        """Return the lane that a conversation is in."""
        return slice_of(self._tenant, conversation_id) * self._lanes // 1024

    def find(self, cursor: DBAPICursor, conversation_id: str) -> Key | None:
        """Return the key of a conversation, None where it has not begun."""
        return self.known.get(conversation_id) or self.read(cursor, conversation_id)

    def read(self, cursor: DBAPICursor, conversation_id: str) -> Key | None:
        """Return the key that the database has, whatever is remembered."""
        lane = self.lane_of(conversation_id)
        cursor.execute(self._sql.find, (lane, self._tenant, conversation_id))
        row = cursor.fetchone()
        if row is None:
            return None
        key = (lane, row[0])
        self.remember({conversation_id: key})
        return key

    def create(self, cursor: DBAPICursor, conversation_id: str, key: Key) -> None:
        """Begin a conversation; it is not remembered, as its transaction may be rolled back."""
        self._connections.backend.check_names(self._tenant, conversation_id)
        number = slice_of(self._tenant, conversation_id)
        cursor.execute(self._sql.create, (*key, self._tenant, conversation_id, number))

    def names_of(self, lane: int, keys: Iterable[int]) -> dict[int, str | None]:
        """Return the ids of the conversations with these keys, None for those of other tenants."""
        known = self.names
        if len(known) >= self._limits.cached_keys:
            known = self.names = {}  # a new one: other threads may be reading the old
        some = set(keys)
        new = iter([key for key in some if (lane, key) not in known])
        while asked := list(islice(new, self._limits.ids_per_query)):
            ids = dict.fromkeys(asked)
            for key, tenant, name in self._connections.rows(self._sql.names(asked), lane, *asked):
                ids[key] = name if tenant == self._tenant else None
            known.update({(lane, key): name for key, name in ids.items()})
        return {key: known[lane, key] for key in some}
