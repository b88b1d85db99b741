"""Recovery: what may be done with a call after a crash, decided from its attempts. Pure.

1. A call that was started and has no recorded end may have taken effect. It is never simply started
   again.
2. An attempt that paused did not run to its end. It leaves nothing unknown.
3. `AttemptTrail` collects the attempts of a call that may have taken effect, event by event.
4. An attempt that a living worker has a lease on is left alone.
5. Nothing starts on an approval that has ended: the call waits for a decision again.
6. `next_action` decides on the call and its trail.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import msgspec

from eventstore.domain.events import (
    ToolCompleted,
    ToolFailed,
    ToolPaused,
    ToolRejected,
    ToolRunning,
)
from eventstore.domain.failure import Failure
from eventstore.domain.statuses import (
    Approved,
    Completed,
    Failed,
    Pending,
    Rejected,
    Running,
    ToolStatus,
)
from eventstore.domain.tool import Tool

Action: TypeAlias = Literal[
    "start", "retry", "scheduled", "waiting", "under_way", "unknown", "done"
]

_ATTEMPT_EVENTS = (ToolRunning, ToolPaused, ToolCompleted, ToolFailed, ToolRejected)


def is_attempt_event(event: object) -> bool:
    """Return whether the event starts, pauses or ends an attempt."""
    return type(event) in _ATTEMPT_EVENTS or getattr(event, "imported", False)


class OpenAttempt(msgspec.Struct, frozen=True, gc=False):
    """An attempt that may have taken effect: its end is not recorded, or its outcome is unknown.

    `arguments` are those really used. `attempt` is 0 and `started_at` None if the start was not
    recorded; `code` is that of the failure with which it ended (cancelled, interrupted, timeout, or
    the other side's), "in_doubt" where that has none, and None without an end.
    """

    attempt: int
    started_at: int | None
    arguments: Any
    code: str | None = None


class AttemptTrail:
    """The attempts of one call that may have taken effect.

    `due` is the announced time of the next attempt, in microseconds since 1970 UTC, or None.
    """

    __slots__ = ("attempts", "due")

    def __init__(self) -> None:
        self.attempts: list[OpenAttempt] = []
        self.due: int | None = None

    def follow(self, tool: Tool, event: Any) -> None:
        """Apply the event; `tool` is the call after it."""
        status = tool.status
        self.due = None
        if type(status) in (Completed, Rejected):
            self.attempts.clear()
        elif type(status) is Running:
            started = OpenAttempt(status.attempt, tool.started_at, status.arguments)
            self.attempts.append(started)
        elif type(status) is Failed:
            self._failed(tool, status.failure, event)
        elif type(event) is ToolPaused:
            if self.attempts and event.attempt == self.attempts[-1].attempt != 0:
                self.attempts.pop()
        else:
            self.attempts.append(OpenAttempt(0, None, tool.effective_call.arguments))

    def _failed(self, tool: Tool, failure: Failure, event: ToolFailed) -> None:
        last = self.attempts.pop() if self.attempts else None
        if failure.leaves_doubt:
            last = last or OpenAttempt(0, None, tool.effective_call.arguments)
            code = failure.code or "in_doubt"
            self.attempts.append(msgspec.structs.replace(last, code=code))
        elif not tool.ended_in_doubt:
            self.attempts.clear()
        if event.delay is not None and tool.ended_at is not None:
            self.due = tool.ended_at + event.delay


def next_action(
    tool: Tool,
    trail: AttemptTrail | None,
    needs_approval: Callable[[Tool], bool] | None = None,
    now: int | None = None,
    is_idempotent: Callable[[Tool], bool] | None = None,
    is_under_way: Callable[[Tool], bool] | None = None,
) -> Action:
    """Return what to do with a call.

    - under_way: a worker has a lease on it, as `is_under_way` returns. Leave it alone.
    - unknown: an attempt may have taken effect. Ask the outside system.
    - retry: the call failed, and the next attempt was announced; or an attempt may have taken
      effect, and `is_idempotent` returns that the call may run again all the same.
    - done: there is nothing to do.
    - scheduled: the call was deferred to a time that has not come. Without `now` (microseconds
      since 1970 UTC) it never has.
    - waiting: the call never started or paused, or its approval has ended by `now` before its next
      attempt began. A person has to decide first, or to correct its arguments.
    - start: the call never started, or its time has come. It may be started.

    `needs_approval` says whether a person has to decide on a pending call; without it every pending
    call waits, except one whose time has come.
    """
    if is_under_way is not None and is_under_way(tool):
        return "under_way"
    is_doubted = tool.ended_in_doubt or bool(trail and trail.attempts)
    if is_doubted and (is_idempotent is None or not is_idempotent(tool)):
        return "unknown"
    if waits_again(tool, now):
        return "waiting"
    if is_doubted and type(tool.status) in (Running, Failed):
        return "unknown" if has_expired(tool, now) else "retry"
    if trail and trail.due is not None:
        return "retry"
    return _next_without_doubt(tool, needs_approval, now)


def _next_without_doubt(
    tool: Tool, needs_approval: Callable[[Tool], bool] | None, now: int | None
) -> Action:
    status = tool.status
    if type(status) in (Completed, Rejected, Failed):
        return "done"
    if not is_due(status, now):
        return "scheduled"
    return "waiting" if _waits_for_person(tool, needs_approval) else "start"


def has_expired(tool: Tool, now: int | None) -> bool:
    """Return whether the approval of a call has ended by `now`, so that nothing starts on it.

    `now` is in microseconds since 1970 UTC; None is before every time.
    """
    return tool.expires_at is not None and now is not None and now >= tool.expires_at


def waits_again(tool: Tool, now: int | None) -> bool:
    """Return whether an approval has ended by `now` before its attempt began; see `has_expired`.

    The attempt may have been deferred, or announced when the one before it failed. The call then
    waits for a decision again. The log has that from the first try to start it on.
    """
    is_to_start = type(tool.status) in (Pending, Approved) or tool.retry_announced
    return is_to_start and has_expired(tool, now)


def _waits_for_person(tool: Tool, needs_approval: Callable[[Tool], bool] | None) -> bool:
    status = tool.status
    if not tool.effective_call.is_object:
        return True
    if type(status) is not Pending:
        return False
    if status.needs_decision:
        return True
    if tool.decided_at is not None:
        return False  # it was approved before it was deferred
    return status.until is None if needs_approval is None else needs_approval(tool)


def is_due(status: ToolStatus, now: int | None) -> bool:
    """Return whether the call is not deferred to a time after `now`; None is before every time."""
    if type(status) is not Pending or status.until is None:
        return True
    return now is not None and now >= status.until
