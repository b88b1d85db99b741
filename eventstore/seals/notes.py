"""Signed notes: a text and signatures of it, in the form of C2SP signed-note.

1. A note is a text that ends in a line feed, an empty line, and one line for each signature: an em
   dash, a blank, the key's name, a blank, and base64 of the key's id and the signature. It is
   UTF-8 without control characters but the line feed.
2. A note is believed if at least one key that is trusted has signed it, and no line under the name
   and the id of such a key is false. Lines of other keys, those of witnesses for example, are kept
   as they are and mean nothing.
3. A line that is there twice counts once. A note has at most 100 of them.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import msgspec

from eventstore.seals.errors import BadNote, NotSigned
from eventstore.seals.keys import ID_BYTES, decoded, is_name

if TYPE_CHECKING:
    from eventstore.seals.keys import SigningKey, VerifierKey

MOST_SIGNATURES = 100

_DASH = "— "


class Signature(msgspec.Struct, frozen=True):
    """One line under a note: a key's name and id, and what is said to be its signature."""

    name: str
    id: bytes
    value: bytes

    def __str__(self) -> str:
        return f"{_DASH}{self.name} {b64encode(self.id + self.value).decode()}\n"


class Note(msgspec.Struct, frozen=True):
    """A text with its signatures, none of them checked. `str(note)` is its form."""

    text: str
    signatures: tuple[Signature, ...]

    @classmethod
    def parse(cls, data: str) -> Note:
        """Return the note of a form.

        Raises:
            BadNote: it has another form.
        """
        if any((char < " " and char != "\n") or "\ud800" <= char <= "\udfff" for char in data):
            raise BadNote("the note has a control character, or is not UTF-8: take it as written")
        text, gap, lines = data.rpartition("\n\n")
        if not gap or not lines.endswith("\n"):
            raise BadNote(
                "the note is not a text, an empty line, and lines of signatures: take it as written"
            )
        signatures = tuple(dict.fromkeys(map(_signature, lines.removesuffix("\n").split("\n"))))
        if len(signatures) > MOST_SIGNATURES:
            raise BadNote(f"the note has more than {MOST_SIGNATURES} signatures: take some away")
        return cls(text + "\n", signatures)

    def signed_by(self, trusted: Collection[VerifierKey]) -> list[VerifierKey]:
        """Return the trusted keys that have signed it, at least one.

        Raises:
            NotSigned: none has, or the line of one is false.
        """
        text = self.text.encode()
        found: list[VerifierKey] = []
        known = {(key.name, key.id): key for key in trusted}
        for line in self.signatures:
            key = known.get((line.name, line.id))
            if key is None:
                continue
            if not key.has_signed(text, line.value):
                raise NotSigned(
                    f"the signature of {key} is false, so the note was changed: take another"
                )
            if key not in found:
                found.append(key)
        if not found:
            keys = ", ".join(map(str, trusted)) or "no key at all"
            raise NotSigned(f"the note is not signed by {keys}: pass the key that has signed it")
        return found

    def __str__(self) -> str:
        return f"{self.text}\n{''.join(map(str, self.signatures))}"


def sign_note(text: str, keys: Sequence[SigningKey], others: Sequence[Signature] = ()) -> Note:
    """Return a note with the signatures of keys, after `others` that it has already.

    Raises:
        BadNote: the text does not end in a line feed.
    """
    if not text.endswith("\n"):
        raise BadNote("the text does not end in a line feed: append one")
    data = text.encode()
    own = [Signature(key.name, key.verifier.id, key.sign(data)) for key in keys]
    names = {(line.name, line.id) for line in own}
    kept = [line for line in others if (line.name, line.id) not in names]
    return Note.parse(str(Note(text, (*kept, *own))))  # what would not be read is not written


def _signature(line: str) -> Signature:
    name, _, encoded = line.removeprefix(_DASH).partition(" ")
    data = decoded(encoded)
    if not line.startswith(_DASH) or not is_name(name) or data is None or len(data) <= ID_BYTES:
        raise BadNote("a line below the note's text is no signature: take the note as written")
    return Signature(name, data[:ID_BYTES], data[ID_BYTES:])
