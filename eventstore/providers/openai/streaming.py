"""The streams of Chat Completions: chunks, or the events of the SDK's `stream()`."""

from __future__ import annotations

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.providers.chat_streaming import StreamedCompletion
from eventstore.providers.litellm_members import joined_thinking
from eventstore.providers.sdk_objects import plain_event


class Response(StreamedCompletion):
    """A completion, from the chunks of its stream."""

    def add(self, event: object) -> None:
        """Take in a chunk, or an event of the SDK's `stream()` that brings one."""
        kind = getattr(event, "type", None)
        if isinstance(kind, str):
            if kind != "chunk":
                return
            event = getattr(event, "chunk", None)
        self.add_chunk(plain_event(event))

    def message(self) -> JsonObject:
        """Return the message, in which the pieces of litellm's thinking are blocks."""
        message = super().message()
        pieces: JsonValue = message.get("thinking_blocks")
        if not isinstance(pieces, list):
            return message
        return {**message, "thinking_blocks": joined_thinking(pieces)}
