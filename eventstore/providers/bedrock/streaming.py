"""The streams of Bedrock: the events of `converse_stream(...)["stream"]`.

A block begins with its kind, or its first delta says it. The service's own tools send the content
of a result piece by piece; a delta of a kind that is not known makes a block of this kind.
"""

from __future__ import annotations

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_object
from eventstore.providers.bedrock.reading import as_bytes, is_client_block
from eventstore.providers.bedrock.shapes import UNREAD
from eventstore.providers.json_values import members_of
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
            if kind == "citation":
                held = block.setdefault("citationsContent", {})
                held["citations"] = [*held.get("citations", ()), more]
            elif kind == "toolResult":
                result = block.setdefault(kind, {})
                result["content"] = _more_content(result.get("content") or [], more)
            elif kind == "image":
                _show_more(block.setdefault(kind, {}), more)
            elif kind != UNREAD or kind not in block:
                block[kind] = _continued(block.get(kind), more)

    def _block(self, index: int) -> JsonObject | None:
        """Return a block as far as it came; None if nothing of it can be kept."""
        block = self._blocks[index]
        is_whole = index in self._done or self.is_finished
        call: JsonValue = block.get("toolUse")
        if isinstance(call, dict):
            written = call.get("input", "")
            if not is_whole and not is_client_block(block, "toolUse"):
                return None
            given = arguments_of(written or "{}") if is_whole else written
            return {**block, "toolUse": {**call, "input": given}}
        result: JsonValue = block.get("toolResult")
        if isinstance(result, dict) and (is_whole or result.get("content")):
            return {**block, "toolResult": {"content": [], **result}}
        cited: JsonValue = block.get("citationsContent")
        if isinstance(cited, dict):
            text = {"text": block.get("text", "")}
            return {"citationsContent": {**cited, "content": [text]}}
        thought: JsonValue = block.get("reasoningContent")
        if isinstance(thought, dict):
            return _reasoning(thought) if is_whole else None
        return block if is_whole or block.get("text") else None


def _continued(held: JsonValue, more: JsonValue) -> JsonValue:
    """Return what a delta adds up to: texts and lists go on, a value replaces the one before."""
    if isinstance(more, str):
        return f"{held or ''}{more}"
    if isinstance(more, list):
        return [*held, *more] if isinstance(held, list) else more
    if not is_json_object(more):
        return more
    known: JsonObject = held if isinstance(held, dict) else {}
    added = {
        key: value if key == "redactedContent" else _continued(known.get(key), value)
        for key, value in more.items()
    }
    return {**known, **added}


def _more_content(content: list[JsonValue], more: JsonValue) -> list[JsonValue]:
    """Return the content of a result with what a delta adds: its first text goes on."""
    first, *others = more if isinstance(more, list) and more else [more]
    last: JsonValue = content[-1] if content else None
    if members_of(first).keys() == {"text"} == members_of(last).keys():
        return [*content[:-1], _continued(last, first), *others]
    return [*content, first, *others]


def _show_more(image: JsonObject, more: JsonValue) -> None:
    """Add the bytes that a delta brings of an image."""
    for key, value in members_of(more).items():
        held: JsonValue = members_of(image.get(key)).get("bytes")
        brought: JsonValue = members_of(value).get("bytes")
        if key == "source" and held is not None and brought is not None:
            image[key] = {**value, "bytes": as_bytes(held) + as_bytes(brought)}
        else:
            image[key] = value


def _reasoning(thought: JsonObject) -> JsonObject:
    """Return reasoning as messages hold it; its deltas are flatter."""
    if "redactedContent" in thought:
        return {"reasoningContent": {"redactedContent": thought["redactedContent"]}}
    return {"reasoningContent": {"reasoningText": thought}}
