"""Every statement of the SQL storages: built with SQLAlchemy Core, compiled once a dialect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    Executable,
    LargeBinary,
    bindparam,
    cast,
    func,
    insert,
    literal_column,
    select,
    update,
)

from eventstore.storage import schema as tables

if TYPE_CHECKING:
    from sqlalchemy.engine import Dialect

_e = tables.events.c
_READ = (
    _e.position, _e.conversation, _e.version, _e.event_id, _e.recorded_at, _e.tag, _e.schema,
    _e.fingerprint,
)  # fmt: skip


def _as_bytes(dialect: Dialect) -> Any:
    """The payload as bytes: what is no UTF-8 is for the codec to say, not for the driver."""
    if dialect.name == "postgresql":  # where a cast would read it as an escaped string
        return func.convert_to(_e.payload, literal_column("'UTF8'"))
    return cast(_e.payload, LargeBinary)


def columns(dialect: Dialect) -> tuple[Any, ...]:
    """What is read of an event, of one lane."""
    # PostgreSQL holds text to be UTF-8
    return (*_READ, _e.payload if dialect.name == "postgresql" else _as_bytes(dialect))


class Statements:
    """Every statement of the storage, compiled for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        e, c, lanes, f = tables.events, tables.conversations, tables.lanes, tables.fingerprints
        p = bindparam
        none: Any = literal_column("0")  # SQLite's dialect writes an offset anyway
        payload = _as_bytes(dialect)
        read = columns(dialect)

        def text(statement: Executable, *names: str) -> str:
            compiled = _Statement(dialect, statement)
            assert compiled.names == names, (compiled.names, names)  # noqa: S101
            return compiled.text

        self.advance = text(
            update(lanes)
            .where(lanes.c.lane == p("at"), lanes.c.position == p("last"))
            .values(position=p("to")),
            "to", "at", "last",
        )  # fmt: skip
        # SQLite's dialect leaves the lock out: there the whole database is locked.
        self.head = text(
            select(lanes.c.position).where(lanes.c.lane == p("at")).with_for_update(), "at"
        )
        self._lock = " FOR UPDATE" if self.head.endswith(" FOR UPDATE") else ""
        self.find = text(
            select(c.c.conversation).where(
                c.c.lane == p("at"), c.c.tenant == p("tenant"), c.c.conversation_id == p("id")
            ),
            "at", "tenant", "id",
        )  # fmt: skip
        self.create = text(insert(c), "lane", "conversation", "tenant", "conversation_id", "slice")
        self._mark = "?" if dialect.paramstyle == "qmark" else "%s"
        self.insert = text(insert(e), *(column.name for column in e.columns))
        self.index = text(insert(f), "lane", "fingerprint", "conversation", "version")
        self.compound = dialect.name == "postgresql"
        """Whether several statements without parameters may be sent as one."""
        one = select(*read).where(
            e.c.lane == p("at"), e.c.conversation == p("key"), e.c.version > p("after")
        )
        self.tail = text(one.order_by(e.c.version), "at", "key", "after")
        self.conversation = text(
            one.order_by(e.c.version).limit(p("most")).offset(none), "at", "key", "after", "most"
        )
        rows = (e.c.lane == p("at"), e.c.position > p("after"))
        self.feed = text(
            select(*read).where(*rows).order_by(e.c.position).limit(p("most")).offset(none),
            "at", "after", "most",
        )  # fmt: skip
        self.check = text(
            # As bytes: what is damaged may be no text any more.
            select(
                e.c.position, e.c.conversation, e.c.version, e.c.digest, payload,
            )
            .where(*rows)
            .order_by(e.c.position)
            .limit(p("most")).offset(none),
            "at", "after", "most",
        )  # fmt: skip
        self.name = text(
            select(c.c.tenant, c.c.conversation_id).where(
                c.c.lane == p("at"), c.c.conversation == p("key")
            ),
            "at", "key",
        )  # fmt: skip
        self.fingerprint = text(
            select(f.c.conversation, f.c.version)
            .where(f.c.lane == p("at"), f.c.fingerprint == p("digest"))
            .order_by(f.c.conversation, f.c.version),
            "at", "digest",
        )  # fmt: skip
        self.known = text(
            select(e.c.version).where(
                e.c.lane == p("at"), e.c.conversation == p("key"), e.c.event_id == p("id")
            ),
            "at", "key", "id",
        )  # fmt: skip
        self.conversations = text(
            select(
                c.c.conversation,
                c.c.conversation_id,
                select(func.max(e.c.version))
                .where(e.c.lane == c.c.lane, e.c.conversation == c.c.conversation)
                .scalar_subquery(),
            )
            .where(c.c.lane == p("at"), c.c.tenant == p("tenant"), c.c.conversation > p("after"))
            .order_by(c.c.conversation)
            .limit(p("most")).offset(none),
            "at", "tenant", "after", "most",
        )  # fmt: skip

    def heads(self, of: Iterable[int]) -> str:
        """The positions of some lanes, locked one after the other."""
        named = ", ".join(map(str, of))
        return (
            "SELECT lane, position FROM toolledger_lanes "  # noqa: S608 - numbers
            f"WHERE lane IN ({named}) ORDER BY lane{self._lock}"
        )

    def names(self, keys: Iterable[int]) -> str:
        """The tenants and the ids of so many conversations of a lane."""
        given = ", ".join(self._mark for _ in keys)
        return (
            "SELECT conversation, tenant, conversation_id FROM toolledger_conversations "  # noqa: S608 - marks
            f"WHERE lane = {self._mark} AND conversation IN ({given})"
        )

    def versions(self, keys: Iterable[tuple[int, int]]) -> str:
        """The last versions of some conversations, by lane and key."""
        lanes: dict[int, list[int]] = {}
        for lane, key in keys:
            lanes.setdefault(lane, []).append(key)
        named = " OR ".join(
            f"lane = {lane} AND conversation IN ({', '.join(map(str, some))})"
            for lane, some in lanes.items()
        )
        return (
            "SELECT lane, conversation, (SELECT MAX(version) FROM toolledger_events e "  # noqa: S608 - numbers
            "WHERE e.lane = c.lane AND e.conversation = c.conversation) "
            f"FROM toolledger_conversations c WHERE {named}"
        )

    def advance_all(self, to: Mapping[int, int]) -> str:
        """Move some lanes, that are locked, to new positions."""
        cases = " ".join(f"WHEN {lane} THEN {position}" for lane, position in to.items())
        return (
            f"UPDATE toolledger_lanes SET position = CASE lane {cases} END "  # noqa: S608 - numbers
            f"WHERE lane IN ({', '.join(map(str, to))})"
        )


class _Statement:
    """A Core statement, compiled: its text, and the order of its parameters."""

    def __init__(self, dialect: Dialect, statement: Executable) -> None:
        compiled = statement.compile(dialect=dialect)  # type: ignore[attr-defined]
        self.text: str = str(compiled)
        self.names: tuple[str, ...] = tuple(compiled.positiontup or ())
