"""Current tools: every call of a log with its status after the last event.

1. An event moves its call along the table of transitions (`evolve`).
2. An event that the table forbids changes nothing. It is noted as an anomaly.
3. A step that cannot be read leaves its call in doubt (`unreadable_steps`).
4. A call of which an event is redacted after it was read is covered (`redactions`).
5. An event that comes again or late changes nothing either: a log that is delivered twice gives
   the same tools as one that is delivered once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Self

from eventstore import PayloadsRedacted, Recorded, Tool, ToolPending, UnknownEvent, evolve
from eventstore.domain.covered import covered_call
from eventstore.domain.unreadable_steps import left_in_doubt
from projections.formatting import NotebookText, quoted_name, status_text, table
from projections.projection import (
    NO_CALL_ID,
    TOOL_EVENTS,
    Anomaly,
    Projection,
    anomaly,
    version_problem,
)
from projections.redactions import ReadMarkers

_OF_SEVERAL_CALLS = frozenset({UnknownEvent, PayloadsRedacted})


class CurrentTools(NotebookText, Projection):
    """The calls of any number of conversations; `anomalies` names the events that did not fit."""

    def __init__(self) -> None:
        self.anomalies: list[Anomaly] = []
        self._streams: dict[str, _Stream] = {}
        self._markers = ReadMarkers()

    def apply(self, recorded: Recorded) -> None:
        """Take in one event."""
        self.extend((recorded,))

    def extend(self, events: Iterable[Recorded]) -> Self:
        """Take in events, each conversation in its order."""
        # Every event of a log goes through this loop: it makes no call that it can do without.
        streams = self._streams
        for recorded in events:
            version = recorded.version
            stream = streams.get(recorded.conversation_id)
            if stream is None:
                stream = streams[recorded.conversation_id] = _Stream(version)
            elif version == stream.version + 1:
                stream.version = version
            else:
                self._note(recorded, version_problem(recorded, stream.version))
                if version <= stream.version:
                    continue
                stream.version = version
            if recorded.redacted is not None:
                self._markers.take(recorded)
            event: Any = recorded.event
            kind = type(recorded.event)
            if kind not in TOOL_EVENTS:
                if kind in _OF_SEVERAL_CALLS:
                    self._take_other(recorded, event, stream.tools)
                continue
            call_id = event.call.id if kind is ToolPending else event.call_id
            if not call_id:
                self._note(recorded, NO_CALL_ID)
                continue
            tools = stream.tools
            try:
                tools[call_id] = evolve(
                    tools.get(call_id), event, recorded.time, recorded.fingerprint
                )
            except Exception as error:  # noqa: BLE001 - IllegalTransition, or not JSON
                self._note(recorded, str(error))
        return self

    def __str__(self) -> str:
        heads = ("conversation", "call", "tool", "status", "attempts")
        rows: list[list[str | int]] = []
        for conversation_id, tool in self.calls():
            names = map(quoted_name, (conversation_id, tool.id, tool.call.name))
            rows.append([*names, status_text(tool), tool.attempts])
        return "\n".join(table(heads, rows, left=heads[:-1])) or "no calls"

    def _take_other(self, recorded: Recorded, event: Any, tools: dict[str, Tool]) -> None:
        if type(event) is UnknownEvent:
            self._note(recorded, event.problem)
            for tool in left_in_doubt(event, recorded.fingerprint, tools):
                tools[tool.id] = tool
        for each in self._markers.gone(recorded):
            if (call := tools.get(each.call_id or "")) is not None:
                tools[call.id] = covered_call(call)

    def _note(self, recorded: Recorded, problem: str | None) -> None:
        if problem:
            self.anomalies.append(anomaly(recorded, problem))

    def get(self, conversation_id: str, call_id: str) -> Tool | None:
        """Return one call, or None if the log does not have it."""
        stream = self._streams.get(conversation_id)
        return stream.tools.get(call_id) if stream else None

    def calls(self) -> Iterator[tuple[str, Tool]]:
        """Yield each call with its conversation id: conversation by conversation, in call order."""
        for conversation_id, stream in self._streams.items():
            for tool in stream.tools.values():
                yield conversation_id, tool

    @property
    def tools(self) -> dict[str, Tool]:
        """The calls by their ids; see `current_tools` for logs of several conversations."""
        tools: dict[str, Tool] = {}
        for conversation_id, tool in self.calls():
            key = tool.id
            while key in tools:
                key = f"{conversation_id}/{key}"
            tools[key] = tool
        return tools


class _Stream:
    """One conversation: its highest version so far, and its calls by id."""

    __slots__ = ("tools", "version")

    def __init__(self, version: int) -> None:
        self.version = version
        self.tools: dict[str, Tool] = {}


def current_tools(events: Iterable[Recorded]) -> dict[str, Tool]:
    """Return every call of `events` by its id, with its status after the last of them.

    Ids are unique within their conversation only. Where two conversations of one log use the
    same id, the call of the later conversation is under `conversation_id/call_id`.
    """
    return CurrentTools().extend(events).tools
