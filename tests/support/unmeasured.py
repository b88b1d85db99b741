"""Processes whose coverage is not measured."""

from __future__ import annotations

import os


def environment() -> dict[str, str]:
    """Return this process's environment without what makes a child measure its coverage.

    For a child that is killed or interrupted, or whose code is not the packages': measuring takes
    twice the time, and an interrupt within coverage leaves a lock of coverage held.
    """
    return {name: value for name, value in os.environ.items() if name != "COVERAGE_PROCESS_CONFIG"}
