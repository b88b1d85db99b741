"""Reads that give out only what is on disk.

InnoDB shows others a commit before its log is written, unless there is a binary log, which comes
first. A crash of the server would then take back an event that a reader was given, and hand its
position to another. A commit of the reader's own is answered when all that came before it is on
disk: so it looks how far the lanes are, makes a commit that changes nothing, both on one
connection, and then reads no farther than that. Where what is read does not say how far it goes,
as versions do not, it is read first, on the same connection.

Who may not write, or finds the disk full, cannot commit: he waits until the server says that its
log is on disk.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from eventstore.errors import StoreBusy, StoreFull, StoreReadOnly
from eventstore.storage.connections import pauses
from eventstore.storage.sql import SqlStorage

if TYPE_CHECKING:
    from eventstore.codec import Decoders
    from eventstore.events import Recorded
    from eventstore.storage.connections import Done
    from eventstore.storage.server import Server


_INSERT = "INSERT INTO toolledger_store (id, epoch, lanes, created_at) VALUES (%s, '', 0, 0)"
_DELETE = "DELETE FROM toolledger_store WHERE id = %s"
_LOG = """\
SHOW GLOBAL STATUS WHERE Variable_name IN (
    'Innodb_lsn_current', 'Innodb_lsn_flushed',
    'Innodb_redo_log_current_lsn', 'Innodb_redo_log_flushed_to_disk_lsn'
)"""
"""How far the log goes, and how far it is on disk: MariaDB's names, and those of MySQL 8.0.30."""


class FlushedStorage(SqlStorage):
    """The events of one tenant, as far as no crash takes them back.

    Only who may not write, to a server that does not say how far its log is on disk, is given
    what is there.
    """

    _database: Server

    def __init__(self, database: Server, tenant: str) -> None:
        self._flushed: Mapping[int, int] = {}  # lane -> a position up to which all is on disk
        super().__init__(database, tenant)

    def conversation(self, conversation_id: str, after: int = 0) -> Iterator[Recorded]:
        """The events of a conversation after a version; see `Storage.conversation`."""
        lane = self.lane_of(conversation_id)
        end = self._on_disk(lane)
        for recorded in super().conversation(conversation_id, after):
            if recorded.position > end:
                break
            yield recorded
            after = recorded.version
        else:
            return
        end = self.heads().get(lane, sys.maxsize)
        for recorded in super().conversation(conversation_id, after):
            if recorded.position > end:
                return
            yield recorded

    def _pages(
        self,
        decoders: Decoders,
        after: Mapping[int, int],
        limit: int | None,
        until: Mapping[int, int] | None,
    ) -> Iterator[Sequence[Recorded]]:
        """The events of the feed, many at a time."""
        if until is not None and self._are_on_disk(until):
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

    def _read_lasting(self, job: Callable[[Any], Done]) -> Done:
        """What a job reads, once all that it may have seen is on disk."""

        def whole(cursor: Any) -> Done:
            done = job(cursor)
            if done:
                self._make_sure(cursor)
            return done

        return self._read(whole)

    def heads(self) -> dict[int, int]:
        """The last position of each lane that is on disk."""
        return self._read(self._make_sure)

    def _make_sure(self, cursor: Any) -> dict[int, int]:
        """Wait until all that others can see by now is on disk; how far the lanes are."""
        cursor.execute("SELECT lane, position FROM toolledger_lanes ORDER BY lane")
        heads = dict(cursor.fetchall())
        if not self._are_on_disk(heads):
            self._flush(cursor)
        self._flushed = heads
        return dict(heads)

    def _are_on_disk(self, positions: Mapping[int, int]) -> bool:
        return all(position <= self._on_disk(lane) for lane, position in positions.items())

    def _on_disk(self, lane: int) -> int:
        """What we have appended is, and what others have before it."""
        return max(self._flushed.get(lane, 0), self._heads.get(lane, 0))

    def _flush(self, cursor: Any) -> None:
        """Wait until all that was committed before is on disk."""
        row = (-random.randrange(1, 2**31),)  # noqa: S311 - that no two wait for each other
        try:
            cursor.execute(self._database.begin)
            cursor.execute(_INSERT, row)
            cursor.execute(_DELETE, row)
            cursor.execute("COMMIT")
        except self._driver.Error as error:
            kind = self._database.meaning(error)[0]
            if kind not in (StoreReadOnly, StoreFull):
                raise
            cursor.execute("ROLLBACK")
            if not self._wait_for_log(cursor) and kind is StoreFull:
                raise

    def _wait_for_log(self, cursor: Any) -> bool:
        """Wait until the server has written its log, as it does every second without being asked.

        False if it does not say.

        Raises:
            StoreBusy: it does not write.
        """
        waits = pauses(time.monotonic() + self._database.busy_timeout)
        end = None
        while True:
            cursor.execute(_LOG)
            places = [int(place) for _, place in cursor.fetchall()]
            if not places:
                return False
            end = end or max(places)
            if min(places) >= end:
                return True
            pause = next(waits, None)
            if pause is None:
                raise StoreBusy("what was appended last is still not on disk: try again")
            time.sleep(pause)
