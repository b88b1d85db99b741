"""Sessions of Qwen Code: a record a line, with a content of Gemini.

Each record names the one before it; where a person went back, the turns that were taken back are a
conversation of their own. A sub-agent has a file of its own, and an id that ends with that of its
call. The status of a call stands beside its result, and a command that exited
with another code than 0 has the status `error`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeGuard

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_object
from eventstore.importers.programs.gemini_compressions import compaction_of, compression
from eventstore.importers.reading.about import About, Listing
from eventstore.importers.reading.branches import Branches
from eventstore.importers.reading.dialogue import Dialogue, call_of
from eventstore.importers.reading.file_format import FileContent, Unit
from eventstore.importers.reading.json_members import member, objects, text, text_of
from eventstore.importers.reading.times import time_of
from eventstore.importers.reading.transcript import Transcript

_TYPES = ("user", "assistant", "tool_result", "system")
_DENIED = "execution_denied"
_COMPRESSED = "compressedHistory"
"""The member with the history as it is after a compression."""


class QwenSessions:
    """The file format: one record a line."""

    name = "qwen-code"
    about = About(
        program="Qwen Code",
        files="sessions, `.jsonl`",
        failures="marked",
        places=(
            "$QWEN_RUNTIME_DIR/projects/*/chats/*.jsonl",
            "$QWEN_HOME/projects/*/chats/*.jsonl",
            "~/.qwen/projects/*/chats/*.jsonl",
        ),
        listing=Listing(
            call=r'"functionCall": ?\{"id": ?"([^"\\]{1,200})"',
            sub_agents=("../subagents/{id}/agent-*.jsonl",),
            companions=("../subagents/{id}/agent-*.meta.json",),
        ),
        kept="turns that were taken back, as conversations of their own; compressions",
        lost="thinking, telemetry",
        tried="0.24.4",
        on="2026-11-28",
    )

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a line is a record of a session."""
        return unit == "line" and is_record(value)

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield the session, then what was taken back in it."""
        records: Branches[JsonObject] = Branches()
        session, agent, kind = "", "", ""
        for number, value in content.values:
            if not is_record(value):
                content.report("not a record of Qwen Code", number)
            elif (uuid := text(value, "uuid")) not in records:
                records.add(value, uuid, value.get("parentUuid"))
                session = session or text(value, "sessionId")
                agent = agent or text(value, "agentId")
                kind = kind or text(value, "agentName")
        name = content.name or session or content.stem
        parent = None
        if agent and session:
            name, parent = f"{name}/{agent}", name
        main = _dialogue_of(records.main())
        if not main:
            content.problems.add("records of Qwen Code without messages, such as its telemetry")
        transcript = main.transcript(name, parent)
        if parent and agent.startswith(f"{kind}-"):  # such as `general-purpose-call_1`
            transcript.parent_call_id = agent.removeprefix(f"{kind}-")
        transcript.part_id = f"{name}/{content.file_stem}"  # an import may have what was taken back
        transcript.may_repeat = True  # a branch begins with the records of its origin
        yield transcript
        number = 0
        for branch in records.abandoned():
            if dialogue := _dialogue_of(branch):
                number += 1
                yield dialogue.transcript(f"{name}/taken-back-{number}", name)


def is_record(value: object) -> TypeGuard[JsonObject]:
    """Return whether a value is a record of a session: Claude Code's have other messages."""
    if not is_json_object(value) or not {"uuid", "sessionId"} <= value.keys():
        return False
    if value.get("type") not in _TYPES:
        return False
    if value["type"] == "system":
        return "systemPayload" in value
    if "message" not in value:
        return "usageMetadata" in value
    return isinstance(member(value, "message").get("parts"), list)


def _dialogue_of(records: Iterable[JsonObject]) -> Dialogue:
    dialogue = Dialogue()
    said: dict[str, JsonObject] = {}
    numbers: dict[str, int] = {}
    for record in records:
        time = time_of(record.get("timestamp"))
        parts = objects(member(record, "message"), "parts")
        numbers[text(record, "uuid")] = len(dialogue)
        if history := [*map(_as_message, objects(member(record, "systemPayload"), _COMPRESSED))]:
            dialogue.add(compaction_of(compression(history, said), numbers), time)
        elif parts:
            said[text(record, "uuid")] = _as_message(member(record, "message"))
        if record.get("type") == "tool_result":
            for part in parts:
                _add_result(dialogue, member(part, "functionResponse"), record, time)
        elif record.get("type") == "assistant":
            made = [member(part, "functionCall") for part in parts]
            calls = [
                call_of(each.get("id"), each.get("name"), each.get("args")) for each in made if each
            ]
            dialogue.reply(_said(parts), calls, time)
        elif record.get("type") == "user":
            dialogue.say("user", _said(parts), time)
    return dialogue


def _as_message(content: JsonObject) -> JsonObject:
    """Return a content as a compression knows it."""
    role = "user" if content.get("role") == "user" else "gemini"
    shown = [part for part in objects(content, "parts") if part.get("thought") is not True]
    return {"type": role, "content": shown}


def _said(parts: list[JsonObject]) -> str:
    shown = (part for part in parts if part.get("thought") is not True)
    return "\n".join(filter(None, (text(part, "text") for part in shown)))


def _add_result(
    dialogue: Dialogue, result: JsonObject, record: JsonObject, time: int | None
) -> None:
    """Add a result; of a call that was stopped while it ran, no end is known."""
    if not result:
        return
    end = member(record, "toolCallResult")
    response: JsonObject = member(result, "response")
    status = end.get("status") or ("error" if "error" in response else "success")
    is_refused = status == "cancelled" or end.get("errorType") == _DENIED
    if status == "cancelled" and end.get("executionStatus") not in (None, "not_started"):
        return
    said: JsonValue = text(response, "output", "error") or text_of(response)
    dialogue.answer(
        text(result, "id"),
        said,
        time,
        name=text(result, "name"),
        is_error=status != "success" and not is_refused,
        rejected=is_refused,
    )
