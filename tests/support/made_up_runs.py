"""Made-up runs of agents, written in the forms that people have them in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from support.importing import clock

from eventstore import EventStore, Recorded
from eventstore.importers import import_file


class Made(NamedTuple):
    """A call that was made, and what came back; None if nothing did."""

    name: str
    arguments: dict[str, Any]
    result: str | None
    failed: bool = False


class User(NamedTuple):
    """What the user said."""

    text: str


class Says(NamedTuple):
    """What the assistant said; `reason` is why its response ended, where that is kept."""

    text: str
    reason: str | None = None


Step: TypeAlias = User | Says | Made | list[Made]


class Run(NamedTuple):
    """A run: its name, its form, the number of the call that is its cause, and what happened."""

    name: str
    form: str
    cause: int
    steps: tuple[Step, ...]


def sh(command: str, result: str | None, *, failed: bool = False, tool: str = "bash") -> Made:
    """Return a command that a shell ran."""
    return Made(tool, {"command": command}, result, failed)


def events_of(run: Run, folder: Path) -> list[Recorded]:
    """Return the log of a run, imported from its form."""
    with EventStore.open("sqlite://") as store:
        written = _FORMS[run.form](run.steps)
        lines = run.form in ("claude-code", "codex")
        path = folder / f"run.{'jsonl' if lines else 'json'}"
        path.write_text("\n".join(map(json.dumps, written)) if lines else json.dumps(written))
        provider = None if lines else run.form
        done = import_file(store, path, provider=provider)
        assert done.refused == []
        return list(store.conversation(done.ids[0]).events())


def versions_of_call(events: list[Recorded], number: int) -> set[int]:
    """Return the versions of the events of one of the calls, by its number from 0."""
    asked = [recorded for recorded in events if recorded.event.tag == "pending"][number]
    return {recorded.version for recorded in events if recorded.call_id == asked.call_id}


def _turns(steps: tuple[Step, ...]) -> Iterator[tuple[int, User | Says | list[Made]]]:
    for number, step in enumerate(steps):
        yield number, [step] if isinstance(step, Made) else step


def _openai(steps: tuple[Step, ...]) -> list[Any]:
    messages: list[Any] = []
    for number, step in _turns(steps):
        if isinstance(step, User):
            messages.append({"role": "user", "content": step.text})
        elif isinstance(step, Says):
            reason = {"finish_reason": step.reason} if step.reason else {}
            messages.append({"role": "assistant", "content": step.text, **reason})
        else:
            calls = [
                {
                    "id": f"call_{number}_{n}",
                    "type": "function",
                    "function": {"name": made.name, "arguments": json.dumps(made.arguments)},
                }
                for n, made in enumerate(step)
            ]
            messages.append({"role": "assistant", "content": None, "tool_calls": calls})
            messages += [
                {"role": "tool", "tool_call_id": f"call_{number}_{n}", "content": made.result}
                for n, made in enumerate(step)
                if made.result is not None
            ]
    return messages


def _anthropic(steps: tuple[Step, ...]) -> list[Any]:
    messages: list[Any] = []
    for number, step in _turns(steps):
        if isinstance(step, User):
            messages.append({"role": "user", "content": step.text})
        elif isinstance(step, Says):
            reason = {"stop_reason": step.reason} if step.reason else {}
            content = [{"type": "text", "text": step.text}]
            messages.append({"role": "assistant", "content": content, **reason})
        else:
            uses = [
                {
                    "type": "tool_use",
                    "id": f"toolu_{number}_{n}",
                    "name": made.name,
                    "input": made.arguments,
                }
                for n, made in enumerate(step)
            ]
            results = [
                {
                    "type": "tool_result",
                    "tool_use_id": f"toolu_{number}_{n}",
                    "content": made.result,
                    **({"is_error": True} if made.failed else {}),
                }
                for n, made in enumerate(step)
                if made.result is not None
            ]
            messages.append({"role": "assistant", "content": uses})
            if results:
                messages.append({"role": "user", "content": results})
    return messages


def _claude_code(steps: tuple[Step, ...]) -> list[Any]:
    lines: list[Any] = []
    for number, message in enumerate(_anthropic(steps)):
        record = {
            "type": message["role"],
            "uuid": f"u{number}",
            "parentUuid": f"u{number - 1}" if number else None,
            "sessionId": "run",
            "timestamp": clock(number),
            "message": message,
        }
        if message["role"] == "assistant":
            record["message"] = {"id": f"msg_{number}", "type": "message", **message}
        lines.append(record)
    return lines


def _codex(steps: tuple[Step, ...]) -> list[Any]:
    def record(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
        return {"timestamp": clock(len(lines)), "type": kind, "payload": payload}

    lines: list[Any] = []
    lines.append(record("session_meta", {"id": "run", "cwd": "/repo"}))
    for number, step in _turns(steps):
        if isinstance(step, User | Says):
            role, kind = (
                ("user", "input_text") if isinstance(step, User) else ("assistant", "output_text")
            )
            content = [{"type": kind, "text": step.text}]
            item = {"type": "message", "role": role, "content": content}
            lines.append(record("response_item", item))
            continue
        for n, made in enumerate(step):
            item = {
                "type": "function_call",
                "name": made.name,
                "arguments": json.dumps(made.arguments),
                "call_id": f"call_{number}_{n}",
            }
            lines.append(record("response_item", item))
        for n, made in enumerate(step):
            if made.result is None:
                continue
            code = 1 if made.failed else 0
            output = f"Exit code: {code}\nWall time: 0.2 seconds\nOutput:\n{made.result}"
            item = {
                "type": "function_call_output",
                "call_id": f"call_{number}_{n}",
                "output": output,
            }
            lines.append(record("response_item", item))
    return lines


_FORMS: dict[str, Callable[[tuple[Step, ...]], list[Any]]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "claude-code": _claude_code,
    "codex": _codex,
}
