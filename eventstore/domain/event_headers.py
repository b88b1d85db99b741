"""Event headers: events without their content, with only what the lifecycle of a call needs.

1. The arguments of a call and its result stay as the stored JSON text; messages carry their role
   and turn. Headers are therefore read several times faster than whole events, the more so the
   longer the events are. They are for readers that count calls or usage, or copy them elsewhere.
2. A header has the tag of the whole event and the same names for what it carries, so that `evolve`
   takes both. What a model used, a breach of a limit, and the record of a redaction have no
   content: they come whole.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias, get_args

import msgspec

from eventstore.domain.calls import FunctionCall
from eventstore.domain.codec import Decoders
from eventstore.domain.detached import EventsArchived, EventsRestored
from eventstore.domain.event_tables import require_tool_event_tags
from eventstore.domain.events import SCHEMAS, ModelResponded
from eventstore.domain.failure import Failure
from eventstore.domain.redaction import PayloadsRedacted
from eventstore.domain.usage import UsageLimitBreach


class CallHeader(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A `FunctionCall` whose arguments are not parsed."""

    name: str
    arguments: msgspec.Raw
    id: str | None = None
    raw: str | None = None

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the whole call."""
        arguments = msgspec.json.decode(self.arguments)
        return FunctionCall(self.name, arguments, self.id, self.raw).fingerprint


class ResponseHeader(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A `FunctionResponse` whose result is not parsed."""

    name: str
    result: msgspec.Raw
    id: str | None = None


class PendingHeader(msgspec.Struct, frozen=True, gc=False):
    """The header of a `ToolPending`."""

    tag: ClassVar[str] = "pending"
    call: CallHeader
    provider_call_id: str | None = None
    turn: int | None = None
    index: int = 0
    imported: bool = False

    @property
    def call_id(self) -> str:
        """Id of the call."""
        return self.call.id or ""


class ApprovedHeader(msgspec.Struct, frozen=True, gc=False):
    """The header of a `ToolApproved`."""

    tag: ClassVar[str] = "approved"
    call_id: str
    edited_call: CallHeader | None = None
    by: str | None = None
    reason: str | None = None
    expires_at: int | None = None


class RunningHeader(msgspec.Struct, frozen=True, gc=False):
    """The header of a `ToolRunning`."""

    tag: ClassVar[str] = "running"
    call_id: str
    attempt: int
    arguments: msgspec.Raw = msgspec.Raw(b"null")
    lease: int | None = None
    worker: str | None = None


class RenewedHeader(msgspec.Struct, frozen=True, gc=False):
    """The header of a `ToolRenewed`."""

    tag: ClassVar[str] = "renewed"
    call_id: str
    attempt: int
    lease: int


class PausedHeader(msgspec.Struct, frozen=True, gc=False):
    """The header of a `ToolPaused`."""

    tag: ClassVar[str] = "paused"
    call_id: str
    attempt: int = 0
    until: int | None = None
    reason: str | None = None


class CompletedHeader(msgspec.Struct, frozen=True, gc=False):
    """The header of a `ToolCompleted`."""

    tag: ClassVar[str] = "completed"
    call_id: str
    response: ResponseHeader
    attempt: int = 0
    duration: int | None = None
    synthetic: bool = False
    lossy: bool = False
    by: str | None = None
    reason: str | None = None


class FailedHeader(msgspec.Struct, frozen=True, gc=False):
    """The header of a `ToolFailed`."""

    tag: ClassVar[str] = "failed"
    call_id: str
    failure: Failure
    attempt: int = 0
    duration: int | None = None
    delay: int | None = None


class RejectedHeader(msgspec.Struct, frozen=True, gc=False):
    """The header of a `ToolRejected`."""

    tag: ClassVar[str] = "rejected"
    call_id: str
    reason: str | None = None
    source: str = "human"
    by: str | None = None


class MessageHeader(msgspec.Struct, frozen=True, gc=False):
    """The header of a `MessageAdded`."""

    tag: ClassVar[str] = "message"
    role: str
    turn: int | None = None


class OtherHeader(msgspec.Struct, frozen=True, gc=False):
    """The header of any other event: only that it exists."""

    tag: ClassVar[str] = ""


EventHeader: TypeAlias = (
    PendingHeader
    | ApprovedHeader
    | RunningHeader
    | RenewedHeader
    | PausedHeader
    | CompletedHeader
    | FailedHeader
    | RejectedHeader
    | MessageHeader
    | ModelResponded
    | UsageLimitBreach
    | PayloadsRedacted
    | EventsArchived
    | EventsRestored
    | OtherHeader
)

_HEADERS: dict[str, type[EventHeader]] = {
    header.tag: header for header in get_args(EventHeader) if header is not OtherHeader
}
require_tool_event_tags("event_headers.EventHeader", _HEADERS)

HEADER_DECODERS: Decoders = {
    (tag, schema): msgspec.json.Decoder(_HEADERS.get(tag, OtherHeader)).decode
    for tag, schema in SCHEMAS.items()
}
"""(tag, schema) to the reader of the header in a sound payload; `decode` reads any payload."""
