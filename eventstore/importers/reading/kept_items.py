"""`KeptItems`: a list for a whole conversation, whose long items wait in a temporary file.

Some logs tell at their end what belongs to their beginning: a turn that was taken back, a record
that follows an older one. So a conversation is read to its end before it is imported.

1. Items of up to `KEPT_BYTES` together stay in memory: of most files, all.
2. After these, each item of `LONG_BYTES` and more is written to a temporary file, and read when it
   is asked for. The file has no name, and goes with the list.
3. Items that `may_wait` does not let go stay, as do those that are changed later.
4. Where no temporary file can be written, the items stay in memory.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from io import SEEK_END
from math import inf
from tempfile import TemporaryFile
from typing import IO, Generic, TypeVar, cast
from weakref import finalize

import msgspec

T = TypeVar("T")

KEPT_BYTES = 8 * 1024 * 1024
"""Bytes of the items that stay in memory, before long ones are written to a file."""

LONG_BYTES = 1024


class _Far(msgspec.Struct, frozen=True, gc=False):
    """Where an item lies in the file."""

    start: int
    size: int


class KeptItems(Generic[T]):
    """Items in their order."""

    def __init__(
        self,
        items: Iterable[T] = (),
        *,
        kept_bytes: int = KEPT_BYTES,
        may_wait: Callable[[T], bool] | None = None,
    ) -> None:
        self._may_wait = may_wait
        self._items: list[T | _Far] = []
        self._room: float = kept_bytes
        self._file: IO[bytes] | None = None
        for item in items:
            self.append(item)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return map(self._near, self._items)

    def __getitem__(self, index: int) -> T:
        return self._near(self._items[index])

    def append(self, item: T) -> None:
        """Add an item; a long one may be another object, and equal, when it is asked for."""
        self._items.append(self._placed(item))

    def taken_from(self, start: int) -> list[T]:
        """Take away the items from an index on, and return them."""
        taken = [*map(self._near, self._items[start:])]
        del self._items[start:]
        return taken

    def _placed(self, item: T) -> T | _Far:
        if self._room == inf or not (self._may_wait is None or self._may_wait(item)):
            return item
        try:
            data = pickle.dumps(item, pickle.HIGHEST_PROTOCOL)
        except RecursionError:  # it nests too deeply to be written
            return item
        if len(data) < LONG_BYTES or len(data) <= self._room:
            self._room -= len(data)
            return item
        far = self._written(data)
        if far is None:
            self._room = inf
            return item
        return far

    def _written(self, data: bytes) -> _Far | None:
        """Return where the data now lie in the file; None where they cannot be written."""
        try:
            if self._file is None:
                self._file = TemporaryFile(buffering=0)  # noqa: SIM115 - it goes with the list
                finalize(self, self._file.close)
            start = self._file.seek(0, SEEK_END)
            written = self._file.write(data)
        except OSError:
            return None
        return _Far(start, len(data)) if written == len(data) else None

    def _near(self, item: T | _Far) -> T:
        if not isinstance(item, _Far) or self._file is None:
            return cast("T", item)
        self._file.seek(item.start)
        near: T = pickle.loads(self._file.read(item.size) or b"")  # noqa: S301 - written above
        return near
