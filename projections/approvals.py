"""The inbox of people who decide: the calls of all conversations that wait for an approval."""

from __future__ import annotations

from typing import Any

import msgspec

from eventstore import (
    EventStore,
    FunctionCall,
    Pending,
    Recorded,
    Tool,
    ToolEvent,
    ToolPending,
    evolve,
)
from projections.fold import Projection
from projections.text import arguments_text, one_line


class PendingApproval(msgspec.Struct, frozen=True, gc=False):
    """A call that waits for a person, as it is shown to that person.

    `arguments` are what the model asked for; None where that was no JSON object, and `raw` has
    its text. `fingerprint` finds the call again, in any conversation. `requested_at` is in
    microseconds since 1970 UTC.
    """

    conversation_id: str
    call_id: str
    name: str
    arguments: Any
    raw: str | None
    fingerprint: str | None
    requested_at: int | None

    @classmethod
    def of(cls, conversation_id: str, tool: Tool) -> PendingApproval:
        """The approval that a pending call waits for."""
        call = tool.call
        return cls(conversation_id, tool.id, call.name, call.arguments, call.raw,
                   tool.fingerprint, tool.requested_at)  # fmt: skip

    def __str__(self) -> str:
        asked = f"{one_line(self.name, 32)}({arguments_text(self.call, 60)})"
        return f"{self.conversation_id} {self.call_id}: {asked}"

    @property
    def call(self) -> FunctionCall:
        """The call as the model asked for it."""
        return FunctionCall(self.name, self.arguments, self.call_id, self.raw)


class PendingApprovals(Projection):
    """The calls that wait for a person, in any number of conversations.

    Memory grows with the calls that wait, not with the log. Calls of a history that was made
    elsewhere do not wait: there they may have run.
    """

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], Tool] = {}

    def apply(self, recorded: Recorded) -> None:
        """Take in one event."""
        event: Any = recorded.event
        if not isinstance(event, ToolEvent) or not event.call_id:
            return
        key = recorded.conversation_id, event.call_id
        waiting = self._waiting.get(key)
        if waiting is None:
            if type(event) is ToolPending and not event.imported:
                tool = evolve(None, event, recorded.recorded_at, recorded.fingerprint)
                self._waiting[key] = tool
            return
        try:
            after = evolve(waiting, event, recorded.recorded_at, recorded.fingerprint)
        except Exception:  # noqa: BLE001 - an IllegalTransition, which changes nothing
            return
        if type(after.status) is not Pending:
            del self._waiting[key]

    @property
    def approvals(self) -> list[PendingApproval]:
        """What waits now, the longest first."""
        found = [PendingApproval.of(name, tool) for (name, _), tool in self._waiting.items()]
        return sorted(found, key=order)


def order(approval: PendingApproval) -> tuple[int, str, str]:
    """What waits longest comes first."""
    return (approval.requested_at or 0, approval.conversation_id, approval.call_id)


def pending_approvals(store: EventStore) -> list[PendingApproval]:
    """The calls of all conversations that wait for a person, the longest first.

    The log is read from its beginning, in bounded memory; `Projector` keeps the same in a table.
    Every pending call counts: which ones a person must decide on is for your agent to say.
    """
    return PendingApprovals().extend(store.read()).approvals
