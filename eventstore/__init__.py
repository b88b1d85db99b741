"""The write side: an append-only log of what an agent's tool calls went through.

```python
from eventstore import EventStore

store = EventStore.open("sqlite:///agent.db")
chat = store.conversation("support-42")
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventstore.attempt import Attempt, CurrentAttempt, current_attempt
from eventstore.conversation import Conversation
from eventstore.domain.calls import FunctionCall, FunctionResponse
from eventstore.domain.decision_errors import ApprovalExpired, CallChanged, CallUnderWay
from eventstore.domain.detached import EventsArchived, EventsRestored
from eventstore.domain.events import (
    Event,
    HistoryCompacted,
    HookRaised,
    MessageAdded,
    ModelResponded,
    Recorded,
    RunEnded,
    RunStarted,
    ToolApproved,
    ToolCompleted,
    ToolEndedLate,
    ToolEvent,
    ToolFailed,
    ToolPaused,
    ToolPending,
    ToolRejected,
    ToolRenewed,
    ToolRunning,
    UnknownEvent,
)
from eventstore.domain.failure import ErrorKind, ErrorKindSet, Failure, classify
from eventstore.domain.fingerprint import fingerprint
from eventstore.domain.hook_answers import HookAnswer
from eventstore.domain.lifecycle import evolve
from eventstore.domain.messages import Audio, Document, Image, Opaque, Part, Text
from eventstore.domain.redaction import PayloadsRedacted, RedactedPayload
from eventstore.domain.revision import Revision
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
from eventstore.domain.tools_offered import GateAnswer, ToolsOffered
from eventstore.domain.usage import Usage, UsageLimitBreach
from eventstore.errors import (
    ConversationArchived,
    CursorLost,
    EventStoreError,
    IllegalTransition,
    ImportConflict,
    LostPlace,
    NoDecision,
    NonResolvedToolError,
    NotAStore,
    OutcomeUnknown,
    RedactionRefused,
    RuleFailed,
    SchemaTooNew,
    SchemaTooOld,
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
    UsageUnknown,
    UsageUnknownWarning,
    VersionConflict,
    WrongKey,
)
from eventstore.store import EventStore
from eventstore.subscriptions.feed import Cursor, Feed

if TYPE_CHECKING:
    from eventstore.agent_errors.error_envelope import ErrorEnvelope
    from eventstore.agent_errors.errors import (
        AgentError,
        Cancelled,
        ConfigError,
        ContextOverflow,
        InternalError,
        ProviderError,
        ToolError,
        UsageLimitExceeded,
    )
    from eventstore.agent_errors.response_failed import ResponseFailed
    from eventstore.aio.attempt import AsyncAttempt
    from eventstore.aio.conversation import AsyncConversation
    from eventstore.aio.reader import AsyncFeed, AsyncFollow
    from eventstore.aio.store import AsyncEventStore
    from eventstore.detectors import Redact
    from eventstore.dispatch import (
        Approve,
        Ask,
        AsyncDispatcher,
        Defer,
        Dispatcher,
        FunctionTool,
        Outcome,
        Reject,
        Replace,
        Skip,
        StuckLoopGuard,
        Terminate,
        Toolbox,
    )
    from eventstore.domain.error_codes import ErrorClass
    from eventstore.domain.provider_error_kinds import AuthErrorKind, ProviderErrorKind
    from eventstore.domain.tool_effect import ToolEffect
    from eventstore.domain.tool_errors import ModelRetry, NotApplicable
    from eventstore.policies.gates import (
        AsyncToolGate,
        Denial,
        GateClass,
        GateConflict,
        GateDecision,
        OpeningGate,
        ToolGate,
        ToolGateContext,
        compose_gates,
    )
    from eventstore.policies.prices import Price, Prices, PriceTable, priced
    from eventstore.policies.result_limits import ResultLimits
    from eventstore.policies.retry import (
        DefaultRetryClassifier,
        RetryClass,
        RetryClassifier,
        RetryPolicy,
    )
    from eventstore.policies.termination import FatalToolError, ToolErrorPolicy, ToolErrorTerminal
    from eventstore.policies.usage_limits import RunUsage, UsageLimits
    from eventstore.provider_messages.history_import import Imported
    from eventstore.providers.to_events import Finding
    from eventstore.providers.validation import Violation, validate
    from eventstore.redaction.erase import ErasedConversation, Erasure
    from eventstore.redaction.redact import Redaction
    from eventstore.responses.streams import AsyncRecordedStream, RecordedStream, recording
    from eventstore.responses.usage_budget import AsyncUsageBudget, UsageBudget
    from eventstore.retention.check import ArchiveProblem
    from eventstore.retention.restore import Restored
    from eventstore.retention.retain import Retention
    from eventstore.storage.interface import Archived
    from eventstore.subjects.key_file import KeyFile
    from eventstore.subjects.keys import SubjectKey, SubjectKeys
    from eventstore.subjects.secret import SubjectSecret
    from eventstore.subscriptions.conversation_cursor import ConversationCursor
    from eventstore.subscriptions.subscription import Follow, Lag

__all__ = [
    "AgentError",
    "ApprovalExpired",
    "Approve",
    "Approved",
    "ArchiveProblem",
    "Archived",
    "Ask",
    "AsyncAttempt",
    "AsyncConversation",
    "AsyncDispatcher",
    "AsyncEventStore",
    "AsyncFeed",
    "AsyncFollow",
    "AsyncRecordedStream",
    "AsyncToolGate",
    "AsyncUsageBudget",
    "Attempt",
    "Audio",
    "AuthErrorKind",
    "CallChanged",
    "CallUnderWay",
    "Cancelled",
    "Completed",
    "ConfigError",
    "ContextOverflow",
    "Conversation",
    "ConversationArchived",
    "ConversationCursor",
    "CurrentAttempt",
    "Cursor",
    "CursorLost",
    "DefaultRetryClassifier",
    "Defer",
    "Denial",
    "Dispatcher",
    "Document",
    "ErasedConversation",
    "Erasure",
    "ErrorClass",
    "ErrorEnvelope",
    "ErrorKind",
    "ErrorKindSet",
    "Event",
    "EventStore",
    "EventStoreError",
    "EventsArchived",
    "EventsRestored",
    "Failed",
    "Failure",
    "FatalToolError",
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
    "HistoryCompacted",
    "HookAnswer",
    "HookRaised",
    "IllegalTransition",
    "Image",
    "ImportConflict",
    "Imported",
    "InternalError",
    "KeyFile",
    "Lag",
    "LostPlace",
    "MessageAdded",
    "ModelResponded",
    "ModelRetry",
    "NoDecision",
    "NonResolvedToolError",
    "NotAStore",
    "NotApplicable",
    "Opaque",
    "OpeningGate",
    "Outcome",
    "OutcomeUnknown",
    "Part",
    "PayloadsRedacted",
    "Pending",
    "Price",
    "PriceTable",
    "Prices",
    "ProviderError",
    "ProviderErrorKind",
    "Recorded",
    "RecordedStream",
    "Redact",
    "RedactedPayload",
    "Redaction",
    "RedactionRefused",
    "Reject",
    "Rejected",
    "Replace",
    "ResponseFailed",
    "Restored",
    "ResultLimits",
    "Retention",
    "RetryClass",
    "RetryClassifier",
    "RetryPolicy",
    "Revision",
    "RuleFailed",
    "RunEnded",
    "RunStarted",
    "RunUsage",
    "Running",
    "SchemaTooNew",
    "SchemaTooOld",
    "SilentAttempt",
    "Skip",
    "StorageError",
    "StoreBusy",
    "StoreClosed",
    "StoreCorrupt",
    "StoreFull",
    "StoreReadOnly",
    "StuckLoopGuard",
    "SubjectKey",
    "SubjectKeys",
    "SubjectSecret",
    "Terminate",
    "Text",
    "Tool",
    "ToolApproved",
    "ToolCompleted",
    "ToolEffect",
    "ToolEndedLate",
    "ToolError",
    "ToolErrorPolicy",
    "ToolErrorTerminal",
    "ToolEvent",
    "ToolFailed",
    "ToolGate",
    "ToolGateContext",
    "ToolPaused",
    "ToolPending",
    "ToolRejected",
    "ToolRenewed",
    "ToolRunning",
    "ToolStatus",
    "Toolbox",
    "ToolsOffered",
    "UnencodableEvent",
    "UnhashableArguments",
    "UnknownCall",
    "UnknownEvent",
    "UnparsedArguments",
    "Usage",
    "UsageBudget",
    "UsageLimitBreach",
    "UsageLimitExceeded",
    "UsageLimits",
    "UsageUnknown",
    "UsageUnknownWarning",
    "VersionConflict",
    "Violation",
    "WrongKey",
    "classify",
    "compose_gates",
    "current_attempt",
    "evolve",
    "fingerprint",
    "priced",
    "recording",
    "validate",
]

_LAZY = {
    "AgentError": "eventstore.agent_errors.errors",
    "Approve": "eventstore.dispatch",
    "Ask": "eventstore.dispatch",
    "AsyncAttempt": "eventstore.aio.attempt",
    "AsyncConversation": "eventstore.aio.conversation",
    "AsyncDispatcher": "eventstore.dispatch",
    "AsyncEventStore": "eventstore.aio.store",
    "AsyncFeed": "eventstore.aio.reader",
    "AsyncFollow": "eventstore.aio.reader",
    "AsyncRecordedStream": "eventstore.responses.streams",
    "AsyncToolGate": "eventstore.policies.gates",
    "AsyncUsageBudget": "eventstore.responses.usage_budget",
    "AuthErrorKind": "eventstore.domain.provider_error_kinds",
    "Cancelled": "eventstore.agent_errors.errors",
    "ConfigError": "eventstore.agent_errors.errors",
    "ContextOverflow": "eventstore.agent_errors.errors",
    "ConversationCursor": "eventstore.subscriptions.conversation_cursor",
    "DefaultRetryClassifier": "eventstore.policies.retry",
    "Defer": "eventstore.dispatch",
    "Denial": "eventstore.policies.gates",
    "Dispatcher": "eventstore.dispatch",
    "ErasedConversation": "eventstore.redaction.erase",
    "Erasure": "eventstore.redaction.erase",
    "ErrorClass": "eventstore.domain.error_codes",
    "ErrorEnvelope": "eventstore.agent_errors.error_envelope",
    "FatalToolError": "eventstore.policies.termination",
    "Finding": "eventstore.providers",
    "Follow": "eventstore.subscriptions.subscription",
    "FunctionTool": "eventstore.dispatch",
    "GateClass": "eventstore.policies.gates",
    "GateConflict": "eventstore.policies.gates",
    "GateDecision": "eventstore.policies.gates",
    "Imported": "eventstore.provider_messages.history_import",
    "InternalError": "eventstore.agent_errors.errors",
    "KeyFile": "eventstore.subjects.key_file",
    "Lag": "eventstore.subscriptions.subscription",
    "ModelRetry": "eventstore.domain.tool_errors",
    "NotApplicable": "eventstore.domain.tool_errors",
    "OpeningGate": "eventstore.policies.gates",
    "Outcome": "eventstore.dispatch",
    "Price": "eventstore.policies.prices",
    "PriceTable": "eventstore.policies.prices",
    "Prices": "eventstore.policies.prices",
    "ProviderError": "eventstore.agent_errors.errors",
    "ProviderErrorKind": "eventstore.domain.provider_error_kinds",
    "Redact": "eventstore.detectors",
    "Redaction": "eventstore.redaction.redact",
    "ArchiveProblem": "eventstore.retention.check",
    "Archived": "eventstore.storage.interface",
    "Restored": "eventstore.retention.restore",
    "Retention": "eventstore.retention.retain",
    "RecordedStream": "eventstore.responses.streams",
    "Reject": "eventstore.dispatch",
    "Replace": "eventstore.dispatch",
    "ResponseFailed": "eventstore.agent_errors.response_failed",
    "ResultLimits": "eventstore.policies.result_limits",
    "RetryClass": "eventstore.policies.retry",
    "RetryClassifier": "eventstore.policies.retry",
    "RetryPolicy": "eventstore.policies.retry",
    "RunUsage": "eventstore.policies.usage_limits",
    "Skip": "eventstore.dispatch",
    "StuckLoopGuard": "eventstore.dispatch",
    "SubjectKey": "eventstore.subjects.keys",
    "SubjectKeys": "eventstore.subjects.keys",
    "SubjectSecret": "eventstore.subjects.secret",
    "Terminate": "eventstore.dispatch",
    "ToolEffect": "eventstore.domain.tool_effect",
    "ToolError": "eventstore.agent_errors.errors",
    "ToolErrorPolicy": "eventstore.policies.termination",
    "ToolErrorTerminal": "eventstore.policies.termination",
    "ToolGate": "eventstore.policies.gates",
    "ToolGateContext": "eventstore.policies.gates",
    "Toolbox": "eventstore.dispatch",
    "UsageBudget": "eventstore.responses.usage_budget",
    "UsageLimitExceeded": "eventstore.agent_errors.errors",
    "UsageLimits": "eventstore.policies.usage_limits",
    "Violation": "eventstore.providers",
    "compose_gates": "eventstore.policies.gates",
    "priced": "eventstore.policies.prices",
    "recording": "eventstore.responses.streams",
    "validate": "eventstore.providers",
}


def __getattr__(name: str) -> object:
    """Load a subpackage that few programs need when it is first used."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # as seldom as the rooms are

    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
