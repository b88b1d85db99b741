"""The seam between the event store and a database.

A storage keeps events in lanes. It decides nothing: an `Append` says which state its drafts
were decided on, and how to decide again when others have written since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

from eventstore.events import Recorded


class Draft(msgspec.Struct, frozen=True, gc=False):
    """One event, encoded and ready to be stored.

    `fingerprint` is the 16-byte digest of the arguments in force; `begins` marks the event that
    brought it into the conversation, which is what a search by fingerprint finds.
    """

    event_id: bytes
    recorded_at: int
    tag: str
    schema: int
    payload: bytes
    fingerprint: bytes | None = None
    begins: bool = False


class Append(msgspec.Struct):
    """Drafts for one conversation, decided on its state at `version`.

    `as_of` is the lane position up to which that state is known to be current. When others
    have written since, the storage calls `rebase` with what they wrote, inside the transaction,
    and stores the drafts that it returns (none at all is a legal answer). What `rebase` raises
    ends the append with nothing written.
    """

    conversation_id: str
    version: int
    as_of: int
    drafts: Sequence[Draft]
    rebase: Callable[[Sequence[Recorded]], Sequence[Draft]]


class Appended(msgspec.Struct, frozen=True, gc=False):
    """Where the drafts of an append came to stand: the last version and lane position."""

    lane: int
    version: int
    position: int


class Damage(msgspec.Struct, frozen=True, gc=False):
    """One thing that is wrong in a stored log, and the place where it was found."""

    lane: int
    position: int | None
    conversation_id: str | None
    version: int | None
    problem: str


class Storage(Protocol):
    """What a database must offer; safe to share between threads.

    `eventstore.testing` has the contract as a test suite.
    """

    def append(self, request: Append) -> Appended:
        """Store the drafts, all or none, durably, with the next versions and positions."""

    def append_all(self, requests: Sequence[Append]) -> list[Appended | Exception]:
        """Store the drafts of many, in their order, in one durable transaction.

        Each is asked for its drafts by `rebase`, inside the transaction, with what others have
        written; what that raises is the outcome of this request alone. Several may be of one
        conversation: the later one's drafts come behind the earlier one's. What is raised here
        stored nothing of anybody.
        """

    def lane_of(self, conversation_id: str) -> int:
        """The lane that a conversation is in, whether it has begun or not."""

    def conversation(self, conversation_id: str, after: int = 0) -> Iterator[Recorded]:
        """The events of a conversation after a version, in order, in bounded memory."""

    def feed(
        self,
        after: Mapping[int, int],
        limit: int | None = None,
        until: Mapping[int, int] | None = None,
    ) -> Iterator[Recorded]:
        """The events of the tenant after each lane's position, in lane and position order.

        With `until`, the lanes' heads as they were read before: no further, and every position
        up to there must be there, of whatever tenant.

        Raises:
            StoreCorrupt: one is missing.
        """

    def outlines(
        self, after: Mapping[int, int], limit: int | None = None
    ) -> Iterator[Sequence[Recorded]]:
        """The same as `feed`, many at a time, with the outlines of the events in their place."""

    def by_fingerprint(self, digest: bytes) -> Iterator[Recorded]:
        """The events of all calls that had these arguments in force, wherever they were made."""

    def known_ids(self, conversation_id: str, event_ids: Sequence[bytes]) -> dict[bytes, int]:
        """Which of the event ids are stored in the conversation, with their versions."""

    def conversations(self) -> Iterator[tuple[str, int]]:
        """The ids of the tenant's conversations with their versions, oldest first."""

    def versions(self, conversation_ids: Iterable[str]) -> dict[str, int]:
        """The versions of those of the conversations that have begun."""

    def heads(self) -> dict[int, int]:
        """The last position of each lane."""

    def hints(self, heard: Callable[[], object]) -> AbstractContextManager[None]:
        """Meanwhile `heard` may be called, in any thread, when other processes have appended.

        It spares a wait until the next look, and is not to be relied on.
        """

    @property
    def url(self) -> str:
        """Where it is: what opens it once more, so with the password."""

    @property
    def tenant(self) -> str:
        """Whose events these are."""

    @property
    def epoch(self) -> str:
        """What tells this store from every other: a cursor of another epoch is refused."""

    def verify(self) -> Iterator[Damage]:
        """What is wrong with the stored rows: digests, gaps, heads, the file itself."""

    def close(self) -> None:
        """Give up the connections. Twice is once."""
