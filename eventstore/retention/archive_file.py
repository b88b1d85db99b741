"""The files of an archive: written beside, synced, and put under their names when they are proven.

A file appears in its folder whole or not at all, and is no more open to others than the store is. A
run that was killed leaves at most a file whose name ends with `.new`, which the next run removes,
and one whole file that no conversation names yet, which the next run takes up.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import IO, Protocol

import msgspec

from eventstore.retention.lines import ArchiveLine

_NEW = ".new"


class ArchiveForm(Protocol):
    """How the lines of an archive are written to a file."""

    @property
    def suffix(self) -> str:
        """The end of the file's name, with the period."""
        ...

    def write(self, file: IO[bytes], lines: Iterable[ArchiveLine]) -> None:
        """Write lines."""
        ...

    def read(self, path: Path) -> Iterator[ArchiveLine]:
        """Yield the lines of a file.

        Raises:
            ValueError: it is not an archive of this form.
        """
        ...


class JsonLines:
    """A line of JSON for each event."""

    suffix = ".jsonl"

    def write(self, file: IO[bytes], lines: Iterable[ArchiveLine]) -> None:
        """Write lines; see `ArchiveForm.write`."""
        encoder = msgspec.json.Encoder()
        for line in lines:
            file.write(encoder.encode(line) + b"\n")

    def read(self, path: Path) -> Iterator[ArchiveLine]:
        """Yield the lines of a file; see `ArchiveForm.read`."""
        decoder = msgspec.json.Decoder(ArchiveLine)
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    yield decoder.decode(line)
                except (ValueError, RecursionError) as error:  # msgspec's own are ValueErrors
                    raise ValueError(
                        f"{path}: line {number} is not one of an archive ({error})"
                    ) from error


JSON_LINES = JsonLines()


class Folder:
    """The folder of a store's archives: its own files, among those of other stores."""

    def __init__(self, path: Path, epoch: str, tenant: str, form: ArchiveForm) -> None:
        self.path = path
        self._form = form
        mark = blake2b(f"{epoch}/{tenant}".encode(), digest_size=4).hexdigest()
        self._prefix = f"toolledger-{mark}-"

    def whole_files(self) -> list[Path]:
        """Return the archives that are there, in the order of their names."""
        return sorted(self.path.glob(f"{self._prefix}*{self._form.suffix}"))

    def remove_unfinished(self) -> None:
        """Remove what runs that were killed have left unfinished."""
        for path in self.path.glob(f".{self._prefix}*{_NEW}"):
            with suppress(FileNotFoundError):
                path.unlink()

    def new_file(self, day: str) -> tuple[Path, Path]:
        """Return the name of a new archive, and the one that it has until it is proven."""
        name = f"{self._prefix}{day}-{os.urandom(4).hex()}{self._form.suffix}"
        return self.path.resolve() / name, self.path.resolve() / f".{name}{_NEW}"

    def write(self, path: Path, lines: Iterable[ArchiveLine], permissions: int) -> int:
        """Write lines to a new file that is on disk when this returns; return its size in bytes."""
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, permissions)
        with os.fdopen(handle, "wb") as file:
            self._form.write(file, lines)
            file.flush()
            os.fsync(file.fileno())
            return file.tell()

    def read(self, path: Path) -> Iterator[ArchiveLine]:
        """Yield the lines of a file."""
        return self._form.read(path)

    def put_in_place(self, path: Path, name: Path) -> None:
        """Give a file its name, for good when this returns."""
        path.replace(name)
        self._sync()

    def remove(self, path: Path) -> None:
        """Remove a file that nothing names."""
        path.unlink(missing_ok=True)
        self._sync()

    def _sync(self) -> None:
        if os.name == "nt":  # a folder cannot be opened there
            return
        handle = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
