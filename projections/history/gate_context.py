"""What gates decide on, from the log: for the next decision, or to repeat a past one.

before = takewhile(lambda recorded: recorded.event is not offered, events)
compose_gates(gates, gate_context(before, offered.available)).offered == offered
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from eventstore import Recorded, ToolGateContext
from eventstore.providers import Turn
from projections.history.projection import model_history

Show: TypeAlias = Callable[[Sequence[Recorded]], Sequence[object]]
"""From events to the messages that a gate sees."""


def _turns(events: Sequence[Recorded]) -> Sequence[Turn]:
    return model_history(events).turns


def gate_context(
    events: Iterable[Recorded], available: Iterable[str], show: Show = _turns
) -> ToolGateContext:
    """Return what gates decide on before the model call that follows `events`.

    The events are of one conversation. `show` makes the context's `messages` of them: the neutral
    turns of `model_history`, unless another function is given.
    """
    log = list(events)
    return ToolGateContext.after(log, available, show(log))
