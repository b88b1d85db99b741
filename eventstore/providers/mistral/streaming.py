"""The streams of Mistral: events of the SDK that hold a chunk, or the chunks themselves.

A reasoning model sends its content as parts, thoughts first, and continues with plain text.
"""

from __future__ import annotations

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.providers.chat_streaming import StreamedCompletion
from eventstore.providers.sdk_objects import plain_event


class Response(StreamedCompletion):
    """A completion, from the chunks of its stream."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[JsonValue] = []
        self._is_plain = True

    def add(self, event: object) -> None:
        """Take in an event or a chunk."""
        given = plain_event(event)
        chunk: JsonValue = given.get("data")
        self.add_chunk(chunk if isinstance(chunk, dict) else given)

    def add_delta(self, delta: JsonObject) -> None:
        """Take in what a chunk adds to the message; its content is text, or parts."""
        content: JsonValue = delta.get("content")
        super().add_delta({key: value for key, value in delta.items() if key != "content"})
        if isinstance(content, str):
            _append(self._parts, {"type": "text", "text": content})
        elif isinstance(content, list):
            self._is_plain = False
            for part in content:
                _append(self._parts, part)

    def message(self) -> JsonObject:
        """Return the message: its content is text if all of it came as text."""
        if not self._is_plain:
            return {**super().message(), "content": self._parts}
        text = "".join(part["text"] for part in self._parts if isinstance(part, dict))
        return {**super().message(), "content": text}


def _append(parts: list[JsonValue], part: JsonValue) -> None:
    """Add a part, or the text that continues the last part."""
    last: JsonValue = parts[-1] if parts else None
    if isinstance(part, dict) and isinstance(last, dict) and part.get("type") == last.get("type"):
        if part.get("type") == "text":
            last["text"] = f"{last.get('text') or ''}{part.get('text') or ''}"
            return
        more: JsonValue = part.get("thinking")
        thoughts: JsonValue = last.get("thinking")
        if isinstance(more, list) and isinstance(thoughts, list):
            for thought in more:
                _append(thoughts, thought)
            return
    if not isinstance(part, dict) or part.get("type") != "text" or part.get("text"):
        parts.append(part)
