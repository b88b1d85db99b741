"""`SubjectKeys`: the keys with which what is said about a subject can be read, kept elsewhere.

1. A subject has one key at a time. Here it goes by its digest (see `eventstore.subjects.secret`),
   in hex: no name is in a file of keys either.
2. An id of a key is never used twice: what was written under a key that was destroyed is lost, and
   a later key of the same subject cannot be taken for it.
3. A key is there for good before anything is written under it.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

KEY_BYTES = 32


class SubjectKey(NamedTuple):
    """A key of 32 bytes, and its id: any text."""

    id: str
    key: bytes


class SubjectKeys(Protocol):
    """Where keys are kept: a file (`KeyFile`), or a service of your own. Threads share it.

    What it raises is raised where events are appended or read.
    """

    def key_for(self, subject: str) -> SubjectKey:
        """Return the key of a subject, made and kept for good if there is none."""
        ...

    def key(self, key_id: str) -> bytes | None:
        """Return a key by its id; None where it was destroyed, or is not known."""
        ...

    def destroy(self, subject: str) -> None:
        """Destroy the key of a subject for good; without one nothing is done."""
        ...
