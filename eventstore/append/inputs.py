"""Checks of what a caller passes to a command."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, get_args

from eventstore.append.compactions import check_compaction
from eventstore.domain.calls import FunctionCall
from eventstore.domain.codec import decode
from eventstore.domain.detached import EventsArchived, EventsRestored
from eventstore.domain.events import (
    Event,
    HistoryCompacted,
    MessageAdded,
    ToolPending,
    UnknownEvent,
)
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.domain.redaction import PayloadsRedacted
from eventstore.domain.stand_ins import as_payload, stand_in_prefix
from eventstore.domain.times import microseconds_of

if TYPE_CHECKING:
    from eventstore.domain.times import Moment

_RECORDS: dict[str, str] = {
    PayloadsRedacted.tag: "store.redact(...) or `toolledger redact`",
    EventsArchived.tag: "store.retain(...) or `toolledger retain`",
    EventsRestored.tag: "store.restore(...) or `toolledger restore`",
}
"""What appends the events that record what was done to others, by their tags."""

_EVENT_CLASSES = frozenset(get_args(Event)) - {PayloadsRedacted, EventsArchived, EventsRestored}


def check_event(event: Event) -> Event:
    """Return the event; an `UnknownEvent` that this version can read becomes what it is.

    Raises:
        ValueError: it records what was done to other events, which is not for a caller to say; or
            its payload begins as what stands in the place of one; or it compacts nothing.
        TypeError: it is not an event, or its call is not a `FunctionCall`.
    """
    if type(event) is UnknownEvent:
        if event.tag in _RECORDS:
            raise _is_record(event)
        event = known_event(event)
        if type(event) is UnknownEvent and (prefix := stand_in_prefix(event.payload)) is not None:
            raise ValueError(
                f"append() got an event {event.tag!r} whose payload begins with {prefix}, as what "
                "the store puts in the place of a payload: write a blank behind the brace, or "
                "another member first"
            )
    elif type(event) not in _EVENT_CLASSES:
        if type(event) in get_args(Event):
            raise _is_record(event)
        remedy = "*events" if isinstance(event, list | tuple) else "ToolFailed"
        # A list may be long: the message shows its beginning.
        shown = reprlib.repr(event)
        raise TypeError(f"append() takes events, got {shown}: pass for example {remedy}")
    if type(event) is ToolPending and type(event.call) is not FunctionCall:
        raise TypeError(f"ToolPending takes a FunctionCall, got {event.call!r}")
    if type(event) is HistoryCompacted:
        check_compaction(event)
    return event


def known_event(event: Event) -> Event:
    """Return the event; an `UnknownEvent` that this version can read becomes what it is."""
    if type(event) is UnknownEvent:
        return decode(event.tag, event.schema, event.payload)
    return event


def copied_event(event: Event) -> Event:
    """Return an event of another conversation as it is stored again; see `known_event`."""
    return as_payload(known_event(event))


def _is_record(event: Event) -> ValueError:
    kind = type(event).__name__ if type(event) is not UnknownEvent else f"an event {event.tag!r}"
    return ValueError(
        f"append() got {kind}, which says what was done to other events, and comes with it: call "
        f"{_RECORDS[event.tag]}"
    )


def has_no_turn(event: Event) -> bool:
    """Return whether the event is a call or an assistant message without a turn or an id."""
    if type(event) is ToolPending:
        return event.turn is None or not event.call.id
    return type(event) is MessageAdded and event.role == "assistant" and event.turn is None


def times_at_source(
    occurred_at: Sequence[Moment | None] | None, count: int
) -> tuple[int | None, ...]:
    """Return the times of `count` events at their source, in microseconds; empty without any.

    Raises:
        TypeError: one is not a time.
        ValueError: one has no time zone, or there is not one for each event.
    """
    if occurred_at is None:
        return ()
    if len(occurred_at) != count:
        raise ValueError(
            f"occurred_at has {len(occurred_at)} times for {count} events: pass one for each, "
            "None where it is not known"
        )
    return tuple(
        None if moment is None else microseconds_of("occurred_at", moment) for moment in occurred_at
    )


def failure_of(error: BaseException | Failure | str) -> Failure:
    """Return the failure to record for an error."""
    if isinstance(error, Failure):
        return error
    if isinstance(error, BaseException):
        return Failure.from_exception(error)
    return Failure(ErrorKind.INTERNAL, str(error))
