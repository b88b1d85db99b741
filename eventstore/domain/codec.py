"""The codec: events to stored payloads and back.

A stored event is a tag, a schema version and a JSON object. Reading is tolerant:

1. Unknown fields are ignored.
2. A payload of an older schema goes through its upcasters, one for each step.
3. A payload that this version cannot read becomes an `UnknownEvent`. It is never an error.
4. Values nest 200 levels deep at most (see `eventstore.domain.nesting`). What an older version has
   stored below them is read as its text; arguments that go so deep are read as text as a whole, as
   they are stored today.
5. Of a payload that was redacted, only what its marker keeps is read; see
   `eventstore.domain.redaction`. Of one that is encrypted, its identifiers are read here; with the
   key it is decrypted first, see `eventstore.domain.envelopes`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, cast

import msgspec

from eventstore.domain.calls import FunctionCall
from eventstore.domain.envelopes import is_envelope, locked_stand_in
from eventstore.domain.events import (
    EVENT_CLASSES,
    SCHEMAS,
    Event,
    ToolApproved,
    ToolPending,
    UnknownEvent,
)
from eventstore.domain.json_types import JsonObject
from eventstore.domain.nesting import (
    MAX_LEVELS,
    SHALLOW_SIZE,
    nests_too_deeply,
    too_deep,
    value_nests_too_deeply,
    with_texts,
)
from eventstore.domain.redaction import is_marker, stand_in
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


class _DecodersAsStored(Decoders):
    """(tag, schema) to what reads a payload, and keeps one that would be written in another way."""

    def __missing__(self, key: tuple[str, int]) -> Decoder:
        tag, schema = key

        def as_stored(payload: str | bytes) -> Event:
            event = decode(tag, schema, payload)
            if type(event) is UnknownEvent and (event.problem or not is_marker(payload)):
                raise ValueError(event)  # the reader of rows looks for the damage
            stored = payload.encode() if isinstance(payload, str) else bytes(payload)
            return event if _encode(event) == stored else UnknownEvent(tag, schema, stored.decode())

        self[key] = as_stored
        return as_stored


AS_STORED: Decoders = _DecodersAsStored()
"""(tag, schema) to a decoder that gives an `UnknownEvent` where the event alone would lose some of
the payload: members of a newer version, an older schema, the marker of a redaction."""

_LEVELS_AROUND = {"pending": 2, "approved": 2, "running": 1, "rejected": 1, "tools_offered": 1}
_MOST_AROUND = 3  # as in {"parts":[{"data":...}]}
_LEVEL_OF_ARGUMENTS = 3
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


def as_stored(event: E, *, measured: bool = False) -> tuple[E, bytes]:
    """Return the event as a reader will get it, and its stored payload.

    The returned event shares nothing with `event`. With `measured`, the caller sees to it that no
    value is nested too deeply.

    Raises:
        UnencodableEvent: a member is not a JSON value, or not of the type of its field, or is
            nested too deeply.
    """
    try:
        decoder = _decoders_by_class[type(event)]
    except KeyError:
        return event, encode(event)
    payload = None
    try:
        payload = _encode(event)
        stored = decoder(payload)
    except _ENCODING_ERRORS as error:
        if isinstance(error, RecursionError):
            _require_levels(event)
            raise  # the stack of the caller is used up
        if payload is None:
            raise _unencodable(event, error) from error
        raise UnencodableEvent(
            f"{type(event).__name__} could not be read back ({error}): "
            "pass values of the types that its fields declare"
        ) from error
    if len(payload) > SHALLOW_SIZE and not measured and value_nests_too_deeply(stored, payload):
        _require_levels(stored)
    return stored, payload


def _require_levels(event: object) -> None:
    """Raise an error if a value that an event holds is nested too deeply.

    Raises:
        UnencodableEvent: one is; the error names its path.
    """
    members: list[tuple[str, Any]] = [("$", event)]
    while members:
        path, member = members.pop()
        if isinstance(member, msgspec.Struct):
            members += [(f"{path}.{n}", getattr(member, n)) for n in member.__struct_fields__]
        elif type(member) is tuple:
            parts = cast("Any", member)
            members += [(f"{path}[{n}]", each) for n, each in enumerate(parts)]
        elif (inner := too_deep(member)) is not None:
            raise UnencodableEvent(
                f"{type(event).__name__} cannot be written: it is nested more than {MAX_LEVELS} "
                f"levels deep - at `{path}{inner[1:]}`: pass values of fewer levels, or their text"
            )


def _unencodable(event: object, error: Exception) -> UnencodableEvent:
    return UnencodableEvent(
        f"{type(event).__name__} cannot be written as JSON ({error}): pass plain JSON values"
    )


def stored_levels(tag: str) -> int:
    """Return how many levels a payload has at most: those of a value, and what is around it."""
    return MAX_LEVELS + _LEVELS_AROUND.get(tag, _MOST_AROUND)


def decode(tag: str, schema: int, payload: str | bytes) -> Event:
    """Return the event of a stored payload: an `UnknownEvent` if this version cannot read it."""
    try:
        if is_marker(payload) or is_envelope(payload):
            show = stand_in if is_marker(payload) else locked_stand_in
            shown = show(tag, payload)
            left = None if shown is None else decode(tag, schema, shown)
            if left is None or (type(left) is UnknownEvent and left.problem):
                return UnknownEvent(_text(tag), schema, _text(payload))
            return left
        if nests_too_deeply(payload, stored_levels(tag)):
            return _decode_deep(tag, schema, payload)
        if schema == SCHEMAS.get(tag):
            event: Event = DECODERS[tag, schema](payload)
            return event
        if tag in EVENT_CLASSES and schema < SCHEMAS[tag]:
            upcast: Event = msgspec.convert(_upcast(tag, schema, payload), EVENT_CLASSES[tag])
            return upcast
    except RecursionError:
        raise  # the stack of the caller is used up, and the event is sound
    except Exception:  # noqa: BLE001, S110 - damage, or an upcaster, must not stop a reader
        pass
    return UnknownEvent(_text(tag), schema, _text(payload))


def _text(stored: str | bytes) -> str:
    return stored if isinstance(stored, str) else bytes(stored).decode("utf-8", "replace")


def _decode_deep(tag: str, schema: int, payload: str | bytes) -> Event:
    """Return an event that an older version stored with deeper values; see `decode`."""
    json = payload.encode() if isinstance(payload, str) else bytes(payload)
    if tag in (ToolPending.tag, ToolApproved.tag):
        shallow = with_texts(json, _LEVEL_OF_ARGUMENTS, MAX_LEVELS)
    else:
        shallow = with_texts(json, stored_levels(tag) + 1, 0)
    if nests_too_deeply(shallow, stored_levels(tag)):  # it is not JSON
        return UnknownEvent(tag, schema, _text(payload))
    event = decode(tag, schema, shallow)
    if type(event) is UnknownEvent:
        return UnknownEvent(tag, schema, _text(payload))
    if type(event) is ToolPending:
        return msgspec.structs.replace(event, call=_with_raw(event.call))
    if type(event) is ToolApproved and event.edited_call is not None:
        return msgspec.structs.replace(event, edited_call=_with_raw(event.edited_call))
    return event


def _with_raw(call: FunctionCall) -> FunctionCall:
    raw = call.arguments if call.raw is None else call.raw
    return FunctionCall(call.name, None, call.id, raw)


def _upcast(tag: str, schema: int, payload: str | bytes) -> JsonObject:
    fields: JsonObject = msgspec.json.decode(payload)
    for step in range(schema, SCHEMAS[tag]):
        fields = UPCASTERS[tag, step](fields)
    return fields
