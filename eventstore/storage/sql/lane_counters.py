"""The lane counter, which gives an event its position.

1. Each lane has one row that holds its last position. A writer locks that row, writes its events
   at the positions after it, and moves the counter, all in one transaction.
2. So commits of one lane come one after the other, and positions have no gaps: a transaction that
   is rolled back leaves the counter where it was.
3. Lanes are locked in the order of their numbers, so that writers never wait in a circle.
4. A counter that stands where this storage's last write left it proves that no other process has
   written since, in the log that this storage knows. An older copy may have grown to that length
   again: so the statement that locks or moves a counter compares the furthest event that was seen
   of the lane, too (see `seen_anchors`).

Why: a store-wide sequence commits out of order, and a store-wide lock makes all writers wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from eventstore.errors import StoreCorrupt
from eventstore.storage.sql.counter_clauses import advance_all, hold
from eventstore.storage.sql.transaction_notes import NOWHERE

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPICursor

    from eventstore.storage.sql.backend import Backend
    from eventstore.storage.sql.seen_anchors import SeenAnchors
    from eventstore.storage.sql.statements import Statements
    from eventstore.storage.sql.transaction_notes import Anchor, TransactionNotes, Written


class LaneCounters:
    """The counters of the lanes, as the transaction under way locks and moves them."""

    def __init__(
        self, backend: Backend, sql: Statements, written: Written, seen: SeenAnchors
    ) -> None:
        self._backend = backend
        self._sql = sql
        self._written = written
        self._seen = seen
        self._whole = seen.whole
        self._blocks: dict[int, int] = {}  # of the rows that were locked; see `counter_clauses`

    def lock(self, cursor: DBAPICursor, lane: int) -> int:
        """Lock a lane, and return its last position, whatever was seen of it."""
        with self._backend.bounded_wait(cursor):
            if self._backend.commits_by_lane:
                cursor.execute(hold(lane))
            cursor.execute(self._sql.head, (lane,))
        row = cursor.fetchone()
        if row is None:
            raise _no_counter(lane)
        return int(row[0])

    def lock_known(self, cursor: DBAPICursor, lane: int) -> int:
        """Lock a lane that has to hold what was seen of it, and return its last position."""
        seen = self._seen.furthest.get(lane, NOWHERE)
        is_proven = lane in self._whole.proven
        statement = self._sql.head_known if is_proven else self._sql.head_whole
        cursor.execute(statement, (lane, seen[0], lane, seen[0], lane))
        row = cursor.fetchone()
        if row is None:
            raise _no_counter(lane)
        return self._checked(cursor, lane, seen, row, is_proven=is_proven)

    def lock_all(self, cursor: DBAPICursor, lanes: Sequence[int]) -> dict[int, int]:
        """Lock lanes, which come in their order, as `lock_known` does.

        Where statements can be sent together, this begins the transaction, too.
        """
        if len(lanes) == 1 and not self._sql.compound:
            return {lanes[0]: self.lock_known(cursor, lanes[0])}
        if len(lanes) > 1 and self._backend.commits_by_lane:
            return self._lock_apart(cursor, lanes)
        return self._lock(cursor, lanes, begins=self._sql.compound)

    def _lock_apart(self, cursor: DBAPICursor, lanes: Sequence[int]) -> dict[int, int]:
        """Lock lanes that live on several nodes, one after the other."""
        heads = self.lock_all(cursor, lanes[:1])
        for lane in lanes[1:]:
            heads |= self._lock(cursor, [lane], begins=False)
        return heads

    def _lock(self, cursor: DBAPICursor, lanes: Sequence[int], *, begins: bool) -> dict[int, int]:
        """Lock lanes by one statement, which may begin the transaction, too."""
        seen = {lane: at for lane in lanes if (at := self._seen.furthest.get(lane))}
        places = {lane: place for lane, (place, *_) in seen.items()}
        is_proven = self._whole.proven.issuperset(lanes)
        heads = self._sql.heads(lanes, places, whole=not is_proven)
        statements = [heads if len(lanes) == 1 else self._backend.together + heads]
        if self._backend.commits_by_lane:
            statements = [*map(hold, lanes), *statements]
        if begins:  # it saves a round trip
            statements = [self._backend.begin, *statements]
        with self._backend.bounded_wait(cursor):
            cursor.execute("; ".join(statements))
        while len(statements) > 1 and cursor.nextset():  # on to the last answer
            pass
        rows = {row[0]: row[1:] for row in cursor.fetchall()}
        if self._backend.lanes_in_blocks:
            self._blocks |= {lane: row[-1] for lane, row in rows.items()}
        for lane in lanes:
            if lane not in rows:
                raise _no_counter(lane)
        return {
            lane: self._checked(
                cursor, lane, seen.get(lane, NOWHERE), rows[lane], is_proven=is_proven
            )
            for lane in lanes
        }

    def _checked(
        self, cursor: DBAPICursor, lane: int, seen: Anchor, row: Sequence[Any], *, is_proven: bool
    ) -> int:
        """Return the last position of a lane that is locked, is whole, and holds what was seen."""
        head = int(row[0])
        if not is_proven:
            self._whole.check(cursor, lane, head, row[3:7])
        self._seen.check_lane(lane, head, seen, row[1], row[2])
        self._written.note_end(lane, head)
        return head

    def claim(self, cursor: DBAPICursor, lane: int, count: int) -> int:
        """Return the position after which `count` events may be written, safe from other writers.

        The counter is moved at once, except where that can go with the COMMIT.
        """
        if self._sql.compound:
            return self.lock_all(cursor, [lane])[lane]
        base = self._written.ends.get(lane)
        # Ours was the last write when the counter stands where that left it.
        if base is not None:
            if self._backend.single_connection:  # nothing puts memory back
                cursor.execute(self._sql.advance, (base + count, lane, base))
            else:
                seen = self._seen.furthest.get(lane, NOWHERE)
                cursor.execute(self._sql.advance_known, (base + count, lane, base, *seen))
            if cursor.rowcount == 1:
                return base
        base = self.lock_known(cursor, lane)
        cursor.execute(self._sql.advance, (base + count, lane, base))
        return base

    def advance(
        self,
        cursor: DBAPICursor,
        claimed: Mapping[int, int],
        ends: dict[int, int],
        notes: TransactionNotes,
    ) -> None:
        """Let locked lanes end with their last events, from where the counters stand.

        Where statements can be sent together, the counters are moved with the COMMIT.
        """
        notes.ends = ends
        if self._sql.compound:
            notes.commit = f"{advance_all(ends, self._blocks)}; COMMIT"
        elif ends != claimed:
            if len(ends) == 1:
                ((lane, end),) = ends.items()
                cursor.execute(self._sql.advance, (end, lane, claimed[lane]))
            else:
                cursor.execute(advance_all(ends, self._blocks))


def _no_counter(lane: int) -> StoreCorrupt:
    return StoreCorrupt(f"lane {lane} has no counter: restore the database from a copy")
