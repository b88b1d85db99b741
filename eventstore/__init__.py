"""The write side: an append-only log of what an agent's tool calls went through.

from eventstore import EventStore

store = EventStore.open("sqlite:///agent.db")
chat = store.conversation("support-42")
"""

from __future__ import annotations

from eventstore.conversation import Attempt, Conversation
from eventstore.errors import (
    EventStoreError,
    IllegalTransition,
    ImportConflict,
    NonResolvedToolError,
    NotAStore,
    SchemaTooNew,
    SilentAttempt,
    StorageError,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
    UnencodableEvent,
    UnhashableArguments,
    UnknownCall,
    UnparsedArguments,
    VersionConflict,
)
from eventstore.events import (
    Event,
    GateAnswer,
    MessageAdded,
    Recorded,
    RunEnded,
    RunStarted,
    ToolApproved,
    ToolCompleted,
    ToolEvent,
    ToolFailed,
    ToolPending,
    ToolRejected,
    ToolRunning,
    ToolsOffered,
    UnknownEvent,
)
from eventstore.failure import ErrorKind, Failure, classify
from eventstore.fingerprint import fingerprint
from eventstore.importing import Imported
from eventstore.message import Image, Opaque, Part, Text
from eventstore.retry import DefaultRetryClassifier, RetryClass, RetryClassifier
from eventstore.store import Cursor, EventStore, Feed
from eventstore.tool import (
    Approved,
    Completed,
    Failed,
    FunctionCall,
    FunctionResponse,
    Pending,
    Rejected,
    Running,
    Tool,
    ToolStatus,
    evolve,
)
from eventstore.wire import Finding, Violation, validate

__all__ = [
    "Approved",
    "Attempt",
    "Completed",
    "Conversation",
    "Cursor",
    "DefaultRetryClassifier",
    "ErrorKind",
    "Event",
    "EventStore",
    "EventStoreError",
    "Failed",
    "Failure",
    "Feed",
    "Finding",
    "FunctionCall",
    "FunctionResponse",
    "GateAnswer",
    "IllegalTransition",
    "Image",
    "ImportConflict",
    "Imported",
    "MessageAdded",
    "NonResolvedToolError",
    "NotAStore",
    "Opaque",
    "Part",
    "Pending",
    "Recorded",
    "Rejected",
    "RetryClass",
    "RetryClassifier",
    "RunEnded",
    "RunStarted",
    "Running",
    "SchemaTooNew",
    "SilentAttempt",
    "StorageError",
    "StoreBusy",
    "StoreClosed",
    "StoreCorrupt",
    "StoreFull",
    "StoreReadOnly",
    "Text",
    "Tool",
    "ToolApproved",
    "ToolCompleted",
    "ToolEvent",
    "ToolFailed",
    "ToolPending",
    "ToolRejected",
    "ToolRunning",
    "ToolStatus",
    "ToolsOffered",
    "UnencodableEvent",
    "UnhashableArguments",
    "UnknownCall",
    "UnknownEvent",
    "UnparsedArguments",
    "VersionConflict",
    "Violation",
    "classify",
    "evolve",
    "fingerprint",
    "validate",
]
