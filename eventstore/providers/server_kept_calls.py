"""Calls that a provider's server keeps: a history refers to them, or has only their results."""

from __future__ import annotations

from eventstore.domain.json_types import JsonValue
from eventstore.domain.messages import Opaque, Part
from eventstore.providers.model import Call, Change


def inline_server_call(call: Call) -> Change:
    """Return the change for a result that becomes text, as the server keeps its call."""
    return Change("wrapped", "orphan", "the result answers no call of this history", call.id)


def references_server_call(parts: tuple[Part, ...]) -> bool:
    """Return whether a message refers to items that the provider's server keeps."""
    return any(isinstance(part, Opaque) and _is_reference(part.data) for part in parts)


def _is_reference(data: JsonValue) -> bool:
    return (
        isinstance(data, dict)
        and data.get("type", "item_reference") in (None, "item_reference")
        and isinstance(data.get("id"), str)
    )
