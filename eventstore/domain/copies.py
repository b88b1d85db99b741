"""Copies: events that a conversation has from another one, known by the beginning of their ids.

1. What a fork copies, and what an imported conversation repeats of another one, happened there. So
   its id begins with `MARK`, and has the variant that RFC 9562 reserves: no maker of UUIDs makes
   such an id, and a caller may not give one.
2. The id stays with the event: in each stream and page, in tables, exports and archives, and where
   it was redacted or encrypted. So one row alone says that it is a copy.
3. A copy of a copy is one. Each event happened in the one conversation where it is not a copy.
"""

from __future__ import annotations

MARK = "c0b1ed"
"""The first hexadecimal digits of a copy's id."""

_MARK_BYTES = bytes.fromhex(MARK)
_RESERVED_VARIANT = 0xE0


def is_copy_id(event_id: str) -> bool:
    """Return whether an id, 32 hexadecimal digits, is that of a copy."""
    return event_id.startswith(MARK) and event_id[16] in "ef"


def copy_id(event_id: bytes) -> bytes:
    """Return the id that a copy has in the place of an id."""
    variant = event_id[8] | _RESERVED_VARIANT
    return b"%b%b%c%b" % (_MARK_BYTES, event_id[3:8], variant, event_id[9:])
