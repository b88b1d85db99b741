"""`KeptItems`: a list for a whole conversation, whose long items wait in a temporary file.

Some logs tell at their end what belongs to their beginning: a turn that was taken back, a record
that follows an older one. So a conversation is read to its end before it is imported.

1. Items of up to `KEPT_BYTES` together stay in memory: of most files, all.
2. After these, each item of `LONG_BYTES` and more is written to a temporary file, and read when it
   is asked for. The file has no name, and goes with the list.
3. Where no temporary file can be written, the items stay in memory.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

if TYPE_CHECKING:
    from io import FileIO

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

    def __init__(self, items: Iterable[T] = (), *, kept_bytes: int = KEPT_BYTES) -> None:
        self._items: list[T | _Far] = []
        self._room: float = kept_bytes
        self._file: FileIO | None = None
        self._end = 0
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
        if self._room == float("inf"):
            return item
        data = pickle.dumps(item, pickle.HIGHEST_PROTOCOL)
        if len(data) < LONG_BYTES or len(data) <= self._room:
            self._room -= len(data)
            return item
        try:
            if self._file is None:
                self._file = TemporaryFile(buffering=0)  # type: ignore[assignment] # noqa: SIM115
            self._file.seek(self._end)
            if self._file.write(data) < len(data):
                raise OSError("the file is full")
        except OSError:
            self._room = float("inf")
            return item
        far = _Far(self._end, len(data))
        self._end += len(data)
        return far

    def _near(self, item: T | _Far) -> T:
        if not isinstance(item, _Far):
            return item
        self._file.seek(item.start)
        near: T = pickle.loads(self._file.read(item.size))  # noqa: S301 - what this list has written
        return near
