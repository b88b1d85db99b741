"""The errors of the library itself.

    EventStoreError
    ├── VersionConflict          an append expected another version
    ├── IllegalTransition        the call's status does not allow this event
    ├── UnknownCall              no such call in this conversation
    ├── SilentAttempt            an attempt ended without a result
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
            f"the attempt of call {call_id!r} ended without a result: call attempt.complete(result) "
            "(None is a result) or attempt.fail(error) before the block ends"
        )
        self.call_id = call_id

    def __reduce__(self) -> tuple[type[SilentAttempt], tuple[str]]:
        return type(self), (self.call_id,)


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
