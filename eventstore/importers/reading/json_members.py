"""Members of JSON objects, where a file may hold anything."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.importers.reading.json_lines import decode

_encode = msgspec.json.encode
_FIRST_OF_JSON = '{["-0123456789tfnNI'


def text(value: JsonObject, *keys: str) -> str:
    """Return the first of the members that is text and not empty, or empty text."""
    for key in keys:
        found: JsonValue = value.get(key)
        if isinstance(found, str) and found:
            return found
    return ""


def member(value: JsonObject, *keys: str) -> JsonObject:
    """Return the object at a path of members; an empty one where there is none."""
    for key in keys:
        inner: JsonValue = value.get(key)
        if not isinstance(inner, dict):
            return {}
        value = inner
    return value


def items(value: JsonObject, key: str) -> list[Any]:
    """Return the member that is a list; an empty one where there is none."""
    found: JsonValue = value.get(key)
    return found if isinstance(found, list) else []


def objects(value: JsonObject, key: str) -> list[JsonObject]:
    """Return the objects in the member that is a list."""
    found: JsonValue = value.get(key)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def parsed(value: JsonValue) -> JsonValue:
    """Return the JSON value that a text holds, once and again; other values as they are."""
    while isinstance(value, str) and value.lstrip()[:1] in _FIRST_OF_JSON:
        try:
            value = decode(value.encode())
        except ValueError:
            return value
    return value


def text_of(content: JsonValue) -> str:
    """Return content as text: its parts' texts, one a line; other values are written as JSON."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    if parts and all(_is_part(part) for part in parts):
        return "\n".join(filter(None, map(_text_of_part, parts)))
    try:
        return _encode(content).decode()
    except (TypeError, ValueError, RecursionError):
        return str(content)


def parts_as_text(parts: Iterable[JsonObject]) -> str:
    """Return the text of a message's parts; no text without them."""
    given: list[JsonValue] = [*parts]
    return text_of(given) if given else ""


_PART_TYPES = re.compile(
    r"(?:\w+_)?(?:text|image|image_url|audio|video|file|document|media|resource|resource_link|thinking"
    r"|reasoning|refusal|encrypted_content|tool_reference|search_result)"
)
"""The types of parts of a message; a list of a tool's own objects may have a `type`, too."""


def _is_part(part: JsonValue) -> bool:
    if not isinstance(part, dict):
        return isinstance(part, str)
    return bool(_PART_TYPES.fullmatch(text(part, "type"))) or part.keys() == {"text"}


def _text_of_part(part: JsonValue) -> str:
    if not isinstance(part, dict):
        return str(part)  # a part is text or an object
    said = text(part, "text", "content", "value", "thinking", "refusal")
    return said or f"[{part['type']}]" if part.get("type") not in (None, "text") else said
