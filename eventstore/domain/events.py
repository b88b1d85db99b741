"""The events: what happened, as frozen values that know no place in any log.

The tag is the stored contract; the class name is not. Times and durations are integer
microseconds.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from eventstore.failure import Failure
from eventstore.message import Part
from eventstore.tool import FunctionCall, FunctionResponse


class ToolPending(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The model asked for a call; nothing has run.

    `call.id` is unique in the conversation; `provider_call_id` is what the provider said.
    `turn` and `index` are its place: which assistant turn, which call of that turn; an append
    gives a place to those that have none, and an id to those without. `imported`: it comes from
    a history made elsewhere, where it may have run.
    """

    tag: ClassVar[str] = "pending"
    call: FunctionCall
    provider_call_id: str | None = None
    turn: int | None = None
    index: int = 0
    imported: bool = False

    @property
    def call_id(self) -> str:
        """The id of the call."""
        return self.call.id or ""


class ToolApproved(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Somebody allowed the call, with `edited_call` in its place where it was edited."""

    tag: ClassVar[str] = "approved"
    call_id: str
    edited_call: FunctionCall | None = None
    by: str | None = None
    reason: str | None = None


class ToolRunning(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An attempt began, with the arguments that it really uses."""

    tag: ClassVar[str] = "running"
    call_id: str
    attempt: int
    arguments: Any = None


class ToolCompleted(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The call has its result.

    `attempt` is 0 when no attempt was recorded; `synthetic` when no tool ran; `lossy` when the
    result was no JSON and is stored in its nearest readable form. `native` is the result as
    `provider` wrote it, where our own form would not give it back byte for byte. `in_parts`: the
    result is a list of `Text`, `Image` and `Document`, which the model is shown as such.
    """

    tag: ClassVar[str] = "completed"
    call_id: str
    response: FunctionResponse
    attempt: int = 0
    duration: int | None = None
    synthetic: bool = False
    lossy: bool = False
    provider: str | None = None
    native: Any = None
    in_parts: bool = False


class ToolFailed(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An attempt failed, or the call could not be started; `delay` is the wait before the next."""

    tag: ClassVar[str] = "failed"
    call_id: str
    failure: Failure
    attempt: int = 0
    duration: int | None = None
    delay: int | None = None
    provider: str | None = None
    native: Any = None


class ToolRejected(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The call will not run: refused by a human, gate, hook, rule, limit or sibling."""

    tag: ClassVar[str] = "rejected"
    call_id: str
    reason: str | None = None
    source: str = "human"
    by: str | None = None
    details: dict[str, Any] | None = None
    provider: str | None = None
    native: Any = None


class MessageAdded(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A message joined the conversation.

    `turn` numbers assistant messages, and `calls` says how many calls came with it (each is a
    `ToolPending` of its own). `native` is the message as `provider` wrote it, where our own form
    would not give it back byte for byte; `exact` says that it may go back as it is. `joined`: it
    stood in one provider message with the results before it. `results` are the calls that those
    answer, in order, where that message may go back: `native` has null for each. Role `tool` is
    such a message of results alone, or a result that answers no known call, with the `call_id` it
    named.
    """

    tag: ClassVar[str] = "message"
    role: str
    parts: tuple[Part, ...] = ()
    turn: int | None = None
    calls: int = 0
    provider: str | None = None
    native: Any = None
    exact: bool = False
    joined: bool = False
    call_id: str | None = None
    results: tuple[str, ...] = ()


class GateAnswer(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What one gate allowed: a sorted list of tool names, or no opinion."""

    gate: str
    allow: tuple[str, ...] | None = None


class ToolsOffered(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Which tools the model could see in one iteration, and why."""

    tag: ClassVar[str] = "tools_offered"
    iteration: int
    available: tuple[str, ...]
    allowed: tuple[str, ...] | None = None
    gates: tuple[GateAnswer, ...] = ()
    conflict: dict[str, Any] | None = None


class RunStarted(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The agent loop started; a sub-agent names the call that it serves."""

    tag: ClassVar[str] = "run_started"
    agent: str | None = None
    parent_conversation_id: str | None = None
    parent_call_id: str | None = None


class RunEnded(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The agent loop ended: completed, terminated (by policy), cancelled or error."""

    tag: ClassVar[str] = "run_ended"
    reason: str
    failure: Failure | None = None


class UnknownEvent(msgspec.Struct, frozen=True, gc=False):
    """An event of a tag or form that this version does not know, kept as it was stored."""

    tag: str
    schema: int
    payload: str

    @property
    def is_newer(self) -> bool:
        """Whether it is of a newer version, whose tag or schema this one does not know."""
        from eventstore.codec import SCHEMAS  # noqa: PLC0415 - which imports this

        return self.schema > SCHEMAS.get(self.tag, 0)


ToolEvent = ToolPending | ToolApproved | ToolRunning | ToolCompleted | ToolFailed | ToolRejected
Event = ToolEvent | MessageAdded | ToolsOffered | RunStarted | RunEnded | UnknownEvent


class Recorded(msgspec.Struct, frozen=True, gc=False):
    """An event and its place in the log.

    `lane` and `position` place it in the store, `version` in its conversation (1, 2, 3 … without
    gaps). `event_id` is a UUID as 32 hex digits, `recorded_at` microseconds since 1970 UTC.
    `call_id` and `fingerprint` (of the arguments in force) are None where no call is concerned.
    """

    lane: int
    position: int
    conversation_id: str
    version: int
    event_id: str
    recorded_at: int
    call_id: str | None
    fingerprint: str | None
    event: Event
