"""The write side: an append-only log of what an agent's tool calls went through.

from eventstore import EventStore

store = EventStore.open("sqlite:///agent.db")
chat = store.conversation("support-42")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from eventstore.failure import ErrorKind, ErrorKindSet, Failure, classify
from eventstore.feed import Cursor, Feed
from eventstore.fingerprint import fingerprint
from eventstore.message import Document, Image, Opaque, Part, Text
from eventstore.store import EventStore
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

if TYPE_CHECKING:
    from eventstore.agent_errors import (
        AgentError,
        AuthErrorKind,
        Cancelled,
        ConfigError,
        ContextOverflow,
        InternalError,
        ProviderError,
        ProviderErrorKind,
        ToolError,
    )
    from eventstore.aio import (
        AsyncAttempt,
        AsyncConversation,
        AsyncEventStore,
    )
    from eventstore.dispatch import (
        Approve,
        AsyncDispatcher,
        Dispatcher,
        FunctionTool,
        Outcome,
        Reject,
        Skip,
        StuckLoopGuard,
        Terminate,
    )
    from eventstore.envelope import ErrorClass, ErrorEnvelope
    from eventstore.following import Follow, Lag
    from eventstore.gate import (
        Denial,
        GateClass,
        GateConflict,
        GateDecision,
        OpeningGate,
        ToolGate,
        ToolGateContext,
        compose_gates,
    )
    from eventstore.importing import Imported
    from eventstore.policy import ToolErrorPolicy, ToolErrorTerminal
    from eventstore.reader_aio import AsyncFeed, AsyncFollow
    from eventstore.retry import DefaultRetryClassifier, RetryClass, RetryClassifier, RetryPolicy
    from eventstore.wire import Finding, Violation, validate

__all__ = [
    "AgentError",
    "Approve",
    "Approved",
    "AsyncAttempt",
    "AsyncConversation",
    "AsyncDispatcher",
    "AsyncEventStore",
    "AsyncFeed",
    "AsyncFollow",
    "Attempt",
    "AuthErrorKind",
    "Cancelled",
    "Completed",
    "ConfigError",
    "ContextOverflow",
    "Conversation",
    "Cursor",
    "DefaultRetryClassifier",
    "Denial",
    "Dispatcher",
    "Document",
    "ErrorClass",
    "ErrorEnvelope",
    "ErrorKind",
    "ErrorKindSet",
    "Event",
    "EventStore",
    "EventStoreError",
    "Failed",
    "Failure",
    "Feed",
    "Finding",
    "Follow",
    "FunctionCall",
    "FunctionResponse",
    "FunctionTool",
    "GateAnswer",
    "GateClass",
    "GateConflict",
    "GateDecision",
    "IllegalTransition",
    "Image",
    "ImportConflict",
    "Imported",
    "InternalError",
    "Lag",
    "MessageAdded",
    "NonResolvedToolError",
    "NotAStore",
    "Opaque",
    "OpeningGate",
    "Outcome",
    "Part",
    "Pending",
    "ProviderError",
    "ProviderErrorKind",
    "Recorded",
    "Reject",
    "Rejected",
    "RetryClass",
    "RetryClassifier",
    "RetryPolicy",
    "RunEnded",
    "RunStarted",
    "Running",
    "SchemaTooNew",
    "SilentAttempt",
    "Skip",
    "StorageError",
    "StoreBusy",
    "StoreClosed",
    "StoreCorrupt",
    "StoreFull",
    "StoreReadOnly",
    "StuckLoopGuard",
    "Terminate",
    "Text",
    "Tool",
    "ToolApproved",
    "ToolCompleted",
    "ToolError",
    "ToolErrorPolicy",
    "ToolErrorTerminal",
    "ToolEvent",
    "ToolFailed",
    "ToolGate",
    "ToolGateContext",
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
    "compose_gates",
    "evolve",
    "fingerprint",
    "validate",
]

_LAZY = {
    "AgentError": "eventstore.agent_errors",
    "Approve": "eventstore.dispatch",
    "AsyncAttempt": "eventstore.aio",
    "AsyncConversation": "eventstore.aio",
    "AsyncDispatcher": "eventstore.dispatch",
    "AsyncEventStore": "eventstore.aio",
    "AsyncFeed": "eventstore.reader_aio",
    "AsyncFollow": "eventstore.reader_aio",
    "AuthErrorKind": "eventstore.agent_errors",
    "Cancelled": "eventstore.agent_errors",
    "ConfigError": "eventstore.agent_errors",
    "ContextOverflow": "eventstore.agent_errors",
    "DefaultRetryClassifier": "eventstore.retry",
    "Denial": "eventstore.gate",
    "Dispatcher": "eventstore.dispatch",
    "ErrorClass": "eventstore.envelope",
    "ErrorEnvelope": "eventstore.envelope",
    "Finding": "eventstore.wire",
    "Follow": "eventstore.following",
    "FunctionTool": "eventstore.dispatch",
    "GateClass": "eventstore.gate",
    "GateConflict": "eventstore.gate",
    "GateDecision": "eventstore.gate",
    "Imported": "eventstore.importing",
    "InternalError": "eventstore.agent_errors",
    "Lag": "eventstore.following",
    "OpeningGate": "eventstore.gate",
    "Outcome": "eventstore.dispatch",
    "ProviderError": "eventstore.agent_errors",
    "ProviderErrorKind": "eventstore.agent_errors",
    "Reject": "eventstore.dispatch",
    "RetryClass": "eventstore.retry",
    "RetryClassifier": "eventstore.retry",
    "RetryPolicy": "eventstore.retry",
    "Skip": "eventstore.dispatch",
    "StuckLoopGuard": "eventstore.dispatch",
    "Terminate": "eventstore.dispatch",
    "ToolError": "eventstore.agent_errors",
    "ToolErrorPolicy": "eventstore.policy",
    "ToolErrorTerminal": "eventstore.policy",
    "ToolGate": "eventstore.gate",
    "ToolGateContext": "eventstore.gate",
    "Violation": "eventstore.wire",
    "compose_gates": "eventstore.gate",
    "validate": "eventstore.wire",
}


def __getattr__(name: str) -> object:
    """Load a room that not everybody needs, when it is asked for."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - as seldom as the rooms are

    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
