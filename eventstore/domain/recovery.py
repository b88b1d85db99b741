"""What may be done with a call after a crash: a pure decision on what its attempts left behind.

A started call whose outcome nobody knows may have taken effect, so it is never simply started
again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import msgspec

from eventstore.events import ToolCompleted, ToolFailed, ToolRejected, ToolRunning
from eventstore.failure import Failure
from eventstore.tool import Completed, Failed, Pending, Rejected, Running, Tool

Action: TypeAlias = Literal["start", "retry", "waiting", "unknown", "done"]

_TELLING = (ToolRunning, ToolCompleted, ToolFailed, ToolRejected)
_UNKNOWN_OUTCOMES = frozenset({"cancelled", "interrupted", "timeout"})


def outcome_unknown(failure: Failure) -> bool:
    """Whether nobody knows if the failed attempt took effect."""
    return failure.code in _UNKNOWN_OUTCOMES


def unknown_outcome(error: BaseException) -> str | None:
    """The code of an end after which nobody knows whether the call took effect."""
    if isinstance(error, TimeoutError):
        return "timeout"
    if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit):
        return "interrupted"
    # by name: asyncio is not loaded for this
    return "cancelled" if type(error).__name__ == "CancelledError" else None


def tells_of_attempts(event: object) -> bool:
    """Whether a `Trail` has to follow the event."""
    return type(event) in _TELLING or getattr(event, "imported", False)


class OpenAttempt(msgspec.Struct, frozen=True, gc=False):
    """An attempt that may have taken effect: nobody recorded how it ended.

    `arguments` are those really used. `attempt` is 0 and `started_at` None where the start was
    not recorded; `code` is cancelled, interrupted or timeout where that is how it ended.
    """

    attempt: int
    started_at: int | None
    arguments: Any
    code: str | None = None


class Trail:
    """What is left over from the attempts of one call.

    `attempts` may have taken effect; `due` is when the next one was announced for, in
    microseconds since 1970 UTC.
    """

    __slots__ = ("attempts", "due")

    def __init__(self) -> None:
        self.attempts: list[OpenAttempt] = []
        self.due: int | None = None

    def follow(self, tool: Tool, event: Any) -> None:
        """Take in the event that made `tool` what it is."""
        status = tool.status
        self.due = None
        if type(status) in (Completed, Rejected):
            self.attempts.clear()
        elif type(status) is Running:
            started = OpenAttempt(status.attempt, tool.started_at, status.arguments)
            self.attempts.append(started)
        elif type(status) is Failed:
            self._failed(tool, status.failure, event)
        else:
            self.attempts.append(OpenAttempt(0, None, tool.effective_call.arguments))

    def _failed(self, tool: Tool, failure: Failure, event: ToolFailed) -> None:
        last = self.attempts.pop() if self.attempts else None
        if outcome_unknown(failure):
            last = last or OpenAttempt(0, None, tool.effective_call.arguments)
            self.attempts.append(msgspec.structs.replace(last, code=failure.code))
        if event.delay is not None and tool.ended_at is not None:
            self.due = tool.ended_at + event.delay


def next_action(
    tool: Tool, trail: Trail | None, needs_approval: Callable[[Tool], bool] | None = None
) -> Action:
    """What to do with a call.

    - unknown: an attempt may have taken effect. Ask the outside system.
    - retry: it failed, and the next attempt was announced.
    - done: there is nothing to do.
    - waiting: it never started, and a person has to decide first, or to mend its arguments.
    - start: it never started, and may.

    `needs_approval` tells of a pending call whether a person has to decide; without it every
    pending call waits.
    """
    if trail and trail.attempts:
        return "unknown"
    if trail and trail.due is not None:
        return "retry"
    status = tool.status
    if type(status) in (Completed, Rejected, Failed):
        return "done"
    if not tool.effective_call.is_object:
        return "waiting"
    if type(status) is Pending and (needs_approval is None or needs_approval(tool)):
        return "waiting"
    return "start"
