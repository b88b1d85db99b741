"""What the gates decide on, from the log: the next decision, or any past one once more.

before = takewhile(lambda recorded: recorded.event is not offered, events)
compose_gates(gates, gate_context(before, offered.available)).offered == offered
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from eventstore import Recorded, ToolGateContext
from projections.history import model_history

Show = Callable[[Sequence[Recorded]], Sequence[Any]]


def _turns(events: Sequence[Recorded]) -> Sequence[Any]:
    return model_history(events).turns


def gate_context(
    events: Iterable[Recorded], available: Iterable[str], show: Show = _turns
) -> ToolGateContext:
    """What gates decide on before the model call that follows `events`, of one conversation.

    `ToolGateContext.after`, and what `show` makes of the events for the `messages`: the neutral
    turns of `model_history`, unless another function is given.
    """
    log = list(events)
    return ToolGateContext.after(log, available, show(log))
