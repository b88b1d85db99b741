"""Tags: which events of a log are about a subject, which a keyed digest stands for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import msgspec

WHOLE = 0
"""The version of a tag that holds for all events of a conversation, also for those to come."""


class Tag(msgspec.Struct, frozen=True, gc=False):
    """That events are about a subject: one version, all (`WHOLE`), or those of an append (None)."""

    subject: bytes
    version: int | None = None


class TaggedConversation(msgspec.Struct, frozen=True):
    """The events of a conversation that are about a subject, as the index has them.

    `shared` are those, among them, that are about others, too. `archive` is the place that the
    conversation was archived to; None where its events are in the database. `damage` says
    what of the tags, or of the archive, is not as it was written: that is not among the rest.
    """

    lane: int
    key: int
    tenant: str
    conversation_id: str
    versions: tuple[int, ...]
    shared: tuple[int, ...] = ()
    archive: str | None = None
    damage: str | None = None


class SubjectIndex(Protocol):
    """The index of a storage: it spans all tenants. A digest stands for each subject."""

    def recognise(self, check: bytes) -> None:
        """Refuse another secret than that of the tags that are there; note the first one.

        Raises:
            WrongKey: it is another one.
        """
        ...

    def add(self, conversation_id: str, subject: bytes, versions: Iterable[int]) -> int:
        """Add tags to events of the tenant that are stored; return how many are new.

        Raises:
            ValueError: the conversation has no such version.
        """
        ...

    def tags_of(self, conversation_id: str) -> Sequence[Tag]:
        """Return the tags of a conversation of the tenant."""
        ...

    def find(self, subject: bytes) -> Iterator[TaggedConversation]:
        """Yield the conversations, of all tenants, with events about a subject.

        What a damaged tag names is not among their `versions`: it may be about another subject.
        """
        ...

    def tenants(self) -> Sequence[str]:
        """Return the tenants that have conversations."""
        ...

    def remove(
        self, subject: bytes, of: TaggedConversation, versions: Iterable[int], seen: int
    ) -> bool:
        """Remove tags; return False, and remove none, where `WHOLE` is among them, and not seen.

        `seen` is the version of the conversation up to which its events were dealt with.
        """
        ...


def versions_of(tag: Tag, after: int, count: int) -> Iterable[int]:
    """Return the versions that a tag names, of an append of `count` events after a version."""
    return range(after + 1, after + count + 1) if tag.version is None else (tag.version,)
