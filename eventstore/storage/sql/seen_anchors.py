"""An older copy of the database: how it is noticed, and what is refused from then on.

1. A counter below a position that was read before means an older copy: nothing is written.
2. An older copy may have grown again: another server may answer on a new connection, and a file
   may be put back under an old one. So the furthest event of each lane that this storage wrote, or
   read for a state, is looked up on a new connection, for writing or reading, and in a lane that
   others have written to. If it is not in its place, nothing is written, as in 1.
3. The storage refuses every later append, too, until `accept_loss`, in any process, has put another
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

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPICursor

    from eventstore.domain.events import Recorded
    from eventstore.storage.sql.connections import Connections
    from eventstore.storage.sql.conversation_keys import ConversationKeys
    from eventstore.storage.sql.statements import Statements
    from eventstore.storage.sql.transaction_notes import Anchor, Written

NOWHERE: Anchor = (0, "", 0)
"""Before the first event of a lane."""


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
        expected = anchor(event_id, recorded_at)
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
        written: Written,
        accepted: frozenset[str],
    ) -> None:
        self._connections = connections
        self._sql = sql
        self._keys = keys
        self._written = written
        self._accepted = accepted
        self.furthest: dict[int, Anchor] = {}
        self.refusal = ""
        """Why nothing is written, until the loss is accepted."""
        self.proven_on = 0
        """The connection for writing, by its number, on which everything was in its place."""

    def note(self, found: Sequence[Recorded]) -> None:
        """Take note of the last event of a conversation: states are made of what was read."""
        if found:
            last = found[-1]
            if last.position > self.furthest.get(last.lane, NOWHERE)[0]:
                self.furthest[last.lane] = last.position, last.event_id, last.recorded_at

    # checking

    def prove(self, cursor: DBAPICursor) -> None:
        """Check all lanes on a new connection for writing.

        Raises:
            StoreCorrupt: another server has taken over, or an older copy.
        """
        self._check(cursor, self.furthest)
        self.proven_on = self._connections.opened

    def check_lanes(self, cursor: DBAPICursor, heads: Mapping[int, int]) -> None:
        """Check the lanes that do not end where this storage left them.

        Raises:
            StoreCorrupt: see `prove`.
        """
        ends = self._written.ends
        changed = [lane for lane, head in heads.items() if head != ends.get(lane)]
        if changed:
            self._check(cursor, changed)

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
            self._refuse(f"lane {lane} ends at position {end}, and was read up to {before} before")

    def recognise(self, cursor: DBAPICursor) -> bool:
        """Return whether a new connection to read with finds what was seen before.

        A loss is noted where another event is in its place: what is read next would hide that. A
        lane that is shorter hides nothing, and may only be behind.
        """
        missing = self._missing(cursor, self.furthest)
        if missing is not None and missing.there is not None:
            self._note_loss(str(missing))
        return missing is None

    def _check(self, cursor: DBAPICursor, lanes: Iterable[int]) -> None:
        missing = self._missing(cursor, lanes)
        if missing is not None:
            self._refuse(str(missing))

    def _missing(self, cursor: DBAPICursor, lanes: Iterable[int]) -> Missing | None:
        seen = {lane: self.furthest[lane] for lane in tuple(lanes) if lane in self.furthest}
        if not seen:
            return None
        places = [number for lane, (at, *_) in seen.items() for number in (lane, at)]
        cursor.execute(self._sql.anchors_at(len(seen)), places)
        return first_missing(seen, anchors_by_lane(cursor.fetchall()))

    # refusing, and accepting

    def _refuse(self, why: str) -> NoReturn:
        self._note_loss(why)
        raise StoreCorrupt(self.refusal)

    def _note_loss(self, why: str) -> None:
        """Refuse every append from now on, until the loss is accepted."""
        self._keys.forget()
        self.refusal = (
            f"{why}: the database was replaced by an older copy; nothing was written, and nothing "
            "will be until the loss is accepted: see what was lost, then run "
            "`toolledger accept-loss`"
        )

    def check_accepted(self) -> None:
        """Refuse to write while the loss that was noticed is not accepted.

        Raises:
            StoreCorrupt: it is not.
        """
        if not self.refusal:
            return
        with self._connections.lock:
            accepted = read_store(self._connections).accepted
            if accepted <= self._accepted:
                raise StoreCorrupt(self.refusal)
            self._written.forget()
            self._keys.forget()
            self.furthest.clear()
            self._accepted, self.refusal = accepted, ""
