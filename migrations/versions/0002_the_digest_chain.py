"""The digest chain, and leaner rows of events.

1. An event's digest covers its row, its payload and the event before it; the column is `chain`, so
   that a process of the first schema that still has the store open cannot write to it.
2. Event ids have no index any more, except those that callers gave: a table of its own has them. Of
   old events that is not known, so it gets all their ids.
3. `position` is SQLite's rowid. Events get `occurred_at`, and the store a digest of its own.
4. A row whose old digest is not that of its payload keeps the old digest: `verify` goes on to name
   it. So does a row with a tag that differs in one bit from a known one: the old digests did not
   cover the tag.

All is one transaction where the database has transactions for its schema. On MariaDB and MySQL the
new table is filled beside the old one, and one RENAME swaps them; a crash at any point leaves one
that is whole, and the next run of `upgrade` goes on from there, whichever way the migration went.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.dialects import mysql

from eventstore.storage.brief_locks import lanes_held
from eventstore.storage.chain import (
    conversation_digest,
    digests_of,
    payload_digest,
    store_digest,
)
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

CHUNK_ROWS = 2000

EVENTS, OLD, NEW = "toolledger_events", "toolledger_events_old", "toolledger_events_new"
DIGESTS = "toolledger_digests"
KEPT = ("lane", "position", "conversation", "version", "event_id", "recorded_at")
"""The first columns of both layouts."""


def upgrade() -> None:
    """Chain the digests, and rebuild the table of events."""
    connection = op.get_bind()
    with writers_locked(connection):
        if not has_column(connection, EVENTS, "chain"):
            drop(OLD, NEW, DIGESTS, "toolledger_event_ids")
            create_event_ids()
            run(
                "INSERT INTO toolledger_event_ids (lane, conversation, event_id, version) "
                f"SELECT lane, conversation, event_id, version FROM {EVENTS} "
                "ORDER BY lane, conversation, event_id"
            )
            rebuild(connection, PLAIN, CHAINED)
        if not has_column(connection, "toolledger_store", "digest"):
            op.add_column("toolledger_store", sa.Column("digest", HASH, nullable=True))
        store = sa.table("toolledger_store", *map(sa.column, ("id", "digest")))
        for number, epoch, lanes, created_at in run(
            "SELECT id, epoch, lanes, created_at FROM toolledger_store"
        ).fetchall():
            of_store = store_digest(epoch.encode(), lanes, created_at)
            connection.execute(store.update().where(store.c.id == number).values(digest=of_store))
        drop(OLD, NEW, DIGESTS)


def downgrade() -> None:
    """Go back to digests of payloads, and to the index on event ids."""
    connection = op.get_bind()
    with writers_locked(connection):
        if has_column(connection, EVENTS, "chain"):
            drop(OLD, NEW, DIGESTS)
            rebuild(connection, CHAINED, PLAIN)
        drop(OLD, DIGESTS, "toolledger_event_ids")
        if has_column(connection, "toolledger_store", "digest"):
            op.drop_column("toolledger_store", "digest")


class Layout(NamedTuple):
    """One of the two layouts of the table of events, to read from or to write to."""

    create: Callable[[str], None]
    digest: str
    """The column with the digest."""
    occurred_at: str
    """The expression for the time of occurrence."""


def rebuild(connection: sa.Connection, before: Layout, after: Layout) -> None:
    """Make the table of events anew in another layout, with other digests.

    The values are copied by the database itself, so that a damaged one stays as it is.
    """
    swapped_at_end = in_steps(connection)
    source, target = (EVENTS, NEW) if swapped_at_end else (OLD, EVENTS)
    if not swapped_at_end:
        rename_old(connection)
    op.create_table(
        DIGESTS,
        sa.Column("lane", sa.Integer, nullable=False),
        sa.Column("position", BIG, nullable=False),
        sa.Column("digest", HASH, nullable=False),
        sa.PrimaryKeyConstraint("lane", "position", name="toolledger_digests_pk"),
        sqlite_with_rowid=False,
        **options(),
    )
    table = sa.table(DIGESTS, *map(sa.column, ("lane", "position", "digest")))
    for chunk in chunks(new_digests(connection, source, before)):
        rows = [dict(zip(("lane", "position", "digest"), row, strict=True)) for row in chunk]
        connection.execute(table.insert(), rows)
    after.create(target)
    schema = quoted("schema")
    columns = [f"e.{column}" for column in KEPT]
    names = [*KEPT, "tag", schema, "fingerprint", after.digest, "payload"]
    values = [*columns, "e.tag", f"e.{schema}", "e.fingerprint", "d.digest", "e.payload"]
    if after is CHAINED:
        names.append("occurred_at")
        values.append("NULL")
    run(
        f"INSERT INTO {target} ({', '.join(names)}) SELECT {', '.join(values)} FROM {source} e "
        f"JOIN {DIGESTS} d ON d.lane = e.lane AND d.position = e.position "
        "ORDER BY e.lane, e.position"
    )
    if swapped_at_end:
        run(f"RENAME TABLE {EVENTS} TO {OLD}, {NEW} TO {EVENTS}")


def new_digests(
    connection: sa.Connection, source: str, before: Layout
) -> Iterator[tuple[int, int, bytes]]:
    """Yield the lane, the position and the digest in the other layout of each event.

    An event that does not match its digest keeps the one that it has.
    """
    lanes = run(f"SELECT lane, COUNT(*) FROM {source} GROUP BY lane ORDER BY lane").fetchall()
    total = sum(count for _, count in lanes)
    progress = context.config.attributes.get("progress") or (lambda *_: None)
    done = 0
    for lane, _ in lanes:
        chained: dict[object, bytes] = {}  # of each conversation, the digest of its last event
        for rows in pages(connection, source, lane, before):
            for *columns, tenant, name in rows:
                row = StoredRow._make([*columns[:11], None, *columns[11:], None])
                previous = chained.get(row.conversation, bytes(16))
                if row.version == 1 and tenant is not None:
                    previous = conversation_digest(bytes(tenant), bytes(name))
                begins, given = row.begins is not None, row.id_given is not None
                found = digests_of(row, previous, begins=begins, id_given=given)
                stored = bytes(row.digest)  # type: ignore[call-overload]
                plain = payload_digest(bytes(row.payload))  # type: ignore[call-overload]
                if before is PLAIN:
                    sound = stored == plain and not has_flipped_bit(bytes(row.tag))  # type: ignore[call-overload]
                    digest = chained[row.conversation] = found[0] if found and sound else stored
                else:
                    digest = plain if stored in found else stored
                    chained[row.conversation] = stored
                yield lane, row.position, digest
            done += len(rows)
            progress(done, total)


@cache
def has_flipped_bit(tag: bytes) -> bool:
    """Return whether a tag is a known one with one bit flipped."""
    number = int.from_bytes(tag)
    return any(
        len(tag) == len(known) and (number ^ int.from_bytes(known)).bit_count() == 1
        for known in TAGS
    )


def pages(
    connection: sa.Connection, source: str, lane: int, layout: Layout
) -> Iterator[Sequence[Any]]:
    """Yield the rows of a lane in the order of their positions, many at a time."""
    schema, columns = quoted("schema"), ", ".join(f"e.{column}" for column in KEPT[1:])
    # SQLite would take the index that begins with the lane, and sort all rows for each page.
    by_rowid = layout is CHAINED and connection.dialect.name == "sqlite"
    at = "e.lane + 0" if by_rowid else "e.lane"
    statement = sa.text(
        f"SELECT {columns}, {layout.occurred_at}, {as_bytes('e.tag')}, e.{schema}, e.fingerprint, "
        f"e.{layout.digest}, {as_bytes('e.payload')}, i.version, f.version, "
        f"{as_bytes('c.tenant')}, {as_bytes('c.conversation_id')} FROM {source} e "
        "LEFT JOIN toolledger_event_ids i ON i.lane = e.lane AND i.conversation = e.conversation "
        "AND i.event_id = e.event_id AND i.version = e.version "
        "LEFT JOIN toolledger_fingerprints f ON f.lane = e.lane "
        "AND f.fingerprint = e.fingerprint AND f.conversation = e.conversation "
        "AND f.version = e.version "
        "LEFT JOIN toolledger_conversations c ON e.version = 1 AND c.lane = e.lane "
        "AND c.conversation = e.conversation "
        f"WHERE {at} = :lane AND e.position > :after ORDER BY e.position LIMIT :most"
    )
    after = 0
    while True:
        found = connection.execute(
            statement, {"lane": lane, "after": after, "most": CHUNK_ROWS}
        ).fetchall()
        yield found
        if len(found) < CHUNK_ROWS:
            return
        after = found[-1][0]


def chunks(rows: Iterator[tuple[int, int, bytes]]) -> Iterator[list[tuple[int, int, bytes]]]:
    """Yield rows many at a time."""
    chunk: list[tuple[int, int, bytes]] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == CHUNK_ROWS:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


# tables


def create_event_ids() -> None:
    """Create the table of the ids that callers gave."""
    op.create_table(
        "toolledger_event_ids",
        sa.Column("lane", sa.Integer, nullable=False),
        sa.Column("conversation", BIG, nullable=False),
        sa.Column("event_id", HASH, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("lane", "conversation", "event_id", name="toolledger_event_ids_pk"),
        sqlite_with_rowid=False,
        **options(),
    )


def create_chained_events(name: str) -> None:
    """Create the table of events as this revision has it."""
    by = ("position",) if op.get_bind().dialect.name == "sqlite" else ("lane", "position")
    op.create_table(
        name,
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


def create_plain_events(name: str) -> None:
    """Create the table of events as revision 0001 has it."""
    op.create_table(
        name,
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


PLAIN = Layout(create_plain_events, "digest", "NULL")
CHAINED = Layout(create_chained_events, "chain", "e.occurred_at")

# how databases differ


def in_steps(connection: sa.Connection) -> bool:
    """Return whether each change of the schema is a transaction of its own."""
    return connection.dialect.name in ("mysql", "mariadb")


@contextmanager
def writers_locked(connection: sa.Connection) -> Generator[None]:
    """Keep processes that have the store open from writing meanwhile."""
    if connection.dialect.name == "postgresql":
        run(f"LOCK TABLE {EVENTS}, toolledger_lanes IN ACCESS EXCLUSIVE MODE")
    if not in_steps(connection):
        yield
        return
    with lanes_held(connection):
        yield


def rename_old(connection: sa.Connection) -> None:
    """Give the table of events, and its constraints, another name."""
    op.rename_table(EVENTS, OLD)
    if connection.dialect.name == "postgresql":  # where their names are of the whole schema
        for constraint in sa.inspect(connection).get_unique_constraints(OLD):
            run(
                f"ALTER TABLE {OLD} RENAME CONSTRAINT {constraint['name']} "
                f"TO {constraint['name']}_old"
            )
        run(f"ALTER TABLE {OLD} RENAME CONSTRAINT toolledger_events_pk TO toolledger_events_old_pk")


def has_column(connection: sa.Connection, table: str, column: str) -> bool:
    """Return whether a table has a column."""
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
