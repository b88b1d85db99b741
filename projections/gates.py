"""What the gates decide on, from the log: the next decision, or any past one once more.

before = takewhile(lambda recorded: recorded.event is not offered, events)
compose_gates(gates, gate_context(before, offered.available)).offered == offered
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from eventstore import MessageAdded, Recorded, RunStarted, ToolGateContext, ToolPending
from projections.history import model_history

Show = Callable[[Sequence[Recorded]], Sequence[Any]]


def _turns(events: Sequence[Recorded]) -> Sequence[Any]:
    return model_history(events).turns


def gate_context(
    events: Iterable[Recorded], available: Iterable[str], show: Show = _turns
) -> ToolGateContext:
    """What gates decide on before the model call that follows `events`, of one conversation.

    The iteration counts the assistant turns since the run started; where no run is in the log,
    since the last user message. `messages` are what `show` makes of the events: the neutral
    turns of `model_history`, unless another function is given.
    """
    log = list(events)
    return ToolGateContext(
        iteration=len(_turns_of_run(log)),
        messages=show(log),
        conversation_id=log[0].conversation_id if log else None,
        available_tool_names=tuple(available),
    )


def _turns_of_run(log: Sequence[Recorded]) -> set[int]:
    """The numbers of the assistant turns of the run that the log ends in."""
    seen: set[int] = set()
    in_run = False
    for recorded in log:
        event = recorded.event
        if isinstance(event, RunStarted):
            in_run = True
            seen.clear()
        elif isinstance(event, MessageAdded) and event.role == "user" and not in_run:
            seen.clear()
        elif isinstance(event, MessageAdded | ToolPending) and event.turn is not None:
            seen.add(event.turn)
    return seen
