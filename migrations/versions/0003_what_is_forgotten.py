"""What is forgotten, kept and proven: salts, archives, subjects and seals.

1. An event that is written from now on has a salt, which its digest covers; see
   `eventstore.storage.chain`. Rows that are there already have none, and stay as they are.
2. Nothing is rewritten, and no process has to end: one that still has the old version open reads
   and appends as before, its events without a salt.
3. On PostgreSQL, MariaDB and MySQL the table of events is locked for as long as it takes to note a
   column. The lock is waited for briefly, several times, so that others are not kept waiting
   behind it. PostgreSQL keeps it until all revisions are done: so the counters, which a later one
   changes, are locked before it, as each append does.
4. The way back gives each event a digest without a salt: in one transaction, or lane by lane where
   the schema has no transactions. A log is as whole at each moment as before. Writers wait
   meanwhile. It is refused while conversations are archived, and seals are lost.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.dialects import mysql

from eventstore.storage.brief_locks import lanes_held, tried_briefly
from eventstore.storage.chain import conversation_digest, digests_of, unsalted
from eventstore.storage.migrations import refuse_archived
from eventstore.storage.stored_row import StoredRow

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
HASH = sa.LargeBinary().with_variant(mysql.BINARY(16), "mysql", "mariadb")
HASH_32 = sa.LargeBinary().with_variant(mysql.BINARY(32), "mysql", "mariadb")

EVENTS, DIGESTS = "toolledger_events", "toolledger_digests"
LOCKED = ("toolledger_lanes", EVENTS)
"""What is locked on PostgreSQL for the column, in the order of each append."""
NEW_TABLES = tuple(f"toolledger_{name}" for name in ("archives", "subjects", "seals"))
CHUNK_ROWS = 2000

Changed = tuple[int, int, bytes, str | None]
"""The lane and the position of an event, its digest without a salt, its marker if that changes."""


def upgrade() -> None:
    """Add the tables, and the column of salts: it is last, as the events are locked from it on."""
    connection = op.get_bind()
    run(f"DROP TABLE IF EXISTS {DIGESTS}")  # of a way back that was broken off
    for name, columns, key, options in tables():
        if not sa.inspect(connection).has_table(name):
            key_columns = sa.PrimaryKeyConstraint(*key, name=f"{name}_pk")
            op.create_table(name, *columns, key_columns, **options)
    if not has_column(connection, EVENTS, "salt"):
        locks = LOCKED if connection.dialect.name == "postgresql" else (EVENTS,)
        tried_briefly(connection, lambda: add_salt(connection), locks=locks)


def downgrade() -> None:
    """Take the salts out of the digests, and drop the column and the tables."""
    connection = op.get_bind()
    refuse_archived(connection, "0002")
    if has_column(connection, EVENTS, "salt"):
        with writers_locked(connection):
            remove_salts(connection)
            tried_briefly(connection, lambda: op.drop_column(EVENTS, "salt"))
    for name in (DIGESTS, *NEW_TABLES):
        run(f"DROP TABLE IF EXISTS {name}")


def add_salt(connection: sa.Connection) -> None:
    """Add the column of salts."""
    if connection.dialect.name == "postgresql":
        for name in LOCKED:
            run(f"LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE")
    op.add_column(EVENTS, sa.Column("salt", HASH))


def tables() -> Iterator[tuple[str, list[sa.Column[Any]], Sequence[str], dict[str, Any]]]:
    """Yield the new tables: name, columns, key and options."""

    def column(name: str, kind: Any) -> sa.Column[Any]:
        return sa.Column(name, kind, autoincrement=False, nullable=False)

    rowless = {"sqlite_with_rowid": False, **options()}
    yield (
        "toolledger_archives",
        [
            column("lane", sa.Integer),
            column("conversation", BIG),
            column("version", sa.Integer),
            column("archived_at", BIG),
            column("place", sa.Text()),
        ],
        ("lane", "conversation"),
        options(),
    )
    yield (
        "toolledger_subjects",
        [
            column("lane", sa.Integer),
            column("subject", HASH),
            column("conversation", BIG),
            column("version", sa.Integer),
            column("digest", HASH),
        ],
        ("lane", "subject", "conversation", "version"),
        rowless,
    )
    yield (
        "toolledger_seals",
        [
            column("lane", sa.Integer),
            column("previous", BIG),
            column("size", BIG),
            column("root", HASH_32),
            column("edge", sa.LargeBinary()),
            column("note", sa.Text()),
        ],
        ("lane", "previous"),
        options(),
    )


def remove_salts(connection: sa.Connection) -> None:
    """Give the events of each conversation with salts the digests that they have without any.

    An event that does not match its digest keeps the one that it has. The digests of a lane change
    in one statement, and a conversation is in one lane: so each row is sound by the rules of this
    revision at each moment.
    """
    run(f"DROP TABLE IF EXISTS {DIGESTS}")
    op.create_table(
        DIGESTS,
        sa.Column("lane", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("position", BIG, autoincrement=False, nullable=False),
        sa.Column("digest", HASH, nullable=False),
        sa.Column("marker", sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")),
        sa.PrimaryKeyConstraint("lane", "position", name="toolledger_digests_pk"),
        sqlite_with_rowid=False,
        **options(),
    )
    lanes = run(f"SELECT lane, COUNT(*) FROM {EVENTS} GROUP BY lane ORDER BY lane").fetchall()
    progress = context.config.attributes.get("progress") or (lambda *_: None)
    done, total = 0, sum(count for _, count in lanes)
    for lane, _ in lanes:
        for read, changed in new_digests(connection, lane):
            if changed:
                insert_digests(connection, changed)
            done += read
            progress(done, total)
        run(swap(connection, lane))


def insert_digests(connection: sa.Connection, rows: list[Changed]) -> None:
    """Insert rows into the table of digests."""
    columns = ("lane", "position", "digest", "marker")
    if connection.dialect.name == "postgresql":  # where one statement is twice as fast as many
        connection.exec_driver_sql(
            f"INSERT INTO {DIGESTS} "
            "SELECT * FROM unnest(%s::integer[], %s::bigint[], %s::bytea[], %s::text[])",
            tuple(map(list, zip(*rows, strict=True))),
        )
        return
    table = sa.table(DIGESTS, *map(sa.column, columns))
    connection.execute(table.insert(), [dict(zip(columns, row, strict=True)) for row in rows])


def swap(connection: sa.Connection, lane: int) -> str:
    """Return the statement that gives a lane's events what stands in the table of digests."""
    values = "chain = d.digest, payload = COALESCE(d.marker, e.payload), salt = NULL"
    where = f"d.lane = e.lane AND d.position = e.position AND e.lane = {lane}"
    if connection.dialect.name in ("mysql", "mariadb"):
        values = values.replace("chain", "e.chain").replace("payload =", "e.payload =")
        return f"UPDATE {EVENTS} e JOIN {DIGESTS} d SET {values} WHERE {where}"
    return f"UPDATE {EVENTS} AS e SET {values} FROM {DIGESTS} d WHERE {where}"


def new_digests(connection: sa.Connection, lane: int) -> Iterator[tuple[int, list[Changed]]]:
    """Yield how many events of a lane were read, and those that change."""
    old: dict[object, bytes] = {}  # of each conversation, the last event's stored digest
    new: dict[object, bytes] = {}
    for found in pages(connection, lane):
        changed = []
        for *columns, salt, tenant, name in found:
            row = StoredRow._make([*columns[:11], None, *columns[11:], salt])
            first = None
            if row.version == 1 and tenant is not None:
                first = conversation_digest(bytes(tenant), bytes(name))
            before = first or old.get(row.conversation, bytes(16))
            begins, given = row.begins is not None, row.id_given is not None
            digest = stored = bytes(row.digest)  # type: ignore[call-overload]
            marker = None
            if stored in digests_of(row, before, begins=begins, id_given=given):
                follows = first or new.get(row.conversation, bytes(16))
                digest, marker = unsalted(row, follows, begins=begins, id_given=given)
            old[row.conversation], new[row.conversation] = stored, digest
            if salt is not None or digest != stored or marker is not None:
                changed.append((lane, row.position, digest, marker))
        yield len(found), changed


def pages(connection: sa.Connection, lane: int) -> Iterator[Sequence[Any]]:
    """Yield the rows of a lane in the order of their positions, many at a time."""
    schema = op.get_bind().dialect.identifier_preparer.quote("schema")
    at = "e.lane + 0" if connection.dialect.name == "sqlite" else "e.lane"  # see `_lane`
    statement = sa.text(
        "SELECT e.position, e.conversation, e.version, e.event_id, e.recorded_at, e.occurred_at, "
        f"{as_bytes('e.tag')}, e.{schema}, e.fingerprint, e.chain, {as_bytes('e.payload')}, "
        f"i.version, f.version, e.salt, {as_bytes('c.tenant')}, {as_bytes('c.conversation_id')} "
        f"FROM {EVENTS} e "
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
        values = {"lane": lane, "after": after, "most": CHUNK_ROWS}
        found = connection.execute(statement, values).fetchall()
        yield found
        if len(found) < CHUNK_ROWS:
            return
        after = found[-1][0]


# how databases differ


@contextmanager
def writers_locked(connection: sa.Connection) -> Generator[None]:
    """Keep processes that have the store open from writing meanwhile; they may read."""
    if connection.dialect.name == "postgresql":
        lock = f"LOCK TABLE {', '.join(LOCKED)} IN EXCLUSIVE MODE"
        tried_briefly(connection, lambda: run(lock), locks=LOCKED)
    if connection.dialect.name in ("mysql", "mariadb"):
        with lanes_held(connection):
            yield
    else:
        yield


def has_column(connection: sa.Connection, table: str, column: str) -> bool:
    """Return whether a table has a column."""
    found = connection.exec_driver_sql(f"SELECT * FROM {table} WHERE 1 = 0")
    names = list(found.keys())
    found.close()
    return column in names


def as_bytes(column: str) -> str:
    """Return the expression that reads text as bytes, whatever they are."""
    return {
        "postgresql": f"convert_to({column}, 'UTF8')",
        "duckdb": f"encode({column})",
        "mysql": f"CAST({column} AS BINARY)",
        "mariadb": f"CAST({column} AS BINARY)",
    }.get(op.get_bind().dialect.name, f"CAST({column} AS BLOB)")


def run(statement: str) -> Any:
    """Run a statement without parameters."""
    return op.get_bind().exec_driver_sql(statement)


def options() -> dict[str, Any]:
    """Return options for MariaDB and MySQL: a collation that compares case, accents and blanks."""
    dialect: Any = op.get_bind().dialect
    binary = "utf8mb4_nopad_bin" if getattr(dialect, "is_mariadb", False) else "utf8mb4_0900_bin"
    return {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": binary}
