"""Sessions of Gemini CLI: a JSON document, or in newer versions a header and a message a line.

A call stands in the model's message together with its result; its time is that of its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from eventstore.domain.json_types import JsonObject, is_json_object
from eventstore.importers.dialogue import Dialogue, call_of
from eventstore.importers.file_format import FileContent, Unit
from eventstore.importers.json_members import items, member, objects, text, text_of
from eventstore.importers.times import time_of
from eventstore.importers.transcript import Transcript

_TYPES = ("user", "gemini", "info", "error", "warning")


class GeminiSessions:
    """The file format: a session is a document, or the lines of a file."""

    name = "gemini-cli"

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a value is a session, or the header of one."""
        if unit == "item" or not is_json_object(value):
            return False
        return "sessionId" in value and ("projectHash" in value or _has_messages(value))

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield the session."""
        header: JsonObject = {}
        messages: dict[str, JsonObject] = {}
        for number, value in content.values:
            if not is_json_object(value):
                content.report("not a message of a session", number)
            elif "sessionId" in value:
                header = header or value
                _take(messages, objects(value, "messages"))
            elif "$set" in value:
                _take(messages, objects(member(value, "$set"), "messages"))
            elif "$rewindTo" in value:
                _rewind(messages, value["$rewindTo"])
            elif value.get("type") in _TYPES:
                _take(messages, [value])
            else:
                content.report("not a message of a session", number)
        dialogue = Dialogue()
        for message in messages.values():
            _add_message(dialogue, message)
        yield dialogue.transcript(content.name or text(header, "sessionId") or content.stem)


def _has_messages(value: JsonObject) -> bool:
    return any(each.get("type") == "gemini" for each in objects(value, "messages"))


def _take(messages: dict[str, JsonObject], new: list[JsonObject]) -> None:
    """Add messages; one that is written again replaces the earlier."""
    for message in new:
        messages[text(message, "id") or f"message-{len(messages)}"] = message


def _rewind(messages: dict[str, JsonObject], place: object) -> None:
    """Forget the message with this id, and what follows it."""
    names = list(messages)
    for name in names[names.index(place) :] if isinstance(place, str) and place in names else ():
        del messages[name]


def _add_message(dialogue: Dialogue, message: JsonObject) -> None:
    time = time_of(message.get("timestamp"))
    said = _said(message.get("content"))
    if message.get("type") == "user":
        dialogue.say("user", said, time)
    elif message.get("type") == "gemini":
        made = objects(message, "toolCalls")
        calls = [call_of(call.get("id"), call.get("name"), call.get("args")) for call in made]
        dialogue.reply(said, calls, time)
        for call in made:
            _answer(dialogue, call)


def _answer(dialogue: Dialogue, call: JsonObject) -> None:
    status = call.get("status")
    if status not in ("success", "error", "cancelled"):
        return  # it waits, or runs
    dialogue.answer(
        text(call, "id"),
        _result(call) or call.get("resultDisplay"),
        time_of(call.get("timestamp")),
        name=text(call, "name"),
        is_error=status == "error",
        rejected=status == "cancelled",
    )


def _result(call: JsonObject) -> str:
    responses = [member(part, "functionResponse", "response") for part in objects(call, "result")]
    outputs = [
        text(each, "output", "error") or (text_of(each) if each else "") for each in responses
    ]
    return "\n".join(filter(None, outputs)) or text(call, "result")


def _said(content: Any) -> str:
    if isinstance(content, list):
        parts = items({"parts": content}, "parts")
        return "\n".join(text(part, "text") for part in parts if is_json_object(part))
    return text_of(content)
