"""Reads that give out only what is on disk.

InnoDB shows others a commit before its log is written, unless there is a binary log, which comes
first. A crash of the server would then take back an event that a reader was given, and hand its
position to another. A commit of the reader's own is answered when all that came before it is on
disk: so it looks how far the lanes are, makes a commit that changes nothing, both on one
connection, and then reads no farther than that.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from eventstore.errors import StoreReadOnly
from eventstore.storage.sql import SqlStorage

if TYPE_CHECKING:
    from eventstore.codec import Decoders
    from eventstore.events import Recorded
    from eventstore.storage.server import Server


_INSERT = "INSERT INTO toolledger_store (id, epoch, lanes, created_at) VALUES (%s, '', 0, 0)"
_DELETE = "DELETE FROM toolledger_store WHERE id = %s"


class FlushedStorage(SqlStorage):
    """The events of one tenant; only who may not write is given what a crash could take back."""

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

    def known_ids(self, conversation_id: str, event_ids: Sequence[bytes]) -> dict[bytes, int]:
        """Which event ids are stored already; see `Storage.known_ids`."""
        known = super().known_ids(conversation_id, event_ids)
        if not known:
            return known
        self.heads()
        return super().known_ids(conversation_id, event_ids)

    def heads(self) -> dict[int, int]:
        """The last position of each lane that is on disk."""

        def job(cursor: Any) -> dict[int, int]:
            cursor.execute("SELECT lane, position FROM toolledger_lanes ORDER BY lane")
            heads = dict(cursor.fetchall())
            if not self._are_on_disk(heads):
                self._flush(cursor)
            return heads

        self._flushed = heads = self._read(job)
        return dict(heads)

    def _are_on_disk(self, positions: Mapping[int, int]) -> bool:
        return all(position <= self._on_disk(lane) for lane, position in positions.items())

    def _on_disk(self, lane: int) -> int:
        """What we have appended is, and what others have before it."""
        return max(self._flushed.get(lane, 0), self._heads.get(lane, 0))

    def _flush(self, cursor: Any) -> None:
        row = (-random.randrange(1, 2**31),)  # noqa: S311 - that no two wait for each other
        try:
            cursor.execute(self._database.begin)
            cursor.execute(_INSERT, row)
            cursor.execute(_DELETE, row)
            cursor.execute("COMMIT")
        except self._driver.Error as error:
            if self._database.meaning(error)[0] is not StoreReadOnly:
                raise
            cursor.execute("ROLLBACK")
