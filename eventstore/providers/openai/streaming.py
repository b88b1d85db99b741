"""The streams of Chat Completions: chunks, or the events of the SDK's `stream()`."""

from __future__ import annotations

from eventstore.providers.chat_streaming import StreamedCompletion
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
