"""Salts of events: random bytes, drawn many at a time, because each draw is a call of the system.

A forked child forgets those that its parent has drawn: a salt that two processes used would stay in
the log after one of the two events was redacted.
"""

from __future__ import annotations

import os
from struct import unpack

from eventstore.domain.redaction import SALT_BYTES

_DRAWN_TOGETHER = 256

_drawn: list[bytes] = []
os.register_at_fork(after_in_child=_drawn.clear)


def salts(count: int) -> list[bytes]:
    """Return random salts for so many events; see `Draft`."""
    if count == 1:
        try:
            return [_drawn.pop()]
        except IndexError:
            _drawn.extend(_draw(_DRAWN_TOGETHER))
            return _draw(1)
    return _draw(count)


def _draw(count: int) -> list[bytes]:
    return list(unpack(f"{SALT_BYTES}s" * count, os.urandom(count * SALT_BYTES)))
