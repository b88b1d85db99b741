"""Events to stored text and back.

A stored event is a tag, a schema version and a JSON object. Reading is tolerant: unknown
fields are ignored, an older schema goes through its upcasters, and what this version cannot
read is an `UnknownEvent`, never an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from eventstore.errors import UnencodableEvent
from eventstore.events import (
    Event,
    MessageAdded,
    RunEnded,
    RunStarted,
    ToolApproved,
    ToolCompleted,
    ToolFailed,
    ToolPending,
    ToolRejected,
    ToolRunning,
    ToolsOffered,
    UnknownEvent,
)

EVENT_CLASSES = (
    MessageAdded,
    RunEnded,
    RunStarted,
    ToolApproved,
    ToolCompleted,
    ToolFailed,
    ToolPending,
    ToolRejected,
    ToolRunning,
    ToolsOffered,
)

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]
Decoders = dict[tuple[str, int], Callable[[str | bytes], Any]]

SCHEMAS: dict[str, int] = {cls.tag: 1 for cls in EVENT_CLASSES}
"""Tag to the schema version that this library writes."""

UPCASTERS: dict[tuple[str, int], Upcaster] = {}
"""(tag, schema) to the function that turns that schema's object into the next schema's."""

_classes: dict[str, Any] = {cls.tag: cls for cls in EVENT_CLASSES}


class _Readers(dict[Any, Callable[[str | bytes], Any]]):
    """By class; each is made when it is first wanted, as to make all takes milliseconds."""

    def __missing__(self, cls: Any) -> Callable[[str | bytes], Any]:
        if cls not in EVENT_CLASSES:
            raise KeyError(cls)
        read = self[cls] = msgspec.json.Decoder(cls).decode
        return read


class _Decoders(Decoders):
    """By tag and schema, likewise."""

    def __missing__(self, key: tuple[str, int]) -> Callable[[str | bytes], Any]:
        tag, schema = key
        if SCHEMAS.get(tag) != schema:
            raise KeyError(key)
        read = self[key] = _readers[_classes[tag]]
        return read


_readers = _Readers()
DECODERS: Decoders = _Decoders()
"""(tag, schema) to what reads a sound payload of it; `decode` reads any."""

_encode = msgspec.json.Encoder().encode
_UNFIT = (AttributeError, TypeError, ValueError, RecursionError, OverflowError)


def encode(event: Event) -> bytes:
    """The stored payload of `event`: one JSON object, fields at their defaults left out.

    Raises:
        UnencodableEvent: a member is no JSON value.
    """
    try:
        if type(event) is UnknownEvent:
            event.tag.encode()
            event.schema.to_bytes(4)
            return event.payload.encode()
        return _encode(event)
    except _UNFIT as error:
        raise _unencodable(event, error) from error


def as_stored(event: Any) -> tuple[Any, bytes]:
    """The event as a reader will get it, sharing nothing with `event`, and its stored payload.

    Raises:
        UnencodableEvent: a member is no JSON value, or not what its field says.
    """
    try:
        read = _readers[type(event)]
    except KeyError:
        return event, encode(event)
    payload = None
    try:
        payload = _encode(event)
        return read(payload), payload
    except _UNFIT as error:
        if payload is None:
            raise _unencodable(event, error) from error
        raise UnencodableEvent(
            f"{type(event).__name__} could not be read back ({error}): pass what its fields name"
        ) from error


def _unencodable(event: Any, error: Exception) -> UnencodableEvent:
    return UnencodableEvent(
        f"{type(event).__name__} cannot be written as JSON ({error}): pass plain JSON values"
    )


def decode(tag: str, schema: int, payload: str | bytes) -> Event:
    """The event of a stored payload; an `UnknownEvent` where this version cannot read it."""
    try:
        if schema == SCHEMAS.get(tag):
            event: Event = DECODERS[tag, schema](payload)
            return event
        if tag in _classes and schema < SCHEMAS[tag]:
            upcast: Event = msgspec.convert(_upcast(tag, schema, payload), _classes[tag])
            return upcast
    except Exception as error:  # a damaged payload or upcaster must not stop a reader
        if isinstance(error, RecursionError) and _is_flat(payload):
            raise  # the reader's own stack is used up, and the event is sound
    text = payload if isinstance(payload, str) else bytes(payload).decode("utf-8", "replace")
    return UnknownEvent(tag, schema, text)


def _is_flat(payload: str | bytes) -> bool:
    text = payload if isinstance(payload, str) else bytes(payload).decode("utf-8", "replace")
    return text.count("[") + text.count("{") <= 100  # noqa: PLR2004 - readers can nest that deep


def _upcast(tag: str, schema: int, payload: str | bytes) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.json.decode(payload)
    for step in range(schema, SCHEMAS[tag]):
        fields = UPCASTERS[tag, step](fields)
    return fields
