"""Files of agents' own sessions, in the forms of the real programs: `tests/data/programs`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.importing import clock

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


def pi(kind: str, entry_id: str, parent: str | None, **fields: Any) -> dict[str, Any]:
    """Return an entry of a session."""
    return {"type": kind, "id": entry_id, "parentId": parent, "timestamp": clock(1), **fields}


def pi_said(entry_id: str, parent: str | None, role: str, **message: Any) -> dict[str, Any]:
    """Return an entry with a message."""
    return pi("message", entry_id, parent, message={"role": role, **message})


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
