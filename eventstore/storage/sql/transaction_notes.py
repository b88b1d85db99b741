"""What one transaction will have done, and what a storage knows of the writes before it.

1. A transaction writes into its `TransactionNotes` what will be true after its COMMIT. Nothing else
   that outlives it is touched meanwhile.
2. When the COMMIT is answered, they become part of what is known. Otherwise they are thrown away,
   and `Written` is forgotten as a whole: the next append reads what is stored.
3. What is known of a lane was true at this storage's last write. Only its counter, locked, proves
   that it still is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from eventstore.storage.interface import Draft

Anchor = tuple[int, bytearray, int]
"""A position, the id of the event there, and the time at which it was recorded.

They are as statements take them: SQLite's driver binds a bytearray faster than bytes.
"""

NOWHERE: Anchor = (0, bytearray(), 0)
"""Before the first event of a lane."""


def anchor_of(position: int, draft: Draft) -> Anchor:
    """Return the anchor of an event that is stored there."""
    return position, bytearray(draft.event_id), draft.recorded_at


class TransactionNotes(msgspec.Struct):
    """What will be true when the COMMIT of a transaction is answered."""

    ends: dict[int, int] = {}
    """The last position of each lane that it writes to; not empty where a COMMIT may be sent."""
    digests: dict[str, tuple[int, bytes]] = {}
    """The last version of each conversation that it writes to, and the digest there."""
    anchors: dict[int, Anchor] = {}
    """The last event that it writes in each lane."""
    keys: dict[str, tuple[int, int]] = {}
    """The lanes and keys of the conversations that it begins, or has found."""
    commit: str = "COMMIT"
    """The statement that ends it."""


class Written:
    """What a storage knows of its own writes: of lanes, and of the conversations in them."""

    def __init__(self, max_conversations: int) -> None:
        self._max_conversations = max_conversations
        self.contested: set[str] = set()
        """Conversations in which others wrote when this storage last did."""
        self.forget()

    def forget(self) -> None:
        """Trust nothing that was known: the next append reads what is stored."""
        self.ends: dict[int, int] = {}
        """The position of each lane after the last own write."""
        self.ours_since: dict[int, int] = {}
        """A position of each lane after which all writes are own ones."""
        self.digests: dict[str, tuple[int, bytes]] = {}
        """The version of each conversation after the last own write, and the digest there."""

    def note_end(self, lane: int, position: int) -> None:
        """Take note of where a lane ends: what others wrote, they wrote before."""
        if position != self.ends.get(lane):
            self.ours_since[lane] = position

    def digest_at(self, conversation_id: str, version: int) -> bytes | None:
        """Return the digest of the event at a version; None where it has to be read."""
        known = self.digests.get(conversation_id)
        if known is not None and known[0] == version:
            return known[1]
        if len(self.digests) >= self._max_conversations:
            self.digests.clear()
        return None

    def note_contested(self, conversation_id: str) -> None:
        """Take note that others write to a conversation, too."""
        if len(self.contested) >= self._max_conversations:
            self.contested.clear()
        self.contested.add(conversation_id)
