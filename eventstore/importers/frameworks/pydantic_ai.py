"""Messages of pydantic-ai as its `ModelMessagesTypeAdapter` writes them: requests and responses."""

from __future__ import annotations

from collections.abc import Iterator

from eventstore.domain.json_types import JsonObject, is_json_list, is_json_object
from eventstore.importers.frameworks.pydantic_ai_compactions import add_compactions
from eventstore.importers.reading.about import About
from eventstore.importers.reading.dialogue import Dialogue, call_of
from eventstore.importers.reading.file_format import FileContent, Unit
from eventstore.importers.reading.json_members import objects, text
from eventstore.importers.reading.times import time_of
from eventstore.importers.reading.transcript import Transcript

_KINDS = ("request", "response")
_FAILED = ("failed", "error", "retried")


class PydanticMessages:
    """The file format: the messages are the items of a list, or lines; or a list is a line."""

    name = "pydantic-ai"
    about = About(
        program="pydantic-ai",
        files="message JSON",
        failures="requests to try again",
        kept="requests to try again, denials as rejections",
        lost="thinking, usage, the provider's details",
        tried="2.68",
    )

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a value is a message, or on a line of its own a list of them."""
        if is_json_list(value):
            return unit == "line" and any(map(_is_message, value))
        return unit != "file" and _is_message(value)

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield one conversation, and one for each line that is a list."""
        dialogue = Dialogue()
        for number, value in content.values:
            if is_json_list(value):
                own = Dialogue()
                for message in objects({"messages": value}, "messages"):
                    _add_message(own, message)
                yield own.transcript(content.unused_name(f"{content.stem}/{number}"))
            elif is_json_object(value) and _is_message(value):
                _add_message(dialogue, value)
            else:
                content.report("not a message of pydantic-ai", number)
        if dialogue:
            yield dialogue.transcript(content.unused_name(content.stem))


def _is_message(value: object) -> bool:
    if not is_json_object(value) or value.get("kind") not in _KINDS:
        return False
    return any("part_kind" in part for part in objects(value, "parts"))


def _add_message(dialogue: Dialogue, message: JsonObject) -> None:
    time = time_of(message.get("timestamp"))
    parts = objects(message, "parts")
    add_compactions(dialogue, parts, time)
    if message.get("kind") == "response":
        said = [part.get("content") for part in parts if part.get("part_kind") == "text"]
        calls = [
            call_of(part.get("tool_call_id"), part.get("tool_name"), part.get("args"))
            for part in parts
            if part.get("part_kind") == "tool-call"
        ]
        dialogue.reply("\n".join(each for each in said if isinstance(each, str)), calls, time)
        return
    for part in parts:
        _add_part(dialogue, part, time_of(part.get("timestamp")) or time)


def _add_part(dialogue: Dialogue, part: JsonObject, time: int | None) -> None:
    kind = part.get("part_kind")
    call_id, name = text(part, "tool_call_id"), text(part, "tool_name")
    if kind == "tool-return":
        outcome = part.get("outcome")
        dialogue.answer(
            call_id,
            part.get("content"),
            time,
            name=name,
            is_error=outcome in _FAILED,
            rejected=outcome == "denied",
        )
    elif kind == "retry-prompt" and name:
        dialogue.answer(call_id, part.get("content"), time, name=name, is_error=True)
    elif kind != "compaction":
        dialogue.say("system" if kind == "system-prompt" else "user", part.get("content"), time)
