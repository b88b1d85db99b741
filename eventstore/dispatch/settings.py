"""What a dispatcher is set up with, refused where it makes no sense: before anything has run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NoReturn, TypeVar

T = TypeVar("T")


def each(name: str, given: Iterable[T], fits: Callable[[T], bool], remedy: str) -> tuple[T, ...]:
    """A list of what fits."""
    if not isinstance(given, Iterable):
        refuse(name, given, "pass a list")
    items = tuple(given)
    for item in items:
        if not fits(item):
            refuse(f"one of {name}", item, remedy)
    return items


def one(name: str, given: T, fits: Callable[[T], bool], remedy: str) -> T:
    """What fits."""
    if not fits(given):
        refuse(name, given, remedy)
    return given


def at_least(name: str, value: int | None, least: int) -> int | None:
    """A number, or None."""
    if value is not None and (type(value) is not int or value < least):
        raise ValueError(f"{name} is {value!r}: pass {least} or more")
    return value


def has(method: str) -> Callable[[object], bool]:
    """Whether an object has a method."""
    return lambda given: callable(getattr(given, method, None))


def refuse(name: str, given: object, remedy: str) -> NoReturn:
    """Name the value at fault, and the remedy."""
    raise TypeError(f"{name} is {given!r}: {remedy}")
