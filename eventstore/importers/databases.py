"""SQLite databases that hold conversations, read by the first form that knows their tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from eventstore.importers.reading.database_format import DatabaseFormat
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
        uri = f"{self.path.resolve().as_uri()}?mode=ro"
        try:
            with closing(sqlite3.connect(uri, uri=True)) as database:
                yield from self._format(database).read(database, self._problems)
        except sqlite3.Error as error:
            raise SourceError(
                f"{self.path} is a SQLite database that cannot be read ({error}): copy it again"
            ) from error
        self.position = self.size

    def _format(self, database: sqlite3.Connection) -> DatabaseFormat:
        names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        tables = {name: _columns(database, name) for (name,) in names.fetchall()}
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


def _columns(database: sqlite3.Connection, table: str) -> set[str]:
    rows = database.execute("SELECT name FROM pragma_table_info(?)", (table,))
    return {name for (name,) in rows}
