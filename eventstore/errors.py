"""The exceptions of the library itself; an agent's are in `eventstore.agent_errors`.

    EventStoreError
    ├── VersionConflict          an append expected another version
    ├── ImportConflict           the conversation holds other messages than the import
    ├── IllegalTransition        the call's status does not allow this event; in `decision_errors`:
    │   ├── CallChanged          a decision on a call that is no longer as it was seen
    │   └── ApprovalExpired      the approval of a call ended before it was used
    ├── UnknownCall              no such call in this conversation
    ├── NoDecision               a call started, or ended, without a decision
    ├── SilentAttempt            an attempt ended without a result
    ├── UnparsedArguments        the model's arguments are not a JSON object
    ├── UnhashableArguments      arguments that have no fingerprint
    ├── UnencodableEvent         an event that cannot be written as JSON
    ├── NonResolvedToolError     a call without an answer where one is needed
    ├── RedactionRefused         what is to be redacted must stay, or is not there
    ├── WrongKey                 a secret or a key is not the one that the log was written with
    ├── ConversationArchived     the events of the conversation are in an archive
    └── StorageError             the database refused
        ├── StoreClosed          used after close()
        ├── StoreBusy            another writer kept the lock too long
        ├── OutcomeUnknown       it is not known whether the append was stored
        ├── StoreReadOnly        the file or its folder cannot be written
        ├── StoreFull            no space left
        ├── StoreCorrupt         the database file is damaged, or was put back
        │   └── CursorLost       the log has not the events that a cursor stands after
        ├── NotAStore            the database is not an event store
        ├── SchemaTooNew         written by a newer version of the library
        └── SchemaTooOld         to be upgraded first, and the caller does not want that now

An append that raises one of these has written nothing. The exceptions are SilentAttempt, where the
attempt is recorded as failed, ApprovalExpired, where it is recorded that the call waits again, and
OutcomeUnknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

E = TypeVar("E", bound=BaseException)


def restore_exception(cls: type[E], args: tuple[object, ...], attributes: dict[str, Any]) -> E:
    """Return a copied or unpickled exception without calling its constructor.

    `BaseException` would call the constructor with `args`, which is the finished message.
    """
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error


class EventStoreError(Exception):
    """The event store refused; nothing was written."""

    def __reduce__(self) -> tuple[Any, ...]:
        return restore_exception, (type(self), self.args, self.__dict__)


class VersionConflict(EventStoreError):
    """The conversation is at another version than the append expected."""

    def __init__(self, expected: int, actual: int, message: str | None = None) -> None:
        super().__init__(
            message
            or f"expected version {expected}, the conversation is at version {actual}: "
            "read the events after the expected version, decide again, then append"
        )
        self.expected = expected
        self.actual = actual


class ImportConflict(EventStoreError):
    """The conversation holds other messages than those to be imported; none were added.

    `version` is where the conversation differs; `message` is the number, counted from 1, of the
    first imported message that it does not hold.
    """

    def __init__(self, conversation_id: str, message: int, version: int) -> None:
        super().__init__(
            f"conversation {conversation_id!r} exists already and differs from message {message} "
            f"on (its version {version}): import the messages under another id"
        )
        self.conversation_id = conversation_id
        self.message = message
        self.version = version


_LOOK_FIRST = "look at its status in the conversation's tools, and decide from there"


class IllegalTransition(EventStoreError):
    """The call's status does not allow this event."""

    def __init__(self, state: str, event: str, call_id: str, reason: str | None = None) -> None:
        super().__init__(
            f"call {call_id!r} is {state}: {event} is not allowed"
            + (f" ({reason})" if reason else f": {_LOOK_FIRST}")
        )
        self.state = state
        self.event = event
        self.call_id = call_id
        self.reason = reason


class RedactionRefused(EventStoreError):
    """What is to be redacted must stay for now, or is not there; nothing was redacted."""


class RuleFailed(EventStoreError):
    """A rule of `redact` could not look at a text: nothing was stored. `rule` is its name."""

    def __init__(self, rule: str, how: str) -> None:
        super().__init__(
            f"the redaction rule {rule!r} {how}: nothing was stored, as the text may hold what the "
            "rule is for; mend the rule, so that it takes any text"
        )
        self.rule = rule
        self.how = how


class WrongKey(EventStoreError):
    """A secret or a key is not the one that the log was written with."""


class ConversationArchived(EventStoreError):
    """The conversation was archived: its events up to `version` are in a file, the `place`.

    `archived_at` is the time in microseconds since 1970 UTC. Nothing is appended to it, and its id
    is not used again, until `toolledger restore` has brought its events back.
    """

    def __init__(self, conversation_id: str, version: int, archived_at: int, place: str) -> None:
        super().__init__(
            f"conversation {conversation_id!r} was archived up to version {version} in {place}: "
            f"run `toolledger restore {place}` to have it back, or begin another conversation"
        )
        self.conversation_id = conversation_id
        self.version = version
        self.archived_at = archived_at
        self.place = place


class UnknownCall(EventStoreError, LookupError):
    """The conversation has no call with this id."""

    def __init__(self, call_id: str, conversation_id: str) -> None:
        super().__init__(
            f"conversation {conversation_id!r} has no call {call_id!r}: "
            "request() or record() it first"
        )
        self.call_id = call_id
        self.conversation_id = conversation_id


class NoDecision(EventStoreError):
    """A call started, or ended, without a decision; `state` is the name of its status."""

    def __init__(self, call_id: str, state: str) -> None:
        super().__init__(
            f"call {call_id!r} is {state} without a decision, and none will come: {_LOOK_FIRST}"
        )
        self.call_id = call_id
        self.state = state


class SilentAttempt(EventStoreError):
    """An attempt ended without `complete()` or `fail()`; it was recorded as failed."""

    def __init__(self, call_id: str) -> None:
        super().__init__(
            f"the attempt of call {call_id!r} ended without a result: call "
            "attempt.complete(result) (None is a result) or attempt.fail(error) before the end"
        )
        self.call_id = call_id


class UnparsedArguments(EventStoreError, ValueError):
    """The model's arguments are not a JSON object, so no tool can be run with them."""

    def __init__(self, call_id: str, raw: str) -> None:
        super().__init__(
            f"the arguments of call {call_id!r} are not a JSON object: {raw!r}; "
            "fail() the call, or approve() it with edited arguments"
        )
        self.call_id = call_id
        self.raw = raw


class UsageUnknown(EventStoreError):
    """A limit on tokens or cost cannot be kept: a response does not say what it counts.

    `axis` is the limit's, `version` that of the response.
    """

    axis: str = ""
    version: int = 0


class UsageUnknownWarning(UserWarning):
    """A limit on tokens or cost counts without a response; see `UsageLimits.unknown`."""


class UnhashableArguments(EventStoreError, ValueError):
    """Arguments that JSON cannot express exactly, so that they have no fingerprint."""

    def __init__(self, path: str, reason: str, remedy: str = "pass plain JSON values") -> None:
        super().__init__(f"{reason} - at `{path}`: {remedy}")
        self.path = path
        self.reason = reason


class UnencodableEvent(EventStoreError, ValueError):
    """An event that cannot be written as JSON."""


class NonResolvedToolError(EventStoreError):
    """A call that has no answer yet, where an answer is needed.

    Called `NonResolvedToolError` in chat-rs, too. Its message is the one there: the
    remedy is a note.
    """

    def __init__(self, id: str, state: str) -> None:  # noqa: A002 - public name
        super().__init__(f"cannot send non-resolved Tool (id={id}, state={state})")
        self.add_note("answer the call first, or let model_history say what is known of it")
        self.id = id
        self.state = state


class StorageError(EventStoreError):
    """The database refused; the driver's own error is the cause."""


class StoreClosed(StorageError):
    """The store was closed; open it again."""


class StoreBusy(StorageError):
    """Another writer held the lock for longer than `busy_timeout`; try again."""


class OutcomeUnknown(StorageError):
    """It is not known whether an append was stored, or will still be there after a failover.

    The server did not answer its COMMIT in time, or stopped waiting for its standbys; or the disk
    failed under SQLite's COMMIT. Append the same events again with these `event_ids` (32 hex digits
    each): they are stored once, whatever became of the first try. `event_ids` is empty if the
    log had the events already: repeat the call as it was.
    """

    def __init__(self, reason: str, event_ids: tuple[str, ...] = ()) -> None:
        same = f"with the same event ids: {', '.join(event_ids)}" if event_ids else "later"
        super().__init__(
            f"{reason}: it is not known whether the events are stored for good; append them again "
            f"{same}"
        )
        self.reason = reason
        self.event_ids = event_ids


class StoreReadOnly(StorageError):
    """The database file or its folder cannot be written."""


class StoreFull(StorageError):
    """There is no space left for the write."""


class StoreCorrupt(StorageError):
    """The database file is damaged, or was replaced by an older copy."""


class LostPlace(NamedTuple):
    """A place that a cursor stands at, and what the log has there now."""

    of: int | str
    """A lane, or the id of a conversation."""
    position: int
    """The position in the lane; the version, in a conversation."""
    expected: str | None
    """The id of the event that was read there; None if the cursor does not tell."""
    found: str | None
    """The id of the event that is there now; None if there is none."""

    def __str__(self) -> str:
        if isinstance(self.of, str):
            place = f"version {self.position} of conversation {self.of!r}"
        else:
            place = f"position {self.position} of lane {self.of}"
        there = _event_named(self.found)
        if self.found is not None and self.found == self.expected:
            there = "the same, recorded at another time,"
        if self.expected is None and isinstance(self.of, str):  # a version alone
            return f"{place} has {there} now"
        return f"{place} had {_event_named(self.expected)}, and has {there} now"


def _event_named(event_id: str | None) -> str:
    return "no event" if event_id is None else f"event {event_id}"


class CursorLost(StoreCorrupt):
    """The log does not have the events that a cursor stands after: an older copy took its place.

    Events that were read may be gone, and others may stand at their positions. `lost` names each
    lane, or the conversation, with the event expected and the one found. One event cannot tell
    how far back the log went. So `restart` is the cursor at the start of what is lost, and at the
    same place in every other lane: read on from there, and expect events that you know. Tables of a
    `Projector`, which are made again as a whole, name that as the `remedy`.
    """

    def __init__(self, lost: Sequence[LostPlace], restart: str, remedy: str = "") -> None:
        places = "; ".join(map(str, lost))
        super().__init__(
            f"{places}: the database was replaced by an older copy, and what was read since then "
            f"was taken back; {remedy or f'read again from the cursor error.restart ({restart})'}"
        )
        self.lost = tuple(lost)
        self.restart = restart


class NotAStore(StorageError):
    """The file or database is not an event store."""


class SchemaTooNew(StorageError):
    """The schema was written by a newer version of the library; upgrade the library.

    It is also raised where another process changed the schema under this one.
    """


class SchemaTooOld(StorageError):
    """The schema is of an older version of the library; run `toolledger migrate`."""
