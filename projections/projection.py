"""What every projection is: a fold over recorded events that can be continued.

Folding a prefix and then the rest equals folding the whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, Self, get_args

import msgspec

from eventstore import Event, FunctionCall, Recorded, UnknownEvent


class Anomaly(msgspec.Struct, frozen=True, gc=False):
    """An event that does not fit the log around it, and why."""

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

    It takes the events of any log, also a damaged, foreign, shuffled or repeated one, and never
    raises; it neither changes nor needs anything but the events.
    """

    def apply(self, recorded: Recorded) -> None:
        """Take in one event."""

    def extend(self, events: Iterable[Recorded]) -> Self:
        """Take in events, each conversation in its order."""
        apply = self.apply
        for recorded in events:
            apply(recorded)
        return self


NAMELESS = "the call has no id"
"""What is wrong with a call that no later event can name."""

_TAGS = frozenset(kind.tag for kind in get_args(Event) if kind is not UnknownEvent)


def anomaly(recorded: Recorded, problem: object) -> Anomaly:
    """The anomaly that `recorded` is."""
    return Anomaly(
        recorded.conversation_id, recorded.version, recorded.position, recorded.event_id,
        recorded.call_id, str(problem),
    )  # fmt: skip


def misplaced(version: int, last: int) -> str:
    """What is wrong with a `version` that is not the one after `last`."""
    if version <= last:
        return f"it comes again or late, version {last} stands before it"
    return f"versions {last + 1} to {version - 1} are missing before it"


def unreadable(event: UnknownEvent) -> str | None:
    """What is wrong with an event that could not be read; None for a tag that is not ours."""
    if event.tag not in _TAGS:
        return None
    name = f"{event.tag} (schema {event.schema})"
    if event.is_newer:
        return f"{name} is of a newer version of toolledger: upgrade to read it"
    return f"{name} cannot be read: it is damaged"


def fingerprint_of(recorded: Recorded, call: FunctionCall) -> str | None:
    """The fingerprint that the log names, else the call's own; None where it has none."""
    if recorded.fingerprint:
        return recorded.fingerprint
    try:
        return call.fingerprint
    except ValueError:
        return None
