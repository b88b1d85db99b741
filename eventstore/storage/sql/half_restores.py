"""A database of which only a part was restored: how it is noticed, and mended where that is safe.

1. A storage looks at a lane whole when it first locks it, in the statement that locks: where the
   last event is, and whether the tables beside have rows of the lane. Later it knows.
2. A head behind its events is left by a restore of the data alone, which finds the rows of the
   lanes there already. Nothing is written: the next event would take the place of another.
3. Heads are set to the last events by `accept_loss`, if `verify` finds nothing else. Nothing is
   guessed: what a whole log has at its end, is its head.
4. A lane without its conversations, or without all its events, would begin anew beside the old. One
   without its fingerprints would let a call run again, one without its given ids would store an
   event again. These can be restored only.

A table that lacks some of its rows is for `verify` to find.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from eventstore.errors import StoreCorrupt
from eventstore.storage.chain import LACKS_ITS_ROW, conversation_digest, row_problem
from eventstore.storage.stored_row import StoredRow

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPICursor

    from eventstore.storage.interface import Draft
    from eventstore.storage.sql.check_statements import CheckStatements
    from eventstore.storage.sql.statements import Statements

_SAMPLE = 100
"""How many events of a lane, its first ones, are asked whether a table lacks its rows."""


def behind(lane: int, head: int, last: int) -> StoreCorrupt:
    """Return the error for a lane that has events after its head."""
    return StoreCorrupt(
        f"lane {lane}: its head is at position {head}, and its events go up to {last}: only a part "
        "of the database was restored; nothing was written: restore all of it, or see what "
        "`toolledger verify` finds, then run `toolledger accept-loss`, which sets the heads to the "
        "last events where nothing else is wrong"
    )


def _part(lane: int, what: str) -> StoreCorrupt:
    return StoreCorrupt(
        f"lane {lane}: {what}: only a part of the database was restored; nothing was written: "
        "restore all of it (`toolledger verify` names what is missing)"
    )


class Wholeness:
    """Which lanes were looked at whole."""

    def __init__(self, sql: Statements, checks: Callable[[], CheckStatements]) -> None:
        self._sql = sql
        self._checks = checks
        self.forget()

    def forget(self) -> None:
        """Trust no look at a lane any more."""
        self.proven: set[int] = set()
        self.without_ids: set[int] = set()
        """Those that have no given ids, and whose events were not asked about it."""

    def check(self, cursor: DBAPICursor, lane: int, head: int, found: Sequence[Any]) -> None:
        """Check a lane that is locked, by what its row has beside it; see `whole_columns`.

        Raises:
            StoreCorrupt: it is not whole.
        """
        last, listed, _, marked = found
        if head and not (last and listed and marked):
            # The row was waited for, and is newer than what was read beside it.
            cursor.execute(self._sql.whole(lane))
            _, *found = cursor.fetchall()[0]
            if not found[-1]:
                self._ask_events(cursor, lane)
        self.check_seen(lane, head, found)

    def check_seen(self, lane: int, head: int, found: Sequence[Any]) -> None:
        """Check a lane by what was read after it was locked.

        Raises:
            StoreCorrupt: it is not whole.
        """
        last, listed, given, _ = found
        if last is not None and last > head:
            raise behind(lane, head, last)
        if head and not last:
            raise _part(lane, f"its head is at position {head}, and it has no events")
        if head and not listed:
            raise _part(lane, "none of its conversations is listed")
        if head and not given:
            self.without_ids.add(lane)
        self.proven.add(lane)

    def check_ids(self, cursor: DBAPICursor, lane: int, drafts: Sequence[Draft]) -> None:
        """Check that a lane among those `without_ids` has no event with one, if drafts bring some.

        Raises:
            StoreCorrupt: it has.
        """
        for draft in drafts:
            if draft.id_given:
                self._ask_events(cursor, lane)
                self.without_ids.discard(lane)
                return

    def _ask_events(self, cursor: DBAPICursor, lane: int) -> None:
        """Ask the digests of the first events which rows in other tables they had."""
        checks = self._checks()
        cursor.execute(checks.conversations, (lane, 0, _SAMPLE))
        firsts = {
            key: conversation_digest(bytes(tenant), bytes(name))
            for key, tenant, name, _ in cursor.fetchall()
        }
        cursor.execute(checks.events, (lane, 0, _SAMPLE))
        for row in map(StoredRow._make, cursor.fetchall()):
            problem = row_problem(row, firsts.get(row.conversation))
            if problem is not None and LACKS_ITS_ROW in problem:
                raise _part(lane, f"position {row.position}: {problem}")
