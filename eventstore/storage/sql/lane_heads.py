"""The last positions of all lanes, which every poll asks for, where their rows have blocks.

Every counter is read by one scan of their index, unless the table holds many old versions of its
rows (see `counter_clauses`): then each lane's newest is looked for, which takes somewhat longer,
and not the longer the more there are. The table's size says which it is, and is asked for now and
then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventstore.storage.sql.counter_clauses import EVERY_COUNTER, newest_counters

if TYPE_CHECKING:
    from eventstore.storage.sql.log import Log

FEW_BYTES = 2**16
"""The size of a table of counters up to which all of it is read: eight pages of PostgreSQL."""

FIRST_LOOK, LOOK_EVERY = 8, 512
"""Polls after which the size is asked for."""

LOOK_EVENTS = 1000
"""Events after which the size is asked for at the next poll."""

SIZE = "SELECT pg_relation_size('toolledger_lanes')"


class LaneHeads:
    """Reads the counters of a log."""

    def __init__(self, log: Log) -> None:
        self._rows = log.connections.rows
        self._newest = newest_counters(len(log.lanes))
        self._statement = EVERY_COUNTER
        self._polls_left = FIRST_LOOK
        self._events: int | None = None  # up to which the size is known

    def read(self) -> dict[int, int]:
        """Return the last position of each lane."""
        heads = {lane: at for lane, at in self._rows(self._statement) if at is not None}
        self._look(sum(heads.values()))
        return heads

    def _look(self, events: int) -> None:
        """Choose the statement of the next poll."""
        self._polls_left -= 1
        if self._events is None:
            self._events = events
        if self._polls_left and 0 <= events - self._events < LOOK_EVENTS:
            return
        self._polls_left, self._events = LOOK_EVERY, events
        ((size,),) = self._rows(SIZE)
        self._statement = EVERY_COUNTER if size <= FEW_BYTES else self._newest
