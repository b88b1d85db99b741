"""The work that all do: an agent's tool calls, and message lists that a crash left broken."""

from __future__ import annotations

import json
from typing import Any

PROMPT = "Where are my orders? I asked for them a week ago."
TOOL = "search_orders"
RESULT: dict[str, Any] = {
    "orders": [
        {"id": "A-10293", "status": "shipped", "total": 129.9, "items": 3},
        {"id": "A-10411", "status": "open", "total": 18.5, "items": 1},
    ],
    "next": None,
}


def call_id(number: int) -> str:
    """Return the id of a call."""
    return f"call_{number:024}"


def arguments_of(number: int) -> dict[str, Any]:
    """Return the arguments of a call."""
    return {"customer": f"c-{number:05}", "status": ["open", "shipped"], "limit": 20, "page": 1}


def broken_list(provider: str, turns: int) -> list[dict[str, Any]]:
    """Return messages with one call in each turn, of which every tenth has no result."""
    make = {"openai": _openai_turn, "anthropic": _anthropic_turn}[provider]
    messages: list[dict[str, Any]] = [{"role": "user", "content": PROMPT}]
    for number in range(turns):
        called, answered = make(number)
        messages.append(called)
        if number % 10 != 9:
            messages.append(answered)
        elif provider == "anthropic":
            messages.append({"role": "user", "content": "Are you there?"})
    return messages


def _openai_turn(number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    function = {"name": TOOL, "arguments": json.dumps(arguments_of(number))}
    made = {"id": call_id(number), "type": "function", "function": function}
    called = {"role": "assistant", "content": None, "tool_calls": [made]}
    return called, {
        "role": "tool",
        "tool_call_id": call_id(number),
        "content": json.dumps(RESULT),
    }


def _anthropic_turn(number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    made = {
        "type": "tool_use",
        "id": call_id(number),
        "name": TOOL,
        "input": arguments_of(number),
    }
    result = {
        "type": "tool_result",
        "tool_use_id": call_id(number),
        "content": json.dumps(RESULT),
    }
    return {"role": "assistant", "content": [made]}, {"role": "user", "content": [result]}
