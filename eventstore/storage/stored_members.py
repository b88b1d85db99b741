"""The root over the members of a stored payload, and what of it no root proves."""

from __future__ import annotations

from typing import NamedTuple

from eventstore.domain.detached import detached_members
from eventstore.domain.member_tree import root_from, root_of, unproven
from eventstore.domain.redaction import (
    REDACTED,
    is_marker,
    left_of,
    members_proof,
    parsed_marker,
)


class StoredMembers(NamedTuple):
    """What a stored payload is in the tree over its members."""

    root: bytes | None
    """None for a payload that had no salt, and for a damaged one."""
    unproven: tuple[str, ...] = ()
    """The paths of what a redaction has left, and what no root proves; "" is all of it."""


def stored_members(payload: object, salt: object) -> StoredMembers:
    """Return the root over the members of a payload, or of what was left of it."""
    if not isinstance(payload, bytes | bytearray):
        return StoredMembers(None)
    stored = bytes(payload)
    if isinstance(salt, bytes | bytearray):
        return StoredMembers(root_of(stored, bytes(salt)))
    if salt is None and is_marker(stored):
        return _members_of_marker(stored)
    return StoredMembers(detached_members(stored) if salt is None else None)


def _members_of_marker(stored: bytes) -> StoredMembers:
    marker = parsed_marker(stored)
    if marker is None:
        return StoredMembers(None)
    left, proof = left_of(marker), members_proof(marker)
    if proof is None:
        return StoredMembers(None, () if left is None else ("",))
    return StoredMembers(root_from(left, proof), tuple(unproven(left, proof, REDACTED)))
