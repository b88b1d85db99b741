"""What the log says of calls that were left over, and of what the model saw when it made them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from eventstore.dispatch.function_tool import FunctionTool
from eventstore.errors import IllegalTransition
from eventstore.events import (
    MessageAdded,
    Recorded,
    RunStarted,
    ToolEvent,
    ToolPending,
    ToolsOffered,
)
from eventstore.gate import GateDecision, ToolGateContext
from eventstore.recovery import Trail, next_action, tells_of_attempts
from eventstore.tool import Tool, evolve


class Resumption:
    """The calls of a conversation that are not done, as `resume_plan` sorts them.

    - `open`: all of them, in call order.
    - `started`: the ids of those with an attempt behind them. Of these `doubtful` may have taken
      effect, and `due` says when the next attempt of a call was announced for.
    - `offered`: what the gates had allowed, by turn; `spent`: how many counted calls a turn has
      used up.
    """

    def __init__(self, events: Iterable[Recorded], tools: Mapping[str, FunctionTool]) -> None:
        self._calls: dict[str, Tool] = {}
        self._trails: dict[str, Trail] = {}
        self._offer: GateDecision | None = None
        self._turns: list[int] = []
        self.offered: dict[int, GateDecision] = {}
        for recorded in events:
            self._apply(recorded)
        self.open: list[Tool] = []
        self.started: set[str] = set()
        self.doubtful: set[str] = set()
        self.due: dict[str, int] = {}
        self.spent: Counter[int] = Counter()
        for tool in sorted(self._calls.values(), key=lambda tool: (tool.turn, tool.index)):
            self._sort(tool, tools.get(tool.call.name))

    def _apply(self, recorded: Recorded) -> None:
        event: Any = recorded.event
        if isinstance(event, ToolsOffered):
            self._offered(event, recorded.conversation_id)
        elif isinstance(event, RunStarted):
            self._turns.clear()
        elif isinstance(event, MessageAdded | ToolPending) and event.turn is not None:
            self._made(event.turn)
        if isinstance(event, ToolEvent) and event.call_id:
            with suppress(IllegalTransition):
                self._evolve(recorded, event)

    def _offered(self, event: ToolsOffered, conversation_id: str) -> None:
        """An offer is for the turn to come, or for the last one where it was made late."""
        allowed = None if event.allowed is None else frozenset(event.allowed)
        context = ToolGateContext(event.iteration, (), conversation_id, event.available)
        decision = GateDecision(context, allowed, event.gates)
        last = self._turns[-1] if self._turns else None
        if last is not None and last not in self.offered and event.iteration < len(self._turns):
            self.offered[last] = decision
        else:
            self._offer = decision

    def _made(self, turn: int) -> None:
        if turn in self._turns:
            return
        self._turns.append(turn)
        if self._offer is not None:
            self.offered[turn] = self._offer
            self._offer = None

    def _evolve(self, recorded: Recorded, event: Any) -> None:
        before = self._calls.get(event.call_id)
        tool = evolve(before, event, recorded.recorded_at, recorded.fingerprint)
        if tool is not before:
            self._calls[tool.id] = tool
            if tells_of_attempts(event):
                self._trails.setdefault(tool.id, Trail()).follow(tool, event)

    def _sort(self, tool: Tool, spec: FunctionTool | None) -> None:
        trail = self._trails.get(tool.id)
        action = next_action(tool, trail)
        if action in ("unknown", "retry"):
            self.started.add(tool.id)
        if action == "unknown":
            self.doubtful.add(tool.id)
        elif action == "retry" and trail is not None and trail.due is not None:
            self.due[tool.id] = trail.due
        if action != "done":
            self.open.append(tool)
        if tool.attempts and spec is not None and spec.counted and not spec.parallel:
            self.spent[tool.turn] += 1
