"""The statements by which stored rows are checked, and archived."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Join, and_, bindparam, literal_column, select, tuple_

from eventstore.storage.sql import schema as tables
from eventstore.storage.sql.seen_clauses import FIRST_ROW, Rows, page
from eventstore.storage.sql.statements import compiled, conversation_rows, lane_rows

if TYPE_CHECKING:
    from sqlalchemy.engine import Dialect
    from sqlalchemy.sql.expression import ClauseElement

    from eventstore.storage.sql.backend import Backend

_e, _c, _f, _i, _a, _s = (
    tables.events.c,
    tables.conversations.c,
    tables.fingerprints.c,
    tables.event_ids.c,
    tables.archives.c,
    tables.subjects.c,
)
_previous = tables.events.alias("previous")

MAX_STRAYS = 1000
"""Rows of an index without an event that are reported of a lane at most."""


class CheckStatements:
    """The statements by which stored rows are checked.

    Damaged text may not be text any more, so that all text is read as bytes.
    """

    def __init__(self, dialect: Dialect, backend: Backend) -> None:
        def text(statement: ClauseElement, *parameters: str) -> str:
            return compiled(dialect, statement, parameters)

        self.events = text(page(_checked(backend)), "at", "after", "most")
        self.conversation = text(page(_checked_conversation(backend)), "at", "key", "after", "most")
        self.conversations = text(page(_checked_conversations(backend)), "at", "after", "most")
        self.archives = text(page(_checked_archives(backend)), "at", "after", "most")
        self.store = text(_checked_store(backend))
        before = ("subject", "subject", "key", "version")
        self.tags = text(page(_checked_tags()), "at", *before, "most")
        self.stray_marks = text(_stray(_f, _e.fingerprint == _f.fingerprint), "at")
        self.stray_ids = text(_stray(_i, _e.event_id == _i.event_id), "at")


def _checked(backend: Backend) -> Rows:
    """Return what is read to check the events of a lane; see `chain.StoredRow`."""
    columns, found = _checked_columns(backend)
    return lane_rows(columns, backend).select_from(found)


def _checked_conversation(backend: Backend) -> Rows:
    """Return the same of the events of a conversation, which are paged by their versions."""
    columns, found = _checked_columns(backend)
    return conversation_rows(columns).select_from(found)


def _checked_columns(backend: Backend) -> tuple[tuple[ColumnElement[Any], ...], Join]:
    """Return the columns that are read to check events, and where they are."""
    previous = _previous.c
    columns = (
        _e.position,
        _e.conversation,
        _e.version,
        _e.event_id,
        _e.recorded_at,
        _e.occurred_at,
        backend.text_as_stored(_e.tag),
        _e.schema,
        _e.fingerprint,
        _e.chain,
        backend.text_as_stored(_e.payload),
        previous.chain,
        _i.version,
        _f.version,
        _e.salt,
    )
    before = and_(
        previous.lane == _e.lane,
        previous.conversation == _e.conversation,
        previous.version == _e.version - literal_column("1"),
    )
    given = and_(
        _i.lane == _e.lane,
        _i.conversation == _e.conversation,
        _i.event_id == _e.event_id,
        _i.version == _e.version,
    )
    marked = and_(
        _f.lane == _e.lane,
        _f.fingerprint == _e.fingerprint,
        _f.conversation == _e.conversation,
        _f.version == _e.version,
    )
    found = (
        tables.events.outerjoin(_previous, before)
        .outerjoin(tables.event_ids, given)
        .outerjoin(tables.fingerprints, marked)
    )
    return columns, found


def _checked_conversations(backend: Backend) -> Rows:
    return (
        select(
            _c.conversation,
            backend.text_as_stored(_c.tenant),
            backend.text_as_stored(_c.conversation_id),
            _c.slice,
        )
        .where(_c.lane == bindparam("at"), _c.conversation > bindparam("after"))
        .order_by(_c.conversation)
    )


def _checked_archives(backend: Backend) -> Rows:
    return (
        select(_a.conversation, _a.version, _a.archived_at, backend.text_as_stored(_a.place))
        .where(_a.lane == bindparam("at"), _a.conversation > bindparam("after"))
        .order_by(_a.conversation)
    )


def _checked_tags() -> Rows:
    """Return tags with what they name, last ones first: no other value of SQLite is after bytes."""
    event = and_(_e.lane == _s.lane, _e.conversation == _s.conversation, _e.version == _s.version)
    conversation = and_(_c.lane == _s.lane, _c.conversation == _s.conversation)
    place = tuple_(_s.subject, _s.conversation, _s.version)
    before = tuple_(bindparam("subject"), bindparam("key"), bindparam("version"))
    return (
        select(*place, _s.digest, _c.conversation, _e.version)
        .select_from(
            tables.subjects.outerjoin(tables.conversations, conversation).outerjoin(
                tables.events, event
            )
        )
        .where(_s.lane == bindparam("at"), _s.subject <= bindparam("subject"), place < before)
        .order_by(_s.subject.desc(), _s.conversation.desc(), _s.version.desc())
    )


def _stray(of: Any, same: ColumnElement[bool]) -> Rows:
    """Return the rows that find an event by `same`, which their place does not have."""
    there = and_(
        _e.lane == of.lane, _e.conversation == of.conversation, _e.version == of.version, same
    )
    return (
        select(of.conversation, of.version)
        .select_from(of.lane.table.outerjoin(tables.events, there))
        .where(of.lane == bindparam("at"), _e.version.is_(None))
        .limit(literal_column(str(MAX_STRAYS)))
        .offset(FIRST_ROW)
    )


def _checked_store(backend: Backend) -> Rows:
    store = tables.store.c
    epoch = backend.text_as_stored(store.epoch)
    return select(store.id, epoch, store.lanes, store.created_at, store.digest).order_by(store.id)
