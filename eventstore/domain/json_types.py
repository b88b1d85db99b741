"""Types of JSON values, and tests for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeGuard, cast

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object: member names to JSON values."""

JsonValue: TypeAlias = "JsonObject | list[JsonValue] | str | int | float | bool | None"
"""Any JSON value. Annotate a member of an object with it before a test of its type."""


def is_json_object(value: object) -> TypeGuard[JsonObject]:
    """Return whether a JSON value is an object."""
    return isinstance(value, dict)


def is_json_list(value: object) -> TypeGuard[list[JsonValue]]:
    """Return whether a JSON value is a list."""
    return isinstance(value, list)


def json_members(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return the members of an object by their names, or the items of a list by their indexes."""
    if type(value) is dict:
        return cast("JsonObject", value).items()
    return enumerate(cast("list[Any]", value))


def as_whole_number(value: object) -> object:
    """Return a whole float as an integer, any other value as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def with_leaves(value: object, change: Callable[[object], object]) -> Any:
    """Return a copy of JSON values in which `change` made what is neither list nor object."""
    whole: list[Any] = [value]
    unfinished: list[Any] = [whole]
    while unfinished:
        outer = unfinished.pop()
        for key, item in json_members(outer):
            if isinstance(item, dict):
                outer[key] = cast("JsonObject", item).copy()
            elif isinstance(item, list | tuple):
                outer[key] = [*cast("list[Any]", item)]
            else:
                outer[key] = change(item)
                continue
            unfinished.append(outer[key])
    return whole[0]
