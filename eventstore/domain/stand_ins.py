"""Stand-ins: what the store puts in the place of a payload, and how it is known from one.

1. There are three: the marker of a redaction, what is left of a payload that an archive holds, and
   the envelope of one that is encrypted. Each is known by its first bytes.
2. No event of this library begins so. A payload of another program may: stored as it is, it would
   be taken for a stand-in, and its conversation for damaged. So it is refused, or gets a blank
   behind its first brace, which changes nothing of the JSON value.
"""

from __future__ import annotations

from msgspec.structs import replace

from eventstore.domain.detached import DETACHED_PREFIX
from eventstore.domain.envelopes import PREFIX
from eventstore.domain.events import Event, UnknownEvent
from eventstore.domain.redaction import REDACTED_PREFIX

_PREFIXES = (REDACTED_PREFIX, DETACHED_PREFIX, PREFIX)


def stand_in_prefix(payload: str) -> str | None:
    """Return the first characters of a payload by which it is taken for a stand-in, if it is."""
    return next((prefix for prefix in _PREFIXES if payload.startswith(prefix)), None)


def as_payload(event: Event) -> Event:
    """Return the event with a payload of the same JSON value that is taken for no stand-in."""
    if type(event) is UnknownEvent and stand_in_prefix(event.payload) is not None:
        return replace(event, payload=f"{{ {event.payload[1:]}")
    return event
