"""One conversation of a file, as a provider's messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

_REFUSALS = (
    "The user doesn't want to proceed with this tool use.",
    "The user doesn't want to take this action right now.",
    "Permission prompt was aborted.",
    "Permission denied by user",
)


class Transcript(msgspec.Struct):
    """A conversation: a provider's messages under a stable id.

    `messages` may be an iterator that reads the file as it goes. `lines` are the lines of the
    messages read so far, where each has its own. A sub-agent's names the conversation and the
    call that it serves.
    """

    id: str
    provider: str
    messages: Iterable[Any]
    lines: list[int] | None = None
    parent_id: str | None = None
    parent_call_id: str | None = None

    def place(self, message: int) -> str:
        """Where the file has a message (from 0)."""
        if self.lines is not None and message < len(self.lines):
            return f"line {self.lines[message]}"
        return f"{self.id}: message {message + 1}"


def is_refusal(result: Any) -> bool:
    """Whether a result, as Anthropic's messages have it, says that a person refused the call."""
    if not isinstance(result, dict) or result.get("is_error") is not True:
        return False
    content = result.get("content")
    if isinstance(content, list) and content and isinstance(content[0], dict):
        content = content[0].get("text")
    return isinstance(content, str) and content.startswith(_REFUSALS)
