"""The system's clock, in microseconds."""

from __future__ import annotations

import time


def system_clock() -> int:
    """Return microseconds since 1970 UTC."""
    return time.time_ns() // 1000
