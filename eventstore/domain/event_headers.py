"""Events without their content: as much of each as the life of a call is told by.

What a call was given and what it gave stay the JSON text that is stored, and messages bring
nothing. So they are read several times faster than whole events, the longer they are the more;
whoever counts calls, or keeps them elsewhere, needs no more. They have the names and the tags of
the whole events, and `evolve` takes both.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from eventstore.codec import EVENT_CLASSES, SCHEMAS, Decoders
from eventstore.failure import Failure
from eventstore.tool import FunctionCall


class CallOutline(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What the model asked for, its arguments not read."""

    name: str
    arguments: msgspec.Raw
    id: str | None = None
    raw: str | None = None

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the whole call."""
        arguments = msgspec.json.decode(self.arguments)
        return FunctionCall(self.name, arguments, self.id, self.raw).fingerprint


class ResponseOutline(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What the tool answered, not read."""

    name: str
    result: msgspec.Raw
    id: str | None = None


class PendingOutline(msgspec.Struct, frozen=True, gc=False):
    """Of a `ToolPending`."""

    tag: ClassVar[str] = "pending"
    call: CallOutline
    provider_call_id: str | None = None
    turn: int | None = None
    index: int = 0
    imported: bool = False

    @property
    def call_id(self) -> str:
        """The id of the call."""
        return self.call.id or ""


class ApprovedOutline(msgspec.Struct, frozen=True, gc=False):
    """Of a `ToolApproved`."""

    tag: ClassVar[str] = "approved"
    call_id: str
    edited_call: CallOutline | None = None
    by: str | None = None
    reason: str | None = None


class RunningOutline(msgspec.Struct, frozen=True, gc=False):
    """Of a `ToolRunning`."""

    tag: ClassVar[str] = "running"
    call_id: str
    attempt: int
    arguments: msgspec.Raw = msgspec.Raw(b"null")


class CompletedOutline(msgspec.Struct, frozen=True, gc=False):
    """Of a `ToolCompleted`."""

    tag: ClassVar[str] = "completed"
    call_id: str
    response: ResponseOutline
    attempt: int = 0
    duration: int | None = None
    synthetic: bool = False
    lossy: bool = False


class FailedOutline(msgspec.Struct, frozen=True, gc=False):
    """Of a `ToolFailed`."""

    tag: ClassVar[str] = "failed"
    call_id: str
    failure: Failure
    attempt: int = 0
    duration: int | None = None


class RejectedOutline(msgspec.Struct, frozen=True, gc=False):
    """Of a `ToolRejected`."""

    tag: ClassVar[str] = "rejected"
    call_id: str
    reason: str | None = None
    source: str = "human"
    by: str | None = None


class Bystander(msgspec.Struct, frozen=True, gc=False):
    """Of an event that is about no call: it is there."""

    tag: ClassVar[str] = ""


_OUTLINES: tuple[Any, ...] = (
    PendingOutline, ApprovedOutline, RunningOutline, CompletedOutline, FailedOutline,
    RejectedOutline,
)  # fmt: skip
_of_tag = {outline.tag: outline for outline in _OUTLINES}

OUTLINES: Decoders = {
    (cls.tag, SCHEMAS[cls.tag]): msgspec.json.Decoder(_of_tag.get(cls.tag, Bystander)).decode
    for cls in EVENT_CLASSES
}
"""(tag, schema) to what reads the outline of a sound payload; for others there is `decode`."""
