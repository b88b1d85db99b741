"""The calls that may still wait, run or be in doubt: one fold for the inboxes.

Memory grows with the calls that are neither completed nor rejected, and not with the log: a failed
one may be tried again. Calls of an imported history are apart: they belong to where they ran. So
does a call that was copied (see `Recorded.is_copy`) until it has a step of its own conversation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from eventstore import (
    Completed,
    PayloadsRedacted,
    Recorded,
    Rejected,
    Tool,
    ToolPending,
    UnknownEvent,
    evolve,
)
from eventstore.domain.covered import covered_call
from eventstore.domain.unreadable_steps import left_in_doubt
from projections.projection import TOOL_EVENTS, Projection
from projections.redactions import ReadMarkers

_SETTLED = (Completed, Rejected)


class UnsettledCalls(Projection):
    """The calls that are neither completed nor rejected, in any number of conversations.

    With `imported` those of imported histories, otherwise all others.
    """

    def __init__(self, *, imported: bool = False) -> None:
        self._imported = imported
        self._unsettled: dict[tuple[str, str], Tool] = {}
        self._copied: set[tuple[str, str]] = set()
        self._markers = ReadMarkers()

    def apply(self, recorded: Recorded) -> None:
        """Take in one event."""
        event: Any = recorded.event
        self._markers.take(recorded)
        if type(event) is UnknownEvent:
            self._doubt_calls(recorded, event)
            return
        if type(event) not in TOOL_EVENTS or not event.call_id:
            if type(event) is PayloadsRedacted:
                self._cover(recorded)
            return
        key = recorded.conversation_id, event.call_id
        before = self._unsettled.get(key)
        if before is None:
            if type(event) is ToolPending and event.imported is self._imported:
                tool = evolve(None, event, recorded.time, recorded.fingerprint)
                self._unsettled[key] = tool
                if recorded.is_copy:
                    self._copied.add(key)
            return
        if not recorded.is_copy:
            self._copied.discard(key)
        try:
            after = evolve(before, event, recorded.time, recorded.fingerprint)
        except Exception:  # noqa: BLE001 - IllegalTransition, or a value that is not JSON
            return
        if type(after.status) in _SETTLED:
            del self._unsettled[key]
            self._copied.discard(key)
        else:
            self._unsettled[key] = after

    def _cover(self, record: Recorded) -> None:
        for each in self._markers.gone(record):
            key = record.conversation_id, each.call_id or ""
            if (tool := self._unsettled.get(key)) is not None:
                self._unsettled[key] = covered_call(tool)

    def _doubt_calls(self, recorded: Recorded, event: UnknownEvent) -> None:
        """Take in that a step of a call cannot be read; see `unreadable_steps`."""
        name = recorded.conversation_id
        tools = {of: tool for (other, of), tool in self._unsettled.items() if other == name}
        for tool in left_in_doubt(event, recorded.fingerprint, tools):
            self._unsettled[name, tool.id] = tool

    def get(self, conversation_id: str, call_id: str) -> Tool | None:
        """Return a call, or None if it is settled or belongs to the other histories."""
        return self._unsettled.get((conversation_id, call_id))

    def unsettled(self) -> Iterator[tuple[str, Tool]]:
        """Yield each call that is no copy, with the id of its conversation."""
        for key, tool in self._unsettled.items():
            if key not in self._copied:
                yield key[0], tool
