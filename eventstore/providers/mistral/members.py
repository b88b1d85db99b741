"""Members that Mistral's API does not know: it refuses a request with any (422)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TypeAlias

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.providers.json_values import members_of
from eventstore.providers.mistral.shapes import (
    CALL_MEMBERS,
    CHUNK_MEMBERS,
    FUNCTION_MEMBERS,
    IMAGE_MEMBERS,
    MEMBERS,
)
from eventstore.providers.model import Change

_Held: TypeAlias = tuple[JsonObject, Collection[str], str]
"""An object in a message, the members that it may have, and what it is called."""


def drop_unknown_members(message: JsonObject, changes: list[Change]) -> None:
    """Delete every member of a message that the API does not know, at any depth."""
    for held, known, name in _objects(message):
        unknown = [key for key in held if key not in known]
        for key in unknown:
            del held[key]
        if unknown:
            why = f"{', '.join(map(str, unknown))} of {name}: Mistral refuses unknown members"
            changes.append(Change("dropped", "MI04", why))


def _objects(message: JsonObject) -> Iterator[_Held]:
    role = message["role"]
    yield message, MEMBERS[role], f"a message of the {role}"
    calls: JsonValue = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            yield call, CALL_MEMBERS, "a call"
            yield members_of(call.get("function")), FUNCTION_MEMBERS, "a call"
    yield from _chunks(message.get("content"))


def _chunks(content: JsonValue) -> Iterator[_Held]:
    for chunk in content if isinstance(content, list) else ():
        kind: JsonValue = members_of(chunk).get("type")
        if isinstance(kind, str) and kind in CHUNK_MEMBERS:
            yield members_of(chunk), CHUNK_MEMBERS[kind], f"a chunk ({kind})"
            inner: JsonValue = members_of(chunk).get("image_url")
            yield members_of(inner), IMAGE_MEMBERS, f"a chunk ({kind})"
            yield from _chunks(members_of(chunk).get("thinking"))
