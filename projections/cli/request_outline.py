"""A provider's request as people read it, whichever provider's it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

_INDENT = "    "
_SYSTEM = ("system", "system_instruction", "instructions")
_LISTS = ("messages", "contents", "input")


def request_lines(arguments: dict[str, Any]) -> Iterator[str]:
    """The lines of a request: who says what, which calls were made, and what came of them."""
    for key in _SYSTEM:
        if key in arguments:
            yield from _said("system", [_text(arguments[key])])
    for key in _LISTS:
        given = arguments.get(key, ())
        for message in [given] if isinstance(given, str) else given:
            yield from _said(_speaker(message), list(told(message)))
    for key, value in arguments.items():
        if key not in (*_SYSTEM, *_LISTS):
            yield from _said(key, [_json(value)])


def _speaker(message: Any) -> str:
    if not isinstance(message, dict):
        return "user"
    return str(message.get("role") or message.get("type"))


def _said(who: str, texts: list[str]) -> Iterator[str]:
    yield f"── {who}"
    for text in texts:
        for line in text.splitlines() or [""]:
            yield f"{_INDENT}{line}"


def told(message: Any) -> Iterator[str]:
    """What a message says, part by part: text, calls made (►), results (◄)."""
    if not isinstance(message, dict) or ("role" not in message and "content" not in message):
        yield _block(message)
        return
    content = message.get("parts", message.get("content"))
    if message.get("role") == "tool":
        yield f"◄ {message.get('tool_call_id') or message.get('tool_name')}: {_text(content)}"
        return
    if isinstance(content, list):
        for block in content:
            yield _block(block)
    elif content:
        yield _text(content)
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        yield _call(function.get("name"), function.get("arguments"), call.get("id"))


def _call(name: Any, arguments: Any, call_id: Any) -> str:
    given = arguments if isinstance(arguments, str) else _json(arguments)
    return f"► {name}({given})" + (f"  {call_id}" if call_id else "")


def _result(call_id: Any, content: Any, *, failed: bool = False) -> str:
    return f"◄ {call_id}{' failed' if failed else ''}: {_text(content)}"


def _block(block: Any) -> str:  # noqa: C901, PLR0911 - a table
    if not isinstance(block, dict):
        return _text(block)
    kind = block.get("type")
    if kind == "tool_use":
        return _call(block.get("name"), block.get("input"), block.get("id"))
    if kind == "tool_result":
        failed = bool(block.get("is_error"))
        return _result(block.get("tool_use_id"), block.get("content"), failed=failed)
    if kind == "function_call":
        return _call(block.get("name"), block.get("arguments"), block.get("call_id"))
    if kind == "function_call_output":
        return _result(block.get("call_id"), block.get("output"))
    if call := block.get("function_call") or block.get("functionCall"):  # Gemini
        return _call(call.get("name"), call.get("args"), call.get("id"))
    if done := block.get("function_response") or block.get("functionResponse"):
        return _result(done.get("id") or done.get("name"), _json(done.get("response")))
    if call := block.get("toolUse"):  # Bedrock
        return _call(call.get("name"), call.get("input"), call.get("toolUseId"))
    if done := block.get("toolResult"):
        failed = done.get("status") == "error"
        return _result(done.get("toolUseId"), done.get("content"), failed=failed)
    if isinstance(block.get("text"), str) and kind in (None, "text", "input_text", "output_text"):
        return str(block["text"])
    return _json(block)


def _text(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, list):
        return "\n".join(_block(part) for part in content)
    return content if isinstance(content, str) else _json(content)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
