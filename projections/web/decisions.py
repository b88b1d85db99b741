"""A person's decision on a call, bound to what the page showed of it."""

from __future__ import annotations

import msgspec

from eventstore import (
    Approved,
    CallChanged,
    Conversation,
    EventStore,
    EventStoreError,
    Rejected,
    Revision,
    Tool,
    ToolStatus,
    UnknownCall,
    UnparsedArguments,
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

    Nothing is decided if the call is not as it was shown, or waits no more.
    """
    chat = store.conversation(decision.conversation)
    problem = _problem(decision, chat)
    if problem is None:
        return _recorded(chat, decision)
    return f"nothing was decided: {problem}"


def _problem(decision: Decision, chat: Conversation) -> str | None:
    """Return why nothing may be decided so; None if it may."""
    if decision.decision not in ("approve", "reject"):
        return "press Approve or Reject"
    if not decision.by.strip():
        return "enter your name, which the log keeps with the decision"
    try:
        tool = chat.tool(decision.call)
    except UnknownCall:
        return "there is no such call"
    return None if tool.is_pending else f"{_name(tool)} is {_outcome(tool.status)} already"


def _recorded(chat: Conversation, decision: Decision) -> str:
    """Record the decision on the call as it was shown."""
    by, reason = decision.by.strip(), decision.reason.strip() or None
    try:
        seen = Revision.parse(decision.shown)
        if decision.decision == "approve":
            done = chat.approve(decision.call, by=by, reason=reason, seen=seen)
        else:
            done = chat.reject(decision.call, reason, by=by, seen=seen)
    except UnparsedArguments:
        problem = "the arguments are not a JSON object, so the call cannot run: reject it"
    except (CallChanged, ValueError):
        problem = "the call is not as it was shown; the page shows it as it is now"
    except EventStoreError as error:
        problem = str(error)
    else:
        return f"{_name(done)} is {_outcome(done.status)}"
    return f"nothing was decided: {problem}"


def _name(tool: Tool) -> str:
    return quoted_name(tool.call.name)


def _outcome(status: ToolStatus) -> str:
    by = status.by if isinstance(status, Approved | Rejected) else None
    return status.name.lower() + (f" by {quoted_name(by)}" if by else "")
