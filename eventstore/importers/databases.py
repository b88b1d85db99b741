"""SQLite databases that hold conversations, read by the first form that knows their tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from eventstore.importers.reading.database_format import DatabaseFormat, Tables
from eventstore.importers.reading.problems import Problems, SourceError
from eventstore.importers.reading.transcript import Transcript

SIGNATURE = b"SQLite format 3\x00"


class Database:
    """A database file; `position` of `size` bytes have been read."""

    def __init__(self, path: Path, formats: Sequence[DatabaseFormat], problems: Problems) -> None:
        self.path = path
        self.size = path.stat().st_size
        self.position = 0
        self._formats = formats
        self._problems = problems

    def transcripts(self) -> Iterator[Transcript]:
        """Yield the conversations.

        Raises:
            SourceError: the database is of no known form, or damaged.
        """
        with opened(self.path) as database:
            yield from self._format(tables_of(database)).read(database, self._problems)
        self.position = self.size

    def _format(self, tables: Tables) -> DatabaseFormat:
        found = next((each for each in self._formats if each.looks_like(tables)), None)
        if found is None:
            if any(name.startswith("toolledger_") for name in tables):
                raise SourceError(f"{self.path} is a log of toolledger: name it with --url")
            shown = ", ".join(sorted(tables)[:5]) or "(it has none)"
            raise SourceError(
                f"{self.path} is a SQLite database with the tables {shown}: import "
                "sessions of openai-agents or checkpoints of LangGraph"
            )
        return found


@contextmanager
def opened(path: Path) -> Generator[sqlite3.Connection, None, None]:
    """Give a database that nothing is written to.

    Raises:
        SourceError: it is damaged.
    """
    uri = f"{path.resolve().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as database:
            yield database
    except sqlite3.Error as error:
        raise SourceError(
            f"{path} is a SQLite database that cannot be read ({error}): copy it again"
        ) from error


def tables_of(database: sqlite3.Connection) -> Tables:
    """Return the tables of a database, with the columns of each."""
    names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    return {name: _columns(database, name) for (name,) in names.fetchall()}


def _columns(database: sqlite3.Connection, table: str) -> set[str]:
    rows = database.execute("SELECT name FROM pragma_table_info(?)", (table,))
    return {name for (name,) in rows}
