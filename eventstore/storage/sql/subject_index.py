"""The index of subjects: which events, of all tenants, are about which person.

1. A subject is a keyed digest: see `eventstore.subjects.secret`. No name is in the database.
2. The tags of new events are written in their transaction, by the `log_writer`. What is tagged
   later is written here, with the lane locked.
3. The digest that recognises the secret stands at lane 0, for conversation 0, which there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Integer, and_, bindparam, delete, exists, func, or_, select
from sqlalchemy.sql.expression import literal_column

from eventstore.errors import StoreCorrupt, WrongKey
from eventstore.storage.chain import is_sound_tag
from eventstore.storage.sql.archiving import as_recorded
from eventstore.storage.sql.rows import NO_CONVERSATION, sound_tags, tag_row
from eventstore.storage.sql.schema import conversations, events, subjects
from eventstore.storage.sql.statements import compiled
from eventstore.subjects.tags import WHOLE, Tag, TaggedConversation

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Select
    from sqlalchemy.engine import Dialect
    from sqlalchemy.engine.interfaces import DBAPICursor

    from eventstore.storage.sql.conversation_keys import Key
    from eventstore.storage.sql.reader import LogReader

T = TypeVar("T")

InTransaction = Callable[[Callable[["DBAPICursor"], T]], T]
"""Calls a function with a cursor in a transaction that writes, and commits it."""

_s, _c, _e = subjects.c, conversations.c, events.c


class SubjectStatements:
    """The statements of the index, compiled for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self.of_conversation = compiled(dialect, _of_conversation(), ("at", "key"))
        self.conversations = compiled(dialect, _conversations(), ("at", "subject", "after", "most"))
        names = ("at", "subject", "key", "after", "most")
        self.versions = compiled(dialect, _versions(), names)
        self.shared = compiled(dialect, _shared(), ("at", "subject", "subject"))
        self.tenants = compiled(dialect, select(_c.tenant).distinct().order_by(_c.tenant), ())
        self.head = compiled(dialect, _head(), ("at", "key"))
        self.remove = compiled(dialect, _remove(), ("at", "subject", "key", "version"))


class SqlSubjectIndex:
    """The index in a SQL database; see `eventstore.subjects.tags.SubjectIndex`."""

    def __init__(self, reader: LogReader, in_transaction: InTransaction[Any]) -> None:
        self._reader = reader
        self._log = reader.log
        self._rows = reader.connections.rows
        self._in_transaction = in_transaction
        self._sql = SubjectStatements(reader.connections.engine.dialect)

    def recognise(self, check: bytes) -> None:
        """Refuse another secret than that of the tags that are there; note the first one."""
        rows = self._rows(self._sql.of_conversation, 0, NO_CONVERSATION)
        if self._recognised(rows, check) or self._log.backend.read_only:
            return

        def note(cursor: DBAPICursor) -> None:
            self._log.counters.lock(cursor, 0)
            cursor.execute(self._sql.of_conversation, (0, NO_CONVERSATION))
            if not self._recognised(cursor.fetchall(), check):
                cursor.execute(self._log.sql.tag, tag_row(0, check, NO_CONVERSATION, 0))

        self._in_transaction(note)

    @staticmethod
    def _recognised(rows: Sequence[Any], check: bytes) -> bool:
        if rows and not is_sound_tag(0, rows[0][1], NO_CONVERSATION, *rows[0][::2]):
            raise StoreCorrupt(
                "the row that recognises the secret of the subjects is not as it was written: run "
                "`toolledger verify`, and restore the database from a copy"
            )
        if rows and bytes(rows[0][1]) != check:
            raise WrongKey(
                "the events of this log were tagged under another secret: open it with the secret "
                "that it was first opened with, or no subject is found; nothing was done"
            )
        return bool(rows)

    def add(self, conversation_id: str, subject: bytes, versions: Iterable[int]) -> int:
        """Add tags to events of the tenant that are stored; return how many are new."""
        wanted = set(versions)

        def write(cursor: DBAPICursor) -> int:
            self._log.counters.lock(cursor, self._log.keys.lane_of(conversation_id))
            key = self._log.keys.find(cursor, conversation_id)
            last = 0 if key is None else self._head_of(cursor, key)
            if key is None or max(wanted, default=0) > last:
                raise ValueError(
                    f"conversation {conversation_id!r} has no version {max(wanted, default=0) or 1}"
                    f", it ends at {last}: nothing was tagged"
                )
            lane, conversation = key
            there: set[int] = set()
            after = -1
            while True:
                cursor.execute(
                    self._sql.versions,
                    (lane, bytearray(subject), conversation, after, self._chunk),
                )
                found = [row[0] for row in cursor.fetchall()]
                there.update(found)
                if len(found) < self._chunk:
                    break
                after = found[-1]
            rows = [tag_row(lane, subject, conversation, v) for v in sorted(wanted - there)]
            if rows:
                cursor.executemany(self._log.sql.tag, rows)
            return len(rows)

        added: int = self._in_transaction(write)
        return added

    def tags_of(self, conversation_id: str) -> Sequence[Tag]:
        """Return the tags of a conversation of the tenant, without damaged ones."""
        with self._reader.connections.cursor() as cursor:
            key = self._log.keys.find(cursor, conversation_id)
        if key is None:
            return []
        rows = self._rows(self._sql.of_conversation, *key)
        return sound_tags(*key, rows)

    def find(self, subject: bytes) -> Iterator[TaggedConversation]:
        """Yield the conversations, of all tenants, with events about a subject."""
        digest = bytearray(subject)
        for lane in self._log.lanes:
            keys = [
                row[0]
                for rows in self._reader.chunks(self._sql.conversations, lane, digest)
                for row in rows
            ]
            if not keys:
                continue
            others: dict[int, set[int]] = {}
            for key, version in self._rows(self._sql.shared, lane, digest, digest):
                others.setdefault(key, set()).add(version)
            for key in keys:
                yield self._tagged(lane, key, digest, others.get(key, set()))

    def _tagged(
        self, lane: int, key: int, digest: bytearray, others: set[int]
    ) -> TaggedConversation:
        ((_, tenant, name),) = self._rows(self._log.sql.names([key]), lane, key) or [
            (key, "", None)
        ]
        last = None if name is None else self._rows(self._sql.head, lane, key)[0][0]
        name = f"(conversation {key} of lane {lane})" if name is None else name
        versions: list[int] = []
        unsound = 0
        for rows in self._reader.chunks(self._sql.versions, lane, digest, key, after=-1):
            for version, found in rows:
                is_there = last is not None and version <= last
                if is_there and is_sound_tag(lane, digest, key, version, found):
                    versions.append(version)
                else:
                    unsound += 1
        damage = f"{unsound} tags are damaged, or name no event that is there" if unsound else None
        place = None
        try:
            for row in self._rows(self._log.sql.archived, lane, key):
                place = as_recorded(name, row).place
        except StoreCorrupt as error:
            versions, damage = [], str(error)
        is_whole, others_whole = WHOLE in versions, WHOLE in others
        shared = sorted(others if is_whole else set(versions) if others_whole else
                        others.intersection(versions))  # fmt: skip
        return TaggedConversation(
            lane, key, tenant, name, tuple(versions), tuple(shared), place, damage
        )

    def tenants(self) -> Sequence[str]:
        """Return the tenants that have conversations."""
        return [row[0] for row in self._rows(self._sql.tenants)]

    def remove(
        self, subject: bytes, of: TaggedConversation, versions: Iterable[int], seen: int
    ) -> bool:
        """Remove tags; return False, and remove none, where `WHOLE` is among them, and not seen."""
        gone = sorted(set(versions))

        def write(cursor: DBAPICursor) -> bool:
            self._log.counters.lock(cursor, of.lane)
            if WHOLE in gone and self._head_of(cursor, (of.lane, of.key)) > seen:
                return False
            rows = [(of.lane, bytearray(subject), of.key, version) for version in gone]
            if rows:
                cursor.executemany(self._sql.remove, rows)
            return True

        removed: bool = self._in_transaction(write)
        return removed

    @property
    def _chunk(self) -> int:
        return self._log.backend.limits.chunk_rows

    def _head_of(self, cursor: DBAPICursor, key: Key) -> int:
        cursor.execute(self._sql.head, key)
        row = cursor.fetchone()
        return 0 if row is None or row[0] is None else int(row[0])


def _page(rows: Select[*tuple[Any, ...]]) -> Select[*tuple[Any, ...]]:
    return rows.limit(bindparam("most")).offset(literal_column("0"))


def _of_conversation() -> Select[*tuple[Any, ...]]:
    """Return the tags of a conversation. It looks through those of the lane: few ask for it."""
    at = and_(_s.lane == bindparam("at"), _s.conversation == bindparam("key"))
    return select(_s.version, _s.subject, _s.digest).where(at).order_by(_s.version)


def _conversations() -> Select[*tuple[Any, ...]]:
    of = and_(_s.lane == bindparam("at"), _s.subject == bindparam("subject"))
    rows = select(_s.conversation).distinct().where(of, _s.conversation > bindparam("after"))
    return _page(rows.order_by(_s.conversation))


def _versions() -> Select[*tuple[Any, ...]]:
    of = and_(
        _s.lane == bindparam("at"),
        _s.subject == bindparam("subject"),
        _s.conversation == bindparam("key"),
    )
    rows = select(_s.version, _s.digest).where(of, _s.version > bindparam("after"))
    return _page(rows.order_by(_s.version))


def _shared() -> Select[*tuple[Any, ...]]:
    """Return the tags of others on events of a subject: one look through those of the lane."""
    own = subjects.alias("own").c
    whole: ColumnElement[int] = literal_column(str(WHOLE), Integer)
    has_own = exists().where(
        own.lane == _s.lane,
        own.subject == bindparam("subject"),
        own.conversation == _s.conversation,
        or_(own.version == _s.version, own.version == whole, _s.version == whole),
    )
    other = and_(_s.lane == bindparam("at"), _s.subject != bindparam("subject"))
    return select(_s.conversation, _s.version).where(other, has_own).distinct()


def _head() -> Select[*tuple[Any, ...]]:
    at = and_(_e.lane == bindparam("at"), _e.conversation == bindparam("key"))
    return select(func.max(_e.version)).where(at)


def _remove() -> Any:
    return delete(subjects).where(
        _s.lane == bindparam("at"),
        _s.subject == bindparam("subject"),
        _s.conversation == bindparam("key"),
        _s.version == bindparam("version"),
    )
