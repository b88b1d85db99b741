"""The errors of the library itself; those of an agent are in `agent_errors`.

    EventStoreError
    ├── VersionConflict          an append expected another version
    ├── ImportConflict           the conversation holds other messages than those to be imported
    ├── IllegalTransition        the call's status does not allow this event
    ├── UnknownCall              no such call in this conversation
    ├── SilentAttempt            an attempt ended without a result
    ├── UnparsedArguments        the model's arguments are no JSON object
    ├── UnhashableArguments      arguments that no fingerprint can be taken of
    ├── UnencodableEvent         an event that cannot be written as JSON
    ├── NonResolvedToolError     a call without an answer where one is needed
    └── StorageError             the database refused
        ├── StoreClosed          used after close()
        ├── StoreBusy            another writer kept the lock too long
        ├── StoreReadOnly        the file or its folder cannot be written
        ├── StoreFull            no space left
        ├── StoreCorrupt         the database file is damaged
        ├── NotAStore            the database is not one of ours
        └── SchemaTooNew         written by a newer version of the library

An append that raises any of these has written nothing (a SilentAttempt is recorded as failed).
"""

from __future__ import annotations


class EventStoreError(Exception):
    """Anything that the event store refuses; nothing was written."""


class VersionConflict(EventStoreError):
    """The conversation is at another version than the append expected."""

    def __init__(self, expected: int, actual: int) -> None:
        super().__init__(
            f"expected version {expected}, the conversation is at version {actual}: "
            "read the events after the expected version, decide again, then append"
        )
        self.expected = expected
        self.actual = actual

    def __reduce__(self) -> tuple[type[VersionConflict], tuple[int, int]]:
        return type(self), (self.expected, self.actual)


class ImportConflict(EventStoreError):
    """The conversation holds other messages than those to be imported; none were added.

    It departs from them at `version`; `message` is the first, counted from 1, that it lacks.
    """

    def __init__(self, conversation_id: str, message: int, version: int) -> None:
        super().__init__(
            f"conversation {conversation_id!r} is there already and differs from message {message} "
            f"on (its version {version}): import the messages under another id"
        )
        self.conversation_id = conversation_id
        self.message = message
        self.version = version

    def __reduce__(self) -> tuple[type[ImportConflict], tuple[str, int, int]]:
        return type(self), (self.conversation_id, self.message, self.version)


class IllegalTransition(EventStoreError):
    """The call's status does not allow this event."""

    def __init__(self, state: str, event: str, call_id: str, reason: str | None = None) -> None:
        super().__init__(
            f"call {call_id!r} is {state}: {event} is not allowed"
            + (f" ({reason})" if reason else "")
        )
        self.state = state
        self.event = event
        self.call_id = call_id
        self.reason = reason

    def __reduce__(self) -> tuple[type[IllegalTransition], tuple[str, str, str, str | None]]:
        return type(self), (self.state, self.event, self.call_id, self.reason)


class UnknownCall(EventStoreError, LookupError):
    """No call of this id in the conversation."""

    def __init__(self, call_id: str, conversation_id: str) -> None:
        super().__init__(
            f"conversation {conversation_id!r} has no call {call_id!r}: "
            "request() or record() it first"
        )
        self.call_id = call_id
        self.conversation_id = conversation_id

    def __reduce__(self) -> tuple[type[UnknownCall], tuple[str, str]]:
        return type(self), (self.call_id, self.conversation_id)


class SilentAttempt(EventStoreError):
    """An attempt ended without `complete()` or `fail()`; it was recorded as failed."""

    def __init__(self, call_id: str) -> None:
        super().__init__(
            f"the attempt of call {call_id!r} ended without a result: call "
            "attempt.complete(result) (None is a result) or attempt.fail(error) before the end"
        )
        self.call_id = call_id

    def __reduce__(self) -> tuple[type[SilentAttempt], tuple[str]]:
        return type(self), (self.call_id,)


class UnparsedArguments(EventStoreError, ValueError):
    """The model's arguments are no JSON object, so no tool can be run with them."""

    def __init__(self, call_id: str, raw: str) -> None:
        super().__init__(
            f"the arguments of call {call_id!r} are no JSON object: {raw!r}; "
            "fail() the call, or approve() it with edited arguments"
        )
        self.call_id = call_id
        self.raw = raw

    def __reduce__(self) -> tuple[type[UnparsedArguments], tuple[str, str]]:
        return type(self), (self.call_id, self.raw)


class UnhashableArguments(EventStoreError, ValueError):
    """Arguments that JSON cannot say exactly, so that no fingerprint can be taken."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{reason} - at `{path}`: pass plain JSON values")
        self.path = path
        self.reason = reason

    def __reduce__(self) -> tuple[type[UnhashableArguments], tuple[str, str]]:
        return type(self), (self.path, self.reason)


class UnencodableEvent(EventStoreError, ValueError):
    """An event that cannot be written as JSON."""


class NonResolvedToolError(EventStoreError):
    """A call that has no answer yet, where an answer is needed."""

    def __init__(self, id: str, state: str) -> None:  # noqa: A002 - the field's name for it
        super().__init__(f"cannot send non-resolved Tool (id={id}, state={state})")
        self.id = id
        self.state = state

    def __reduce__(self) -> tuple[type[NonResolvedToolError], tuple[str, str]]:
        return type(self), (self.id, self.state)


class StorageError(EventStoreError):
    """The database refused; the driver's own error is the cause."""


class StoreClosed(StorageError):
    """The store was closed; open it again."""


class StoreBusy(StorageError):
    """Another writer held the lock for longer than `busy_timeout`; try again."""


class StoreReadOnly(StorageError):
    """The database file or its folder cannot be written."""


class StoreFull(StorageError):
    """There is no space left for the write."""


class StoreCorrupt(StorageError):
    """The database file is damaged."""


class NotAStore(StorageError):
    """The file or database is not an event store."""


class SchemaTooNew(StorageError):
    """The schema was written by a newer version of the library; upgrade the library."""
