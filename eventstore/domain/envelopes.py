"""Envelopes: payloads that can only be read with the key of their subject.

1. An envelope is a JSON object that begins with `encrypted`, as no event does: the payload under a
   key of its own, AES-256-GCM, in Base64, its nonce first. That key is wrapped once for each
   subject, under the subject's key: any one of them opens it.
2. Beside it stand the identifiers that a marker of a redaction keeps, and nothing else.
3. What is authenticated with the payload, and with each wrapped key, is where it belongs:
   conversation, event id, tag and schema, and the identifiers. So an envelope cannot be put in
   the place of another. The store and the tenant are not among them, so that a log can be restored
   elsewhere.
4. What is not exactly as this module writes it is no envelope.
"""

from __future__ import annotations

from typing import Any

import msgspec

from eventstore.domain.redaction import Marker, shown

PREFIX = '{"encrypted":"'
_PREFIX = PREFIX.encode()
_encode = msgspec.json.Encoder().encode


class WrappedKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The key of an envelope, under the key `id`: nonce and ciphertext, in Base64."""

    id: str
    key: str


class Envelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an envelope holds; `of` are the identifiers of the event."""

    encrypted: str
    keys: tuple[WrappedKey, ...]
    of: msgspec.Raw


class Place(msgspec.Struct, frozen=True, gc=False):
    """Where an event belongs."""

    conversation_id: str
    event_id: bytes
    tag: str
    schema: int

    def bound(self, identifiers: bytes) -> bytes:
        """Return what is authenticated with a payload that is encrypted for this place."""
        where = (self.conversation_id, self.event_id.hex(), self.tag, self.schema)
        return _encode([*where, msgspec.Raw(identifiers)])


_decode = msgspec.json.Decoder(Envelope).decode


def encoded(envelope: Envelope) -> bytes:
    """Return the stored form of an envelope."""
    return _encode(envelope)


def is_envelope(payload: str | bytes | bytearray) -> bool:
    """Return whether a payload is encrypted."""
    if isinstance(payload, str):
        return payload.startswith(PREFIX)
    return payload.startswith(_PREFIX)


def parsed_envelope(payload: str | bytes | bytearray) -> Envelope | None:
    """Return what an envelope holds; None for one that is not as this module writes it."""
    stored = payload.encode() if isinstance(payload, str) else bytes(payload)
    try:
        envelope = _decode(stored)
    except (ValueError, RecursionError):  # the errors of msgspec are ValueErrors
        return None
    return envelope if encoded(envelope) == stored else None


def locked_stand_in(tag: str, payload: str | bytes | bytearray) -> bytes | None:
    """Return the payload that is read in the place of an envelope; None where none can be made."""
    envelope = parsed_envelope(payload)
    if envelope is None:
        return None
    try:
        identifiers: dict[str, Any] = msgspec.json.decode(envelope.of)
        return shown(tag, msgspec.convert({**identifiers, "redacted": ""}, Marker))
    except (TypeError, ValueError):
        return None
