"""Detached payloads: what stands in the place of a payload that an archive holds.

1. It is a JSON object. `detached` is the digest of the payload in hex: 64 digits, or 32 where the
   row had no salt. See `eventstore.storage.chain`. `members` is the root over its members, in 64
   digits, which the seals cover; without a salt there is none. See `eventstore.domain.member_tree`.
2. The row of the event stays, with its place, its ids, its times and its digest. So positions have
   no gaps, cursors and seals find what they name, and the digests of a log can still be checked.
3. Readers of a conversation get an error that names the archive. A feed passes over such rows: the
   `EventsArchived` that follows them says what is missing.
"""

from __future__ import annotations

import re
from typing import ClassVar

import msgspec

DETACHED_PREFIX = '{"detached":"'
_PREFIX = DETACHED_PREFIX.encode()
_FORM = re.compile(
    rb'\{"detached":"(?P<digest>[0-9a-f]{32}(?:[0-9a-f]{32})?)"'
    rb'(?:,"members":"(?P<members>[0-9a-f]{64})")?\}'
)


def detached(digest: bytes, members: bytes | None = None) -> bytes:
    """Return what is stored in the place of a payload with this digest, and this root."""
    root = b"" if members is None else b',"members":"' + members.hex().encode() + b'"'
    return _PREFIX + digest.hex().encode() + b'"' + root + b"}"


def is_detached(payload: str | bytes | bytearray) -> bool:
    """Return whether a payload is in an archive."""
    if isinstance(payload, str):
        return payload.startswith(DETACHED_PREFIX)
    return payload.startswith(_PREFIX)


def detached_digest(payload: bytes) -> bytes | None:
    """Return the digest of a payload that is in an archive; None for anything else."""
    return _member(payload, "digest")


def detached_members(payload: bytes) -> bytes | None:
    """Return the root over the members of a payload that is in an archive; None without one."""
    return _member(payload, "members")


def _member(payload: bytes, name: str) -> bytes | None:
    found = _FORM.fullmatch(payload)
    digits = None if found is None else found[name]
    return None if digits is None else bytes.fromhex(digits.decode())


class EventsArchived(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """All events of its conversation before it, up to `version`, are in an archive, at `place`.

    `by` is the person or the job that did it, `rule` the rule that was followed. A follower that
    has not read some of them by then finds them in the archive alone.
    """

    tag: ClassVar[str] = "archived"
    schema: ClassVar[int] = 1
    by: str
    version: int
    place: str
    rule: str | None = None


class EventsRestored(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The events of its conversation up to `version` came back from an archive, as they were."""

    tag: ClassVar[str] = "restored"
    schema: ClassVar[int] = 1
    by: str
    version: int


ArchiveEvent = EventsArchived | EventsRestored
"""An event that says where the events before it are."""
