"""Reading a log: its conversations and its feed, a chunk at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, Any

from eventstore.domain.codec import AS_STORED, DECODERS, Decoders
from eventstore.domain.envelopes import Place, is_envelope
from eventstore.domain.event_headers import HEADER_DECODERS
from eventstore.domain.events import UnknownEvent
from eventstore.domain.fingerprint import render
from eventstore.errors import ConversationArchived, StorageError, StoreCorrupt
from eventstore.storage.chain import conversation_digest, problems
from eventstore.storage.interface import StoredPayload
from eventstore.storage.sql.archiving import MOST_READS, not_recorded, refusal
from eventstore.storage.sql.check_statements import CheckStatements
from eventstore.storage.sql.counter_clauses import EVERY_COUNTER
from eventstore.storage.sql.lane_heads import LaneHeads
from eventstore.storage.sql.rows import BEFORE_ALL, anchors_by_lane, check_first, recorded
from eventstore.storage.sql.transaction_notes import NOWHERE, Anchor
from eventstore.storage.stored_row import StoredRow

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPICursor

    from eventstore.domain.events import Recorded
    from eventstore.storage.sql.conversation_keys import Key
    from eventstore.storage.sql.log import Log

_THE_END: Anchor = (sys.maxsize, bytearray(), 0)
"""What is taken for seen where nothing puts a log back."""

_MOST_COPIES = 10
"""How often a page is read while each time another copy of the database has its names."""


class LogReader:
    """The events of one tenant in a SQL database, to be read."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.connections = log.connections
        self._limits = log.backend.limits
        self._sql = log.sql
        self._keys = log.keys
        self._seen = log.seen
        self._note_seen: Callable[[Sequence[Recorded], Anchor], None] = log.seen.note
        # Where lanes live on several nodes, to look for each would ask all of them.
        has_blocks = log.backend.lanes_in_blocks and not log.backend.may_spread
        self._heads = LaneHeads(log) if has_blocks else None
        self._compares = not log.backend.single_connection  # nothing puts memory back

    @cached_property
    def checks(self) -> CheckStatements:
        """The statements by which stored rows are checked."""
        return CheckStatements(self.connections.engine.dialect, self.log.backend)

    def tail(
        self, cursor: DBAPICursor, key: Key, conversation_id: str, after: int
    ) -> list[Recorded]:
        """Return the events of a conversation after a version, as a transaction sees them."""
        cursor.execute(self._sql.tail, (*key, after))
        rows = cursor.fetchall()
        judge = partial(self._problems_on, cursor)
        names = {key[1]: conversation_id}
        found = recorded(key[0], rows, names, judge, vault=self.log.vault)
        refused = refusal(cursor, self._sql, key, conversation_id, found, len(rows))
        if refused is not None:
            raise refused
        return found

    def conversation(
        self, conversation_id: str, after: int = 0, decoders: Decoders = DECODERS
    ) -> Iterator[Recorded]:
        """Yield the events of a conversation after a version; see `Storage.conversation`."""
        after = after or BEFORE_ALL  # an event whose version is damaged must not go unnoticed
        is_first = True

        def read() -> tuple[list[Recorded], ConversationArchived | StoreCorrupt | None]:
            with self.connections.cursor() as cursor:
                for _ in range(MOST_READS):
                    page = self._rows_of(cursor, conversation_id, after, is_first=is_first)
                    found, refused = self._judged(cursor, conversation_id, decoders, *page)
                    if not isinstance(refused, StoreCorrupt):
                        return found, refused
                return [], not_recorded(conversation_id)

        while True:
            found, refused = self.connections.retrying(read)
            if refused is not None:
                raise refused
            yield from found
            if len(found) < self._limits.chunk_rows:
                return
            after, is_first = found[-1].version, False

    def _judged(
        self,
        cursor: DBAPICursor,
        conversation_id: str,
        decoders: Decoders,
        rows: Sequence[Any],
        lane: int,
        seen: Anchor | None,
    ) -> tuple[list[Recorded], ConversationArchived | StoreCorrupt | None]:
        """Return the events of a chunk, or those that are there, and why others are not."""
        if not rows:
            return [], None
        key = lane, rows[0][1]
        judge = partial(self._problems_on, cursor)
        names = {key[1]: conversation_id}
        found = recorded(lane, rows, names, judge, decoders, self.log.vault)
        check_first(found)
        refused = refusal(cursor, self._sql, key, conversation_id, found, len(rows))
        if refused is None and seen is not None and found[-1].position > seen[0]:
            self._note_seen(found, seen)
        return found, refused

    def _rows_of(
        self, cursor: DBAPICursor, conversation_id: str, after: int, *, is_first: bool
    ) -> tuple[Sequence[Any], int, Anchor | None]:
        """Return a chunk of a conversation, its lane, and what was in its place there meanwhile.

        That is None where the lane has not what was seen of it.

        Raises:
            StoreCorrupt: another copy of the database had the chunks before this one.
        """
        sql, keys, most = self._sql, self._keys, self._limits.chunk_rows
        known = keys.known
        key = known.get(conversation_id)
        lane = keys.lane_of(conversation_id) if key is None else key[0]
        seen = self._seen.furthest.get(lane, NOWHERE)
        compares = self._compares and seen is not NOWHERE
        page: tuple[Any, ...]
        if key is not None and key[1] <= seen[0]:
            page = lane, key[1], after, most
            statement = sql.conversation_known if compares else sql.conversation
        else:
            page = lane, lane, self.log.tenant, conversation_id, after, most
            statement = sql.named_known if compares else sql.named
        cursor.execute(statement, (lane, *seen, *page) if compares else page)
        rows = sql.seen_rows(cursor.fetchall()) if compares else cursor.fetchall()
        if rows is not None:
            if key is None and rows and keys.known is known:
                keys.remember({conversation_id: (lane, rows[0][1])})
            return rows, lane, seen
        if self._seen.notice(cursor, lane) and not is_first:
            raise StoreCorrupt(self._seen.refusal)
        cursor.execute(sql.named, (lane, lane, self.log.tenant, conversation_id, after, most))
        return cursor.fetchall(), lane, None

    def feed(
        self,
        after: Mapping[int, int],
        limit: int | None = None,
        until: Mapping[int, int] | None = None,
    ) -> Iterator[Recorded]:
        """Yield the events after each lane's position; see `Storage.feed`."""
        return chain.from_iterable(self._pages(DECODERS, after, limit, until))

    def headers(
        self, after: Mapping[int, int], limit: int | None = None
    ) -> Iterator[Sequence[Recorded]]:
        """Yield the same as `feed`, as headers; see `Storage.headers`."""
        return self._pages(HEADER_DECODERS, after, limit, None)

    def as_stored(self, conversation_id: str | None = None) -> Iterator[Recorded]:
        """Yield the events of a conversation, or of all, as `codec.AS_STORED` reads them.

        Raises:
            StoreCorrupt: an event can be read, and does not match its digest.
        """
        if conversation_id is not None:
            found = self.conversation(conversation_id, decoders=AS_STORED)
        else:
            found = chain.from_iterable(self._pages(AS_STORED, {}, None, None))
        while events := list(islice(found, self._limits.chunk_rows)):
            self._check_digests(events)
            yield from events

    def _check_digests(self, events: Sequence[Recorded]) -> None:
        """Refuse altered events that can be read: a copy would have sound digests of them."""
        # Positions that follow one another, in one lane, are checked at once.
        numbered = enumerate(events)
        for _, run in groupby(numbered, lambda each: (each[1].lane, each[1].position - each[0])):
            rows = [event for _, event in run]
            wrong = self.problems(rows[0].lane, rows[0].position, rows[-1].position)
            for event in rows if wrong else ():
                problem = wrong.get(event.position)
                if problem and not (type(event.event) is UnknownEvent and event.event.damage):
                    raise StoreCorrupt(
                        f"version {event.version} of conversation {event.conversation_id!r}: "
                        f"{problem}, and a copy of it would look sound: see `toolledger verify`, "
                        "and restore the database from a copy"
                    )

    def _pages(
        self,
        decoders: Decoders,
        after: Mapping[int, int],
        limit: int | None,
        until: Mapping[int, int] | None,
    ) -> Iterator[Sequence[Recorded]]:
        """Yield the events of the feed, many at a time."""
        left = sys.maxsize if limit is None else limit
        for lane in self.log.lanes:
            position = after.get(lane, 0)
            end = sys.maxsize if until is None else until.get(lane, 0)
            while left > 0 and position < end:
                count = min(self._limits.chunk_rows, end - position)
                rows, names = self._feed_rows(lane, position, count)
                if until is not None:
                    self._check_gapless(lane, position, count, rows)
                ours = rows if all(names.values()) else [row for row in rows if names[row[1]]]
                some, vault = ours[:left], self.log.vault
                page = recorded(lane, some, names, self.problems, decoders, vault) if some else []
                if page:
                    yield page
                left -= len(page)
                if len(rows) < self._limits.chunk_rows and len(some) == len(ours):
                    break
                position = rows[-1][0] if len(some) == len(ours) else some[-1][0]

    def _feed_rows(
        self, lane: int, after: int, most: int
    ) -> tuple[Sequence[Any], Mapping[int, str | None]]:
        """Return rows of a lane, and the names of their conversations; see `names_of`.

        Raises:
            StorageError: again and again the names were those of another copy of the database.
        """
        keys, sql, rows = self._keys, self._sql, self.connections.rows
        for _ in range(_MOST_COPIES):
            seen = keys.named_up_to.get(lane, NOWHERE) if self._compares else _THE_END
            found: Sequence[Any] | None
            if seen is NOWHERE or seen is _THE_END:
                found = rows(sql.feed, lane, after, most)
            else:
                found = sql.seen_rows(rows(sql.feed_known, lane, *seen, lane, after, most))
            names = None if found is None else keys.names_of(lane, found, seen)
            if found is not None and names is not None:
                return found, names
            keys.forget_names()
        raise StorageError(
            f"lane {lane} was another one at each read: see that one server answers, and try again"
        )

    def problems(self, lane: int, first: int, last: int) -> dict[int, str]:
        """Return what is wrong with the rows from one position to another, by position."""

        def read() -> dict[int, str]:
            with self.connections.cursor() as cursor:
                return self._problems_on(cursor, lane, first, last)

        return self.connections.retrying(read)

    def _problems_on(self, cursor: DBAPICursor, lane: int, first: int, last: int) -> dict[int, str]:
        cursor.execute(self.checks.events, (lane, first - 1, last - first + 1))
        rows = [StoredRow(*row) for row in cursor.fetchall()]
        firsts: dict[object, bytes] = {}
        for key in [row.conversation for row in rows if row.version == 1]:
            if isinstance(key, int):
                cursor.execute(self.checks.conversations, (lane, key - 1, 1))
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
        self.connections.raise_ours(
            StoreCorrupt(
                f"lane {lane} has no event at position {missing}, but it has later ones: run "
                "`toolledger verify`, and restore the database from a copy"
            )
        )

    def payloads(self, conversation_id: str) -> Iterator[StoredPayload]:
        """Yield the payloads of a conversation as they are stored; see `Storage.payloads`."""
        with self.connections.cursor() as cursor:
            key = self._keys.find(cursor, conversation_id)
        if key is None:
            return
        for rows in self.chunks(self._sql.payloads, *key):
            for version, tag, schema, payload, mark, salt, event_id in rows:
                stored = bytes(payload)
                plain = None
                if self.log.vault is not None and is_envelope(stored):
                    place = Place(conversation_id, bytes(event_id), tag, schema)
                    plain = self.log.vault.decrypt(place, stored)
                yield StoredPayload(
                    version,
                    tag,
                    schema,
                    stored,
                    None if mark is None else bytes(mark),
                    b"" if salt is None else bytes(salt),
                    plain,
                )

    def by_fingerprint(self, digest: bytes) -> Iterator[Recorded]:
        """Yield the events of all calls with these arguments; see `Storage.by_fingerprint`."""
        for lane in self.log.lanes:
            places = self.connections.rows(self._sql.fingerprint, lane, bytearray(digest))
            for _, found in groupby(places, key=lambda place: place[1]):
                first, _, tenant, name = next(found)
                if tenant != self.log.tenant:
                    continue
                for event in self.conversation(name, after=first - 1):
                    if event.fingerprint == render(digest):
                        yield event

    def conversations(self) -> Iterator[tuple[str, int]]:
        """Yield the tenant's conversations with their versions; see `Storage.conversations`."""
        for lane in self.log.lanes:
            for rows in self.chunks(self._sql.conversations, lane, lane, self.log.tenant):
                for _, conversation_id, version in rows:
                    yield conversation_id, version

    def chunks(self, statement: str, *of: object, after: int = 0) -> Iterator[list[Any]]:
        """Yield all that a statement finds, in the order of its rows' first column."""

        def read() -> list[Any]:
            with self.connections.cursor() as cursor:
                cursor.execute(statement, (*of, after, self._limits.chunk_rows))
                rows = list(cursor.fetchall())
                if rows:
                    self.wait_until_durable(cursor)
                return rows

        while True:
            rows = self.connections.retrying(read)
            yield rows
            if len(rows) < self._limits.chunk_rows:
                return
            after = rows[-1][0]

    def versions(self, conversation_ids: Iterable[str]) -> dict[str, int]:
        """Return the versions of those that have begun; see `Storage.versions`."""
        wanted: dict[int, dict[str, None]] = {}
        for name in conversation_ids:
            wanted.setdefault(self._keys.lane_of(name), {})[name] = None

        def read() -> dict[str, int]:
            versions: dict[str, int] = {}
            with self.connections.cursor() as cursor:
                for lane, names in wanted.items():
                    left = iter(names)
                    while some := list(islice(left, self._limits.ids_per_query)):
                        statement = self._sql.versions_of(some)
                        cursor.execute(statement, (lane, lane, self.log.tenant, *some))
                        versions |= dict(cursor.fetchall())
                if versions:
                    self.wait_until_durable(cursor)
            return versions

        return self.connections.retrying(read)

    def heads(self) -> dict[int, int]:
        """Return the last position of each lane."""
        if self._heads is None:
            return dict(self.connections.rows(EVERY_COUNTER))
        return self._heads.read()

    def anchors_at(self, positions: Mapping[int, int]) -> dict[int, str]:
        """Return the anchor of the event at a position of each lane; see `Storage.anchors_at`."""
        wanted = {lane: position for lane, position in positions.items() if position > 0}
        if not wanted:
            return {}
        statement = self._sql.anchors_at(len(wanted))
        return anchors_by_lane(self.connections.rows(statement, *chain(*wanted.items())))

    def wait_until_durable(self, cursor: DBAPICursor) -> None:
        """Wait until no crash of the database can take back what was read; here it never can."""
