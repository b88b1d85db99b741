"""Message files: OpenAI Chat and Anthropic Messages, as lists, objects and lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from projections.sources.problems import Problems
from projections.sources.transcripts import Transcript

SNIFFED = 200
"""Messages that are looked at to tell whose they are."""

_NAMES = ("conversation_id", "session_id", "thread_id", "id")
_OPENAI_ROLES = ("tool", "function", "developer")
_OPENAI_PARTS = ("image_url", "input_audio", "file", "refusal")
_ANTHROPIC_BLOCKS = (
    "tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document",
    "server_tool_use",
)  # fmt: skip


def is_conversation(value: Any) -> bool:
    """Whether a value is an object with a list of messages."""
    return isinstance(value, dict) and isinstance(value.get("messages"), list)


def is_message(value: Any) -> bool:
    """Whether a value is a message."""
    return isinstance(value, dict) and isinstance(value.get("role"), str)


def speaker(messages: Iterable[Any]) -> str | None:
    """The provider whose form messages have; None where they could be anybody's."""
    return next((name for message in messages if (name := _sign(message))), None)


def _sign(message: Any) -> str | None:
    if not isinstance(message, dict):
        return None
    if message.get("role") in _OPENAI_ROLES or "tool_calls" in message or "refusal" in message:
        return "openai"
    content = message.get("content")
    for block in content if isinstance(content, list) else ():
        kind = block.get("type") if isinstance(block, dict) else None
        if kind in _ANTHROPIC_BLOCKS:
            return "anthropic"
        if kind in _OPENAI_PARTS:
            return "openai"
    return None


def of_object(value: dict[str, Any], conversation_id: str, provider: str | None) -> Transcript:
    """The transcript that an object with `messages` (and `system`) is."""
    messages = value["messages"]
    system = value.get("system")
    has_system = isinstance(system, str | list) and bool(system)
    named = value.get("provider")
    whose = provider or (named if named in ("openai", "anthropic") else None) or speaker(messages)
    if has_system:
        messages = [{"role": "system", "content": system}, *messages]
        whose = whose or "anthropic"
    return Transcript(conversation_id, whose or "openai", messages)


def of_list(values: list[Any], conversation_id: str, provider: str | None) -> Transcript:
    """The transcript that a list of messages is."""
    return Transcript(conversation_id, provider or speaker(values) or "openai", values)


def of_lines(
    values: Iterator[tuple[int, Any]],
    conversation_id: str,
    provider: str | None,
    problems: Problems,
) -> Transcript:
    """The transcript of a file with one message a line, read as it is taken in."""
    lines: list[int] = []

    def messages() -> Iterator[Any]:
        for line, value in values:
            if is_message(value):
                lines.append(line)
                yield value
            else:
                problems.add("not a message: it has no role", line)

    given = messages()
    head = list(islice(given, 0 if provider else SNIFFED))
    whose = provider or speaker(head) or "openai"
    # What was looked at ahead must not be counted as read.
    return Transcript(conversation_id, whose, chain(head, given), lines)


def name_of(value: dict[str, Any], stem: str, place: Sequence[object]) -> tuple[str, bool]:
    """The id of a conversation object, and whether it is its own (else it is the file's)."""
    for key in _NAMES:
        given = value.get(key)
        if isinstance(given, str) and given.strip():
            return given, True
    task = value.get("task_id")
    if isinstance(task, str | int) and str(task).strip():
        name = task if isinstance(task, str) else f"task-{task}"
        trial = value.get("trial")
        return f"{stem}/{name}" + (f"/trial-{trial}" if isinstance(trial, int) else ""), False
    return "/".join(map(str, (stem, *place))), False
