"""Which copy of SQLite is used."""

from __future__ import annotations

import sqlite3
from functools import cache
from types import ModuleType

MOST_WAL_BYTES = 2**24
"""What is left of a -wal when it is begun anew: it grows while a reader stays in a transaction."""

LIMIT_WAL = f"PRAGMA journal_size_limit={MOST_WAL_BYTES}"
"""Gives the rest back to the disk; it asks for no checkpoint. Each connection sets its own."""


@cache
def driver() -> ModuleType:
    """Return `pysqlite3` where it is installed (a newer SQLite), otherwise Python's `sqlite3`."""
    try:
        from pysqlite3 import dbapi2  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return sqlite3
    return dbapi2  # type: ignore[no-any-return,unused-ignore]


def loses_rows(version: tuple[int, ...]) -> bool:
    """Return whether a SQLite of this version carries the WAL-reset bug."""
    if (3, 44, 6) <= version < (3, 45) or (3, 50, 7) <= version < (3, 51):
        return False
    return (3, 7, 0) <= version < (3, 51, 3)
