"""Logs of inspect_ai: a document with its samples, or the samples of an `.eval` archive.

Messages have no times; the times of a sample's events are taken where they name the message or the
call, and the earliest of them opens the sample. Text that a sample has several times stands once
among its attachments.
"""

from __future__ import annotations

from collections.abc import Iterator

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_object, with_leaves
from eventstore.importers.reading.about import About
from eventstore.importers.reading.dialogue import Dialogue, call_of
from eventstore.importers.reading.file_format import FileContent, Unit
from eventstore.importers.reading.json_members import member, objects, text
from eventstore.importers.reading.times import duration_of, time_of
from eventstore.importers.reading.transcript import Transcript
from eventstore.providers.model import ParsedCall

_ATTACHMENT = "attachment://"
_REJECTED = "approval"


class InspectLogs:
    """The file format: one log a document, or its samples one by one."""

    name = "inspect"
    about = About(
        program="inspect_ai",
        files="`.eval`, and logs as `.json`",
        failures="marked",
        kept="every sample and epoch as a conversation, durations",
        lost="scores, events of stores and sandboxes, usage",
        tried="0.3.285",
    )

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a value is a log, or a sample of one."""
        if not is_json_object(value):
            return False
        if unit == "file" and isinstance(value.get("eval"), dict):
            return "samples" in value or "plan" in value
        return _is_sample(value)

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield a conversation for each sample."""
        for number, value in content.values:
            if is_json_object(value) and _is_sample(value):
                yield _sample(value, content, content.stem)
            elif is_json_object(value) and isinstance(value.get("eval"), dict):
                for sample in objects(value, "samples"):
                    yield _sample(sample, content, content.stem)
            else:
                content.report("not a sample of a log", number)


def _is_sample(value: JsonObject) -> bool:
    return "epoch" in value and isinstance(value.get("messages"), list) and "id" in value


def _sample(sample: JsonObject, content: FileContent, stem: str) -> Transcript:
    name = f"{stem}/{sample.get('id')}/epoch-{sample.get('epoch')}"
    reader = _SampleReader(sample)
    dialogue = Dialogue()
    for message in objects(sample, "messages"):
        reader.add(dialogue, message)
    return dialogue.transcript(content.unused_name(name))


class _SampleReader:
    """A sample's messages, with what its events say of them."""

    def __init__(self, sample: JsonObject) -> None:
        self._attachments = member(sample, "attachments")
        self._tools: dict[str, JsonObject] = {}
        self._times: dict[str, int | None] = {}
        self._opened = time_of(sample.get("started_at"))
        for event in objects(sample, "events"):
            self._note(event)

    def _note(self, event: JsonObject) -> None:
        time = time_of(event.get("timestamp"))
        if time is not None:
            self._opened = min(time, self._opened or time)
        if event.get("event") == "tool":
            self._tools[text(event, "id")] = event
        elif event.get("event") == "model":
            done = time_of(event.get("completed")) or time
            for choice in objects(member(event, "output"), "choices"):
                self._times[text(member(choice, "message"), "id")] = done

    def add(self, dialogue: Dialogue, message: JsonObject) -> None:
        """Add a message."""
        said = self._resolved(message.get("content"))
        time = self._times.get(text(message, "id"))
        role = text(message, "role")
        if role == "assistant":
            dialogue.reply(said, [self._call(each) for each in _calls(message)], time)
        elif role == "tool":
            self._answer(dialogue, message, said)
        else:
            dialogue.say(role, said, time or self._opened)

    def _call(self, made: JsonObject) -> ParsedCall:
        return call_of(made.get("id"), made.get("function"), self._resolved(made.get("arguments")))

    def _answer(self, dialogue: Dialogue, message: JsonObject, said: JsonValue) -> None:
        call_id, error = text(message, "tool_call_id"), member(message, "error")
        event = self._tools.get(call_id, {})
        began = time_of(event.get("timestamp"))
        ended = time_of(event.get("completed"))
        duration = duration_of(event.get("working_time"))
        if duration is None and began is not None and ended is not None:
            duration = max(ended - began, 0)
        rejected = error.get("type") == _REJECTED
        dialogue.answer(
            call_id,
            text(error, "message") or said,
            ended or began,
            name=text(message, "function"),
            is_error=bool(error or event.get("failed")) and not rejected,
            rejected=rejected,
            duration=duration,
        )

    def _resolved(self, value: JsonValue) -> JsonValue:
        """Return a value with the attachments that it refers to."""
        resolved: JsonValue = with_leaves(value, self._attached)
        return resolved

    def _attached(self, value: object) -> object:
        if isinstance(value, str) and value.startswith(_ATTACHMENT):
            return self._attachments.get(value.removeprefix(_ATTACHMENT), value)
        return value


def _calls(message: JsonObject) -> list[JsonObject]:
    return objects(message, "tool_calls")
