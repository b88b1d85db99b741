"""A storage over any SQL database that SQLAlchemy knows.

Statements are built with SQLAlchemy Core and compiled once; the text then goes straight to the
driver on a connection held from SQLAlchemy's pool, which keeps the driver's own speed.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from itertools import groupby, islice
from os import getpid
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

from eventstore.codec import DECODERS, Decoders, decode
from eventstore.errors import StorageError, StoreClosed, StoreCorrupt
from eventstore.events import Recorded, UnknownEvent
from eventstore.fingerprint import PREFIX, render, slice_of
from eventstore.outline import OUTLINES
from eventstore.storage import Append, Appended, Damage, Draft
from eventstore.storage.statements import Statements

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine

CHUNK = 1000
"""Rows a read fetches at once: a read holds no transaction open between chunks."""

REMEMBERED = 10_000
"""Conversations whose keys are kept in memory."""

_blank = blake2b(digest_size=16)


def payload_digest(payload: bytes) -> bytes:
    """The digest that stands beside a payload: BLAKE2b, 16 bytes."""
    hash_ = _blank.copy()  # faster than a new one
    hash_.update(payload)
    return hash_.digest()


Asked = TypeVar("Asked")
Done = TypeVar("Done")


class Database(Protocol):
    """What one database does in its own way."""

    url: URL
    begin: str
    busy_timeout: float

    def connect(self) -> Engine:
        """A new engine, its connections in autocommit mode."""

    def shared(self) -> bool:
        """Whether all must use one connection (a database in memory)."""

    def check_in_place(self) -> None:
        """Refuse a write to a database that is no longer what was opened."""

    def check_names(self, tenant: str, conversation_id: str) -> None:
        """Refuse ids that the database cannot hold."""

    def insert(
        self, cursor: Any, sql: Statements, rows: Sequence[Any], marks: Sequence[Any]
    ) -> None:
        """Write the rows of events, and those of the fingerprints' index."""

    def translate(self, error: BaseException) -> BaseException:
        """The library's error for a driver's, or the same error."""

    def is_lost(self, error: BaseException) -> bool:
        """Whether the connection is gone, or out of step with its server."""

    def is_passing(self, error: BaseException) -> bool:
        """Whether the database gave the transaction up, to be begun again (a deadlock)."""

    def damage(self, run: Callable[[str], list[Any]]) -> Iterator[str]:
        """What the database itself finds wrong in its file."""


class SqlStorage:
    """The events of one tenant in a SQL database; safe to share between threads and over a fork."""

    def __init__(self, database: Database, tenant: str) -> None:
        self._database = database
        self._tenant = tenant
        self._closed = False
        self._names: dict[tuple[int, int], str | None] = {}  # conversation key -> id, ours alone
        self._keys: dict[str, tuple[int, int]] = {}  # conversation id -> lane, key
        self._connect()
        self._sql = Statements(self._engine.dialect)
        try:
            self._epoch, self._lanes = self._read_store()
        except BaseException:
            self.close()
            raise
        with unforked():
            _storages.add(self)

    def _read_store(self) -> tuple[str, int]:
        rows = self._rows("SELECT epoch, lanes FROM toolledger_store")
        if not rows:
            raise StoreCorrupt("toolledger_store is empty: restore the database from a copy")
        return rows[0][0], rows[0][1]

    # connections

    def _connect(self) -> None:
        self._pid = getpid()
        self._lock = threading.RLock()  # who holds it writes, on the held connection
        self._door = threading.RLock()  # connections are opened behind it
        self._engine = self._database.connect()
        self._held: Any = None
        self._cursor: Any = None  # the writer's, used again and again
        self._torn = False  # the held connection may have a transaction open
        self._unsettled: set[int] = set()  # lanes of a COMMIT that nobody answered
        self._forget()

    def _forget(self) -> None:
        """Know nothing of what others have written: the next append reads what stands there."""
        self._quiet_since: dict[int, int] = {}  # lane -> position after which all writes are ours
        self._heads: dict[int, int] = {}  # lane -> position after our last write
        self._ends: dict[int, int] = {}  # likewise, after the write under way
        self._closing = "COMMIT"

    def _check(self) -> None:
        if self._pid != getpid():
            # Forked behind Python's back: leave the handles to the parent, unclosed.
            _orphans.append((self._engine, self._held))
            self._connect()
        if self._closed:
            raise StoreClosed("the store is closed: EventStore.open() it again")

    def _writer(self) -> Any:
        """The held connection's cursor, with no transaction open."""
        if self._torn:
            self._roll_back()
        if self._cursor is None:
            self._cursor = self._connection().cursor()
        return self._cursor

    def _connection(self) -> Any:
        if self._held is None:
            self._held = self._new_connection()
        return self._held.dbapi_connection

    def _new_connection(self) -> Any:
        """From the pool; a server that is gone may come back within `busy_timeout`."""
        pauses = _pauses(time.monotonic() + self._database.busy_timeout)
        while True:
            try:
                with self._door:
                    self._check()
                    return self._engine.raw_connection()
            except Exception as error:
                pause = next(pauses, None) if self._database.is_lost(error) else None
                if pause is None:
                    raise
                time.sleep(pause)

    def _let_go(self) -> None:
        held, self._held, self._cursor = self._held, None, None
        if held is not None:
            held.close()

    def _roll_back(self, *, lost: bool = False) -> None:
        """End an open transaction; a connection that cannot is given up, and that ends it too."""
        held, cursor, self._cursor = self._held, self._cursor, None
        if cursor is not None:  # a row not fetched yet would keep the next COMMIT from happening
            with suppress(Exception):
                cursor.close()
        if held is not None:
            try:
                if not lost:
                    held.dbapi_connection.rollback()
            except Exception:  # noqa: BLE001 - whatever the driver says, it is not to be used again
                if self._database.shared():
                    return  # it holds the data: the next append tries again
                lost = True
            if lost:
                self._held = None
                held.invalidate()
        self._torn = False

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        self._check()
        try:
            if self._database.shared():
                with self._lock:
                    self._check()
                    yield self._connection().cursor()
                return
            pool, connection = self._engine.pool, self._new_connection()
            try:
                yield connection.cursor()
            except BaseException:
                connection.invalidate()  # gone, or out of step with its server
                raise
            finally:
                connection.close()
                if self._closed:  # meanwhile: nobody else would close what is given back
                    pool.dispose()
        except Exception as error:  # noqa: BLE001 - raised again in our own words
            self._raise(error)

    def _read(self, job: Callable[[Any], Asked]) -> Asked:
        """What a job reads; all over again when its connection was lost."""
        pauses = _pauses(time.monotonic() + self._database.busy_timeout)
        while True:
            try:
                with self._reading() as cursor:
                    return job(cursor)
            except StorageError as error:
                cause = error.__cause__
                lost = cause is not None and self._database.is_lost(cause)
                pause = next(pauses, None) if lost else None
                if pause is None:
                    raise
                time.sleep(pause)

    def _rows(self, statement: str, *parameters: Any) -> list[Any]:
        def job(cursor: Any) -> list[Any]:
            cursor.execute(statement, parameters)
            return list(cursor.fetchall())

        return self._read(job)

    def _raise(self, error: BaseException) -> NoReturn:
        translated = self._database.translate(error)
        if translated is error:
            raise error
        raise translated from error

    # SQLite cannot be carried over a fork: the child would believe in locks that only its parent
    # has, and another process could take the log away under it. So nothing is open in a fork.

    def _before_fork(self) -> None:
        self._lock.acquire()
        self._door.acquire()
        if self._torn or self._database.shared():
            return
        with suppress(Exception):
            self._let_go()
            for _ in range(1000):  # others' reads under way end soon
                if not self._engine.pool.checkedout():  # type: ignore[attr-defined]
                    break
                time.sleep(0.001)
            self._engine.dispose()

    def _after_fork_in_parent(self) -> None:
        self._door.release()
        self._lock.release()

    def _after_fork_in_child(self) -> None:
        _orphans.append((self._engine, self._held))
        if not self._closed:
            self._connect()

    # writing

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
        pauses = _pauses(until)
        while True:
            if isinstance(error, self._driver.IntegrityError) and not contradicted:
                # The state was older than `as_of` said: decide on what stands there.
                contradicted = True
            elif self._unsettled or not (
                self._database.is_passing(error) or self._database.is_lost(error)
            ):
                raise error
            else:
                pause = next(pauses, None)
                if pause is None:
                    raise error
                time.sleep(pause)
            try:
                return self._transact(self._write, request, self._stored)
            except Exception as failed:  # noqa: BLE001
                error = failed

    @property
    def _driver(self) -> Any:
        return self._engine.dialect.loaded_dbapi

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
            if not (self._sql.compound and write == self._write_all):
                cursor.execute(self._database.begin)
            done = write(cursor, asked)
            cursor.execute(self._closing)
        except BaseException as error:
            if self._failed(error, asked, done, stored):
                return done  # type: ignore[return-value]
            raise
        self._torn = False
        self._heads |= self._ends
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

    def _at_once(self, request: Append) -> Appended | None:
        """One event in one statement, if the database can; None where others have written."""
        sql = self._sql.at_once
        key = self._keys.get(request.conversation_id)
        if sql is None or key is None or len(request.drafts) != 1:
            return None
        lane = key[0]
        base = self._heads.get(lane)
        if base is None or not self._quiet_since[lane] <= request.as_of <= base:
            return None
        cursor = self._writer()
        draft, version = request.drafts[0], request.version + 1
        done = Appended(lane, version, base + 1)
        self._ends = {lane: base + 1}
        self._torn = True
        try:
            mark = _index_row(*key, version, draft)[1:] if draft.begins else ()
            row = _row(*key, base + 1, version, draft)[1:]
            cursor.execute(sql[draft.begins], (base + 1, lane, base, *mark, *row))
        except BaseException as error:
            if self._failed(error, request, done, self._stored):
                return done
            raise
        self._torn = False
        if cursor.rowcount != 1:
            return None
        self._heads[lane] = base + 1
        return done

    def _stored(self, request: Append, done: Appended) -> bool:
        if self._torn:
            return False
        if not request.drafts:
            return True
        last = request.drafts[-1].event_id
        with suppress(Exception):
            return self.known_ids(request.conversation_id, [last]) == {last: done.version}
        return False

    def _settle(self) -> None:
        """Wait until a COMMIT that nobody answered has taken place, or never will.

        Until then its transaction holds the lanes' counters.
        """
        pauses = _pauses(time.monotonic() + self._database.busy_timeout)
        with self._lock:
            while self._unsettled:
                try:
                    self._lock_unsettled()
                except Exception as error:
                    pause = next(pauses, None) if self._database.is_lost(error) else None
                    if pause is None:
                        raise
                    time.sleep(pause)

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
        drafts = request.drafts
        count = len(drafts)
        version: int = request.version
        key = self._keys.get(request.conversation_id)
        lane = key[0] if key else self._lane(request.conversation_id)
        base = self._claim(cursor, lane, count)
        if base < request.as_of:
            self._refuse(lane, base, request)
        if key is None:
            key = self._find(cursor, request.conversation_id, lane)
        if key and request.as_of < self._quiet_since[lane]:
            tail = self._tail(cursor, key, request.conversation_id, version)
            if tail:
                drafts = request.drafts = request.rebase(tail)
                version = tail[-1].version
                if len(drafts) != count:
                    cursor.execute(self._sql.advance, (base + len(drafts), lane, base + count))
                    count = len(drafts)
        if count:
            if key is None:
                key = self._create(cursor, request.conversation_id, lane, base + 1)
            if count == 1:
                draft = drafts[0]
                cursor.execute(self._sql.insert, _row(*key, base + 1, version + 1, draft))
                if draft.begins:
                    cursor.execute(self._sql.index, _index_row(*key, version + 1, draft))
            else:
                self._insert(cursor, [(key, base, version, drafts)])
        self._ends = {lane: base + count}
        return Appended(lane, version + count, base + count)

    def _write_all(self, cursor: Any, requests: Sequence[Append]) -> list[Appended | Exception]:
        lanes = {r.conversation_id: self._lane(r.conversation_id) for r in requests}
        # Where statements may go together, each way to the server and back is saved.
        begin = f"{self._database.begin}; " if self._sql.compound else ""
        heads = self._all_heads(cursor, sorted(set(lanes.values())), begin)
        ends = dict(heads)
        keys: dict[str, tuple[int, int] | None] = {}
        versions: dict[str, int] = {}
        batches: list[_Batch] = []
        done: list[Appended | Exception] = []
        for request in requests:
            name = request.conversation_id
            lane = lanes[name]
            tail: Sequence[Recorded] = ()
            if name not in versions:
                if heads[lane] < request.as_of:
                    self._refuse(lane, heads[lane], request)
                key = keys[name] = self._keys.get(name) or self._find(cursor, name, lane)
                if key and request.as_of < self._quiet_since[lane]:
                    tail = self._tail(cursor, key, name, request.version)
                versions[name] = tail[-1].version if tail else request.version
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
        if self._sql.compound:
            self._closing = f"{self._sql.advance_all(ends)}; COMMIT"
        elif len(ends) == 1:
            ((lane, end),) = ends.items()
            cursor.execute(self._sql.advance, (end, lane, heads[lane]))
        else:
            cursor.execute(self._sql.advance_all(ends))
        self._ends = ends
        return done

    def _claim(self, cursor: Any, lane: int, count: int) -> int:
        """The position behind which `count` events may be written, as nobody else's are."""
        base = self._heads.get(lane)
        # Ours was the last write when the counter stands where that left it.
        if base is not None:
            cursor.execute(self._sql.advance, (base + count, lane, base))
            if cursor.rowcount == 1:
                return base
        base = self._head(cursor, lane)
        cursor.execute(self._sql.advance, (base + count, lane, base))
        return base

    def _refuse(self, lane: int, base: int, request: Append) -> NoReturn:
        """Write nothing behind a lane's end that was further once."""
        self._keys.clear()
        raise StoreCorrupt(
            f"lane {lane} ends at position {base}, and was read up to {request.as_of} before: "
            "the database was replaced by an older copy; nothing was written"
        )

    def _insert(self, cursor: Any, batches: Sequence[_Batch]) -> None:
        """Write the rows of batches: a conversation, and what stands before its drafts."""
        rows, found = [], []
        for key, position, version, drafts in batches:
            for place, draft in enumerate(drafts, 1):
                rows.append(_row(*key, position + place, version + place, draft))
                if draft.begins:
                    found.append(_index_row(*key, version + place, draft))
        self._database.insert(cursor, self._sql, rows, found)

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

    def _all_heads(self, cursor: Any, lanes: Sequence[int], begin: str) -> dict[int, int]:
        """Likewise of many; locked in their order, so that writers do not wait in a circle."""
        if len(lanes) == 1 and not begin:
            return {lanes[0]: self._head(cursor, lanes[0])}
        cursor.execute(begin + self._sql.heads(lanes))
        if begin:
            cursor.nextset()
        heads = {lane: int(position) for lane, position in cursor.fetchall()}
        for lane in lanes:
            if lane not in heads:
                raise StoreCorrupt(f"lane {lane} has no counter: restore the database from a copy")
            if heads[lane] != self._heads.get(lane):
                self._quiet_since[lane] = heads[lane]
        return heads

    def _lane(self, conversation_id: str) -> int:
        return slice_of(self._tenant, conversation_id) * int(self._lanes) // 1024

    def _find(self, cursor: Any, conversation_id: str, lane: int) -> tuple[int, int] | None:
        cursor.execute(self._sql.find, (lane, self._tenant, conversation_id))
        row = cursor.fetchone()
        if row is None:
            return None
        if len(self._keys) >= REMEMBERED:
            self._keys.clear()
        key = self._keys[conversation_id] = (lane, row[0])
        return key

    def _create(self, cursor: Any, conversation_id: str, lane: int, key: int) -> tuple[int, int]:
        # Not remembered here: the transaction may yet be rolled back.
        self._database.check_names(self._tenant, conversation_id)
        cursor.execute(
            self._sql.create,
            (lane, key, self._tenant, conversation_id, slice_of(self._tenant, conversation_id)),
        )
        return lane, key

    # reading

    def _tail(
        self, cursor: Any, key: tuple[int, int], conversation_id: str, after: int
    ) -> list[Recorded]:
        cursor.execute(self._sql.tail, (*key, after))
        return _recorded(cursor.fetchall(), {key[1]: conversation_id})

    def conversation(self, conversation_id: str, after: int = 0) -> Iterator[Recorded]:
        """The events of a conversation after a version; see `Storage.conversation`."""

        def job(cursor: Any) -> list[Recorded]:
            key = self._keys.get(conversation_id) or self._find(
                cursor, conversation_id, self._lane(conversation_id)
            )
            if key is None:
                return []
            cursor.execute(self._sql.conversation, (*key, after, CHUNK))
            return _recorded(cursor.fetchall(), {key[1]: conversation_id})

        while True:
            found = self._read(job)
            yield from found
            if len(found) < CHUNK:
                return
            after = found[-1].version

    def feed(
        self,
        after: Mapping[int, int],
        limit: int | None = None,
        until: Mapping[int, int] | None = None,
    ) -> Iterator[Recorded]:
        """The events after each lane's position; see `Storage.feed`."""
        for rows, names in self._pages(after, limit, until):
            yield from _recorded(rows, names)

    def outlines(
        self, after: Mapping[int, int], limit: int | None = None
    ) -> Iterator[Sequence[Recorded]]:
        """Their outlines, many at a time; see `Storage.outlines`."""
        for rows, names in self._pages(after, limit, None):
            yield _recorded(rows, names, OUTLINES)

    def _pages(
        self, after: Mapping[int, int], limit: int | None, until: Mapping[int, int] | None
    ) -> Iterator[tuple[Sequence[Any], Mapping[int, Any]]]:
        """The rows of the feed, and the ids of their conversations."""
        left = sys.maxsize if limit is None else limit
        for lane in range(self._lanes):
            position = after.get(lane, 0)
            end = sys.maxsize if until is None else until.get(lane, 0)
            while left > 0 and position < end:
                count = min(CHUNK, end - position)
                rows = self._rows(self._sql.feed, lane, position, count)
                names = self._names_of(lane, (row[2] for row in rows))
                if until is not None:
                    self._check_gapless(lane, position, count, rows)
                ours = rows if all(names.values()) else [row for row in rows if names[row[2]]]
                if ours:
                    yield ours[:left], names
                left -= len(ours)
                if len(rows) < CHUNK:
                    break
                position = rows[-1][1]

    def _check_gapless(self, lane: int, after: int, count: int, rows: Sequence[Any]) -> None:
        """Refuse to pass over a position that should be there."""
        if len(rows) == count and rows[-1][1] == after + count:
            return  # they are distinct and in order: so none is missing
        there = {row[1] for row in rows}
        missing = next(at for at in range(after + 1, after + count + 1) if at not in there)
        self._raise(StoreCorrupt(
            f"lane {lane} has no event at position {missing}, though it goes on behind it: run "
            "`toolledger verify`, and restore the database from a copy"
        ))  # fmt: skip

    def _names_of(self, lane: int, keys: Iterable[int]) -> dict[int, str | None]:
        """The ids of the conversations with these keys, None where they are another tenant's."""
        known = self._names
        if len(known) >= REMEMBERED:
            known = self._names = {}  # a new one: other threads may be reading the old
        names: dict[int, str | None] = {}
        for key in set(keys):
            if (lane, key) not in known:
                found = self._rows(self._sql.name, lane, key)
                ours = found and found[0][0] == self._tenant
                known[lane, key] = found[0][1] if ours else None
            names[key] = known[lane, key]
        return names

    def by_fingerprint(self, digest: bytes) -> Iterator[Recorded]:
        """The events of all calls with these arguments; see `Storage.by_fingerprint`."""
        for lane in range(self._lanes):
            places = self._rows(self._sql.fingerprint, lane, bytearray(digest))
            for conversation, found in groupby(places, key=lambda place: place[0]):
                name = self._names_of(lane, [conversation])[conversation]
                if name is None:
                    continue
                first = next(found)[1]
                for recorded in self.conversation(name, after=first - 1):
                    if recorded.fingerprint == render(digest):
                        yield recorded

    def known_ids(self, conversation_id: str, event_ids: Sequence[bytes]) -> dict[bytes, int]:
        """Which event ids are stored already; see `Storage.known_ids`."""
        if self._unsettled:
            self._settle()

        def job(cursor: Any) -> dict[bytes, int]:
            known: dict[bytes, int] = {}
            key = self._find(cursor, conversation_id, self._lane(conversation_id))
            for event_id in event_ids if key else ():
                cursor.execute(self._sql.known, (*(key or ()), bytearray(event_id)))
                row = cursor.fetchone()
                if row:
                    known[event_id] = row[0]
            return known

        return self._read(job)

    def conversations(self) -> Iterator[tuple[str, int]]:
        """The tenant's conversations with their versions; see `Storage.conversations`."""
        for lane in range(self._lanes):
            after = 0
            while True:
                rows = self._rows(self._sql.conversations, lane, self._tenant, after, CHUNK)
                for key, conversation_id, version in rows:
                    after = key
                    yield conversation_id, version
                if len(rows) < CHUNK:
                    break

    def versions(self, conversation_ids: Iterable[str]) -> dict[str, int]:
        """The versions of those that have begun; see `Storage.versions`."""

        def job(cursor: Any) -> dict[str, int]:
            names: dict[tuple[int, int], str] = {}
            for name in conversation_ids:
                key = self._keys.get(name) or self._find(cursor, name, self._lane(name))
                if key is not None:
                    names[key] = name
            versions: dict[str, int] = {}
            keys = iter(names)
            while some := list(islice(keys, CHUNK)):
                cursor.execute(self._sql.versions(some))
                versions |= {names[lane, key]: at for lane, key, at in cursor.fetchall()}
            return versions

        return self._read(job)

    def heads(self) -> dict[int, int]:
        """The last position of each lane."""
        return dict(self._rows("SELECT lane, position FROM toolledger_lanes ORDER BY lane"))

    @contextmanager
    def hints(self, _: Callable[[], object]) -> Iterator[None]:
        """Nobody tells; see `Storage.hints`."""
        yield

    @property
    def url(self) -> str:
        """Where it is; see `Storage.url`."""
        return self._database.url.render_as_string(hide_password=False)

    @property
    def tenant(self) -> str:
        """Whose events these are."""
        return self._tenant

    @property
    def epoch(self) -> str:
        """What tells this store from every other."""
        return str(self._epoch)

    # checking

    def verify(self) -> Iterator[Damage]:
        """What is wrong with the stored rows; see `Storage.verify`."""
        try:
            yield from self._verify()
        except StoreCorrupt as error:
            yield Damage(-1, None, None, None, f"the check had to end here: {error}")

    def _verify(self) -> Iterator[Damage]:
        for problem in list(self._database.damage(self._rows)):
            yield Damage(-1, None, None, None, problem)
        heads = self.heads()
        for lane in range(self._lanes):
            if lane not in heads:
                yield Damage(lane, None, None, None, "the lane's head is missing")
            yield from self._verify_lane(lane, heads.get(lane))

    def _verify_lane(self, lane: int, head: int | None) -> Iterator[Damage]:
        position = 0
        versions: dict[int, int] = {}
        while True:
            rows = self._rows(self._sql.check, lane, position, CHUNK)
            names = self._names_of(lane, (row[1] for row in rows))
            unknown = (key for key, name in names.items() if name is None and key not in versions)
            lost = [key for key in unknown if not self._rows(self._sql.name, lane, key)]
            for at, conversation, version, digest, payload in rows:
                name = names[conversation]
                where = (lane, at, name, version)
                if at != position + 1:
                    yield Damage(*where, f"positions {position + 1} to {at - 1} are missing")
                last = versions.get(conversation, 0)
                if version != last + 1:
                    yield Damage(*where, f"version {version} follows version {last}")
                if conversation in lost and conversation not in versions:
                    yield Damage(*where, "its conversation is not listed: nobody can read it")
                if payload_digest(bytes(payload)) != digest:
                    yield Damage(*where, "the payload does not match its digest")
                position = at
                versions[conversation] = version
            if len(rows) < CHUNK:
                break
        if head is not None:
            yield from self._verify_head(lane, head, position)

    def _verify_head(self, lane: int, head: int, position: int) -> Iterator[Damage]:
        if position < head:
            yield Damage(lane, position, None, None, f"the lane's head is {head}, its last event "
                         f"is at {position}: {head - position} events are missing")  # fmt: skip
        if position > head and self.heads()[lane] < position:
            yield Damage(lane, position, None, None, f"the lane's head {head} is behind its events")

    def close(self) -> None:
        """Give up the connections. Twice is once."""
        if self._closed or self._pid != getpid():
            self._closed = True
            return
        with self._lock, self._door:
            self._closed = True
            self._let_go()
            self._engine.dispose()


_Batch = tuple[tuple[int, int], int, int, Sequence[Draft]]


# bytearray binds faster than bytes on Python 3.11 (no adapter look-up)


def _row(
    lane: int, conversation: int, position: int, version: int, draft: Draft
) -> tuple[Any, ...]:
    payload, mark = draft.payload, draft.fingerprint
    return (
        lane, position, conversation, version, bytearray(draft.event_id), draft.recorded_at,
        draft.tag, draft.schema, None if mark is None else bytearray(mark),
        bytearray(payload_digest(payload)), payload.decode(),
    )  # fmt: skip


def _index_row(lane: int, conversation: int, version: int, draft: Draft) -> tuple[Any, ...]:
    return lane, bytearray(draft.fingerprint or b""), conversation, version


def insert_many(cursor: Any, sql: Statements, rows: Sequence[Any], marks: Sequence[Any]) -> None:
    """Write the rows of events, and those of the fingerprints' index."""
    if rows:
        cursor.executemany(sql.insert, rows)
    if marks:
        cursor.executemany(sql.index, marks)


def _pauses(until: float) -> Iterator[float]:
    """How long to wait before each new attempt: longer and longer, by chance, and not for ever."""
    longest = 0.005
    while time.monotonic() < until:
        yield random.uniform(0, longest)  # noqa: S311 - that several do not meet again
        longest = min(2 * longest, 0.5)


_orphans: list[Any] = []  # a forked child keeps its parent's connections from being closed
_storages: weakref.WeakSet[SqlStorage] = weakref.WeakSet()
_registry = threading.RLock()  # held over a fork: one at a time, and no store opens meanwhile


@contextmanager
def unforked() -> Iterator[None]:
    """No fork is made meanwhile: for who opens connections that no storage has yet."""
    with _registry:
        yield


def _before_fork() -> None:
    _registry.acquire()
    for storage in _storages:
        storage._before_fork()  # noqa: SLF001 - one room


def _after_fork_in_parent() -> None:
    for storage in _storages:
        storage._after_fork_in_parent()  # noqa: SLF001
    _registry.release()


def _after_fork_in_child() -> None:
    global _registry  # noqa: PLW0603 - the old one may be held by a thread that is not here
    _registry = threading.RLock()
    for storage in _storages:
        storage._after_fork_in_child()  # noqa: SLF001


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )


def _recorded(
    rows: Iterable[Any], names: Mapping[int, Any], decoders: Decoders = DECODERS
) -> list[Recorded]:
    """The events of rows; `names` are the ids of their conversations."""
    # The loop that every event read goes through: nothing is called that need not be.
    found = []
    for lane, position, key, version, event_id, at, tag, schema, digest, payload in rows:
        event: Any
        try:
            event = decoders[tag, schema](payload)
        except Exception:  # noqa: BLE001 - an older schema, another's tag, damage
            event = decode(tag, schema, payload)
        found.append(Recorded(
            lane, position, names[key], version, event_id.hex(), at,
            event.call.id or "" if tag == "pending" and type(event) is not UnknownEvent
            else getattr(event, "call_id", None),
            None if digest is None else f"{PREFIX}{digest.hex()}", event,
        ))  # fmt: skip
    return found
