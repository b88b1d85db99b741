"""Sessions of OpenCode: messages made of parts, as `opencode export` prints them.

The database of OpenCode holds the same messages and parts. A call stands in one part with its end.
A command that exited with another code than 0 is a completed call there, and so is one of a tool
that does not exist: its tool is `invalid`, which says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_object
from eventstore.importers.reading.about import About
from eventstore.importers.reading.dialogue import Dialogue, call_of, spoken
from eventstore.importers.reading.file_format import FileContent, Unit
from eventstore.importers.reading.json_members import member, objects, parts_as_text, text
from eventstore.importers.reading.times import time_between, time_of
from eventstore.importers.reading.transcript import Transcript

_REFUSALS = (
    "The user rejected permission to use this specific tool call",
    "The user has specified a rule which prevents you from using this specific tool call",
    "The user dismissed this question",
)
"""The beginnings of what a call that a person or a rule refused ends with: it has no other mark."""

_UNKNOWN_TOOL = "invalid"


class OpenCodeExports:
    """The file format: an export is a document."""

    name = "opencode"
    about = About(
        program="OpenCode",
        files="what `opencode export` prints, `.json`",
        failures="marked, exit codes",
        times="yes, with durations",
        kept="which session started a sub-agent; compactions",
        lost="thinking, snapshots and patches",
        tried="1.18.33",
        on="2026-11-28",
    )

    def looks_like(self, value: object, unit: Unit) -> bool:  # noqa: ARG002 - wherever it stands
        """Return whether a value is a session with its messages."""
        if not is_json_object(value):
            return False
        messages = objects(value, "messages")
        return bool(text(member(value, "info"), "id")) and any(map(_is_message, messages))

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield the sessions."""
        for number, value in content.values:
            if not is_json_object(value):
                content.report("not a session of OpenCode", number)
                continue
            session = member(value, "info")
            own = text(session, "id") or content.stem
            name = own if content.name is None else content.name
            if dialogue := dialogue_of(objects(value, "messages")):
                parent = text(session, "parentID") or None
                transcript = dialogue.transcript(content.unused_name(name), parent)
                transcript.may_repeat = True  # a fork begins with the messages of its origin
                yield transcript


def dialogue_of(messages: Iterable[JsonObject]) -> Dialogue:
    """Return the conversation of a session's messages in order: `{"info": …, "parts": […]}`."""
    dialogue = Dialogue()
    places: dict[str, int] = {}  # of what each message said
    tail = ""  # the first message that the last compaction keeps
    for message in messages:
        info, parts = member(message, "info"), objects(message, "parts")
        time = time_of(member(info, "time").get("created"))
        places[text(info, "id")] = len(dialogue)
        if info.get("role") == "assistant" and info.get("summary") is True:
            if not info.get("error"):  # a compaction that failed is no boundary
                said = parts_as_text(part for part in parts if part.get("type") == "text")
                dialogue.compact(spoken("assistant", said), time, end=places.get(tail))
        elif info.get("role") == "assistant":
            _add_reply(dialogue, parts, time)
        elif info.get("role") == "user":
            dialogue.say("user", parts_as_text(filter(_is_said, parts)), time)
            begun = [part for part in parts if part.get("type") == "compaction"]
            tail = text(begun[0], "tail_start_id") if begun else tail
    return dialogue


def children_of(messages: Iterable[JsonObject]) -> Iterator[tuple[str, str]]:
    """Yield the sub-agents that a session started: the id of their session, and of the call."""
    for message in messages:
        for part in objects(message, "parts"):
            child = text(member(part, "state", "metadata"), "sessionId")
            if child and (call := text(part, "callID")):
                yield child, call


def _is_message(value: JsonObject) -> bool:
    return "role" in member(value, "info") and isinstance(value.get("parts"), list)


def _is_said(part: JsonObject) -> bool:
    return part.get("type") in ("text", "file") and part.get("ignored") is not True


def _add_reply(dialogue: Dialogue, parts: list[JsonObject], time: int | None) -> None:
    """Add a message of the model, a part at a time: a session that goes on adds parts."""
    ended: list[JsonObject] = []
    for part in parts:
        kind = part.get("type")
        started = time_of(member(part, "time").get("start")) or time
        if kind == "text":
            dialogue.reply_piece(part.get("text"), (), started)
        elif kind == "tool":
            ended.append(part)
            state = member(part, "state")
            began = time_of(member(state, "time").get("start")) or time
            call = call_of(part.get("callID"), part.get("tool"), state.get("input"))
            dialogue.reply_piece("", [call], began)
        elif kind == "step-finish":
            _add_results(dialogue, ended)
            ended = []
    _add_results(dialogue, ended)


def _add_results(dialogue: Dialogue, parts: list[JsonObject]) -> None:
    """Add the results of a step in the order in which they came."""
    for part in sorted(parts, key=_end):
        state = member(part, "state")
        failure = text(state, "error")
        if state.get("status") == "error" and not _is_interrupted(state):
            rejected = failure.startswith(_REFUSALS)
            _answer(dialogue, part, failure, is_error=not rejected, rejected=rejected)
        elif state.get("status") == "completed":
            _answer(dialogue, part, state.get("output"), is_error=_failed(part))


def _answer(
    dialogue: Dialogue,
    part: JsonObject,
    content: JsonValue,
    *,
    is_error: bool,
    rejected: bool = False,
) -> None:
    times = member(part, "state", "time")
    dialogue.answer(
        text(part, "callID"),
        content,
        time_of(times.get("end")),
        is_error=is_error,
        rejected=rejected,
        duration=time_between(times.get("start"), times.get("end")),
    )


def _failed(part: JsonObject) -> bool:
    code: JsonValue = member(part, "state", "metadata").get("exit")
    return part.get("tool") == _UNKNOWN_TOOL or (isinstance(code, int) and code != 0)


def _is_interrupted(state: JsonObject) -> bool:
    """Return whether a call was stopped while it ran: nothing is known of its end."""
    return member(state, "metadata").get("interrupted") is True


def _end(part: JsonObject) -> int:
    return time_of(member(part, "state", "time").get("end")) or 0
