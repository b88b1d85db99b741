"""Reads that return only what is on disk.

1. A reader looks how far the lanes are.
2. On the same connection it makes a commit that changes nothing. The server answers that commit
   when everything committed before it is on disk.
3. It then reads no farther than the positions of step 1.
4. Where what is read does not say how far it goes, as versions do not, it is read before step 1, on
   the same connection.
5. A reader that cannot commit (read-only, or the disk is full) waits until the server says that its
   log is on disk.

Invariant: an event that was returned once keeps its position for ever, whatever crashes.

Why: without a binary log InnoDB shows a commit to others before its log is written. A crash of the
server would take back an event that a reader was given, and give its position to another event.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from eventstore.domain.codec import DECODERS
from eventstore.errors import StoreBusy, StoreFull, StoreReadOnly
from eventstore.storage.sql.backend import translated
from eventstore.storage.sql.connections import backoff_delays
from eventstore.storage.sql.half_restores import behind
from eventstore.storage.sql.reader import LogReader

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPICursor

    from eventstore.domain.codec import Decoders
    from eventstore.domain.events import Recorded
    from eventstore.storage.sql.log import Log
    from eventstore.storage.sql.server import Server
    from eventstore.storage.sql.transaction_notes import Anchor


class DurableReader(LogReader):
    """The events of one tenant, as far as no crash takes them back.

    A read-only user on a server that does not report how far its log is on disk gets reads without
    this guarantee.
    """

    insert_statement: str = (
        "INSERT INTO toolledger_store (id, epoch, lanes, created_at) VALUES (%s, '', 0, 0)"
    )
    delete_statement: str = "DELETE FROM toolledger_store WHERE id = %s"
    log_statement: str = """\
SHOW GLOBAL STATUS WHERE Variable_name IN (
    'Innodb_lsn_current', 'Innodb_lsn_flushed',
    'Innodb_redo_log_current_lsn', 'Innodb_redo_log_flushed_to_disk_lsn'
)"""
    """How far the log goes, and how far it is on disk: MariaDB's names, and those of MySQL 8.0.30.
    """

    def __init__(self, log: Log, backend: Server) -> None:
        super().__init__(log)
        self._backend = backend
        self._durable: Mapping[int, int] = {}  # lane -> a position up to which all is on disk
        self._note_seen = self._note_durable

    def conversation(
        self, conversation_id: str, after: int = 0, decoders: Decoders = DECODERS
    ) -> Iterator[Recorded]:
        """Yield the events of a conversation after a version; see `Storage.conversation`."""
        lane = self._keys.lane_of(conversation_id)
        end = self._durable_position(lane)
        for recorded in super().conversation(conversation_id, after, decoders):
            if recorded.position > end:
                break
            yield recorded
            after = recorded.version
        else:
            return
        beyond, end = recorded, self.heads().get(lane, sys.maxsize)
        if end < beyond.position:  # it moves with the event, unless another server was asked
            self._check_whole(lane)
        for recorded in super().conversation(conversation_id, after, decoders):
            if recorded.position > end:
                return
            yield recorded

    def _check_whole(self, lane: int) -> None:
        """Check that no event of a lane comes after its head, both of one moment.

        Raises:
            StoreCorrupt: one does.
        """
        for head, last, *_ in self.connections.rows(self._sql.whole(lane)):
            if last is not None and last > head:
                with translated(self._backend):
                    raise behind(lane, head, last)

    def _note_durable(self, found: Sequence[Recorded], compared: Anchor) -> None:
        """Note what is on disk: the rest may be taken back, and was not returned."""
        end = self._durable_position(found[-1].lane) if found else 0
        self.log.seen.note([recorded for recorded in found if recorded.position <= end], compared)

    def _pages(
        self,
        decoders: Decoders,
        after: Mapping[int, int],
        limit: int | None,
        until: Mapping[int, int] | None,
    ) -> Iterator[Sequence[Recorded]]:
        """Yield the events of the feed, many at a time."""
        if until is not None and self._are_durable(until):
            yield from super()._pages(decoders, after, limit, until)
            return
        ends = self.heads()
        left = sys.maxsize if limit is None else limit
        for page in super()._pages(decoders, after, None, until):
            end = ends.get(page[0].lane, sys.maxsize)
            kept = [recorded for recorded in page[:left] if recorded.position <= end]
            if kept:
                yield kept
            left -= len(kept)
            if left <= 0:
                return

    def heads(self) -> dict[int, int]:
        """Return the last position of each lane that is on disk."""

        def read() -> dict[int, int]:
            with self.connections.cursor() as cursor:
                return self._durable_heads(cursor)

        return self.connections.retrying(read)

    def wait_until_durable(self, cursor: DBAPICursor) -> None:
        """Wait until no crash of the database can take back what was read."""
        self._durable_heads(cursor)

    def _durable_heads(self, cursor: DBAPICursor) -> dict[int, int]:
        """Wait until all that others can see by now is on disk; return how far the lanes are."""
        cursor.execute("SELECT lane, position FROM toolledger_lanes ORDER BY lane")
        heads = dict(cursor.fetchall())
        if not self._are_durable(heads):
            self.flush(cursor)
        self._durable = heads
        return dict(heads)

    def _are_durable(self, positions: Mapping[int, int]) -> bool:
        return all(position <= self._durable_position(lane) for lane, position in positions.items())

    def _durable_position(self, lane: int) -> int:
        """Return a position up to which all is on disk, as own appends and all before them are."""
        return max(self._durable.get(lane, 0), self.log.written.ends.get(lane, 0))

    def flush(self, cursor: DBAPICursor) -> None:
        """Wait until all that was committed before is on disk."""
        row = (-random.randrange(1, 2**31),)  # noqa: S311 - so that no two wait for each other
        try:
            cursor.execute(self._backend.begin)
            cursor.execute(self.insert_statement, row)
            cursor.execute(self.delete_statement, row)
            cursor.execute("COMMIT")
        except self.connections.driver.Error as error:
            kind = self._backend.error_for(error)[0]
            if kind not in (StoreReadOnly, StoreFull):
                raise
            cursor.execute("ROLLBACK")
            if not self._wait_for_log(cursor) and kind is StoreFull:
                raise

    def _wait_for_log(self, cursor: DBAPICursor) -> bool:
        """Wait until the server has written its log, as it does every second by itself.

        Return False if it does not say.

        Raises:
            StoreBusy: It does not write.
        """
        delays = backoff_delays(time.monotonic() + self._backend.busy_timeout)
        end = None
        while True:
            cursor.execute(self.log_statement)
            places = [int(place) for _, place in cursor.fetchall()]
            if not places:
                return False
            end = end or max(places)
            if min(places) >= end:
                return True
            delay = next(delays, None)
            if delay is None:
                raise StoreBusy("the last appended events are still not on disk: try again")
            time.sleep(delay)
