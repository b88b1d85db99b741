"""Checks of gates, before one of them decides anything.

1. A gate is an object and not a class, and has an `allowlist`. `ToolGate` refuses to make a gate
   without one, as its method is abstract.
2. A member under the name that it has in clark-agent would have no effect. Its class is refused,
   unless the class also defines the name that is asked for.
3. The methods of a gate may be async only where they are awaited: in an `AsyncDispatcher`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import TypeGuard

GATE_METHODS = ("allowlist", "denial_reason", "suppresses_advisory_gates")

_CLARK_NAMES = {
    "next_turn_tool_allowlist": "allowlist",
    "conflict_priority": "priority",
    "tool_gate_class": "gate_class",
}
"""What clark-agent calls the members of a gate, and what they are called here."""


def gate_name(gate: object) -> str:
    """Return the name of a gate in recorded decisions: its own, otherwise that of its class."""
    return str(getattr(gate, "name", None) or type(gate).__name__)


def check_gate_class(cls: type) -> None:
    """Raise an error if the class itself defines a member under a name that has no effect.

    Raises:
        TypeError: the name is that of clark-agent, and the one that is asked for is not defined.
    """
    own = vars(cls)
    for name, meant in _CLARK_NAMES.items():
        if name in own and meant not in own:
            raise TypeError(
                f"{name} of gate {cls.__name__} would have no effect: rename it to {meant}"
            )


def check_gate(gate: object) -> None:
    """Raise an error unless the object is a gate with a rule.

    Raises:
        TypeError: it is a class, it has no `allowlist`, or a member would have no effect.
    """
    if isinstance(gate, type):
        raise TypeError(f"gate {gate.__name__} is a class: pass an object of it")
    check_gate_class(type(gate))
    if not callable(getattr(gate, "allowlist", None)):
        raise TypeError(
            f"{gate!r} is not a gate: give it allowlist(context), or derive from ToolGate"
        )


def check_sync_gate(gate: object) -> None:
    """Raise an error if a method of the gate is a coroutine function.

    Raises:
        TypeError: it has to be awaited.
    """
    for method in GATE_METHODS:
        if inspect.iscoroutinefunction(getattr(gate, method, None)):
            raise _needs_await(gate, method)


def sync_answer(gate: object, method: str, answer: object) -> object:
    """Return the answer of a gate, which must be there at once.

    Raises:
        TypeError: it has to be awaited.
    """
    if not is_awaitable(answer):
        return answer
    if inspect.iscoroutine(answer):
        answer.close()  # otherwise Python warns that it was never awaited
    raise _needs_await(gate, method)


def is_awaitable(answer: object) -> TypeGuard[Awaitable[object]]:
    """Return whether an answer has to be awaited."""
    return hasattr(answer, "__await__")


def _needs_await(gate: object, method: str) -> TypeError:
    return TypeError(
        f"{method}() of gate {gate_name(gate)!r} is async: pass the gate to an AsyncDispatcher, or "
        "give it a method that is not async"
    )
