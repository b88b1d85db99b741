"""The seam between the event store and a database.

A storage keeps events in lanes. It decides nothing: an `Append` says which state its drafts
were decided on, and how to decide again when others have written since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

import msgspec

from eventstore.domain.events import Recorded
from eventstore.subjects.tags import SubjectIndex, Tag
from eventstore.subjects.vault import Vault

if TYPE_CHECKING:
    from eventstore.storage.sealable_log import SealableLog
    from eventstore.storage.stored_row import StoredRow


class Draft(msgspec.Struct, frozen=True, gc=False):
    """One event, encoded and ready to be stored.

    `fingerprint` is the 16-byte digest of the arguments in force; `begins` marks the event that
    brought it into the conversation, which is what a search by fingerprint finds. `id_given` says
    that the caller gave the id, which `known_ids` then finds. `recorded_at` is the store's time,
    `occurred_at` that of the event's source where it is known; both in microseconds since 1970 UTC.
    `salt` are 16 random bytes, which a redaction deletes with the payload.
    """

    event_id: bytes
    recorded_at: int
    tag: str
    schema: int
    payload: bytes
    fingerprint: bytes | None = None
    begins: bool = False
    id_given: bool = False
    occurred_at: int | None = None
    salt: bytes = b""


class StoredPayload(msgspec.Struct, frozen=True, gc=False):
    """What a redaction must know of a stored event.

    `salt` is empty for an event of an older version, and for one that is redacted already. `plain`
    is what an encrypted payload says, where its key is there.
    """

    version: int
    tag: str
    schema: int
    payload: bytes
    fingerprint: bytes | None
    salt: bytes
    plain: bytes | None = None


class Rewrite(msgspec.Struct, frozen=True, gc=False):
    """A marker for the payload of a stored event, whose salt is deleted.

    With `fingerprint`, that of the event, the fingerprint is deleted, too, and its row in the
    index.
    """

    version: int
    marker: bytes
    fingerprint: bytes | None = None


class DetachedPayload(msgspec.Struct, frozen=True, gc=False):
    """What is stored for a payload that an archive holds, and what is dropped with it.

    `fingerprint` is that of the event, which goes with the payload where it `forgets` it: so where
    the digest has a salt. `begins` says that the index of fingerprints has a row for the event.
    """

    version: int
    payload: bytes
    fingerprint: bytes | None = None
    forgets: bool = False
    begins: bool = False


class Detach(msgspec.Struct, frozen=True, gc=False):
    """All payloads of a conversation up to `version` go: an archive at `place` holds them."""

    version: int
    archived_at: int
    place: str
    payloads: Sequence[DetachedPayload]


class AttachedPayload(msgspec.Struct, frozen=True, gc=False):
    """A payload that comes back from an archive, with all that its event had before."""

    version: int
    event_id: bytes
    payload: bytes
    salt: bytes | None
    fingerprint: bytes | None
    begins: bool
    id_given: bool


class Attach(msgspec.Struct, frozen=True, gc=False):
    """All payloads of an archived conversation come back."""

    payloads: Sequence[AttachedPayload]


class Append(msgspec.Struct):
    """Drafts for one conversation, decided on its state at `version`.

    `as_of` is the lane position up to which that state is known to be current. A storage decides
    nothing itself: `rebase` takes the events that others have written to the conversation since
    `version` (none is possible), and returns the drafts to store instead. An empty answer is legal.
    `rewrites` are done in the same transaction, where there are drafts: these are the record of a
    redaction, or of an archive. So are `tags` written, which say what persons the drafts are about.
    All requests of an append that are `joint` are stored, or none.
    """

    conversation_id: str
    version: int
    as_of: int
    drafts: Sequence[Draft]
    rebase: Callable[[Sequence[Recorded]], Sequence[Draft]]
    rewrites: Sequence[Rewrite] | Detach | Attach = ()
    tags: Sequence[Tag] = ()
    joint: bool = False


class Appended(msgspec.Struct, frozen=True, gc=False):
    """Where the drafts of an append came to stand: the last version and lane position."""

    lane: int
    version: int
    position: int


AppendOutcome = Appended | Exception
"""What became of one append: where it is stored, or what its `rebase` raised."""


class Damage(msgspec.Struct, frozen=True, gc=False):
    """One thing that is wrong in a stored log, and the place where it was found."""

    lane: int
    position: int | None
    conversation_id: str | None
    version: int | None
    problem: str


class Archived(msgspec.Struct, frozen=True, gc=False):
    """A conversation whose events up to `version` are in an archive, since when, and where."""

    conversation_id: str
    version: int
    archived_at: int
    place: str


class Resting(msgspec.Struct, frozen=True, gc=False):
    """A conversation, and its last event: its version, tag and time of recording."""

    conversation_id: str
    version: int
    recorded_at: int
    tag: str


class Archives(Protocol):
    """What a storage offers for archives: the conversations of its tenant, as they are stored."""

    def resting(self) -> Iterator[Resting]:
        """Yield all conversations that are not archived, lane by lane."""
        ...

    def rows(self, conversation_id: str) -> Iterator[StoredRow]:
        """Yield the rows of a conversation, in order, in bounded memory."""
        ...

    def list(self) -> Iterator[Archived]:
        """Yield the conversations that are archived, lane by lane."""
        ...

    def find(self, conversation_id: str) -> Archived | None:
        """Return where a conversation is archived; None where it is not."""
        ...

    def exclusive(self) -> AbstractContextManager[None]:
        """Keep every other process from archiving meanwhile.

        Raises:
            StoreBusy: another one archives now.
        """
        ...

    def permissions(self) -> int:
        """Return the permissions that a file of events may have at most."""
        ...


class Storage(Protocol):
    """What a database must offer; safe to share between threads.

    `eventstore.testing` has the contract as a test suite.
    """

    def append(self, requests: Sequence[Append]) -> list[AppendOutcome]:
        """Store the drafts of the requests, in order, in one durable transaction.

        1. All drafts of a request are stored or none, with the next versions and positions.
        2. A single request with drafts is stored as it is if no other writer has written to its
           conversation since `as_of`.
        3. In every other case the drafts are those that `rebase` returns, called inside the
           transaction. What it raises is the outcome of this request alone.
        4. Several requests may name one conversation: the drafts of the later one follow those
           of the earlier one, and only the first gets what other writers have stored.

        Raises:
            EventStoreError: the storage could not store; nothing of any request is stored.
        """
        ...

    def lane_of(self, conversation_id: str) -> int:
        """Return the lane that a conversation is in, whether it has begun or not."""
        ...

    def conversation(self, conversation_id: str, after: int = 0) -> Iterator[Recorded]:
        """Yield the events of a conversation after a version, in order, in bounded memory."""
        ...

    def feed(
        self,
        after: Mapping[int, int],
        limit: int | None = None,
        until: Mapping[int, int] | None = None,
    ) -> Iterator[Recorded]:
        """Yield the tenant's events after each lane's position, in lane and position order.

        With `until`, the lanes' heads as they were read before, it stops there, and every position
        up to there must exist, of any tenant.

        Raises:
            StoreCorrupt: A position is missing.
        """
        ...

    def headers(
        self, after: Mapping[int, int], limit: int | None = None
    ) -> Iterator[Sequence[Recorded]]:
        """Yield the same as `feed`, many at a time, with headers in place of the events."""
        ...

    def payloads(self, conversation_id: str) -> Iterator[StoredPayload]:
        """Yield the payloads of a conversation as they are stored, in order, in bounded memory."""
        ...

    def erase(self) -> tuple[str, ...]:
        """Clear what the database still holds of payloads that were redacted, as far as it can.

        Returned is what is left, in words, each with the remedy.
        """
        ...

    def unlock(self, vault: Vault) -> None:
        """Read from now on what is encrypted, as far as its keys are there."""
        ...

    @property
    def subjects(self) -> SubjectIndex:
        """The index of the persons that events are about, of all tenants."""
        ...

    def by_fingerprint(self, digest: bytes) -> Iterator[Recorded]:
        """Yield the events of all calls that had these arguments in force, in any conversation."""
        ...

    def known_ids(self, conversation_id: str, event_ids: Sequence[bytes]) -> dict[bytes, int]:
        """Return those of the given ids that the conversation has, with their versions.

        Found are the ids of drafts with `id_given`.
        """
        ...

    def event_id_at(self, conversation_id: str, version: int) -> bytes | None:
        """Return the id of the event at a version; None if the conversation ends before it.

        An append whose answer was lost has taken place by the time this returns, or never will.
        """
        ...

    def conversations(self) -> Iterator[tuple[str, int]]:
        """Yield the ids of the tenant's conversations with their versions, oldest first."""
        ...

    def versions(self, conversation_ids: Iterable[str]) -> dict[str, int]:
        """Return the versions of those of the conversations that have begun."""
        ...

    def heads(self) -> dict[int, int]:
        """Return the last position of each lane."""
        ...

    def anchors_at(self, positions: Mapping[int, int]) -> dict[int, str]:
        """Return the anchor of the event at a position of each lane, of any tenant.

        See `eventstore.domain.anchors`. Lanes that have no event there are left out.
        """
        ...

    def forget(self) -> None:
        """Trust nothing that is remembered of the log: it was put back to an older state."""
        ...

    @property
    def timeline(self) -> int:
        """A number that changes when the log was found not to be the one that was read before.

        What was made of that log does not hold any more; the read that finds it changes the number
        before it ends. It stays the same for a log that nothing can put back.
        """
        return 0

    def accept_loss(self) -> None:
        """Record that the database was put back to an older state, and that this is known.

        A storage that has refused an append for this reason refuses all of them until then.
        """
        ...

    def hints(self, heard: Callable[[], object], /) -> AbstractContextManager[None]:
        """Call `heard`, in any thread, when other processes have appended, while this lasts.

        It shortens the wait until the next poll, and is not to be relied on.
        """
        ...

    @property
    def server_time(self) -> Callable[[], int] | None:
        """What asks the server of the database for its time, in microseconds since 1970 UTC.

        None for a database without a server: it is on this machine, which has a clock.
        """
        return None

    @property
    def commits_by_lane(self) -> bool:
        """Whether lanes live on several nodes, which commit at the same time.

        Then appends to one lane make a transaction of one node, and each storage that `beside`
        gives commits without waiting for the others.
        """
        return False

    def beside(self) -> Storage:
        """Return a storage of the same log that appends at the same time as this one.

        Where this one is closed, it is closed, too.
        """
        ...

    @property
    def sealable_log(self) -> SealableLog | None:
        """The log of all tenants as it is sealed; None for a storage that keeps no seals."""
        return None

    @property
    def archives(self) -> Archives | None:
        """What it offers for archives; None for a storage that keeps none."""
        return None

    @property
    def url(self) -> str:
        """The URL that opens it again, so with the password."""
        ...

    @property
    def tenant(self) -> str:
        """The tenant whose events these are."""
        ...

    @property
    def epoch(self) -> str:
        """The mark that tells this store from every other: cursors of another are refused."""
        ...

    def verify(self) -> Iterator[Damage]:
        """Report what is wrong with the stored rows: digests, gaps, heads, the file itself."""
        ...

    def close(self) -> None:
        """Give up the connections. A second call does nothing."""
        ...
