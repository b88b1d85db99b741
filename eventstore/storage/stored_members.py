"""The root over the members of a stored payload, and what of it no root proves."""

from __future__ import annotations

from eventstore.domain.detached import detached_members
from eventstore.domain.marker_proofs import Proven, proven
from eventstore.domain.member_tree import root_of
from eventstore.domain.redaction import is_marker, parsed_marker


def stored_members(tag: str, schema: object, payload: object, salt: object) -> Proven:
    """Return the root over the members of a payload, or of what was left of it."""
    if not isinstance(payload, bytes | bytearray):
        return Proven(None, ())
    stored = bytes(payload)
    if isinstance(salt, bytes | bytearray):
        return Proven(root_of(stored, bytes(salt)), ())
    if salt is None and is_marker(stored):
        marker, number = parsed_marker(stored), schema if isinstance(schema, int) else 0
        return (None if marker is None else proven(tag, number, marker)) or Proven(None, ())
    return Proven(detached_members(stored) if salt is None else None, ())
