"""Taking members, or a text, out of a payload: a JSON value, which is changed in place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from eventstore.domain.payload_texts import FOREIGN, IDENTIFIERS
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
    In what a model, a tool or a provider wrote, names of members and numbers are text, too. A text
    that is JSON itself is looked into.
    """
    return isinstance(value, dict) and _Cover(text).cover(value)


class _Cover:
    """Covers a text in a JSON value, and in the JSON that its texts hold."""

    def __init__(self, text: re.Pattern[str]) -> None:
        self._text = text
        self._found = False
        self._depth = 0

    def cover(self, value: Any, *, is_foreign: bool = False) -> bool:
        """Cover a value in place; return whether the text stood anywhere."""
        holders: list[tuple[Any, bool]] = [(value, is_foreign)]
        while holders:
            holder, is_foreign = holders.pop()
            if is_foreign and isinstance(holder, dict):
                self._cover_names(holder)
            for key, inner in list(_items(holder)):
                if key in IDENTIFIERS and not is_foreign:
                    continue
                if isinstance(inner, dict | list):
                    holders.append((inner, is_foreign or key in FOREIGN))
                elif isinstance(inner, str):
                    holder[key] = self._covered(inner)
                elif is_foreign and _is_number(inner) and self._text.search(str(inner)):
                    holder[key], self._found = REDACTED, True
        return self._found

    def _cover_names(self, holder: dict[str, Any]) -> None:
        for name in list(holder):
            if (cleaned := self._covered(name)) != name:
                holder[cleaned] = holder.pop(name)

    def _covered(self, string: str) -> str:
        inner = _json_in(string) if self._depth < _MOST_NESTED else None
        if inner is not None:
            within = _Cover(self._text)
            within._depth = self._depth + 1
            if within.cover(inner, is_foreign=True):
                string, self._found = msgspec.json.encode(inner).decode(), True
        cleaned, count = self._text.subn(_covering, string)
        self._found = self._found or count > 0
        return cleaned


def _covering(found: re.Match[str]) -> str:
    if not found[0]:
        raise ValueError(
            f"text {found.re.pattern!r} finds places without a text: pass an expression of what is "
            "to go"
        )
    return REDACTED


def _json_in(string: str) -> Any:
    """Return the object or list that a text holds as JSON; None for any other text."""
    if string.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return msgspec.json.decode(string)
    except (ValueError, RecursionError):  # the errors of msgspec are ValueErrors
        return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_MOST_NESTED = 4
"""How deep JSON in a text in JSON is looked into."""


def _items(holder: Any) -> Iterable[tuple[Any, Any]]:
    return holder.items() if isinstance(holder, dict) else enumerate(holder)
