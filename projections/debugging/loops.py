"""Repeated calls and cycles as causes: their text, the versions they span, and their weight."""

from __future__ import annotations

from projections.formatting import arguments_text
from projections.repeats.projection import Cycle, Finding

_MIN_RUN, _LONG_RUN, _LONGER_RUN = 3, 5, 10


def loop_text(loop: Finding) -> str:
    """Return a repeat or a cycle on one line, with the versions between which it continues."""
    first, last = loop_span(loop)
    if isinstance(loop, Cycle):
        calls = " > ".join(f"{call.name} {arguments_text(call, 30)}" for call in loop.calls)
        text = f"{calls} {loop.run:,} times round"
    else:
        times = loop.run if loop.run >= _MIN_RUN else loop.between_users
        same = ", always the same answer" if loop.same_answer else ""
        text = f"{loop.call.name} {arguments_text(loop.call, 60)} {times:,} times{same}"
    return f"{text} (versions {first} to {last})"


def loop_span(loop: Finding) -> tuple[int, int]:
    """Return the versions of the first and the last request of a loop."""
    if isinstance(loop, Cycle) or loop.run >= _MIN_RUN:
        return loop.run_first.version, loop.run_last.version
    return loop.first.version, loop.last.version


def loop_weight(loop: Finding) -> int:
    """Return the weight (0 to 100) of a loop as the cause of a failed run."""
    if isinstance(loop, Cycle):
        return 84 if loop.current_run >= _MIN_RUN else 56
    same = bool(loop.same_answer)
    if loop.run >= _MIN_RUN:
        if loop.current_run == loop.run:
            return 89 if loop.run >= _LONG_RUN else 82
        if loop.run >= _LONGER_RUN:
            return 83
        return (74 if same else 70) if loop.run >= _LONG_RUN else (62 if same else 48)
    return 58 if same and loop.between_users >= _LONG_RUN else 22
