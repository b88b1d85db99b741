"""Reading a log: its conversations and its feed, a chunk at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from eventstore.codec import DECODERS, Decoders
from eventstore.errors import StoreCorrupt
from eventstore.events import Recorded
from eventstore.fingerprint import render, slice_of
from eventstore.outline import OUTLINES
from eventstore.storage.connections import Connections, Done, fetching
from eventstore.storage.rows import recorded
from eventstore.storage.statements import Statements

if TYPE_CHECKING:
    from eventstore.storage.database import Database

CHUNK = 1000
"""Rows a read fetches at once: a read holds no transaction open between chunks."""

NAMED = 500
"""Conversations that are looked up at once."""

REMEMBERED = 10_000
"""Conversations whose keys are kept in memory."""


class Reader(Connections):
    """The events of one tenant in a SQL database, to be read."""

    def __init__(self, database: Database, tenant: str) -> None:
        self._tenant = tenant
        self._names: dict[tuple[int, int], str | None] = {}  # conversation key -> id, ours alone
        self._keys: dict[str, tuple[int, int]] = {}  # conversation id -> lane, key
        super().__init__(database)
        self._sql = Statements(self._engine.dialect)
        try:
            self._epoch, self._lanes = self._read_store()
        except BaseException:
            self.close()
            raise

    def _read_store(self) -> tuple[str, int]:
        rows = self.rows("SELECT epoch, lanes FROM toolledger_store")
        if not rows:
            raise StoreCorrupt("toolledger_store is empty: restore the database from a copy")
        return rows[0][0], rows[0][1]

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
        return self._epoch

    @property
    def lanes(self) -> range:
        """The numbers of the store's lanes."""
        return range(self._lanes)

    def lane_of(self, conversation_id: str) -> int:
        """The lane that a conversation is in."""
        return slice_of(self._tenant, conversation_id) * self._lanes // 1024

    def _key(self, cursor: Any, conversation_id: str) -> tuple[int, int] | None:
        return self._keys.get(conversation_id) or self._find(
            cursor, conversation_id, self.lane_of(conversation_id)
        )

    def _find(self, cursor: Any, conversation_id: str, lane: int) -> tuple[int, int] | None:
        cursor.execute(self._sql.find, (lane, self._tenant, conversation_id))
        row = cursor.fetchone()
        if row is None:
            return None
        key = (lane, row[0])
        self._remember({conversation_id: key})
        return key

    def _remember(self, keys: Mapping[str, tuple[int, int]]) -> None:
        if len(self._keys) >= REMEMBERED:
            self._keys.clear()
        self._keys |= keys

    def _tail(
        self, cursor: Any, key: tuple[int, int], conversation_id: str, after: int
    ) -> list[Recorded]:
        cursor.execute(self._sql.tail, (*key, after))
        return recorded(key[0], cursor.fetchall(), {key[1]: conversation_id})

    def conversation(self, conversation_id: str, after: int = 0) -> Iterator[Recorded]:
        """The events of a conversation after a version; see `Storage.conversation`."""

        def job(cursor: Any) -> list[Recorded]:
            key = self._key(cursor, conversation_id)
            if key is None:
                return []
            cursor.execute(self._sql.conversation, (*key, after, CHUNK))
            return recorded(key[0], cursor.fetchall(), {key[1]: conversation_id})

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
        for page in self._pages(DECODERS, after, limit, until):
            yield from page

    def outlines(
        self, after: Mapping[int, int], limit: int | None = None
    ) -> Iterator[Sequence[Recorded]]:
        """Their outlines, many at a time; see `Storage.outlines`."""
        return self._pages(OUTLINES, after, limit, None)

    def _pages(
        self,
        decoders: Decoders,
        after: Mapping[int, int],
        limit: int | None,
        until: Mapping[int, int] | None,
    ) -> Iterator[Sequence[Recorded]]:
        """The events of the feed, many at a time."""
        left = sys.maxsize if limit is None else limit
        for lane in self.lanes:
            position = after.get(lane, 0)
            end = sys.maxsize if until is None else until.get(lane, 0)
            while left > 0 and position < end:
                count = min(CHUNK, end - position)
                rows = self.rows(self._sql.feed, lane, position, count)
                names = self.names_of(lane, (row[1] for row in rows))
                if until is not None:
                    self._check_gapless(lane, position, count, rows)
                ours = rows if all(names.values()) else [row for row in rows if names[row[1]]]
                if ours:
                    yield recorded(lane, ours[:left], names, decoders)
                left -= len(ours)
                if len(rows) < CHUNK:
                    break
                position = rows[-1][0]

    def _check_gapless(self, lane: int, after: int, count: int, rows: Sequence[Any]) -> None:
        """Refuse to pass over a position that should be there."""
        if len(rows) == count and rows[-1][0] == after + count:
            return  # they are distinct and in order: so none is missing
        there = {row[0] for row in rows}
        missing = next(at for at in range(after + 1, after + count + 1) if at not in there)
        self._raise(StoreCorrupt(
            f"lane {lane} has no event at position {missing}, though it goes on behind it: run "
            "`toolledger verify`, and restore the database from a copy"
        ))  # fmt: skip

    def names_of(self, lane: int, keys: Iterable[int]) -> dict[int, str | None]:
        """The ids of the conversations with these keys, None where they are another tenant's."""
        known = self._names
        if len(known) >= REMEMBERED:
            known = self._names = {}  # a new one: other threads may be reading the old
        some = set(keys)
        new = iter([key for key in some if (lane, key) not in known])
        while asked := list(islice(new, NAMED)):
            ids = dict.fromkeys(asked)
            for key, tenant, name in self.rows(self._sql.names(asked), lane, *asked):
                ids[key] = name if tenant == self._tenant else None
            known.update({(lane, key): name for key, name in ids.items()})
        return {key: known[lane, key] for key in some}

    def by_fingerprint(self, digest: bytes) -> Iterator[Recorded]:
        """The events of all calls with these arguments; see `Storage.by_fingerprint`."""
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
        """Which event ids are stored already; see `Storage.known_ids`."""

        def job(cursor: Any) -> dict[bytes, int]:
            known: dict[bytes, int] = {}
            key = self._find(cursor, conversation_id, self.lane_of(conversation_id))
            for event_id in event_ids if key else ():
                cursor.execute(self._sql.known, (*(key or ()), bytearray(event_id)))
                row = cursor.fetchone()
                if row:
                    known[event_id] = row[0]
            return known

        return self._read_lasting(job)

    def conversations(self) -> Iterator[tuple[str, int]]:
        """The tenant's conversations with their versions; see `Storage.conversations`."""
        for lane in self.lanes:
            for rows in self.chunks(self._sql.conversations, lane, self._tenant):
                for _, conversation_id, version in rows:
                    yield conversation_id, version

    def chunks(self, statement: str, *of: Any) -> Iterator[list[Any]]:
        """All that a statement finds, in the order of its rows' first column."""
        after = 0
        while True:
            rows = self._read_lasting(fetching(statement, *of, after, CHUNK))
            yield rows
            if len(rows) < CHUNK:
                return
            after = rows[-1][0]

    def versions(self, conversation_ids: Iterable[str]) -> dict[str, int]:
        """The versions of those that have begun; see `Storage.versions`."""
        wanted = list(conversation_ids)  # read again where the connection was lost

        def job(cursor: Any) -> dict[str, int]:
            names: dict[tuple[int, int], str] = {}
            for name in wanted:
                key = self._key(cursor, name)
                if key is not None:
                    names[key] = name
            versions: dict[str, int] = {}
            keys = iter(names)
            while some := list(islice(keys, CHUNK)):
                cursor.execute(self._sql.versions(some))
                versions |= {names[lane, key]: at for lane, key, at in cursor.fetchall()}
            return versions

        return self._read_lasting(job)

    def heads(self) -> dict[int, int]:
        """The last position of each lane."""
        return dict(self.rows("SELECT lane, position FROM toolledger_lanes ORDER BY lane"))

    def _read_lasting(self, job: Callable[[Any], Done]) -> Done:
        """What a job reads, where a crash of the database could not take it back."""
        return self._read(job)

    @contextmanager
    def hints(self, _: Callable[[], object]) -> Iterator[None]:
        """Nobody tells; see `Storage.hints`."""
        yield
