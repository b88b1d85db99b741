"""Reading foreign values along a path of attributes and keys: exceptions, responses, messages.

Nothing raises: an attribute of a foreign object may.
"""

from __future__ import annotations

from typing import Any

from eventstore.domain.json_types import is_json_list, is_json_object

Path = tuple[str, ...]
"""Names of attributes, or keys of dicts, from a value to what it holds."""


def dig(value: Any, *path: str) -> Any:
    """Return the value at the end of a path of attributes or keys, or None."""
    try:
        for step in path:
            value = value[step] if is_json_object(value) else getattr(value, step)
    except Exception:  # noqa: BLE001 - an attribute may raise anything
        return None
    return value


def values_at(value: Any, path: Path) -> list[object]:
    """Return every value at the end of a path that may lead through lists."""
    found: list[object] = []
    waiting: list[tuple[Any, int]] = [(value, 0)]
    while waiting:
        each, steps = waiting.pop()
        if is_json_list(each):
            waiting += [(item, steps) for item in each[::-1]]
        elif steps == len(path):
            found.append(each)
        elif (inner := dig(each, path[steps])) is not None:
            waiting.append((inner, steps + 1))
    return found
