"""Exports as Open WebUI 0.12 and LibreChat write them; the contents are made up."""

from __future__ import annotations

from typing import Any

from support.importing import AT, clock

SECONDS = AT // 1_000_000


def _call(call_id: str, name: str, status: str) -> dict[str, Any]:
    own = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id}
    return {**own, "name": name, "arguments": '{"q": 1}', "status": status}


def _result(call_id: str, words: str, status: str) -> dict[str, Any]:
    own = {"type": "function_call_output", "id": f"fco_{call_id}", "call_id": call_id}
    return {**own, "output": [{"type": "input_text", "text": words}], "status": status}


def _said(words: str) -> dict[str, Any]:
    parts = [{"type": "output_text", "text": words}]
    return {"type": "message", "role": "assistant", "status": "completed", "content": parts}


OUTPUT: list[dict[str, Any]] = [
    {"type": "reasoning", "summary": [{"type": "output_text", "text": "Hm."}]},
    _said("I look."),
    _call("a", "find", "completed"),
    _result("a", "found", "completed"),
    _call("b", "find", "failed"),
    _result("b", "no such index", "failed"),
    _call("c", "book", "rejected"),
    _result("c", "Error: tool call rejected by user.", "rejected"),
    _call("d", "book", "pending"),
    _said("Done."),
]
"""What an assistant's message holds: calls that end in every way."""


def open_webui(said: str | list[dict[str, Any]]) -> dict[str, Any]:
    """Return a chat with one question; the answer is a text, or items."""
    answer: dict[str, Any] = (
        {"content": said} if isinstance(said, str) else {"content": "shown", "output": said}
    )
    messages: dict[str, dict[str, Any]] = {
        "u1": {"id": "u1", "parentId": None, "role": "user", "content": "Find it."},
        "a1": {"id": "a1", "parentId": "u1", "role": "assistant", **answer},
    }
    for place, message in enumerate(messages.values()):
        message["timestamp"] = SECONDS + place
    history = {"messages": messages, "currentId": "a1"}
    return {"id": "c1", "title": "t", "chat": {"title": "t", "history": history}}


def librechat(form: str) -> dict[str, Any]:
    """Return a conversation with a branch that was left, as a list (`messages`) or as a tree."""

    def part(call_id: str, name: str, **end: Any) -> dict[str, Any]:
        call = {"id": call_id, "name": name, "args": '{"q": 1}', "type": "tool_call", **end}
        return {"type": "tool_call", "tool_call": call}

    code = {"type": "code_interpreter", "code_interpreter": {"input": "1", "outputs": "1"}}
    parts = [
        {"type": "think", "think": "Hm."},
        {"type": "text", "text": {"value": "I look."}},
        part("a", "find", output="found", progress=1),
        part("b", "find", output="Error processing tool: gone", progress=1),
        part("c", "book", progress=0.1),
        {"type": "tool_call", "tool_call": {"id": "d", **code}},
        {"type": "text", "text": "Done."},
    ]

    def message(own: str, parent: str, at: int, **fields: Any) -> dict[str, Any]:
        base = {"messageId": own, "parentMessageId": parent, "createdAt": clock(at)}
        return {**base, "isCreatedByUser": own.startswith("u"), **fields}

    none = "00000000-0000-0000-0000-000000000000"
    first = message("u0", none, 0, text="Never mind.")
    asked = message("u1", none, 1, text="Find it.")
    answer = message("a1", "u1", 2, text="", content=parts)
    convo = {"conversationId": "l1", "endpoint": "agents", "title": "t"}
    if form == "messages":
        return {**convo, "messages": [first, asked, answer]}
    return {**convo, "messagesTree": [first, {**asked, "children": [answer]}]}
