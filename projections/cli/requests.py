"""A provider's request as people read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

_INDENT = "    "


def request_lines(arguments: dict[str, Any]) -> Iterator[str]:
    """The lines of a request: who says what, which calls were made, and what came of them."""
    if "system" in arguments:
        yield from _said("system", [arguments["system"]])
    for message in arguments.get("messages", ()):
        yield from _said(str(message.get("role")), list(told(message)))
    for key, value in arguments.items():
        if key not in ("messages", "system"):
            yield from _said(key, [_json(value)])


def _said(who: str, texts: list[str]) -> Iterator[str]:
    yield f"── {who}"
    for text in texts:
        for line in text.splitlines() or [""]:
            yield f"{_INDENT}{line}"


def told(message: dict[str, Any]) -> Iterator[str]:
    """What a message says, part by part: text, calls made (►), results (◄)."""
    content = message.get("content")
    if message.get("role") == "tool":
        yield f"◄ {message.get('tool_call_id')}: {_text(content)}"
        return
    if isinstance(content, list):
        for block in content:
            yield _block(block)
    elif content:
        yield _text(content)
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        yield f"► {function.get('name')}({function.get('arguments')})  {call.get('id')}"


def _block(block: Any) -> str:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text":
        return _text(block.get("text"))
    if kind == "tool_use":
        return f"► {block.get('name')}({_json(block.get('input'))})  {block.get('id')}"
    if kind == "tool_result":
        mark = " failed" if block.get("is_error") else ""
        return f"◄ {block.get('tool_use_id')}{mark}: {_text(block.get('content'))}"
    return _json(block)


def _text(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, list):
        return "\n".join(_block(part) for part in content)
    return content if isinstance(content, str) else _json(content)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
