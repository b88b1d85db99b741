"""Numbers that a caller passes: True is none."""

from __future__ import annotations

from typing import TypeGuard


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether it is a number that may be compared with others."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_version(name: str, value: object) -> None:
    """Refuse what is no version of a conversation.

    Raises:
        ValueError: it is negative, or no whole number.
    """
    if type(value) is not int or value < 0:
        raise ValueError(f"{name} is {value!r}: pass a version of the conversation, 0 or more")
