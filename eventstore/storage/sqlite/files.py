"""The file of a SQLite database: where it is, made whole or not at all, and still in its place."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from weakref import WeakSet

from eventstore.errors import NotAStore, StorageError, StoreCorrupt

if TYPE_CHECKING:
    from sqlalchemy import URL

TRUST_SECONDS = 0.001
"""How long a file that was seen in its place is taken to be there."""


def _status(path: Path) -> os.stat_result | None:
    """Return what the system says of a file, or None where it is missing.

    Any other error is raised: `Path.exists` takes a file of which it cannot tell for none.
    """
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def path_of(url: URL) -> Path | None:
    """Return the file that a SQLite URL names; None for a database in memory."""
    name = url.database
    if not name or name == ":memory:" or url.query.get("mode") == "memory":
        return None
    if name.startswith("file:"):
        name, _, query = name[5:].partition("?")
        if name == ":memory:" or "mode=memory" in query:
            return None
        name = unquote(name)
    return Path(name)


def permissions(path: Path) -> int:
    """Return the rights to read and write a file, as the bits that `os.open` takes."""
    return path.stat().st_mode & 0o666


def create(path: Path, build: Callable[[Path], None]) -> bool:
    """Create the database file at `path` whole or not at all; return False if it is there already.

    It is built beside `path` and linked into place. A crash leaves no half-made store, and when two
    processes create it at the same time, one wins and both continue with the same file.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.new")
    try:
        build(draft)
        try:
            os.link(draft, path)
        except FileExistsError:
            return False
        except OSError:  # a file system without links
            if path.exists():
                return False
            draft.replace(path)
        return True
    finally:
        for rest in ("", "-wal", "-shm", "-journal"):
            with suppress(OSError):
                draft.with_name(draft.name + rest).unlink()


class Companions:
    """The files beside a database, which its connections have open: its -wal and its -shm.

    1. SQLite makes them when the first connection reads, and removes them with the last. While one
       of this process is open, they stay, whatever other processes do: then they are watched.
    2. Most looks ask the folder alone whether a name in it has come or gone. Its time of change is
       believed when it is so old that no later change can have the same one.
    """

    def __init__(self, path: Path) -> None:
        path = path.resolve()
        self._folder = str(path.parent)
        self._names = f"{path}-wal", f"{path}-shm"
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._pid = os.getpid()
        self._open: WeakSet[Any] = WeakSet()  # a connection that is lost counts no more
        self._watched: list[tuple[str, tuple[int, ...]]] = []
        self._settled = 0  # the time of a change of the folder, after which the files were there

    def opened(self, connection: Any) -> None:
        """Watch the files: a connection has them open now."""
        if not self._open or self._pid != os.getpid():
            self._begin_anew()
            self._watched = [(name, found) for name in self._names if (found := _identity(name))]
        self._open.add(connection)

    def closes(self, _: object, connection: Any) -> None:
        """Watch them no more if this connection, which is about to be closed, is the last."""
        self._open.discard(connection)

    def missing(self) -> str | None:
        """Return which of them was removed or replaced under an open connection, None if none."""
        watched, is_open = self._watched, self._open
        if not is_open or self._pid != os.getpid():
            return None
        changed = os.stat(self._folder).st_mtime_ns  # noqa: PTH116 - twice as fast
        if changed == self._settled:
            return None
        for name, identity in watched:
            if _identity(name) != identity:
                # Meanwhile the last connection may have been closed, and another one opened.
                return name if is_open and self._open is is_open and _has_open(identity) else None
        if time.time_ns() - changed > _tick_of(changed):
            self._settled = changed
        return None


def _tick_of(changed: int) -> int:
    """Return how far apart two times of change surely differ, in nanoseconds.

    File systems count in ticks of some milliseconds, and old ones in seconds.
    """
    return 100_000_000 if changed % 1_000_000_000 else 3_000_000_000


def _identity(name: str) -> tuple[int, ...] | None:
    """Return the inode and device of a file; None where it is missing."""
    try:
        return os.stat(name)[1:3]  # noqa: PTH116 - twice as fast
    except OSError:
        return None


def _has_open(identity: tuple[int, ...]) -> bool:
    """Return whether this process has a file open, by its inode and device.

    Windows does not say, and removes no file that is open.
    """
    with suppress(OSError):
        for descriptor in os.listdir("/dev/fd"):  # noqa: PTH208 - names alone
            with suppress(OSError):
                if os.fstat(int(descriptor))[1:3] == identity:
                    return True
    return False


class StoreFile:
    """The file of an open store, watched for its place, identity and size."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.companions = Companions(path)
        self._name = str(path)
        self._identity: tuple[int, ...] | None = None  # inode and device
        self._size = 1
        self._trusted_until = 0.0

    def check_in_place(self) -> None:
        """Refuse to use a file that was removed, replaced or cut since it was opened.

        So with the files beside it, which hold the last events (-wal) and the locks (-shm).

        Raises:
            StoreCorrupt: SQLite would continue where no other process writes or reads.
        """
        now = time.monotonic()
        if now < self._trusted_until:
            return
        try:
            found = os.stat(self._name)  # noqa: PTH116 - twice as fast
        except OSError as error:
            raise StoreCorrupt(
                f"{self.path} was removed while it was open ({error.strerror}); nothing was "
                "written: put it back, or open a new store"
            ) from error
        identity = found[1:3]
        if self._identity is None:
            self._identity = identity
        if identity != self._identity or found.st_size < self._size:
            what = "replaced" if identity != self._identity else f"cut to {found.st_size} bytes"
            raise StoreCorrupt(
                f"{self.path} was {what} while it was open; nothing was written: close the store, "
                "restore the file from a copy if necessary, and open it again"
            )
        missing = self.companions.missing()
        if missing is not None:
            raise StoreCorrupt(
                f"{missing} was removed or replaced while the store was open, and the last events "
                "may be gone with it; nothing was written: close the store in every process, "
                "restore the file from a copy if `toolledger verify` finds events missing, and "
                "open it again"
            )
        self._size = found.st_size
        self._trusted_until = now + TRUST_SECONDS

    def exists(self) -> bool:
        """Return whether the file is there; refuse what cannot be a store.

        This looks before SQLite does, which would change what it finds.

        Raises:
            NotAStore: The path is a folder or an empty file, or what is left of a removed store.
            StorageError: The folder is missing, or cannot be read.
        """
        path = self.path
        try:
            found = _status(path)
            if found is not None and S_ISDIR(found.st_mode):
                raise NotAStore(f"{path} is a folder: name a file in it")
            folder = _status(path.parent)
            if folder is None or not S_ISDIR(folder.st_mode):
                raise StorageError(f"the folder {path.parent} does not exist: make it")
            for rest in (path.with_name(f"{path.name}{end}") for end in ("-wal", "-journal")):
                # SQLite would apply it to any file that takes the name.
                if _status(rest) is not None and _status(path) is None:
                    raise NotAStore(
                        f"{path} is missing, but {rest.name} is there with its last events: put "
                        f"the file back, or move {rest.name} away to start a new store"
                    )
            if found is None:
                return False
        except OSError as error:
            raise StorageError(
                f"{path} cannot be read: {error.strerror}: see to its name and rights"
            ) from error
        if found.st_size == 0:
            raise NotAStore(
                f"{path} is empty (0 bytes): it was truncated, or another program made it. "
                "Restore it from a copy, or move it away (and its -wal file) to start a new store"
            )
        return True

    def is_read_only(self) -> bool:
        """Return whether the file is there, and it or its folder cannot be written to."""
        path = self.path
        return path.exists() and not (_may_write(path) and _may_write(path.parent))


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def is_of_another_user(path: Path) -> bool:
    """Return whether a file is another user's, and no process has the database open."""
    found = _status(path)
    if found is None or not hasattr(os, "geteuid") or os.geteuid() in (0, found.st_uid):
        return False
    return _status(path.with_name(f"{path.name}-shm")) is None


class UnchangedFile:
    """A file that SQLite takes for immutable: it must have no `-wal`, and no writer."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._wal = path.with_name(f"{path.name}-wal")
        self._seen = self._look()
        self.check()

    def check(self) -> None:
        """Raise an error if another process has begun to write, or had written before.

        Raises:
            StorageError: what is read would be wrong, or not all there is.
        """
        wal = _status(self._wal)
        if wal is not None and wal.st_size:
            raise StorageError(
                f"{self._path} has events in {self._wal.name}, which cannot be read without the "
                f"right to write in {self._path.parent}: let a program that may write open the "
                "store and close it, or copy both files to a folder of your own"
            )
        if self._look() != self._seen:
            raise StorageError(f"{self._path} was written meanwhile: open the store again")

    def _look(self) -> tuple[int, int, int] | None:
        found = _status(self._path)
        return None if found is None else (found.st_ino, found.st_size, found.st_mtime_ns)
