"""SDK objects as plain JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

import msgspec

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_list, is_json_object
from eventstore.domain.jsonable import readable
from eventstore.domain.nesting import MAX_LEVELS, nests_too_deeply, too_deep, value_nests_too_deeply
from eventstore.providers.call_arguments import raw_text
from eventstore.providers.json_values import copy

_encoder = msgspec.json.Encoder()
_encode, _encode_lines = _encoder.encode, _encoder.encode_lines


def plain(message: object) -> JsonValue:
    """Return a message as plain JSON values, whatever it was made of.

    What is nested too deeply in it is text: arguments as a whole, anything else from there on.
    """
    if is_json(message) and type(message) is dict:
        return message
    dumped = _dumped(message)
    if is_json_object(dumped):
        dumped = _with_dumped_parts(dumped)
    if is_json(dumped):
        return dumped
    shallow: JsonValue = readable(_with_argument_texts(dumped), _MESSAGE_LEVELS)[0]
    return shallow


def member(value: object, name: str) -> object:
    """Return a member of a JSON object or an attribute of an SDK's object, or None."""
    found: object = value.get(name) if is_json_object(value) else getattr(value, name, None)
    return found


def plain_event(event: object) -> JsonObject:
    """Return an event of a stream as a JSON object, the caller's own; empty if it is not one."""
    dump = getattr(event, "model_dump", None)
    if callable(dump):
        event = dump(mode="json", by_alias=True, exclude_none=True, warnings=False)
    elif is_json_object(event):
        event = copy(event)
    return event if is_json_object(event) else {}


def is_json(value: object) -> TypeGuard[JsonValue]:
    """Return whether messages are JSON as they are, or by msgspec's encoding, and not too deep."""
    try:
        return not value_nests_too_deeply(value, _encode(value), _MESSAGE_LEVELS)
    except (TypeError, ValueError, RecursionError):
        return False


def json_of(messages: Sequence[object]) -> bytes | None:
    """Return the JSON of messages, each on a line of its own; None where one is not `is_json`."""
    try:
        json = _encode_lines(messages)
    except (TypeError, ValueError, RecursionError):
        return None
    long = (line for line in json.split(b"\n") if len(line) > _SHORT)
    return None if any(nests_too_deeply(line, _MESSAGE_LEVELS) for line in long) else json


_AROUND_LEVELS = 8
_MESSAGE_LEVELS = MAX_LEVELS + _AROUND_LEVELS
"""Levels of a list of messages: arguments, and what a provider has around them."""
_SHORT = 2 * _MESSAGE_LEVELS
"""Bytes of JSON that have no room for more levels."""
_ARGUMENTS = frozenset({"args", "arguments", "input", "parameters"})


def _with_argument_texts(value: object, levels: int = _AROUND_LEVELS) -> object:
    """Return a message in which arguments that are nested too deeply are their text."""
    if not levels:
        return value
    if is_json_list(value):
        return [_with_argument_texts(each, levels - 1) for each in value]
    if is_json_object(value):
        return {
            key: raw_text(item)
            if key in _ARGUMENTS and too_deep(item) is not None
            else _with_argument_texts(item, levels - 1)
            for key, item in value.items()
        }
    return value


_HOLDERS = ("content", "parts", "output")  # members that may hold an SDK's objects


def _with_dumped_parts(message: JsonObject) -> JsonObject:
    for key in _HOLDERS:
        held: JsonValue = message.get(key)
        if isinstance(held, list) and not all(type(each) is dict for each in held):
            message = {**message, key: [_dumped(each) for each in held]}
    return message


def _dumped(value: object) -> object:
    """Return an SDK object as a dict, by the names of the wire.

    Members that are None are left out, except for `content`.
    """
    try:
        value = _message_in_response(value)
        dump = getattr(value, "model_dump", None)
        if not callable(dump):
            return value
        fields: object = dump(mode="json", by_alias=True, exclude_none=True, warnings=False)
    except Exception:  # noqa: BLE001 - foreign code, which may look for files
        return value
    if is_json_object(fields) and fields.get("role") == "assistant":
        fields.setdefault("content", None)
        if fields.get("annotations") == []:  # an empty list is noise, and some servers refuse it
            del fields["annotations"]
    return fields


def _message_in_response(value: object) -> object:
    """Return the message in an SDK's whole response, or a choice of it."""
    choices: object = getattr(value, "choices", None)
    choice = choices[0] if is_json_list(choices) and choices else value
    held: object = getattr(choice, "message", None)
    return held if callable(getattr(held, "model_dump", None)) else value
