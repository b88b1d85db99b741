"""Markers: what stands in the place of a payload that was redacted.

1. A marker is a JSON object that begins with `redacted`, the digest of the payload that it
   replaces, in hex: 64 digits, or 32 where the row had no salt. See `eventstore.storage.chain`.
2. Of a payload that is gone as a whole it keeps identifiers and numbers alone: those of `Marker`.
   The text of the event is shown as `REDACTED`, whatever else may stand in a marker.
3. Of a payload of which parts are gone it keeps the rest, with `REDACTED` in the place of what is
   gone, and a random `nonce`, so that its digest tells nothing of what is kept.
4. `members` is the proof that what is left is a part of what was there: see
   `eventstore.domain.marker_proofs`. Markers of payloads without a salt have none.
5. What is not exactly as this module writes it is no marker: nothing of it is read.
6. `fingerprint` is that of the event's row in hex, where it stays and the payload's digest had a
   salt: the digest covers it no more.
7. The digest of each marker is in a `PayloadsRedacted` event of its conversation. So a marker that
   was changed, or that has no record, is found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, ClassVar

import msgspec

SALT_BYTES = 16
SALTED_DIGEST_BYTES = 32

REDACTED = "[redacted]"
"""What is shown in the place of a text that was redacted."""

FORMS = ("native", "provider", "exact", "results")
"""The members by which a message, or a result, is sent back as the provider wrote it."""

REDACTED_PREFIX = '{"redacted":"'
_PREFIX = REDACTED_PREFIX.encode()
_DIGITS = (32, 2 * SALTED_DIGEST_BYTES)

_encode = msgspec.json.Encoder().encode


class Marker(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """What a marker holds: the digest of the payload, and identifiers of the event.

    `name` is that of the tool; `word` is the kind of a failure, the source of a rejection, or the
    reason for which a run ended. `edited` says that other arguments took the place of the call's
    own. `kept` is the payload without what is gone, where that is a part
    of it.
    """

    redacted: str
    call_id: str | None = None
    attempt: int = 0
    name: str | None = None
    role: str | None = None
    turn: int | None = None
    index: int = 0
    calls: int = 0
    provider_call_id: str | None = None
    imported: bool = False
    word: str | None = None
    duration: int | None = None
    delay: int | None = None
    synthetic: bool = False
    lossy: bool = False
    edited: bool = False
    until: int = 0
    after: int = 0
    hides_system: bool = False
    nonce: str | None = None
    fingerprint: str | None = None
    members: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    kept: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class RedactedPayload(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An event whose payload was redacted: its version, its call, the digest of its marker."""

    version: int
    marker: str
    call_id: str | None = None


class PayloadsRedacted(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Payloads of events before it were redacted; `by` names the person, `rule` the rule.

    `paths` are those of the members that are gone, where the rest of the payloads stayed. In a fork
    of the conversation `origin` the events are copies of what was left, and have no markers.
    """

    tag: ClassVar[str] = "redacted"
    schema: ClassVar[int] = 1
    by: str
    payloads: tuple[RedactedPayload, ...]
    reason: str | None = None
    rule: str | None = None
    paths: tuple[str, ...] = ()
    origin: str | None = None


_decode = msgspec.json.Decoder(Marker).decode


def whole_marker(
    digest: bytes, event: Any, members: Any = None, fingerprint: bytes | None = None
) -> bytes:
    """Return the marker for the whole payload of an event, with its proof if there is one."""
    mark = None if fingerprint is None else fingerprint.hex()
    return _encode(
        Marker(digest.hex(), fingerprint=mark, members=_raw(members), **identifiers(event))
    )


def identifiers(event: Any) -> dict[str, Any]:
    """Return what a marker keeps of an event, by the names of `Marker`."""
    members = _MEMBERS.get(event.tag)
    return {} if members is None else members(event)


def partial_marker(
    digest: bytes,
    kept: bytes,
    nonce: bytes,
    members: Any = None,
    fingerprint: bytes | None = None,
) -> bytes:
    """Return the marker for a payload of which `kept` stays; `nonce` is random."""
    mark = None if fingerprint is None else fingerprint.hex()
    kept_part = msgspec.Raw(kept)
    return _encode(
        Marker(
            digest.hex(),
            nonce=nonce.hex(),
            fingerprint=mark,
            members=_raw(members),
            kept=kept_part,
        )
    )


def _raw(proof: Any) -> msgspec.Raw | msgspec.UnsetType:
    return msgspec.UNSET if proof is None else msgspec.Raw(_encode(proof))


def members_proof(marker: Marker) -> Any:
    """Return the proof of a marker; None where it has none."""
    return None if marker.members is msgspec.UNSET else msgspec.json.decode(marker.members)


def left_of(marker: Marker) -> bytes | None:
    """Return what is left of the payload; None where all of it is gone."""
    return None if marker.kept is msgspec.UNSET else bytes(marker.kept)


def marker_digest(marker: bytes) -> str:
    """Return the digest of a marker, as the record of its redaction has it: 32 hex digits.

    It covers what is behind the payload's digest, which the event's own digest covers.
    """
    rest = marker[len(_PREFIX) :].partition(b'"')[2]
    return blake2b(rest, digest_size=16, person=b"toolledger/mark").hexdigest()


def is_marker(payload: str | bytes | bytearray) -> bool:
    """Return whether a payload stands for one that was redacted."""
    if isinstance(payload, str):
        return payload.startswith(REDACTED_PREFIX)
    return payload.startswith(_PREFIX)


def kept_digest(payload: bytes) -> bytes | None:
    """Return the digest that a marker keeps; None for what is no marker."""
    if not payload.startswith(_PREFIX):
        return None
    digits, _, rest = payload[len(_PREFIX) :].partition(b'"')
    if len(digits) not in _DIGITS or not rest:
        return None
    try:
        digest = bytes.fromhex(digits.decode())
    except ValueError:
        return None
    return digest if digest.hex().encode() == digits else None  # not in capitals


def parsed_marker(payload: str | bytes) -> Marker | None:
    """Return what a marker holds; None for one that is not as this module writes it."""
    stored = payload.encode() if isinstance(payload, str) else bytes(payload)
    try:
        marker = _decode(stored)
    except (ValueError, RecursionError):  # the errors of msgspec are ValueErrors
        return None
    partial = marker.kept is not msgspec.UNSET
    if kept_digest(stored) is None or _encode(marker) != stored or partial != bool(marker.nonce):
        return None
    return marker


def stand_in(tag: str, payload: str | bytes) -> bytes | None:
    """Return the payload that is read in the place of a marker; None where none can be made."""
    marker = parsed_marker(payload)
    if marker is None:
        return None
    if marker.kept is not msgspec.UNSET:
        return bytes(marker.kept)
    return shown(tag, marker)


def shown(tag: str, marker: Marker) -> bytes | None:
    """Return the payload that is read where all is gone but identifiers; None for other tags."""
    show = _SHOWN.get(tag)
    return None if show is None else _encode(show(marker))


def _failure(marker: Marker) -> dict[str, Any]:
    return {"kind": marker.word or "internal", "message": REDACTED}


def _pending(marker: Marker) -> dict[str, Any]:
    call = {"name": marker.name or REDACTED, "arguments": None, "id": marker.call_id}
    return {
        "call": {**call, "raw": REDACTED},
        "provider_call_id": marker.provider_call_id,
        "turn": marker.turn,
        "index": marker.index,
        "imported": marker.imported,
    }


def _approved(marker: Marker) -> dict[str, Any]:
    call = {"name": marker.name or REDACTED, "arguments": None, "id": marker.call_id}
    edit = {"edited_call": {**call, "raw": REDACTED}} if marker.edited else {}
    return {"call_id": marker.call_id, **edit}


def _message(marker: Marker) -> dict[str, Any]:
    has_parts = marker.role != "tool" or marker.call_id is not None
    return {
        "role": marker.role,
        "parts": [{"type": "text", "text": REDACTED}] if has_parts else [],
        "turn": marker.turn,
        "calls": marker.calls,
        "call_id": marker.call_id,
    }


def _attempt(marker: Marker) -> dict[str, Any]:
    return {"call_id": marker.call_id, "attempt": marker.attempt, "duration": marker.duration}


def _completed(marker: Marker) -> dict[str, Any]:
    response = {"name": marker.name or REDACTED, "result": REDACTED, "id": marker.call_id}
    how = {"synthetic": marker.synthetic, "lossy": marker.lossy}
    return {**_attempt(marker), "response": response, **how}


_SHOWN: Mapping[str, Callable[[Marker], dict[str, Any]]] = {
    "pending": _pending,
    "approved": _approved,
    "running": lambda marker: {
        "call_id": marker.call_id,
        "attempt": marker.attempt,
        "arguments": REDACTED if marker.edited else None,
    },
    "paused": _attempt,
    "completed": _completed,
    "failed": lambda marker: {
        **_attempt(marker),
        "failure": _failure(marker),
        "delay": marker.delay,
    },
    "ended_late": lambda marker: {**_attempt(marker), "reason": REDACTED},
    "rejected": lambda marker: {
        "call_id": marker.call_id,
        "reason": REDACTED,
        "source": marker.word or REDACTED,
    },
    "message": _message,
    "hook_raised": lambda marker: {
        "hook": REDACTED,
        "asked": REDACTED,
        "failure": _failure(marker),
        "call_id": marker.call_id,
    },
    "history_compacted": lambda marker: {
        "until": marker.until,
        "after": marker.after,
        "hides_system": marker.hides_system,
        "messages": [{"role": "user", "parts": [{"type": "text", "text": REDACTED}]}],
    },
    "run_ended": lambda marker: {"reason": marker.word or REDACTED},
}
"""Tag to what is read of an event whose payload is gone."""


def _members_of_call(event: Any) -> dict[str, Any]:
    attempt, duration = getattr(event, "attempt", 0), getattr(event, "duration", None)
    return {"call_id": event.call_id, "attempt": attempt, "duration": duration}


_MEMBERS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    **dict.fromkeys(("paused", "ended_late"), _members_of_call),
    "running": lambda event: {**_members_of_call(event), "edited": event.arguments is not None},
    "approved": lambda event: {
        **_members_of_call(event),
        "edited": event.edited_call is not None,
        "name": None if event.edited_call is None else event.edited_call.name,
    },
    "failed": lambda event: {
        **_members_of_call(event),
        "word": str(event.failure.kind),
        "delay": event.delay,
    },
    "pending": lambda event: {
        "call_id": event.call_id,
        "name": event.call.name,
        "turn": event.turn,
        "index": event.index,
        "provider_call_id": event.provider_call_id,
        "imported": event.imported,
    },
    "completed": lambda event: {
        **_members_of_call(event),
        "name": event.response.name,
        "synthetic": event.synthetic,
        "lossy": event.lossy,
    },
    "rejected": lambda event: {"call_id": event.call_id, "word": event.source},
    "message": lambda event: {
        "role": event.role,
        "turn": event.turn,
        "calls": event.calls,
        "call_id": event.call_id,
    },
    "hook_raised": lambda event: {"call_id": event.call_id, "word": str(event.failure.kind)},
    "history_compacted": lambda event: {
        "until": event.until,
        "after": event.after,
        "hides_system": event.hides_system,
    },
    "run_ended": lambda event: {"word": event.reason},
}
"""Tag to the members that a marker keeps of an event; the same tags as in `_SHOWN`."""

TAGS_WITH_TEXT = frozenset(_SHOWN)
"""The tags of the events that can be redacted: the others hold identifiers and numbers alone."""
