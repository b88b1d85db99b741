"""What a fold that goes on must give up when events that it has read are redacted.

1. A log that is read after a redaction has markers, and a fold over it never saw what is gone.
2. A fold that goes on gets the record, `PayloadsRedacted`, as the next event. It cannot read again,
   and the record does not say what is left of a payload, so it gives up all that it holds of it.
3. Who keeps a fold beside its log begins it anew, and has what is left: `KeptFolds`, the web pages,
   the tables of a `Projector`.
"""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec.structs import replace

from eventstore import (
    Approved,
    Completed,
    Event,
    Failed,
    FunctionCall,
    FunctionResponse,
    PayloadsRedacted,
    Pending,
    Recorded,
    Rejected,
    Tool,
)
from eventstore.domain.codec import decode
from eventstore.domain.redaction import REDACTED, RedactedPayload, whole_marker
from eventstore.domain.statuses import Running, ToolStatus

E = TypeVar("E", bound=Event)


class ReadMarkers:
    """The markers that a fold has read, by which it knows what of a redaction it still holds."""

    def __init__(self) -> None:
        self._read: dict[tuple[str, int], tuple[str, bool]] = {}  # and whether it was recorded

    def take(self, recorded: Recorded) -> None:
        """Take in an event that was read from a marker."""
        if recorded.redacted is not None:
            at = recorded.conversation_id, recorded.version
            self._read[at] = recorded.redacted, False

    def gone(self, recorded: Recorded) -> list[RedactedPayload]:
        """Return those payloads of a record that were read before they were redacted."""
        event = recorded.event
        if type(event) is not PayloadsRedacted or event.origin is not None:
            return []
        return [each for each in event.payloads if self._is_gone(recorded.conversation_id, each)]

    def _is_gone(self, conversation_id: str, payload: RedactedPayload) -> bool:
        at = conversation_id, payload.version
        marker, was_recorded = self._read.get(at, ("", True))
        if marker != payload.marker and not was_recorded:
            return False  # the marker is that of a later redaction, whose record is to come
        self._read[at] = payload.marker, True
        return marker != payload.marker


def covered_event(event: E) -> E:
    """Return an event as it is read where its payload is gone as a whole."""
    marker = whole_marker(bytes(32), event)
    shown: Any = decode(event.tag, event.schema, marker)
    return shown if type(shown) is type(event) else event


def covered_call(tool: Tool) -> Tool:
    """Return a call without what was asked for, and without what became of it in words."""
    return replace(
        tool,
        call=_without_arguments(tool.call),
        edit=None if tool.edit is None else _without_arguments(tool.edit),
        fingerprint=None,
        status=_without_texts(tool.status),
    )


def _without_arguments(call: FunctionCall) -> FunctionCall:
    return FunctionCall(call.name, None, call.id, REDACTED)


def _without_texts(status: ToolStatus) -> ToolStatus:
    reason = None if getattr(status, "reason", None) is None else REDACTED
    match status:
        case Completed():
            response = FunctionResponse(status.response.name, REDACTED, status.response.id)
            return replace(status, response=response, reason=reason)
        case Failed():
            failure = replace(
                status.failure, message=REDACTED, model_message=None, exception=None, traceback=None
            )
            return Failed(failure)
        case Running():
            return replace(status, arguments=None)
        case Approved():
            edit = status.edited_call
            return replace(
                status,
                edited_call=None if edit is None else _without_arguments(edit),
                reason=reason,
            )
        case Pending() | Rejected():
            return replace(status, reason=reason)
