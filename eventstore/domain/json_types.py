"""Types of JSON values, and tests for them."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeGuard

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
