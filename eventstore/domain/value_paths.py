"""Reading foreign values along a path of attributes and keys: exceptions, responses, messages.

Nothing raises: an attribute of a foreign object may.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from eventstore.domain.json_types import JsonObject

Path = tuple[str, ...]
"""Names of attributes, or keys of dicts, from a value to what it holds."""


def dig(value: Any, *path: str) -> Any:
    """Return the value at the end of a path of attributes or keys, or None."""
    try:
        for step in path:
            if isinstance(value, dict):
                value = cast("JsonObject", value)[step]
            else:
                value = getattr(value, step)
    except Exception:  # noqa: BLE001 - an attribute may raise anything
        return None
    return value


def values_at(value: Any, path: Path) -> list[object]:
    """Return every value at the end of a path that may lead through lists."""
    values = _without_lists([value])
    for step in path:
        found = (dig(each, step) for each in values)
        values = _without_lists([inner for inner in found if inner is not None])
    return values


def _without_lists(values: list[Any]) -> list[Any]:
    """Return values with the items of lists in their place."""
    if not any(isinstance(each, list) for each in values):
        return values
    open_values, found = values[::-1], list[Any]()
    while open_values:
        each = open_values.pop()
        if isinstance(each, list):
            open_values += each[::-1]
        else:
            found.append(each)
    return found
