"""A storage over any SQL database that SQLAlchemy knows.

Statements are built with SQLAlchemy Core and compiled once; the text then goes straight to the
driver on a connection held from SQLAlchemy's pool, which keeps the driver's own speed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from os import getpid
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from eventstore.errors import StoreCorrupt
from eventstore.fingerprint import slice_of
from eventstore.storage import Append, Appended, Damage
from eventstore.storage.checking import verify
from eventstore.storage.connections import pauses
from eventstore.storage.database import translated
from eventstore.storage.reading import Reader
from eventstore.storage.rows import Batch, event_row, index_row

if TYPE_CHECKING:
    from eventstore.events import Recorded

Asked = TypeVar("Asked")
Done = TypeVar("Done")


class SqlStorage(Reader):
    """The events of one tenant in a SQL database; safe to share between threads and over a fork."""

    def _connect(self) -> None:
        super()._connect()
        self._unsettled: set[int] = set()  # lanes of a COMMIT that nobody answered
        self._forget()

    def _forget(self) -> None:
        """Know nothing of what others have written: the next append reads what stands there."""
        self._quiet_since: dict[int, int] = {}  # lane -> position after which all writes are ours
        self._heads: dict[int, int] = {}  # lane -> position after our last write
        self._ends: dict[int, int] = {}  # likewise, after the write under way
        self._begun: dict[str, tuple[int, int]] = {}  # the keys that it makes
        self._closing = "COMMIT"

    def append(self, request: Append) -> Appended:
        """Store the drafts of `request`; see `Storage.append`."""
        if self._pid != getpid():
            self._check()
        with self._lock:
            try:
                if self._closed:
                    self._check()
                self._database.check_in_place()
                began = time.monotonic()
                try:
                    return self._at_once(request) or self._transact(
                        self._write, request, self._stored
                    )
                except Exception as error:  # noqa: BLE001 - looked at there
                    return self._again(request, error, began + self._database.busy_timeout)
            except Exception as error:  # noqa: BLE001 - raised again in our own words
                self._raise(error)

    def append_all(self, requests: Sequence[Append]) -> list[Appended | Exception]:
        """Store the drafts of many in one transaction; see `Storage.append_all`."""
        self._check()
        with self._lock:
            try:
                self._check()
                self._database.check_in_place()
                return self._transact(self._write_all, requests, self._all_stored)
            except Exception as error:  # noqa: BLE001 - raised again in our own words
                self._raise(error)

    def _again(self, request: Append, error: Exception, until: float) -> Appended:
        """Store the drafts of a request that failed through no fault of its own."""
        contradicted = False
        waits = pauses(until)
        while True:
            if isinstance(error, self._driver.IntegrityError) and not contradicted:
                # The state was older than `as_of` said: decide on what stands there.
                contradicted = True
            elif self._unsettled or not (
                self._database.is_passing(error) or self._database.is_lost(error)
            ):
                raise error
            else:
                self._database.check_sizes(request.drafts)
                pause = next(waits, None)
                if pause is None:
                    raise error
                time.sleep(pause)
            try:
                return self._transact(self._write, request, self._stored)
            except Exception as failed:  # noqa: BLE001
                error = failed

    def _transact(
        self,
        write: Callable[[Any, Asked], Done],
        asked: Asked,
        stored: Callable[[Asked, Done], bool],
    ) -> Done:
        cursor = self._cursor
        if cursor is None or self._torn:
            cursor = self._writer()
        done: Done | None = None
        self._torn = True
        try:
            self._closing = "COMMIT"
            if not self._sql.compound:
                cursor.execute(self._database.begin)
            done = write(cursor, asked)
            cursor.execute(self._closing)
        except BaseException as error:
            if self._failed(error, asked, done, stored):
                return done  # type: ignore[return-value]
            raise
        self._torn = False
        self._heads |= self._ends
        if self._begun:
            self._remember(self._begun)
            self._begun = {}
        return done

    def _failed(
        self,
        error: BaseException,
        asked: Asked,
        done: Done | None,
        stored: Callable[[Asked, Done], bool],
    ) -> bool:
        """Clean up behind a transaction; whether only the answer to its COMMIT was lost."""
        # Whatever happened (a refusal, a full disk, Ctrl-C): trust nothing known before.
        lost = self._database.is_lost(error)
        if lost and done:
            self._unsettled.update(self._ends)
        self._forget()
        self._roll_back(lost=lost)
        return bool(done) and isinstance(error, self._driver.Error) and stored(asked, done)  # type: ignore[arg-type]

    def _at_once(self, _: Append) -> Appended | None:
        """Store one event in one statement; None where that cannot be, or others have written."""
        return None

    def _stored(self, request: Append, done: Appended) -> bool:
        if self._torn:
            return False
        if not request.drafts:
            return True
        last = request.drafts[-1].event_id
        with suppress(Exception):
            return self.known_ids(request.conversation_id, [last]) == {last: done.version}
        return False

    def known_ids(self, conversation_id: str, event_ids: Sequence[bytes]) -> dict[bytes, int]:
        """Which event ids are stored already; see `Storage.known_ids`."""
        if self._unsettled:
            with translated(self._database):
                self._settle()
        return super().known_ids(conversation_id, event_ids)

    def _settle(self) -> None:
        """Wait until a COMMIT that nobody answered has taken place, or never will.

        Until then its transaction holds the lanes' counters.
        """
        with self._lock:
            if self._unsettled:
                self._until_there(self._lock_unsettled)

    def _lock_unsettled(self) -> None:
        try:
            self._check()
            cursor = self._writer()
            self._torn = True
            cursor.execute(self._database.begin)
            for lane in sorted(self._unsettled):
                self._head(cursor, lane)
            cursor.execute("COMMIT")
            self._torn = False
            self._unsettled.clear()
        except BaseException as error:
            self._roll_back(lost=self._database.is_lost(error))
            raise
        finally:
            self._forget()

    def _all_stored(self, requests: Sequence[Append], done: Sequence[Appended | Exception]) -> bool:
        pairs = zip(requests, done, strict=True)
        return all(self._stored(r, d) for r, d in pairs if isinstance(d, Appended))

    def _write(self, cursor: Any, request: Append) -> Appended:
        claimed = len(request.drafts)
        key = self._keys.get(request.conversation_id)
        lane = key[0] if key else self.lane_of(request.conversation_id)
        base = self._claim(cursor, lane, claimed)
        if base < request.as_of:
            self.refuse_older(lane, base, request)
        if key is None:
            key = self._find(cursor, request.conversation_id, lane)
        version = self._caught_up(cursor, key, request) if key else request.version
        drafts = request.drafts
        if drafts:
            if key is None:
                key = self._create(cursor, request.conversation_id, lane, base + 1)
            if len(drafts) == 1:
                draft = drafts[0]
                cursor.execute(self._sql.insert, event_row(*key, base + 1, version + 1, draft))
                if draft.begins:
                    cursor.execute(self._sql.index, index_row(*key, version + 1, draft))
            else:
                self._insert(cursor, [(key, base, version, drafts)])
        end = base + len(drafts)
        if self._sql.compound:
            self._advance_all(cursor, {lane: base}, {lane: end})
        elif len(drafts) != claimed:
            cursor.execute(self._sql.advance, (end, lane, base + claimed))
        self._ends = {lane: end}
        return Appended(lane, version + len(drafts), end)

    def _caught_up(self, cursor: Any, key: tuple[int, int], request: Append) -> int:
        """The conversation's version now; the request decides anew where others have written."""
        if request.as_of < self._quiet_since[key[0]]:
            tail = self._tail(cursor, key, request.conversation_id, request.version)
            if tail:
                request.drafts = request.rebase(tail)
                return tail[-1].version
        return request.version

    def _write_all(self, cursor: Any, requests: Sequence[Append]) -> list[Appended | Exception]:
        firsts: dict[str, Append] = {}
        for request in requests:
            firsts.setdefault(request.conversation_id, request)
        lanes = {
            name: known[0] if (known := self._keys.get(name)) else self.lane_of(name)
            for name in firsts
        }
        heads = self._all_heads(cursor, sorted(set(lanes.values())))
        for name, first in firsts.items():
            if heads[lanes[name]] < first.as_of:
                self.refuse_older(lanes[name], heads[lanes[name]], first)
        keys = {
            name: self._keys.get(name) or self._find(cursor, name, lane)
            for name, lane in lanes.items()
        }
        tails = self._all_tails(cursor, firsts, keys)
        versions = {name: first.version for name, first in firsts.items()}
        ends = dict(heads)
        batches: list[Batch] = []
        done: list[Appended | Exception] = []
        for request in requests:
            name = request.conversation_id
            lane = lanes[name]
            tail = tails.pop(name, ())
            if tail:
                versions[name] = tail[-1].version
            try:
                drafts = request.drafts = request.rebase(tail)
            except Exception as error:  # noqa: BLE001 - this one's outcome, not the others'
                done.append(error)
                continue
            if drafts:
                key = keys[name] = keys[name] or self._create(cursor, name, lane, ends[lane] + 1)
                batches.append((key, ends[lane], versions[name], drafts))
            versions[name] += len(drafts)
            ends[lane] += len(drafts)
            done.append(Appended(lane, versions[name], ends[lane]))
        self._insert(cursor, batches)
        self._advance_all(cursor, heads, ends)
        self._ends = ends
        return done

    def _all_heads(self, cursor: Any, lanes: Sequence[int]) -> dict[int, int]:
        """The last positions, locked in their order, so that writers do not wait in a circle."""
        if len(lanes) == 1 and not self._sql.compound:
            return {lanes[0]: self._head(cursor, lanes[0])}
        statement = self._sql.heads(lanes)
        if self._sql.compound:  # each way to the server and back is saved
            cursor.execute(f"{self._database.begin}; {statement}")
            cursor.nextset()
        else:
            cursor.execute(statement)
        heads = {lane: int(position) for lane, position in cursor.fetchall()}
        for lane in lanes:
            if lane not in heads:
                raise StoreCorrupt(f"lane {lane} has no counter: restore the database from a copy")
            if heads[lane] != self._heads.get(lane):
                self._quiet_since[lane] = heads[lane]
        return heads

    def _all_tails(
        self, cursor: Any, firsts: Mapping[str, Append], keys: Mapping[str, tuple[int, int] | None]
    ) -> dict[str, list[Recorded]]:
        """What others have written behind the states of requests, where they have."""
        doubtful = {
            key: (name, first.version)
            for name, first in firsts.items()
            if (key := keys[name]) and first.as_of < self._quiet_since[key[0]]
        }
        if not doubtful:
            return {}
        cursor.execute(self._sql.versions(doubtful))
        tails = {}
        for lane, key, now in cursor.fetchall():
            name, version = doubtful[lane, key]
            if now > version:
                tails[name] = self._tail(cursor, (lane, key), name, version)
        return tails

    def _advance_all(self, cursor: Any, heads: Mapping[int, int], ends: Mapping[int, int]) -> None:
        if self._sql.compound:
            self._closing = f"{self._sql.advance_all(ends)}; COMMIT"
        elif len(ends) == 1:
            ((lane, end),) = ends.items()
            cursor.execute(self._sql.advance, (end, lane, heads[lane]))
        else:
            cursor.execute(self._sql.advance_all(ends))

    def _claim(self, cursor: Any, lane: int, count: int) -> int:
        """The position behind which `count` events may be written, as nobody else's are.

        The counter is moved at once, but where that can go with the COMMIT.
        """
        if self._sql.compound:
            return self._all_heads(cursor, [lane])[lane]
        base = self._heads.get(lane)
        # Ours was the last write when the counter stands where that left it.
        if base is not None:
            cursor.execute(self._sql.advance, (base + count, lane, base))
            if cursor.rowcount == 1:
                return base
        base = self._head(cursor, lane)
        cursor.execute(self._sql.advance, (base + count, lane, base))
        return base

    def refuse_older(self, lane: int, base: int, request: Append) -> NoReturn:
        """Write nothing behind a lane's end that was further once."""
        self._keys.clear()
        raise StoreCorrupt(
            f"lane {lane} ends at position {base}, and was read up to {request.as_of} before: "
            "the database was replaced by an older copy; nothing was written"
        )

    def _insert(self, cursor: Any, batches: Sequence[Batch]) -> None:
        """Write the events of batches, and what finds them by their fingerprints."""
        rows, found = [], []
        for key, position, version, drafts in batches:
            for place, draft in enumerate(drafts, 1):
                rows.append(event_row(*key, position + place, version + place, draft))
                if draft.begins:
                    found.append(index_row(*key, version + place, draft))
        if rows:
            cursor.executemany(self._sql.insert, rows)
        if found:
            cursor.executemany(self._sql.index, found)

    def _head(self, cursor: Any, lane: int) -> int:
        """The lane's last position, while nobody else can write."""
        cursor.execute(self._sql.head, (lane,))
        row = cursor.fetchone()
        if row is None:
            raise StoreCorrupt(f"lane {lane} has no counter: restore the database from a copy")
        head = int(row[0])
        if head != self._heads.get(lane):
            self._quiet_since[lane] = head
        return head

    def _create(self, cursor: Any, conversation_id: str, lane: int, key: int) -> tuple[int, int]:
        self._database.check_names(self._tenant, conversation_id)
        cursor.execute(
            self._sql.create,
            (lane, key, self._tenant, conversation_id, slice_of(self._tenant, conversation_id)),
        )
        self._begun[conversation_id] = lane, key  # the transaction may yet be rolled back
        return lane, key

    def verify(self) -> Iterator[Damage]:
        """What is wrong with the stored rows; see `Storage.verify`."""
        return verify(self, self._database, self._sql)
