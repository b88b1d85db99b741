"""Rules about the log itself: results in the wrong place, and events that do not fit."""

from __future__ import annotations

from collections.abc import Iterator

from eventstore.domain.one_line import one_line
from projections.debugging.rules.evidence import Cause, Evidence, cause, shown
from projections.formatting import plural


def misplaced(e: Evidence, weight: int) -> Iterator[Cause]:
    """Yield the results that answer no call, a call that has its result, or another tool."""
    for stray in e.facts.strays:
        call = stray.call
        text = f"{stray.problem} {shown(call) if call is not None else repr(stray.call_id)}"
        versions = {stray.version}
        if call is not None:
            text += f" (asked for at version {call.version}"
            text += f", answered at {call.ended})" if call.ended else ")"
            versions |= {call.version, call.ended or stray.version}
        is_double = "second" in stray.problem or "late result" in stray.problem
        kind = "doubled" if is_double else "misplaced"
        heavy = weight + e.recency(stray.version)
        yield cause(kind, stray.version, text, heavy, versions=versions, call=call)


def unreadable(e: Evidence, weight: int) -> Iterator[Cause]:
    """Yield the events that do not fit the log, all as one."""
    strays = {stray.version for stray in e.facts.strays}
    damage = [anomaly for anomaly in e.damage if anomaly.version not in strays]
    if damage:
        first = damage[0]
        text = f"the event does not fit the log: {one_line(first.problem, 160)}"
        if len(damage) > 1:
            text += f"; {plural(len(damage), 'such event')}, the last at {damage[-1].version}"
        versions = {anomaly.version for anomaly in damage}
        yield cause("unreadable", first.version, text, weight, versions=versions)
