"""`StoredRow`: the row of an event, as checks and archives read it."""

from __future__ import annotations

from typing import NamedTuple


class StoredRow(NamedTuple):
    """An event as it is stored: whatever a damaged row may hold, so of any type."""

    position: int
    conversation: object
    version: object
    event_id: object
    recorded_at: object
    occurred_at: object
    tag: object
    schema: object
    fingerprint: object
    digest: object
    payload: object
    previous: object
    """The digest stored with the event before it."""
    id_given: object
    """Its version in the table of given ids, None where that has no row for it."""
    begins: object
    """Its version in the index of fingerprints, None where that has no row for it."""
    salt: object = None
    """None for a row of an older version, and for a redacted one."""
