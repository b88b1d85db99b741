"""A request as people read it, in the same lines for every provider."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

import msgspec

from eventstore.domain.json_types import JsonObject

_INDENT = "    "
_SYSTEM = ("system", "system_instruction", "instructions")
_LISTS = ("messages", "contents", "input")
_TEXT_KINDS = (None, "text", "input_text", "output_text")


def request_lines(arguments: JsonObject) -> Iterator[str]:
    """Yield the lines of a request: the messages by role, the calls, and their results."""
    for key in _SYSTEM:
        if key in arguments:
            yield from _section("system", [_text(arguments[key])])
    for key in _LISTS:
        messages = arguments.get(key, ())
        for message in [messages] if isinstance(messages, str) else messages:
            yield from _section(_speaker(message), message_texts(message))
    for key, value in arguments.items():
        if key not in (*_SYSTEM, *_LISTS):
            yield from _section(key, [_json(value)])


def _speaker(message: object) -> str:
    if not isinstance(message, dict):
        return "user"
    body = cast("JsonObject", message)
    return str(body.get("role") or body.get("type"))


def _section(title: str, texts: Iterable[str]) -> Iterator[str]:
    yield f"── {title}"
    for text in texts:
        for line in text.splitlines() or [""]:
            yield f"{_INDENT}{line}"


def message_texts(message: object) -> Iterator[str]:
    """Yield what a message says, part by part: text, calls made (►), results (◄)."""
    body = _members(message)
    if "role" not in body and "content" not in body:
        yield _block(message)
        return
    content = body.get("parts", body.get("content"))
    if body.get("role") == "tool":
        yield f"◄ {body.get('tool_call_id') or body.get('tool_name')}: {_text(content)}"
        return
    if isinstance(content, list):
        for block in cast("list[object]", content):
            yield _block(block)
    elif content:
        yield _text(content)
    for call in body.get("tool_calls") or ():
        function = _members(call.get("function"))
        yield _call(function.get("name"), function.get("arguments"), call.get("id"))


def _members(value: object) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _call(name: object, arguments: object, call_id: object) -> str:
    text = arguments if isinstance(arguments, str) else _json(arguments)
    return f"► {name}({text})" + (f"  {call_id}" if call_id else "")


def _result(call_id: object, content: object, *, failed: bool = False) -> str:
    return f"◄ {call_id}{' failed' if failed else ''}: {_text(content)}"


def _block(block: object) -> str:
    if not isinstance(block, dict):
        return _text(block)
    body = cast("JsonObject", block)
    for describe in (_typed_block, _gemini_part, _bedrock_block, _text_block):
        text = describe(body)
        if text is not None:
            return text
    return _json(body)


def _typed_block(block: JsonObject) -> str | None:
    """Describe a call or a result of Anthropic or of OpenAI Responses."""
    match block.get("type"):
        case "tool_use":
            return _call(block.get("name"), block.get("input"), block.get("id"))
        case "tool_result":
            failed = bool(block.get("is_error"))
            return _result(block.get("tool_use_id"), block.get("content"), failed=failed)
        case "function_call":
            return _call(block.get("name"), block.get("arguments"), block.get("call_id"))
        case "function_call_output":
            return _result(block.get("call_id"), block.get("output"))
        case _:
            return None


def _gemini_part(block: JsonObject) -> str | None:
    if call := block.get("function_call") or block.get("functionCall"):
        return _call(call.get("name"), call.get("args"), call.get("id"))
    if response := block.get("function_response") or block.get("functionResponse"):
        return _result(response.get("id") or response.get("name"), _json(response.get("response")))
    return None


def _bedrock_block(block: JsonObject) -> str | None:
    if call := block.get("toolUse"):
        return _call(call.get("name"), call.get("input"), call.get("toolUseId"))
    if result := block.get("toolResult"):
        failed = result.get("status") == "error"
        return _result(result.get("toolUseId"), result.get("content"), failed=failed)
    return None


def _text_block(block: JsonObject) -> str | None:
    text = block.get("text")
    return text if isinstance(text, str) and block.get("type") in _TEXT_KINDS else None


def _text(content: object) -> str:
    if content is None:
        return ""
    if isinstance(content, list):
        return "\n".join(map(_block, cast("list[object]", content)))
    return content if isinstance(content, str) else _json(content)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
