"""Writing what requests decide, inside a transaction that the storage begins and ends.

1. The lanes of the requests are locked, and must hold what was seen of them. No key of a
   conversation is believed before.
2. Where this storage's last write was the last one of all, nothing is read. Otherwise the
   conversations' new events are read, and `rebase` decides on them.
3. The events are written at the next positions and versions, and the counters are moved.
4. What that comes to is noted; see `eventstore.storage.sql.transaction_notes`.

The digest chain (see `eventstore.storage.chain`) needs the digest of the event before:

1. It is known of the conversations that this storage wrote to last, at the version it wrote.
2. Otherwise it is read in the same transaction, at the version that the append follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from eventstore.storage.chain import chained, conversation_digest, event_digest
from eventstore.storage.interface import Append, Appended, AppendOutcome, Attach, Detach
from eventstore.storage.sql.archiving import move
from eventstore.storage.sql.rows import (
    Batch,
    digest_read,
    event_row,
    event_rows,
    id_row,
    id_rows,
    index_row,
    index_rows,
    tag_rows,
)
from eventstore.storage.sql.statements import Statements
from eventstore.storage.sql.transaction_notes import anchor_of

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPICursor

    from eventstore.domain.events import Recorded
    from eventstore.storage.interface import Draft
    from eventstore.storage.sql.conversation_keys import Key
    from eventstore.storage.sql.log import Log
    from eventstore.storage.sql.reader import LogReader
    from eventstore.storage.sql.transaction_notes import TransactionNotes
    from eventstore.subjects.tags import Tag

Insert: TypeAlias = "Callable[[DBAPICursor, Statements, Sequence[Batch]], None]"
"""Writes the events of batches, and what finds them: by fingerprint, and by given id."""


class RebaseFailed(Exception):
    """The transaction of one request ends, or of joint ones: its `rebase` raised `reason`."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(reason)
        self.reason = reason


class _Group:
    """The conversations and lanes of several requests, as one transaction knows them."""

    def __init__(
        self,
        lanes: dict[str, int],
        keys: dict[str, Key | None],
        versions: dict[str, int],
        ends: dict[int, int],
    ) -> None:
        self.lanes = lanes
        self.keys = keys
        self.versions = versions  # of the conversations, as far as they are decided
        self.ends = ends  # the lanes' last positions, as far as they are decided
        self.digests: dict[str, bytes] = {}  # of the conversations' last events
        self.tails: dict[str, list[Recorded]] = {}  # others' events, until a request gets them
        self.batches: list[Batch] = []


class LogWriter:
    """Writes requests, and notes what its transaction will have done."""

    def __init__(self, log: Log, reader: LogReader, insert: Insert) -> None:
        self._tenant = log.tenant
        self._sql = log.sql
        self._keys = log.keys
        self._seen = log.seen
        self._written = log.written
        self._counters = log.counters
        self._read_tail = reader.tail
        self._insert = insert
        self._erasing = log.backend.erasing
        self._apart = log.backend.commits_by_lane

    def write(
        self, cursor: DBAPICursor, requests: Sequence[Append], notes: TransactionNotes
    ) -> Sequence[AppendOutcome]:
        """Write requests, and return what becomes of them with the COMMIT.

        Raises:
            RebaseFailed: the only request of the transaction raised it.
        """
        if len(requests) == 1 and requests[0].drafts:
            return [self._write_one(cursor, requests[0], notes)]
        return self._write_all(cursor, requests, notes)

    def _write_one(self, cursor: DBAPICursor, request: Append, notes: TransactionNotes) -> Appended:
        name, claimed = request.conversation_id, len(request.drafts)
        key = self._known_key(name)
        lane = key[0] if key else self._keys.lane_of(name)
        base = self._counters.claim(cursor, lane, claimed)
        self._seen.check_end(lane, base, request.as_of)
        key = key or self._read_key(cursor, name, notes)
        version = self._caught_up(cursor, key, request) if key else request.version
        drafts = request.drafts
        end = base + len(drafts)
        if drafts:
            if lane in self._seen.whole.without_ids:
                self._seen.whole.check_ids(cursor, lane, drafts)
            key = key or self._create(cursor, name, (lane, base + 1), notes)
            previous = self._digest_at(cursor, key, name, version)
            if len(drafts) == 1:
                digest = event_digest(previous, version + 1, drafts[0])
                self._insert_one(cursor, key, base + 1, version + 1, drafts[0], digest)
            else:
                digests = chained(previous, version, drafts)
                digest = digests[-1]
                self._insert(cursor, self._sql, [Batch(key, base, version, drafts, digests)])
            if request.rewrites:
                self._rewrite(cursor, key, request)
            if request.tags:
                self._tag(cursor, key, request.tags, version, len(drafts))
            notes.digests = {name: (version + len(drafts), digest)}
            notes.anchors = {lane: anchor_of(end, drafts[-1])}
        self._counters.advance(cursor, {lane: base + claimed}, {lane: end}, notes)
        if version == request.version:  # no other writer came between
            self._written.contested.discard(name)
        return Appended(lane, version + len(drafts), end)

    def _rewrite(self, cursor: DBAPICursor, key: Key, request: Append) -> None:
        """Put markers in the place of payloads, and delete their salts; or move them."""
        if self._erasing is not None:
            cursor.execute(self._erasing)
        if isinstance(request.rewrites, Detach | Attach):
            move(cursor, self._sql, key, request.conversation_id, request.rewrites)
            return
        for each in request.rewrites:
            at = (*key, each.version)
            cursor.execute(self._sql.redact, (each.marker.decode(), *at))
            if cursor.rowcount != 1:
                digest_read(None, request.conversation_id, each.version)  # raises
            if each.fingerprint is not None:
                cursor.execute(self._sql.forget_mark, at)
                mark = bytearray(each.fingerprint)
                cursor.execute(self._sql.unindex, (key[0], mark, key[1], each.version))

    def _tag(
        self, cursor: DBAPICursor, key: Key, tags: Sequence[Tag], after: int, count: int
    ) -> None:
        """Write the tags of the events of an append."""
        rows = list(tag_rows(*key, tags, after, count))
        if rows:
            cursor.executemany(self._sql.tag, rows)

    def _insert_one(
        self,
        cursor: DBAPICursor,
        key: Key,
        position: int,
        version: int,
        draft: Draft,
        digest: bytes,
    ) -> None:
        row = event_row(*key, position, version, draft, digest, self._sql.null)
        cursor.execute(self._sql.insert, row)
        if draft.begins:
            cursor.execute(self._sql.index, index_row(*key, version, draft))
        if draft.id_given:
            cursor.execute(self._sql.insert_id, id_row(*key, version, draft))

    def _known_key(self, name: str) -> Key | None:
        """Return the key of a conversation, if it holds where its lane has what was seen of it."""
        return self._keys.known_with(self._seen.furthest, name)

    def _read_key(self, cursor: DBAPICursor, name: str, notes: TransactionNotes) -> Key | None:
        key = self._keys.find(cursor, name)
        if key is not None:
            notes.keys[name] = key
        return key

    def _create(
        self, cursor: DBAPICursor, conversation_id: str, key: Key, notes: TransactionNotes
    ) -> Key:
        self._keys.create(cursor, conversation_id, key)
        notes.keys[conversation_id] = key
        return key

    def _digest_at(self, cursor: DBAPICursor, key: Key, name: str, version: int) -> bytes:
        """Return the digest that the event after `version` follows."""
        known = self._written.digest_at(name, version)
        if known is not None:
            return known
        if version == 0:
            return conversation_digest(self._tenant.encode(), name.encode())
        cursor.execute(self._sql.digest, (*key, version))
        return digest_read(cursor.fetchone(), name, version)

    def _caught_up(self, cursor: DBAPICursor, key: Key, request: Append) -> int:
        """Return the conversation's version; decide again where others have written."""
        if request.as_of < self._written.ours_since[key[0]]:
            tail = self._read_tail(cursor, key, request.conversation_id, request.version)
            if tail:
                try:
                    request.drafts = request.rebase(tail)
                except Exception as error:
                    raise RebaseFailed(error) from error
                return tail[-1].version
        return request.version

    # several requests

    def _write_all(
        self, cursor: DBAPICursor, requests: Sequence[Append], notes: TransactionNotes
    ) -> list[AppendOutcome]:
        firsts: dict[str, Append] = {}
        for request in requests:
            firsts.setdefault(request.conversation_id, request)
        known = {name: self._known_key(name) for name in firsts}
        lanes = {name: key[0] if key else self._keys.lane_of(name) for name, key in known.items()}
        heads = self._counters.lock_all(cursor, sorted(set(lanes.values())))
        for name, first in firsts.items():
            self._seen.check_end(lanes[name], heads[lanes[name]], first.as_of)
        keys = {name: known[name] or self._read_key(cursor, name, notes) for name in firsts}
        group = _Group(lanes, keys, {n: first.version for n, first in firsts.items()}, dict(heads))
        group.tails = self._tails(cursor, firsts, keys)
        outcomes = [self._decide(cursor, request, group, notes) for request in requests]
        self._insert(cursor, self._sql, group.batches)
        notes.digests = {n: (group.versions[n], digest) for n, digest in group.digests.items()}
        for (lane, _), _, _, drafts, _ in group.batches:
            notes.anchors[lane] = anchor_of(group.ends[lane], drafts[-1])
        self._counters.advance(cursor, heads, group.ends, notes)
        return outcomes

    def _decide(
        self, cursor: DBAPICursor, request: Append, group: _Group, notes: TransactionNotes
    ) -> AppendOutcome:
        """Ask one request of a group for its drafts, and give them their places."""
        name = request.conversation_id
        lane = group.lanes[name]
        tail = group.tails.pop(name, ())
        if tail:
            group.versions[name] = tail[-1].version
        try:
            drafts = request.drafts = request.rebase(tail)
        except Exception as error:
            if request.joint:
                raise RebaseFailed(error) from error
            return error  # the outcome of this request alone
        if drafts:
            if lane in self._seen.whole.without_ids:
                self._seen.whole.check_ids(cursor, lane, drafts)
            end = group.ends[lane]
            key = group.keys[name] or self._create(cursor, name, (lane, end + 1), notes)
            group.keys[name] = key
            version = group.versions[name]
            previous = group.digests.get(name) or self._digest_at(cursor, key, name, version)
            digests = chained(previous, version, drafts)
            group.digests[name] = digests[-1]
            if request.rewrites:
                self._rewrite(cursor, key, request)
            if request.tags:
                self._tag(cursor, key, request.tags, version, len(drafts))
            group.batches.append(Batch(key, end, version, drafts, digests))
        group.versions[name] += len(drafts)
        group.ends[lane] += len(drafts)
        return Appended(lane, group.versions[name], group.ends[lane])

    def _tails(
        self, cursor: DBAPICursor, firsts: Mapping[str, Append], keys: Mapping[str, Key | None]
    ) -> dict[str, list[Recorded]]:
        """Return the events that others have written since the requests were decided."""
        ours_since = self._written.ours_since
        doubtful = {
            key: (name, first.version)
            for name, first in firsts.items()
            if (key := keys[name]) and first.as_of < ours_since[key[0]]
        }
        if not doubtful:
            return {}
        cursor.execute(self._sql.versions(doubtful, apart=self._apart))
        tails: dict[str, list[Recorded]] = {}
        for lane, key, now in cursor.fetchall():
            name, version = doubtful[lane, key]
            if now > version:
                tails[name] = self._read_tail(cursor, (lane, key), name, version)
        return tails


def rows_by_statement(
    sql: Statements, batches: Sequence[Batch]
) -> Iterator[tuple[str, Iterable[Sequence[Any]]]]:
    """Yield the statements that insert a row for batches, with their rows."""
    yield sql.insert, event_rows(batches, sql.null)
    yield sql.index, index_rows(batches)
    yield sql.insert_id, id_rows(batches)


def insert_rows(cursor: DBAPICursor, sql: Statements, batches: Sequence[Batch]) -> None:
    """Insert row by row, as every driver can; see `Insert`."""
    for statement, rows in rows_by_statement(sql, batches):
        given = list(rows)
        if given:
            cursor.executemany(statement, given)
