"""`ToolOffers`: the tools that the model may see, and could see when it made the calls of a turn.

1. An offer is the decision of the gates before a model call. It is recorded.
2. It is valid for one turn: the first one that is dispatched after it.
3. A turn without an offer gets one before it is dispatched, in the context of its model call.
4. After a crash the offers come from the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from eventstore.dispatch.decisions import Reject
from eventstore.dispatch.effects import Workflow, read
from eventstore.policies.gates import composing, denial_details

if TYPE_CHECKING:
    from eventstore.dispatch.batch import DispatchedCall
    from eventstore.dispatch.call_log import CallLog
    from eventstore.dispatch.function_tool import AnyFunctionTool
    from eventstore.dispatch.host_errors import HostErrors
    from eventstore.dispatch.options import DispatcherOptions
    from eventstore.domain.events import Recorded
    from eventstore.policies.gates import DenialPolicy, GateDecision, ToolGateContext


class ToolOffers:
    """The last offer of a dispatcher, and the turn that it is for."""

    def __init__(
        self,
        log: CallLog,
        options: DispatcherOptions,
        names: tuple[str, ...],
        events: Callable[[], Iterable[Recorded]],
        errors: HostErrors,
    ) -> None:
        self._log = log
        self._errors = errors
        self._options = options
        self._names = names
        self._events = events
        self._decision: GateDecision | None = None
        self._turn: int | None = None

    def offer(self, context: ToolGateContext | None) -> Workflow[GateDecision]:
        """Decide what the next model call may see, and record it."""
        if context is None:
            context = yield from read(
                lambda: self._options.gate_context(self._events(), self._names)
            )
        decision = yield from self._decide(context)
        self._decision, self._turn = decision, None
        return decision

    def of_turn(
        self, turn: int, logged: dict[int, GateDecision] | None
    ) -> Workflow[GateDecision | None]:
        """Return what the model could see when it made the calls of a turn; None for everything.

        `logged` are the offers in the log, after a crash.
        """
        if self._decision is not None and logged is None and self._turn is None:
            self._turn = turn
        if self._decision is not None and self._turn == turn:
            return self._decision
        if logged and turn in logged:
            return logged[turn]
        if not self._options.gates:
            return None
        context = yield from read(
            lambda: self._options.gate_context(self._events_before(turn), self._names)
        )
        decision = yield from self._decide(context)
        if logged is None:
            self._decision, self._turn = decision, turn
        else:
            logged[turn] = decision
        return decision

    def denial(
        self, decision: GateDecision, definition: AnyFunctionTool, call: DispatchedCall
    ) -> Workflow[Reject | None]:
        """Return the rejection of a call to a tool that the model could not see, if it could not.

        The reason is that of a gate, if one gives a reason; then that of the tool.
        """
        if decision.allows(definition.name):
            return None
        policy = self._options.denial if definition.denial is None else _own(definition.denial)
        questions = decision.denying(definition.name, self._options.gates, policy)
        denial = yield from self._errors.asking_gates(questions, call)
        return None if denial is None else Reject(denial.text, denial.gate, denial.details, "gate")

    def _decide(self, context: ToolGateContext) -> Workflow[GateDecision]:
        options = self._options
        questions = composing(options.gates, context, options.on_all_empty)
        decision = yield from self._errors.asking_gates(questions)
        yield from self._log.append(decision.offered)
        return decision

    def _events_before(self, turn: int) -> list[Recorded]:
        events: list[Recorded] = []
        for recorded in self._events():
            if getattr(recorded.event, "turn", None) == turn:
                break
            events.append(recorded)
        return events


def _own(text: str) -> DenialPolicy:
    """Return the policy of a tool that has a text of its own."""
    return lambda name, decision: (text, denial_details(name, decision))
