"""Checking a log: what is wrong with its stored rows.

1. The database checks its own files first, where it can.
2. The row of the store, the counters of the lanes, and the list of conversations are checked.
3. Each event must be at the next position of its lane, have the next version of its conversation,
   and the digest that the chain expects (see `eventstore.storage.chain`).
4. A call must be recorded under the fingerprint of its arguments, unless they were redacted, or an
   older version stored more levels of them than this one reads.
5. The index of fingerprints and the table of given ids must have no row without its event; one that
   they lack is noticed by the chain.
6. A tag of a subject must have its digest, and its event. One that was removed is not noticed.

So a change of any stored value that means anything is named. What a database stores beside the
values (free space, statistics) means nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from eventstore.domain.codec import decode, stored_levels
from eventstore.domain.detached import EventsArchived, is_detached
from eventstore.domain.envelopes import is_envelope
from eventstore.domain.events import ToolApproved, ToolPending
from eventstore.domain.fingerprint import slice_of
from eventstore.domain.nesting import nests_too_deeply
from eventstore.domain.redaction import is_marker
from eventstore.errors import StoreCorrupt, UnhashableArguments
from eventstore.storage.chain import (
    conversation_digest,
    is_sound_store,
    is_sound_tag,
    row_problem,
)
from eventstore.storage.detached_rows import ArchiveRow, DetachedRows, of_rows
from eventstore.storage.interface import Damage
from eventstore.storage.markers import Markers
from eventstore.storage.migrations import VERSION_TABLE, is_revision
from eventstore.storage.sql.archives import rows_of
from eventstore.storage.sql.counter_clauses import EVERY_COUNTER
from eventstore.storage.sql.rows import NO_CONVERSATION
from eventstore.storage.stored_row import StoredRow
from eventstore.subjects.tags import WHOLE

if TYPE_CHECKING:
    from eventstore.domain.calls import FunctionCall
    from eventstore.storage.sql.reader import LogReader


ARCHIVED = EventsArchived.tag.encode()
AFTER_ALL_SUBJECTS = bytearray(b"\xff" * 17)
"""Bytes that come after all digests."""

_REVISIONS = f"SELECT version_num FROM {VERSION_TABLE}"

_TAGS_WITH_CALLS = frozenset({ToolPending.tag.encode(), ToolApproved.tag.encode()})


class _Listed(NamedTuple):
    """A conversation as it is listed."""

    name: str | None
    """Its id, None for one of another tenant."""
    digest: bytes


def verify(reader: LogReader) -> Iterator[Damage]:
    """Report what is wrong with the stored rows; see `Storage.verify`."""
    try:
        for problem in list(reader.log.backend.damage(reader.connections.rows)):
            yield Damage(-1, None, None, None, problem)
        yield from _verify_store(reader)
        heads: dict[int, object] = {}
        for lane, position in reader.connections.rows(EVERY_COUNTER):
            if lane in heads:
                problem = f"the lane has two heads, {heads[lane]!r} and {position!r}"
                yield Damage(lane, None, None, None, problem)
            heads[lane] = position
        for lane in heads.keys() - set(reader.log.lanes):
            yield Damage(-1, None, None, None, f"there is a counter for a lane {lane!r}")
        for lane in reader.log.lanes:
            if lane not in heads:
                yield Damage(lane, None, None, None, "the lane's head is missing")
            yield from _LaneCheck(reader, lane, heads.get(lane)).run()
    except StoreCorrupt as error:
        yield Damage(-1, None, None, None, f"the check had to end here: {error}")


def lanes_behind(reader: LogReader) -> dict[int, int]:
    """Return where the last event is of each lane whose head is behind it.

    Raises:
        StoreCorrupt: more is wrong with the log than such heads.
    """
    rows = reader.connections.rows
    found = {
        lane: (head, last)
        for lane in reader.log.lanes
        for head, last, *_ in rows(reader.log.sql.whole(lane))
        if last is not None and last > head
    }
    if found:
        expected = {(lane, _behind(head)) for lane, (head, _) in found.items()}
        for damage in verify(reader):
            if (damage.lane, damage.problem) not in expected:
                lane, (head, last) = next(iter(found.items()))
                raise StoreCorrupt(
                    f"lane {lane}: its head is at position {head}, and its events go up to {last}; "
                    "the heads cannot be set to the last events, as more is wrong (lane "
                    f"{damage.lane}: {damage.problem}): restore the whole database; nothing was "
                    "changed"
                )
    return {lane: last for lane, (_, last) in found.items()}


def _verify_store(reader: LogReader) -> Iterator[Damage]:
    rows = reader.connections.rows(reader.checks.store)
    if [row[0] for row in rows] != list(range(1, max(len(rows), 1) + 1)):
        problem = "the rows of toolledger_store are not numbered from 1 without gaps"
        yield Damage(-1, None, None, None, problem)
    for _, epoch, lanes, created_at, digest in rows:
        if not is_sound_store(epoch, lanes, created_at, digest):
            yield Damage(-1, None, None, None, "a row of toolledger_store is not as written")
    revisions = [row[0] for row in reader.connections.rows(_REVISIONS)]
    if len(revisions) != 1 or not is_revision(revisions[0]):
        problem = f"{VERSION_TABLE} has {revisions!r}, which no version of toolledger writes"
        yield Damage(-1, None, None, None, problem)


class _LaneCheck:
    """The check of one lane."""

    def __init__(self, reader: LogReader, lane: int, head: object) -> None:
        self._reader = reader
        self._sql = reader.checks
        self._lane = lane
        self._head = head
        self._listed: dict[object, _Listed] = {}
        self._versions: dict[object, object] = {}  # of the conversations, as far as they are read
        self._markers = Markers()
        self._archives: dict[object, DetachedRows] = {}

    def run(self) -> Iterator[Damage]:
        """Yield what is wrong."""
        for rows in self._reader.chunks(self._sql.conversations, self._lane):
            for row in rows:
                yield from self._list(row)
        last = 0
        for rows in self._reader.chunks(self._sql.events, self._lane):
            for row in map(StoredRow._make, rows):
                yield from self._event(row, last)
                self._markers.take(row)
                self._take_archived(row)
                last = row.position
        for key in self._listed.keys() - self._versions.keys():
            yield self._damage(None, key, None, "the conversation is listed, and has no event")
        yield from self._verify_archives()
        for key, version, problem in self._markers.problems():
            if key not in self._archives:  # their events were archived, or came back, meanwhile
                yield self._damage(None, key, version, problem)
        yield from self._strays()
        yield from self._verify_tags()
        yield from self._verify_head(last)

    def _list(self, row: Sequence[Any]) -> Iterator[Damage]:
        key, tenant, name, part = row
        try:
            tenant, name = bytes(tenant), bytes(name)
            texts = tenant.decode(), name.decode()
        except (TypeError, ValueError):
            texts = None
        if texts is None:
            self._listed[key] = _Listed(None, b"")
            yield self._damage(None, key, None, "the id of the conversation cannot be read")
            return
        ours = texts[0] == self._reader.log.tenant
        self._listed[key] = _Listed(texts[1] if ours else None, conversation_digest(tenant, name))
        expected = slice_of(*texts)
        lane = expected * len(self._reader.log.lanes) // 1024
        if part != expected or lane != self._lane:
            yield self._damage(None, key, None, f"the slice {part!r} is not that of its id")

    def _event(self, row: StoredRow, last: int) -> Iterator[Damage]:
        key, version = row.conversation, row.version
        where = row.position, key, version
        if row.position != last + 1:
            yield self._damage(*where, f"positions {last + 1} to {row.position - 1} are missing")
        if key not in self._versions and key not in self._listed:
            yield from self._look_up(row)
        before = self._versions.get(key, 0)
        if not isinstance(version, int) or not isinstance(before, int) or version != before + 1:
            yield self._damage(*where, f"version {version} follows version {before}")
        if version == 1 and row.position != key:
            yield self._damage(*where, f"the key {key} is not the position of its first event")
        listed = self._listed.get(key)
        problem = row_problem(row, None if listed is None else listed.digest)
        if problem is None and not _has_its_fingerprint(row):
            problem = "the fingerprint is not that of the call's arguments"
        if problem is not None:
            yield self._damage(*where, problem)
        self._versions[key] = version

    def _look_up(self, row: StoredRow) -> Iterator[Damage]:
        """Look for a conversation that has begun since the others were read."""
        key = row.conversation
        if isinstance(key, int):
            statement = self._sql.conversations
            for found in self._reader.connections.rows(statement, self._lane, key - 1, 1):
                if found[0] == key:
                    yield from self._list(found)
                    return
        lost = "its conversation is not listed: no reader finds it"
        yield self._damage(row.position, key, row.version, lost)

    def _take_archived(self, row: StoredRow) -> None:
        payload, key = row.payload, row.conversation
        if not isinstance(payload, bytes | bytearray):
            return
        if is_detached(payload) or row.tag == ARCHIVED:
            self._archives.setdefault(key, DetachedRows()).take(row)

    def _verify_archives(self) -> Iterator[Damage]:
        listed: dict[object, ArchiveRow] = {}
        for rows in self._reader.chunks(self._sql.archives, self._lane):
            listed |= {key: ArchiveRow(*row) for key, *row in rows}
        for key in listed:
            self._archives.setdefault(key, DetachedRows())
        for key, found in self._archives.items():
            if found.problem(listed.get(key)) is not None:
                problem = self._archive_problem(key)
                if problem is not None:
                    yield self._damage(None, key, None, problem)

    def _archive_problem(self, key: object) -> str | None:
        """Look again: a conversation may have been archived, or restored, while it was read."""
        rows = self._reader.connections.rows
        while True:
            before = rows(self._sql.archives, self._lane, _before(key), 1)
            found = of_rows(rows_of(self._reader, self._lane, key))
            if rows(self._sql.archives, self._lane, _before(key), 1) == before:
                listed = next((ArchiveRow(*row) for of, *row in before if of == key), None)
                return found.problem(listed)

    def _strays(self) -> Iterator[Damage]:
        for statement, what in (
            (self._sql.stray_marks, "the index of fingerprints"),
            (self._sql.stray_ids, "the table of given ids"),
        ):
            for key, version in self._reader.connections.rows(statement, self._lane):
                yield self._damage(None, key, version, f"{what} has a row without its event")

    def _verify_tags(self) -> Iterator[Damage]:
        most = self._reader.log.backend.limits.chunk_rows
        place: tuple[object, ...] = AFTER_ALL_SUBJECTS, 0, 0
        while True:
            found = self._reader.connections.rows(
                self._sql.tags, self._lane, place[0], *place, most
            )
            for *place_, digest, conversation, event in found:
                subject, key, version = place = tuple(place_)
                problem = None
                if not is_sound_tag(self._lane, subject, key, version, digest):
                    problem = "a row of the index of subjects is not as it was written"
                elif key != NO_CONVERSATION and (
                    conversation is None or (version != WHOLE and event is None)
                ):
                    problem = "the index of subjects names an event that is not there"
                if problem is not None:
                    yield self._damage(None, key, version, problem)
            if len(found) < most:
                return

    def _verify_head(self, position: int) -> Iterator[Damage]:
        head = self._head
        if head is None:
            return
        if not isinstance(head, int):
            yield self._damage(position, None, None, f"the lane's head is {head!r}")
        elif position < head:
            missing = f"its last event is at {position}: {head - position} events are missing"
            yield self._damage(position, None, None, f"the lane's head is {head}, {missing}")
        elif position > head and self._reader.heads()[self._lane] < position:
            yield self._damage(position, None, None, _behind(head))

    def _damage(self, position: int | None, key: object, version: object, problem: str) -> Damage:
        listed = self._listed.get(key)
        name = None if listed is None else listed.name
        number = version if isinstance(version, int) else None
        return Damage(self._lane, position, name, number, problem)


def _behind(head: int) -> str:
    """Return what is wrong with a lane whose head is there, and has events after it."""
    return f"the lane's head {head} is behind its events"


def _before(key: object) -> int:
    return key - 1 if isinstance(key, int) else 0


def _has_its_fingerprint(row: StoredRow) -> bool:
    """Return whether an event with arguments, as it was written, has their fingerprint."""
    tag, payload, schema = row.tag, row.payload, row.schema
    if not isinstance(tag, bytes | bytearray) or bytes(tag) not in _TAGS_WITH_CALLS:
        return True
    if not isinstance(payload, bytes | bytearray) or not isinstance(schema, int):
        return True
    name = tag.decode()
    if (
        is_marker(payload)
        or is_detached(payload)
        or is_envelope(payload)
        or nests_too_deeply(bytes(payload), stored_levels(name))
    ):
        return True  # the arguments are not here, or are read as text
    event = decode(name, schema, bytes(payload))
    if isinstance(event, ToolPending):
        call: FunctionCall | None = event.call
    else:
        call = event.edited_call if isinstance(event, ToolApproved) else None
    try:
        return call is None or row.fingerprint == call.digest()
    except UnhashableArguments:  # which no version of the library has written
        return False
