"""Broken histories of every provider, and the content that must not be lost.

There are 20,000 a provider with `TOOLLEDGER_LONG=1`, otherwise a sample.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

from support import broken_chats, broken_histories, broken_items

from eventstore.domain.own_texts import error_of_text
from eventstore.providers.parsing import parse_own

GENERATORS: dict[str, Callable[[random.Random], list[Any]]] = {
    "anthropic": broken_histories.anthropic,
    "bedrock": broken_chats.bedrock,
    "cohere": broken_chats.cohere,
    "gemini": broken_items.gemini,
    "litellm": broken_histories.openai,
    "mistral": broken_chats.mistral,
    "ollama": broken_chats.ollama,
    "openai": broken_histories.openai,
    "openai-responses": broken_items.openai_responses,
}


def histories(provider: str, count: int, salt: str = "") -> Iterator[list[Any]]:
    """Return `count` broken histories, the same in every run."""
    for seed in range(count):
        yield GENERATORS[provider](random.Random(f"{salt}{provider}{seed}"))


def recordable(provider: str, count: int, salt: str = "") -> Iterator[list[Any]]:
    """Return those that a log accepts: some call or result is in the provider's form."""
    for messages in histories(provider, count, salt):
        try:
            parse_own(messages, provider)
        except ValueError:
            continue
        yield messages


def strings(value: Any) -> Iterator[str]:
    """Yield every string in a JSON value, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def said(message: Any) -> Iterator[str]:
    """Return the texts and results of a message, in any form; a completion may replace failures."""
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
    """Return the content of `messages` that is in no string of `shown`, nor as JSON in one."""
    reported = "\n".join(strings(shown))
    return [
        text
        for message in messages
        for text in said(message)
        if text.strip() and not any(each in reported for each in _spellings(text))
    ]


def _spellings(text: str) -> Iterator[str]:
    yield text
    if (error := error_of_text(text)) is not None:  # where a provider has a mark for it
        yield error
    yield text.encode("unicode_escape").decode()
    for ascii_only in (True, False):
        yield json.dumps(text, ensure_ascii=ascii_only)[1:-1]


def parallel(provider: str, count: int) -> list[Any]:
    """Return a turn of `count` parallel calls with one id, answered in reverse order."""
    names = [f"tool_{number}" for number in range(count)]
    back = names[::-1]
    if provider == "gemini":
        return _turn(
            "parts",
            {"text": "q"},
            "model",
            [{"functionCall": {"id": "same", "name": name, "args": {}}} for name in names],
            [
                {"functionResponse": {"id": "same", "name": name, "response": {"output": name}}}
                for name in back
            ],
        )
    if provider == "bedrock":
        return _turn(
            "content",
            {"text": "q"},
            "assistant",
            [{"toolUse": {"toolUseId": "same", "name": name, "input": {}}} for name in names],
            [{"toolResult": {"toolUseId": "same", "content": [{"text": name}]}} for name in back],
        )
    if provider == "anthropic":
        return _turn(
            "content",
            {"type": "text", "text": "q"},
            "assistant",
            [{"type": "tool_use", "id": "same", "name": name, "input": {}} for name in names],
            [{"type": "tool_result", "tool_use_id": "same", "content": name} for name in back],
        )
    if provider == "openai-responses":
        call, output = (
            {"type": kind, "call_id": "same"} for kind in ("function_call", "function_call_output")
        )
        return [
            {"role": "user", "content": "q"},
            *({**call, "name": name, "arguments": "{}"} for name in names),
            *({**output, "output": name} for name in back),
        ]
    empty: Any = {} if provider == "ollama" else "{}"
    calls = [
        {"id": "same", "type": "function", "function": {"name": name, "arguments": empty}}
        for name in names
    ]
    result = {"role": "tool", "tool_call_id": "same"}
    return [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "", "tool_calls": calls},
        *({**result, "content": name, "tool_name": name} for name in back),
    ]


def _turn(key: str, asked: Any, model: str, calls: list[Any], results: list[Any]) -> list[Any]:
    return [
        {"role": "user", key: [asked]},
        {"role": model, key: calls},
        {"role": "user", key: results},
    ]


def lines(work: Callable[[], object]) -> int:
    """Count the lines of Python that `work` runs, which is the same on any machine."""
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
