"""Which conversation has which key, as far as it was looked up: the number of its first event.

1. A key never changes, so it is looked up once, and kept for as many conversations as
   `Limits.cached_keys` says.
2. After a loss a key may be another conversation's. So all are forgotten when a connection is
   given up, and when a loss is noticed or accepted.
3. A loss may go unnoticed. So nothing that is remembered is believed before an event was found in
   its place that is not before the key: by writers and readers of a conversation the furthest event
   that was seen of the lane (see `seen_anchors`), by readers of the feed the last row that they
   read (`named_up_to`). Otherwise a statement names the conversation by its tenant and id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from eventstore.domain.fingerprint import slice_of
from eventstore.storage.sql.transaction_notes import NOWHERE, Anchor

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
        self.forget_names()

    def forget_names(self) -> None:
        """Trust no name that is remembered."""
        self.names: dict[Key, str | None] = {}
        """The ids of conversations, by their keys; None for those of other tenants."""
        self.named_up_to: dict[int, Anchor] = {}
        """An event of each lane before which all conversations lie whose ids are known."""

    def remember(self, keys: Mapping[str, Key]) -> None:
        """Keep keys that the database has."""
        if len(self.known) >= self._limits.cached_keys:
            self.known.clear()
        self.known |= keys

    def lane_of(self, conversation_id: str) -> int:
        """Return the lane that a conversation is in."""
        return slice_of(self._tenant, conversation_id) * self._lanes // 1024

    def known_with(self, seen: Mapping[int, Anchor], conversation_id: str) -> Key | None:
        """Return the key of a conversation, if it holds where its lane has what was `seen`."""
        key = self.known.get(conversation_id)
        if key is None or key[1] > seen.get(key[0], NOWHERE)[0]:
            return None
        return key

    def find(self, cursor: DBAPICursor, conversation_id: str) -> Key | None:
        """Return the key of a conversation in the database; None where it has not begun."""
        lane = self.lane_of(conversation_id)
        cursor.execute(self._sql.find, (lane, self._tenant, conversation_id))
        row = cursor.fetchone()
        if row is None:
            return None
        return (lane, row[0])

    def create(self, cursor: DBAPICursor, conversation_id: str, key: Key) -> None:
        """Begin a conversation; it is not remembered, as its transaction may be rolled back."""
        self._connections.backend.check_names(self._tenant, conversation_id)
        number = slice_of(self._tenant, conversation_id)
        cursor.execute(self._sql.create, (*key, self._tenant, conversation_id, number))

    def names_of(
        self, lane: int, rows: Sequence[Any], seen: Anchor
    ) -> dict[int, str | None] | None:
        """Return the ids of the conversations of a lane's rows, None for those of other tenants.

        The rows were read together with an event that was `seen` before: what was remembered up to
        there holds. Where the lane does not have the last of the rows any more, there is no answer.
        """
        if not rows:
            return {}
        known = self.names
        if len(known) >= self._limits.cached_keys:
            known = self.names = {}  # a new one: other threads may be reading the old
        some = {row[1] for row in rows}
        new = [key for key in some if (lane, key) not in known or key > seen[0]]
        if new or rows[-1][0] > seen[0]:
            last, left = _last(rows), iter(new)
            while asked := list(islice(left, self._limits.ids_per_query)):
                found = self._named(lane, asked, last)
                if found is None:
                    return None
                ids: dict[int, str | None] = dict.fromkeys(asked)
                for key, tenant, name in found:
                    if key is not None:
                        ids[key] = name if tenant == self._tenant else None
                known.update({(lane, key): name for key, name in ids.items()})
            if last[0] > seen[0] and self.names is known:
                self.named_up_to[lane] = last
        return {key: known[lane, key] for key in some}

    def _named(self, lane: int, keys: Sequence[int], last: Anchor) -> Sequence[Any] | None:
        """Return what the database has of some names; None where it has not an event."""
        rows = self._connections.rows
        if last is NOWHERE:  # all rows are damaged
            return rows(self._sql.names(keys), lane, *keys)
        return rows(self._sql.names_beside(keys), lane, *last, lane, *keys) or None


def _last(rows: Sequence[Any]) -> Anchor:
    """Return the last of a lane's rows that can be looked for: others are damaged."""
    for position, _, _, event_id, recorded_at, *_ in reversed(rows):
        if isinstance(event_id, bytes) and isinstance(recorded_at, int):
            return position, bytearray(event_id), recorded_at
    return NOWHERE
