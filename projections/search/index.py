"""The table of searched texts, and the index that finds a text inside of them.

1. `texts` holds what each event says, folded, so that upper and lower case are one.
2. Where the database has an index of trigrams (all runs of three characters), it names the rows
   that may hold a text: FTS5 in SQLite, `pg_trgm` in PostgreSQL. The database keeps it, in the
   transaction that writes the table.
3. Elsewhere, and for a text of one or two characters, the database looks at every row. So it does
   where the index cannot be made: an older SQLite, an extension that PostgreSQL lacks or that the
   user may not add. Any other error, such as a full disk, is raised.
4. A text that was redacted is deleted from both. FTS5 is told to overwrite what it deletes; before
   SQLite 3.42, which cannot, the index is merged into one, without it.
5. What the database names is compared again, so that each database finds the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import BigInteger, Column, MetaData, Table, event, inspect, select, text
from sqlalchemy.exc import DBAPIError

from projections.projector.queries import Row, delete_keys
from projections.projector.schema import TABLE_OPTIONS, lane_columns, long_bytes, long_text

if TYPE_CHECKING:
    from sqlalchemy import Connection

texts = Table(
    "toolledger_searched_texts",
    MetaData(),
    *lane_columns(),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("conversation_id", long_bytes(), nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("body", long_text(), nullable=False),
    **TABLE_OPTIONS,
)

MAX_CHARACTERS = 1_000
"""Characters of a text that the database compares: a longer pattern is too complex for SQLite."""

_TRIGRAM = 3
_MAX_TRIGRAMS = 64

# FTS5 finds a row by one integer, so generation, lane and position are packed into 16, 12 and 36
# bits of it. The row numbers of SQLite itself would not do: VACUUM changes them.
_LANE_SHIFT, _GENERATION_SHIFT = 36, 48
_CREATE_FTS = """
CREATE VIRTUAL TABLE toolledger_searched_trigrams
USING fts5(body, content='', detail=none, columnsize=0, tokenize='trigram')
"""
_CREATE_INSERT_TRIGGER = """
CREATE TRIGGER toolledger_searched_texts_insert AFTER INSERT ON toolledger_searched_texts
BEGIN
    INSERT INTO toolledger_searched_trigrams(rowid, body)
    VALUES ((new.projection << 48) | (new.lane << 36) | new.position, new.body);
END
"""
_CREATE_DELETE_TRIGGER = """
CREATE TRIGGER toolledger_searched_texts_delete AFTER DELETE ON toolledger_searched_texts
BEGIN
    INSERT INTO toolledger_searched_trigrams(toolledger_searched_trigrams, rowid, body)
    VALUES ('delete', (old.projection << 48) | (old.lane << 36) | old.position, old.body);
END
"""
_FIND = text("""
SELECT t.lane, t.position, t.conversation_id, t.version, t.body
FROM toolledger_searched_trigrams AS found
CROSS JOIN toolledger_searched_texts AS t
    ON t.projection = :generation
    AND t.lane = ((found.rowid >> 36) & 4095)
    AND t.position = (found.rowid & 68719476735)
WHERE toolledger_searched_trigrams MATCH :trigrams
    AND found.rowid > :after AND found.rowid <= :last
ORDER BY found.rowid
LIMIT :limit
""")
_CREATE_EXTENSION = "CREATE EXTENSION IF NOT EXISTS pg_trgm"
_CREATE_GIN_INDEX = """
CREATE INDEX toolledger_searched_trigrams
ON toolledger_searched_texts USING gin (body gin_trgm_ops)
"""
_ERASE_DELETED = """
INSERT INTO toolledger_searched_trigrams(toolledger_searched_trigrams, rank)
VALUES ('secure-delete', 1)
"""
_OVERWRITES = (3, 42)
"""The first SQLite whose FTS5 can overwrite what it deletes."""
_OPTIMIZE = """
INSERT INTO toolledger_searched_trigrams(toolledger_searched_trigrams) VALUES ('optimize')
"""
STATEMENTS = {
    "sqlite": (_CREATE_FTS, _CREATE_INSERT_TRIGGER, _CREATE_DELETE_TRIGGER),
    "postgresql": (_CREATE_EXTENSION, _CREATE_GIN_INDEX),
}

_SQLITE_ERROR = 1
"""What SQLite says of a module or a tokenizer that it does not have."""

_NO_EXTENSION = frozenset({"0A000", "42501", "42704", "58P01"})
"""SQLSTATEs of PostgreSQL: the extension is not available, the user may not add it, its operators
are not on the search path, its files are missing (which older versions say)."""


class TextRow(NamedTuple):
    """A row of `texts`, without its generation."""

    lane: int
    position: int
    conversation_id: bytes
    version: int
    body: str


@event.listens_for(texts, "after_create")
def _create_index(_: Table, connection: Connection, **__: object) -> None:
    """Create the index of trigrams, where the database has such a thing."""
    try:
        with connection.begin_nested():
            for statement in STATEMENTS.get(connection.dialect.name, ()):
                connection.execute(text(statement))
    except DBAPIError as error:
        if not lacks_trigrams(error):
            raise


def lacks_trigrams(error: DBAPIError) -> bool:
    """Return whether a database refused the index because it has no trigrams for this user."""
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is not None:
        return bool(code == _SQLITE_ERROR)
    state = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)
    return state in _NO_EXTENSION


def find_rows(
    connection: Connection, generation: int, folded: str, after: tuple[int, int], limit: int
) -> Sequence[TextRow]:
    """Return the next rows, after a lane and a position, that may hold a folded text."""
    lane, position = after
    if len(folded) >= _TRIGRAM and _has_fts(connection):
        first = generation << _GENERATION_SHIFT
        values: dict[str, object] = {
            "generation": generation,
            "trigrams": _trigrams(folded),
            "after": first + (max(lane, 0) << _LANE_SHIFT) + position,
            "last": first + (1 << _GENERATION_SHIFT) - 1,
            "limit": limit,
        }
        found = connection.execute(_FIND, values)
    else:
        columns = texts.c
        is_after = (columns.lane > lane) | ((columns.lane == lane) & (columns.position > position))
        statement = (
            select(*(columns[name] for name in TextRow._fields))
            .where(columns.projection == generation, is_after)
            .where(columns.body.contains(folded[:MAX_CHARACTERS], autoescape=True))
            .order_by(columns.lane, columns.position)
            .limit(limit)
        )
        found = connection.execute(statement)
    return [TextRow(*row) for row in found]


def erase_rows(connection: Connection, at: Row, positions: Iterable[int]) -> None:
    """Delete the rows of a lane at these positions, so that the index does not have them, either.

    PostgreSQL and MySQL overwrite deleted rows when they clean up, by themselves.
    """
    has_fts = _has_fts(connection)
    version: tuple[object, ...] = connection.dialect.server_version_info or ()
    overwrites = version >= _OVERWRITES
    if has_fts and overwrites:
        connection.execute(text(_ERASE_DELETED))
    delete_keys(connection, texts, at, "position", positions)
    if has_fts and not overwrites:
        connection.execute(text(_OPTIMIZE))


def _has_fts(connection: Connection) -> bool:
    return connection.dialect.name == "sqlite" and inspect(connection).has_table(
        "toolledger_searched_trigrams"
    )


def _trigrams(folded: str) -> str:
    """Return an expression for FTS5: the first trigrams of a text, which a row must hold all."""
    runs = (folded[at : at + _TRIGRAM] for at in range(len(folded) - _TRIGRAM + 1))
    quoted = ('"' + run.replace('"', '""') + '"' for run in runs)
    return " AND ".join(islice(dict.fromkeys(quoted), _MAX_TRIGRAMS))
