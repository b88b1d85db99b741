"""A person's decision on a call, bound to what the page showed of it."""

from __future__ import annotations

import msgspec

from eventstore import (
    Approved,
    EventStore,
    Rejected,
    Tool,
    ToolApproved,
    ToolRejected,
    ToolStatus,
    VersionConflict,
)
from projections.formatting import quoted_name


class Decision(msgspec.Struct, frozen=True):
    """The fields of the form; `shown` is the `revision` of the call that the page showed."""

    conversation: str
    call: str
    shown: str
    decision: str
    by: str
    reason: str


def decide(store: EventStore, decision: Decision) -> str:
    """Approve or reject a call, and return what became of it, in words.

    Nothing is decided if the call is not as it was shown, or waits no more. That is checked at the
    version that the decision is appended to, so that of several people at once one decides.
    """
    chat = store.conversation(decision.conversation)
    while True:
        version = chat.version
        tool = chat.tools.get(decision.call)
        problem = "there is no such call" if tool is None else _problem(decision, tool)
        if tool is None or problem is not None:
            return f"nothing was decided: {problem}"
        event = _event(decision)
        try:
            chat.append(event, expected_version=version)
        except VersionConflict:  # something came first: look again
            continue
        return f"{_name(tool)} is {event.tag} by {quoted_name(event.by or '')}"


def _event(decision: Decision) -> ToolApproved | ToolRejected:
    by, reason = decision.by.strip(), decision.reason.strip() or None
    if decision.decision == "approve":
        return ToolApproved(decision.call, by=by, reason=reason)
    return ToolRejected(decision.call, reason=reason, by=by)


def _problem(decision: Decision, tool: Tool) -> str | None:
    """Return why nothing may be decided so; None if it may."""
    if decision.decision not in ("approve", "reject"):
        return "press Approve or Reject"
    if not decision.by.strip():
        return "enter your name, which the log keeps with the decision"
    if not tool.is_pending:
        return f"{_name(tool)} is {_outcome(tool.status)} already"
    if str(tool.revision) != decision.shown:
        return "the call is not as it was shown; the page shows it as it is now"
    if decision.decision == "approve" and not tool.effective_call.is_object:
        return "the arguments are not a JSON object, so the call cannot run: reject it"
    return None


def _name(tool: Tool) -> str:
    return quoted_name(tool.call.name)


def _outcome(status: ToolStatus) -> str:
    by = status.by if isinstance(status, Approved | Rejected) else None
    return status.name.lower() + (f" by {quoted_name(by)}" if by else "")
