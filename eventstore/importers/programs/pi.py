"""Sessions of pi, and of OpenClaw, which is built on it: an entry a line.

Entries name the one before them: where a person went back, what was left is a conversation of its
own. Before version 2 they name none, and stand in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_object
from eventstore.importers.reading.about import About, Listing
from eventstore.importers.reading.branches import Branches
from eventstore.importers.reading.dialogue import Dialogue, call_of, spoken
from eventstore.importers.reading.file_format import FileContent, Unit
from eventstore.importers.reading.json_members import member, objects, parts_as_text, text
from eventstore.importers.reading.times import time_of
from eventstore.importers.reading.transcript import Transcript

_ENTRIES = frozenset(
    (
        *("message", "custom_message", "branch_summary", "compaction", "context_edit", "custom"),
        *("usage", "label", "leaf", "model_change", "session_info", "thinking_level_change"),
    )
)

_NONE_NAMED: Final = False
"""The parent of an entry of version 1."""


class PiSessions:
    """The file format: a header, then one entry a line."""

    name = "pi"
    about = About(
        program="pi, OpenClaw",
        files="sessions, `.jsonl`",
        failures="marked",
        places=(
            "$PI_CODING_AGENT_DIR/sessions/*/*.jsonl",
            "~/.pi/agent/sessions/*/*.jsonl",
            "~/.openclaw/agents/*/sessions/*.jsonl",
        ),
        listing=Listing(
            call=r'"type": ?"toolCall", ?"id": ?"([^"\\]{1,200})"',
            id=r'\A\{"type": ?"session",[^\n]{0,500}?"id": ?"([^"\\]{1,200})"',
        ),
        kept="branches that were left, as conversations of their own; compactions",
        lost="thinking, edits of the context",
        tried="1.6.0",
        on="2026-11-28",
    )

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a line is the header of a session, or an entry."""
        return unit == "line" and is_json_object(value) and (_is_header(value) or _is_entry(value))

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield the session, then the branches that were left."""
        entries: Branches[JsonObject] = Branches()
        session = ""
        for number, value in content.values:
            if is_json_object(value) and _is_header(value):
                session = session or text(value, "id")
            elif is_json_object(value) and _is_entry(value):
                entries.add(value, text(value, "id"), value.get("parentId", _NONE_NAMED))
            else:
                content.report("not an entry of a session of pi", number)
        name = content.name or session or content.stem
        transcript = _dialogue_of(entries.main()).transcript(name)
        transcript.part_id = f"{name}/{content.file_stem}"  # an import may have what was left
        transcript.may_repeat = True  # a fork begins with the entries of its origin
        yield transcript
        number = 0
        for branch in entries.abandoned():
            if dialogue := _dialogue_of(branch):
                number += 1
                yield dialogue.transcript(f"{name}/left-{number}", name)


def _is_header(value: JsonObject) -> bool:
    return value.get("type") == "session" and {"id", "cwd"} <= value.keys()


def _is_entry(value: JsonObject) -> bool:
    kind = text(value, "type")
    if kind not in _ENTRIES or "timestamp" not in value or "payload" in value:
        return False
    if kind == "message":  # those of Factory Droid have no time of their own
        return {"role", "timestamp"} <= member(value, "message").keys()
    return True


def _dialogue_of(entries: Iterable[JsonObject]) -> Dialogue:
    dialogue = Dialogue()
    places: dict[str, int] = {}  # of what each entry said
    for entry in entries:
        places[text(entry, "id")] = len(dialogue)
        message = member(entry, "message")
        time = time_of(message.get("timestamp")) or time_of(entry.get("timestamp"))
        if entry.get("type") == "message":
            _MESSAGES.get(text(message, "role"), _add_said)(dialogue, message, time)
        elif entry.get("type") == "custom_message":
            dialogue.say("user", entry.get("content"), time)
        elif entry.get("type") == "branch_summary":
            dialogue.say("user", entry.get("summary"), time)
        elif entry.get("type") == "compaction":
            end = places.get(text(entry, "firstKeptEntryId"))  # itself, where none is kept
            dialogue.compact(spoken("user", entry.get("summary")), time, end=end)
    return dialogue


def _add_said(dialogue: Dialogue, message: JsonObject, time: int | None) -> None:
    sections = [said for said in member(message, "sections").values() if isinstance(said, str)]
    said: JsonValue = "\n\n".join(sections) if sections else message.get("content")
    dialogue.say(text(message, "role"), said, time)


def _add_reply(dialogue: Dialogue, message: JsonObject, time: int | None) -> None:
    blocks = objects(message, "content")
    calls = [
        call_of(block.get("id"), block.get("name"), block.get("arguments"))
        for block in blocks
        if block.get("type") == "toolCall"
    ]
    said = parts_as_text(block for block in blocks if block.get("type") == "text")
    dialogue.reply(said, calls, time)


def _add_result(dialogue: Dialogue, message: JsonObject, time: int | None) -> None:
    dialogue.answer(
        text(message, "toolCallId"),
        message.get("content"),
        time,
        name=text(message, "toolName"),
        is_error=message.get("isError") is True,
    )


def _add_command(dialogue: Dialogue, message: JsonObject, time: int | None) -> None:
    """Add a command that a person ran: the model reads it as the user's words."""
    if message.get("excludeFromContext") is not True:
        ran = f"Ran `{text(message, 'command')}`\n{text(message, 'output')}"
        dialogue.say("user", ran, time)


_MESSAGES: dict[str, Callable[[Dialogue, JsonObject, int | None], None]] = {
    "assistant": _add_reply,
    "toolResult": _add_result,
    "bashExecution": _add_command,
}
