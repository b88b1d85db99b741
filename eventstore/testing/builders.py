"""Builders of events for tests."""

from __future__ import annotations

from eventstore.append.conversation_state import ConversationState
from eventstore.append.event_ids import event_ids
from eventstore.domain.calls import FunctionCall, FunctionResponse
from eventstore.domain.codec import encode
from eventstore.domain.events import (
    SCHEMAS,
    Event,
    MessageAdded,
    Recorded,
    ToolApproved,
    ToolCompleted,
    ToolFailed,
    ToolPaused,
    ToolPending,
    ToolRejected,
    ToolRunning,
    UnknownEvent,
)
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.domain.fingerprint import digest, fingerprint
from eventstore.domain.messages import Text
from eventstore.storage.interface import Draft
from eventstore.testing.clock import NOON


def message(text: str = "hello", role: str = "user") -> MessageAdded:
    """Return a message of one text."""
    return MessageAdded(role, (Text(text),))


def pending(call_id: str = "call_1", name: str = "search", **arguments: object) -> ToolPending:
    """Return the request of a call."""
    return ToolPending(FunctionCall(name, arguments, call_id), call_id, 1)


def approved(call_id: str = "call_1", **edited_arguments: object) -> ToolApproved:
    """Return an approval, with edited arguments if any are given."""
    edit = FunctionCall("search", edited_arguments, call_id) if edited_arguments else None
    return ToolApproved(call_id, edit, "ada")


def running(call_id: str = "call_1", attempt: int = 1, **arguments: object) -> ToolRunning:
    """Return the start of an attempt."""
    return ToolRunning(call_id, attempt, arguments)


def completed(call_id: str = "call_1", result: object = "found", attempt: int = 1) -> ToolCompleted:
    """Return a completion."""
    return ToolCompleted(call_id, FunctionResponse("search", result, call_id), attempt, 250)


def failed(call_id: str = "call_1", error: str = "no answer", attempt: int = 1) -> ToolFailed:
    """Return a transient failure."""
    return ToolFailed(call_id, Failure(ErrorKind.TRANSIENT, error), attempt, 250)


def paused(call_id: str = "call_1", attempt: int = 1, until: int | None = None) -> ToolPaused:
    """Return the pause of an attempt."""
    return ToolPaused(call_id, attempt, until, "asks a person")


def rejected(call_id: str = "call_1", reason: str = "too risky") -> ToolRejected:
    """Return a rejection."""
    return ToolRejected(call_id, reason, "human", "ada")


def log(*events: Event, conversation_id: str = "chat", at: int = NOON) -> list[Recorded]:
    """Return the events as a log gives them, one per second from `at`, without a store.

    Transitions are not checked, so the log may be a damaged one.
    """
    state = ConversationState(conversation_id, 0)
    recorded: list[Recorded] = []
    for version, event in enumerate(events, 1):
        call_id = getattr(event, "call_id", None)
        mark = _brought_fingerprint(event)
        if mark is None and call_id in state.open:
            mark = fingerprint_of(state.open[call_id].tool.effective_call)
        recorded.append(
            Recorded(
                0,
                version,
                conversation_id,
                version,
                f"{version:032x}",
                at + (version - 1) * 1_000_000,
                call_id,
                mark,
                event,
            )
        )
        state.extend(recorded[-1:])
    return recorded


def _brought_fingerprint(event: Event) -> str | None:
    if type(event) is ToolPending:
        return fingerprint_of(event.call)
    if type(event) is ToolApproved and event.edited_call is not None:
        return fingerprint_of(event.edited_call)
    return None


def fingerprint_of(call: FunctionCall) -> str:
    """Return the fingerprint of a call whose arguments are a JSON object."""
    return fingerprint(call.name, call.arguments)


def draft(event: Event, event_id: bytes | None = None) -> Draft:
    """Return the event in the form that a storage takes, with an id of its own or a given one."""
    schema = event.schema if type(event) is UnknownEvent else SCHEMAS[event.tag]
    mark = digest(event.call.name, event.call.arguments) if type(event) is ToolPending else None
    return Draft(
        event_id or event_ids(1, NOON)[0],
        NOON,
        event.tag,
        schema,
        encode(event),
        mark,
        mark is not None,
        event_id is not None,
    )
