"""The codec: events to stored payloads and back.

A stored event is a tag, a schema version and a JSON object. Reading is tolerant:

1. Unknown fields are ignored.
2. A payload of an older schema goes through its upcasters, one for each step.
3. A payload that this version cannot read becomes an `UnknownEvent`. It is never an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import msgspec

from eventstore.domain.events import (
    EVENT_CLASSES,
    SCHEMAS,
    Event,
    UnknownEvent,
)
from eventstore.domain.json_types import JsonObject
from eventstore.errors import UnencodableEvent

E = TypeVar("E", bound=Event)

Upcaster: TypeAlias = Callable[[JsonObject], JsonObject]
Decoder: TypeAlias = Callable[[str | bytes], Any]
Decoders: TypeAlias = dict[tuple[str, int], Decoder]

UPCASTERS: dict[tuple[str, int], Upcaster] = {}
"""(tag, schema) to the function that turns that schema's object into the next schema's."""

_STORED_CLASSES = frozenset(EVENT_CLASSES.values())


class _DecodersByClass(dict[type, Decoder]):
    """Event class to its decoder, made at first use: making all of them takes milliseconds."""

    def __missing__(self, cls: type) -> Decoder:
        if cls not in _STORED_CLASSES:
            raise KeyError(cls)
        self[cls] = msgspec.json.Decoder(cls).decode
        return self[cls]


class _DecodersByTag(Decoders):
    """(tag, schema) to its decoder, for each class of the union."""

    def __missing__(self, key: tuple[str, int]) -> Decoder:
        tag, schema = key
        if SCHEMAS.get(tag) != schema:
            raise KeyError(key)
        decoder = self[key] = _decoders_by_class[EVENT_CLASSES[tag]]
        return decoder


_decoders_by_class = _DecodersByClass()
DECODERS: Decoders = _DecodersByTag()
"""(tag, schema) to the decoder of a sound payload; `decode` reads any payload."""

_MAX_BRACKETS = 100  # readers can nest that deep
_encode = msgspec.json.Encoder().encode
_ENCODING_ERRORS = (AttributeError, TypeError, ValueError, RecursionError, OverflowError)


def encode(event: Event) -> bytes:
    """Return the stored payload of `event`: one JSON object without the fields at their defaults.

    Raises:
        UnencodableEvent: a member is not a JSON value.
    """
    try:
        if type(event) is UnknownEvent:
            event.tag.encode()
            event.schema.to_bytes(4)
            return event.payload.encode()
        return _encode(event)
    except _ENCODING_ERRORS as error:
        raise _unencodable(event, error) from error


def as_stored(event: E) -> tuple[E, bytes]:
    """Return the event as a reader will get it, and its stored payload.

    The returned event shares nothing with `event`.

    Raises:
        UnencodableEvent: a member is not a JSON value, or not of the type of its field.
    """
    try:
        decoder = _decoders_by_class[type(event)]
    except KeyError:
        return event, encode(event)
    payload = None
    try:
        payload = _encode(event)
        return decoder(payload), payload
    except _ENCODING_ERRORS as error:
        if payload is None:
            raise _unencodable(event, error) from error
        raise UnencodableEvent(
            f"{type(event).__name__} could not be read back ({error}): "
            "pass values of the types that its fields declare"
        ) from error


def _unencodable(event: object, error: Exception) -> UnencodableEvent:
    return UnencodableEvent(
        f"{type(event).__name__} cannot be written as JSON ({error}): pass plain JSON values"
    )


def decode(tag: str, schema: int, payload: str | bytes) -> Event:
    """Return the event of a stored payload: an `UnknownEvent` if this version cannot read it."""
    try:
        if schema == SCHEMAS.get(tag):
            event: Event = DECODERS[tag, schema](payload)
            return event
        if tag in EVENT_CLASSES and schema < SCHEMAS[tag]:
            upcast: Event = msgspec.convert(_upcast(tag, schema, payload), EVENT_CLASSES[tag])
            return upcast
    except Exception as error:  # a damaged payload or upcaster must not stop a reader
        if isinstance(error, RecursionError) and _is_flat(payload):
            raise  # the stack of the caller is used up, and the event is sound
    return UnknownEvent(_text(tag), schema, _text(payload))


def _text(stored: str | bytes) -> str:
    return stored if isinstance(stored, str) else bytes(stored).decode("utf-8", "replace")


def _is_flat(payload: str | bytes) -> bool:
    text = _text(payload)
    return text.count("[") + text.count("{") <= _MAX_BRACKETS


def _upcast(tag: str, schema: int, payload: str | bytes) -> JsonObject:
    fields: JsonObject = msgspec.json.decode(payload)
    for step in range(schema, SCHEMAS[tag]):
        fields = UPCASTERS[tag, step](fields)
    return fields
