"""The streams of Anthropic: raw events, or those of the SDK's `messages.stream()`."""

from __future__ import annotations

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.providers.sdk_objects import member, plain_event
from eventstore.providers.streamed_counts import add_counts
from eventstore.providers.streaming import arguments_of

_KNOWN = frozenset(
    {
        "message_start",
        "message_delta",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
    }
)
_JOINED = ("text", "thinking", "content")
"""Members of a delta whose text continues in the block's member of the same name."""


class Response:
    """A message, from the events of its stream."""

    def __init__(self) -> None:
        self._message: JsonObject = {}
        self._blocks: dict[int, JsonObject] = {}
        self._inputs: dict[int, str] = {}
        self._done: set[int] = set()

    @property
    def is_finished(self) -> bool:
        """Whether an event has given the reason for the end."""
        return self._message.get("stop_reason") is not None

    @property
    def envelope(self) -> JsonObject:
        """A response that says nothing."""
        return {"role": "assistant", "stop_reason": None, **self._message, "content": []}

    def add(self, event: object) -> None:
        """Take in an event; those that the SDK derives from others are passed over."""
        kind = member(event, "type")
        if not isinstance(kind, str) or kind not in _KNOWN:
            return
        given = plain_event(event)
        index = given.get("index")
        if kind == "message_start":
            self._message = dict(given.get("message") or {})
        elif kind == "message_delta":
            self._end(given)
        elif not isinstance(index, int):
            return
        elif kind == "content_block_start":
            self._blocks[index] = dict(given.get("content_block") or {})
        elif kind == "content_block_stop":
            self._done.add(index)
        elif index in self._blocks:
            self._add_delta(index, given.get("delta"))

    def response(self) -> JsonObject | None:
        """Return the message as far as it came."""
        content = [
            block for index in sorted(self._blocks) if (block := self._block(index)) is not None
        ]
        if not content and not self.is_finished:
            return None
        return {**self.envelope, "content": content}

    def _end(self, event: JsonObject) -> None:
        """Take in why the message ended, and what it used; what is null takes nothing back."""
        delta: JsonValue = event.get("delta")
        usage: JsonValue = event.get("usage")
        for key, value in delta.items() if isinstance(delta, dict) else ():
            if value is not None or key not in self._message:
                self._message[key] = value
        if isinstance(usage, dict):
            known: JsonValue = self._message.get("usage")
            self._message["usage"] = {**known} if isinstance(known, dict) else {}
            add_counts(self._message["usage"], usage)

    def _add_delta(self, index: int, delta: JsonValue) -> None:
        if not isinstance(delta, dict):
            return
        block = self._blocks[index]
        if isinstance(delta.get("partial_json"), str):
            self._inputs[index] = self._inputs.get(index, "") + delta["partial_json"]
        if "citation" in delta:
            block["citations"] = [*(block.get("citations") or []), delta["citation"]]
        if "signature" in delta:
            block["signature"] = delta["signature"]
        for key in _JOINED:
            if isinstance(delta.get(key), str):
                block[key] = (block.get(key) or "") + delta[key]

    def _block(self, index: int) -> JsonObject | None:
        """Return a block as far as it came; None if nothing of it can be kept."""
        block, written = self._blocks[index], self._inputs.get(index)
        if index in self._done or self.is_finished:
            return block if not written else {**block, "input": arguments_of(written)}
        if block.get("type") == "tool_use":
            return {**block, "input": written or ""}
        return block if block.get("type") == "text" and block.get("text") else None
