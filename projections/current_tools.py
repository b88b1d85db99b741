"""Current tools: every call of a log, as it stands after the last event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Self, get_args

from eventstore import Recorded, Tool, ToolEvent, ToolPending, UnknownEvent, evolve
from projections.fold import NAMELESS, Anomaly, Projection, anomaly, misplaced, unreadable

_TOOL_EVENTS = frozenset(get_args(ToolEvent))


class CurrentTools(Projection):
    """The calls of any number of conversations; `anomalies` names the events that did not fit.

    An event that the table of transitions forbids changes nothing, and neither does one that
    comes again or late: what was delivered twice is as if delivered once.
    """

    def __init__(self) -> None:
        self.anomalies: list[Anomaly] = []
        self._streams: dict[str, _Stream] = {}

    def apply(self, recorded: Recorded) -> None:
        """Take in one event."""
        self.extend((recorded,))

    def extend(self, events: Iterable[Recorded]) -> Self:
        """Take in events, each conversation in its order."""
        # The loop that every event of a log goes through: nothing is called that need not be.
        streams = self._streams
        for recorded in events:
            version = recorded.version
            stream = streams.get(recorded.conversation_id)
            if stream is None:
                stream = streams[recorded.conversation_id] = _Stream(version)
            elif version == stream.version + 1:
                stream.version = version
            else:
                self._note(recorded, misplaced(version, stream.version))
                if version <= stream.version:
                    continue
                stream.version = version
            event: Any = recorded.event
            kind: Any = type(event)
            if kind not in _TOOL_EVENTS:
                if kind is UnknownEvent:
                    self._note(recorded, unreadable(event))
                continue
            call_id = event.call.id if kind is ToolPending else event.call_id
            if not call_id:
                self._note(recorded, NAMELESS)
                continue
            tools = stream.tools
            try:
                tools[call_id] = evolve(
                    tools.get(call_id), event, recorded.recorded_at, recorded.fingerprint
                )
            except Exception as error:  # noqa: BLE001 - an IllegalTransition, or a value not JSON
                self._note(recorded, str(error))
        return self

    def _note(self, recorded: Recorded, problem: str | None) -> None:
        if problem:
            self.anomalies.append(anomaly(recorded, problem))

    def get(self, conversation_id: str, call_id: str) -> Tool | None:
        """One call, if the log has it."""
        stream = self._streams.get(conversation_id)
        return stream.tools.get(call_id) if stream else None

    def calls(self) -> Iterator[tuple[str, Tool]]:
        """Each call with its conversation: one conversation after the other, in call order."""
        for conversation_id, stream in self._streams.items():
            for tool in stream.tools.values():
                yield conversation_id, tool

    @property
    def tools(self) -> dict[str, Tool]:
        """Each call by its id; see `current_tools` for logs of several conversations."""
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
    """Every call of `events` by its id, as it stands after the last of them.

    Ids are unique in their conversation only. Where two conversations of one log use the same
    id, the call of the one that came later is under `conversation_id/call_id`.
    """
    return CurrentTools().extend(events).tools
