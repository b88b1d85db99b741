"""The ids of events: UUIDs of version 7."""

from __future__ import annotations

import os
from itertools import count
from struct import Struct, error


def _by_chance() -> count[int]:
    return count(int.from_bytes(os.urandom(8)) >> 3)


_low = _by_chance()
_pack = Struct(">QQ").pack


def event_ids(count: int, at: int) -> list[bytes]:
    """`count` UUIDv7 in ascending order, for the microsecond `at`.

    Their lower half counts up from a number that each process draws by chance.

    Raises:
        ValueError: that is no time of ours.
    """
    try:
        high = at // 1000 << 16 | 0x7000 | at % 1000 << 2
        if count == 1:
            return [_pack(high, 0x8000_0000_0000_0000 | next(_low))]
        return [_pack(high, 0x8000_0000_0000_0000 | next(_low)) for _ in range(count)]
    except (TypeError, error) as wrong:
        raise ValueError(
            f"the clock says {at!r}: it is to give microseconds since 1970 UTC, a whole number"
        ) from wrong


def _after_fork() -> None:
    global _low  # noqa: PLW0603 - the parent goes on with its own
    _low = _by_chance()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
