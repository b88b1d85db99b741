"""What a log says against its seals: which events are not those that were sealed.

1. A mark is a size with the root that a trusted key has signed for it: of a note that was kept
   outside, or of a seal that the database holds.
2. The rows are hashed once, in the order of positions. At each mark the root is compared. Where it
   differs, an event between this mark and the one before is not what was sealed, whatever the
   chain says: it was changed, removed, inserted or moved.
3. After such a place, or one that is missing, the comparison continues from the next mark whose
   right edge is known: its root was signed. So each range between two seals is judged by itself.
4. A lane that ends before a mark was cut, counter or not. If the database does not even hold the
   seal of that note, it was put back to an older copy, or its seals were removed.

Pure, total, and of memory O(log n) for each mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from eventstore.seals.merkle import Edge
from eventstore.storage.leaves import SealedRow, Unsealable, hash_of

Kind = Literal[
    "changed", "cut", "forked", "missing", "put back", "seal changed", "seal missing", "unreadable"
]


class Finding(msgspec.Struct, frozen=True):
    """One thing by which a log is not what was sealed."""

    kind: Kind
    lane: int
    first: int
    """The first position that it is about; 0 where it is about none."""
    last: int
    problem: str

    def __str__(self) -> str:
        return self.problem


class Mark(msgspec.Struct, frozen=True):
    """A size of a lane, and the root that was signed for it."""

    size: int
    root: bytes
    edge: bytes | None = None
    """The right edge there, if it is known."""
    is_outside: bool = False
    """Whether it is of a note that was kept outside."""
    is_stored: bool = False
    """Whether the database holds the seal."""


def merged(lane: int, marks: Iterable[Mark]) -> tuple[list[Mark], list[Finding]]:
    """Return one mark for each size, in order, and where two signed roots of a size differ.

    There the root of a note from outside is the one that counts.
    """
    chosen: dict[int, Mark] = {}
    findings: list[Finding] = []
    for mark in marks:
        other = chosen.setdefault(mark.size, mark)
        if other.root != mark.root:
            chosen[mark.size] = mark if mark.is_outside else other
            problem = f"lane {lane} has two signed heads at {mark.size}: it was sealed from two "
            findings.append(Finding("forked", lane, 1, mark.size, f"{problem}histories"))
            continue
        chosen[mark.size] = Mark(
            mark.size,
            mark.root,
            other.edge or mark.edge,
            other.is_outside or mark.is_outside,
            other.is_stored or mark.is_stored,
        )
    return [chosen[size] for size in sorted(chosen)], findings


def findings_of(lane: int, rows: Iterable[SealedRow], marks: Sequence[Mark]) -> Iterator[Finding]:
    """Yield by what the rows of a lane are not those that the marks were made of.

    The marks are in the order of sizes, one for each. Rows after the last mark are not judged.
    """
    comparison = _Comparison(lane, marks)
    yield from comparison.pass_marks(0)
    for row in rows:
        if row.position > comparison.until:
            break
        yield from comparison.take(row)
    yield from comparison.end()


class _Comparison:
    """How far the rows of a lane were compared with its marks."""

    def __init__(self, lane: int, marks: Sequence[Mark]) -> None:
        self._lane = lane
        self._marks = list(marks)[::-1]  # the next one last
        self._end = 0  # the last position that was read
        self._edge: Edge | None = Edge()  # of the tree up to there; None where it is not known
        self._judged = 0  # the size of the last mark
        self.until = max((mark.size for mark in marks), default=0)

    def take(self, row: SealedRow) -> Iterator[Finding]:
        """Compare the next row; yield what is found."""
        here, expected = row.position, self._end + 1
        if here < expected:
            yield Finding("unreadable", self._lane, here, here, f"position {here} comes twice")
            self._edge = None
            return
        if here > expected:
            yield self._missing(expected, here - 1)
            self._edge = None
            yield from self.pass_marks(here - 1)
            if self._edge is not None and self._edge.size < here - 1:
                self._edge = None
        self._end = here
        try:
            hash_ = hash_of(row)
        except Unsealable as error:
            yield Finding("unreadable", self._lane, here, here, f"{error}, in lane {self._lane}")
            self._edge = None
        else:
            if self._edge is not None:
                self._edge.add(hash_)
        yield from self.pass_marks(here)

    def pass_marks(self, position: int) -> Iterator[Finding]:
        """Judge the marks up to a position, and continue from them."""
        while self._marks and self._marks[-1].size <= position:
            mark = self._marks.pop()
            if self._edge is None or self._edge.root() != mark.root:
                if self._edge is not None:
                    yield self._changed(mark)
                self._edge = None if mark.edge is None else Edge.of(mark.size, mark.edge)
            self._judged = mark.size

    def end(self) -> Iterator[Finding]:
        """Yield what is found at the end of the rows."""
        if not self._marks:
            return
        first, last, lane = self._judged + 1, self.until, self._lane
        problem = (
            f"lane {lane} ends at position {self._end}, and was sealed up to {last}: of the events "
            f"from position {first} on, {last - self._end} were removed"
        )
        if all(mark.is_stored for mark in self._marks):
            yield Finding("cut", lane, first, last, problem)
        else:
            problem += (
                " with their seal, which the database does not hold; or it was put back to an "
                "older copy"
            )
            yield Finding("put back", lane, first, last, problem)

    def _missing(self, first: int, last: int) -> Finding:
        what = f"position {first} is" if first == last else f"positions {first} to {last} are"
        return Finding("missing", self._lane, first, last, f"{what} missing in lane {self._lane}")

    def _changed(self, mark: Mark) -> Finding:
        first, last = self._judged + 1, mark.size
        what = f"position {last}" if first == last else f"positions {first} to {last}"
        problem = (
            f"the events at {what} of lane {self._lane} are not those that were sealed: one was "
            "changed, removed, inserted or moved"
        )
        if not mark.is_stored:
            problem += ", or the database was put back to an older copy and went on from there"
        if mark.edge is None and self._marks:
            problem += f"; nor can those up to {self.until} be judged, for this seal is not stored"
        return Finding("changed", self._lane, first, last, problem)
