"""Events and calls without their content, as they are read where payloads are gone as a whole.

For those that hold what was read before a redaction, and cannot read it again.
"""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec.structs import replace

from eventstore.domain.calls import FunctionCall, FunctionResponse
from eventstore.domain.codec import decode
from eventstore.domain.events import Event
from eventstore.domain.redaction import REDACTED, whole_marker
from eventstore.domain.statuses import (
    Approved,
    Completed,
    Failed,
    Pending,
    Rejected,
    Running,
    ToolStatus,
)
from eventstore.domain.tool import Tool

E = TypeVar("E", bound=Event)


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
