"""The lifecycle of a tool call: which event may follow which status, and the status after it.

1. `TRANSITIONS` is the table: an event may follow the statuses listed for its tag. A request
   (`pending`) may follow nothing, because it begins the call.
2. Any other event raises `IllegalTransition`, and nothing is written.
3. An event that repeats what is already so (the same request, decision or completion) is a no-op:
   `evolve` returns the same object. A different one is refused: the first stands.
4. Attempts are counted without gaps: the next attempt is the last plus one.
5. A pause ends an attempt without a result: the call is pending again. A pause until a person
   decides takes back an earlier approval; a pause until a time does not. An approved edit stays in
   force in both cases.
6. An attempt that may have taken effect leaves its call in doubt (`ended_in_doubt`): one that ended
   so, or whose end is missing when the next one begins. The call stays so until it completes, or is
   settled. A failure that follows a failed call says that the outcome is known now: nothing took
   effect. One of the code "settled" says so of every attempt. A rejection would hide the doubt:
   `check_decision` refuses it before it is written.
7. An approved edit changes the arguments of a call and never its tool, so that the call in force
   is what runs. `check_decision` refuses another edit before it is written. `evolve` takes it as it
   is, because a log of an older version may hold one. Such a call is never started.
8. An approval is used once: by the attempt that starts on it, and those announced after that one
   failed. A pause until a person decides ends it, and a failure after which none is announced.
9. A lease says how long an attempt counts as under way; see `leases`. `evolve` does not look at it:
   whether a call may start beside a lease is decided in the append.
10. A decision is bound to what was seen of the call: `check_seen` refuses it where the call has
   other arguments, was started, or has paused since.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec.structs import replace

from eventstore.domain.calls import same_json
from eventstore.domain.closing_codes import FORKED, SETTLEMENTS
from eventstore.domain.decision_errors import CallChanged
from eventstore.domain.event_tables import require_tool_event_tags
from eventstore.domain.events import (
    ToolApproved,
    ToolCompleted,
    ToolEvent,
    ToolFailed,
    ToolPaused,
    ToolPending,
    ToolRejected,
    ToolRenewed,
    ToolRunning,
)
from eventstore.domain.finish_reasons import is_of_cut_off_response
from eventstore.domain.leases import end_of_lease, renewed_end
from eventstore.domain.revision import Revision
from eventstore.domain.statuses import (
    PENDING,
    Approved,
    Completed,
    Failed,
    Pending,
    Rejected,
    Running,
    ToolStatus,
)
from eventstore.domain.tool import Tool
from eventstore.errors import IllegalTransition

TRANSITIONS: dict[str, tuple[str, ...]] = {
    "approved": ("Pending",),
    "rejected": ("Pending", "Approved"),
    "running": ("Pending", "Approved", "Failed", "Running"),
    "renewed": ("Running",),
    "paused": ("Pending", "Approved", "Running", "Failed"),
    "completed": ("Pending", "Approved", "Running", "Failed"),
    "failed": ("Pending", "Approved", "Running", "Failed"),
}
"""Event tag to the statuses that the event may follow."""

_STATUS_CLASSES: dict[str, type[ToolStatus]] = {
    status.name: status for status in (Pending, Approved, Running, Completed, Failed, Rejected)
}
_STARTABLE, _PAUSABLE, _COMPLETABLE, _FAILABLE, _REJECTABLE = (
    frozenset(_STATUS_CLASSES[name] for name in TRANSITIONS[tag])
    for tag in ("running", "paused", "completed", "failed", "rejected")
)


def evolve(
    tool: Tool | None, event: ToolEvent, at: int | None = None, fingerprint: str | None = None
) -> Tool:
    """Return `tool` after `event`, which was recorded at `at` (microseconds since 1970 UTC).

    `tool` is None for the first event of a call. `fingerprint` is that of the call in force after
    the event. The same object is returned when the event repeats what is already so: it is a
    no-op, which is not written.

    Raises:
        IllegalTransition: the status does not allow the event.
    """
    return STEPS[event.tag](tool, event, at, fingerprint)


DECISIONS = frozenset({ToolApproved, ToolRejected})
"""The events that `check_decision` looks at."""


def check_decision(before: Tool, event: ToolEvent) -> None:
    """Raise an error if a decision must not be written, though a log may hold one like it.

    Raises:
        IllegalTransition: an approved edit names another tool than the call; or a call is rejected
            that may have taken effect.
    """
    if type(event) is ToolApproved:
        edit = event.edited_call
        if edit is not None and edit.name != before.call.name:
            raise _renamed(before, edit.name, "approved")
    elif type(event) is ToolRejected and before.attempts:  # otherwise it may be imported, too
        check_no_doubt(before)


def check_no_doubt(tool: Tool) -> None:
    """Raise an error if a call may have taken effect: a rejection would hide that.

    Raises:
        IllegalTransition: it may.
    """
    if tool.in_doubt:
        reason = (
            "it may have taken effect, and a rejection would hide that: find out, then settle() it "
            "as completed, as failed or to run again"
        )
        raise IllegalTransition(tool.status.name, "rejected", tool.id, reason)


def check_seen(before: Tool, event: ToolEvent, seen: Revision) -> None:
    """Raise an error if the event was decided on another state of the call than it is in.

    An approval that was recorded already is let through, though its edit has changed the call
    since: the same decision may come twice.

    Raises:
        CallChanged: the call has other arguments, or was started or has paused since it was seen.
    """
    now = before.revision
    if now == seen:
        return
    status = before.status
    if (
        type(event) is ToolApproved
        and type(status) is Approved
        and now.same_question(seen)
        and same_json(status.edited_call, event.edited_call)
    ):
        return
    raise CallChanged(event.tag, seen, before)


def check_startable(tool: Tool) -> None:
    """Raise an error if a call must never start, whatever attempt is asked for.

    Raises:
        IllegalTransition: its response was cut off, or the edit in force names another tool, as in
            a log of an older version.
    """
    status = tool.status
    if type(status) is Failed and not tool.attempts and is_of_cut_off_response(status.failure):
        reason = f"{status.failure.message}, and never is: ask the model again"
        raise IllegalTransition("Failed", "running", tool.id, reason)
    if tool.edit_names_other_tool:
        raise _renamed(tool, tool.effective_call.name, "running")


def _renamed(tool: Tool, name: str, event: str) -> IllegalTransition:
    reason = (
        f"the edit names the tool {name!r}, and the call is of {tool.call.name!r}: an edit changes "
        "the arguments alone; reject() the call, and request() the other tool"
    )
    return IllegalTransition(tool.status.name, event, tool.id, reason)


def _pending(
    tool: Tool | None, event: ToolPending, at: int | None, fingerprint: str | None
) -> Tool:
    call = event.call
    if tool is None:
        return Tool(
            call.id or "",
            call,
            PENDING,
            0,
            None,
            event.provider_call_id,
            event.turn or 0,
            event.index,
            fingerprint,
            at,
            ended_in_doubt=event.imported,
        )
    known = tool.call
    if (
        known.name == call.name
        and known.raw == call.raw
        and same_json(known.arguments, call.arguments)
    ):
        return tool
    raise IllegalTransition(
        tool.status.name, "pending", tool.id, "another call of this id exists; use a new id"
    )


def _approved(
    tool: Tool | None, event: ToolApproved, at: int | None, fingerprint: str | None
) -> Tool:
    if tool is None or type(tool.status) is not Pending:
        if tool is not None and type(tool.status) is Approved:
            # The same decision, told again, ends a moment later.
            ends_alike = (tool.expires_at is None) is (event.expires_at is None)
            if same_json(tool.status.edited_call, event.edited_call) and ends_alike:
                return tool
            raise IllegalTransition(
                "Approved", "approved", tool.id, "the first decision stands: continue with it"
            )
        raise _illegal(tool, event)
    return replace(
        tool,
        status=Approved(event.edited_call, event.by, event.reason),
        edit=event.edited_call or tool.edit,
        fingerprint=fingerprint or tool.fingerprint,
        decided_at=at,
        expires_at=event.expires_at,
    )


def _running(
    tool: Tool | None, event: ToolRunning, at: int | None, fingerprint: str | None
) -> Tool:
    if tool is None or type(tool.status) not in _STARTABLE:
        raise _illegal(tool, event)
    attempt = event.attempt
    if attempt != tool.attempts + 1:
        raise IllegalTransition(
            tool.status.name,
            "running",
            tool.id,
            f"attempt {attempt} cannot start: pass the next attempt, {tool.attempts + 1}",
        )
    leased_until = end_of_lease(at, event.lease)
    return replace(
        tool,
        status=Running(attempt, event.arguments, leased_until, event.worker),
        attempts=attempt,
        fingerprint=fingerprint or tool.fingerprint,
        started_at=at,
        ended_at=None,
        ended_in_doubt=tool.in_doubt,
        retry_announced=False,
    )


def _renewed(
    tool: Tool | None, event: ToolRenewed, at: int | None, fingerprint: str | None
) -> Tool:
    if tool is None or type(tool.status) is not Running:
        raise _illegal(tool, event)
    status = tool.status
    if event.attempt != status.attempt:
        reason = f"attempt {event.attempt} is over: attempt {status.attempt} is under way"
        raise IllegalTransition(status.name, "renewed", tool.id, reason)
    until = renewed_end(status.leased_until, at, event.lease)
    return replace(
        tool,
        status=replace(status, leased_until=until),
        fingerprint=fingerprint or tool.fingerprint,
    )


def _paused(tool: Tool | None, event: ToolPaused, at: int | None, fingerprint: str | None) -> Tool:
    if tool is None or type(tool.status) not in _PAUSABLE:
        raise _illegal(tool, event)
    status = tool.status
    if type(status) is Failed and not tool.retries_on_approval:
        raise _illegal(tool, event)
    waited = status if type(status) is Pending else PENDING
    waits_for_decision = event.until is None
    paused = Pending(event.until, waits_for_decision or waited.needs_decision, event.reason)
    if paused == status and event.attempt in (0, tool.attempts):
        return tool
    under_way = tool.attempts if type(status) is Running else 0
    if event.attempt != under_way:
        raise IllegalTransition(
            status.name,
            "paused",
            tool.id,
            f"attempt {under_way} is under way, and may pause itself: wait for its end"
            if under_way
            else f"attempt {event.attempt} is not under way: start() it first",
        )
    return replace(
        tool,
        status=paused,
        fingerprint=fingerprint or tool.fingerprint,
        decided_at=None if waits_for_decision else tool.decided_at,
        ended_at=at if under_way else tool.ended_at,
        pauses=tool.pauses + 1,
        expires_at=None if waits_for_decision else tool.expires_at,
        retry_announced=False,
    )


def _completed(
    tool: Tool | None, event: ToolCompleted, at: int | None, fingerprint: str | None
) -> Tool:
    if tool is None or type(tool.status) not in _COMPLETABLE:
        if tool is not None and type(tool.status) is Completed:
            if same_json(tool.status.response.result, event.response.result):
                return tool
            raise IllegalTransition(
                "Completed", "completed", tool.id, "the first completion stands: continue with it"
            )
        raise _illegal(tool, event)
    return replace(
        tool,
        status=Completed(event.response, event.synthetic, event.by, event.reason),
        fingerprint=fingerprint or tool.fingerprint,
        ended_at=at,
        ended_in_doubt=False,
        retry_announced=False,
    )


def _failed(tool: Tool | None, event: ToolFailed, at: int | None, fingerprint: str | None) -> Tool:
    if tool is None or type(tool.status) not in _FAILABLE:
        raise _illegal(tool, event)
    is_copy = event.failure.code == FORKED
    if type(tool.status) is Failed and not is_copy and not (_settles(event) and tool.in_doubt):
        if event.failure.code in SETTLEMENTS and tool.status.failure == event.failure:
            return tool
        raise _illegal(tool, event)
    # In a copy, what took effect did so in the origin.
    of_all_attempts = is_copy or event.failure.code in SETTLEMENTS
    # The failure of an imported call that was not started here is its end elsewhere.
    is_one_of_more = tool.attempts > 0 and type(tool.status) is not Failed and not of_all_attempts
    return replace(
        tool,
        status=Failed(event.failure),
        fingerprint=fingerprint or tool.fingerprint,
        ended_at=at,
        ended_in_doubt=event.failure.leaves_doubt or (tool.ended_in_doubt and is_one_of_more),
        retry_announced=event.delay is not None,
    )


def _settles(event: ToolFailed) -> bool:
    """Return whether a failure says that no attempt of its call has taken effect."""
    return event.failure.in_doubt is False


def _rejected(
    tool: Tool | None, event: ToolRejected, at: int | None, fingerprint: str | None
) -> Tool:
    if tool is None or type(tool.status) not in _REJECTABLE:
        raise _illegal(tool, event)
    return replace(
        tool,
        status=Rejected(event.reason, event.source, event.by),
        fingerprint=fingerprint or tool.fingerprint,
        decided_at=at,
        ended_at=at,
        ended_in_doubt=False,
    )


def _illegal(tool: Tool | None, event: ToolEvent) -> IllegalTransition:
    if tool is None:
        return IllegalTransition(
            "unknown", event.tag, event.call_id, "no such call: request() or record() it first"
        )
    return IllegalTransition(tool.status.name, event.tag, tool.id)


Step: TypeAlias = Callable[[Tool | None, Any, int | None, str | None], Tool]
"""What `evolve` does for one class of event; the class is known by the tag."""

STEPS: dict[str, Step] = {
    "pending": _pending,
    "approved": _approved,
    "running": _running,
    "renewed": _renewed,
    "paused": _paused,
    "completed": _completed,
    "failed": _failed,
    "rejected": _rejected,
}
"""Event tag to its step; `evolve` for callers that know the tag already."""

require_tool_event_tags("lifecycle.STEPS", STEPS)
require_tool_event_tags("lifecycle.TRANSITIONS", {ToolPending.tag, *TRANSITIONS})
