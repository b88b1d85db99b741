"""`has_all_results`: whether a list has as many results as calls, as valid lists have.

1. It is seen much faster than by the rules, and most damaged lists lack a result.
2. Ollama takes lists that have not: it is left to its rules.
3. Where a list has another form than is expected, the answer is yes: the rules judge.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

_SEARCHES: Final = ("tool_search_call", "tool_search_output")
"""Types of items that may be the server's own, and need no answer then."""


def has_all_results(messages: list[Any], provider: str) -> bool:
    """Return whether a list may be valid, by the numbers of its calls and results."""
    count = _COUNTS.get(provider)
    if count is None:
        return True
    try:
        return count(messages) == 0
    except Exception:  # noqa: BLE001 - not JSON objects: foreign code may raise anything
        return True


def _in_chat(messages: list[Any]) -> int:
    """Return the number of calls in `tool_calls`, less the number of tool messages."""
    missing = 0
    for message in messages:
        if calls := message.get("tool_calls"):
            missing += len(calls)
        elif message.get("role") == "tool":
            missing -= 1
        elif "function_call" in message:  # the former format
            return 0
    return missing


def _in_items(items: list[Any]) -> int:
    """Return the number of items that are calls, less the number of outputs."""
    from eventstore.providers.openai_responses.shapes import CALL_OF, OUTPUTS  # for these alone

    kinds = [kind for item in items if (kind := item.get("type")) not in _SEARCHES]
    return sum((kind in OUTPUTS) - (kind in CALL_OF) for kind in kinds)


def _in_blocks(messages: list[Any]) -> int:
    """Return the number of blocks that are calls by their type, less the number of results."""
    missing = 0
    for message in messages:
        content = message.get("content")
        if content and not isinstance(content, str):
            for block in content:
                kind = block.get("type")
                if kind == "tool_use":
                    missing += 1
                elif kind == "tool_result":
                    missing -= 1
    return missing


def _by_members(
    messages: list[Any], held_in: str, calls: frozenset[str], results: frozenset[str]
) -> int:
    """Return the number of blocks with a member of a call, less that with one of a result."""
    blocks = [block for message in messages for block in message.get(held_in) or ()]
    return sum(results.isdisjoint(block) - calls.isdisjoint(block) for block in blocks)


_COUNTS: Final[dict[str, Callable[[list[Any]], int]]] = {
    "anthropic": _in_blocks,
    "bedrock": partial(
        _by_members,
        held_in="content",
        calls=frozenset({"toolUse"}),
        results=frozenset({"toolResult"}),
    ),
    "cohere": _in_chat,
    "gemini": partial(
        _by_members,
        held_in="parts",
        calls=frozenset({"functionCall", "function_call"}),
        results=frozenset({"functionResponse", "function_response"}),
    ),
    "litellm": _in_chat,
    "mistral": _in_chat,
    "openai": _in_chat,
    "openai-responses": _in_items,
}
