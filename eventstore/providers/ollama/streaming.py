"""The streams of Ollama: each chunk brings words, thoughts or whole calls; the last says `done`."""

from __future__ import annotations

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.providers.sdk_objects import plain_event

_TEXTS = ("content", "thinking")
_LISTS = ("tool_calls", "images")


class Response:
    """A response, from the chunks of its stream."""

    def __init__(self) -> None:
        self._envelope: JsonObject = {}
        self._message: JsonObject = {"role": "assistant", "content": ""}

    @property
    def is_finished(self) -> bool:
        """Whether the last chunk came."""
        return self._envelope.get("done") is True

    @property
    def envelope(self) -> JsonObject:
        """A response that says nothing; it is no chunk that others follow."""
        members = {**self._envelope, "message": self._message}
        if not self.is_finished:
            members.pop("done", None)
        return members

    def add(self, event: object) -> None:
        """Take in a chunk."""
        chunk = plain_event(event)
        message: JsonValue = chunk.pop("message", None)
        self._envelope |= chunk
        if not isinstance(message, dict):
            return
        for key in _TEXTS:
            if message.get(key):
                self._message[key] = f"{self._message.get(key) or ''}{message[key]}"
        for key in _LISTS:
            if isinstance(message.get(key), list):
                self._message[key] = [*self._message.get(key, ()), *message[key]]

    def response(self) -> JsonObject | None:
        """Return the response as far as it came."""
        if not any(self._message.get(key) for key in (*_TEXTS, *_LISTS)):
            return None
        return self.envelope
