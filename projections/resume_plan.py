"""What to do with each call after a crash: start it, wait for a person, or ask about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from eventstore import (
    Completed,
    Failed,
    Pending,
    Recorded,
    Rejected,
    Tool,
)
from eventstore.recovery import Action, OpenAttempt, Trail, next_action, tells_of_attempts
from projections.fold import Anomaly, Projection
from projections.text import one_line
from projections.tools import CurrentTools


class Step(msgspec.Struct, frozen=True, gc=False):
    """What to do with one call, and why.

    - start: it never started. Start it.
    - retry: it failed, and the next attempt was announced. Start it at `not_before` (microseconds
      since 1970 UTC).
    - waiting: it never started, and a person has to decide first.
    - unknown: each of `attempts` may have taken effect. Ask the outside system, then complete it,
      fail it, or start the next attempt.
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
        return f"{self.action:8} {one_line(f'{self.id} {self.tool.call.name}', 48)}: {self.reason}"


class ResumePlan(Projection):
    """The plan for every call of a log, in call order, one conversation after the other.

    `needs_approval` tells of a pending call whether a person has to decide; without it every
    pending call waits. One that it lets through may be started.
    """

    def __init__(self, needs_approval: Callable[[Tool], bool] | None = None) -> None:
        self._needs_approval = needs_approval
        self._tools = CurrentTools()
        self._trails: dict[tuple[str, str], Trail] = {}

    @property
    def anomalies(self) -> list[Anomaly]:
        """The events that did not fit the log."""
        return self._tools.anomalies

    def apply(self, recorded: Recorded) -> None:
        """Take in one event."""
        event: Any = recorded.event
        if not tells_of_attempts(event):
            self._tools.apply(recorded)
            return
        key = recorded.conversation_id, event.call_id
        before = self._tools.get(*key)
        self._tools.apply(recorded)
        after = self._tools.get(*key)
        if after is not None and after is not before:
            self._follow(key, after, event)

    def _follow(self, key: tuple[str, str], tool: Tool, event: Any) -> None:
        status = tool.status
        if type(status) in (Completed, Rejected):
            self._trails.pop(key, None)
        else:
            self._trails.setdefault(key, Trail()).follow(tool, event)

    @property
    def steps(self) -> list[Step]:
        """One step for each call."""
        return [self._step(conversation_id, tool) for conversation_id, tool in self._tools.calls()]

    @property
    def safe(self) -> list[Step]:
        """The calls to start now: nothing of them can have taken effect, or they may be retried."""
        return self._of("start", "retry")

    @property
    def waiting(self) -> list[Step]:
        """The calls that wait for a person."""
        return self._of("waiting")

    @property
    def unknown(self) -> list[Step]:
        """The calls that may have taken effect: ask the outside system."""
        return self._of("unknown")

    @property
    def done(self) -> list[Step]:
        """The calls that nothing is left to do for."""
        return self._of("done")

    def _of(self, *actions: Action) -> list[Step]:
        return [step for step in self.steps if step.action in actions]

    def __str__(self) -> str:
        steps = [step for step in self.steps if step.action != "done"]
        return "\n".join(map(str, steps)) or "nothing to resume"

    def _step(self, conversation_id: str, tool: Tool) -> Step:
        trail = self._trails.get((conversation_id, tool.id))
        action = next_action(tool, trail, self._needs_approval)
        doubts = tuple(trail.attempts) if trail else ()
        reason = _doubt(doubts) if doubts else _reason(action, tool)
        due = trail.due if trail else None
        return Step(action, tool, reason, conversation_id, due, doubts)


def _reason(action: Action, tool: Tool) -> str:
    status = tool.status
    if type(status) is Completed:
        return "it completed"
    if type(status) is Rejected:
        return f"it was rejected by {status.by or status.source}"
    if type(status) is Failed:
        failed = f"it failed ({status.failure.kind}): {one_line(status.error, 80)}"
        return f"{failed}; the next attempt was announced" if action == "retry" else failed
    if not tool.effective_call.is_object:
        return "its arguments are no JSON object: approve it with others, or fail it"
    if type(status) is not Pending:
        return "it was approved and never started"
    undecided = action == "waiting"
    return f"it never started, and {'nobody has decided' if undecided else 'needs no approval'}"


def _doubt(attempts: tuple[OpenAttempt, ...]) -> str:
    ends = "; ".join(_end(attempt) for attempt in attempts)
    return f"{ends}: it may have taken effect"


def _end(attempt: OpenAttempt) -> str:
    subject = f"attempt {attempt.attempt}" if attempt.attempt else "it"
    if attempt.code is None:
        known = "has no recorded end" if attempt.attempt else "was imported without a result"
        return f"{subject} {known}"
    return f"{subject} {'timed out' if attempt.code == 'timeout' else 'was ' + attempt.code}"


def resume_plan(
    events: Iterable[Recorded], needs_approval: Callable[[Tool], bool] | None = None
) -> ResumePlan:
    """What to do with each call of `events`: a plan with `safe`, `waiting`, `unknown`, `done`.

    `needs_approval` tells of a pending call whether a person has to decide; without it every
    pending call waits.
    """
    return ResumePlan(needs_approval).extend(events)
