"""`OpenCalls`: the calls that a crash left open, and the offers of their turns, from the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from eventstore.dispatch.function_tool import AnyFunctionTool
from eventstore.domain.events import (
    MessageAdded,
    Recorded,
    RunStarted,
    ToolEvent,
    ToolPending,
)
from eventstore.domain.lifecycle import evolve
from eventstore.domain.recovery import AttemptTrail, is_attempt_event, next_action
from eventstore.domain.statuses import Approved, Pending, Rejected
from eventstore.domain.tool import Tool
from eventstore.domain.tools_offered import ToolsOffered
from eventstore.errors import IllegalTransition
from eventstore.policies.gates import GateDecision, ToolGateContext


class OpenCalls:
    """The calls of a conversation that are not done, as `resume_plan` sorts them.

    - `tools`: all of them, in call order. `is_under_way` says which of them a living worker is at.
    - `started`: the ids of the others that were started. Of these, the calls in `unknown_outcome`
      may have taken effect, and `due` has the announced time of the next attempt of a call, in
      microseconds since 1970 UTC.
    - `offered`: the decisions of the gates, by turn.
    - `answered_calls`: how many calls of a turn were started or answered. `counted_calls` of them
      count for the limit of the turn: those that the limit itself rejected do not.
    """

    def __init__(
        self,
        events: Iterable[Recorded],
        tools: Mapping[str, AnyFunctionTool],
        is_under_way: Callable[[Tool], bool],
    ) -> None:
        self._is_under_way = is_under_way
        self._calls: dict[str, Tool] = {}
        self._trails: dict[str, AttemptTrail] = {}
        self._offer: GateDecision | None = None
        self._turns: list[int] = []
        self.offered: dict[int, GateDecision] = {}
        for recorded in events:
            self._apply(recorded)
        self.tools: list[Tool] = []
        self.started: set[str] = set()
        self.unknown_outcome: set[str] = set()
        self.due: dict[str, int] = {}
        self.answered_calls: Counter[int] = Counter()
        self.counted_calls: Counter[int] = Counter()
        for tool in sorted(self._calls.values(), key=lambda tool: (tool.turn, tool.index)):
            self._sort(tool, tools.get(tool.call.name))

    def _apply(self, recorded: Recorded) -> None:
        event = recorded.event
        if isinstance(event, ToolsOffered):
            self._take_offer(event, recorded.conversation_id)
        elif isinstance(event, RunStarted):
            self._turns.clear()
        elif isinstance(event, MessageAdded | ToolPending) and event.turn is not None:
            self._take_turn(event.turn)
        if isinstance(event, ToolEvent) and event.call_id:
            with suppress(IllegalTransition):
                self._evolve(recorded, event)

    def _take_offer(self, event: ToolsOffered, conversation_id: str) -> None:
        """Keep an offer for the next turn, or for the last one if it was made late."""
        allowed = None if event.allowed is None else frozenset(event.allowed)
        context = ToolGateContext(event.iteration, (), conversation_id, event.available)
        decision = GateDecision(context, allowed, event.gates)
        last = self._turns[-1] if self._turns else None
        if last is not None and last not in self.offered and event.iteration < len(self._turns):
            self.offered[last] = decision
        else:
            self._offer = decision

    def _take_turn(self, turn: int) -> None:
        if turn in self._turns:
            return
        self._turns.append(turn)
        if self._offer is not None:
            self.offered[turn] = self._offer
            self._offer = None

    def _evolve(self, recorded: Recorded, event: ToolEvent) -> None:
        before = self._calls.get(event.call_id)
        tool = evolve(before, event, recorded.time, recorded.fingerprint)
        if tool is not before:
            self._calls[tool.id] = tool
            if is_attempt_event(event):
                self._trails.setdefault(tool.id, AttemptTrail()).follow(tool, event)

    def _sort(self, tool: Tool, definition: AnyFunctionTool | None) -> None:
        trail = self._trails.get(tool.id)
        action = next_action(tool, trail, is_under_way=self._is_under_way)
        if action in ("unknown", "retry"):
            self.started.add(tool.id)
        if action == "unknown":
            self.unknown_outcome.add(tool.id)
        elif action == "retry" and trail is not None and trail.due is not None:
            self.due[tool.id] = trail.due
        if action != "done":
            self.tools.append(tool)
        status = tool.status
        if type(status) in (Pending, Approved):
            return  # it has not started, or paused
        self.answered_calls[tool.turn] += 1
        is_beyond_limit = type(status) is Rejected and status.source == "limit"
        if definition is not None and definition.is_counted and not is_beyond_limit:
            self.counted_calls[tool.turn] += 1
