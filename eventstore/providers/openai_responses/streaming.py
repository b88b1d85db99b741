"""The streams of OpenAI Responses: the last event brings the whole response.

Until then the finished items are kept, and the texts of the one that is under way.
"""

from __future__ import annotations

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.providers.openai_responses.client_items import asked, is_client_call
from eventstore.providers.sdk_objects import member, plain_event

_ENDS = ("response.completed", "response.incomplete")
_BEGINS = ("response.created", "response.in_progress", "response.queued", "response.failed")
_FAILED = ("failed", "cancelled")
_TEXTS = {"response.output_text.delta": "text", "response.refusal.delta": "refusal"}
_ARGUMENTS = {
    "response.function_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "input",
}
_COMMANDS = (
    "response.shell_call_command.added",
    "response.shell_call_command.delta",
    "response.shell_call_command.done",
)
_ITEMS = ("response.output_item.added", "response.output_item.done")
_PART = "response.content_part.added"
_KNOWN = frozenset((*_ENDS, *_BEGINS, *_TEXTS, *_ARGUMENTS, *_COMMANDS, *_ITEMS, _PART))


class Response:
    """A response, from the events of its stream."""

    def __init__(self) -> None:
        self._whole: JsonObject | None = None
        self._envelope: JsonObject = {}
        self._items: dict[int, JsonObject] = {}
        self._done: set[int] = set()

    @property
    def is_finished(self) -> bool:
        """Whether the event with the whole response came; one that failed is not whole."""
        return self._whole is not None

    @property
    def envelope(self) -> JsonObject:
        """A response that says nothing."""
        return {**self._envelope, "output": []}

    def add(self, event: object) -> None:
        """Take in an event of the stream."""
        kind = member(event, "type")
        if not isinstance(kind, str) or kind not in _KNOWN:
            return
        given = plain_event(event)
        response: JsonValue = given.get("response")
        index = given.get("output_index")
        if kind in _ENDS and isinstance(response, dict):
            self._whole = response
        elif kind in _BEGINS and isinstance(response, dict):
            self._envelope = response
        elif isinstance(index, int):
            self._add_to_item(index, kind, given)

    def response(self) -> JsonObject | None:
        """Return the response as far as it came."""
        if self._whole is not None:
            return self._whole
        items = [
            item
            for index, item in sorted(self._items.items())
            if index in self._done or _shows_something(item)
        ]
        if not items and self._envelope.get("status") in _FAILED:
            return self._envelope
        return {**self._envelope, "output": items} if items else None

    def _add_to_item(self, index: int, kind: str, event: JsonObject) -> None:
        item: JsonValue = event.get("item")
        if kind in _ITEMS and isinstance(item, dict):
            self._items[index] = item
            if kind == "response.output_item.done":
                self._done.add(index)
        elif index in self._items:
            _add_delta(self._items[index], kind, event)


def _add_delta(item: JsonObject, kind: str, event: JsonObject) -> None:
    delta = event.get("delta")
    place = event.get("content_index")
    if kind in _ARGUMENTS:
        item[_ARGUMENTS[kind]] = f"{item.get(_ARGUMENTS[kind]) or ''}{delta or ''}"
        return
    if kind in _COMMANDS:
        _add_to_command(item, event)
        return
    content: list[JsonValue] = item.setdefault("content", [])
    if not isinstance(place, int):
        return
    if kind == _PART:
        content.insert(place, event.get("part"))
        return
    part = content[place] if place < len(content) else None
    if isinstance(part, dict):
        part[_TEXTS[kind]] = f"{part.get(_TEXTS[kind]) or ''}{delta or ''}"


def _add_to_command(item: JsonObject, event: JsonObject) -> None:
    """Add a part of a shell's command: all of it, or what comes next of it."""
    place, whole = event.get("command_index"), event.get("command")
    action: JsonValue = item.setdefault("action", {})
    commands: JsonValue = action.setdefault("commands", []) if isinstance(action, dict) else None
    if not isinstance(commands, list) or not isinstance(place, int):
        return
    if place >= len(commands):
        commands.append("")
        place = len(commands) - 1
    delta = event.get("delta") or ""
    commands[place] = whole if isinstance(whole, str) else f"{commands[place]}{delta}"


def _shows_something(item: JsonObject) -> bool:
    """Return whether an unfinished item is worth keeping: words, or a call with its name."""
    if item.get("type") in ("function_call", "custom_tool_call"):
        return bool(item.get("name"))
    if is_client_call(item):
        return bool(asked(item).arguments)
    content: JsonValue = item.get("content") if item.get("type") == "message" else None
    parts = content if isinstance(content, list) else []
    return any(isinstance(p, dict) and (p.get("text") or p.get("refusal")) for p in parts)
