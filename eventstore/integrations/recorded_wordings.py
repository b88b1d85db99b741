"""What a framework tells the model of a call, as the log keeps it; see `domain.wording`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from eventstore.domain.messages import Media, Part, Text
from eventstore.domain.wording import Wording
from eventstore.providers.model import Answer, Call, ParsedResult
from eventstore.providers.parsing import parse_own
from eventstore.providers.registry import adapter_of

if TYPE_CHECKING:
    from eventstore.domain.json_types import JsonObject

_encode = msgspec.json.Encoder().encode


def wording_in(message: JsonObject, provider: str) -> Wording | None:
    """Return what the only result in a message of a provider tells the model; None without one."""
    found = _result_in(message, provider)
    if found is None:
        return None
    if found.native is None:
        return Wording(found.text)
    return Wording(found.text, provider, found.native)


def recorded_of(message: JsonObject, provider: str, value: object) -> tuple[Any, Wording | None]:
    """Return what is recorded of a result, and what the model is told of it.

    `value` is what the tool returned, and the message how the model reads that. A result of images
    and the like is recorded in its parts. What a prompt of the log tells by itself is no `Wording`.
    """
    found = _result_in(message, provider)
    if found is None or found.native is None:
        return value, None
    adapter = adapter_of(provider)
    parts: tuple[Part, ...] = adapter.result_parts(found.native)
    shows = any(isinstance(part, Media) for part in parts)
    if shows and all(isinstance(part, Text | Media) for part in parts):
        value, answer = list(parts), Answer(found.text, stored_parts=parts, shown_parts=parts)
    else:
        answer = Answer(value if isinstance(value, str) else _as_json(value))
    call = Call(found.id or "", found.name or "", {}, answer)
    if _same(adapter.render_result(call, call.id), found.native):
        return value, None
    return value, Wording(None, provider, found.native)


def _result_in(message: JsonObject, provider: str) -> ParsedResult | None:
    results = (i for i in parse_own([message], provider) if isinstance(i, ParsedResult))
    return next(results, None)


def _as_json(value: object) -> str:
    try:
        return _encode(value).decode()
    except (TypeError, ValueError):  # it is stored in its nearest readable form
        return ""


def _same(restored: object, native: JsonObject) -> bool:
    return restored == native and _encode(restored) == _encode(native)
