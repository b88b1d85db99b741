"""Proofs that leave the database, in forms that other programs read.

1. That an event is in the log: C2SP tlog-proof. It has the leaf's entry as `extra`, its index, the
   path to the root, and the note.
2. That the log of an older note is the beginning of that of a newer one: what C2SP tlog-witness
   sends to a witness. It has the old size, the path, and the newer note.
3. To check a proof takes the verifier key and, for the second, the older note; no database.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection
from typing import TYPE_CHECKING

import msgspec

from eventstore.seals.checkpoints import Checkpoint, decimal, opened
from eventstore.seals.errors import BadNote, SealMismatch
from eventstore.seals.keys import decoded
from eventstore.seals.merkle import is_consistent, is_included
from eventstore.storage.leaves import HASH_BYTES, SealedRow, leaf_hash, read_leaf

if TYPE_CHECKING:
    from eventstore.seals.keys import VerifierKey

MOST_HASHES = 64

_FORM = "c2sp.org/tlog-proof@v1"


class Inclusion(msgspec.Struct, frozen=True):
    """A proof that an event is in a sealed log. `str(proof)` is its form."""

    leaf: bytes
    index: int
    path: tuple[bytes, ...]
    note: str

    @classmethod
    def parse(cls, data: str) -> Inclusion:
        """Return the proof of a form.

        Raises:
            BadNote: it has another form, or no leaf.
        """
        head, _, note = data.partition("\n\n")
        form, *lines = head.split("\n")
        if form != _FORM:
            raise BadNote(f"the proof does not begin with the line {_FORM}: take it as written")
        leaf = decoded(lines[0].removeprefix("extra ")) if lines else None
        if leaf is None or not lines[0].startswith("extra "):
            raise BadNote("the proof has no line 'extra BASE64' with its leaf: make it by `prove`")
        index = _number(lines[1:2], "index")
        return cls(leaf, index, _hashes(lines[2:]), note)

    def check(self, trusted: Collection[VerifierKey]) -> tuple[SealedRow, Checkpoint]:
        """Return the event that is proven, and the head of the log that it is in.

        Raises:
            BadNote: note or leaf have not their forms.
            NotSigned: no trusted key has signed the note.
            SealMismatch: the event is not in the log of the note.
        """
        checkpoint, row = opened(self.note, trusted), read_leaf(self.leaf)
        if row is None:
            raise BadNote("the leaf is no event's entry of form 1: take it as it was written")
        hash_ = leaf_hash(self.leaf)
        if not is_included(hash_, self.index, checkpoint.size, self.path, checkpoint.root):
            raise SealMismatch(
                f"the proof does not lead to the note of {checkpoint.origin} at {checkpoint.size}: "
                "leaf, path or index were changed, or belong to another note; make the proof anew"
            )
        if row.position != self.index + 1:
            raise SealMismatch(
                f"the event says position {row.position} at index {self.index}: make the proof anew"
            )
        return row, checkpoint

    def __str__(self) -> str:
        extra = b64encode(self.leaf).decode()
        return f"{_FORM}\nextra {extra}\nindex {self.index}\n{_lines(self.path)}\n{self.note}"


class Consistency(msgspec.Struct, frozen=True):
    """A proof that an older log is the beginning of a newer one. `str(proof)` is its form."""

    old_size: int
    path: tuple[bytes, ...]
    note: str

    @classmethod
    def parse(cls, data: str) -> Consistency:
        """Return the proof of a form.

        Raises:
            BadNote: it has another form.
        """
        head, _, note = data.partition("\n\n")
        lines = head.split("\n")
        return cls(_number(lines[:1], "old"), _hashes(lines[1:]), note)

    def check(
        self, old_note: str, trusted: Collection[VerifierKey]
    ) -> tuple[Checkpoint, Checkpoint]:
        """Return the heads of the older and of the newer log.

        Raises:
            BadNote: a note has not its form.
            NotSigned: no trusted key has signed one of the notes.
            SealMismatch: the older log is not the beginning of the newer one.
        """
        old, new = opened(old_note, trusted), opened(self.note, trusted)
        if old.origin != new.origin or old.size != self.old_size:
            raise SealMismatch(
                f"the proof is for {new.origin} at {self.old_size}, "
                f"and the older note is of {old.origin} at {old.size}: pass the note of that size"
            )
        if not is_consistent(old.size, old.root, new.size, new.root, self.path):
            raise SealMismatch(
                f"the log of {old.origin} at {old.size} is not the beginning of that at "
                f"{new.size}, so events before were changed, or the proof was: check the log"
            )
        return old, new

    def __str__(self) -> str:
        return f"old {self.old_size}\n{_lines(self.path)}\n{self.note}"


def _number(lines: list[str], word: str) -> int:
    number = decimal(lines[0].removeprefix(f"{word} ")) if lines else None
    if number is None or not lines[0].startswith(f"{word} "):
        raise BadNote(f"the proof has no line '{word} NUMBER' in its place: take it as written")
    return number


def _hashes(lines: list[str]) -> tuple[bytes, ...]:
    found = tuple(hash_ for hash_ in map(decoded, lines) if hash_ and len(hash_) == HASH_BYTES)
    if len(found) != len(lines) or len(found) > MOST_HASHES:
        raise BadNote("the proof's path is not lines of base64 of hashes: take it as written")
    return found


def _lines(path: tuple[bytes, ...]) -> str:
    return "".join(f"{b64encode(hash_).decode()}\n" for hash_ in path)
