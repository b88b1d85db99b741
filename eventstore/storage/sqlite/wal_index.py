"""The index of a `-wal`, which SQLite keeps in the `-shm`.

It says how much of the `-wal` counts, and how far that was copied into the database: so what other
processes have done, which no size or time of a file tells. Its form is described at
https://sqlite.org/walformat.html#the_wal_index_file_format.

Files are read through the descriptors that SQLite has open. Opening and closing one anew would give
up every lock that the process has on it. Where the system does not list descriptors, as on Windows,
nothing is read.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from struct import Struct
from typing import NamedTuple

Identity = tuple[int, ...]
"""The inode and device of a file."""

WAL_HEADER_BYTES = 32

INDEX_BYTES = 136
"""The length of what is read of it."""

_FORM = 3007000
_FRAME_HEADER_BYTES, _COPY_BYTES, _FRAMES_AT = 24, 48, 16
_unpack_header = Struct("=I8xBxHI12x8s").unpack_from
_unpack_size = Struct(">16xH10xI").unpack_from
_unpack_copied = Struct("=I28xI").unpack_from


class WalIndex(NamedTuple):
    """What the index says."""

    header: bytes
    """It differs after each commit, and where the `-wal` was begun anew."""
    frame_bytes: int
    """How many bytes of the `-wal` a page takes."""
    frames: int
    """How many pages count in the `-wal`."""
    copied: tuple[bytes, int, int]
    """A mark of the `-wal`, and how many frames of it were and should be copied to the database."""

    @property
    def least_bytes(self) -> int:
        """The size that the `-wal` has at least."""
        return WAL_HEADER_BYTES + self.frames * self.frame_bytes if self.frames else 0

    @property
    def is_copying(self) -> bool:
        """Whether a checkpoint runs, or was broken off."""
        return self.copied[1] != self.copied[2]

    @property
    def is_all_copied(self) -> bool:
        """Whether the database is what the last checkpoint left, which left nothing out."""
        return not self.is_copying and self.copied[1] in (0, self.frames)


def read_index(data: bytes) -> WalIndex | None:
    """Return what the first bytes of a `-shm` say; None while they are written."""
    if len(data) < INDEX_BYTES or data[:_COPY_BYTES] != data[_COPY_BYTES : 2 * _COPY_BYTES]:
        return None
    form, is_there, page, frames, salt = _unpack_header(data)
    if form != _FORM or not is_there:
        return None
    frame = _FRAME_HEADER_BYTES + ((page & ~1) | (page & 1) << 16)
    copied, to_copy = _unpack_copied(data, 2 * _COPY_BYTES)
    return WalIndex(data[:_COPY_BYTES], frame, frames, (salt, copied, to_copy))


def frames_of(descriptor: int) -> int:
    """Return how many pages count in the `-wal`, by the descriptor of the `-shm`, 0 if unknown.

    It is three times as fast as `read_index`, and may be wrong while the index is written.
    """
    try:
        return int.from_bytes(os.pread(descriptor, 4, _FRAMES_AT), sys.byteorder)
    except (AttributeError, OSError):
        return 0


def size_of(descriptor: int) -> int:
    """Return the size of an open file, -1 for an error."""
    try:
        return os.fstat(descriptor).st_size
    except OSError:
        return -1


def least_size(head: bytes) -> int:
    """Return the size of a database, by its own head: it has so many pages of so many bytes."""
    page, pages = _unpack_size(head)
    return int(pages * (65536 if page == 1 else page))


class OpenFile:
    """A file that this process has open, or may have."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self.descriptor = -1

    def read(self, size: int) -> bytes:
        """Return its first bytes; none where it is not open."""
        data = self._read(size)
        if data is None:
            self.descriptor = -1 if (found := descriptor_of(self._identity)) is None else found
            data = self._read(size)
        return data or b""

    def _read(self, size: int) -> bytes | None:
        descriptor = self.descriptor
        try:
            data = os.pread(descriptor, size, 0)
            # It may have been closed meanwhile, and its number given to another file.
            return data if os.fstat(descriptor)[1:3] == self._identity else None
        except (AttributeError, OSError):
            return None


def descriptor_of(identity: Identity) -> int | None:
    """Return a descriptor of a file, if this process has it open."""
    with suppress(OSError):
        for name in os.listdir("/dev/fd"):  # noqa: PTH208 - names alone
            with suppress(OSError):
                if os.fstat(int(name))[1:3] == identity:
                    return int(name)
    return None
