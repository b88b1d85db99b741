"""Anchors: places outside of the database that keep the notes of seals.

1. An anchor takes a note for good, and gives back the one of the greatest size of an origin.
2. What it has taken is on disk, or in the object store, when `publish` returns.
3. It never changes or removes what it has, and refuses another note of the same origin and size.

An anchor is worth something where the writer of the log cannot change it: a file of another user
that may only be appended to, a bucket with an object lock, a disk that is written once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from threading import get_ident
from typing import Protocol
from urllib.parse import quote

from eventstore.seals.checkpoints import Checkpoint, notes_in
from eventstore.seals.errors import AnchorFailed, BadNote
from eventstore.seals.notes import Note

_DIGITS = 18
_DASH = "— ".encode()


class Anchor(Protocol):
    """A place outside that keeps notes."""

    def publish(self, origin: str, size: int, note: str) -> None:
        """Take the note of a seal for good. A second call with the same note does nothing.

        Raises:
            Exception: it was not taken; it is offered again at the next seal.
        """
        ...

    def latest(self, origin: str) -> str | None:
        """Return the note of the greatest size of an origin; None where there is none."""
        ...


class FileAnchor:
    """A file that notes are appended to, each synced to the disk. It is made where it is missing.

    It is read once, and afterwards what was appended to it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._read = 0
        self._latest: dict[str, tuple[int, str]] = {}

    def publish(self, origin: str, size: int, note: str) -> None:
        """Append the note, unless the file has a later one.

        Raises:
            AnchorFailed: it has another note of this size, or did not take the whole note.
        """
        self._catch_up()
        known, other = self._latest.get(origin, (0, note))
        if known == size and other != note:
            raise AnchorFailed(
                f"{self.path} has another note of {origin} at {size}, so the log was sealed from "
                "two histories: check it against both"
            )
        if known >= size:
            return
        is_new = not self.path.exists()
        file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            end = os.fstat(file).st_size
            last = os.pread(file, 2, max(end - 2, 0))  # it may be torn, if a writer was killed
            gap = b"" if last in (b"", b"\n\n") else b"\n" if last.endswith(b"\n") else b"\n\n"
            data = gap + f"{note}\n".encode()
            if os.write(file, data) != len(data):
                raise AnchorFailed(
                    f"{self.path} did not take the whole note: free space on its disk"
                )
            os.fsync(file)
        finally:
            os.close(file)
        if is_new:
            _sync_folder(self.path.parent)

    def latest(self, origin: str) -> str | None:
        """Return the note of the greatest size of an origin; what is no note is passed over."""
        self._catch_up()
        return self._latest.get(origin, (0, None))[1]

    def _catch_up(self) -> None:
        """Read what was appended since, up to the end of its last note."""
        with suppress(FileNotFoundError), self.path.open("rb") as file:
            file.seek(self._read)
            data = file.read()
            end = data.rfind(b"\n\n")
            while end > 0 and not data.startswith(_DASH, data.rfind(b"\n", 0, end) + 1):
                end = data.rfind(b"\n\n", 0, end)
            self._read += end + 1
            for note in notes_in(data[: end + 1].decode("utf-8", "replace")):
                with suppress(BadNote):
                    head = Checkpoint.parse(Note.parse(note).text)
                    if self._latest.get(head.origin, (0, ""))[0] < head.size:
                        self._latest[head.origin] = head.size, note


class ObjectStore(Protocol):
    """What an object store must offer; a bucket with an object lock keeps what it has taken."""

    def put_new(self, name: str, data: bytes) -> None:
        """Store an object for good.

        Raises:
            FileExistsError: there is one of that name; it stays as it is.
        """
        ...

    def get(self, name: str) -> bytes:
        """Return the object of a name."""
        ...

    def names(self, prefix: str, after: str) -> Iterable[str]:
        """Return the names that begin so and come after another one by their bytes."""
        ...


class ObjectAnchor:
    """An object store with one object for each note: `PREFIX ORIGIN/SIZE.note`."""

    def __init__(self, store: ObjectStore, prefix: str = "") -> None:
        self.store = store
        self._prefix = prefix
        self._newest: dict[str, str] = {}  # the names that were found, by origin

    def publish(self, origin: str, size: int, note: str) -> None:
        """Store the note.

        Raises:
            AnchorFailed: another note of this size is there.
        """
        keep(self.store, self.name(origin, size), note.encode())

    def latest(self, origin: str) -> str | None:
        """Return the note of the greatest size of an origin."""
        known = self._newest.get(origin, "")
        names = self.store.names(self._folder(origin), known)
        found = max((name for name in names if name.endswith(".note")), default=known)
        if not found:
            return None
        self._newest[origin] = found
        return self.store.get(found).decode()

    def name(self, origin: str, size: int) -> str:
        """Return the name of a note; names sort as sizes do."""
        return f"{self._folder(origin)}{size:0{_DIGITS}}.note"

    def _folder(self, origin: str) -> str:
        return f"{self._prefix}{quote(origin, safe='')}/"


class FolderStore:
    """A folder as an object store: each object is a file, synced, and never written again."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def put_new(self, name: str, data: bytes) -> None:
        """Store a file under a name that no file has."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{os.getpid()}.{get_ident()}.part")
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(part, path)  # whole or not at all, and never over another
        finally:
            part.unlink()
        _sync_folder(path.parent)

    def get(self, name: str) -> bytes:
        """Return what a file holds."""
        return (self.path / name).read_bytes()

    def names(self, prefix: str, after: str) -> Iterable[str]:
        """Return the names of the files in the folder of a prefix, which ends in `/`."""
        folder = self.path / prefix
        found = [f"{prefix}{path.name}" for path in folder.iterdir()] if folder.is_dir() else []
        return [name for name in found if name > after and not name.startswith(f"{prefix}.")]


def keep(store: ObjectStore, name: str, data: bytes) -> None:
    """Store an object that may be there already, with the same bytes.

    Raises:
        AnchorFailed: it is there with other bytes.
    """
    try:
        store.put_new(name, data)
    except FileExistsError as error:
        if store.get(name) != data:
            raise AnchorFailed(
                f"the anchor has another object {name!r}, so the log was sealed from two "
                "histories: check it against both"
            ) from error


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
