"""Taking members, or a text, out of a payload: a JSON value, which is changed in place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from eventstore.domain.redaction import REDACTED

Steps = Sequence[str | int | None]
"""Keys, places in lists, and None for every place of a list."""

_PLACES = re.compile(r"\[(\d+|\*)\]")

_STARTS: dict[str, dict[str, Steps]] = {
    "arguments": {
        "pending": ("call", "arguments"),
        "approved": ("edited_call", "arguments"),
        "running": ("arguments",),
    },
    "result": {
        "completed": ("response", "result"),
        "ended_late": ("response", "result"),
    },
}
"""Where a path's first name leads to in the payload of an event, by tag."""


def steps_of(path: str, tag: str) -> Steps | None:
    """Return the steps of a path in the payload of an event; None where it has no such member."""
    steps: list[str | int | None] = []
    for part in path.split("."):
        name, *_ = part.split("[", 1)
        steps.append(name)
        steps += [None if at == "*" else int(at) for at in _PLACES.findall(part)]
    start = _STARTS.get(str(steps[0]))
    if start is None:
        return steps
    return (*start[tag], *steps[1:]) if tag in start else None


def without_member(value: Any, steps: Steps) -> bool:
    """Put `REDACTED` in the place of what the steps lead to; return whether there was any."""
    *before, last = steps
    found = False
    for holder in list(_reached(value, before)):
        for key in _keys(holder, last):
            if holder[key] != REDACTED:
                holder[key] = REDACTED
                found = True
    return found


def _reached(value: Any, steps: Steps) -> Iterator[Any]:
    if not steps:
        yield value
        return
    for key in _keys(value, steps[0]):
        yield from _reached(value[key], steps[1:])


def _keys(value: Any, step: str | int | None) -> Sequence[Any]:
    if isinstance(value, dict):
        return (step,) if step in value else ()
    if isinstance(value, list):
        if step is None:
            return range(len(value))
        return (step,) if isinstance(step, int) and step < len(value) else ()
    return ()


def without_text(value: Any, text: re.Pattern[str]) -> bool:
    """Put `REDACTED` wherever a text stands in a payload; return whether it stood anywhere.

    The form of the payload stays: its own members have their names, and identifiers their values.
    In what a model, a tool or a provider wrote, names of members are text, too.
    """
    found = False

    def covered(string: str) -> str:
        nonlocal found
        cleaned, count = text.subn(REDACTED, string)
        found = found or count > 0
        return cleaned

    holders: list[tuple[Any, bool]] = [(value, False)]
    while holders:
        holder, is_foreign = holders.pop()
        if isinstance(holder, dict) and is_foreign:
            for name in list(holder):
                if (cleaned := covered(name)) != name:
                    holder[cleaned] = holder.pop(name)
        for key, inner in list(_items(holder)):
            if key in _IDENTIFIERS and not is_foreign:
                continue
            if isinstance(inner, str):
                holder[key] = covered(inner)
            elif isinstance(inner, dict | list):
                holders.append((inner, is_foreign or key in _FOREIGN))
    return found


_IDENTIFIERS = frozenset(
    {
        *("call_id", "id", "parent_call_id", "parent_conversation_id", "provider_call_id"),
        *("response_id", "results", "name", "available", "allow", "allowed", "step", "worker"),
        *("axis", "code", "decision", "kind", "role", "source", "type", "provider", "model"),
        *("asked", "gate", "hook"),
    }
)
"""Members of payloads whose texts are identifiers, and words of a fixed set."""

_FOREIGN = frozenset({"arguments", "conflict", "data", "details", "native", "result"})
"""Members of payloads that hold JSON values which others wrote."""


def _items(holder: Any) -> Iterable[tuple[Any, Any]]:
    return holder.items() if isinstance(holder, dict) else enumerate(holder)
