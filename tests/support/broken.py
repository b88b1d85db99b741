"""Broken histories of every wire, and what of them must not be lost.

How much: `TOOLLEDGER_LONG=1` asks for 20,000 a provider, else there is a sample.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import broken_histories
import broken_items
import broken_wires

from eventstore.wire import parse_own

LONG = bool(os.environ.get("TOOLLEDGER_LONG"))

GENERATORS: dict[str, Callable[[random.Random], list[Any]]] = {
    "anthropic": broken_histories.anthropic,
    "bedrock": broken_wires.bedrock,
    "gemini": broken_items.gemini,
    "mistral": broken_wires.mistral,
    "ollama": broken_wires.ollama,
    "openai": broken_histories.openai,
    "openai-responses": broken_items.openai_responses,
}


def histories(provider: str, count: int, salt: str = "") -> Iterator[list[Any]]:
    """`count` broken histories, the same in every run."""
    for seed in range(count):
        yield GENERATORS[provider](random.Random(f"{salt}{provider}{seed}"))


def recordable(provider: str, count: int, salt: str = "") -> Iterator[list[Any]]:
    """Those that a log takes: not one whose only calls, or results, are in another's form."""
    for messages in histories(provider, count, salt):
        try:
            parse_own(messages, provider)
        except ValueError:
            continue
        yield messages


def strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def said(message: Any) -> Iterator[str]:
    """The texts and results of a message, in any form; failures may give way to a completion."""
    if not isinstance(message, dict) or message.get("type") in _ASIDE:
        return
    if message.get("is_error") is True or message.get("status") == "error":
        return
    for key in ("parts",) if "parts" in message else ("content", "output"):
        held = message.get(key)
        for part in held if isinstance(held, list) else [{"text": held}]:
            if not isinstance(part, dict):
                continue
            kind = part.get("type", "text")
            if kind in _TEXTS and isinstance(part.get("text"), str) and not part.get("thought"):
                yield part["text"]
            if kind == "tool_result":
                yield from said(part)
            yield from said(part.get("toolResult"))
            answer = part.get("functionResponse", part.get("function_response"))
            response = answer.get("response") if isinstance(answer, dict) else None
            if isinstance(response, dict) and "error" not in response:
                yield from strings(response)


_TEXTS = ("text", "input_text", "output_text")
_ASIDE = ("reasoning", "item_reference", "additional_tools", "tool_search_call")


def lost(messages: list[Any], shown: Any) -> list[str]:
    """What `messages` say that is in no string of `shown`, nor as JSON in one."""
    told = "\n".join(strings(shown))
    return [
        text
        for message in messages
        for text in said(message)
        if text.strip() and not any(each in told for each in _spellings(text))
    ]


def _spellings(text: str) -> Iterator[str]:
    yield text
    yield text.encode("unicode_escape").decode()
    for ascii_only in (True, False):
        yield json.dumps(text, ensure_ascii=ascii_only)[1:-1]


def parallel(provider: str, count: int) -> list[Any]:
    """A turn of `count` parallel calls, all of one id, answered from the last to the first."""
    names = [f"tool_{number}" for number in range(count)]
    back = names[::-1]
    if provider == "gemini":
        return _turn("parts", {"text": "q"}, "model", [
            {"functionCall": {"id": "same", "name": name, "args": {}}} for name in names
        ], [
            {"functionResponse": {"id": "same", "name": name, "response": {"output": name}}}
            for name in back
        ])  # fmt: skip
    if provider == "bedrock":
        return _turn("content", {"text": "q"}, "assistant", [
            {"toolUse": {"toolUseId": "same", "name": name, "input": {}}} for name in names
        ], [
            {"toolResult": {"toolUseId": "same", "content": [{"text": name}]}} for name in back
        ])  # fmt: skip
    if provider == "anthropic":
        return _turn("content", {"type": "text", "text": "q"}, "assistant", [
            {"type": "tool_use", "id": "same", "name": name, "input": {}} for name in names
        ], [
            {"type": "tool_result", "tool_use_id": "same", "content": name} for name in back
        ])  # fmt: skip
    if provider == "openai-responses":
        call, output = ({"type": kind, "call_id": "same"} for kind in
                        ("function_call", "function_call_output"))  # fmt: skip
        return [{"role": "user", "content": "q"},
                *({**call, "name": name, "arguments": "{}"} for name in names),
                *({**output, "output": name} for name in back)]  # fmt: skip
    empty: Any = {} if provider == "ollama" else "{}"
    calls = [{"id": "same", "type": "function", "function": {"name": name, "arguments": empty}}
             for name in names]  # fmt: skip
    result = {"role": "tool", "tool_call_id": "same"}
    return [{"role": "user", "content": "q"},
            {"role": "assistant", "content": "", "tool_calls": calls},
            *({**result, "content": name, "tool_name": name} for name in back)]  # fmt: skip


def _turn(key: str, asked: Any, model: str, calls: list[Any], results: list[Any]) -> list[Any]:
    return [{"role": "user", key: [asked]}, {"role": model, key: calls},
            {"role": "user", key: results}]  # fmt: skip


def lines(work: Callable[[], object]) -> int:
    """How many lines of Python `work` runs: what is counted is the same on any machine."""
    seen = 0

    def count(*_: Any) -> Any:
        nonlocal seen
        seen += 1
        return count

    traced = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(traced)
    return seen
