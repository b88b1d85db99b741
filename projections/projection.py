"""The protocol of every projection: a fold over recorded events that can be continued.

Folding a prefix and then the rest equals folding the whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Protocol, Self, get_args

import msgspec

from eventstore import EventsArchived, Feed, FunctionCall, Recorded, ToolEvent

TOOL_EVENTS: frozenset[type] = frozenset(get_args(ToolEvent))
"""The classes of `ToolEvent`, for folds that ask it of each event: `isinstance` takes longer."""


class Anomaly(msgspec.Struct, frozen=True, gc=False):
    """An event that does not fit the log around it; `problem` says why."""

    conversation_id: str
    version: int
    position: int
    event_id: str
    call_id: str | None
    problem: str

    def __str__(self) -> str:
        return f"{self.conversation_id!r} version {self.version}: {self.problem}"


class Projection(Protocol):
    """A state, and how an event changes it.

    It takes the events of any log, including a damaged, foreign, shuffled or repeated one, and
    never raises. It depends on the events alone, and does not change them.
    """

    def apply(self, recorded: Recorded) -> None:
        """Take in one event."""

    def extend(self, events: Iterable[Recorded]) -> Self:
        """Take in events, each conversation in its order."""
        apply = self.apply
        for recorded in events:
            apply(recorded)
        return self


NO_CALL_ID = "the call has no id"
"""The problem of a call that no later event can name."""


def outlined(events: Iterable[Recorded]) -> Iterable[Recorded]:
    """Return the events; of a feed their headers, which are read several times faster."""
    return chain.from_iterable(events.outlines()) if isinstance(events, Feed) else events


def anomaly(recorded: Recorded, problem: str) -> Anomaly:
    """Return the anomaly of an event that does not fit."""
    return Anomaly(
        conversation_id=recorded.conversation_id,
        version=recorded.version,
        position=recorded.position,
        event_id=recorded.event_id,
        call_id=recorded.call_id,
        problem=problem,
    )


def version_problem(recorded: Recorded, last: int) -> str | None:
    """Return the problem of an event whose version is not the one after `last`.

    There is none where the events between were archived before they were read: it says so.
    """
    version = recorded.version
    if version <= last:
        return f"it comes again or late, version {last} stands before it"
    if type(recorded.event) is EventsArchived:
        return None
    return f"versions {last + 1} to {version - 1} are missing before it"


def fingerprint_of(recorded: Recorded, call: FunctionCall) -> str | None:
    """Return the fingerprint in the log, otherwise the call's own, or None."""
    if recorded.fingerprint or recorded.redacted:  # of what was redacted there may be none
        return recorded.fingerprint
    try:
        return call.fingerprint
    except ValueError:
        return None
