"""Checks of gates, before one of them decides anything.

1. A gate has an `allowlist` of its own. One without it (its rule is under another name) would allow
   every tool, so it is refused.
2. What clark-agent names otherwise, and a method whose name is nearly that of a gate's, is refused
   where it would have no effect: `denial_reasons` for `denial_reason`. Other methods are the gate's
   own business, and so is such a name beside the right one.
3. A gate is an object and not a class.
4. The methods of a gate may be async only where they are awaited: in an `AsyncDispatcher`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeGuard

GATE_METHODS = ("allowlist", "denial_reason", "suppresses_advisory_gates")

_MEANT = {
    "allow_list": "allowlist",
    "denial": "denial_reason",
    "next_turn_tool_allowlist": "allowlist",
    "conflict_priority": "priority",
    "tool_gate_class": "gate_class",
}
"""Names that are easily taken for those of a gate."""

_SIMILAR = 0.55  # `allow_tools` is, `show` is not
_NEARLY_EQUAL = 0.8  # `deny_reason` is, `denials` and `advisory_gates` are not


def gate_name(gate: object) -> str:
    """Return the name of a gate in recorded decisions: its own, otherwise that of its class."""
    return str(getattr(gate, "name", None) or type(gate).__name__)


def check_gate_class(cls: type) -> None:
    """Raise an error unless the class defines a rule, under the names that are asked for.

    Raises:
        TypeError: it has no `allowlist` of its own, or a name that would have no effect.
    """
    if _has_rule(cls):
        _check_names(cls)
        return
    near = _similar_method(cls)
    remedy = (
        f"rename its {near}() to allowlist()"
        if near
        else "define allowlist(self, context), which returns the names of the tools to show, or "
        "None for no opinion"
    )
    raise TypeError(
        f"gate {cls.__name__} has no allowlist() of its own, and would allow every tool: {remedy}"
    )


def check_gate(gate: object) -> None:
    """Raise an error unless the object is a gate with a rule.

    Raises:
        TypeError: it is a class, it has no `allowlist` of its own, or it has a name that would have
            no effect.
    """
    if isinstance(gate, type):
        raise TypeError(f"gate {gate.__name__} is a class: pass an object of it")
    if _has_rule(gate):
        _check_names(type(gate))
        return
    if hasattr(gate, "allowlist") or _similar_method(type(gate)):
        check_gate_class(type(gate))
    raise TypeError(f"{gate!r} is not a gate: give it allowlist(context), or derive from ToolGate")


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


def _has_rule(gate: object) -> bool:
    rule: Callable[..., object] | None = getattr(gate, "allowlist", None)
    return callable(rule) and not getattr(rule, "__isabstractmethod__", False)


def _check_names(cls: type) -> None:
    """Raise an error for a misnamed member, unless the class also has it under the right name."""
    for place, owner in enumerate(cls.__mro__):
        for name, value in vars(owner).items():
            meant = _meant(name, value)
            if meant and not any(meant in vars(c) for c in cls.__mro__[: place + 1]):
                raise TypeError(
                    f"{name} of gate {cls.__name__} would have no effect: rename it to {meant}"
                )


def _meant(name: str, value: object) -> str | None:
    """Return the name of a gate's member for which another was probably taken, if any."""
    if name in _MEANT:
        return _MEANT[name]
    if name in GATE_METHODS or name.startswith("_") or not callable(value):
        return None
    return _nearest(name, GATE_METHODS, _NEARLY_EQUAL)


def _similar_method(cls: type) -> str | None:
    """Return the method of a class that was probably meant to be `allowlist`, if any."""
    names = [
        name
        for name in dir(cls)
        if not name.startswith("__") and name not in GATE_METHODS and callable(getattr(cls, name))
    ]
    return _nearest("allowlist", names, _SIMILAR)


def _nearest(name: str, others: Iterable[str], similarity: float) -> str | None:
    """Return which of the other names is nearest, underscores and case aside, if one is near."""
    from difflib import get_close_matches  # seldom needed

    plain = {other.replace("_", "").lower(): other for other in others}
    found = get_close_matches(name.replace("_", "").lower(), plain, n=1, cutoff=similarity)
    return plain[found[0]] if found else None
