"""Calls whose arguments come in pieces, each with the path where it belongs.

1. The first piece names the call; a piece with `willContinue` on the call says that more follow.
2. A piece of arguments has a JSON path (`$.items[0].name`) and a value; of a text with
   `willContinue`, the next piece continues.
3. A piece without a name ends the call, unless it says that more follow.
4. A call that has not ended keeps what came as text: it must not run as if it were whole.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

import msgspec

from eventstore.domain.json_types import JsonObject, JsonValue

_STEPS: Final = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,6})\]|\[['"](.{0,300}?)['"]\]""")
_MAX_WHOLE: Final = 2**53
"""Above it a float does not say which whole number was meant."""
_VALUES: Final = ("stringValue", "numberValue", "boolValue", "nullValue")

_encode = msgspec.json.Encoder(order="deterministic").encode


class PartialArguments:
    """The call that is under way, if one is."""

    def __init__(self) -> None:
        self._part: JsonObject = {}
        self._key = ""
        self._arguments: JsonObject = {}

    def add(self, part: JsonObject, key: str) -> list[JsonObject]:
        """Take in a part with a call in its member `key`; return it, once it is whole."""
        call = {_camel_case(name): value for name, value in part[key].items()}
        if "partialArgs" not in call and "willContinue" not in call and not self._part:
            return [part]
        if not self._part:
            head = {k: v for k, v in call.items() if k not in ("partialArgs", "willContinue")}
            self._part, self._key, self._arguments = {**part, key: head}, key, {}
        pieces: JsonValue = call.get("partialArgs")
        for piece in pieces if isinstance(pieces, list) else ():
            if isinstance(piece, dict):
                _place(self._arguments, {_camel_case(k): v for k, v in piece.items()})
        if call.get("willContinue"):
            return []
        whole = {**self._part, self._key: {**self._part[self._key], "args": self._arguments}}
        self._part = {}
        return [whole]

    def unfinished(self) -> list[JsonObject]:
        """Return the call that has not ended, with the text of its arguments."""
        if not self._part:
            return []
        written = _encode(self._arguments).decode()
        return [{**self._part, self._key: {**self._part[self._key], "args": written}}]


def _place(arguments: JsonObject, piece: JsonObject) -> None:
    """Put the value of a piece where its path says; a path that leads nowhere is passed over."""
    path = piece.get("jsonPath")
    kind = next((kind for kind in _VALUES if kind in piece), None)
    steps = _steps(path) if isinstance(path, str) else []
    if kind is None or not steps:
        return
    value = _value(kind, piece[kind])
    inner: JsonValue = arguments
    for step, following in pairwise(steps):
        inner = _entered(inner, step, following)
    last = steps[-1]
    if isinstance(inner, dict) and isinstance(last, str):
        known: JsonValue = inner.get(last)
        inner[last] = known + value if isinstance(known, str) and isinstance(value, str) else value
    elif isinstance(inner, list) and isinstance(last, int):
        known = inner[last] if last < len(inner) else None
        inner[last:] = [
            known + value if isinstance(known, str) and isinstance(value, str) else value
        ]


def _value(kind: str, given: JsonValue) -> JsonValue:
    """Return a value of the JSON that it is of: the SDK has whole numbers as floats."""
    if kind == "nullValue":
        return None
    if isinstance(given, float) and given.is_integer() and abs(given) <= _MAX_WHOLE:
        return int(given)
    return given


def _entered(held: JsonValue, step: str | int, following: str | int) -> JsonValue:
    """Return the object or list at a step, made if it is not there yet."""
    new: JsonValue = [] if isinstance(following, int) else {}
    if isinstance(held, dict) and isinstance(step, str):
        return held.setdefault(step, new)
    if isinstance(held, list) and isinstance(step, int):
        if step >= len(held):
            held.append(new)
        return held[min(step, len(held) - 1)]
    return None


def _steps(path: str) -> list[str | int]:
    return [
        int(number) if number else name or quoted for name, number, quoted in _STEPS.findall(path)
    ]


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.title() for other in others)
