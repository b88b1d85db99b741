"""Records that name the one before them: a tree, in which a person went back and took another way.

The conversation is the way from the first record to the last that was written. What hangs on it is
an abandoned branch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Branches(Generic[T]):
    """The records so far, in the order in which they were written."""

    def __init__(self) -> None:
        self._records: list[T] = []
        self._parents: list[int | None] = []
        self._places: dict[str, int] = {}

    def __contains__(self, record_id: str) -> bool:
        return record_id in self._places

    def add(self, record: T, record_id: str, parent_id: object) -> None:
        """Add a record; one whose parent is not known follows the last, one without begins anew."""
        place = len(self._records)
        before = place - 1 if place else None
        if isinstance(parent_id, str):
            self._parents.append(self._places.get(parent_id, before))
        else:
            self._parents.append(None if parent_id is None else before)
        self._records.append(record)
        if record_id:
            self._places[record_id] = place

    def main(self) -> list[T]:
        """Return the records of the conversation."""
        return [self._records[place] for place in sorted(self._way())]

    def abandoned(self) -> Iterator[list[T]]:
        """Yield the records of each abandoned branch."""
        way = self._way()
        found: dict[int, list[T]] = {}
        roots: dict[int, int] = {}
        for place, parent in enumerate(self._parents):
            if place not in way:
                roots[place] = roots.get(place if parent is None else parent, place)
                found.setdefault(roots[place], []).append(self._records[place])
        yield from found.values()

    def _way(self) -> set[int]:
        """Return the places on the way to the last record; a parent always stands before."""
        way: set[int] = set()
        place = len(self._records) - 1 if self._records else None
        while place is not None:
            way.add(place)
            place = self._parents[place]
        return way
