"""Checks of the arguments that callers pass.

Every check names the argument, its value and the remedy. A bool is not accepted as a number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeGuard, TypeVar, cast

from eventstore.domain.copies import is_copy_id

if TYPE_CHECKING:
    from uuid import UUID

T = TypeVar("T")

UUID_BYTES = 16
MAX_VERSION = 2**63 - 1
"""What the integers of a database hold."""
MAX_SECONDS = 1_000_000_000
"""Some thirty years: a longer wait does not end."""


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether the value is a number that may be compared with others."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_seconds(value: object) -> TypeGuard[int | float]:
    """Return whether the value is a finite number of seconds, 0 or more."""
    return is_number(value) and 0 <= value < math.inf


def check_version(name: str, value: object, least: int = 0) -> None:
    """Raise an error unless the value may be the version of a conversation, or of an event in it.

    The version of a conversation without events is 0; that of an event is 1 at `least`.

    Raises:
        ValueError: it is too small, or not an integer, or one of more than 64 bits.
    """
    if type(value) is not int or not least <= value <= MAX_VERSION:
        raise ValueError(
            f"{name} is {value!r}: pass a version of the conversation, {least} or more"
        )


def check_conversation_id(conversation_id: object) -> None:
    """Refuse what cannot name a conversation.

    Raises:
        ValueError: it is empty, or is not text that a database can hold.
    """
    if not isinstance(conversation_id, str) or not conversation_id:
        raise ValueError(
            f"a conversation id is text and not empty, got {conversation_id!r}: "
            "pass for example 'support-42'"
        )
    check_storable("conversation id", conversation_id)


def check_storable(name: str, text: str) -> None:
    """Refuse text that a database cannot hold.

    Raises:
        ValueError: it has a NUL, or half a surrogate pair.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        pass
    else:
        if "\x00" not in text:
            return
    raise ValueError(
        f"{name} {text!r} has a NUL or half a surrogate pair: databases cannot hold it"
    )


def checked_minimum(name: str, value: int, minimum: int) -> int:
    """Return the value, an integer that is not below the minimum.

    Raises:
        ValueError: it is below, or not an integer.
    """
    if type(value) is not int or value < minimum:
        raise ValueError(f"{name} is {value!r}: pass {minimum} or more")
    return value


def checked(name: str, value: T, is_valid: Callable[[T], bool], remedy: str) -> T:
    """Return the value if it is valid.

    Raises:
        TypeError: it is not.
    """
    if not is_valid(value):
        raise TypeError(f"{name} is {value!r}: {remedy}")
    return value


def checked_each(
    name: str, values: Iterable[T], is_valid: Callable[[T], bool], remedy: str
) -> tuple[T, ...]:
    """Return the values as a tuple if each of them is valid.

    Raises:
        TypeError: one is not, or they are not a list.
    """
    listed = checked_list(name, values)
    return tuple(checked(f"one of {name}", value, is_valid, remedy) for value in listed)


def checked_list(name: str, values: Iterable[T]) -> tuple[T, ...]:
    """Return the values as a tuple.

    Raises:
        TypeError: they are not a list.
    """
    if not isinstance(cast("object", values), Iterable):
        raise TypeError(f"{name} is {values!r}: pass a list")
    return tuple(values)


def has_method(name: str) -> Callable[[object], bool]:
    """Return a check for objects that have the method."""
    return lambda value: callable(getattr(value, name, None))


def in_microseconds(name: str, seconds: float | None) -> int | None:
    """Return the seconds of the argument `name` as microseconds; None stays None.

    Raises:
        ValueError: it is not a number of seconds, from 0 to `MAX_SECONDS`.
    """
    if seconds is None:
        return None
    if not is_seconds(seconds) or seconds > MAX_SECONDS:
        raise ValueError(f"{name} is {seconds!r}: pass seconds, from 0 to {MAX_SECONDS:,}")
    return round(seconds * 1_000_000)


def event_ids_as_bytes(ids: Sequence[UUID | str | bytes] | None, count: int) -> list[bytes]:
    """Return the bytes of the ids for `count` events; an empty list for None.

    Raises:
        ValueError: an id is not a UUID, or is as only a copy's is, or there is not one distinct id
            for each event.
    """
    if ids is None:
        return []
    raw = [_event_id_as_bytes(event_id) for event_id in ids]
    if len(raw) != count or len(set(raw)) != count:
        raise ValueError(f"{len(set(raw))} distinct event_ids for {count} events: pass one each")
    return raw


def _event_id_as_bytes(event_id: UUID | str | bytes) -> bytes:
    from uuid import UUID  # seldom needed, and slow to load

    try:
        if isinstance(event_id, bytes):
            raw = event_id
        else:
            raw = (event_id if isinstance(event_id, UUID) else UUID(event_id)).bytes
    except (ValueError, AttributeError, TypeError):
        raw = b""
    if len(raw) != UUID_BYTES:
        raise ValueError(f"event id {event_id!r} is not a UUID: pass for example uuid.uuid4()")
    if is_copy_id(raw.hex()):
        raise ValueError(
            f"event id {event_id!r} is that of a copy, which happened in another conversation: "
            "fork that one, restore its export, or pass another id"
        )
    return raw
