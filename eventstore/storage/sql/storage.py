"""A storage over any SQL database that SQLAlchemy knows.

Statements are built with SQLAlchemy Core and compiled once; the text then goes straight to the
driver on a connection held from SQLAlchemy's pool, which keeps the driver's own speed.

The lane counter:

1. Each lane has one row that holds its last position. A writer locks that row, writes its events
   at the positions after it, and moves the counter, all in one transaction.
2. So commits of one lane come one after the other, and positions have no gaps: a transaction that
   is rolled back leaves the counter where it was.
3. Lanes are locked in the order of their numbers, so that writers never wait in a circle.
4. A counter that stands where this storage's last write left it proves that no other process has
   written since: nothing is read again. Otherwise the conversations' new events are read, and
   `rebase` decides on them.
5. A counter below a position that was read before means an older copy of the database: nothing is
   written. The storage refuses every later append, too, until `accept_loss`, in any process, has
   put another mark into the store than those that were there when the storage was opened. It then
   trusts nothing that it knew.
6. An older copy may have grown again: another server may answer on a new connection, and a file
   may be put back under an old one. So the furthest event of each lane that this storage wrote, or
   read for a state, is looked up on a new connection, for writing or reading, and in a lane that
   others have written to. If it is not in its place, nothing is written, as in 5.

Why: a store-wide sequence commits out of order, and a store-wide lock makes all writers wait.

A lost COMMIT, when the connection breaks before the server answers:

1. Whether it took place is never guessed.
2. Its lanes are noted. Until the transaction has ended at the server, it holds their counters.
3. Before event ids are looked up, those lanes are locked and released on a new connection; from
   then on the transaction has either taken place or never will.
4. The append succeeded if the event at its expected version has the id of its last event.

The digest chain (see `eventstore.storage.chain`) needs the digest of the event before:

1. It is known of the conversations that this storage wrote to last, at the version it wrote.
2. Otherwise it is read in the same transaction, at the version that the append follows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import getpid
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

from eventstore.domain.anchors import event_id_of
from eventstore.domain.fingerprint import slice_of
from eventstore.errors import OutcomeUnknown, StoreCorrupt
from eventstore.storage.chain import chained, conversation_digest, event_digest, store_digest
from eventstore.storage.interface import Append, Appended, AppendOutcome, Damage
from eventstore.storage.sql.backend import translated
from eventstore.storage.sql.connections import backoff_delays
from eventstore.storage.sql.integrity import verify
from eventstore.storage.sql.reader import Reader
from eventstore.storage.sql.rows import (
    Batch,
    anchor_of_draft,
    anchors_by_lane,
    digest_read,
    event_row,
    event_rows,
    id_row,
    id_rows,
    index_row,
    index_rows,
)

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPICursor
    from sqlalchemy.pool import PoolProxiedConnection

    from eventstore.domain.events import Recorded

Requests = TypeVar("Requests")
Result = TypeVar("Result")


class _RebaseFailed(Exception):
    """The transaction of one request ends, because its `rebase` raised `reason`."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(reason)
        self.reason = reason


class _Missing(NamedTuple):
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


class _Group:
    """The conversations and lanes of several requests, as one transaction knows them."""

    def __init__(
        self,
        lanes: dict[str, int],
        keys: dict[str, tuple[int, int] | None],
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


class SqlStorage(Reader):
    """The events of one tenant in a SQL database; safe to share between threads and over a fork."""

    _refusal = ""  # why nothing is written, until the loss is accepted
    _is_doubted = False  # the writer's connection is new: what was seen may have been taken back

    def _connect(self) -> None:
        super()._connect()
        self._unresolved_lanes: set[int] = set()  # lanes of a COMMIT that was not answered
        self._is_unanswered = False  # the append under way may be stored, and cannot be looked up
        self._forget_positions()

    def _forget_positions(self) -> None:
        """Trust nothing that was known: the next append reads what is stored."""
        self._ours_since: dict[int, int] = {}  # lane -> all writes after it are ours
        self._last_written: dict[int, int] = {}  # lane -> position after our last write
        self._written_now: dict[int, int] = {}  # the same, after the transaction under way
        self._keys_now: dict[str, tuple[int, int]] = {}  # of conversations it begins
        self._digests: dict[str, tuple[int, bytes]] = {}  # conversation id -> version, digest there
        self._digests_now: dict[str, tuple[int, bytes]] = {}  # the same, after the transaction
        self._seen_now: dict[int, tuple[int, str]] = {}  # what it wrote last in each lane

    def append(self, requests: Sequence[Append]) -> list[AppendOutcome]:
        """Store the drafts of the requests; see `Storage.append`."""
        if self._pid != getpid():
            self._check()
        with self._lock:
            self._is_unanswered = False
            try:
                if self._closed:
                    self._check()
                self._backend.check_in_place()
                self.check_accepted()
                if len(requests) == 1 and requests[0].drafts:
                    return [self._append_one(requests[0])]
                return self._in_one_transaction(self._write_all, requests, self._are_stored)
            except _RebaseFailed as failed:
                return [failed.reason]
            except Exception as error:
                if self._is_unanswered and not isinstance(error, OutcomeUnknown):
                    reason = str(self._backend.translate(error))
                    raise OutcomeUnknown(reason, ids_of(requests)) from error
                self._raise(error)

    def _append_one(self, request: Append) -> Appended:
        """Store one request that has drafts: the shortcut that most appends take."""
        began = time.monotonic()
        try:
            return self._append_single_statement(request) or self._in_one_transaction(
                self._write, request, self._is_stored
            )
        except Exception as error:  # noqa: BLE001 - judged there
            return self._retry(request, error, began + self._backend.busy_timeout)

    def _retry(self, request: Append, error: Exception, until: float) -> Appended:
        """Try again where an append failed through no fault of its own."""
        contradicted = False
        delays = backoff_delays(until)
        while True:
            if isinstance(error, self._driver.IntegrityError) and not contradicted:
                # The state was older than `as_of` said: decide on what stands there.
                contradicted = True
            elif self._unresolved_lanes or not (
                self._backend.is_transient(error) or self._backend.is_connection_lost(error)
            ):
                raise error
            else:
                self._backend.check_sizes(request.drafts)
                delay = next(delays, None)
                if delay is None:
                    raise error
                time.sleep(delay)
            try:
                return self._in_one_transaction(self._write, request, self._is_stored)
            except Exception as failed:  # noqa: BLE001
                error = failed

    def _in_one_transaction(
        self,
        write: Callable[[DBAPICursor, Requests], Result],
        requests: Requests,
        stored: Callable[[Requests, Result], bool],
    ) -> Result:
        cursor = self._writer()
        done: Result | None = None
        self._in_transaction = True
        try:
            self._commit_statement = "COMMIT"
            if self._is_doubted:
                self._check_seen(cursor, self._seen)
                self._is_doubted = False
            if not self._sql.compound:
                cursor.execute(self._backend.begin)
            done = write(cursor, requests)
            self._commit(cursor)
        except BaseException as error:
            if self._clean_up(error, requests, done, stored):
                return done  # type: ignore[return-value]
            raise
        self._in_transaction = False
        self._last_written |= self._written_now
        self._seen |= self._seen_now
        self._digests |= self._digests_now
        if self._keys_now:
            self._remember(self._keys_now)
            self._keys_now = {}
        return done

    def _commit(self, cursor: DBAPICursor) -> None:
        """End the transaction under way."""
        cursor.execute(self._commit_statement)

    def _clean_up(
        self,
        error: BaseException,
        requests: Requests,
        done: Result | None,
        stored: Callable[[Requests, Result], bool],
    ) -> bool:
        """Clean up after a transaction; return whether only the answer to its COMMIT was lost."""
        # Whatever happened (a refusal, a full disk, Ctrl-C): trust nothing known before.
        lost = self._backend.is_connection_lost(error)
        if lost and done:
            self._unresolved_lanes.update(self._written_now)
        self._forget_positions()
        self._roll_back(lost=lost)
        if done and isinstance(error, self._driver.Error) and stored(requests, done):
            return True
        unresolved = bool(self._unresolved_lanes) and lost
        self._is_unanswered = bool(done) and (unresolved or self._backend.is_commit_in_doubt(error))
        return False

    def _append_single_statement(self, request: Append) -> Appended | None:
        """Store one event in one statement; return None where the general path must do it."""

    def _is_stored(self, request: Append, done: Appended) -> bool:
        if self._in_transaction:
            return False
        if not request.drafts:
            return True
        last = request.drafts[-1].event_id
        try:
            return self.event_id_at(request.conversation_id, done.version) == last
        except OutcomeUnknown:  # it is there, and perhaps not for good
            raise
        except Exception:  # noqa: BLE001 - the server does not answer
            return False

    def known_ids(self, conversation_id: str, event_ids: Sequence[bytes]) -> dict[bytes, int]:
        """Return which event ids are stored already; see `Storage.known_ids`."""
        self._resolve_if_unknown()
        return super().known_ids(conversation_id, event_ids)

    def event_id_at(self, conversation_id: str, version: int) -> bytes | None:
        """Return the id of the event at a version; see `Storage.event_id_at`."""
        self._resolve_if_unknown()
        return super().event_id_at(conversation_id, version)

    def _resolve_if_unknown(self) -> None:
        if self._unresolved_lanes:
            with translated(self._backend):
                self._resolve_unknown_commit()

    def _resolve_unknown_commit(self) -> None:
        """Wait until a COMMIT that was not answered has taken place, or never will."""
        with self._lock:
            if self._unresolved_lanes:
                self._reconnecting(self._lock_unresolved)

    def _lock_unresolved(self) -> None:
        try:
            self._check()
            cursor = self._writer()
            self._in_transaction = True
            cursor.execute(self._backend.begin)
            for lane in sorted(self._unresolved_lanes):
                self._lock_lane(cursor, lane)
            cursor.execute("ROLLBACK")  # a COMMIT could wait for standbys without end
            self._in_transaction = False
            self._unresolved_lanes.clear()
        except BaseException as error:
            self._roll_back(lost=self._backend.is_connection_lost(error))
            raise
        finally:
            self._forget_positions()

    def _are_stored(self, requests: Sequence[Append], done: Sequence[AppendOutcome]) -> bool:
        pairs = zip(requests, done, strict=True)
        return all(self._is_stored(r, d) for r, d in pairs if isinstance(d, Appended))

    def _write(self, cursor: DBAPICursor, request: Append) -> Appended:
        claimed = len(request.drafts)
        key = self._keys.get(request.conversation_id)
        lane = key[0] if key else self.lane_of(request.conversation_id)
        base = self._claim_positions(cursor, lane, claimed)
        if base < self.known_end(lane, request):
            self.refuse_older(lane, base, request)
        self._check_changed(cursor, {lane: base})
        if key is None:
            key = self._find(cursor, request.conversation_id, lane)
        version = self._caught_up(cursor, key, request) if key else request.version
        drafts, name = request.drafts, request.conversation_id
        self._digests_now, self._seen_now = {}, {}
        if drafts:
            if key is None:
                key = self._create(cursor, name, lane, base + 1)
            previous = self._digest_at(cursor, key, name, version)
            if len(drafts) == 1:
                draft = drafts[0]
                digest = event_digest(previous, version + 1, draft)
                row = event_row(*key, base + 1, version + 1, draft, digest, self._backend.null)
                cursor.execute(self._sql.insert, row)
                if draft.begins:
                    cursor.execute(self._sql.index, index_row(*key, version + 1, draft))
                if draft.id_given:
                    cursor.execute(self._sql.insert_id, id_row(*key, version + 1, draft))
            else:
                digests = chained(previous, version, drafts)
                digest = digests[-1]
                self._insert(cursor, [Batch(key, base, version, drafts, digests)])
            self._digests_now[name] = version + len(drafts), digest
            self._seen_now = {lane: (base + len(drafts), anchor_of_draft(drafts[-1]))}
        end = base + len(drafts)
        if self._sql.compound:
            self._advance_all(cursor, {lane: base}, {lane: end})
        elif len(drafts) != claimed:
            cursor.execute(self._sql.advance, (end, lane, base + claimed))
        self._written_now = {lane: end}
        return Appended(lane, version + len(drafts), end)

    def _digest_at(
        self, cursor: DBAPICursor, key: tuple[int, int], conversation_id: str, version: int
    ) -> bytes:
        """Return the digest that the event after `version` follows."""
        known = self._digests.get(conversation_id)
        if known is not None and known[0] == version:
            return known[1]
        if len(self._digests) >= self._limits.cached_keys:
            self._digests.clear()
        if version == 0:
            return conversation_digest(self._tenant.encode(), conversation_id.encode())
        cursor.execute(self._sql.digest, (*key, version))
        return digest_read(cursor.fetchone(), conversation_id, version)

    def _caught_up(self, cursor: DBAPICursor, key: tuple[int, int], request: Append) -> int:
        """Return the conversation's version; decide again where others have written."""
        if request.as_of < self._ours_since[key[0]]:
            tail = self._tail(cursor, key, request.conversation_id, request.version)
            if tail:
                try:
                    request.drafts = request.rebase(tail)
                except Exception as error:
                    raise _RebaseFailed(error) from error
                return tail[-1].version
        return request.version

    def _write_all(self, cursor: DBAPICursor, requests: Sequence[Append]) -> list[AppendOutcome]:
        firsts: dict[str, Append] = {}
        for request in requests:
            firsts.setdefault(request.conversation_id, request)
        lanes = {
            name: known[0] if (known := self._keys.get(name)) else self.lane_of(name)
            for name in firsts
        }
        heads = self._lock_lanes(cursor, sorted(set(lanes.values())))
        for name, first in firsts.items():
            lane = lanes[name]
            if heads[lane] < self.known_end(lane, first):
                self.refuse_older(lane, heads[lane], first)
        self._check_changed(cursor, heads)
        keys = {
            name: self._keys.get(name) or self._find(cursor, name, lane)
            for name, lane in lanes.items()
        }
        group = _Group(lanes, keys, {n: first.version for n, first in firsts.items()}, dict(heads))
        group.tails = self._tails(cursor, firsts, keys)
        outcomes = [self._decide(cursor, request, group) for request in requests]
        self._insert(cursor, group.batches)
        self._digests_now = {n: (group.versions[n], digest) for n, digest in group.digests.items()}
        self._seen_now = {
            batch.key[0]: (group.ends[batch.key[0]], anchor_of_draft(batch.drafts[-1]))
            for batch in group.batches
        }
        self._advance_all(cursor, heads, group.ends)
        self._written_now = group.ends
        return outcomes

    def _decide(self, cursor: DBAPICursor, request: Append, group: _Group) -> AppendOutcome:
        """Ask one request of a group for its drafts, and give them their places."""
        name = request.conversation_id
        lane = group.lanes[name]
        tail = group.tails.pop(name, ())
        if tail:
            group.versions[name] = tail[-1].version
        try:
            drafts = request.drafts = request.rebase(tail)
        except Exception as error:  # noqa: BLE001 - the outcome of this request alone
            return error
        if drafts:
            end = group.ends[lane]
            key = group.keys[name] = group.keys[name] or self._create(cursor, name, lane, end + 1)
            version = group.versions[name]
            previous = group.digests.get(name) or self._digest_at(cursor, key, name, version)
            digests = chained(previous, version, drafts)
            group.digests[name] = digests[-1]
            group.batches.append(Batch(key, end, version, drafts, digests))
        group.versions[name] += len(drafts)
        group.ends[lane] += len(drafts)
        return Appended(lane, group.versions[name], group.ends[lane])

    def _lock_lanes(self, cursor: DBAPICursor, lanes: Sequence[int]) -> dict[int, int]:
        """Lock the lanes in their order, and return their last positions."""
        if len(lanes) == 1 and not self._sql.compound:
            return {lanes[0]: self._lock_lane(cursor, lanes[0])}
        statement = self._sql.heads(lanes)
        if self._sql.compound:  # saves a round trip
            cursor.execute(f"{self._backend.begin}; {statement}")
            while cursor.nextset():  # on to the last answer
                pass
        else:
            cursor.execute(statement)
        heads = {lane: int(position) for lane, position in cursor.fetchall()}
        for lane in lanes:
            if lane not in heads:
                raise StoreCorrupt(f"lane {lane} has no counter: restore the database from a copy")
            if heads[lane] != self._last_written.get(lane):
                self._ours_since[lane] = heads[lane]
        return heads

    def _tails(
        self,
        cursor: DBAPICursor,
        firsts: Mapping[str, Append],
        keys: Mapping[str, tuple[int, int] | None],
    ) -> dict[str, list[Recorded]]:
        """Return the events that others have written since the requests were decided."""
        doubtful = {
            key: (name, first.version)
            for name, first in firsts.items()
            if (key := keys[name]) and first.as_of < self._ours_since[key[0]]
        }
        if not doubtful:
            return {}
        cursor.execute(self._sql.versions(doubtful))
        tails: dict[str, list[Recorded]] = {}
        for lane, key, now in cursor.fetchall():
            name, version = doubtful[lane, key]
            if now > version:
                tails[name] = self._tail(cursor, (lane, key), name, version)
        return tails

    def _advance_all(
        self, cursor: DBAPICursor, heads: Mapping[int, int], ends: Mapping[int, int]
    ) -> None:
        if self._sql.compound:
            self._commit_statement = f"{self._sql.advance_all(ends)}; COMMIT"
        elif len(ends) == 1:
            ((lane, end),) = ends.items()
            cursor.execute(self._sql.advance, (end, lane, heads[lane]))
        else:
            cursor.execute(self._sql.advance_all(ends))

    def _claim_positions(self, cursor: DBAPICursor, lane: int, count: int) -> int:
        """Return the position after which `count` events may be written, safe from other writers.

        The counter is moved at once, except where that can go with the COMMIT.
        """
        if self._sql.compound:
            return self._lock_lanes(cursor, [lane])[lane]
        base = self._last_written.get(lane)
        # Ours was the last write when the counter stands where that left it.
        if base is not None:
            cursor.execute(self._sql.advance, (base + count, lane, base))
            if cursor.rowcount == 1:
                return base
        base = self._lock_lane(cursor, lane)
        cursor.execute(self._sql.advance, (base + count, lane, base))
        return base

    def known_end(self, lane: int, request: Append) -> int:
        """Return a position that the lane has: this storage or the request's state has seen it."""
        position, _ = self._seen.get(lane, (0, ""))
        return max(position, request.as_of)

    def refuse_older(self, lane: int, base: int, request: Append) -> NoReturn:
        """Refuse to write in a lane that was longer when it was read before, and in every other."""
        end = self.known_end(lane, request)
        self._refuse(f"lane {lane} ends at position {base}, and was read up to {end} before")

    def _new_connection(self) -> PoolProxiedConnection:
        self._is_doubted = True
        return super()._new_connection()

    def _check_seen(self, cursor: DBAPICursor, lanes: Iterable[int]) -> None:
        """Refuse to write where what was written or read before is not in its place in the lanes.

        Raises:
            StoreCorrupt: another server has taken over, or an older copy.
        """
        missing = self._missing(cursor, lanes)
        if missing is not None:
            self._refuse(str(missing))

    def _check_changed(self, cursor: DBAPICursor, heads: Mapping[int, int]) -> None:
        """Check what was seen in the lanes that do not end where this storage left them.

        Raises:
            StoreCorrupt: see `_check_seen`.
        """
        last = self._last_written
        self._check_seen(cursor, [lane for lane, head in heads.items() if head != last.get(lane)])

    def _is_ours(self, cursor: DBAPICursor) -> bool:
        """Return whether a new connection to read with finds what was seen before.

        A loss is noted where another event is in its place: what is read next would hide that. A
        lane that is shorter hides nothing, and may only be behind.
        """
        missing = self._missing(cursor, self._seen)
        if missing is not None and missing.there is not None:
            self._note_loss(str(missing))
        return missing is None

    def _missing(self, cursor: DBAPICursor, lanes: Iterable[int]) -> _Missing | None:
        """Return what was seen of lanes before and is not in its place; None if all of it is."""
        seen = {lane: self._seen[lane] for lane in tuple(lanes) if lane in self._seen}
        if not seen:
            return None
        places = [number for lane, (at, _) in seen.items() for number in (lane, at)]
        cursor.execute(self._sql.anchors_at(len(seen)), places)
        found = anchors_by_lane(cursor.fetchall())
        for lane, (at, kept) in seen.items():
            if found.get(lane) != kept:
                return _Missing(lane, at, kept, found.get(lane))
        return None

    def _refuse(self, why: str) -> NoReturn:
        self._note_loss(why)
        raise StoreCorrupt(self._refusal)

    def _note_loss(self, why: str) -> None:
        """Refuse every append from now on, until the loss is accepted."""
        self.forget()
        self._refusal = (
            f"{why}: the database was replaced by an older copy; nothing was written, and nothing "
            "will be until the loss is accepted: see what was lost, then run "
            "`toolledger accept-loss`"
        )

    def check_accepted(self) -> None:
        """Refuse to write while the loss that was noticed is not accepted.

        Raises:
            StoreCorrupt: it is not.
        """
        if not self._refusal:
            return
        with self._lock:
            _, _, accepted = self._read_store()
            if accepted <= self._accepted:
                raise StoreCorrupt(self._refusal)
            self._accepted, self._refusal = accepted, ""
            self.forget()
            self._seen.clear()
            self._forget_positions()

    def accept_loss(self) -> None:
        """Record that the loss of events is known; see `Storage.accept_loss`."""
        mark, now = os.urandom(8).hex(), time.time_ns() // 1000
        digest = store_digest(mark.encode(), self._lanes, now)

        def write() -> None:
            self._check()
            cursor = self._writer()
            self._in_transaction = True
            try:
                cursor.execute(self._backend.begin)
                self._lock_lane(cursor, 0)  # so that two do not take the same number
                cursor.execute("SELECT MAX(id) FROM toolledger_store")
                last = cursor.fetchall()[0][0]
                row = (last + 1, mark, self._lanes, now, bytearray(digest))
                cursor.execute(self._sql.insert_store, row)
                self._commit_statement = "COMMIT"
                self._commit(cursor)
                self._in_transaction = False
            except BaseException as error:
                self._roll_back(lost=self._backend.is_connection_lost(error))
                raise
            finally:
                self._forget_positions()

        with self._lock:
            self.retrying(write)

    def _insert(self, cursor: DBAPICursor, batches: Sequence[Batch]) -> None:
        """Write the events of batches, and what finds them: by fingerprint, and by given id."""
        self._insert_rows(cursor, self._sql.insert, event_rows(batches, self._backend.null))
        self._insert_rows(cursor, self._sql.index, index_rows(batches))
        self._insert_rows(cursor, self._sql.insert_id, id_rows(batches))

    def _insert_rows(
        self, cursor: DBAPICursor, statement: str, rows: Iterable[Sequence[Any]]
    ) -> None:
        """Insert rows of a table; `statement` inserts one."""
        given = list(rows)
        if given:
            cursor.executemany(statement, given)

    def _lock_lane(self, cursor: DBAPICursor, lane: int) -> int:
        """Lock a lane, and return its last position."""
        cursor.execute(self._sql.head, (lane,))
        row = cursor.fetchone()
        if row is None:
            raise StoreCorrupt(f"lane {lane} has no counter: restore the database from a copy")
        head = int(row[0])
        if head != self._last_written.get(lane):
            self._ours_since[lane] = head
        return head

    def _create(
        self, cursor: DBAPICursor, conversation_id: str, lane: int, key: int
    ) -> tuple[int, int]:
        self._backend.check_names(self._tenant, conversation_id)
        cursor.execute(
            self._sql.create,
            (lane, key, self._tenant, conversation_id, slice_of(self._tenant, conversation_id)),
        )
        self._keys_now[conversation_id] = lane, key  # the transaction may yet be rolled back
        return lane, key

    def verify(self) -> Iterator[Damage]:
        """Report what is wrong with the stored rows; see `Storage.verify`."""
        return verify(self, self._checks)


def ids_of(requests: Sequence[Append]) -> tuple[str, ...]:
    """Return the ids of the events that requests would store, as text."""
    return tuple(draft.event_id.hex() for request in requests for draft in request.drafts)
