"""Native forms that rendering can restore: they need not be stored."""

from __future__ import annotations

import msgspec

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.providers.model import (
    Answer,
    Call,
    ParsedItem,
    ParsedMessage,
    ParsedResult,
    Turn,
)
from eventstore.providers.registry import adapter_of

_encode = msgspec.json.Encoder().encode


def without_restorable_native(item: ParsedItem, name: str) -> ParsedItem:
    """Return `item` without its native form if rendering restores that byte for byte."""
    if item.native is None or (isinstance(item, ParsedMessage) and not item.well_formed):
        return item
    is_odd = item.rejected or item.keeps_form if isinstance(item, ParsedResult) else False
    if is_odd or (isinstance(item, ParsedMessage) and item.is_continuation):
        return item
    adapter = adapter_of(name)
    restored: JsonValue
    key = adapter.results_key
    if key and isinstance(item, ParsedMessage) and item.result_count and not item.parts:
        restored = {"role": "user", key: [None] * item.result_count}
    elif isinstance(item, ParsedResult):
        call = Call(item.id or "", item.name or "", {}, Answer(item.text, item.is_error))
        restored = adapter.render_result(call, item.id or "")
    else:
        calls = [
            Call(c.id or "", c.call.name, c.call.arguments, Answer(""), c.id, c.call.raw)
            for c in item.calls
        ]
        rendered = adapter.render([Turn(item.role, item.parts, calls)])
        messages: list[JsonObject] = rendered.arguments[adapter.list_key]
        restored = messages[0] if messages else None
    if restored != item.native or _encode(restored) != _encode(
        item.native
    ):  # 1 is 1.0, bytes are base64
        return item
    return msgspec.structs.replace(item, native=None)
