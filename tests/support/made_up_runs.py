"""Made-up runs of agents, written in the forms that people have them in.

`tests/data/runs` holds them, a step a line. `call` is a call with its arguments and its result,
`also` one of the same turn; `!` marks a failure where the form has a mark for it. A line with `#`
begins a run: its name, its form, and the number of the call that is its cause, if it failed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
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


Step: TypeAlias = User | Says | list[Made]

RUNS = Path(__file__).parents[1] / "data" / "runs"
_SAYS = re.compile(r"says(?:\[(\w+)\])?")


class Run(NamedTuple):
    """A run: its name, its form, what its cause is, and what happened.

    The cause is the number of a call, `answer` for the last answer, or empty.
    """

    name: str
    form: str
    cause: str
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return f"{self.name} ({self.form})"


def runs_in(name: str) -> list[Run]:
    """Return the runs of a file in `tests/data/runs`."""
    return [_run(block.splitlines()) for block in (RUNS / name).read_text("utf-8").split("\n\n")]


def _run(lines: list[str]) -> Run:
    name, form, cause = (*lines[0].removeprefix("# ").split(" | "), "")[:3]
    steps: list[Step] = []
    for line in lines[1:]:
        word, _, rest = line.partition(" ")
        said = _SAYS.fullmatch(word)
        if word == "user":
            steps.append(User(rest))
        elif said is not None:
            steps.append(Says(rest, said[1]))
        elif word.startswith("also"):
            turn = steps[-1]
            assert isinstance(turn, list)
            turn.append(_made(word, rest))
        else:
            steps.append([_made(word, rest)])
    return Run(name, form, cause, tuple(steps))


def _made(word: str, rest: str) -> Made:
    name, _, rest = rest.partition(" ")
    arguments, _, result = rest.partition(" => ")
    return Made(
        name, json.loads(arguments), json.loads(result) if result else None, word[-1] == "!"
    )


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


def versions_of_cause(events: list[Recorded], run: Run) -> set[int]:
    """Return the versions of the events of the call that is the cause, or of the last answer."""
    if run.cause == "answer":
        return {events[-1].version}
    asked = [recorded for recorded in events if recorded.event.tag == "pending"]
    call_id = asked[int(run.cause) - 1].call_id
    return {recorded.version for recorded in events if recorded.call_id == call_id}


def _openai(steps: tuple[Step, ...]) -> list[Any]:
    messages: list[Any] = []
    for number, step in enumerate(steps):
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
    for number, step in enumerate(steps):
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
    for number, step in enumerate(steps):
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
