"""Sessions of Factory Droid, and what `droid exec --output-format stream-json` prints.

A session has Anthropic's blocks in its messages. The stream has the same calls and results as lines
of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeGuard

from eventstore.domain.json_types import JsonObject, is_json_object
from eventstore.importers.reading.about import About, Listing
from eventstore.importers.reading.dialogue import Dialogue, call_of
from eventstore.importers.reading.file_format import FileContent, Unit
from eventstore.importers.reading.json_members import member, objects, parts_as_text, text
from eventstore.importers.reading.times import time_of
from eventstore.importers.reading.transcript import Transcript

_QUIET = frozenset(
    (
        *("session_start", "session_end", "todo_state", "compaction_state"),
        *("system", "completion", "reasoning", "error"),
    )
)
"""Lines that say nothing to the model, or what another line has said."""


class DroidSessions:
    """The file format: one record a line."""

    name = "droid"
    about = About(
        program="Factory Droid",
        files="sessions, and the output of `--output-format stream-json`, `.jsonl`",
        failures="marked",
        places=("~/.factory/sessions/*/*.jsonl",),
        listing=Listing(
            call=r'"type": ?"tool_use",[^{}]{0,300}?"id": ?"([^"\\]{1,200})"',
            companions=("{id}.settings.json",),
        ),
        lost="thinking",
    )

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a line is a record of a session or of a stream."""
        return unit == "line" and is_record(value)

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield the session."""
        dialogue, session = Dialogue(), ""
        for number, value in content.values:
            take = _RECORDS.get(text(value, "type")) if is_json_object(value) else None
            if is_json_object(value) and take is not None:
                take(dialogue, value, time_of(value.get("timestamp")))
            elif is_json_object(value) and text(value, "type") in _QUIET:
                session = session or text(value, "session_id")
                if value["type"] == "session_start":
                    session = text(value, "id") or session
            else:
                content.report("not a record of Factory Droid", number)
        yield dialogue.transcript(content.name or session or content.stem)


def is_record(value: object) -> TypeGuard[JsonObject]:
    """Return whether a value is a record; pi's messages have a time of their own."""
    if not is_json_object(value):
        return False
    kind, message = text(value, "type"), member(value, "message")
    if kind == "session_start":
        return {"id", "cwd"} <= value.keys()
    if kind == "message" and message:
        return {"id", "timestamp"} <= value.keys() and _has_blocks(message)
    if kind == "message":
        return {"session_id", "role", "text"} <= value.keys()
    return kind in ("tool_call", "tool_result") and {"session_id", "messageId"} <= value.keys()


def _has_blocks(message: JsonObject) -> bool:
    return isinstance(message.get("content"), list) and message.keys() <= {"role", "content", "id"}


def _add_message(dialogue: Dialogue, record: JsonObject, time: int | None) -> None:
    message = member(record, "message")
    if not message:
        _add_said(dialogue, record, time)
        return
    blocks = objects(message, "content")
    said = parts_as_text(each for each in blocks if each.get("type") in ("text", "image"))
    if message.get("role") == "assistant":
        made = [each for each in blocks if each.get("type") == "tool_use"]
        calls = [call_of(each.get("id"), each.get("name"), each.get("input")) for each in made]
        dialogue.reply(said, calls, time, text(record, "id") or None)
        return
    for block in blocks:
        if block.get("type") == "tool_result":
            failed = block.get("is_error") is True
            call_id = text(block, "tool_use_id")
            dialogue.answer(call_id, block.get("content"), time, is_error=failed)
    dialogue.say(text(message, "role"), said, time)


def _add_said(dialogue: Dialogue, record: JsonObject, time: int | None) -> None:
    if record.get("role") == "assistant":
        dialogue.reply(record.get("text"), (), time, text(record, "id") or None)
    else:
        dialogue.say(text(record, "role"), record.get("text"), time)


def _add_call(dialogue: Dialogue, record: JsonObject, time: int | None) -> None:
    name = text(record, "toolName", "toolId")
    call = call_of(record.get("id"), name, record.get("parameters"))
    dialogue.reply("", [call], time, text(record, "messageId") or None)


def _add_result(dialogue: Dialogue, record: JsonObject, time: int | None) -> None:
    dialogue.answer(
        text(record, "id"),
        record.get("value"),
        time,
        name=text(record, "toolName", "toolId"),
        is_error=record.get("isError") is True,
    )


_RECORDS: dict[str, Callable[[Dialogue, JsonObject, int | None], None]] = {
    "message": _add_message,
    "tool_call": _add_call,
    "tool_result": _add_result,
}
