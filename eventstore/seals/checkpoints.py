"""Checkpoints: the head of a tree as the text of a note, in the form of C2SP tlog-checkpoint.

1. The text has a line with the origin, one with the size in decimal digits, and one with base64 of
   the root. More lines may follow; ours have none.
2. The origin of a lane is `NAME/EPOCH/LANE`: the name of the key that signs, the store's epoch, and
   the lane's number. So no head is ever one of another store or another lane.
3. A file may hold several notes of checkpoints, one after another, with an empty line after each.
   What was torn in a crash stands between them, and is no note.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection, Iterator
from io import StringIO
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from eventstore.seals.errors import BadNote, SealMismatch
from eventstore.seals.keys import decoded, is_name
from eventstore.seals.notes import Note
from eventstore.storage.leaves import HASH_BYTES

if TYPE_CHECKING:
    from eventstore.seals.keys import VerifierKey

_LINES = 3
_MOST_DIGITS = 18  # of 64 bits
_DASH = "— "


class Origin(NamedTuple):
    """Whose tree it is: a key's name, a store, and one of its lanes."""

    name: str
    epoch: str
    lane: int

    def __str__(self) -> str:
        return f"{self.name}/{self.epoch}/{self.lane}"

    @classmethod
    def parse(cls, text: str) -> Origin:
        """Return the origin of a text.

        Raises:
            BadNote: it is not that of a lane.
        """
        rest, _, lane = text.rpartition("/")
        name, _, epoch = rest.rpartition("/")
        number = decimal(lane)
        if not is_name(text) or not name or not epoch or number is None:
            raise BadNote(f"the origin is {text!r}, which is no lane's: NAME/EPOCH/LANE")
        return cls(name, epoch, number)


class Checkpoint(msgspec.Struct, frozen=True):
    """The head of a tree. `str(checkpoint)` is the text of its note."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Checkpoint:
        """Return the checkpoint of a note's text.

        Raises:
            BadNote: it is none.
        """
        *lines, end = text.split("\n")
        if end or len(lines) < _LINES or not all(lines):
            raise BadNote(
                "the note has not a line each for origin, size and root: take that of a seal"
            )
        origin, digits, encoded, *extensions = lines
        size, root = decimal(digits), decoded(encoded)
        if size is None:
            raise BadNote(
                f"the size of the checkpoint is {digits[:40]!r}: take the note as written"
            )
        if root is None or len(root) != HASH_BYTES:
            raise BadNote(
                "the root of the checkpoint is not base64 of a hash: take the note as written"
            )
        return cls(origin, size, root, tuple(extensions))

    def lane_in(self, epoch: str) -> int:
        """Return the lane that it is of, in the store with this epoch.

        Raises:
            BadNote: it is of no lane.
            SealMismatch: it is of another store.
        """
        origin = Origin.parse(self.origin)
        if origin.epoch != epoch:
            raise SealMismatch(
                f"the note is of store {origin.epoch}, and this is store {epoch}: open the other"
            )
        return origin.lane

    def __str__(self) -> str:
        lines = (self.origin, str(self.size), b64encode(self.root).decode(), *self.extensions)
        return "".join(f"{line}\n" for line in lines)


def opened(data: str, trusted: Collection[VerifierKey]) -> Checkpoint:
    """Return the checkpoint of a note that a trusted key has signed.

    Raises:
        BadNote: it is no note of a checkpoint.
        NotSigned: no trusted key has signed it.
    """
    note = Note.parse(data)
    note.signed_by(trusted)
    return Checkpoint.parse(note.text)


def notes_in(data: str) -> Iterator[str]:
    """Yield the notes of a file; their signatures are not checked."""
    text: list[str] = []
    signatures: list[str] = []
    gap = False
    for line in StringIO(data):
        if line.startswith(_DASH) and text and (gap or signatures):
            signatures.append(line)
            continue
        if signatures:
            yield "".join((*text, "\n", *signatures))
        if signatures or (gap and line != "\n"):
            text, signatures = [], []
        gap = line == "\n"
        if not gap:
            text.append(line)
    if signatures:
        yield "".join((*text, "\n", *signatures))


def decimal(text: str) -> int | None:
    """Return a number from 0 without leading zeros, as databases have it; None for other text."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
        return None
    return int(text) if str(int(text)) == text else None
