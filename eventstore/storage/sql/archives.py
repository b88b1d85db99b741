"""`SqlArchives`: which conversations of a SQL database rest, and which are archived."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from eventstore.domain.detached import is_detached
from eventstore.storage.interface import Archived, Resting
from eventstore.storage.sql.archiving import found, not_recorded
from eventstore.storage.sql.parts import Parts
from eventstore.storage.sql.reader import LogReader
from eventstore.storage.stored_row import StoredRow

_LIST = (
    "SELECT c.conversation, c.conversation_id, a.version, a.archived_at, a.place "
    "FROM toolledger_conversations c "
    "JOIN toolledger_archives a ON a.lane = c.lane AND a.conversation = c.conversation "
    "WHERE c.lane = ? AND c.tenant = ? AND c.conversation > ? ORDER BY c.conversation LIMIT ?"
)
# The lane is named twice, so that one node of several has all that is read.
_RESTING = (
    "SELECT c.conversation, c.conversation_id, e.version, e.recorded_at, e.tag "
    "FROM toolledger_conversations c "
    "JOIN toolledger_events e ON e.lane = c.lane AND e.conversation = c.conversation "
    "AND e.version = (SELECT MAX(m.version) FROM toolledger_events m "
    "WHERE m.lane = ? AND m.conversation = c.conversation) "
    "LEFT JOIN toolledger_archives a ON a.lane = c.lane AND a.conversation = c.conversation "
    "WHERE c.lane = ? AND c.tenant = ? AND a.version IS NULL AND c.conversation > ? "
    "ORDER BY c.conversation LIMIT ?"
)


class SqlArchives:
    """The archives of one tenant; see `Archives`."""

    def __init__(self, parts: Parts) -> None:
        self._reader = reader = parts.reader
        self._log = reader.log
        self.permissions = partial(parts.permissions, reader)
        self.exclusive = partial(parts.exclusive, reader)
        self._mark = reader.log.sql.mark

    def resting(self) -> Iterator[Resting]:
        """Yield all conversations that are not archived; see `Archives.resting`."""
        for lane in self._log.lanes:
            for rows in self._chunks(_RESTING, lane, lane, self._log.tenant):
                for _, name, version, recorded_at, tag in rows:
                    yield Resting(name, version, recorded_at, tag)

    def rows(self, conversation_id: str) -> Iterator[StoredRow]:
        """Yield the rows of a conversation; see `Archives.rows`."""
        with self._reader.connections.cursor() as cursor:
            key = self._log.keys.find(cursor, conversation_id)
        if key is not None:
            yield from rows_of(self._reader, *key)

    def list(self) -> Iterator[Archived]:
        """Yield the conversations that are archived; see `Archives.list`."""
        for lane in self._log.lanes:
            for rows in self._chunks(_LIST, lane, self._log.tenant):
                for _, *archived in rows:
                    yield Archived(*archived)

    def find(self, conversation_id: str) -> Archived | None:
        """Return where a conversation is archived; see `Archives.find`."""
        with self._reader.connections.cursor() as cursor:
            key = self._log.keys.find(cursor, conversation_id)
            if key is None:
                return None
            there = found(cursor, self._log.sql, key, conversation_id)
            if there is None:
                cursor.execute(self._reader.checks.conversation, (*key, 0, 1))
                first = [StoredRow._make(row).payload for row in cursor.fetchall()]
                payload = first[0] if first else None
                if isinstance(payload, bytes | bytearray) and is_detached(payload):
                    # It may have been archived between the two statements.
                    there = found(cursor, self._log.sql, key, conversation_id)
                    if there is None:
                        raise not_recorded(conversation_id)
            return there

    def _chunks(self, statement: str, *of: object) -> Iterator[Sequence[Any]]:
        return self._reader.chunks(self._mark(statement), *of)


def rows_of(reader: LogReader, lane: int, key: object) -> Iterator[StoredRow]:
    """Yield the rows of a conversation, in the order of their versions."""
    after, most = 0, reader.log.backend.limits.chunk_rows
    while True:
        rows = reader.connections.rows(reader.checks.conversation, lane, key, after, most)
        yield from map(StoredRow._make, rows)
        if len(rows) < most:
            return
        after = rows[-1][2]
