"""The library's errors for those of SQLite."""

from __future__ import annotations

import errno

from eventstore.errors import (
    NotAStore,
    SchemaTooNew,
    StorageError,
    StoreBusy,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
)
from eventstore.storage.migrations import CHANGED

_BY_WORDS: tuple[tuple[tuple[str, ...], type[StorageError], str], ...] = (
    (
        ("locked", "busy"),
        StoreBusy,
        "another writer holds it; nothing was written, try again",
    ),
    (
        ("readonly", "read-only", "query_only"),
        StoreReadOnly,
        "nothing was written; make the file and its folder writable",
    ),
    (
        ("full",),
        StoreFull,
        "nothing was written; free some space and try again",
    ),
    (
        ("disk i/o error",),  # in a COMMIT the events may be found stored later
        StoreFull,
        "the disk is full or fails, or its -wal was removed or cut: close the store everywhere",
    ),
    (
        ("not a database", "encrypted"),
        NotAStore,
        "the file is damaged or of another kind; restore it from a copy or name another file",
    ),
    (
        ("malformed", "corrupt", "no such table", "could not decode"),
        StoreCorrupt,
        "the file is damaged; stop writing to it, run `toolledger verify`, restore it from a copy",
    ),
    (
        ("no such column", "has no column named"),
        SchemaTooNew,
        CHANGED,
    ),
    (
        ("unable to open",),
        StorageError,
        "make its folder, and give the right to write there",
    ),
    (
        ("constraint failed",),
        StoreCorrupt,
        "the log contradicts itself; nothing was written, run `toolledger verify`",
    ),
)

STUMBLED = ("disk i/o error", "malformed", "not a database")
"""What SQLite says, among others, where files were removed, cut or overwritten."""

_BY_ERRNO = {
    errno.EACCES: StoreReadOnly,
    errno.EPERM: StoreReadOnly,
    errno.EROFS: StoreReadOnly,
    errno.ENOSPC: StoreFull,
    errno.EDQUOT: StoreFull,
}


def driver_error(where: str, error: BaseException, *, read_only: bool) -> StorageError:
    """Return the library's error for one of the driver's, by what SQLite says in it."""
    text = str(error)
    lower = text.lower()
    for words, kind, remedy in _BY_WORDS:
        if any(word in lower for word in words):
            if remedy is CHANGED:  # SQLite's words would name a column
                return kind(f"{where}: {remedy}")
            return (StoreReadOnly if read_only else kind)(f"{where}: {text}: {remedy}")
    return StorageError(f"{where}: {text}: see to the file, then try again")


def system_error(where: str, error: OSError) -> StorageError:
    """Return the library's error for one of the operating system's."""
    kind = _BY_ERRNO.get(error.errno or 0, StorageError)
    return kind(f"{where}: {error.strerror}: see to the folder, its space and its rights")
