"""Sessions of GitHub Copilot CLI: `events.jsonl`, an event a line.

The events of sub-agents stand between those of the session that started them, and name their agent:
each becomes a conversation of its own, linked to its call. A command that exited with another code
than 0 is marked as a success beside its exit code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from eventstore.domain.json_types import JsonObject, is_json_object
from eventstore.importers.reading.about import About, Listing
from eventstore.importers.reading.dialogue import Dialogue, call_of, spoken
from eventstore.importers.reading.file_format import FileContent, Unit
from eventstore.importers.reading.json_members import member, objects, text
from eventstore.importers.reading.times import time_between, time_of
from eventstore.importers.reading.transcript import Transcript

_MEMBERS = {"type", "data", "id", "timestamp", "parentId"}
_REFUSED = ("denied", "rejected")
"""The codes of errors of calls that a person, a rule or a hook did not allow."""


class CopilotSessions:
    """The file format: one event a line."""

    name = "copilot-cli"
    about = About(
        program="GitHub Copilot CLI",
        files="sessions, `events.jsonl`",
        failures="marked, exit codes",
        times="yes, with durations",
        places=(
            "$COPILOT_HOME/session-state/*/events.jsonl",
            "~/.copilot/session-state/*/events.jsonl",
        ),
        listing=Listing(
            call=r'"toolCallId": ?"([^"\\]{1,200})", ?"(?:toolN|n)ame"',
        ),
        kept="sub-agents, as conversations of their own; compactions",
        lost="thinking",
        tried="1.0.102",
        on="2026-11-28",
    )

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a line is an event of a session."""
        return unit == "line" and is_json_object(value) and _is_event(value)

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield the session before its sub-agents."""
        session = _Session()
        for number, value in content.values:
            if is_json_object(value) and _is_event(value):
                session.add(value)
            else:
                content.report("not an event of GitHub Copilot CLI", number)
        name = content.name or session.id or content.stem
        for agent_id, agent in session.agents.items():
            if not agent_id:
                yield agent.dialogue.transcript(name)
            elif agent.dialogue:
                transcript = agent.dialogue.transcript(f"{name}/{agent_id}", name)
                transcript.parent_call_id = agent.call_id or None
                yield transcript


def _is_event(value: JsonObject) -> bool:
    return value.keys() >= _MEMBERS and is_json_object(value["data"]) and "." in f"{value['type']}"


class _Agent:
    """One agent of a session: what it was told, said and did."""

    def __init__(self, call_id: str = "") -> None:
        self.call_id = call_id
        self.dialogue = Dialogue()
        self.starts: dict[str, object] = {}  # times by call
        self.refused: set[str] = set()


class _Session:
    """The events of a session so far, by agent; the session's own agent has no id."""

    def __init__(self) -> None:
        self.id = ""
        self.agents: dict[str, _Agent] = {"": _Agent()}

    def add(self, event: JsonObject) -> None:
        """Take in one event."""
        kind, data = text(event, "type"), member(event, "data")
        if kind in ("session.start", "session.resume"):
            self.id = self.id or text(data, "sessionId")
            return
        agent = self._agent(event, data)
        if (take := _EVENTS.get(kind)) is not None:
            take(agent, data, event)

    def _agent(self, event: JsonObject, data: JsonObject) -> _Agent:
        """Return the agent of an event: older versions name the call that started it."""
        kind = text(event, "type")
        call_id = text(data, "toolCallId" if kind.startswith("subagent.") else "parentToolCallId")
        agent_id = text(event, "agentId") or (call_id if not kind.startswith("subagent.") else "")
        agent = self.agents.setdefault(agent_id, _Agent())
        if agent_id:
            agent.call_id = agent.call_id or call_id
        return agent


def _said_by_user(agent: _Agent, data: JsonObject, event: JsonObject) -> None:
    agent.dialogue.say("user", data.get("content"), time_of(event.get("timestamp")))


def _said_by_system(agent: _Agent, data: JsonObject, event: JsonObject) -> None:
    agent.dialogue.say("system", data.get("content"), time_of(event.get("timestamp")))


def _reply(agent: _Agent, data: JsonObject, event: JsonObject) -> None:
    calls = [
        call_of(made.get("toolCallId"), made.get("name"), made.get("arguments"))
        for made in objects(data, "toolRequests")
    ]
    time = time_of(event.get("timestamp"))
    agent.dialogue.reply(data.get("content"), calls, time, text(data, "messageId") or None)


def _start(agent: _Agent, data: JsonObject, event: JsonObject) -> None:
    """Keep when a call started; one that no message made, a person asked for."""
    call_id = text(data, "toolCallId")
    agent.starts[call_id] = event.get("timestamp")
    if call_id and not agent.dialogue.has_call(call_id):
        call = call_of(call_id, data.get("toolName"), data.get("arguments"))
        agent.dialogue.reply_piece("", [call], time_of(event.get("timestamp")))


def _end(agent: _Agent, data: JsonObject, event: JsonObject) -> None:
    call_id, error = text(data, "toolCallId"), member(data, "error")
    code = member(data, "shellExecution").get("exitCode")
    failed = data.get("success") is not True or (isinstance(code, int) and code != 0)
    refused = bool(error) and (error.get("code") in _REFUSED or call_id in agent.refused)
    agent.dialogue.answer(
        call_id,
        member(data, "result").get("content") or text(error, "message"),
        time_of(event.get("timestamp")),
        is_error=failed and not refused,
        rejected=refused,
        duration=time_between(agent.starts.get(call_id), event.get("timestamp")),
    )


def _compact(agent: _Agent, data: JsonObject, event: JsonObject) -> None:
    """Add a boundary: the model goes on from the summary."""
    if data.get("success") is True and (summary := text(data, "summaryContent")):
        agent.dialogue.compact(spoken("user", summary), time_of(event.get("timestamp")))


def _permission(agent: _Agent, data: JsonObject, _event: JsonObject) -> None:
    if text(member(data, "result"), "kind").startswith("denied"):
        agent.refused.add(text(data, "toolCallId"))


_EVENTS: dict[str, Callable[[_Agent, JsonObject, JsonObject], None]] = {
    "user.message": _said_by_user,
    "system.message": _said_by_system,
    "assistant.message": _reply,
    "tool.user_requested": _start,
    "tool.execution_start": _start,
    "tool.execution_complete": _end,
    "permission.completed": _permission,
    "session.compaction_complete": _compact,
}
