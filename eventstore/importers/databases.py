"""SQLite databases that hold conversations, read by the first form that knows their tables.

1. A database is opened to be read, beside a program that writes it. What the program keeps in a
   `-wal` file beside the database is read, too.
2. Where there is no such file, none is made: SQLite would leave one behind.
3. Of a database in WAL all is read as it is at the beginning, whatever is written meanwhile.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from eventstore.importers.reading.database_format import DatabaseFormat, Tables
from eventstore.importers.reading.problems import Problems, SourceError
from eventstore.importers.reading.transcript import Transcript

SIGNATURE = b"SQLite format 3\x00"

_WAL = b"\x02\x02"
"""The versions for writing and reading in the header of a database in WAL."""
_NAMED_TABLES = 5

_OTHERS: Final = {
    "Cursor": ("cursorDiskKV",),
    "VS Code, or a program made of it": ("ItemTable",),
    "OpenWebUI (import what it exports)": ("chat", "chatidtag"),
    "Kiro CLI or Amazon Q": ("auth_kv", "conversations"),
    "llm": ("_llm_migrations",),
}
"""Programs whose databases are not read, by tables that they have."""


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
            SourceError: the database is of no known form, damaged, or was changed meanwhile.
        """
        with opened(self.path) as database:
            yield from self._format(tables_of(database)).read(database, self._problems)
        self.position = self.size

    def _format(self, tables: Tables) -> DatabaseFormat:
        found = next((each for each in self._formats if each.looks_like(tables)), None)
        if found is None:
            if any(name.startswith("toolledger_") for name in tables):
                raise SourceError(f"{self.path} is a log of toolledger: name it with --url")
            if not tables and _is_in_wal(self.path):
                raise SourceError(
                    f"{self.path} is a SQLite database without tables: copy it again, with the "
                    "-wal file beside it"
                )
            shown = ", ".join(sorted(tables)[:_NAMED_TABLES]) or "(it has none)"
            other = next((each for each, own in _OTHERS.items() if {*own} <= tables.keys()), None)
            what = f"database of {other}" if other else "SQLite database"
            read = ", ".join(sorted({each.about.program for each in self._formats}))
            raise SourceError(
                f"{self.path} is a {what} with the tables {shown}: import a database of {read}"
            )
        return found


@contextmanager
def opened(path: Path) -> Generator[sqlite3.Connection, None, None]:
    """Give a database as it stands, to which nothing is written.

    Raises:
        SourceError: it is damaged, or was changed meanwhile.
    """
    path = path.resolve()
    in_wal = _is_in_wal(path)
    is_alone = in_wal and not _wal_of(path).exists()
    uri = f"{path.as_uri()}?mode=ro" + ("&immutable=1" if is_alone else "")
    before = path.stat()
    try:
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as database:
            if in_wal:
                database.execute("BEGIN")
            yield database
    except sqlite3.Error as error:
        raise SourceError(
            f"{path} is a SQLite database that cannot be read ({error}): copy it again, "
            "with the -wal file beside it"
        ) from error
    if is_alone and _was_changed(path, before):
        raise SourceError(f"{path} was written while it was read: import it again")


def tables_of(database: sqlite3.Connection) -> Tables:
    """Return the tables of a database, with the columns of each."""
    names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    return {name: _columns(database, name) for (name,) in names.fetchall()}


def _columns(database: sqlite3.Connection, table: str) -> set[str]:
    rows = database.execute("SELECT name FROM pragma_table_info(?)", (table,))
    return {name for (name,) in rows}


def _is_in_wal(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(len(SIGNATURE) + 2 + len(_WAL))
    return head.endswith(_WAL)


def _wal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _was_changed(path: Path, before: os.stat_result) -> bool:
    after = path.stat()
    same = (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size)
    return not same or _wal_of(path).exists()
