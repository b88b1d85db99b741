"""An older copy of the database: how it is noticed, and what is refused from then on.

1. A counter below a position that was read before means an older copy: nothing is written.
2. An older copy may have grown again, to any length: behind a pooler another server may answer on
   the same connection, and a file may be put back under it. So every transaction that writes to a
   lane, and every read of a conversation in it, looks for the furthest event of the lane that this
   storage wrote or read, in a statement that it runs anyway; on a new connection for writing, those
   of all lanes are looked for. Only then a later one replaces it. Memory cannot be put back.
3. Where it is not in its place, a transaction writes nothing, as in 1. A read shows what is there
   now, and `timeline` says that what was remembered does not hold.
4. The storage refuses every later append, too, until `accept_loss`, in any process, has put another
   mark into the store than those that were there when the storage was opened. It then trusts
   nothing that it knew.

Nothing here writes, or knows of a transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from eventstore.domain.anchors import anchor, event_id_of
from eventstore.errors import StoreCorrupt
from eventstore.storage.sql.rows import anchors_by_lane
from eventstore.storage.sql.store_row import read_store
from eventstore.storage.sql.transaction_notes import NOWHERE

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPICursor

    from eventstore.domain.events import Recorded
    from eventstore.storage.sql.connections import Connections
    from eventstore.storage.sql.conversation_keys import ConversationKeys
    from eventstore.storage.sql.half_restores import Wholeness
    from eventstore.storage.sql.statements import Statements
    from eventstore.storage.sql.transaction_notes import Anchor


class Missing(NamedTuple):
    """The anchor of an event that was seen at a position of a lane, and of the one there now."""

    lane: int
    position: int
    anchor: str
    there: str | None

    def __str__(self) -> str:
        seen, there = event_id_of(self.anchor), event_id_of(self.there)
        if seen == there:
            there = "the same, recorded at another time"
        place = f"position {self.position} of lane {self.lane}"
        return f"{place} had event {seen}, and has {there or 'none'}"


def first_missing(seen: Mapping[int, Anchor], found: Mapping[int, str]) -> Missing | None:
    """Return the first event that is not where it was seen; None where all of them are.

    `found` are the anchors that the lanes have at the positions of those that were seen.
    """
    for lane, (position, event_id, recorded_at) in seen.items():
        expected = anchor(event_id.hex(), recorded_at)
        if found.get(lane) != expected:
            return Missing(lane, position, expected, found.get(lane))
    return None


class SeenAnchors:
    """The furthest event of each lane that was seen, and the refusal when one of them is lost."""

    def __init__(
        self,
        connections: Connections,
        sql: Statements,
        keys: ConversationKeys,
        accepted: frozenset[str],
        whole: Wholeness,
    ) -> None:
        self._connections = connections
        self._sql = sql
        self._keys = keys
        self._accepted = accepted
        self.whole = whole
        self.furthest: dict[int, Anchor] = {}
        self.refusal = ""
        """Why nothing is written, until the loss is accepted."""
        self.losses = 0
        """How many were noticed: after each, nothing holds that is known of own writes."""
        self.timeline = 0
        """See `Storage.timeline`."""

    def note(self, found: Sequence[Recorded], compared: Anchor) -> None:
        """Take note of the last event of a conversation: states are made of what was read.

        It was read together with an anchor, which is replaced if it is still the furthest.
        """
        if found:
            lane, position = found[-1].lane, found[-1].position
            if position > compared[0] and self.furthest.get(lane, NOWHERE) is compared:
                last = found[-1]
                self.furthest[lane] = position, bytearray.fromhex(last.event_id), last.recorded_at

    # checking

    def prove(self, cursor: DBAPICursor) -> None:
        """Check all lanes on a new connection for writing.

        Raises:
            StoreCorrupt: another server has taken over, or an older copy.
        """
        missing = self._missing(cursor, self.furthest)
        if missing is not None:
            self._refuse(missing.lane, str(missing))

    def check_lane(
        self, lane: int, end: int, seen: Anchor, event_id: object, recorded_at: object
    ) -> None:
        """Check a lane that ends there, with what it has at the position of what was `seen`.

        Raises:
            StoreCorrupt: see `prove`; or a read has noticed a loss meanwhile.
        """
        if self.refusal:  # then nothing may be known of the lane any more
            raise StoreCorrupt(self.refusal)
        self.check_end(lane, end, seen[0])
        if seen is NOWHERE or (recorded_at == seen[2] and event_id == seen[1]):
            return
        there = () if recorded_at is None else ((lane, event_id, recorded_at),)
        missing = first_missing({lane: seen}, anchors_by_lane(there))
        if missing is not None:
            self._refuse(lane, str(missing))

    def known_end(self, lane: int, as_of: int) -> int:
        """Return a position that a lane has: it was seen, or a state read up to `as_of`."""
        return max(as_of, self.furthest.get(lane, NOWHERE)[0])

    def check_end(self, lane: int, end: int, as_of: int) -> None:
        """Check that a lane does not end before what was seen of it, or read up to `as_of`.

        Raises:
            StoreCorrupt: it does.
        """
        if end < as_of or end < self.furthest.get(lane, NOWHERE)[0]:
            before = self.known_end(lane, as_of)
            why = f"lane {lane} ends at position {end}, and was read up to {before} before"
            self._refuse(lane, why)

    def check_lasting(self, cursor: DBAPICursor, lane: int) -> None:
        """Check that what was seen of a lane is there where something of it was found.

        Raises:
            StoreCorrupt: it is not.
        """
        missing = self._missing(cursor, [lane])
        if missing is None:
            return
        if missing.there is not None:
            self._refuse(lane, str(missing))
        raise StoreCorrupt(
            f"{missing}: the database was replaced by an older copy, or it is behind; nothing was "
            "written: try again, and if it stays so, see that the right server answers"
        )

    def notice(self, cursor: DBAPICursor, lane: int) -> bool:
        """Take note that a read has not found what was seen of a lane; return whether it is lost.

        It is where another event is in its place. A lane that is shorter may only be behind, as
        that of a standby is, and so nothing is refused for it.
        """
        self.timeline += 1
        missing = self._missing(cursor, [lane])
        if missing is None or missing.there is None:
            return False
        self._note_loss(lane, str(missing))
        return True

    def _missing(self, cursor: DBAPICursor, lanes: Iterable[int]) -> Missing | None:
        seen = {lane: self.furthest[lane] for lane in tuple(lanes) if lane in self.furthest}
        if not seen:
            return None
        places = [number for lane, (at, *_) in seen.items() for number in (lane, at)]
        cursor.execute(self._sql.anchors_at(len(seen)), places)
        return first_missing(seen, anchors_by_lane(cursor.fetchall()))

    # refusing, and accepting

    def _refuse(self, lane: int, why: str) -> NoReturn:
        self._note_loss(lane, why)
        raise StoreCorrupt(self.refusal)

    def _note_loss(self, lane: int, why: str) -> None:
        """Refuse every append from now on, until the loss is accepted."""
        self.refusal = (
            f"{why}: the database was replaced by an older copy; nothing was written, and nothing "
            "will be until the loss is accepted: see what was lost, then run "
            "`toolledger accept-loss`"
        )
        self.losses += 1
        # Only now: an append under way looks at the refusal after it looked at what was seen.
        self.furthest.pop(lane, None)
        self.forget()

    def forget(self) -> None:
        """Trust nothing that is remembered of the log: it was put back to an older state."""
        self._keys.forget()
        self.whole.forget()
        self.timeline += 1

    def check_accepted(self) -> None:
        """Refuse to write while the loss that was noticed is not accepted.

        Raises:
            StoreCorrupt: it is not.
        """
        refusal = self.refusal
        if not refusal:
            return
        accepted = read_store(self._connections).accepted
        if accepted <= self._accepted:
            raise StoreCorrupt(refusal)
        self._keys.forget()
        self.whole.forget()
        self.furthest.clear()
        self._accepted = accepted
        if self.refusal is refusal:  # no other loss was noticed meanwhile
            self.refusal = ""
