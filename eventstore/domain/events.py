"""The events: what happened, as frozen values without a position in a log.

1. The tag is the stored contract; the class name is not. Times and durations are integer
   microseconds.
2. The union `Event` is the only list of the classes. A class declares its `tag` and its `schema`.
3. A class that cannot be stored, and a tool event that another table lacks, are refused by name
   when the package is imported.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, get_args

import msgspec

from eventstore.domain.calls import FunctionCall, FunctionResponse
from eventstore.domain.copies import is_copy_id
from eventstore.domain.detached import ArchiveEvent
from eventstore.domain.failure import Failure
from eventstore.domain.hook_answers import HookAnswer
from eventstore.domain.messages import Part
from eventstore.domain.redaction import PayloadsRedacted, is_marker
from eventstore.domain.tools_offered import GateAnswer, ToolsOffered
from eventstore.domain.usage import Usage, UsageLimitBreach


class ToolPending(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The model asked for a call; nothing has run.

    `call.id` is unique in the conversation; `provider_call_id` is the id that the provider gave.
    `turn` is the number of the assistant turn, `index` that of the call in it, from 0. An append
    adds a missing turn and a missing id. `imported` calls come from a history that was
    made elsewhere, where they may have run. `step` names the step of a run that recorded the call,
    if that can be replayed.
    """

    tag: ClassVar[str] = "pending"
    schema: ClassVar[int] = 1
    call: FunctionCall
    provider_call_id: str | None = None
    turn: int | None = None
    index: int = 0
    imported: bool = False
    step: str | None = None

    @property
    def call_id(self) -> str:
        """Id of the call."""
        return self.call.id or ""


class ToolApproved(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The call was allowed; `edited_call`, of the same tool, replaces it if it was edited.

    Nothing starts on the approval from `expires_at` on, in microseconds since 1970 UTC.
    """

    tag: ClassVar[str] = "approved"
    schema: ClassVar[int] = 1
    call_id: str
    edited_call: FunctionCall | None = None
    by: str | None = None
    reason: str | None = None
    hooks: tuple[HookAnswer, ...] = ()
    expires_at: int | None = None


class ToolRunning(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An attempt started, with the arguments that it really uses.

    With a `lease` (microseconds) it counts as under way for that long; see `leases`. `worker` names
    the process that holds it, if that renews it.
    """

    tag: ClassVar[str] = "running"
    schema: ClassVar[int] = 1
    call_id: str
    attempt: int
    arguments: Any = None
    hooks: tuple[HookAnswer, ...] = ()
    lease: int | None = None
    worker: str | None = None


class ToolRenewed(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The worker of an attempt is still at it: it counts as under way for another `lease`.

    The lease is in microseconds.
    """

    tag: ClassVar[str] = "renewed"
    schema: ClassVar[int] = 1
    call_id: str
    attempt: int
    lease: int


class ToolCompleted(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The call has its result.

    `attempt` is 0 if no attempt was recorded. `synthetic` means that no tool ran: the hook or the
    person named in `by` answered the call, for a `reason`. Otherwise `by` names the hooks that
    changed the result before it was recorded. `lossy` means that the
    result was not JSON and is stored in its nearest readable form. `native` is the result as
    `provider` wrote it, if our own form would not give it back byte for byte. `in_parts` means that
    the result is a list of parts of a message, which is shown to the model as such.
    """

    tag: ClassVar[str] = "completed"
    schema: ClassVar[int] = 1
    call_id: str
    response: FunctionResponse
    attempt: int = 0
    duration: int | None = None
    synthetic: bool = False
    lossy: bool = False
    provider: str | None = None
    native: Any = None
    in_parts: bool = False
    by: str | None = None
    reason: str | None = None
    hooks: tuple[HookAnswer, ...] = ()


class ToolFailed(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An attempt failed, or the call could not be started.

    `delay` is the wait before the next attempt, if there will be one. `by` is the person who says
    so of a call in doubt, for a `reason`; see `Conversation.settle`.
    """

    tag: ClassVar[str] = "failed"
    schema: ClassVar[int] = 1
    call_id: str
    failure: Failure
    attempt: int = 0
    duration: int | None = None
    delay: int | None = None
    provider: str | None = None
    native: Any = None
    hooks: tuple[HookAnswer, ...] = ()
    by: str | None = None
    reason: str | None = None


class ToolPaused(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An attempt paused, a call was deferred, or its approval has expired: it waits again.

    `attempt` is the attempt that paused; 0 means that none was under way. `until` is the time to
    wait for, in microseconds since 1970 UTC; None means that a person has to decide. The attempt
    did not fail, and nothing says that it ran to its end. `reason` is for people.
    """

    tag: ClassVar[str] = "paused"
    schema: ClassVar[int] = 1
    call_id: str
    attempt: int = 0
    until: int | None = None
    reason: str | None = None
    duration: int | None = None
    hooks: tuple[HookAnswer, ...] = ()


class ToolEndedLate(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An attempt ended after another worker, or a person, had taken over; it changes nothing.

    The call stays as they left it. `response` is the result, with `lossy` and `in_parts` as in
    `ToolCompleted`; `failure` is how it failed. Without both it paused, for a `reason`.
    """

    tag: ClassVar[str] = "ended_late"
    schema: ClassVar[int] = 1
    call_id: str
    attempt: int
    response: FunctionResponse | None = None
    failure: Failure | None = None
    reason: str | None = None
    duration: int | None = None
    lossy: bool = False
    in_parts: bool = False


class ToolRejected(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The call will not run: `source` (human, gate, hook, rule, limit or sibling) refused it."""

    tag: ClassVar[str] = "rejected"
    schema: ClassVar[int] = 1
    call_id: str
    reason: str | None = None
    source: str = "human"
    by: str | None = None
    details: dict[str, Any] | None = None
    provider: str | None = None
    native: Any = None
    hooks: tuple[HookAnswer, ...] = ()


class MessageAdded(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A message was added to the conversation.

    `turn` numbers assistant messages, and `calls` says how many calls came with the message (each
    is a `ToolPending` of its own). `native` is the message as `provider` wrote it, if our own form
    would not give it back byte for byte; `exact` says that it may be sent back unchanged. `joined`
    means that it was in one provider message with the results before it. `results` are the ids of
    the calls that those results answer, in order, if that message may be sent back; `native` then
    has null for each. A message of role `tool` has only results, or is a result that answers no
    known call, with the `call_id` that it named; with `results` and `parts` it is what a framework
    told the model of a call. `broken_off`: its stream ended before the model did.
    `finish_reason` is why its response was not whole, where an imported message says so.
    """

    tag: ClassVar[str] = "message"
    schema: ClassVar[int] = 1
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
    broken_off: bool = False
    finish_reason: str | None = None

    def continued_by(self, piece: MessageAdded) -> MessageAdded:
        """Return an assistant message with a further piece of it."""
        first: object = self.native
        more: object = piece.native
        are_lists = isinstance(first, list) and isinstance(more, list)
        return msgspec.structs.replace(
            self,
            parts=self.parts + piece.parts,
            calls=self.calls + piece.calls,
            native=[*self.native, *piece.native] if are_lists else None,
            exact=are_lists and self.exact and piece.exact,
            finish_reason=piece.finish_reason or self.finish_reason,
        )


class HookRaised(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A function of the host raised when a dispatcher asked it; nothing was decided.

    `asked` is what it was asked as: gate, hook, approver, needs_approval, classifier or verify.
    `hook` is its name, `failure` what it raised. `call_id` is None where it was asked about the
    tools to offer. `hooks` and `gates` are the answers of those before it.
    """

    tag: ClassVar[str] = "hook_raised"
    schema: ClassVar[int] = 1
    hook: str
    asked: str
    failure: Failure
    call_id: str | None = None
    hooks: tuple[HookAnswer, ...] = ()
    gates: tuple[GateAnswer, ...] = ()

    def __str__(self) -> str:
        kind = self.failure.exception or self.failure.kind
        return f"the {self.asked} {self.hook} raised {kind}: {self.failure.message}"


class ModelResponded(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The model answered a request, or failed to.

    `response_id`, `model` and `finish_reason` are the provider's own words (`finish_reasons`);
    `usage` is None where it does not say. `latency`, in microseconds, is the time from the request
    to its whole response. What that says is in events of its own; one that `failed` says nothing.

    A response that is told again is counted once; see `recorded_responses`. With `completes`, the
    version of the first event of the same response, it adds only what was not known then. With
    `is_another` it is a response of its own, though the one before has the same id and words.
    """

    tag: ClassVar[str] = "model_responded"
    schema: ClassVar[int] = 1
    provider: str | None = None
    model: str | None = None
    response_id: str | None = None
    finish_reason: str | None = None
    usage: Usage | None = None
    latency: int | None = None
    completes: int | None = None
    is_another: bool = False
    failed: bool = False

    def completed_by(self, new: ModelResponded) -> ModelResponded:
        """Return the response with what a later event adds to it."""
        usage = self.usage
        if new.usage is not None:
            usage = new.usage + (usage or Usage())
        return msgspec.structs.replace(
            self,
            model=self.model or new.model,
            finish_reason=self.finish_reason or new.finish_reason,
            usage=usage,
            latency=new.latency if self.latency is None else self.latency,
        )


class HistoryCompacted(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What was said up to a version is shown to the model no more; `messages` stand in its place.

    Hidden are the turns that began after version `after`, and of which all was over at `until`; a
    turn with an open call stays. So do messages of the system, unless `hides_system`. `trigger` is
    a word for why (auto, manual), `tokens_before` the size of the prompt until then.
    """

    tag: ClassVar[str] = "history_compacted"
    schema: ClassVar[int] = 1
    until: int
    messages: tuple[MessageAdded, ...] = ()
    after: int = 0
    hides_system: bool = False
    trigger: str | None = None
    tokens_before: int | None = None


class RunStarted(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The agent loop started; a sub-agent names the call that it works for.

    With `forked_at` the conversation is a copy of the parent's up to that version.
    """

    tag: ClassVar[str] = "run_started"
    schema: ClassVar[int] = 1
    agent: str | None = None
    parent_conversation_id: str | None = None
    parent_call_id: str | None = None
    forked_at: int | None = None


class RunEnded(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The agent loop ended: completed, terminated (by policy), cancelled or error."""

    tag: ClassVar[str] = "run_ended"
    schema: ClassVar[int] = 1
    reason: str
    failure: Failure | None = None


class UnknownEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An event with a tag or form that this version does not know, kept as it was stored.

    `damage` says what is wrong with its stored row; it is empty for a row as it was written.
    """

    tag: str
    schema: int
    payload: str
    damage: str = ""

    @property
    def is_newer(self) -> bool:
        """Whether a newer version wrote it, with an unknown tag or schema."""
        return not self.damage and self.schema > SCHEMAS.get(self.tag, 0)

    @property
    def is_redacted(self) -> bool:
        """Whether its payload was redacted, and the digest that it kept is the right one."""
        return not self.damage and is_marker(self.payload)

    @property
    def problem(self) -> str | None:
        """Why this version cannot read it; None for the tag of another program, or a later one."""
        if self.damage:
            return f"{self.tag} cannot be read: {self.damage}"
        if self.tag not in SCHEMAS:
            return None
        name = f"{self.tag} (schema {self.schema})"
        if self.is_redacted:
            return f"{name} cannot be read: its payload is a marker that is not as it was written"
        if self.is_newer:
            return f"{name} is of a newer version of toolledger: upgrade to read it"
        return f"{name} cannot be read: it is damaged"


ToolEvent = (
    ToolPending
    | ToolApproved
    | ToolRunning
    | ToolRenewed
    | ToolPaused
    | ToolCompleted
    | ToolFailed
    | ToolRejected
)
"""A step of a call."""

TOOL_EVENTS: frozenset[type] = frozenset(get_args(ToolEvent))
"""The classes of the union: for an event of another class `isinstance` takes ten times as long."""

Event = (
    ToolEvent
    | ToolEndedLate
    | MessageAdded
    | ModelResponded
    | ToolsOffered
    | HookRaised
    | HistoryCompacted
    | UsageLimitBreach
    | RunStarted
    | RunEnded
    | PayloadsRedacted
    | ArchiveEvent
    | UnknownEvent
)
"""Anything that is stored in a conversation."""


def classes_by_tag(classes: Iterable[type]) -> dict[str, Any]:
    """Return the event classes by their tags.

    Raises:
        TypeError: a class does not declare how it is stored, or two classes share a tag.
    """
    by_tag: dict[str, Any] = {}
    for cls in classes:
        tag, schema = getattr(cls, "tag", None), getattr(cls, "schema", None)
        if not (isinstance(tag, str) and tag and isinstance(schema, int) and schema > 0):
            raise TypeError(
                f"{cls.__name__} is in the union Event and cannot be stored: declare "
                '`tag: ClassVar[str] = "..."` and `schema: ClassVar[int] = 1` on the class'
            )
        if other := by_tag.get(tag):
            raise TypeError(
                f"{cls.__name__} and {other.__name__} share the tag {tag!r}: each needs its own"
            )
        by_tag[tag] = cls
    return by_tag


EVENT_CLASSES: dict[str, Any] = classes_by_tag(c for c in get_args(Event) if c is not UnknownEvent)
"""Each event class by its tag. The union `Event` is the only list of them."""

SCHEMAS: dict[str, int] = {tag: cls.schema for tag, cls in EVENT_CLASSES.items()}
"""The schema version that this library writes, by tag."""


class Recorded(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An event and its position in the log.

    `lane` and `position` are those in the store, `version` in its conversation (1, 2, 3 … without
    gaps). `event_id` is a UUID as 32 hex digits, `recorded_at` microseconds since 1970 UTC.
    `call_id` and `fingerprint` (of the arguments in force) are None if no call is concerned.
    `occurred_at` is the time at the event's source, in microseconds, where that is known.
    `redacted` is the digest of the marker, in hex, that stands for a payload which was redacted.
    `locked` says why a payload that is encrypted cannot be read; what is shown is as if it had been
    redacted.
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
    occurred_at: int | None = None
    redacted: str | None = None
    locked: str | None = None

    @property
    def time(self) -> int:
        """Time at the event's source where that is known, otherwise the time of its recording."""
        return self.recorded_at if self.occurred_at is None else self.occurred_at

    @property
    def is_copy(self) -> bool:
        """Whether it happened in another conversation, from which this one has it.

        Of a fork these are the events up to the fork, and those that close its open calls.
        """
        return is_copy_id(self.event_id)
