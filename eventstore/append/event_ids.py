"""The ids of events: UUIDs of version 7."""

from __future__ import annotations

import os
from itertools import count, repeat
from struct import Struct, error

_VARIANT = 0x8000_0000_0000_0000
_COUNTER_BITS = 61


def _random_start() -> count[int]:
    return count(_VARIANT | int.from_bytes(os.urandom(8)) >> 64 - _COUNTER_BITS)


_low = _random_start()
_layout = Struct(">QQ")
_pack = _layout.pack


def event_ids(count: int, at: int) -> list[bytes]:
    """Return `count` UUIDv7 in ascending order, for the microsecond `at`.

    Their lower half counts up from a random number that each process draws once.

    Raises:
        ValueError: `at` is not a time that a UUIDv7 can hold.
    """
    try:
        high = _upper_half(at)
        if count == 1:
            return [_pack(high, next(_low))]
        return list(map(_pack, repeat(high, count), _low))
    except (TypeError, error) as wrong:
        raise ValueError(
            f"the clock returned {at!r}: it must return microseconds since 1970 UTC as an int"
        ) from wrong


def minted_at(event_id: bytes) -> int | None:
    """Return the microsecond at which the library made an id; None for one that it did not make.

    One in eight UUIDv7 from elsewhere looks like the library's.
    """
    high, low = _layout.unpack(event_id)
    at = (high >> 16) * 1000 + (high >> 2 & 0x3FF)
    is_own = high == _upper_half(at) and (low ^ _VARIANT) >> _COUNTER_BITS == 0
    return at if is_own else None


def _upper_half(at: int) -> int:
    """Return the milliseconds, the version and the microseconds of an id."""
    return at // 1000 << 16 | 0x7000 | at % 1000 << 2


def _reset_after_fork() -> None:
    global _low  # noqa: PLW0603 - parent and child must not count on from the same number
    _low = _random_start()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
