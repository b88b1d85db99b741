"""A person's decision on a call, bound to the arguments that the page showed."""

from __future__ import annotations

from hashlib import sha256

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
from projections.approvals import PendingApproval
from projections.formatting import quoted_name

_encode = msgspec.json.Encoder(order="deterministic").encode


class Decision(msgspec.Struct, frozen=True):
    """The fields of the form; `shown` is what `shown_arguments` returned for the page."""

    conversation: str
    call: str
    shown: str
    decision: str
    by: str
    reason: str


def shown_arguments(approval: PendingApproval) -> str:
    """Return the digest of a call's tool and arguments, equal for equal ones."""
    raw = approval.raw
    arguments = _encode(approval.arguments) if raw is None else raw.encode()
    return sha256(_encode([approval.name, raw is None]) + arguments).hexdigest()


def decide(store: EventStore, decision: Decision) -> str:
    """Approve or reject a call, and return what became of it, in words.

    Nothing is decided if the call has other arguments than those that were shown, or waits no more.
    That is checked at the version that the decision is appended to, so that of several people at
    once one decides.
    """
    chat = store.conversation(decision.conversation)
    while True:
        version = chat.version
        tool = chat.tools.get(decision.call)
        if problem := _problem(decision, chat.id, tool):
            return f"nothing was decided: {problem}"
        event = _event(decision)
        try:
            chat.append(event, expected_version=version)
        except VersionConflict:  # something came first: look again
            continue
        name = quoted_name(tool.call.name) if tool else decision.call
        return f"{name} is {event.tag} by {quoted_name(event.by or '')}"


def _event(decision: Decision) -> ToolApproved | ToolRejected:
    by, reason = decision.by.strip(), decision.reason.strip() or None
    if decision.decision == "approve":
        return ToolApproved(decision.call, by=by, reason=reason)
    return ToolRejected(decision.call, reason=reason, by=by)


def _problem(decision: Decision, conversation_id: str, tool: Tool | None) -> str | None:
    """Return why a call may not be decided so; None if it may."""
    if decision.decision not in ("approve", "reject"):
        return "press Approve or Reject"
    if not decision.by.strip():
        return "enter your name, which the log keeps with the decision"
    if tool is None:
        return "there is no such call"
    return _problem_of_call(decision, conversation_id, tool)


def _problem_of_call(decision: Decision, conversation_id: str, tool: Tool) -> str | None:
    name = quoted_name(tool.call.name)
    if not tool.is_pending:
        return f"{name} is {_outcome(tool.status)} already"
    if shown_arguments(PendingApproval.of(conversation_id, tool)) != decision.shown:
        return f"{name} has other arguments now, which the page shows"
    if decision.decision == "approve" and not tool.effective_call.is_object:
        return f"the arguments of {name} are not a JSON object, so it cannot run: reject it"
    return None


def _outcome(status: ToolStatus) -> str:
    by = status.by if isinstance(status, Approved | Rejected) else None
    return status.name.lower() + (f" by {quoted_name(by)}" if by else "")
