"""Taking members, or a text, out of a payload: a JSON value, which is changed in place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
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


def without_text(value: Any, text: re.Pattern[str]) -> tuple[Any, bool]:
    """Return a JSON value with `REDACTED` wherever a text stands in a string or a key of it.

    Also whether it stood there.
    """
    found = False

    def covered(string: str) -> str:
        nonlocal found
        cleaned, count = text.subn(REDACTED, string)
        found = found or count > 0
        return cleaned

    # Values nest 200 levels deep at most, but one stack frame for each is more than need be.
    top: list[Any] = [value]
    holders: list[Any] = [top]
    while holders:
        holder = holders.pop()
        if isinstance(holder, dict):
            for key in list(holder):
                if (name := covered(key)) != key:
                    holder[name] = holder.pop(key)
        for key, inner in list(_items(holder)):
            if isinstance(inner, str):
                holder[key] = covered(inner)
            elif isinstance(inner, dict | list):
                holders.append(inner)
    return top[0], found


_items: Callable[[Any], Any] = lambda holder: (  # noqa: E731
    holder.items() if isinstance(holder, dict) else enumerate(holder)
)
