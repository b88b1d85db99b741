"""`SubjectSecret`: what turns the name of a subject into the digest that the database holds.

1. The digest is keyed BLAKE2b. A reader of the database alone can neither list the subjects nor
   confirm a guess at one.
2. The secret is the user's: it is never made by default, and never stored in the database. Without
   it the events of a subject cannot be found any more.
3. The database holds one digest more, of no subject, by which another secret is recognised.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path

MIN_SECRET_BYTES = 32
MAX_SECRET_BYTES = 64
"""The longest key of BLAKE2b."""

MAX_SUBJECT_CHARACTERS = 1000
SUBJECT_DIGEST_BYTES = 16


class SubjectSecret:
    """The secret of an index of subjects: 32 to 64 random bytes."""

    def __init__(self, secret: bytes) -> None:
        if not MIN_SECRET_BYTES <= len(secret) <= MAX_SECRET_BYTES:
            raise ValueError(
                f"the secret has {len(secret)} bytes: pass {MIN_SECRET_BYTES} to "
                f"{MAX_SECRET_BYTES} random ones"
            )
        self._of_subject = blake2b(
            digest_size=SUBJECT_DIGEST_BYTES, key=secret, person=b"toolledger/subj"
        )
        self.check = blake2b(
            digest_size=SUBJECT_DIGEST_BYTES, key=secret, person=b"toolledger/check"
        ).digest()
        """What tells this secret from any other, and nothing more of it."""
        self._of_fingerprint = blake2b(
            digest_size=SUBJECT_DIGEST_BYTES, key=secret, person=b"toolledger/mark"
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> SubjectSecret:
        """Make a new secret, and keep it in a new file, which its owner alone can read.

        Raises:
            FileExistsError: there is a file of that name.
        """
        secret = os.urandom(MIN_SECRET_BYTES)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secret.hex().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        return cls(secret)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> SubjectSecret:
        """Return the secret that a file holds: 64 to 128 hex digits.

        Raises:
            ValueError: it holds something else, or others than its owner may use the file.
            OSError: it cannot be read.
        """
        check_private(path)
        text = Path(path).read_text("ascii", errors="replace").strip()
        try:
            return cls(bytes.fromhex(text))
        except ValueError as error:
            raise ValueError(
                f"{os.fspath(path)!r} holds no secret: it must have 64 to 128 hex digits, as "
                "SubjectSecret.create(path) or `openssl rand -hex 32` makes them"
            ) from error

    def keyed(self, fingerprint: bytes) -> bytes:
        """Return a fingerprint that cannot be made of arguments without the secret."""
        hash_ = self._of_fingerprint.copy()
        hash_.update(fingerprint)
        return hash_.digest()

    def digest(self, subject: str) -> bytes:
        """Return what stands for a subject in the database: 16 bytes.

        Raises:
            ValueError: it is empty, too long, or no text.
        """
        if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT_CHARACTERS:
            raise ValueError(
                f"a subject is a text of 1 to {MAX_SUBJECT_CHARACTERS:,} characters, got "
                f"{_shown(subject)}: pass for example 'customer-17'"
            )
        try:
            name = subject.encode()
        except UnicodeEncodeError:
            raise ValueError("a subject has half a surrogate pair: pass other text") from None
        hash_ = self._of_subject.copy()
        hash_.update(name)
        return hash_.digest()


def check_private(path: str | os.PathLike[str], make: str = "SubjectSecret.create") -> None:
    """Refuse a file that others than its owner may use, where the system has such permissions.

    `make` is the name of what makes such a file.

    Raises:
        ValueError: they may.
        OSError: there is no such file.
    """
    name = os.fspath(path)
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - any path will do
    except FileNotFoundError:
        raise FileNotFoundError(
            f"there is no file {name!r}: name the one that you have, or make one with "
            f"{make}({name!r})"
        ) from None
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        raise ValueError(f"others may use {name!r}, which holds a secret: run `chmod 600 {name}`")


def secret_of(given: SubjectSecret | str | os.PathLike[str]) -> SubjectSecret:
    """Return the secret that a caller passed, or the path of."""
    return given if isinstance(given, SubjectSecret) else SubjectSecret.read(given)


def subjects_of(given: str | Iterable[str]) -> list[str]:
    """Return the subjects that a caller passed; a text is one."""
    return [given] if isinstance(given, str) and given else list(given)


def _shown(subject: object) -> str:
    return f"{len(subject):,}" if isinstance(subject, str) else type(subject).__name__
