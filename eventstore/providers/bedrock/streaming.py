"""The streams of Bedrock: the events of `converse_stream(...)["stream"]`."""

from __future__ import annotations

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_object
from eventstore.providers.sdk_objects import plain_event
from eventstore.providers.streaming import arguments_of


class Response:
    """A response, from the events of its stream."""

    def __init__(self) -> None:
        self._role: JsonValue = "assistant"
        self._blocks: dict[int, JsonObject] = {}
        self._done: set[int] = set()
        self._end: JsonObject = {}

    @property
    def is_finished(self) -> bool:
        """Whether an event has given the reason for the end."""
        return "stopReason" in self._end

    @property
    def envelope(self) -> JsonObject:
        """A response that says nothing."""
        return {"output": {"message": {"role": self._role, "content": []}}, **self._end}

    def add(self, event: object) -> None:
        """Take in an event: an object with one member, which says what it is."""
        for kind, given in plain_event(event).items():
            if not is_json_object(given):
                continue
            index = given.get("contentBlockIndex")
            if kind == "messageStart":
                self._role = given.get("role", self._role)
            elif kind == "messageStop":
                self._end |= given
            elif kind == "metadata":
                self._end |= {key: given[key] for key in ("usage", "metrics") if key in given}
            elif not isinstance(index, int):
                continue
            elif kind == "contentBlockStart":
                self._begin(index, given.get("start"))
            elif kind == "contentBlockDelta":
                self._add_delta(index, given.get("delta"))
            elif kind == "contentBlockStop":
                self._done.add(index)

    def response(self) -> JsonObject | None:
        """Return the response as far as it came."""
        content = [
            block for index in sorted(self._blocks) if (block := self._block(index)) is not None
        ]
        if not content and not self.is_finished:
            return None
        return {"output": {"message": {"role": self._role, "content": content}}, **self._end}

    def _begin(self, index: int, start: JsonValue) -> None:
        """Begin a block: a call names itself there, text and reasoning only by their deltas."""
        if isinstance(start, dict):
            self._blocks[index] = start

    def _add_delta(self, index: int, delta: JsonValue) -> None:
        block = self._blocks.setdefault(index, {})
        for kind, more in delta.items() if isinstance(delta, dict) else ():
            if kind == "text":
                block["text"] = f"{block.get('text') or ''}{more}"
            elif kind == "citation":
                held = block.setdefault("citationsContent", {})
                held["citations"] = [*held.get("citations", ()), more]
            elif is_json_object(more):
                _go_on(block.setdefault(kind, {}), more)
            else:
                block[kind] = more

    def _block(self, index: int) -> JsonObject | None:
        """Return a block as far as it came; None if nothing of it can be kept."""
        block = self._blocks[index]
        is_whole = index in self._done or self.is_finished
        call: JsonValue = block.get("toolUse")
        if isinstance(call, dict):
            written = call.get("input", "")
            given = arguments_of(written or "{}") if is_whole else written
            return {**block, "toolUse": {**call, "input": given}}
        cited: JsonValue = block.get("citationsContent")
        if isinstance(cited, dict):
            text = {"text": block.get("text", "")}
            return {"citationsContent": {**cited, "content": [text]}}
        thought: JsonValue = block.get("reasoningContent")
        if isinstance(thought, dict):
            return _reasoning(thought) if is_whole else None
        return block if is_whole or block.get("text") else None


def _go_on(held: JsonObject, more: JsonObject) -> None:
    """Add what a delta brings: texts continue, a signature comes in one piece."""
    for key, value in more.items():
        goes_on = isinstance(value, str) and key != "redactedContent"
        held[key] = f"{held.get(key) or ''}{value}" if goes_on else value


def _reasoning(thought: JsonObject) -> JsonObject:
    """Return reasoning as messages hold it; its deltas are flatter."""
    if "redactedContent" in thought:
        return {"reasoningContent": {"redactedContent": thought["redactedContent"]}}
    return {"reasoningContent": {"reasoningText": thought}}
