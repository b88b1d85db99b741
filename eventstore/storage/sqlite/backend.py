"""SQLite: one file, one lane, WAL.

Python's own SQLite may carry the WAL-reset bug (3.7.0 to 3.51.2, but for 3.50.7 and 3.44.6): a
checkpoint asked for beside writers can lose committed rows. So nothing here checkpoints
explicitly, `mmap_size` stays 0, and `pysqlite3` is used where it is installed.

Nothing here opens the file but SQLite: to close a file gives up every POSIX lock that the process
has on it, and with them the log of a store that is open elsewhere in the process. For the same
reason a process must not use the file through another copy of SQLite (`sqlite3` beside an installed
`pysqlite3`): other processes may, and any tool.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote

from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.pool import QueuePool, StaticPool

from eventstore.errors import (
    NotAStore,
    StorageError,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
)
from eventstore.storage import Draft

SYNCHRONOUS = {"full": "FULL", "normal": "NORMAL"}

GLANCE = 0.001
"""Seconds for which a file that was seen in its place is taken to be there."""


def driver() -> ModuleType:
    """`pysqlite3` where it is installed (a newer SQLite), else Python's own `sqlite3`."""
    try:
        from pysqlite3 import dbapi2  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415
    except ImportError:
        return sqlite3
    return dbapi2  # type: ignore[no-any-return,unused-ignore]


def loses_rows(version: tuple[int, ...]) -> bool:
    """Whether a SQLite of this version carries the WAL-reset bug."""
    if (3, 44, 6) <= version < (3, 45) or (3, 50, 7) <= version < (3, 51):
        return False
    return (3, 7, 0) <= version < (3, 51, 3)


class Sqlite:
    """What SQLite does in its own way; `durability` is "full" or "normal"."""

    begin = "BEGIN IMMEDIATE"
    inheritable = False

    def __init__(self, url: URL, durability: str, busy_timeout: float) -> None:
        self.url = url
        self.path = _path(url)
        """The file, or None for a database in memory."""
        if self.path is not None and not str(url.database).startswith("file:"):
            # Now, not when a connection is made: the working directory may be another by then.
            self.path = self.path.resolve()
            self.url = url.set(database=str(self.path))
        self._name = str(self.path)
        self.module = driver()
        self._synchronous = SYNCHRONOUS[durability]
        self._durability = durability
        self.busy_timeout = busy_timeout
        self._memory: Engine | None = None
        self._identity: tuple[int, ...] | None = None
        self._size = 1
        self._good_until = 0.0

    def at(self, path: Path) -> Sqlite:
        """The same for a new file."""
        path.touch(exist_ok=False)  # connections make no files
        name = path.absolute().as_uri() if str(self.url.database).startswith("file:") else str(path)
        return Sqlite(self.url.set(database=name), self._durability, self.busy_timeout)

    def shared(self) -> bool:
        """Whether all must use one connection (a database in memory)."""
        return self.path is None

    def connect(self) -> Engine:
        """A new engine, its connections in autocommit mode; in memory, always the same."""
        if self._memory is not None:
            return self._memory
        options: dict[str, Any] = {"check_same_thread": False, "timeout": self.busy_timeout}
        if self.shared():
            engine = self._memory = create_engine(
                self.url, module=self.module, poolclass=StaticPool, connect_args=options
            )
        else:
            engine = create_engine(
                self.url, module=self.module, poolclass=QueuePool, pool_size=2, max_overflow=-1,
                connect_args=options, **self._existing(options),
            )  # fmt: skip
        event.listen(engine, "connect", self._prepare)
        return engine

    def _existing(self, options: dict[str, Any]) -> dict[str, Any]:
        """How to connect without making a file, should ours be gone."""
        if self.url.query or self.path is None or str(self.url.database).startswith("file:"):
            return {}
        place = f"{self.path.as_uri()}?mode=rw"
        return {"creator": lambda: self.module.connect(place, uri=True, **options)}

    def _prepare(self, connection: Any, _: Any) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA synchronous={self._synchronous}")
        cursor.execute("PRAGMA mmap_size=0")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    def check_in_place(self) -> None:
        """Refuse a write to a file that was removed, replaced or cut since it was opened.

        Raises:
            StoreCorrupt: SQLite would go on writing, to where nobody finds it.
        """
        path, now = self.path, time.monotonic()
        if path is None or now < self._good_until:
            return
        try:
            found = os.stat(self._name)  # noqa: PTH116 - twice as fast
        except OSError as error:
            raise StoreCorrupt(
                f"{path} is gone ({error.strerror}) while it was open; nothing was written: "
                "put it back, or open a new store"
            ) from error
        identity = found[1:3]  # inode and device
        if self._identity is None:
            self._identity = identity
        if identity != self._identity or found.st_size < self._size:
            what = "replaced" if identity != self._identity else f"cut to {found.st_size} bytes"
            raise StoreCorrupt(
                f"{path} was {what} while it was open; nothing was written: close the store, "
                "restore the file from a copy where need be, and open it again"
            )
        self._size = found.st_size
        self._good_until = now + GLANCE

    def check_names(self, tenant: str, conversation_id: str) -> None:
        """Refuse ids that the database cannot hold: SQLite holds any."""

    def check_sizes(self, drafts: Sequence[Draft]) -> None:
        """Refuse events for whose size it gave up the connection: it never does."""

    def is_lost(self, _: BaseException) -> bool:
        """Whether the connection is gone: to a file it never is."""
        return False

    def is_passing(self, _: BaseException) -> bool:
        """Whether SQLite gave the transaction up, to be begun again: it waits instead."""
        return False

    def translate(self, error: BaseException) -> BaseException:
        """The library's error for a driver's, with the file named; or the same error."""
        where = str(self.path or "the database in memory")
        if isinstance(error, StorageError):
            told = where in str(error) or isinstance(error, StoreClosed)
            return error if told else type(error)(f"{where}: {error}")
        if isinstance(error, OSError) and self.path is not None:
            kind = _OS_MEANINGS.get(error.errno or 0, StorageError)
            return kind(f"{where}: {error.strerror}: see to the folder, its space and its rights")
        driver_error = getattr(error, "orig", None) or error
        if not isinstance(driver_error, self.module.Error):
            return error
        text = str(driver_error)
        low = text.lower()
        for words, kind, remedy in _MEANINGS:
            if any(word in low for word in words):
                if "unable to open" in low and self._is_read_only():
                    kind = StoreReadOnly  # noqa: PLW2901
                return kind(f"{where}: {text}: {remedy}")
        return StorageError(f"{where}: {text}")

    def _is_read_only(self) -> bool:
        path = self.path
        return (
            path is not None
            and path.exists()
            and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))
        )

    def damage(self, run: Callable[[str], list[Any]]) -> Iterator[str]:
        """What SQLite itself finds wrong in the file."""
        try:
            rows = run("PRAGMA integrity_check(20)")
        except self.module.Error as error:
            yield f"SQLite cannot check the file: {error}"
            return
        for (text,) in rows:
            if text != "ok":
                yield f"SQLite: {text}"

    def check_file(self) -> bool:
        """Whether the file is there; refuse what cannot be a store, before SQLite touches it.

        Raises:
            NotAStore: the path is a folder or an empty file, or what is left of a removed store.
            StorageError: the folder is not there, or cannot be read.
        """
        path = self.path
        if path is None:
            return True
        try:
            if path.is_dir():
                raise NotAStore(f"{path} is a folder: name a file in it")
            if not path.parent.is_dir():
                raise StorageError(f"the folder {path.parent} does not exist: make it")
            for rest in (path.with_name(f"{path.name}{end}") for end in ("-wal", "-journal")):
                # SQLite would apply it to whatever takes the file's name.
                if rest.exists() and not path.exists():
                    raise NotAStore(
                        f"{path} is gone, but {rest.name} is there with its last events: put the "
                        f"file back, or move {rest.name} away to start a new store"
                    )
            if not path.exists():
                return False
            size = path.stat().st_size
        except OSError as error:
            raise StorageError(f"{path} cannot be read: {error.strerror}") from error
        if size == 0:
            raise NotAStore(
                f"{path} is empty (0 bytes): it was truncated, or another program made it. "
                "Restore it from a copy, or move it away (and its -wal file) to start a new store"
            )
        return True


_MEANINGS: tuple[tuple[tuple[str, ...], type[StorageError], str], ...] = (
    (("locked", "busy"), StoreBusy, "another writer holds it; nothing was written, try again"),
    (("readonly", "read-only", "query_only"), StoreReadOnly,
     "nothing was written; make the file and its folder writable"),
    (("full", "disk i/o error"), StoreFull, "nothing was written; free some space and try again"),
    (("not a database", "encrypted"), NotAStore,
     "the file is damaged or of another kind; restore it from a copy or name another file"),
    (("malformed", "corrupt", "no such table", "no such column", "could not decode"), StoreCorrupt,
     "the file is damaged; stop writing to it, run `toolledger verify`, restore it from a copy"),
    (("unable to open",), StorageError, "it must be there, and its folder writable"),
    (("constraint failed",), StoreCorrupt,
     "the log contradicts itself; nothing was written, run `toolledger verify`"),
)  # fmt: skip

_OS_MEANINGS = {
    errno.EACCES: StoreReadOnly,
    errno.EPERM: StoreReadOnly,
    errno.EROFS: StoreReadOnly,
    errno.ENOSPC: StoreFull,
    errno.EDQUOT: StoreFull,
}


def _path(url: URL) -> Path | None:
    name = url.database
    if not name or name == ":memory:" or url.query.get("mode") == "memory":
        return None
    if name.startswith("file:"):
        name, _, query = name[5:].partition("?")
        if name == ":memory:" or "mode=memory" in query:
            return None
        name = unquote(name)
    return Path(name)
