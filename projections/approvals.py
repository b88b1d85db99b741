"""The approval inbox: the calls of all conversations that wait for a decision."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec

from eventstore import EventStore, FunctionCall, Pending, Tool
from eventstore.domain.equal_calls import value_of
from eventstore.domain.one_line import one_line
from eventstore.domain.recovery import waits_again
from projections.formatting import NotebookText, arguments_text, quoted_name
from projections.unsettled_calls import UnsettledCalls


class PendingApproval(NotebookText, msgspec.Struct, frozen=True, gc=False):
    """A call that waits for a decision, as it is shown to the person who decides.

    `arguments` are those in force: a JSON object, otherwise None, with the text in `raw`.
    `fingerprint` finds the same call again, in any conversation. `requested_at` is in microseconds
    since 1970 UTC. `revision` is what is shown, as text: pass it back as `seen` of
    `Conversation.approve`. `equal_calls` are the ids of the other calls of the conversation that
    wait with the same tool and arguments: the model may have asked twice.

    A call that paused has had `attempts`. `until` is the time at which a deferred call may start
    without a decision, in microseconds since 1970 UTC; `reason` says why a call paused or was
    deferred. `in_doubt`: an attempt of it may have taken effect, so that it is not simply started.
    """

    conversation_id: str
    call_id: str
    name: str
    arguments: Any
    raw: str | None
    fingerprint: str | None
    requested_at: int | None
    attempts: int = 0
    until: int | None = None
    reason: str | None = None
    in_doubt: bool = False
    revision: str = ""
    equal_calls: tuple[str, ...] = ()

    @classmethod
    def of(cls, conversation_id: str, tool: Tool, now: int | None = None) -> PendingApproval:
        """Return the approval that a call waits for at `now`, in microseconds since 1970 UTC."""
        call, waits = tool.effective_call, tool.status
        if not isinstance(waits, Pending) or waits_again(tool, now):
            waits = Pending(reason="its approval has expired")
        return cls(
            conversation_id=conversation_id,
            call_id=tool.id,
            name=call.name,
            arguments=call.arguments,
            raw=call.raw,
            fingerprint=tool.fingerprint,
            requested_at=tool.requested_at,
            attempts=tool.attempts,
            until=waits.until,
            reason=waits.reason,
            in_doubt=tool.in_doubt,
            revision=str(tool.revision),
        )

    def __str__(self) -> str:
        name, call_id, conversation_id = map(
            quoted_name, (self.name, self.call_id, self.conversation_id)
        )
        call = f"{one_line(name, 32)}({arguments_text(self.call, 60)})"
        doubt = " (in doubt: it may have taken effect)" if self.in_doubt else ""
        return f"{conversation_id} {call_id}: {call}{doubt}"

    @property
    def call(self) -> FunctionCall:
        """The call in force: as the model asked for it, or as it was edited before it paused."""
        return FunctionCall(self.name, self.arguments, self.call_id, self.raw)


def approvals_among(
    calls: Iterable[tuple[str, Tool]], now: int | None = None
) -> list[PendingApproval]:
    """Return those of the calls that wait for a decision, the longest wait first.

    Each call comes with the id of its conversation. Those whose approval has expired by `now`, in
    microseconds since 1970 UTC, wait, too.
    """
    waiting = (
        PendingApproval.of(name, tool, now)
        for name, tool in calls
        if tool.is_pending or waits_again(tool, now)
    )
    found = sorted(waiting, key=_order)
    equal: defaultdict[tuple[str, bytes], list[str]] = defaultdict(list)
    asked = [(each.conversation_id, value_of(each.call)) for each in found]
    for key, approval in zip(asked, found, strict=True):
        equal[key].append(approval.call_id)
    return [_marked(a, equal[key]) for key, a in zip(asked, found, strict=True)]


def _marked(approval: PendingApproval, equal: list[str]) -> PendingApproval:
    if len(equal) == 1:
        return approval
    others = tuple(call_id for call_id in equal if call_id != approval.call_id)
    return msgspec.structs.replace(approval, equal_calls=others)


def _order(approval: PendingApproval) -> tuple[int, str, str]:
    return (approval.requested_at or 0, approval.conversation_id, approval.call_id)


def pending_approvals(store: EventStore) -> list[PendingApproval]:
    """Return the calls of all conversations that wait for a decision, the longest wait first.

    The log is read from its beginning, in bounded memory; `Projector` keeps the same in a table.
    Every pending call is listed, and every one whose approval has expired: which of them a person
    must decide on is for your agent to say.
    """
    calls = UnsettledCalls().extend(store.read())
    return approvals_among(calls.unsettled(), store.now())
