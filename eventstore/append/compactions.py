"""Checks of a compaction that a caller appends: its range, and what stands in the place of it.

The fold of a history takes any compaction; see `projections.history.compaction`.
"""

from __future__ import annotations

from collections.abc import Sequence

from eventstore.domain.arguments import check_version
from eventstore.domain.events import Event, HistoryCompacted, MessageAdded
from eventstore.domain.messages import ROLES

_OF_A_LOG = ("turn", "calls", "call_id", "results", "joined", "broken_off")
"""The members of a message that name others of its log."""


def check_compaction(event: HistoryCompacted) -> None:
    """Raise an error unless the event may be a compaction.

    Raises:
        TypeError: one of its messages is not a `MessageAdded`.
        ValueError: its range ends before it begins, or one of its messages has calls.
    """
    check_version("HistoryCompacted.until", event.until, 1)
    check_version("HistoryCompacted.after", event.after)
    if event.after >= event.until:
        raise ValueError(
            f"HistoryCompacted hides what comes after version {event.after} up to version "
            f"{event.until}, which is nothing: pass an `until` that is greater than `after`"
        )
    messages: object = event.messages
    for message in event.messages if isinstance(messages, tuple | list) else [messages]:
        _check_message(message)


def _check_message(message: object) -> None:
    if not isinstance(message, MessageAdded):
        raise TypeError(
            f"HistoryCompacted.messages has a {type(message).__name__}: pass a tuple of messages, "
            'such as (MessageAdded("user", (Text("..."),)),)'
        )
    member = next((name for name in _OF_A_LOG if getattr(message, name)), None)
    if member is not None or message.role not in ROLES or message.role == "tool":
        what = f"role {message.role!r}" if member is None else member
        raise ValueError(
            f"HistoryCompacted.messages has a message with {what}: pass messages of the system, "
            "the user or the assistant that make and answer no calls"
        )


def check_places(events: Sequence[Event], version: int) -> None:
    """Raise an error unless each compaction hides what is before it; the log ends at `version`.

    Raises:
        ValueError: its `until` is not the version of an event before it.
    """
    for before, event in enumerate(events, version):
        if type(event) is HistoryCompacted and event.until > before:
            raise ValueError(
                f"HistoryCompacted.until is {event.until}: pass the version of an event before it, "
                f"{before} at most"
                if before
                else f"HistoryCompacted.until is {event.until}, and nothing is before it: append "
                "what it hides first"
            )
