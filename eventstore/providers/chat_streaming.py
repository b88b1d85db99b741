"""Streams in the form of Chat Completions: each chunk brings what continues its choices."""

from __future__ import annotations

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_object
from eventstore.providers.responses import refuse_further
from eventstore.providers.streamed_counts import add_counts

_FIXED = ("id", "type", "role", "index", "name")
"""Members whose value is sent once, or the same every time; other texts come in pieces."""


class StreamedCompletion:
    """The first choice of a completion, from its chunks."""

    def __init__(self) -> None:
        self._envelope: JsonObject = {}
        self._message: JsonObject = {}
        self._calls: list[JsonObject] = []
        self._finish_reason: JsonValue = None
        self._has_choice = False

    @property
    def is_finished(self) -> bool:
        """Whether a chunk has given the reason for the end, or they came without an answer."""
        if self._finish_reason is not None:
            return True
        if self._says_something(self.message()):
            return False
        return "usage" in self._envelope or (bool(self._envelope) and not self._has_choice)

    @property
    def envelope(self) -> JsonObject:
        """A response that says nothing."""
        message = {"role": "assistant", "content": None}
        choice = {"index": 0, "message": message, "finish_reason": self._finish_reason}
        choices = [] if self._finish_reason is None else [choice]
        return {**self._envelope, "object": "chat.completion", "choices": choices}

    def add_chunk(self, chunk: JsonObject) -> None:
        """Take in a chunk."""
        for key, value in chunk.items():
            known: JsonValue = self._envelope.get(key)
            if key == "usage" and is_json_object(known) and is_json_object(value):
                add_counts(known, value)
            elif key != "choices" and value is not None:
                self._envelope[key] = value
        choices: JsonValue = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict):
                refuse_further("choices", choice.get("index"))
                self._has_choice = True
                self._add_choice(choice)

    def response(self) -> JsonObject | None:
        """Return the completion as far as it came."""
        message: JsonObject = {"role": "assistant", "content": None, **self.message()}
        if self._calls:
            message["tool_calls"] = [_whole(call) for call in self._calls]
        if not self._says_something(message):
            return None
        choice = {"index": 0, "message": message, "finish_reason": self._finish_reason}
        return {**self._envelope, "object": "chat.completion", "choices": [choice]}

    def _says_something(self, message: JsonObject) -> bool:
        return bool(self._calls) or any(message[key] for key in message.keys() - {"role"})

    def message(self) -> JsonObject:
        """Return what came of the message, except for its calls."""
        return self._message

    def add_delta(self, delta: JsonObject) -> None:
        """Take in what a chunk adds to the message, except for its calls."""
        _merge(self._message, delta)

    def _add_choice(self, choice: JsonObject) -> None:
        delta: JsonValue = choice.get("delta")
        if isinstance(delta, dict):
            given: JsonValue = delta.get("tool_calls")
            for piece in given if isinstance(given, list) else ():
                if isinstance(piece, dict):
                    self._add_call(piece)
            self.add_delta({k: v for k, v in delta.items() if k != "tool_calls"})
        if choice.get("finish_reason") is not None:
            self._finish_reason = choice["finish_reason"]

    def _add_call(self, piece: JsonObject) -> None:
        """Add a piece of a call: it names the call by its place, or by a new id."""
        index = self._place_of(piece)
        while len(self._calls) <= index:
            self._calls.append({"id": ""})
        call = self._calls[index]
        _merge(call, {key: value for key, value in piece.items() if key != "index"})

    def _place_of(self, piece: JsonObject) -> int:
        """Return the place of a piece's call.

        Some servers send each call whole and without a place; Mistral's SDK then gives each the
        first. A call with another id than the one there is a new call.
        """
        index, name = piece.get("index"), piece.get("id")
        ids = [call.get("id") for call in self._calls]
        if isinstance(index, int):
            is_free = index >= len(ids) or ids[index] in ("", name)
            if is_free or not (name and _names_a_tool(piece)):
                return index
        if not name:
            return max(len(ids) - 1, 0)
        return ids.index(name) if name in ids else len(ids)


def _names_a_tool(piece: JsonObject) -> bool:
    called = (piece.get(kind) for kind in _WRITTEN)
    return any(is_json_object(each) and bool(each.get("name")) for each in called)


_WRITTEN = {"custom": "input", "function": "arguments"}
"""Kind of a call to the member that holds what the model wrote."""


def _whole(call: JsonObject) -> JsonObject:
    """Return a call as far as it came: of a function, unless it names a custom tool."""
    kind = "custom" if isinstance(call.get("custom"), dict) else "function"
    if isinstance(call.get("function"), dict):
        kind = "function"
    held: JsonObject = call.get(kind) or {}
    return {"id": call["id"], "type": kind, **call, kind: {_WRITTEN[kind]: "", **held}}


def _merge(into: JsonObject, delta: JsonObject) -> None:
    """Add what a delta brings: texts continue, objects are merged, lists are extended."""
    unmerged = [(into, delta)]
    while unmerged:
        into, delta = unmerged.pop()
        for key, value in delta.items():
            known: JsonValue = into.get(key)
            if value is None or (key in _FIXED and known):
                if key == "type" and value:
                    into[key] = value
            elif isinstance(value, str) and isinstance(known, str):
                into[key] = known + value
            elif is_json_object(value) and is_json_object(known):
                unmerged.append((known, value))
            elif isinstance(value, list) and isinstance(known, list):
                into[key] = [*known, *value]
            else:
                into[key] = value
