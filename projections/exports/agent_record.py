"""A conversation as a verifiable agent record: the form of an Internet-Draft, in JSON.

The form is that of draft-birkholz-verifiable-agent-conversations-00 (25 February 2026, expired on
29 August 2026). It is written because it can say that something is not known:

1. A call without a result has none. An attempt without an end, and one whose failure says nothing
   of its effect, is an entry of its own, `outcome-unknown`.
2. Each call, decision, start and end is an entry, in the order of the log, with the event's id and
   its time. What the draft has no entry for is a `system-event`.
3. What the log does not say, such as the model, is the text `unknown`, where the draft wants one.

The record is not signed: what proves it are the seals of the log, see `docs/seals.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import to_builtins

from eventstore import (
    Event,
    MessageAdded,
    ModelResponded,
    Recorded,
    Running,
    ToolCompleted,
    ToolFailed,
    ToolPending,
    UnknownEvent,
)
from projections.current_tools import CurrentTools

VERSION = "0.0.0"
"""The draft names no version of its own."""
UNKNOWN = "unknown"

_Entry = dict[str, Any]


def agent_record(events: Iterable[Recorded]) -> _Entry:
    """Return the record of one conversation."""
    recorded = list(events)
    tools = CurrentTools().extend(recorded)
    entries = [entry for each in recorded for entry in _entries(each)]
    for name, tool in tools.calls():
        if type(tool.status) is Running:
            data = {"call-id": tool.id, "attempt": tool.attempts, "conversation": name}
            entries.append(_event("outcome-unknown", data))
    responses = [each.event for each in recorded if isinstance(each.event, ModelResponded)]
    models = list(dict.fromkeys(one.model for one in responses if one.model))
    providers = [one.provider for one in responses if one.provider]
    agent: _Entry = {
        "model-id": models[-1] if models else UNKNOWN,
        "model-provider": providers[-1] if providers else UNKNOWN,
    }
    if models:
        agent["models"] = models
    name = recorded[0].conversation_id if recorded else ""
    session: _Entry = {"session-id": name, "agent-meta": agent, "entries": entries}
    if recorded:
        session["session-start"] = _time(recorded[0].time)
        session["session-end"] = _time(recorded[-1].time)
    recorder = {"name": "toolledger"}
    return {"version": VERSION, "id": name, "session": session, "recording-agent": recorder}


def _entries(recorded: Recorded) -> Iterable[_Entry]:
    event = recorded.event
    entry = _ENTRIES.get(type(event), _other)(event)
    yield {**entry, "timestamp": _time(recorded.time), "id": recorded.event_id}
    if isinstance(event, ToolFailed) and event.failure.leaves_doubt:
        data = {"call-id": event.call_id, "attempt": event.attempt}
        yield _event("outcome-unknown", data)


def _message(event: Any) -> _Entry:
    content = [to_builtins(part) for part in event.parts]
    if event.role in ("user", "assistant"):
        return {"type": event.role, "content": content}
    return _event("message", {"role": event.role, "content": content})


def _call(event: Any) -> _Entry:
    call = event.call
    given = call.arguments if call.raw is None else call.raw
    return {"type": "tool-call", "name": call.name, "input": given, "call-id": event.call_id}


def _completed(event: Any) -> _Entry:
    entry = {"type": "tool-result", "output": event.response.result, "call-id": event.call_id}
    return {**entry, "status": "completed", "is-error": False, **_more(event, "response", "native")}


def _failed(event: Any) -> _Entry:
    if event.failure.leaves_doubt:
        return _other(event)
    entry = {"type": "tool-result", "output": event.failure.message, "call-id": event.call_id}
    return {**entry, "status": "error", "is-error": True, **_more(event, "native")}


def _unreadable(event: Any) -> _Entry:
    return _event("unreadable", {"tag": event.tag, "problem": event.problem or ""})


def _other(event: Any) -> _Entry:
    return _event(event.tag.replace("_", "-"), _more(event))


def _more(event: Event, *without: str) -> _Entry:
    """Return the members of an event, named as the draft names its own."""
    members: Mapping[str, object] = to_builtins(event)
    return {n.replace("_", "-"): value for n, value in members.items() if n not in without}


_ENTRIES: Mapping[type, Callable[[Any], _Entry]] = {
    MessageAdded: _message,
    ToolPending: _call,
    ToolCompleted: _completed,
    ToolFailed: _failed,
    UnknownEvent: _unreadable,
}


def _event(kind: str, data: _Entry) -> _Entry:
    return {"type": "system-event", "event-type": kind, "data": data}


def _time(microseconds: int) -> str | int:
    """Return an RFC 3339 time, or the milliseconds of one that no calendar has."""
    try:
        then = datetime.fromtimestamp(microseconds / 1_000_000, UTC)
    except (OverflowError, OSError, ValueError):  # a log made by hand
        return max(microseconds // 1000, 0)
    return then.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
