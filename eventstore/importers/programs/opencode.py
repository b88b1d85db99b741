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
    given = [*messages]
    for number, message in enumerate(given, 1):
        info, parts = member(message, "info"), objects(message, "parts")
        time = time_of(member(info, "time").get("created"))
        places[text(info, "id")] = len(dialogue)
        if info.get("role") == "assistant" and info.get("summary") is True:
            if not info.get("error"):  # a compaction that failed is no boundary
                said = parts_as_text(part for part in parts if part.get("type") == "text")
                dialogue.compact(spoken("assistant", said), time, end=places.get(tail))
        elif info.get("role") == "assistant":
            if number == len(given):
                parts = [part for part in parts if not _is_being_written(part)]
            _add_reply(dialogue, number, parts, time)
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


def _add_reply(dialogue: Dialogue, number: int, parts: list[JsonObject], time: int | None) -> None:
    """Add a message of the model, a part and a result at a time, in the order of their times.

    So a session that goes on adds to the end: the next call of a step may come after the result of
    the one before.
    """
    ended: list[JsonObject] = []
    step = 0
    for part in parts:
        kind = part.get("type")
        state = member(part, "state")
        started = time_of(member(part, "time").get("start") or member(state, "time").get("start"))
        if started is not None:
            ended = _add_results(dialogue, ended, started)
        message_id = f"{number}-{step}"  # its own id is another in a fork
        if kind == "text":
            dialogue.reply(part.get("text"), (), started or time, message_id)
        elif kind == "tool":
            ended.append(part)
            call = call_of(part.get("callID"), part.get("tool"), state.get("input"))
            dialogue.reply("", [call], started or time, message_id)
        elif kind == "step-finish":
            ended = _add_results(dialogue, ended)
            step += 1
    _add_results(dialogue, ended)


def _add_results(
    dialogue: Dialogue, parts: list[JsonObject], until: int | None = None
) -> list[JsonObject]:
    """Add the results in the order in which they came, up to a time; return the other parts."""
    later: list[JsonObject] = []
    for part in sorted(parts, key=_end):
        state = member(part, "state")
        failure = text(state, "error")
        if until is not None and not 0 < _end(part) <= until:
            later.append(part)
        elif state.get("status") == "error" and not _is_interrupted(state):
            rejected = failure.startswith(_REFUSALS)
            _answer(dialogue, part, failure, is_error=not rejected, rejected=rejected)
        elif state.get("status") == "completed":
            _answer(dialogue, part, state.get("output"), is_error=_failed(part))
    return later


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


def _is_being_written(part: JsonObject) -> bool:
    """Return whether a part is a call whose arguments the model has not ended yet."""
    return part.get("type") == "tool" and member(part, "state").get("status") == "pending"


def _failed(part: JsonObject) -> bool:
    code: JsonValue = member(part, "state", "metadata").get("exit")
    return part.get("tool") == _UNKNOWN_TOOL or (isinstance(code, int) and code != 0)


def _is_interrupted(state: JsonObject) -> bool:
    """Return whether a call was stopped while it ran: nothing is known of its end."""
    return member(state, "metadata").get("interrupted") is True


def _end(part: JsonObject) -> int:
    return time_of(member(part, "state", "time").get("end")) or 0
