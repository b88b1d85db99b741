"""The keys of signed notes, and their texts: C2SP signed-note, as Go's `sumdb/note` has them.

1. A key has a name, without blanks and `+`; the form `example.com/agents` keeps names apart. Its id
   is the first four bytes of SHA-256 over the name, a line feed, the byte of the kind of signature,
   and the public key.
2. A verifier key is the text `NAME+ID+KEY`: the id in hexadecimal digits, then base64 of the byte
   of the kind and the public key. A signing key is the text `PRIVATE+KEY+NAME+ID+KEY`, with the
   seed in place of the public key.
3. Two kinds are known: Ed25519 over the note's text (1), which signs seals, and the cosignature of
   a witness (4, C2SP tlog-cosignature), whose signature begins with its time in seconds.
4. A text that has not this form to the letter is refused. The error never repeats it: it may be a
   secret, or most of one.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from eventstore.seals import crypto
from eventstore.seals.errors import BadKey

if TYPE_CHECKING:
    from typing import Self

ED25519, COSIGNATURE = 1, 4
"""The kinds of signatures that are known."""

ID_BYTES = 4

_KEY_BYTES = 32
_TIME_BYTES = 8
_PRIVATE = "PRIVATE+KEY+"


class VerifierKey(msgspec.Struct, frozen=True):
    """A public key: it tells whether its owner has signed a note. `str(key)` is its text."""

    name: str
    public: bytes
    kind: int = ED25519

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the key of a text `NAME+ID+KEY`.

        Raises:
            BadKey: it has another form.
        """
        key = cls(*_parsed(text.strip(), "verifier key", "NAME+ID+KEY"))
        if key.kind not in (ED25519, COSIGNATURE):
            raise BadKey(f"the verifier key is of kind {key.kind}: use one of kind 1 or 4")
        if str(key) != text.strip():
            raise BadKey(
                f"the verifier key does not have its own id, {key.id.hex()}: "
                "copy it again from where it is published"
            )
        return key

    @property
    def id(self) -> bytes:
        """Its id, of four bytes."""
        over = self.name.encode() + b"\n" + bytes([self.kind]) + self.public
        return sha256(over).digest()[:ID_BYTES]

    def has_signed(self, text: bytes, signature: bytes) -> bool:
        """Return whether a signature, without the id before it, is this key's of a note's text."""
        if self.kind == COSIGNATURE:
            time, signature = signature[:_TIME_BYTES], signature[_TIME_BYTES:]
            text = b"cosignature/v1\ntime %d\n" % int.from_bytes(time) + text
        return crypto.is_signed(self.public, text, signature)

    def __str__(self) -> str:
        encoded = b64encode(bytes([self.kind]) + self.public).decode()
        return f"{self.name}+{self.id.hex()}+{encoded}"


class SigningKey:
    """A secret key, which signs notes. Its `repr` holds no secret; `secret_text` is one."""

    __slots__ = ("_seed", "verifier")

    def __init__(self, name: str, seed: bytes) -> None:
        check_name(name)
        if len(seed) != _KEY_BYTES:
            raise BadKey(f"the seed has {len(seed)} bytes: pass {_KEY_BYTES}")
        self._seed = seed
        self.verifier = VerifierKey(name, crypto.public_key(seed))
        """Its public key, for those that check what it signs."""

    @classmethod
    def generate(cls, name: str) -> Self:
        """Return a new key. Keep `secret_text` where no writer of the log can read it.

        Raises:
            BadKey: the name has a blank, a `+` or nothing.
        """
        return cls(name, crypto.new_seed())

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the key of a text `PRIVATE+KEY+NAME+ID+KEY`.

        Raises:
            BadKey: it has another form.
        """
        form = f"{_PRIVATE}NAME+ID+KEY"
        text = text.strip()
        name, seed, kind = _parsed(text.removeprefix(_PRIVATE), "signing key", form)
        if not text.startswith(_PRIVATE) or kind != ED25519:
            raise BadKey(f"the signing key is no Ed25519 key: pass one of the form {form}")
        key = cls(name, seed)
        if key.secret_text() != text:
            raise BadKey("the signing key does not have its own id: copy it again, in full")
        return key

    @property
    def name(self) -> str:
        """Its name."""
        return self.verifier.name

    def secret_text(self) -> str:
        """Return the text `PRIVATE+KEY+NAME+ID+KEY`, which is all that is needed to sign."""
        encoded = b64encode(bytes([ED25519]) + self._seed).decode()
        return f"{_PRIVATE}{self.name}+{self.verifier.id.hex()}+{encoded}"

    def sign(self, text: bytes) -> bytes:
        """Return the signature of a note's text, without the key's id before it."""
        return crypto.sign(self._seed, text)

    def __repr__(self) -> str:
        return f"<SigningKey {self.name!r} {self.verifier.id.hex()}>"


def check_name(name: str) -> None:
    """Check that a name can stand in a note.

    Raises:
        BadKey: it cannot.
    """
    if not is_name(name):
        raise BadKey(
            "the name of a key is empty, or has a blank, a control character or '+': "
            "take a name like example.com/agents"
        )


def is_name(name: str) -> bool:
    """Return whether a key may have this name."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return bool(name) and not any(c.isspace() or c < " " or c == "+" for c in name)


def decoded(text: str) -> bytes | None:
    """Return what base64 of the one right form says; None for any other text."""
    try:
        data = b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        return None
    return data if b64encode(data).decode() == text else None


def _parsed(text: str, what: str, form: str) -> tuple[str, bytes, int]:
    """Return the name, the bytes and the kind of a key's text; ids are compared by the caller."""
    name, _, rest = text.partition("+")
    data = decoded(rest.partition("+")[2])
    if not is_name(name) or data is None or len(data) != 1 + _KEY_BYTES:
        raise BadKey(f"the {what} has not the form {form}: copy it in full")
    return name, data[1:], data[0]
