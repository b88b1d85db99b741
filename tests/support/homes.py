"""Home folders with the sessions of programs, written as the programs write them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

CLAUDE = "02d5bd7b-e5ab-481c-9ada-000000000001"
CODEX = "01990000-0000-7000-8000-00000000000a"
CODEX_CHILD = "01990000-0000-7000-8000-00000000000b"
GEMINI = "43ce8be0-8814-4c95-84bc-000000000003"
OPENHANDS = "5f0c2f4e8d6b4b7f9a0c1d2e3f405162"

AT = 1_700_000_000
"""The time of the oldest session, in seconds; each of the others is a minute younger."""


def write_lines(path: Path, *values: Any, at: int | None = None) -> Path:
    """Write a file with a JSON value in each line, last changed at a time."""
    return write(path, "".join(json.dumps(value) + "\n" for value in values), at)


def write(path: Path, text: str, at: int | None = None) -> Path:
    """Write a file, last changed at a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if at is not None:
        os.utime(path, (at, at))
    return path


def claude_record(
    kind: str, uuid: str, parent: str | None, content: Any, session: str = CLAUDE, **more: Any
) -> dict[str, Any]:
    """Return a record of Claude Code, its members in the order that it writes."""
    message = {"role": kind, "content": content}
    return {
        "parentUuid": parent,
        "isSidechain": more.pop("side", False),
        "type": kind,
        "message": message if kind == "user" else {"id": f"msg_{uuid}", **message},
        "uuid": uuid,
        "timestamp": "2026-11-27T04:15:16.584Z",
        "cwd": more.pop("cwd", "/home/dev/shop"),
        "sessionId": session,
        **more,
    }


def tool_use(call_id: str, **arguments: Any) -> dict[str, Any]:
    """Return a block with a call, as Claude Code writes it."""
    name = "Task" if "prompt" in arguments else "Bash"
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def tool_result(call_id: str, text: str, *, failed: bool = False) -> dict[str, Any]:
    """Return a block with a result, as Claude Code writes it."""
    return {"tool_use_id": call_id, "type": "tool_result", "content": text, "is_error": failed}


def claude_lines(session: str = CLAUDE) -> list[dict[str, Any]]:
    """Return a session of Claude Code: two calls, of which the second fails."""
    return [
        {"type": "last-prompt", "lastPrompt": "Do the work", "sessionId": session},
        claude_record("user", "1", None, "Do the work", session),
        claude_record("assistant", "2", "1", [tool_use("toolu_1", prompt="Count")], session),
        claude_record("user", "3", "2", [tool_result("toolu_1", "3")], session),
        claude_record("assistant", "4", "3", [tool_use("toolu_2", command="make")], session),
        claude_record("user", "5", "4", [tool_result("toolu_2", "no rule", failed=True)], session),
    ]


def claude_code(folder: Path, at: int = AT) -> Path:
    """Write a session of Claude Code into its folder, with a sub-agent, and return its file."""
    project = folder / "projects" / "-home-dev-shop"
    side = f"{CLAUDE}/subagents/agent-a9dd2b92"
    own: dict[str, Any] = {"side": True, "agentId": "a9dd2b92"}
    write_lines(
        project / f"{side}.jsonl",
        claude_record("user", "6", None, "Count", **own),
        claude_record("assistant", "7", "6", [tool_use("toolu_3", command="ls")], **own),
        claude_record("user", "8", "7", [tool_result("toolu_3", "a b c")], **own),
    )
    write(project / f"{side}.meta.json", json.dumps({"agentType": "x", "toolUseId": "toolu_1"}))
    write(project / CLAUDE / "tool-results" / "big.json", "[1, 2")
    write(project / "sessions-index.json", '{"version": 1, "entries": []}')
    return write_lines(project / f"{CLAUDE}.jsonl", *claude_lines(), at=at)


def codex_record(kind: str, **payload: Any) -> dict[str, Any]:
    """Return a record of Codex CLI."""
    return {"timestamp": "2026-11-27T10:00:00.000Z", "type": kind, "payload": payload}


def codex(folder: Path, at: int = AT + 60) -> Path:
    """Write a rollout of Codex CLI into its folder, and that of a sub-agent; return the first."""
    day = folder / "sessions" / "2026" / "11" / "27"
    call = codex_record(
        "response_item", type="function_call", name="exec", arguments="{}", call_id="call_1"
    )
    result = codex_record(
        "response_item", type="function_call_output", call_id="call_1", output="Exit code: 0\nok"
    )
    asked = codex_record(
        "response_item",
        type="message",
        role="user",
        content=[{"type": "input_text", "text": "Run it."}],
    )
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": CODEX, "depth": 1}}}
    own = codex_record("session_meta", id=CODEX, cwd="/srv/shop")
    child = codex_record("session_meta", id=CODEX_CHILD, cwd="/srv/shop", source=spawned)
    forked = day / f"rollout-2026-11-27T10-30-00-{CODEX_CHILD}.jsonl"
    write_lines(forked, child, own, asked, call, result, at=at - 5)
    rollout = day / f"rollout-2026-11-27T10-00-00-{CODEX}.jsonl"
    return write_lines(rollout, own, asked, call, result, at=at)


def gemini_cli(folder: Path, at: int = AT + 120) -> Path:
    """Write a session of Gemini CLI into its folder, and return its file."""
    header = {"sessionId": GEMINI, "projectHash": "d7" * 32, "kind": "main"}
    call = {"id": "c_1", "name": "read_file", "args": {"path": "a"}, "status": "success"}
    called = {"id": "m2", "type": "gemini", "content": "I look.", "toolCalls": [call]}
    asked = {"sessionId": "x", "messageId": 0, "message": "Look."}
    write(folder / "tmp" / "shop" / "logs.json", json.dumps([asked]))
    return write_lines(
        folder / "tmp" / "shop" / "chats" / f"session-2026-11-27T04-13-{GEMINI[:8]}.jsonl",
        header,
        {"id": "m1", "type": "user", "content": [{"text": "Look."}]},
        called,
        called,  # a message is written again as it grows
        at=at,
    )


def openhands(folder: Path, at: int = AT + 180) -> Path:
    """Write a conversation of OpenHands into its folder, and return the folder of its events."""
    events = folder / "conversations" / OPENHANDS / "events"
    common = {"timestamp": "2026-11-27T05:00:00", "source": "agent"}
    values: list[dict[str, Any]] = [
        {
            **common,
            "kind": "MessageEvent",
            "source": "user",
            "llm_message": {"role": "user", "content": [{"type": "text", "text": "Go."}]},
        },
        {
            **common,
            "kind": "ActionEvent",
            "tool_call_id": "call_9",
            "tool_name": "terminal",
            "tool_call": {"id": "call_9", "name": "terminal", "arguments": "{}"},
        },
        {
            **common,
            "kind": "ObservationEvent",
            "tool_call_id": "call_9",
            "tool_name": "terminal",
            "observation": {"content": "done", "exit_code": 0},
        },
    ]
    for number, value in enumerate(values):
        write(events / f"event-{number:05}-{number}.json", json.dumps(value))
    os.utime(events, (at, at))
    return events


def mini_swe_agent(folder: Path, at: int = AT + 240) -> Path:
    """Write a run of mini-swe-agent into its folder, and return its file."""
    function = {"name": "bash", "arguments": '{"command": "ls"}'}
    call = {"function": function, "id": "call_5", "type": "function"}
    messages = [
        {"role": "user", "content": "Do it."},
        {"role": "assistant", "content": "I look.", "tool_calls": [call], "extra": {}},
        {
            "role": "tool",
            "tool_call_id": "call_5",
            "content": '{"returncode": 0, "output": "a"}',
            "extra": {"returncode": 0},
        },
    ]
    run = {"info": {}, "messages": messages, "trajectory_format": "mini-swe-agent-1.1"}
    return write(folder / "last_mini_run.traj.json", json.dumps(run, indent=1), at)


def home_with_sessions(home: Path) -> Path:
    """Write sessions of five programs into a home folder, the newest last; return the folder."""
    claude_code(home / ".claude")
    codex(home / ".codex")
    gemini_cli(home / ".gemini")
    openhands(home / ".openhands")
    mini_swe_agent(home / ".config" / "mini-swe-agent")
    return home


NAMES = [
    "mini-swe-agent:last_mini_run",
    f"openhands:{OPENHANDS}",
    f"gemini-cli:{GEMINI}",
    f"codex:{CODEX}",
    f"claude-code:{CLAUDE}",
]
"""The names of the sessions in `home_with_sessions`, newest first."""

CALLS = [1, 1, 1, 1, 3]
"""The calls of each, with those of its sub-agents."""
