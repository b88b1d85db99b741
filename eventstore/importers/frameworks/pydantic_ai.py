"""Messages of pydantic-ai as its `ModelMessagesTypeAdapter` writes them: requests and responses.

1. `outcome` says how a call ended. One that was interrupted has no end: it may have taken effect.
2. The calls of a response that was cut off never ran, unless one of them has an end.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from eventstore.domain.failure import ErrorKind, Failure
from eventstore.domain.finish_reasons import NOT_WHOLE
from eventstore.domain.json_types import JsonObject, JsonValue, is_json_list, is_json_object
from eventstore.domain.messages import Text
from eventstore.importers.frameworks.pydantic_ai_compactions import add_compactions
from eventstore.importers.reading.about import About
from eventstore.importers.reading.dialogue import Dialogue, call_of
from eventstore.importers.reading.file_format import FileContent, Unit
from eventstore.importers.reading.json_members import objects, text
from eventstore.importers.reading.times import time_of
from eventstore.importers.reading.transcript import Transcript
from eventstore.providers.model import ParsedMessage

_KINDS = ("request", "response")
_FAILED: Final = ("failed", "error", "retried")
_ENDS: Final = ("tool-return", "retry-prompt")
_INTERRUPTED: Final = "interrupted"
_NOT_RUN: Final = Failure(
    ErrorKind.TRANSIENT,
    "the response was cut off, or the run stopped before it (interrupted): the call was not run",
    code=NOT_WHOLE,
)
_SAID: Final = {
    "user-prompt": "user",
    "system-prompt": "system",
    "instruction": "system",
    "retry-prompt": "user",
    "retry-feedback": "user",
}
"""The parts of a request that say something, and the role that says it."""
_OLD_ARGUMENTS: Final = {"args_dict": dict, "args_json": str}
"""What held the arguments up to 2024."""


class PydanticMessages:
    """The file format: the messages are the items of a list, or lines; or a list is a line."""

    name = "pydantic-ai"
    about = About(
        program="pydantic-ai",
        files="message JSON",
        failures="marked",
        kept="requests to try again, denials as rejections, calls of a response that was cut off",
        lost="thinking, usage, what ran at the provider",
        tried="2.68.0",
        on="2026-11-28",
    )

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a value is a message, or on a line of its own a list of them."""
        if is_json_list(value):
            return unit == "line" and any(map(_is_message, value))
        return unit != "file" and _is_message(value)

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield one conversation, and one for each line that is a list."""
        messages: list[JsonObject] = []
        for number, value in content.values:
            if is_json_list(value):
                own = _dialogue(objects({"messages": value}, "messages"))
                yield own.transcript(content.unused_name(f"{content.stem}/{number}"))
            elif is_json_object(value) and _is_message(value):
                messages.append(value)
            else:
                content.report("not a message of pydantic-ai", number)
        if messages:
            yield _dialogue(messages).transcript(content.unused_name(content.stem))


def _is_message(value: object) -> bool:
    if not is_json_object(value) or value.get("kind") not in _KINDS:
        return False
    return any("part_kind" in part for part in objects(value, "parts"))


def _dialogue(messages: list[JsonObject]) -> Dialogue:
    ended = {
        text(part, "tool_call_id")
        for message in messages
        for part in objects(message, "parts")
        if part.get("part_kind") in _ENDS and part.get("outcome") != _INTERRUPTED
    }
    dialogue = Dialogue()
    for message in messages:
        _add_message(dialogue, message, ended)
    return dialogue


def _add_message(dialogue: Dialogue, message: JsonObject, ended: AbstractSet[str]) -> None:
    time = time_of(message.get("timestamp"))
    parts = objects(message, "parts")
    add_compactions(dialogue, parts, time)
    if message.get("kind") == "response":
        said = [part.get("content") for part in parts if part.get("part_kind") == "text"]
        calls = [
            call_of(part.get("tool_call_id"), part.get("tool_name"), _arguments(part.get("args")))
            for part in parts
            if part.get("part_kind") == "tool-call"
        ]
        words = "\n".join(each for each in said if isinstance(each, str))
        is_cut_off = message.get("state") == _INTERRUPTED
        if is_cut_off and calls and ended.isdisjoint(call.id for call in calls):
            shown = (Text(words),) if words else ()
            cut_off = ParsedMessage("assistant", shown, tuple(calls), not_whole=_NOT_RUN)
            dialogue.add(cut_off, time)
        else:
            dialogue.reply(words, calls, time)
        return
    for part in parts:
        _add_part(dialogue, part, time_of(part.get("timestamp")) or time)


def _arguments(given: JsonValue) -> JsonValue:
    """Return arguments; up to 2024, an object of one member held them."""
    if is_json_object(given) and len(given) == 1:
        key = next(iter(given))
        held: JsonValue = given[key]
        if isinstance(held, _OLD_ARGUMENTS.get(key, ())):
            return held
    return given


def _add_part(dialogue: Dialogue, part: JsonObject, time: int | None) -> None:
    kind = part.get("part_kind")
    call_id, name = text(part, "tool_call_id"), text(part, "tool_name")
    if kind == "tool-return":
        outcome = part.get("outcome")
        if outcome != _INTERRUPTED:
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
    elif isinstance(kind, str) and kind in _SAID:
        dialogue.say(_SAID[kind], part.get("content"), time)
