"""Content as every wire needs it: text of anything, exact copies, arguments as an object."""

from __future__ import annotations

from typing import Any

import msgspec

from eventstore.fingerprint import canonical
from eventstore.message import Opaque
from eventstore.readable import readable
from eventstore.tool import FunctionCall
from eventstore.wire.items import Call, Change

MEDIA = ("image", "image_url", "document", "document_url", "file", "input_audio",
         "input_image", "input_file")  # fmt: skip

UNSAID = frozenset({
    "additional_tools", "cachePoint", "compaction", "item_reference", "mcp_list_tools",
    "tool_search_call", "tool_search_output",
})  # fmt: skip
"""Parts that are about a provider's own tools and storage, and say nothing to another."""

_NESTED = frozenset((dict, list))

_encode = msgspec.json.Encoder().encode


def function_call(name: Any, arguments: Any) -> FunctionCall:
    """A call from whatever a message holds in place of a name and arguments."""
    clean = as_text(name)
    try:
        if not isinstance(arguments, str):  # JSON text can hold nothing that has no fingerprint
            canonical(clean, arguments)
        return FunctionCall.of(clean, arguments)
    except (TypeError, ValueError, RecursionError):  # UnhashableArguments is a ValueError
        return FunctionCall.of(clean, as_text(repr(arguments)))


def object_arguments(call: Call, changes: list[Change]) -> dict[str, Any]:
    """Arguments as the object that a wire demands; text that is none is wrapped."""
    if call.raw is None and isinstance(call.arguments, dict):
        return copy(call.arguments)  # type: ignore[no-any-return]
    changes.append(Change("wrapped", "arguments", "its arguments are no JSON object", call.id))
    return {"raw_arguments": call.raw if call.raw is not None else call.arguments}


def foreign_text(part: Opaque, changes: list[Change]) -> str | None:
    """What another provider's part says in text, None where it says nothing to this one."""
    data = part.data if isinstance(part.data, dict) else {}
    kind, text = _kind(data), data.get("text")
    if data.get("thought") is True or kind == "thoughtSignature":
        kind = "thinking"
    if kind == "citationsContent" and isinstance(data[kind], dict):
        kind, text = "text", as_text(data[kind].get("content"))
    if kind in ("text", "input_text", "output_text") and isinstance(text, str):
        return text
    if kind in ("thinking", "redacted_thinking", "reasoning", "reasoningContent"):
        changes.append(Change("dropped", "reasoning", f"{kind} is only for {part.provider}"))
        return None
    if kind == "refusal" and isinstance(data.get("refusal"), str):
        return str(data["refusal"])
    if kind in UNSAID:
        changes.append(Change("dropped", "foreign-part", f"{kind} is only for {part.provider}"))
        return None
    changes.append(Change("wrapped", "foreign-part", f"{kind} of {part.provider} became text"))
    body = data.get(kind)
    for said in (body.get("code"), body.get("output")) if isinstance(body, dict) else ():
        if isinstance(said, str):
            return f"[{kind} of {part.provider}]\n{said}"
    return f"[{kind} of {part.provider}, not shown here]"


def _kind(data: dict[str, Any]) -> str:
    """What a part is: its type, or the member that it is kept under."""
    kind = data.get("type")
    return kind if isinstance(kind, str) else str(next(iter(data), kind))


def as_text(value: Any) -> str:
    """Any content as text: text as it is, text parts joined, the rest as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value:
        return "\n".join(_item_text(item) for item in value)
    value = readable(value)[0]
    return value if isinstance(value, str) else _encode(value).decode()


def _item_text(item: Any) -> str:
    if isinstance(item, dict) and isinstance(item.get("text"), str):
        return str(item["text"])
    if isinstance(item, dict) and item.get("type") in MEDIA:
        return f"[{item['type']}]"
    return as_text(item) if not isinstance(item, list) else as_text({"items": item})


def copy(value: Any) -> Any:
    """A copy of JSON values that shares nothing with them."""
    kind = type(value)
    if kind is dict:
        copied = value.copy()
        for key, item in value.items():
            if type(item) in _NESTED:
                copied[key] = copy(item)
        return copied
    if kind is list:
        return [copy(item) if type(item) in _NESTED else item for item in value]
    return value
