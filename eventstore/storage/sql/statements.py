"""Every statement of the SQL storages, built with SQLAlchemy Core.

`Statements` are compiled once for the driver, with their parameters in a fixed order.
`HostStatements` are left to the host's connection to compile, with their parameters by name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import (
    ColumnElement,
    Insert,
    Integer,
    Update,
    and_,
    bindparam,
    func,
    insert,
    literal_column,
    select,
    text,
    update,
)

from eventstore.storage.sql import counter_clauses, redaction_clauses
from eventstore.storage.sql import schema as tables
from eventstore.storage.sql.seen_clauses import (
    FIRST_ROW,
    SEEN,
    Rows,
    anchor_columns,
    beside_seen,
    holds_anchor,
    page,
    seen_rows_joined,
    seen_rows_marked,
)

if TYPE_CHECKING:
    from sqlalchemy.engine import Dialect
    from sqlalchemy.sql.compiler import SQLCompiler
    from sqlalchemy.sql.expression import ClauseElement

    from eventstore.storage.sql.backend import Backend

_e, _c, _l, _f, _i, _a, _s = (
    tables.events.c,
    tables.conversations.c,
    tables.lanes.c,
    tables.fingerprints.c,
    tables.event_ids.c,
    tables.archives.c,
    tables.subjects.c,
)
_compiled_for: dict[tuple[object, ...], Statements] = {}


def statements_for(dialect: Dialect, backend: Backend) -> Statements:
    """Return the statements of a kind of backend, compiled once in a process: it takes some ms.

    What a backend can do is its class's, but a dialect learns of its server which words it quotes.
    """
    key = (type(backend), type(dialect), type(dialect.identifier_preparer), dialect.paramstyle)
    if key not in _compiled_for:
        _compiled_for[key] = Statements(dialect, backend)
    return _compiled_for[key]


class Statements:
    """The statements of a storage, compiled for one dialect; names of parameters stand beside."""

    def __init__(self, dialect: Dialect, backend: Backend) -> None:
        def text(statement: ClauseElement, *parameters: str) -> str:
            return compiled(dialect, statement, parameters)

        def paged(rows: Rows, order: ColumnElement[Any], *parameters: str) -> tuple[str, str]:
            """Return the statement for a page, and that for one where an event is in its place."""
            beside = beside_seen(rows, order, marked=backend.sorts_joins)
            of_page = *parameters, "most"
            return text(page(rows), *of_page), text(beside, *SEEN, *of_page)

        columns, counters = _event_columns(backend), counter_clauses.counters(backend)
        self.compound = backend.compound_statements
        self.seen_rows = seen_rows_marked if backend.sorts_joins else seen_rows_joined
        """Takes the rows of a page that was read beside an event; see `seen_clauses`."""
        self.null = backend.null
        self._kind = type(backend)
        self._mark = "?" if dialect.paramstyle == "qmark" else "%s"
        self.advance = text(_advance(), "to", "at", "last")
        self.advance_known = text(
            _advance().where(holds_anchor()), "to", "at", "last", "place", "event", "time"
        )
        self.head = text(_head(backend), "at")
        anchored = "at", "place", "at", "place", "at"
        self.head_known = text(_head(backend, *anchor_columns(counters)), *anchored)
        self._whole = whole_columns(backend)
        whole: ColumnElement[Any] = literal_column(
            self._whole.format(lane=f"{tables.lanes.name}.lane")
        )
        beside = *anchor_columns(counters), whole
        self.head_whole = text(_head(backend, *beside), *anchored)
        self.find = text(_find(), "at", "tenant", "id")
        self.create = text(insert(tables.conversations), *tables.conversations.c.keys())
        self.insert = text(insert_event(backend.null, bindparam), *tables.events.c.keys())
        self.index = text(insert(tables.fingerprints), *tables.fingerprints.c.keys())
        self.insert_id = text(insert(tables.event_ids), *tables.event_ids.c.keys())
        self.redact = text(redaction_clauses.redact(), "payload", "at", "key", "version")
        self.forget_mark = text(redaction_clauses.forget_mark(), "at", "key", "version")
        self.unindex = text(redaction_clauses.unindex(), "at", "digest", "key", "version")
        self.payloads = text(page(_payloads(backend)), "at", "key", "after", "most")
        self.tag = text(insert(tables.subjects), *tables.subjects.c.keys())
        self.archived = text(_archived(backend), "at", "key")
        self.digest = text(_at_version(_e.chain), "at", "key", "version")
        self.event_id = text(_at_version(_e.event_id), "at", "key", "version")
        self.tail = text(conversation_rows(columns), "at", "key", "after")
        tail, named, lane = conversation_rows(columns), _named(columns), lane_rows(columns, backend)
        self.conversation, self.conversation_known = paged(tail, _e.version, "at", "key", "after")
        self.named, self.named_known = paged(named, _e.version, "at", "at", "tenant", "id", "after")
        self.feed, self.feed_known = paged(lane, _e.position, "at", "after")
        self.fingerprint = text(_fingerprint(), "at", "digest")
        self.known = text(_known(), "at", "key", "id")
        self.conversations = text(page(_conversations()), "at", "at", "tenant", "after", "most")
        self.insert_store = text(insert(tables.store), *tables.store.c.keys())

    def mark(self, statement: str) -> str:
        """Return a statement, written with `?`, with the driver's own marks for parameters."""
        return statement.replace("?", self._mark)

    def heads(self, of: Iterable[int], places: Mapping[int, int], *, whole: bool) -> str:
        """Return the statement for the positions of some lanes, locked one after the other.

        With each comes the id of the event at its place among `places`, and when it was recorded;
        and what tells that it is whole, where that is asked.
        """
        return counter_clauses.locked_heads(
            self._kind, of, places, f", {self._whole}" if whole else ""
        )

    def whole(self, lane: int) -> str:
        """Return the statement for the position of a lane, and for what tells that it is whole."""
        return counter_clauses.head_beside(self._kind, lane, self._whole)

    def anchors_at(self, places: int) -> str:
        """Return the statement for the anchors of events at so many lanes with a position each."""
        wanted = " OR ".join([f"(lane = {self._mark} AND position = {self._mark})"] * places)
        return f"SELECT lane, event_id, recorded_at FROM toolledger_events WHERE {wanted}"

    def names(self, keys: Iterable[int]) -> str:
        """Return the statement for the tenants and ids of so many conversations of a lane."""
        marks = ", ".join(self._mark for _ in keys)
        return (
            "SELECT conversation, tenant, conversation_id FROM toolledger_conversations "
            f"WHERE lane = {self._mark} AND conversation IN ({marks})"
        )

    def names_beside(self, keys: Iterable[int]) -> str:
        """Return the same beside an event of the lane, which comes first.

        If that is not in its place there is no row; if there is no name, there is one of NULLs.
        """
        marks, mark = ", ".join(self._mark for _ in keys), self._mark
        return (
            "SELECT c.conversation, c.tenant, c.conversation_id FROM "
            f"(SELECT 1 AS one FROM toolledger_events WHERE lane = {mark} AND position = {mark} "
            f"AND event_id = {mark} AND recorded_at = {mark}) e LEFT JOIN "
            f"toolledger_conversations c ON c.lane = {mark} AND c.conversation IN ({marks})"
        )

    def versions(self, keys: Iterable[tuple[int, int]], *, apart: bool) -> str:
        """Return the statement for the last versions of some conversations, by lane and key.

        Where lanes live `apart`, each is asked for by itself: it takes longer to plan.
        """
        lanes: dict[int, list[int]] = {}
        for lane, key in keys:
            lanes.setdefault(lane, []).append(key)
        wanted = {
            str(lane): f"lane = {lane} AND conversation IN ({', '.join(map(str, some))})"
            for lane, some in lanes.items()
        }
        if not apart and len(lanes) > 1:
            wanted = {"c.lane": " OR ".join(wanted.values())}
        return " UNION ALL ".join(
            "SELECT lane, conversation, (SELECT MAX(version) FROM toolledger_events e "
            f"WHERE e.lane = {lane} AND e.conversation = c.conversation) "
            f"FROM toolledger_conversations c WHERE {some}"
            for lane, some in wanted.items()
        )

    def versions_of(self, conversation_ids: Collection[str]) -> str:
        """Return the statement for the last versions of so many conversations of a lane."""
        marks = ", ".join(self._mark for _ in conversation_ids)
        return (
            "SELECT conversation_id, (SELECT MAX(version) FROM toolledger_events e "
            f"WHERE e.lane = {self._mark} AND e.conversation = c.conversation) "
            f"FROM toolledger_conversations c WHERE lane = {self._mark} "
            f"AND tenant = {self._mark} AND conversation_id IN ({marks})"
        )


class HostStatements:
    """The statements of a storage inside a host's transaction."""

    store = (
        select(tables.store.c.epoch)
        .where(tables.store.c.id > 0)  # below: `durable_reads`
        .order_by(tables.store.c.id)
        .limit(1)
    )
    lock = update(tables.lanes).where(_l.lane == bindparam("at")).values(position=_l.position)
    """The first write, which locks a database that has no row locks."""
    known = select(_i.event_id, _i.version).where(
        _i.lane == bindparam("at"),
        _i.conversation == bindparam("key"),
        _i.event_id.in_(bindparam("ids", expanding=True)),
    )
    tags = select(_s.version, _s.subject, _s.digest).where(
        _s.lane == bindparam("at"), _s.conversation == bindparam("key")
    )
    digest = select(_e.chain).where(
        _e.lane == bindparam("at"),
        _e.conversation == bindparam("key"),
        _e.version == bindparam("version"),
    )

    def __init__(self, backend: Backend) -> None:
        lanes = counter_clauses.counters(backend)
        conversation = and_(
            _c.lane == lanes.c.lane,
            _c.tenant == bindparam("tenant"),
            _c.conversation_id == bindparam("id"),
        )
        found = (
            select(lanes.c.position, _c.conversation, *anchor_columns(lanes))
            .outerjoin(tables.conversations, conversation)
            .where(lanes.c.lane == bindparam("at"))
        )
        self.find = counter_clauses.newest(backend, found)
        # The lane is named, as is that of the anchor: one node has all that is read.
        self.find_whole = self.find.add_columns(text(whole_columns(backend).format(lane=":at")))
        self.advance = counter_clauses.advance(backend)
        self.head = _head(backend)
        self.archived = _archived(backend)
        self.conversation = conversation_rows(_event_columns(backend)).limit(
            backend.limits.chunk_rows
        )


def _event_columns(backend: Backend) -> tuple[ColumnElement[Any], ...]:
    """Return what is read of an event, of one lane."""
    payload = _e.payload if backend.checks_encoding else backend.payload_as_bytes(_e.payload)
    return (
        _e.position,
        _e.conversation,
        _e.version,
        _e.event_id,
        _e.recorded_at,
        _e.occurred_at,
        _e.tag,
        _e.schema,
        _e.fingerprint,
        payload,
    )


def _at_version(column: ColumnElement[Any]) -> Rows:
    return select(column).where(
        _e.lane == bindparam("at"),
        _e.conversation == bindparam("key"),
        _e.version == bindparam("version"),
    )


def insert_event(null: str | None, given: Callable[[str], ColumnElement[Any]]) -> Insert:
    """Return the statement that inserts an event: `given` returns the value of a column's name.

    `null` is what stands for NULL in the values; see `Backend.null`.
    """
    values = {column.name: given(column.name) for column in tables.events.c}
    if null is not None:
        mark: ColumnElement[str] = literal_column(f"'{null}'")
        often_null = ("occurred_at", "fingerprint")
        values |= {name: func.nullif(values[name], mark) for name in often_null}
    return insert(tables.events).values(values).inline()  # nothing of it comes back


def _advance() -> Update:
    return (
        update(tables.lanes)
        .where(_l.lane == bindparam("at"), _l.position == bindparam("last"))
        .values(position=bindparam("to"))
    )


def _payloads(backend: Backend) -> Rows:
    """Return what is read of payloads to redact them; see `StoredPayload`."""
    payload = backend.payload_as_bytes(_e.payload)
    return conversation_rows(
        (_e.version, _e.tag, _e.schema, payload, _e.fingerprint, _e.salt, _e.event_id)
    )


def _head(backend: Backend, *beside: ColumnElement[Any]) -> Rows:
    lanes = counter_clauses.counters(backend)
    head = select(lanes.c.position, *beside).where(lanes.c.lane == bindparam("at"))
    return counter_clauses.newest(backend, head, locked=True)


def whole_columns(backend: Backend) -> str:
    """Return what tells that a lane is whole, as columns beside its row; `{lane}` is which one.

    Where its last event is; whether it has conversations, and given ids; and whether the index of
    fingerprints has rows, or the first events need none. See `half_restores`.
    """
    plus = " + 0" if backend.position_is_rowid else ""  # see `lane_rows`
    events = f"FROM toolledger_events e WHERE e.lane{plus} = {{lane}}"
    listed, given, marked = (
        f"EXISTS (SELECT 1 FROM toolledger_{name} b WHERE b.lane = {{lane}})"
        for name in ("conversations", "event_ids", "fingerprints")
    )
    needed = f"EXISTS (SELECT 1 {events} AND e.position <= 100 AND e.fingerprint IS NOT NULL)"
    return (
        f"(SELECT e.position {events} ORDER BY e.position DESC LIMIT 1), {listed}, {given}, "
        f"CASE WHEN {marked} THEN 1 WHEN {needed} THEN 0 ELSE 1 END"
    )


def _find() -> Rows:
    return select(_c.conversation).where(
        _c.lane == bindparam("at"),
        _c.tenant == bindparam("tenant"),
        _c.conversation_id == bindparam("id"),
    )


def conversation_rows(columns: Iterable[ColumnElement[Any]]) -> Rows:
    """Return the events of a conversation after a version, in order."""
    return (
        select(*columns)
        .where(
            _e.lane == bindparam("at"),
            _e.conversation == bindparam("key"),
            _e.version > bindparam("after"),
        )
        .order_by(_e.version)
    )


def _named(columns: Iterable[ColumnElement[Any]]) -> Rows:
    """Return the events of a conversation after a version; it is found by its tenant and id."""
    return (
        select(*columns)
        .where(
            _e.lane == bindparam("at"),
            _e.conversation == _find().scalar_subquery(),
            _e.version > bindparam("after"),
        )
        .order_by(_e.version)
    )


def lane_rows(columns: Iterable[ColumnElement[Any]], backend: Backend) -> Rows:
    """Return the events of a lane after a position, in order."""
    # SQLite would take the index that begins with the lane, and sort: `+ 0` keeps it from that.
    lane = _e.lane + FIRST_ROW if backend.position_is_rowid else _e.lane
    return (
        select(*columns)
        .where(lane == bindparam("at"), _e.position > bindparam("after"))
        .order_by(_e.position)
    )


def _fingerprint() -> Rows:
    return (
        select(_f.version, _c.conversation, _c.tenant, _c.conversation_id)
        .select_from(
            tables.fingerprints.join(
                tables.conversations,
                and_(_c.lane == _f.lane, _c.conversation == _f.conversation),
            )
        )
        .where(_f.lane == bindparam("at"), _f.fingerprint == bindparam("digest"))
        .order_by(_f.conversation, _f.version)
    )


def _archived(backend: Backend) -> Rows:
    """Return where a conversation is archived, and the event after its end, which says so, too."""
    record = and_(
        _e.lane == _a.lane,
        _e.conversation == _a.conversation,
        _e.version == _a.version + literal_column("1", Integer),
    )
    payload = _e.payload if backend.checks_encoding else backend.payload_as_bytes(_e.payload)
    return (
        select(_a.version, _a.archived_at, _a.place, _e.recorded_at, _e.tag, _e.schema, payload)
        .select_from(tables.archives.outerjoin(tables.events, record))
        .where(_a.lane == bindparam("at"), _a.conversation == bindparam("key"))
    )


def _known() -> Rows:
    return select(_i.version).where(
        _i.lane == bindparam("at"),
        _i.conversation == bindparam("key"),
        _i.event_id == bindparam("id"),
    )


def _conversations() -> Rows:
    last_version = (
        select(func.max(_e.version))
        .where(_e.lane == bindparam("at"), _e.conversation == _c.conversation)
        .scalar_subquery()
    )
    return (
        select(_c.conversation, _c.conversation_id, last_version)
        .where(
            _c.lane == bindparam("at"),
            _c.tenant == bindparam("tenant"),
            _c.conversation > bindparam("after"),
        )
        .order_by(_c.conversation)
    )


def compiled(dialect: Dialect, statement: ClauseElement, parameters: tuple[str, ...]) -> str:
    """Return the text of a statement whose parameters are expected in this order."""
    found = cast("SQLCompiler", statement.compile(dialect=dialect))
    assert tuple(found.positiontup or ()) == parameters, found.positiontup  # noqa: S101
    return str(found)
