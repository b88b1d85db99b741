"""The digest chain, and leaner rows of events.

1. An event's digest covers its row, its payload and the event before it; the column is `chain`, so
   that a process of the first schema that still has the store open cannot write to it.
2. Event ids have no index any more, except those that callers gave: a table of its own has them. Of
   old events that is not known, so it gets all their ids.
3. `position` is SQLite's rowid. Events get `occurred_at`, and the store a digest of its own.
4. A row whose old digest is not that of its payload keeps the old digest: `verify` goes on to name
   it. So does a row with a tag that differs in one bit from a known one: the old digests did not
   cover the tag.

On SQLite and DuckDB all is one transaction. On servers the new table is filled beside readers and
writers of the old version, and takes its place in one short step; see
`eventstore.storage.sql.rebuilding`. A crash at any point leaves one that is whole, and the next run
goes on from there, whichever way the migration went.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.dialects import mysql
from sqlalchemy.schema import CreateTable

from eventstore.storage.brief_locks import tried_briefly
from eventstore.storage.chain import (
    conversation_digest,
    digests_of,
    payload_digest,
    store_digest,
)
from eventstore.storage.sql.rebuilding import Span, TableAnew, rebuild, sweep
from eventstore.storage.sql.rebuilding.table import within
from eventstore.storage.stored_row import StoredRow

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
HASH = sa.LargeBinary().with_variant(mysql.BINARY(16), "mysql", "mariadb")
WORD = sa.Text().with_variant(mysql.VARCHAR(64), "mysql", "mariadb")
PAYLOAD = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")

TAGS = (
    b"pending",
    b"approved",
    b"running",
    b"completed",
    b"failed",
    b"rejected",
    b"message",
    b"tools_offered",
    b"run_started",
    b"run_ended",
)
"""The tags of revision 0001."""

EVENTS, OLD, NEW = "toolledger_events", "toolledger_events_old", "toolledger_events_new"
DIGESTS, IDS = "toolledger_digests", "toolledger_event_ids"
STORE = "toolledger_store"
KEPT = ("lane", "position", "conversation", "version", "event_id", "recorded_at")
"""The first columns of both layouts."""


def upgrade() -> None:
    """Chain the digests, and rebuild the table of events."""
    connection = op.get_bind()
    sweep(connection, [EVENTS, IDS])
    if not has_column(connection, EVENTS, "chain"):
        drop(OLD, NEW, IDS)
        rebuild(connection, [Chained()], locking=[STORE], progress=progress())
    if not has_column(connection, STORE, "digest"):
        column = sa.Column("digest", HASH, nullable=True)
        tried_briefly(connection, lambda: op.add_column(STORE, column), locks=[STORE])
    store = sa.table(STORE, *map(sa.column, ("id", "digest")))
    for number, epoch, lanes, created_at in run(
        f"SELECT id, epoch, lanes, created_at FROM {STORE}"
    ).fetchall():
        of_store = store_digest(epoch.encode(), lanes, created_at)
        connection.execute(store.update().where(store.c.id == number).values(digest=of_store))
    drop(OLD, NEW, DIGESTS)


def downgrade() -> None:
    """Go back to digests of payloads, and to the index on event ids."""
    connection = op.get_bind()
    sweep(connection, [EVENTS, IDS])
    if has_column(connection, EVENTS, "chain"):
        drop(OLD, NEW)
        rebuild(connection, [Plain()], locking=[STORE, IDS], progress=progress())
    drop(OLD, DIGESTS, IDS)
    if has_column(connection, STORE, "digest"):
        tried_briefly(connection, lambda: op.drop_column(STORE, "digest"), locks=[STORE])


class Events(TableAnew):
    """The table of events in another layout, with other digests.

    The values are copied by the database itself, so that a damaged one stays as it is.
    """

    digest: str
    """The column with the digest, and that of the old layout."""
    old_digest: str
    old_occurred_at: str
    """The expression for the time of occurrence in the old layout."""
    is_given: str
    """The expression that is NULL where the library gave an event its id."""
    join_ids = ""

    def __init__(self, table: sa.Table, *beside: sa.Table) -> None:
        super().__init__(table, grows=True, beside=beside)
        self.known: dict[object, bytes] = {}
        """The digests that events follow: for conversations of a lane, up to a position."""
        self.known_at: tuple[int, object] | None = None

    def create(self, connection: sa.Connection, ending: str) -> None:
        """Create the empty tables, and one that brings digests to the rows, a batch at a time."""
        super().create(connection, ending)
        if connection.dialect.name != "postgresql":
            drop(DIGESTS)
            connection.execute(CreateTable(digests_table()))

    def copy(self, connection: sa.Connection, source: str, target: str, span: Span) -> None:
        """Copy the events of a span of positions."""
        if self.known_at != (span.lane, span.after):
            self.known = {}
        self.known_at = None  # an error leaves it so
        self.copy_where(connection, source, target, *within(span, self))
        self.known_at = (span.lane, span.upto)

    def copy_again(
        self,
        connection: sa.Connection,
        source: str,
        target: str,
        notes: Collection[int],
        ends: Mapping[int, Any],
    ) -> None:
        """Copy what follows the changed events in their conversations, too: it is chained."""
        del ends  # what is not copied yet is not in the target
        self.known_at = None
        changed = connection.exec_driver_sql(
            "SELECT t.lane, t.conversation, MIN(t.version) "
            f"FROM {self.noted} n JOIN {target} t ON t.lane = n.lane AND t.position = n.position "
            f"WHERE n.note IN ({', '.join(map(str, notes))}) GROUP BY t.lane, t.conversation"
        ).fetchall()
        for lane, conversation, version in changed:
            self.known = {}
            key = {"lane": lane, "conversation": conversation, "version": version}
            after = "lane = :lane AND conversation = :conversation AND version >= :version"
            find = sa.text(f"SELECT MAX(position) FROM {target} WHERE {after}")
            upto = connection.execute(find, key).scalar()
            for name in (target, *(f"{each.name}{target[len(EVENTS) :]}" for each in self.beside)):
                connection.execute(sa.text(f"DELETE FROM {name} WHERE {after}"), key)
            where = (
                "e.lane = :lane AND e.conversation = :conversation AND e.version >= :version "
                "AND e.position <= :upto"
            )
            self.copy_where(connection, source, target, where, {**key, "upto": upto})

    def copy_where(
        self,
        connection: sa.Connection,
        source: str,
        target: str,
        where: str,
        values: Mapping[str, object],
    ) -> None:
        """Copy events of a lane."""
        lane, known = values["lane"], self.known
        digests: list[tuple[object, int, bytes]] = []
        for *columns, given, begins, tenant, name in self.rows(connection, source, where, values):
            row = StoredRow._make([*columns, None, given, begins, None])
            previous = known.get(row.conversation)
            if row.version == 1 and tenant is not None:
                previous = conversation_digest(bytes(tenant), bytes(name))
            elif previous is None:
                chained = source if self.digest == "digest" else target
                previous = digest_before(connection, chained, lane, row)
            digest, known[row.conversation] = self.digest_of(row, previous)
            digests.append((lane, row.position, digest))
        if not digests:
            return
        schema = quoted("schema")
        names = [*KEPT, "tag", schema, "fingerprint", self.digest, "payload"]
        taken = [f"e.{column}" for column in (*KEPT, "tag", schema, "fingerprint")]
        # No order is asked for: PostgreSQL, told to sort nothing, would read the whole lane.
        join = f"{DIGESTS} d JOIN {source} e ON e.lane = d.lane AND e.position = d.position"
        given_values = {"lane": lane, "first": digests[0][1], "last": digests[-1][1]}
        if connection.dialect.name == "postgresql":
            join = (
                "unnest(CAST(:places AS bigint[]), CAST(:digests AS bytea[])) "
                f"AS d (position, digest) JOIN {source} e ON e.position = d.position"
            )
            # As text: the driver takes longer for the members of a list than the server for both.
            places = ",".join(str(place) for _, place, _ in digests)
            given_values["places"] = f"{{{places}}}"
            given_values["digests"] = as_array(found for _, _, found in digests)
        else:
            table = sa.table(DIGESTS, *map(sa.column, ("lane", "position", "digest")))
            connection.execute(table.delete())
            rows = [dict(zip(("lane", "position", "digest"), row, strict=True)) for row in digests]
            connection.execute(table.insert(), rows)
        connection.execute(
            sa.text(
                f"INSERT INTO {target} ({', '.join(names)}) "
                f"SELECT {', '.join(taken)}, d.digest, e.payload FROM {join} "
                f"WHERE e.{self.lane} = :lane AND e.position BETWEEN :first AND :last"
            ),
            given_values,
        )

    def rows(
        self, connection: sa.Connection, source: str, where: str, values: Mapping[str, object]
    ) -> Sequence[Any]:
        """Return events in the order of their positions, with the marks that digests cover."""
        columns = ", ".join(f"e.{column}" for column in KEPT[1:])
        return connection.execute(
            sa.text(
                f"SELECT {columns}, {self.old_occurred_at}, {as_bytes('e.tag')}, "
                f"e.{quoted('schema')}, e.fingerprint, e.{self.old_digest}, "
                f"{as_bytes('e.payload')}, {self.is_given}, f.version, "
                f"{as_bytes('c.tenant')}, {as_bytes('c.conversation_id')} FROM {source} e "
                f"{self.join_ids}LEFT JOIN toolledger_fingerprints f ON f.lane = e.lane "
                "AND f.fingerprint = e.fingerprint AND f.conversation = e.conversation "
                "AND f.version = e.version "
                "LEFT JOIN toolledger_conversations c ON e.version = 1 AND c.lane = e.lane "
                f"AND c.conversation = e.conversation WHERE {where} ORDER BY e.position"
            ),
            values,
        ).fetchall()

    def digest_of(self, row: StoredRow, previous: bytes) -> tuple[bytes, bytes]:
        """Return the digest of an event in the new layout, and the one that the next follows.

        An event that does not match its digest keeps the one that it has.
        """
        raise NotImplementedError


class Chained(Events):
    """The layout of this revision, from that of the one before."""

    digest, old_digest, old_occurred_at = "chain", "digest", "NULL"
    is_given = "e.version"  # it is not known of old events

    def __init__(self) -> None:
        super().__init__(chained_events(), event_ids())

    def copy_where(
        self,
        connection: sa.Connection,
        source: str,
        target: str,
        where: str,
        values: Mapping[str, object],
    ) -> None:
        """Copy events of a lane, and their ids."""
        super().copy_where(connection, source, target, where, values)
        columns = "lane, conversation, event_id, version"
        ids = f"INSERT INTO {IDS}{target[len(EVENTS) :]} ({columns}) SELECT {columns}"
        order = "ORDER BY lane, conversation, event_id"
        connection.execute(sa.text(f"{ids} FROM {source} e WHERE {where} {order}"), values)

    def digest_of(self, row: StoredRow, previous: bytes) -> tuple[bytes, bytes]:
        """Return the digest that continues the chain."""
        stored = bytes(row.digest)  # type: ignore[call-overload]
        plain = payload_digest(bytes(row.payload))  # type: ignore[call-overload]
        sound = stored == plain and not has_flipped_bit(bytes(row.tag))  # type: ignore[call-overload]
        begins = row.begins is not None
        found = digests_of(row, previous, begins=begins, id_given=True) if sound else []
        digest = found[0] if found else stored
        return digest, digest


class Plain(Events):
    """The layout of the revision before, from that of this one."""

    digest, old_digest, old_occurred_at = "digest", "chain", "e.occurred_at"
    is_given = "i.version"
    join_ids = (
        "LEFT JOIN toolledger_event_ids i ON i.lane = e.lane AND i.conversation = e.conversation "
        "AND i.event_id = e.event_id AND i.version = e.version "
    )

    def __init__(self) -> None:
        super().__init__(plain_events())
        if op.get_bind().dialect.name == "sqlite":
            # SQLite would take the index that begins with the lane, and sort all rows.
            self.lane = "lane + 0"

    def digest_of(self, row: StoredRow, previous: bytes) -> tuple[bytes, bytes]:
        """Return the digest of the payload alone."""
        begins, given = row.begins is not None, row.id_given is not None
        stored = bytes(row.digest)  # type: ignore[call-overload]
        found = digests_of(row, previous, begins=begins, id_given=given)
        plain = payload_digest(bytes(row.payload))  # type: ignore[call-overload]
        return plain if stored in found else stored, stored


def digest_before(connection: sa.Connection, table: str, lane: object, row: StoredRow) -> bytes:
    """Return the digest of the event before one, in a table with the chain."""
    asked = f"SELECT chain FROM {table} WHERE lane = :lane AND conversation = :conversation "
    values = {"lane": lane, "conversation": row.conversation, "version": row.version}
    found = connection.execute(sa.text(f"{asked} AND version = :version - 1"), values).scalar()
    return bytes(16) if found is None else bytes(found)


@cache
def has_flipped_bit(tag: bytes) -> bool:
    """Return whether a tag is a known one with one bit flipped."""
    number = int.from_bytes(tag)
    return any(
        len(tag) == len(known) and (number ^ int.from_bytes(known)).bit_count() == 1
        for known in TAGS
    )


def as_array(values: Iterable[bytes]) -> str:
    """Return PostgreSQL's text for an array of bytes."""
    members = ",".join(f'"\\\\x{value.hex()}"' for value in values)
    return f"{{{members}}}"


def progress() -> Any:
    """Return what is called with how far it is, if anything is."""
    return context.config.attributes.get("progress")


# tables


def event_ids() -> sa.Table:
    """Return the table of the ids that callers gave."""
    return sa.Table(
        IDS,
        sa.MetaData(),
        sa.Column("lane", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("conversation", BIG, autoincrement=False, nullable=False),
        sa.Column("event_id", HASH, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("lane", "conversation", "event_id", name="toolledger_event_ids_pk"),
        sqlite_with_rowid=False,
        **options(),
    )


def digests_table() -> sa.Table:
    """Return the table that brings digests to the rows."""
    return sa.Table(
        DIGESTS,
        sa.MetaData(),
        sa.Column("lane", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("position", BIG, autoincrement=False, nullable=False),
        sa.Column("digest", HASH, nullable=False),
        sa.PrimaryKeyConstraint("lane", "position", name="toolledger_digests_pk"),
        sqlite_with_rowid=False,
        **options(),
    )


def chained_events() -> sa.Table:
    """Return the table of events as this revision has it."""
    by = ("position",) if op.get_bind().dialect.name == "sqlite" else ("lane", "position")
    return sa.Table(
        EVENTS,
        sa.MetaData(),
        sa.Column("lane", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("position", BIG, autoincrement=False, nullable=False),
        sa.Column("conversation", BIG, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("event_id", HASH, nullable=False),
        sa.Column("recorded_at", BIG, nullable=False),
        sa.Column("occurred_at", BIG, nullable=True),
        sa.Column("tag", WORD, nullable=False),
        sa.Column("schema", sa.Integer, nullable=False),
        sa.Column("fingerprint", HASH, nullable=True),
        sa.Column("chain", HASH, nullable=False),
        sa.Column("payload", PAYLOAD, nullable=False),
        sa.PrimaryKeyConstraint(*by, name="toolledger_events_pk"),
        sa.UniqueConstraint("lane", "conversation", "version", name="toolledger_events_version"),
        **options(),
    )


def plain_events() -> sa.Table:
    """Return the table of events as revision 0001 has it."""
    return sa.Table(
        EVENTS,
        sa.MetaData(),
        sa.Column("lane", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("position", BIG, autoincrement=False, nullable=False),
        sa.Column("conversation", BIG, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("event_id", HASH, nullable=False),
        sa.Column("recorded_at", BIG, nullable=False),
        sa.Column("tag", WORD, nullable=False),
        sa.Column("schema", sa.Integer, nullable=False),
        sa.Column("fingerprint", HASH, nullable=True),
        sa.Column("digest", HASH, nullable=False),
        sa.Column("payload", PAYLOAD, nullable=False),
        sa.PrimaryKeyConstraint("lane", "position", name="toolledger_events_pk"),
        sa.UniqueConstraint("lane", "conversation", "version", name="toolledger_events_version"),
        sa.UniqueConstraint("lane", "conversation", "event_id", name="toolledger_events_id"),
        **options(),
    )


# how databases differ


def has_column(connection: sa.Connection, table: str, column: str) -> bool:
    """Return whether a table has a column; PostgreSQL is asked in a way that locks no table."""
    if connection.dialect.name == "postgresql":
        return any(each["name"] == column for each in sa.inspect(connection).get_columns(table))
    found = connection.exec_driver_sql(f"SELECT * FROM {table} WHERE 1 = 0")
    names = list(found.keys())
    found.close()
    return column in names


def drop(*tables: str) -> None:
    """Drop tables that may be there: what is left of a run that was broken off."""
    for table in tables:
        run(f"DROP TABLE IF EXISTS {table}")


def as_bytes(column: str) -> str:
    """Return the expression that reads text as bytes, whatever they are."""
    return {
        "postgresql": f"convert_to({column}, 'UTF8')",
        "duckdb": f"encode({column})",
        "mysql": f"CAST({column} AS BINARY)",
        "mariadb": f"CAST({column} AS BINARY)",
    }.get(op.get_bind().dialect.name, f"CAST({column} AS BLOB)")


def quoted(column: str) -> str:
    """Return the name of a column that some databases have for a word of their own."""
    return op.get_bind().dialect.identifier_preparer.quote(column)


def run(statement: str) -> Any:
    """Run a statement without parameters."""
    return op.get_bind().exec_driver_sql(statement)


def options() -> dict[str, Any]:
    """Return options for MariaDB and MySQL: a collation that compares case, accents and blanks."""
    dialect: Any = op.get_bind().dialect
    binary = "utf8mb4_nopad_bin" if getattr(dialect, "is_mariadb", False) else "utf8mb4_0900_bin"
    return {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": binary}
