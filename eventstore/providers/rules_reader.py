"""What the rule books share: how they read foreign values, and how a message shows them.

Rules judge whatever they are given, so that every value is looked at before it is used. The books
share this module among themselves, and nothing with the code that renders or repairs a history.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NoReturn, Protocol, TypeAlias, TypeGuard, TypeVar

import msgspec

from eventstore.providers.rule_book import Finding

__all__ = [
    "Fault",
    "Members",
    "apply_checks",
    "holds_json_object",
    "is_list",
    "is_object",
    "list_or_empty",
    "listed",
    "members_of",
    "pairing_key",
    "quoted",
    "readable",
    "repeated",
    "shortened",
    "text_or_none",
]

Fault: TypeAlias = tuple[str, str]
"""What one check found: place and detail."""

Members: TypeAlias = dict[object, object]
"""The members of a foreign object; its keys need not be text."""

_MAX_SHOWN_CHARACTERS: Final = 80
_JSON_TYPES: Final[dict[type, str]] = {
    bool: "a boolean",
    dict: "an object",
    float: "a number",
    int: "an integer",
    list: "an array",
}

H = TypeVar("H")


class PairedItem(Protocol):
    """A call or a result, as a rule book reads it."""

    @property
    def key(self) -> object:
        """What pairs the two: see `pairing_key`."""


P = TypeVar("P", bound=PairedItem)


def apply_checks(
    checks: Mapping[str, Callable[[H], Iterable[Fault]]], history: H
) -> Iterator[Finding]:
    """Yield every fault that the checks find in a history, in the order of the checks."""
    for code, check in checks.items():
        for place, detail in check(history):
            yield code, place, detail


def is_object(value: object) -> TypeGuard[Members]:
    """Return whether a value is an object."""
    return isinstance(value, dict)


def members_of(value: object) -> Members:
    """Return an object's members; a value that is not an object has none."""
    return value if is_object(value) else {}


def is_list(value: object) -> TypeGuard[list[object]]:
    """Return whether a value is a list."""
    return isinstance(value, list)


def list_or_empty(value: object) -> list[object]:
    """Return a list as it is; a value that is not a list counts as an empty one."""
    return value if is_list(value) else []


def text_or_none(value: object) -> str | None:
    """Return text as it is, and None for any other value."""
    return value if isinstance(value, str) else None


def pairing_key(call_id: object) -> object:
    """Return what pairs a call with its result: the id, or its type where it is not text.

    So a call without an id pairs with a result without one, and each fault is reported once.
    """
    return call_id if isinstance(call_id, str) else type(call_id)


def repeated(items: Iterable[P]) -> Iterator[P]:
    """Yield each item whose id, where it is text, an earlier item has too."""
    seen: set[str] = set()
    for item in items:
        if isinstance(item.key, str):
            if item.key in seen:
                yield item
            seen.add(item.key)


def quoted(value: object) -> str:
    """Return a value as a sentence shows it: quoted text, or the type of any other value.

    The result is short and printable, whatever the value is.
    """
    if isinstance(value, str):
        return repr(shortened(value))
    if value is None:
        return "null"
    if is_list(value) and not value:
        return "an empty array"
    return _JSON_TYPES.get(type(value), f"a {type(value).__name__}")


def readable(value: object) -> str:
    """Return a value as a sentence shows it, text without quotes where it can be read."""
    if isinstance(value, str) and value and value.isprintable():
        return shortened(value)
    return quoted(value)


def listed(keys: Iterable[object]) -> str:
    """Return pairing keys inside a sentence, each once."""
    return ", ".join(dict.fromkeys(map(_named, keys)))


def _named(key: object) -> str:
    return readable(key) if isinstance(key, str) else "(no id)"


def shortened(text: str) -> str:
    """Return text that is short enough for a sentence."""
    if len(text) <= _MAX_SHOWN_CHARACTERS:
        return text
    return f"{text[: _MAX_SHOWN_CHARACTERS - 3]}..."


def holds_json_object(text: str) -> bool:
    """Return whether a text is that of a JSON object."""
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (ValueError, RecursionError):
        pass  # it may be JSON that msgspec cannot hold: ask the second decoder
    try:
        return isinstance(_JSON.decode(text), dict)
    except (ValueError, RecursionError):
        return False


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# Only the shape matters: numbers stay text, so that no number is too long to convert.
_JSON: Final = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse_constant)
