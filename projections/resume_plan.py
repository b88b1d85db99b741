"""Resume plan: what to do with each call after a crash.

1. A call that never started may be started, once a person has approved it where one must.
2. A call that was deferred is started when its time has come, one that paused until a person
   decides when that has happened.
3. A call that failed is started again only if its next attempt was announced.
4. A call that may have taken effect is never started again without asking the outside system,
   unless its tool is idempotent.
5. A call whose worker has a lease on it is left alone until that is over.
6. A call that completed, was rejected, or failed without a next attempt is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import msgspec

from eventstore import Completed, Failed, Pending, Recorded, Rejected, Running, Tool, ToolEndedLate
from eventstore.domain.one_line import one_line
from eventstore.domain.recovery import (
    Action,
    AttemptTrail,
    OpenAttempt,
    is_attempt_event,
    next_action,
    waits_again,
)
from eventstore.domain.times import Moment, microseconds_of
from eventstore.leases.under_way import is_under_way
from projections.current_tools import CurrentTools
from projections.formatting import NotebookText, utc_text
from projections.projection import Anomaly, Projection


class Step(msgspec.Struct, frozen=True, gc=False):
    """What to do with one call, and the reason.

    - start: it never started, or paused or was deferred and may continue. Start it.
    - retry: it failed, and the next attempt was announced, or its outcome is unknown and it may
      run again. Start it at `not_before` (microseconds since 1970 UTC), if there is one.
    - scheduled: it was deferred. Start it at `not_before`.
    - waiting: it never started or paused, or its approval has expired, and a person has to decide
      first.
    - under_way: a worker has a lease on it, which ends at `not_before`. Leave it alone.
    - unknown: each of `attempts` may have taken effect. Ask the outside system, then complete the
      call, fail it, or start the next attempt.
    - done: there is nothing to do.
    """

    action: Action
    tool: Tool
    reason: str
    conversation_id: str
    not_before: int | None = None
    attempts: tuple[OpenAttempt, ...] = ()

    @property
    def id(self) -> str:
        """The id of the call."""
        return self.tool.id

    def __str__(self) -> str:
        return f"{self.action:9} {one_line(f'{self.id} {self.tool.call.name}', 48)}: {self.reason}"


class ResumePlan(NotebookText, Projection):
    """The plan for every call of a log, in call order, one conversation after the other.

    `needs_approval` returns whether a person has to decide on a pending call. A call for which
    it returns False may be started; without `needs_approval` every pending call waits, except one
    that was deferred until `now` or before. `is_idempotent` returns whether a call of unknown
    outcome may run again; without it none may. Without `now`, a lease counts as over.

    Raises:
        TypeError, ValueError: `now` is not a time.
    """

    def __init__(
        self,
        needs_approval: Callable[[Tool], bool] | None = None,
        *,
        now: Moment | None = None,
        is_idempotent: Callable[[Tool], bool] | None = None,
    ) -> None:
        self._needs_approval = needs_approval
        self._is_idempotent = is_idempotent
        self._now = None if now is None else microseconds_of("now", now)
        self._tools = CurrentTools()
        self._trails: dict[tuple[str, str], AttemptTrail] = {}
        self._late: dict[tuple[str, str], str] = {}

    @property
    def anomalies(self) -> list[Anomaly]:
        """The events that did not fit the log."""
        return self._tools.anomalies

    def apply(self, recorded: Recorded) -> None:
        """Take in one event."""
        event: Any = recorded.event
        if type(event) is ToolEndedLate:
            self._late[recorded.conversation_id, event.call_id] = _late_end(event)
        if not is_attempt_event(event):
            self._tools.apply(recorded)
            return
        key = recorded.conversation_id, event.call_id
        before = self._tools.get(*key)
        self._tools.apply(recorded)
        after = self._tools.get(*key)
        if after is not None and after is not before:
            self._follow_attempts(key, after, event)

    def _follow_attempts(self, key: tuple[str, str], tool: Tool, event: Any) -> None:
        status = tool.status
        if type(status) in (Completed, Rejected):
            self._trails.pop(key, None)
        else:
            self._trails.setdefault(key, AttemptTrail()).follow(tool, event)

    @property
    def steps(self) -> list[Step]:
        """One step for each call."""
        return [self._step(conversation_id, tool) for conversation_id, tool in self._tools.calls()]

    @property
    def safe(self) -> list[Step]:
        """The calls to start: they have not taken effect, or may run again.

        Among them are the deferred calls whose time has come.
        """
        return self._of("start", "retry")

    @property
    def scheduled(self) -> list[Step]:
        """The calls that are deferred to a later time, each with its own time, in call order."""
        return self._of("scheduled")

    @property
    def waiting(self) -> list[Step]:
        """The calls on which a person has to decide first."""
        return self._of("waiting")

    @property
    def under_way(self) -> list[Step]:
        """The calls that a worker has a lease on: leave them alone."""
        return self._of("under_way")

    @property
    def unknown(self) -> list[Step]:
        """The calls that may have taken effect: ask the outside system."""
        return self._of("unknown")

    @property
    def done(self) -> list[Step]:
        """The calls for which there is nothing left to do."""
        return self._of("done")

    def _of(self, *actions: Action) -> list[Step]:
        return [step for step in self.steps if step.action in actions]

    def __str__(self) -> str:
        steps = [step for step in self.steps if step.action != "done"]
        return "\n".join(map(str, steps)) or "nothing to resume"

    def _step(self, conversation_id: str, tool: Tool) -> Step:
        trail = self._trails.get((conversation_id, tool.id))
        action = next_action(
            tool,
            trail,
            self._needs_approval,
            self._now,
            self._is_idempotent,
            partial(self._is_under_way, conversation_id),
        )
        attempts = tuple(trail.attempts) if trail else ()
        reason = self._reason(action, tool, attempts)
        if (late := self._late.get((conversation_id, tool.id))) is not None:
            reason = f"{reason}; {late}"
        due = self._not_before(action, tool, trail)
        return Step(action, tool, reason, conversation_id, due, attempts)

    def _reason(self, action: Action, tool: Tool, attempts: tuple[OpenAttempt, ...]) -> str:
        if action == "under_way":
            return f"attempt {tool.attempts} is under way until {_end_of_lease(tool)} UTC"
        if attempts and action in ("unknown", "retry"):
            return _reason_of_unknown(action, attempts) + self._doubt_of_lease(tool)
        if action == "unknown":
            return "a step of it cannot be read: it may have taken effect"
        if action == "waiting" and waits_again(tool, self._now):
            return "its approval has expired: it waits for a decision"
        return _reason(action, tool)

    def _not_before(self, action: Action, tool: Tool, trail: AttemptTrail | None) -> int | None:
        status = tool.status
        if action == "waiting" and waits_again(tool, self._now):
            return None
        if type(status) is Pending:
            return status.until
        if type(status) is Running and action == "under_way":
            return status.leased_until
        return trail.due if trail else None

    def _is_under_way(self, conversation_id: str, tool: Tool) -> bool:
        return self._now is not None and is_under_way(conversation_id, tool, self._now)

    def _doubt_of_lease(self, tool: Tool) -> str:
        """Return what is to be known of a lease where the time now is not."""
        status = tool.status
        if self._now is not None or type(status) is not Running or status.leased_until is None:
            return ""
        return f", unless it is still under way: its lease ends at {_end_of_lease(tool)} UTC"


def _end_of_lease(tool: Tool) -> str:
    status = tool.status
    return utc_text(status.leased_until or 0) if type(status) is Running else ""


def _late_end(event: ToolEndedLate) -> str:
    end = "failed" if event.failure is not None else "paused"
    end = "completed" if event.response is not None else end
    return f"attempt {event.attempt} {end} after others had taken over"


def _reason(action: Action, tool: Tool) -> str:
    status = tool.status
    if type(status) is Completed:
        return "it completed"
    if type(status) is Rejected:
        return f"it was rejected by {status.by or status.source}"
    if type(status) is Failed:
        failed = f"it failed ({status.failure.kind}): {one_line(status.error, 80)}"
        return f"{failed}; the next attempt was announced" if action == "retry" else failed
    if type(status) is Pending and tool.is_paused:
        return _reason_of_pause(status)
    if not tool.effective_call.is_object:
        return "its arguments are not a JSON object: approve it with others, or fail it"
    return _reason_of_wait(action, tool)


def _reason_of_wait(action: Action, tool: Tool) -> str:
    if type(tool.status) is not Pending:
        return f"it was approved{' after it paused' if tool.attempts else ' and never started'}"
    waits = action == "waiting"
    return f"it never started, and {'waits for a decision' if waits else 'needs no approval'}"


def _reason_of_pause(status: Pending) -> str:
    why = f": {one_line(status.reason, 80)}" if status.reason else ""
    if status.until is None:
        return f"it paused, and waits for a decision{why}"
    return f"it was deferred to {utc_text(status.until)} UTC{why}"


def _reason_of_unknown(action: Action, attempts: tuple[OpenAttempt, ...]) -> str:
    ends = "; ".join(_end(attempt) for attempt in attempts)
    return f"{ends}: it may {'run again' if action == 'retry' else 'have taken effect'}"


_ENDS = {
    "timeout": "timed out",
    "cancelled": "was cancelled",
    "interrupted": "was interrupted",
    "in_doubt": "ended in doubt",
}


def _end(attempt: OpenAttempt) -> str:
    subject = f"attempt {attempt.attempt}" if attempt.attempt else "it"
    if attempt.code is None:
        known = "has no recorded end" if attempt.attempt else "was imported without a result"
        return f"{subject} {known}"
    return f"{subject} {_ENDS.get(attempt.code, f'ended in doubt ({attempt.code})')}"


def resume_plan(
    events: Iterable[Recorded],
    needs_approval: Callable[[Tool], bool] | None = None,
    *,
    now: Moment | None = None,
    is_idempotent: Callable[[Tool], bool] | None = None,
) -> ResumePlan:
    """Return what to do with each call: `safe`, `scheduled`, `waiting`, `unknown` and `done`.

    `needs_approval` returns whether a person has to decide on a pending call; without it every
    pending call waits, except one that was deferred. A deferred call is `scheduled` until `now`, a
    `datetime` with a time zone or microseconds since 1970 UTC. After that it is `safe`, unless
    `needs_approval` says that it waits. Without `now` it stays scheduled. A call that a worker has
    a lease on is `under_way` while `now` is before the end of that, unless the worker was a process
    of this machine that has ended; without `now` it is `unknown`, as its worker may have ended. A
    call that may have taken effect is `unknown`, unless `is_idempotent` says that it may run again:
    it is `safe` then. A `Toolbox` has both functions, `needs_approval_for` and `is_idempotent`. The
    calls that are `waiting` are called `PauseReason::AwaitingApproval` in chat-rs, the `scheduled`
    ones `PauseReason::Scheduled`.

    Raises:
        TypeError, ValueError: `now` is not a time.
    """
    return ResumePlan(needs_approval, now=now, is_idempotent=is_idempotent).extend(events)
