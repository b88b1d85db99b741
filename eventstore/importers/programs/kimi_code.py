"""Sessions of Kimi Code: `wire.jsonl`, the events of one agent a line, of protocol 1.

What the model saw are the records `context.…`. The same messages stand again, in other words and
with the time of the turn's end, as records `agent.message.appended`: those are passed over. Each
sub-agent has a file of its own, `SESSION/agents/AGENT/wire.jsonl`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from eventstore.domain.json_types import JsonObject, is_json_object
from eventstore.importers.reading.about import About, Listing
from eventstore.importers.reading.dialogue import Dialogue, call_of, spoken
from eventstore.importers.reading.file_format import FileContent, Unit
from eventstore.importers.reading.json_members import member, objects, text
from eventstore.importers.reading.times import duration_of, time_of
from eventstore.importers.reading.transcript import Transcript

_MAIN = "main"


class KimiSessions:
    """The file format: one record a line."""

    name = "kimi-code"
    about = About(
        program="Kimi Code",
        files="sessions, `wire.jsonl`",
        failures="marked",
        times="yes, with durations",
        places=(
            "$KIMI_CODE_HOME/sessions/*/*/agents/main/wire.jsonl",
            "~/.kimi-code/sessions/*/*/agents/main/wire.jsonl",
        ),
        listing=Listing(
            call=r'"type": ?"tool\.call",[^{}]{1,500}"toolCallId": ?"([^"\\]{1,200})"',
            sub_agents=("../*/wire.jsonl",),
        ),
        kept="undone prompts, as conversations of their own; a sub-agent's session; compactions",
        lost="thinking",
        tried="2.1.0",
        on="2026-11-28",
    )

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a line is the header or a record of a session."""
        if unit != "line" or not is_json_object(value):
            return False
        kind = text(value, "type")
        return (kind == "metadata" and "protocol_version" in value) or _is_record(value)

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield the session of the agent, then what was undone in it."""
        session = _Session()
        for number, value in content.values:
            if not is_json_object(value) or not session.add(value):
                content.report("not a record of Kimi Code", number)
        name, parent = content.stem, None
        if content.name is None and content.folders[1:2] == ("agents",):
            name = content.folders[2]
        if session.agent not in ("", _MAIN):
            name, parent = f"{name}/{session.agent}", name
        transcript = session.dialogue.transcript(name, parent)
        if session.undone:  # an earlier import may have had the prompts
            transcript.part_id = f"{name}/undone"
        yield transcript
        for number, dialogue in enumerate(session.undone, 1):
            yield dialogue.transcript(f"{name}/undone-{number}", name)


def _is_record(value: JsonObject) -> bool:
    return "." in text(value, "type") and isinstance(value.get("time"), int)


class _Session:
    """The records of one agent so far."""

    def __init__(self) -> None:
        self.agent = ""
        self.dialogue = Dialogue()
        self.undone: list[Dialogue] = []
        self._prompts: list[int] = []  # where each prompt of a person begins
        self._asked: list[str] = []
        self._refused: set[str] = set()

    def add(self, record: JsonObject) -> bool:
        """Take in one record; return whether it is one."""
        if record.get("type") == "metadata":
            return True
        if not _is_record(record):
            return False
        if record.get("kind") != "event":
            self.agent = self.agent or text(record, "agentId")
            take = _RECORDS.get(text(record, "type"))
            if take is not None:
                take(self, record, time_of(record.get("time")))
        return True

    def message(self, record: JsonObject, time: int | None) -> None:
        """Take in a message that is whole: what was asked, or what the program adds."""
        message = member(record, "message")
        if message.get("role") == "assistant":
            made = [each | member(each, "function") for each in objects(message, "toolCalls")]
            calls = [
                call_of(each.get("id"), each.get("name"), each.get("arguments")) for each in made
            ]
            self.dialogue.reply(_said(message), calls, time)
        elif message.get("role") == "tool":
            failed = message.get("isError") is True
            self.dialogue.answer(text(message, "toolCallId"), _said(message), time, is_error=failed)
        else:
            if text(member(message, "origin"), "kind") in ("", "user"):
                self._prompts.append(len(self.dialogue))
                self._asked.append(_said(message))
            self.dialogue.say(text(message, "role"), _said(message), time)

    def loop_event(self, record: JsonObject, time: int | None) -> None:
        """Take in a piece of what the model said, a call of it, or a result."""
        event = member(record, "event")
        kind, step = event.get("type"), text(event, "stepUuid") or None
        if kind == "content.part":
            self.dialogue.reply(text(member(event, "part"), "text"), (), time, step)
        elif kind == "tool.call":
            call = call_of(event.get("toolCallId"), event.get("name"), event.get("args"))
            self.dialogue.reply("", [call], time, step)
        elif kind == "tool.result":
            self._result(text(event, "toolCallId"), member(event, "result"), time)

    def _result(self, call_id: str, result: JsonObject, time: int | None) -> None:
        failed = result.get("isError") is True
        milliseconds = result.get("durationMs")
        took = milliseconds / 1000 if isinstance(milliseconds, int | float) else None
        refused = failed and call_id in self._refused
        self.dialogue.answer(
            call_id,
            result.get("output"),
            time,
            is_error=failed and not refused,
            rejected=refused,
            duration=duration_of(took),
        )

    def approval(self, record: JsonObject, _time: int | None) -> None:
        """Keep which calls a person did not allow."""
        if member(record, "result").get("decision") in ("rejected", "cancelled"):
            self._refused.add(text(record, "toolCallId"))

    def compact(self, record: JsonObject, time: int | None) -> None:
        """Add a boundary: what a person asked last, and a summary, stand in the place of all."""
        count, head = record.get("keptUserMessageCount"), record.get("keptHeadUserMessageCount")
        first = self._asked[:head] if isinstance(head, int) else []
        left = count - len(first) if isinstance(count, int) else 0
        kept = [*first, *self._asked[len(self._asked) - left :]] if left > 0 else first
        summary = text(record, "contextSummary", "summary") or _said(member(record, "summary"))
        messages = (each for said in (*kept, summary) for each in spoken("user", said))
        self.dialogue.compact(messages, time)

    def undo(self, record: JsonObject, _time: int | None) -> None:
        """Take the last prompts away, with what followed them."""
        count = record.get("count")
        if not isinstance(count, int) or count <= 0 or not self._prompts:
            return
        start = self._prompts[max(len(self._prompts) - count, 0)]
        self._prompts = [place for place in self._prompts if place < start]
        del self._asked[len(self._prompts) :]
        if taken := self.dialogue.taken_from(start):
            self.undone.append(taken)


_RECORDS: dict[str, Callable[[_Session, JsonObject, int | None], None]] = {
    "context.append_message": _Session.message,
    "context.append_loop_event": _Session.loop_event,
    "context.apply_compaction": _Session.compact,
    "context.undo": _Session.undo,
    "permission.record_approval_result": _Session.approval,
}


def _said(message: JsonObject) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, (text(part, "text") for part in objects(message, "content"))))
