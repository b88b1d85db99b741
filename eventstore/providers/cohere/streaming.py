"""The streams of Cohere: typed events, each with what continues its part of the message."""

from __future__ import annotations

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_object
from eventstore.providers.sdk_objects import plain_event

_CONTENT = ("content-start", "content-delta")
_CALLS = ("tool-call-start", "tool-call-delta")
_ENDS = ("finish_reason", "usage")
_FIXED = ("id", "type", "name")
"""Members whose value is sent once; other texts come in pieces."""


class Response:
    """A response, from the events of its stream."""

    def __init__(self) -> None:
        self._envelope: JsonObject = {}
        self._plan = ""
        self._content: dict[int, JsonObject] = {}
        self._calls: dict[int, JsonObject] = {}
        self._citations: list[JsonValue] = []

    @property
    def is_finished(self) -> bool:
        """Whether an event has given the reason for the end."""
        return self._envelope.get("finish_reason") is not None

    @property
    def envelope(self) -> JsonObject:
        """A response that says nothing."""
        return {**self._envelope, "message": {"role": "assistant"}}

    def add(self, event: object) -> None:
        """Take in an event."""
        given = plain_event(event)
        kind, index = given.get("type"), given.get("index")
        delta: JsonValue = given.get("delta")
        delta = delta if isinstance(delta, dict) else {}
        message: JsonValue = delta.get("message")
        message = message if isinstance(message, dict) else {}
        if kind == "message-start":
            self._envelope["id"] = given.get("id")
        elif kind == "message-end":
            self._envelope |= {
                key: delta[key] for key in ("finish_reason", "usage", "error") if key in delta
            }
        elif kind == "tool-plan-delta":
            self._plan += message.get("tool_plan") or ""
        elif not isinstance(index, int):
            return
        elif kind in _CONTENT:
            _go_on(self._content.setdefault(index, {}), message.get("content"))
        elif kind in _CALLS:
            _go_on(self._calls.setdefault(index, {}), message.get("tool_calls"))
        elif kind == "citation-start":
            self._citations.append(message.get("citations"))

    def response(self) -> JsonObject | None:
        """Return the response as far as it came."""
        content = [part for _, part in sorted(self._content.items()) if _says_something(part)]
        calls = [call for _, call in sorted(self._calls.items())]
        found = {
            "tool_plan": self._plan,
            "content": content,
            "tool_calls": calls,
            "citations": self._citations,
        }
        message = {key: value for key, value in found.items() if value}
        if not message:
            return None
        return {**self._envelope, "message": {"role": "assistant", **message}}


def _go_on(held: JsonObject, more: JsonValue) -> None:
    """Add what a delta brings: texts continue, objects are merged."""
    unmerged = [(held, more)]
    while unmerged:
        held, more = unmerged.pop()
        for key, value in more.items() if isinstance(more, dict) else ():
            known: JsonValue = held.get(key)
            if is_json_object(value):
                inner: JsonObject = held.setdefault(key, {})
                unmerged.append((inner, value))
            elif isinstance(value, str) and isinstance(known, str) and key not in _FIXED:
                held[key] = known + value
            elif value is not None:
                held[key] = value


def _says_something(part: JsonObject) -> bool:
    return bool(part.get("text") or part.get("thinking"))
