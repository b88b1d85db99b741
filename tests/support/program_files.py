"""Files of agents' own sessions, in the forms of the real programs: `tests/data/programs`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.importing import AT, clock

FOLDER = Path(__file__).parents[1] / "data" / "programs"


def path_of(name: str) -> Path:
    """Return the path of a file."""
    return FOLDER / name


def values_of(name: str) -> Any:
    """Return the values of a file's lines, or its one document."""
    text = path_of(name).read_text("utf-8")
    if name.endswith(".jsonl"):
        return [json.loads(line) for line in text.splitlines()]
    return json.loads(text)


def droid(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    """Return a message of a session of Factory Droid."""
    message = {"role": role, "content": [*blocks]}
    return {"type": "message", "id": role, "timestamp": clock(1), "message": message}


DROID = [
    {"type": "session_start", "id": "s", "title": "t", "version": 2, "cwd": "/"},
    droid("user", {"type": "text", "text": "go"}),
    droid(
        "assistant",
        {"type": "thinking", "thinking": "hm"},
        {"type": "tool_use", "id": "a", "name": "Execute", "input": {"command": "ls"}},
        {"type": "tool_use", "id": "b", "name": "Execute", "input": {"command": "id"}},
    ),
    droid(
        "user",
        {"type": "tool_result", "tool_use_id": "a", "is_error": False, "content": "a.txt"},
        {"type": "tool_result", "tool_use_id": "b", "is_error": True, "content": "no"},
    ),
    {"type": "todo_state", "id": "t", "timestamp": clock(2), "todos": []},
]
"""A session as its documents say."""


def droid_stream(kind: str, **fields: Any) -> dict[str, Any]:
    """Return a line that `droid exec --output-format stream-json` prints."""
    return {"type": kind, "session_id": "s", "timestamp": AT // 1000, **fields}


DROID_STREAM = [
    droid_stream("system", subtype="init", cwd="/", tools=[], model="m"),
    droid_stream("message", role="user", id="m0", text="go"),
    droid_stream("message", role="assistant", id="m1", text="I look."),
    droid_stream(
        "tool_call",
        id="a",
        messageId="m1",
        toolName="Execute",
        parameters={"command": "ls"},
    ),
    droid_stream("tool_result", id="a", messageId="m1", toolId="x", isError=False, value="a.txt"),
    droid_stream(
        "tool_call",
        id="b",
        messageId="m2",
        toolName="Execute",
        parameters={"command": "id"},
    ),
    droid_stream("tool_result", id="b", messageId="m2", toolId="x", isError=True, value="no"),
    droid_stream("message", role="assistant", id="m3", text="Done."),
    droid_stream("completion", finalText="Done.", numTurns=3, durationMs=9),
]


def pi(kind: str, entry_id: str, parent: str | None, **fields: Any) -> dict[str, Any]:
    """Return an entry of a session."""
    return {"type": kind, "id": entry_id, "parentId": parent, "timestamp": clock(1), **fields}


def pi_said(entry_id: str, parent: str | None, role: str, **message: Any) -> dict[str, Any]:
    """Return an entry with a message."""
    return pi("message", entry_id, parent, message={"role": role, "timestamp": AT, **message})


PI = [
    {"type": "session", "version": 3, "id": "s", "timestamp": clock(0), "cwd": "/"},
    pi_said("0", None, "system", content="", sections={"a": "You help.", "b": "Be brief."}),
    pi("model_change", "1", "0", provider="p", modelId="m"),
    pi_said("2", "1", "user", content="one"),
    pi_said(
        *("3", "2", "assistant"),
        content=[
            {"type": "thinking", "thinking": "hm"},
            {"type": "text", "text": "I look."},
            {"type": "toolCall", "id": "a", "name": "bash", "arguments": {"command": "ls"}},
            {"type": "toolCall", "id": "b", "name": "bash", "arguments": {"command": "id"}},
        ],
    ),
    pi_said(
        *("4", "3", "toolResult"),
        toolCallId="a",
        toolName="bash",
        isError=False,
        content=[{"type": "text", "text": "a.txt"}],
    ),
    pi_said(
        *("5", "4", "toolResult"),
        toolCallId="b",
        toolName="bash",
        isError=True,
        content=[{"type": "text", "text": "Command exited with code 1"}],
    ),
    pi_said("6", "5", "bashExecution", command="pwd", output="/", exitCode=0),
]
