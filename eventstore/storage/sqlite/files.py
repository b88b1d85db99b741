"""The file of a SQLite database: where it is, made whole or not at all, and still in its place."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from weakref import WeakSet

from eventstore.errors import NotAStore, StorageError, StoreCorrupt
from eventstore.storage.sqlite.driver import MOST_WAL_BYTES
from eventstore.storage.sqlite.wal_index import (
    INDEX_BYTES,
    WAL_HEADER_BYTES,
    Identity,
    OpenFile,
    WalIndex,
    descriptor_of,
    frames_of,
    least_size,
    read_index,
    size_of,
)

if TYPE_CHECKING:
    from sqlalchemy import URL

WITH_EVENTS = " while the store was open, and the last events may be gone with it"

NOT_KNOWN = -2
"""No size of a file, and no error."""

HEAD_BYTES = 100
"""The head of a database, of which SQLite says what it holds."""

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
    3. The -wal is never smaller than its index says. Other processes may empty it, and say so
       there first. Once it was begun anew it keeps its size, and most looks ask for that alone.
    """

    def __init__(self, path: Path) -> None:
        path = path.resolve()
        self._folder = str(path.parent)
        self._names = f"{path}-wal", f"{path}-shm"
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._pid = os.getpid()
        self._open: WeakSet[Any] = WeakSet()  # a connection that is lost counts no more
        self._watched: list[tuple[str, Identity]] = []
        self._shm: OpenFile | None = None
        self._wal = OpenFile((0, 0))
        self._wal_bytes = NOT_KNOWN  # as seen last
        self._frame_bytes = sys.maxsize  # until the index is read
        self._head: tuple[object, bytes] | None = None  # of the database, after which checkpoint
        self._looked_at = 0  # the time of the database's last change that was looked into
        self._begins_anew = False  # whether the next commit may begin the -wal anew
        self._settled = 0  # the time of a change of the folder, after which the files were there

    def opened(self, connection: Any) -> None:
        """Watch the files: a connection has them open now."""
        if not self._open or self._pid != os.getpid():
            self._begin_anew()
            self._watched = [(name, found) for name in self._names if (found := _identity(name))]
            if len(self._watched) == len(self._names):
                self._wal, self._shm = (OpenFile(identity) for _, identity in self._watched)
        self._open.add(connection)

    def closes(self, _: object, connection: Any) -> None:
        """Watch them no more if this connection, which is about to be closed, is the last."""
        self._open.discard(connection)

    def cut(self) -> str | None:
        """Return what was cut under an open connection, and to which size; None if nothing was."""
        if self._shm is None or not self._open or self._pid != os.getpid():
            return None
        size = size_of(self._wal.descriptor)
        if size == self._wal_bytes:
            return None
        least = WAL_HEADER_BYTES + frames_of(self._shm.descriptor) * self._frame_bytes
        if size >= least:
            # One that all counts of may become larger, and be cut to this size again.
            self._wal_bytes = size if size > least else NOT_KNOWN
            return None
        return self._cut(self._shm)

    def cut_elsewhere(self) -> str | None:
        """Return the same, as far as another connection of this process has the files open."""
        identity = _identity(self._names[1])
        return None if identity is None else self._cut(OpenFile(identity))

    def _cut(self, shm: OpenFile) -> str | None:
        index = read_index(shm.read(INDEX_BYTES))
        self._wal.read(0)  # it finds its descriptor
        try:
            size = os.stat(self._names[0]).st_size  # noqa: PTH116
        except OSError:
            size = 0
        if index is None or index != read_index(shm.read(INDEX_BYTES)):
            return None  # it is written just now: a later look tells
        if size < index.least_bytes:
            least = index.least_bytes
            return f"{self._names[0]} was cut to {size:,} of {least:,} bytes{WITH_EVENTS}"
        if index.frames:  # without any, the size of a page may not be there
            self._frame_bytes = index.frame_bytes
        return None

    def overwritten(self, identity: Identity, changed: int) -> bool:
        """Return whether the head of the database was written otherwise than by a checkpoint.

        The head counts the changes, and the pages. While a connection has a -wal, nothing but a
        checkpoint writes it, and the index says how far one has come. `changed` is the time of the
        file's last change.
        """
        if changed == self._looked_at and not self._begins_anew:
            return False
        found = self._look(identity)
        if found is None:
            return False
        index, head = found
        if self._head is not None and self._head[0] == index.copied and self._head[1] != head:
            return True
        self._head = index.copied, head
        self._looked_at = changed
        self._begins_anew = index.copied[1] > 0 or not index.frames
        return False

    def lacks_pages(self, identity: Identity, size: int) -> bool | None:
        """Return whether the database, which has become smaller, is smaller than its head says.

        `VACUUM` makes it smaller lawfully, by a checkpoint. While one runs, or where a reader kept
        it from copying all, that is not known: it is None, and a later look tells.
        """
        if self._shm is None or not self._shm.read(INDEX_BYTES) or size < HEAD_BYTES:
            return True  # nothing tells of a checkpoint
        found = self._look(identity)
        if found is None or not found[0].is_all_copied:
            return None
        return size < least_size(found[1])

    def _look(self, identity: Identity) -> tuple[WalIndex, bytes] | None:
        """Return the index, and the head of the database; None while a checkpoint runs."""
        is_open = self._open
        if not is_open or self._pid != os.getpid():
            return None
        before = self._index()
        head = OpenFile(identity).read(HEAD_BYTES)
        index = self._index()
        if index is None or before is None or len(head) < HEAD_BYTES or self._open is not is_open:
            return None
        return None if index.copied != before.copied or index.is_copying else (index, head)

    def _index(self) -> WalIndex | None:
        return None if self._shm is None else read_index(self._shm.read(INDEX_BYTES))

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
                still = is_open and self._open is is_open
                return name if still and descriptor_of(identity) is not None else None
        if time.time_ns() - changed > _tick_of(changed):
            self._settled = changed
        return None


def _tick_of(changed: int) -> int:
    """Return how far apart two times of change surely differ, in nanoseconds.

    File systems count in ticks of some milliseconds, and old ones in seconds.
    """
    return 100_000_000 if changed % 1_000_000_000 else 3_000_000_000


def _identity(name: str) -> Identity | None:
    """Return the inode and device of a file; None where it is missing."""
    try:
        return os.stat(name)[1:3]  # noqa: PTH116 - twice as fast
    except OSError:
        return None


class StoreFile:
    """The file of an open store, watched for its place, identity and size."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.companions = Companions(path)
        self._name = str(path)
        self._identity: Identity | None = None
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
        what = self._damage()
        if what is not None:
            raise _corrupt(what, "nothing was written")
        self._trusted_until = now + TRUST_SECONDS

    def check_beside(self) -> None:
        """Refuse a new connection that would write behind a gap in the -wal.

        Raises:
            StoreCorrupt: it would.
        """
        what = self.companions.cut_elsewhere()
        if what is not None:
            raise _corrupt(what, "nothing was written")

    def behind(self, said: str) -> StoreCorrupt | None:
        """Return the error for what became of the files, if SQLite stumbled over that."""
        what = None if self._identity is None else self._damage()
        what = what or self.companions.cut_elsewhere()
        return None if what is None else _corrupt(what, f"SQLite says: {said}")

    def _damage(self) -> str | None:
        """Return what became of the file, or of those beside it, while it was open."""
        size = self._size  # before it is looked: another thread may see it grow meanwhile
        try:
            found = os.stat(self._name)  # noqa: PTH116 - twice as fast
        except OSError as error:
            return f"{self.path} was removed while it was open ({error.strerror})"
        identity = found[1:3]
        if self._identity is None:
            self._identity = identity
        if identity != self._identity:
            return f"{self.path} was replaced while it was open"
        lacks = found.st_size < size and self.companions.lacks_pages(identity, found.st_size)
        if lacks:
            return f"{self.path} was cut to {found.st_size} bytes while it was open"
        if self.companions.overwritten(identity, found.st_mtime_ns):
            return f"{self.path} was overwritten while it was open"
        what = self.companions.missing()
        if what is not None:
            return f"{what} was removed or replaced{WITH_EVENTS}"
        if lacks is not None:
            self._size = found.st_size
        return self.companions.cut()

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

    def large_wal(self) -> Iterator[str]:
        """Yield that the -wal is larger than the file, and than it stays by itself."""
        wal = self.path.with_name(f"{self.path.name}-wal")
        found, beside = _status(self.path), _status(wal)
        if found is None or beside is None:
            return
        if beside.st_size > max(found.st_size, MOST_WAL_BYTES):
            yield (
                f"{wal} has {beside.st_size:,} bytes, more than the file ({found.st_size:,}): a "
                "program that reads has been in one transaction for long (a shell, a backup), or "
                "nothing was written since; after it ends, and appends go on, it becomes smaller"
            )

    def is_read_only(self) -> bool:
        """Return whether the file is there, and it or its folder cannot be written to."""
        path = self.path
        return path.exists() and not (_may_write(path) and _may_write(path.parent))


def _corrupt(what: str, also: str) -> StoreCorrupt:
    return StoreCorrupt(
        f"{what}; {also}: close the store in every process, restore the file from a copy if "
        "`toolledger verify` finds events missing, and open it again"
    )


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
