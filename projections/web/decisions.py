"""A person's decision on a call, bound to what the page showed of it."""

from __future__ import annotations

from typing import Any

import msgspec

from eventstore import (
    Approved,
    EventStore,
    EventStoreError,
    Rejected,
    Revision,
    Tool,
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

    Nothing is decided if the call is not as it was shown. The log compares that as it records the
    decision: see `Conversation.approve`.
    """
    by, reason = decision.by.strip(), decision.reason.strip() or None
    if decision.decision not in ("approve", "reject"):
        return "nothing was decided: press Approve or Reject"
    if not by:
        return "nothing was decided: enter your name, which the log keeps with the decision"
    chat = store.conversation(decision.conversation)
    try:
        seen = Revision.parse(decision.shown)
        if decision.decision == "approve":
            done = chat.approve(decision.call, by=by, reason=reason, seen=seen)
        else:
            done = chat.reject(decision.call, by=by, reason=reason, seen=seen)
    except (EventStoreError, ValueError) as error:
        return f"nothing was decided: {_problem(decision, chat.tools.get(decision.call), error)}"
    status: Any = done.status
    if (status.by, status.reason) != (by, reason):  # another person was faster
        return f"nothing was decided: {_outcome(done)} already"
    return _outcome(done)


def _problem(decision: Decision, tool: Tool | None, error: Exception) -> str:
    """Return why nothing was decided, by what the call is now."""
    if tool is None:
        return "there is no such call"
    is_as_shown = str(tool.revision) == decision.shown
    if is_as_shown and tool.in_doubt and decision.decision == "reject":
        return "the call may have taken effect, and a rejection would hide that: settle it"
    if not tool.is_pending:
        return f"{_outcome(tool)} already"
    if not is_as_shown:
        return "the call is not as it was shown; the page shows it as it is now"
    if isinstance(error, UnparsedArguments):
        return "the arguments are not a JSON object, so the call cannot run: reject it"
    return str(error)


def _outcome(tool: Tool) -> str:
    status = tool.status
    by = status.by if isinstance(status, Approved | Rejected) else None
    name = quoted_name(tool.call.name)
    return f"{name} is {status.name.lower()}" + (f" by {quoted_name(by)}" if by else "")
