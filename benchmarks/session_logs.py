"""Session logs to import: long ones, written line by line as the programs write them.

A step is a call and its result: 2 to 50 KB of source text, one in fifty 400 KB. After every ten
steps a person speaks.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

STEPS_PER_QUESTION = 10
LARGE_ONE_IN = 50
LARGE_CHARACTERS = 400_000

_LINES = (
    '    if (value := found.get("name")) is None:\n',
    "        raise KeyError(f\"{path!r}: no entry 'größe' in {len(found):,}\")\n",
    "    for number, entry in enumerate(entries, 1):\n",
    "\tconst shown = `${entry.label}: ${entry.count}`; // → 3 of 4\n",
    "    return [each.strip() for each in text.splitlines() if each and not each.isspace()]\n",
    "drwxr-xr-x  2 dev dev   4096 Nov  3 10:48 src/components/forms\n",
    "tests/unit/test_entries.py::test_an_entry_has_a_name PASSED                      [ 41%]\n",
    "\n",
)

Line = dict[str, Any]
Dump = Callable[[Line], str]


def write(path: Path, form: str, size: int) -> int:
    """Write a session log of at least `size` bytes; return its number of calls."""
    chance = random.Random(41)  # noqa: S311 - no secret
    steps, dumped = FORMS[form]
    written = calls = 0
    with path.open("w", encoding="utf-8") as file:
        for step, lines in enumerate(steps(chance)):
            for line in lines:
                written += file.write(dumped(line) + "\n")
            calls = step + 1
            if written >= size:
                break
    return calls


def _text(chance: random.Random) -> str:
    is_large = chance.randrange(LARGE_ONE_IN) == 0
    size = LARGE_CHARACTERS if is_large else int(2000 * 25 ** chance.random())
    block = "".join(chance.choice(_LINES) for _ in range(60))
    return (block * (size // len(block) + 1))[:size]


def _time(second: int) -> str:
    hours, rest = divmod(second, 3600)
    days, hours = divmod(hours, 24)
    day = f"2026-{1 + days // 28:02}-{1 + days % 28:02}"
    return f"{day}T{hours:02}:{rest // 60:02}:{rest % 60:02}.000Z"


def _claude_code(chance: random.Random) -> Iterator[list[Line]]:
    """Yield the records of each step; a result stands in its record twice."""
    last: str | None = None
    number = 0

    def record(kind: str, message: Line, **more: Any) -> Line:
        nonlocal last, number
        number += 1
        uuid = f"00000000-0000-4000-8000-{number:012x}"
        made = {
            "parentUuid": last,
            "isSidechain": False,
            "userType": "external",
            "cwd": "/home/dev/shop",
            "sessionId": "c0ffee00-0000-4000-8000-000000000041",
            "version": "2.1.332",
            "gitBranch": "main",
            "type": kind,
            "message": message,
            "uuid": uuid,
            "timestamp": _time(number),
            **more,
        }
        last = uuid
        return made

    def said(step: int, block: Line) -> Line:
        usage = {"input_tokens": 4, "cache_read_input_tokens": 20_000, "output_tokens": 100}
        return record(
            "assistant",
            {
                "id": f"msg_{step:024x}",
                "type": "message",
                "role": "assistant",
                "model": "model-a",
                "content": [block],
                "stop_reason": "tool_use",
                "usage": usage,
            },
            requestId=f"req_{step:024x}",
        )

    step = 0
    while True:
        lines = []
        if step % STEPS_PER_QUESTION == 0:
            asked = f"Please see to part {step}."
            lines.append(record("user", {"role": "user", "content": asked}))
        call_id, command = f"toolu_{step:024x}", f"cat src/part_{step}.py"
        text = _text(chance)
        lines.append(said(step, {"type": "text", "text": f"I look at part {step} first."}))
        made = {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": command}}
        lines.append(said(step, made))
        result = {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": False}
        lines.append(
            record(
                "user",
                {"role": "user", "content": [result]},
                toolUseResult={"stdout": text, "stderr": "", "interrupted": False},
            )
        )
        yield lines
        step += 1


def _codex(chance: random.Random) -> Iterator[list[Line]]:
    """Yield the records of each step."""
    number = 0

    def record(kind: str, payload: Line) -> Line:
        nonlocal number
        number += 1
        return {"timestamp": _time(number), "ordinal": number - 1, "type": kind, "payload": payload}

    step = 0
    while True:
        lines = []
        if step == 0:
            meta = {"id": "019fc8be-0000-7000-8000-000000000041", "cwd": "/home/dev/shop"}
            lines.append(record("session_meta", meta | {"cli_version": "0.171.0"}))
        if step % STEPS_PER_QUESTION == 0:
            asked = f"Please see to part {step}."
            lines.append(record("event_msg", {"type": "user_message", "message": asked}))
            content = [{"type": "input_text", "text": asked}]
            message = {"type": "message", "role": "user", "content": content}
            lines.append(record("response_item", message))
        said = [{"type": "output_text", "text": f"I look at part {step} first."}]
        answer = {"type": "message", "id": f"msg_{step}", "role": "assistant", "content": said}
        lines.append(record("response_item", answer))
        call_id = f"call_{step:024x}"
        command = json.dumps({"command": ["bash", "-lc", f"cat src/part_{step}.py"]})
        call = {"type": "function_call", "name": "shell", "arguments": command, "call_id": call_id}
        lines.append(record("response_item", call))
        output = f"Chunk ID: {step}\nProcess exited with code 0\nOutput:\n{_text(chance)}"
        result = {"type": "function_call_output", "call_id": call_id, "output": output}
        lines.append(record("response_item", result))
        tokens = {"total_tokens": 20_000 + step, "cached_input_tokens": 20_000}
        lines.append(record("event_msg", {"type": "token_count", "info": tokens}))
        yield lines
        step += 1


def _openai(chance: random.Random) -> Iterator[list[Line]]:
    """Yield the messages of each step."""
    step = 0
    while True:
        lines: list[Line] = []
        if step % STEPS_PER_QUESTION == 0:
            lines.append({"role": "user", "content": f"Please see to part {step}."})
        call_id = f"call_{step:024x}"
        arguments = json.dumps({"path": f"src/part_{step}.py"})
        call = {
            "id": call_id,
            "type": "function",
            "function": {"name": "read_file", "arguments": arguments},
        }
        lines.append({"role": "assistant", "content": f"Part {step} first.", "tool_calls": [call]})
        lines.append({"role": "tool", "tool_call_id": call_id, "content": _text(chance)})
        yield lines
        step += 1


def _compact(line: Line) -> str:
    return json.dumps(line, ensure_ascii=False, separators=(",", ":"))


FORMS: Final[dict[str, tuple[Callable[[random.Random], Iterator[list[Line]]], Dump]]] = {
    "claude-code": (_claude_code, _compact),  # as JavaScript writes JSON
    "codex": (_codex, _compact),  # as Rust does
    "openai": (_openai, json.dumps),  # as Python does
}
"""The steps of each log that can be written, by the importer's name, and how it writes JSON."""
