"""Reading a log: its conversations and its feed, a chunk at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, Any

from eventstore.domain.anchors import anchor_of
from eventstore.domain.codec import DECODERS, Decoders
from eventstore.domain.event_headers import HEADER_DECODERS
from eventstore.domain.events import Recorded
from eventstore.domain.fingerprint import render, slice_of
from eventstore.errors import StoreCorrupt
from eventstore.storage.chain import (
    StoredRow,
    conversation_digest,
    is_sound_store,
    problems,
)
from eventstore.storage.sql.backend import translated
from eventstore.storage.sql.connections import Connections
from eventstore.storage.sql.rows import BEFORE_ALL, anchors_by_lane, check_first, recorded
from eventstore.storage.sql.statements import CheckStatements, statements_for

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPICursor

    from eventstore.storage.sql.backend import Backend


class Reader(Connections):
    """The events of one tenant in a SQL database, to be read."""

    def __init__(self, backend: Backend, tenant: str) -> None:
        self._tenant = tenant
        self._limits = backend.limits
        self._conversation_ids: dict[
            tuple[int, int], str | None
        ] = {}  # conversation key -> id, ours alone
        self._keys: dict[str, tuple[int, int]] = {}  # conversation id -> lane, key
        self._seen: dict[int, tuple[int, str]] = {}  # lane -> the furthest event in states
        super().__init__(backend)
        self._sql = statements_for(self._engine.dialect, backend)
        try:
            self._epoch, self._lanes, self._accepted = self._read_store()
        except BaseException:
            self.close()
            raise

    def _read_store(self) -> tuple[str, int, frozenset[str]]:
        """Return the store's epoch, the number of its lanes, and the losses that were accepted."""
        rows = self.rows(
            "SELECT epoch, lanes, created_at, digest FROM toolledger_store ORDER BY id"
        )
        if not rows:
            raise StoreCorrupt("toolledger_store is empty: restore the database from a copy")
        (epoch, lanes, created_at, digest), *accepted = rows
        if not isinstance(epoch, str):
            raise StoreCorrupt("the store's epoch is not text: restore the database from a copy")
        if not is_sound_store(epoch.encode(), lanes, created_at, digest):
            ((counters,),) = self.rows("SELECT COUNT(*) FROM toolledger_lanes")
            if lanes != counters:  # events would be sought, and written, in other lanes
                raise StoreCorrupt(
                    f"the store says that it has {lanes!r} lanes, and has counters for {counters}: "
                    "restore the database from a copy"
                )
        return epoch, lanes, frozenset(mark for mark, *_ in accepted)

    @cached_property
    def _checks(self) -> CheckStatements:
        """The statements by which stored rows are checked."""
        return CheckStatements(self._engine.dialect, self._backend)

    @property
    def backend(self) -> Backend:
        """What the database does in its own way."""
        return self._backend

    @property
    def url(self) -> str:
        """The database; see `Storage.url`."""
        return self._backend.url.render_as_string(hide_password=False)

    @property
    def tenant(self) -> str:
        """The tenant whose events these are."""
        return self._tenant

    @property
    def epoch(self) -> str:
        """The mark that tells this store from every other."""
        return self._epoch

    @property
    def server_time(self) -> Callable[[], int] | None:
        """What asks the server for its time; see `Storage.server_time`. It asks once."""
        query = self._backend.time_query
        return None if query is None else partial(self._server_time, query)

    def _server_time(self, query: str) -> int:
        with translated(self._backend), self.cursor() as cursor:
            cursor.execute(query)
            ((now,),) = cursor.fetchall()
            return int(now)

    @property
    def lanes(self) -> range:
        """The numbers of the store's lanes."""
        return range(self._lanes)

    def lane_of(self, conversation_id: str) -> int:
        """Return the lane that a conversation is in."""
        return slice_of(self._tenant, conversation_id) * self._lanes // 1024

    def _key(self, cursor: DBAPICursor, conversation_id: str) -> tuple[int, int] | None:
        return self._keys.get(conversation_id) or self._find(
            cursor, conversation_id, self.lane_of(conversation_id)
        )

    def _find(self, cursor: DBAPICursor, conversation_id: str, lane: int) -> tuple[int, int] | None:
        cursor.execute(self._sql.find, (lane, self._tenant, conversation_id))
        row = cursor.fetchone()
        if row is None:
            return None
        key = (lane, row[0])
        self._remember({conversation_id: key})
        return key

    def _remember(self, keys: Mapping[str, tuple[int, int]]) -> None:
        if len(self._keys) >= self._limits.cached_keys:
            self._keys.clear()
        self._keys |= keys

    def _tail(
        self, cursor: DBAPICursor, key: tuple[int, int], conversation_id: str, after: int
    ) -> list[Recorded]:
        cursor.execute(self._sql.tail, (*key, after))
        judge = partial(self._problems_on, cursor)
        return recorded(key[0], cursor.fetchall(), {key[1]: conversation_id}, judge)

    def _note_seen(self, found: Sequence[Recorded]) -> None:
        """Note the last event of a conversation: states are made of what was read."""
        if found:
            last = found[-1]
            if last.position > self._seen.get(last.lane, (0, ""))[0]:
                self._seen[last.lane] = last.position, anchor_of(last)

    def conversation(self, conversation_id: str, after: int = 0) -> Iterator[Recorded]:
        """Yield the events of a conversation after a version; see `Storage.conversation`."""
        after = after or BEFORE_ALL  # an event whose version is damaged must not go unnoticed

        def read() -> list[Recorded]:
            with self.cursor() as cursor:
                key = self._key(cursor, conversation_id)
                if key is None:
                    return []
                cursor.execute(self._sql.conversation, (*key, after, self._limits.chunk_rows))
                judge = partial(self._problems_on, cursor)
                found = recorded(key[0], cursor.fetchall(), {key[1]: conversation_id}, judge)
                check_first(found)
                return found

        while True:
            found = self.retrying(read)
            self._note_seen(found)
            yield from found
            if len(found) < self._limits.chunk_rows:
                return
            after = found[-1].version

    def feed(
        self,
        after: Mapping[int, int],
        limit: int | None = None,
        until: Mapping[int, int] | None = None,
    ) -> Iterator[Recorded]:
        """Yield the events after each lane's position; see `Storage.feed`."""
        for page in self._pages(DECODERS, after, limit, until):
            yield from page

    def headers(
        self, after: Mapping[int, int], limit: int | None = None
    ) -> Iterator[Sequence[Recorded]]:
        """Yield the same as `feed`, as headers; see `Storage.headers`."""
        return self._pages(HEADER_DECODERS, after, limit, None)

    def _pages(
        self,
        decoders: Decoders,
        after: Mapping[int, int],
        limit: int | None,
        until: Mapping[int, int] | None,
    ) -> Iterator[Sequence[Recorded]]:
        """Yield the events of the feed, many at a time."""
        left = sys.maxsize if limit is None else limit
        for lane in self.lanes:
            position = after.get(lane, 0)
            end = sys.maxsize if until is None else until.get(lane, 0)
            while left > 0 and position < end:
                count = min(self._limits.chunk_rows, end - position)
                rows = self.rows(self._sql.feed, lane, position, count)
                names = self.names_of(lane, (row[1] for row in rows))
                if until is not None:
                    self._check_gapless(lane, position, count, rows)
                ours = rows if all(names.values()) else [row for row in rows if names[row[1]]]
                if ours:
                    yield recorded(lane, ours[:left], names, self.problems, decoders)
                left -= len(ours)
                if len(rows) < self._limits.chunk_rows:
                    break
                position = rows[-1][0]

    def forget(self) -> None:
        """Forget which conversation has which key: after a loss it may be another one's."""
        self._keys = {}  # new ones: other threads may be reading the old
        self._conversation_ids = {}

    def _gave_up(self) -> None:
        self.forget()

    def problems(self, lane: int, first: int, last: int) -> dict[int, str]:
        """Return what is wrong with the rows from one position to another, by position."""

        def read() -> dict[int, str]:
            with self.cursor() as cursor:
                return self._problems_on(cursor, lane, first, last)

        return self.retrying(read)

    def _problems_on(self, cursor: DBAPICursor, lane: int, first: int, last: int) -> dict[int, str]:
        cursor.execute(self._checks.events, (lane, first - 1, last - first + 1))
        rows = [StoredRow(*row) for row in cursor.fetchall()]
        firsts: dict[object, bytes] = {}
        for key in [row.conversation for row in rows if row.version == 1]:
            if isinstance(key, int):
                cursor.execute(self._checks.conversations, (lane, key - 1, 1))
                for found, tenant, name, _ in cursor.fetchall():
                    if found == key and None not in (tenant, name):
                        firsts[key] = conversation_digest(bytes(tenant), bytes(name))
        return problems(rows, firsts)

    def _check_gapless(self, lane: int, after: int, count: int, rows: Sequence[Any]) -> None:
        """Refuse to pass over a position that should be there."""
        if len(rows) == count and rows[-1][0] == after + count:
            return  # they are distinct and in order: so none is missing
        there = {row[0] for row in rows}
        missing = next(at for at in range(after + 1, after + count + 1) if at not in there)
        self._raise(
            StoreCorrupt(
                f"lane {lane} has no event at position {missing}, but it has later ones: run "
                "`toolledger verify`, and restore the database from a copy"
            )
        )

    def names_of(self, lane: int, keys: Iterable[int]) -> dict[int, str | None]:
        """Return the ids of the conversations with these keys, None for those of other tenants."""
        known = self._conversation_ids
        if len(known) >= self._limits.cached_keys:
            known = self._conversation_ids = {}  # a new one: other threads may be reading the old
        some = set(keys)
        new = iter([key for key in some if (lane, key) not in known])
        while asked := list(islice(new, self._limits.ids_per_query)):
            ids = dict.fromkeys(asked)
            for key, tenant, name in self.rows(self._sql.names(asked), lane, *asked):
                ids[key] = name if tenant == self._tenant else None
            known.update({(lane, key): name for key, name in ids.items()})
        return {key: known[lane, key] for key in some}

    def by_fingerprint(self, digest: bytes) -> Iterator[Recorded]:
        """Yield the events of all calls with these arguments; see `Storage.by_fingerprint`."""
        for lane in self.lanes:
            places = self.rows(self._sql.fingerprint, lane, bytearray(digest))
            for conversation, found in groupby(places, key=lambda place: place[0]):
                name = self.names_of(lane, [conversation])[conversation]
                if name is None:
                    continue
                first = next(found)[1]
                for event in self.conversation(name, after=first - 1):
                    if event.fingerprint == render(digest):
                        yield event

    def known_ids(self, conversation_id: str, event_ids: Sequence[bytes]) -> dict[bytes, int]:
        """Return which event ids are stored already; see `Storage.known_ids`."""

        def read() -> dict[bytes, int]:
            known: dict[bytes, int] = {}
            with self.cursor() as cursor:
                key = self._find(cursor, conversation_id, self.lane_of(conversation_id))
                for event_id in event_ids if key else ():
                    cursor.execute(self._sql.known, (*(key or ()), bytearray(event_id)))
                    row = cursor.fetchone()
                    if row:
                        known[event_id] = row[0]
                if known:
                    self._wait_until_lasting(cursor)
            return known

        return self.retrying(read)

    def event_id_at(self, conversation_id: str, version: int) -> bytes | None:
        """Return the id of the event at a version; see `Storage.event_id_at`."""

        def read() -> bytes | None:
            with self.cursor() as cursor:
                key = self._find(cursor, conversation_id, self.lane_of(conversation_id))
                if key is None:
                    return None
                cursor.execute(self._sql.event_id, (*key, version))
                row = cursor.fetchone()
                if row is None:
                    return None
                self._wait_until_lasting(cursor)
                return bytes(row[0])

        return self.retrying(read)

    def conversations(self) -> Iterator[tuple[str, int]]:
        """Yield the tenant's conversations with their versions; see `Storage.conversations`."""
        for lane in self.lanes:
            for rows in self.chunks(self._sql.conversations, lane, self._tenant):
                for _, conversation_id, version in rows:
                    yield conversation_id, version

    def chunks(self, statement: str, *of: object) -> Iterator[list[Any]]:
        """Yield all that a statement finds, in the order of its rows' first column."""
        after = 0

        def read() -> list[Any]:
            with self.cursor() as cursor:
                cursor.execute(statement, (*of, after, self._limits.chunk_rows))
                rows = list(cursor.fetchall())
                if rows:
                    self._wait_until_durable(cursor)
                return rows

        while True:
            rows = self.retrying(read)
            yield rows
            if len(rows) < self._limits.chunk_rows:
                return
            after = rows[-1][0]

    def versions(self, conversation_ids: Iterable[str]) -> dict[str, int]:
        """Return the versions of those that have begun; see `Storage.versions`."""
        wanted = list(conversation_ids)  # read again where the connection was lost

        def read() -> dict[str, int]:
            names: dict[tuple[int, int], str] = {}
            versions: dict[str, int] = {}
            with self.cursor() as cursor:
                for name in wanted:
                    key = self._key(cursor, name)
                    if key is not None:
                        names[key] = name
                keys = iter(names)
                while some := list(islice(keys, self._limits.chunk_rows)):
                    cursor.execute(self._sql.versions(some))
                    versions |= {names[lane, key]: at for lane, key, at in cursor.fetchall()}
                if versions:
                    self._wait_until_durable(cursor)
            return versions

        return self.retrying(read)

    def heads(self) -> dict[int, int]:
        """Return the last position of each lane."""
        return dict(self.rows("SELECT lane, position FROM toolledger_lanes ORDER BY lane"))

    def anchors_at(self, positions: Mapping[int, int]) -> dict[int, str]:
        """Return the anchor of the event at a position of each lane; see `Storage.anchors_at`."""
        wanted = {lane: position for lane, position in positions.items() if position > 0}
        if not wanted:
            return {}
        statement = self._sql.anchors_at(len(wanted))
        return anchors_by_lane(self.rows(statement, *chain(*wanted.items())))

    def _wait_until_durable(self, cursor: DBAPICursor) -> None:
        """Wait until no crash of the database can take back what was read; here it never can."""

    def _wait_until_lasting(self, cursor: DBAPICursor) -> None:
        """Wait until neither a crash nor a failover can take back the events that were found."""
        self._wait_until_durable(cursor)

    @contextmanager
    def hints(self, _: Callable[[], object], /) -> Generator[None]:
        """Give no hints; see `Storage.hints`."""
        yield
