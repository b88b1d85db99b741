"""A copy of a SQLite database that others write to, by SQLite's own backup.

1. A copy in steps begins again whenever another connection commits between two of them: beside
   busy writers it never ends. So the source stands in a read transaction, which sees one state.
   In WAL mode it holds up no writer.
2. The copy is made beside its place and linked there: a crash leaves no half of a copy.
3. A file that is there already is left as it is. So is the `-wal` or `-journal` of one that was
   removed: SQLite would apply it to the copy.
4. The copy is no more open to others than its source, from its first byte.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Protocol, cast

from eventstore.errors import StorageError
from eventstore.storage.sqlite.driver import driver
from eventstore.storage.sqlite.files import create

PAGES_AT_ONCE = 2_000
"""Pages that are copied before progress is told, and Ctrl-C is heard."""


class SqliteConnection(Protocol):
    """What is used of a driver's connection."""

    def execute(self, statement: str, /) -> object:
        """Run a statement."""

    def backup(
        self, target: object, /, *, pages: int, progress: Callable[[int, int, int], object]
    ) -> None:
        """Copy the database."""

    def close(self) -> None:
        """Close it."""


def backup(
    source: SqliteConnection,
    path: Path,
    progress: Callable[[int, int], object] | None,
    mode: int,
) -> None:
    """Copy the database of a connection that is in no transaction to a new file.

    `mode` has the permissions of the source's file.

    Raises:
        StorageError: the file or the rest of another is there already, or the folder is missing.
    """
    if not path.parent.is_dir():
        raise StorageError(f"the folder {path.parent} does not exist: make it")
    taken = f"{path} exists: name another file, nothing was written"
    if path.exists():
        raise StorageError(taken)
    for rest in (path.with_name(f"{path.name}{end}") for end in ("-wal", "-journal")):
        if rest.exists():
            raise StorageError(
                f"{rest} is there, and SQLite would apply it to the copy: move it away, or name "
                "another file; nothing was written"
            )

    def copied(_status: int, remaining: int, total: int) -> None:
        if progress is not None:
            progress(total - remaining, total)

    def build(draft: Path) -> None:
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
        with closing(cast("SqliteConnection", driver().connect(str(draft)))) as target:
            source.execute("BEGIN")
            try:
                source.execute("SELECT count(*) FROM sqlite_master")  # begins to read, so now
                source.backup(target, pages=PAGES_AT_ONCE, progress=copied)
            finally:
                source.execute("ROLLBACK")

    if not create(path, build):
        raise StorageError(taken)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Put the file's name on the disk, where a folder can be opened for it."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
