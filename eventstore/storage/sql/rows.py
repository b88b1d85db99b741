"""The rows of events: made of drafts, and read again as what was recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from eventstore.codec import DECODERS, Decoders, decode
from eventstore.events import Recorded
from eventstore.fingerprint import PREFIX
from eventstore.storage import Draft

Batch = tuple[tuple[int, int], int, int, Sequence[Draft]]
"""Drafts of a conversation: its lane and key, the position and the version that they go behind."""

_blank = blake2b(digest_size=16)


def payload_digest(payload: bytes) -> bytes:
    """The digest that stands beside a payload: BLAKE2b, 16 bytes."""
    hash_ = _blank.copy()  # faster than a new one
    hash_.update(payload)
    return hash_.digest()


# bytearray binds faster than bytes on Python 3.11 (no adapter look-up)
def event_row(
    lane: int, conversation: int, position: int, version: int, draft: Draft
) -> tuple[Any, ...]:
    """What is inserted of a draft that has a place."""
    payload, mark = draft.payload, draft.fingerprint
    return (
        lane, position, conversation, version, bytearray(draft.event_id), draft.recorded_at,
        draft.tag, draft.schema, None if mark is None else bytearray(mark),
        bytearray(payload_digest(payload)), payload.decode(),
    )  # fmt: skip


def index_row(lane: int, conversation: int, version: int, draft: Draft) -> tuple[Any, ...]:
    """What finds it by its fingerprint."""
    return lane, bytearray(draft.fingerprint or b""), conversation, version


def recorded(
    lane: int, rows: Iterable[Any], names: Mapping[int, Any], decoders: Decoders = DECODERS
) -> list[Recorded]:
    """The events of a lane's rows; `names` are the ids of their conversations."""
    # The loop that every event read goes through: nothing is called that need not be.
    found = []
    for position, key, version, event_id, at, tag, schema, digest, payload in rows:
        event: Any
        try:
            event = decoders[tag, schema](payload)
        except Exception:  # noqa: BLE001 - an older schema, another's tag, damage
            event = decode(tag, schema, payload)
        found.append(Recorded(
            lane, position, names[key], version, event_id.hex(), at,
            getattr(event, "call_id", None), None if digest is None else PREFIX + digest.hex(),
            event,
        ))  # fmt: skip
    return found
