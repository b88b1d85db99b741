"""The public names: two sorted lists, written down here so that no change is accidental."""

from __future__ import annotations

import inspect
from types import ModuleType

import pytest

import eventstore
import projections
from eventstore import detectors, providers, seals, testing

EVENTSTORE = [
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

PROJECTIONS = [
    "Anomaly",
    "CacheBreak",
    "Cause",
    "CurrentTools",
    "Cycle",
    "Diagnosis",
    "Divergence",
    "Doubt",
    "ErrorStatistics",
    "EventFilter",
    "FoundEvent",
    "Frame",
    "History",
    "HistoryEntry",
    "JudgedCall",
    "LogDiff",
    "ModelHistory",
    "OpenAttempt",
    "OtherVersion",
    "Parked",
    "PendingApproval",
    "Percentiles",
    "Progress",
    "ProjectedLane",
    "Projection",
    "Projector",
    "PromptDiff",
    "PromptDivergence",
    "RecordedFailure",
    "RecordedModel",
    "RecordedTools",
    "Repair",
    "RepairedMessages",
    "Repeat",
    "Repeats",
    "Replay",
    "ResumePlan",
    "ScanFinding",
    "ScannedLog",
    "Statistics",
    "Step",
    "TableProjection",
    "TextSearch",
    "TimeBucket",
    "UsageReport",
    "UsageStatistics",
    "WhatIf",
    "bisect",
    "cache_breaks",
    "current_tools",
    "diff",
    "doubts",
    "error_statistics",
    "estimate_tokens",
    "gate_context",
    "history_entries",
    "html_report",
    "load_events",
    "model_history",
    "otlp_trace",
    "pending_approvals",
    "prompt_diff",
    "repair_history",
    "repair_messages",
    "repeats",
    "replay",
    "resume_plan",
    "scan",
    "token_counter",
    "usage_statistics",
    "what_if",
    "why",
]

both = pytest.mark.parametrize(
    ("package", "names"), [(eventstore, EVENTSTORE), (projections, PROJECTIONS)]
)


@both
def test_the_public_names_are_these(package: ModuleType, names: list[str]) -> None:
    """A public name is added or removed here and in the package together."""
    assert package.__all__ == names


@both
def test_the_public_names_are_sorted(package: ModuleType, names: list[str]) -> None:
    """Capitals come first, as Python sorts, so each name has one place."""
    assert names == sorted(set(names))
    assert list(package.__all__) == sorted(package.__all__)


PROVIDERS = [
    "PROVIDERS",
    "ROLES",
    "Answer",
    "AnyProvider",
    "Call",
    "Change",
    "Finding",
    "ForeignForm",
    "FormatSignature",
    "KeptMessages",
    "LastRequest",
    "LaterSystem",
    "ModelFact",
    "ProviderAdapter",
    "ProviderName",
    "Reasoning",
    "RegisteredProvider",
    "Rendered",
    "ResultsMessage",
    "RuleBook",
    "ServerKept",
    "Turn",
    "Violation",
    "adapter_of",
    "answer_text",
    "copy",
    "events_of_history",
    "has_all_results",
    "is_continued",
    "is_valid",
    "known_provider",
    "list_key",
    "parse",
    "parse_in_place",
    "plain_text",
    "references_server_call",
    "register",
    "register_finish_reason",
    "render",
    "request_of",
    "shown_text",
    "stored_parts",
    "unwrapped",
    "validate",
]
"""What the read side takes from `eventstore.providers`, and what a provider of one's own needs."""


def test_the_public_names_of_the_providers_are_these() -> None:
    """The names are the functions that parse, render and validate, and the values between them."""
    assert providers.__all__ == PROVIDERS
    assert all(hasattr(providers, name) for name in PROVIDERS)


TESTING = [
    "NOON",
    "Acknowledgement",
    "EventStoreContract",
    "FrozenClock",
    "Guarantee",
    "ImporterContract",
    "OpenStorage",
    "Place",
    "Placed",
    "ProjectionContract",
    "ProviderContract",
    "Reading",
    "SealsContract",
    "SharedEventStoreContract",
    "SharedStorageContract",
    "StorageContract",
    "SubjectContract",
    "Violation",
    "acknowledged",
    "all_events",
    "append",
    "append_one",
    "approved",
    "check_history",
    "completed",
    "draft",
    "failed",
    "fingerprint_of",
    "forbid_rebase",
    "log",
    "message",
    "paused",
    "pending",
    "places",
    "rebase_with",
    "refused",
    "rejected",
    "run_concurrently",
    "running",
    "unknown",
]


def test_the_public_names_of_the_contracts_are_these() -> None:
    """Tests of storages, providers, projections and formats of others use them."""
    assert testing.__all__ == TESTING


SEALS = [
    "Anchor",
    "AnchorFailed",
    "BadKey",
    "BadNote",
    "Checked",
    "CheckedLane",
    "Checkpoint",
    "Consistency",
    "FileAnchor",
    "Finding",
    "FolderStore",
    "Inclusion",
    "NotSealed",
    "NotSigned",
    "ObjectAnchor",
    "ObjectStore",
    "Opening",
    "Seal",
    "SealError",
    "SealMismatch",
    "SealableLog",
    "SealableStore",
    "SealedRow",
    "Sealer",
    "SealingPace",
    "SigningKey",
    "StampRefused",
    "VerifierKey",
    "check",
    "leaf_of",
    "notes_in",
    "openings",
    "prove",
    "prove_all",
    "prove_since",
    "seal",
    "seal_problems",
]


DETECTORS = ["CARD", "EMAIL", "IBAN", "SECRET", "Find", "Redact", "Span", "phone_numbers"]


def test_the_public_names_of_the_detectors_are_these() -> None:
    """`eventstore` itself has `Redact` alone: a program names the rules that it wants."""
    assert detectors.__all__ == DETECTORS
    assert all(hasattr(detectors, name) for name in DETECTORS)


def test_the_public_names_of_the_seals_are_these() -> None:
    """Signing needs the extra `seal`, so `eventstore` itself does not have them."""
    assert seals.__all__ == SEALS
    assert all(hasattr(seals, name) for name in SEALS)


@both
def test_every_public_name_is_there_and_says_what_it_is(
    package: ModuleType, names: list[str]
) -> None:
    """Each name can be imported, and its own docstring begins with a full line."""
    for name in names:
        doc = getattr(package, name).__doc__
        assert doc, f"{package.__name__}.{name} has no docstring"
        assert inspect.cleandoc(doc).splitlines()[0].strip(), name


@both
def test_only_the_public_names_look_public(package: ModuleType, names: list[str]) -> None:
    """All other names in a package are modules or begin with an underscore."""
    others = {
        name
        for name, value in vars(package).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert others - {"TYPE_CHECKING", "annotations"} <= set(names)


def test_lazily_loaded_names_are_listed_and_importable() -> None:
    """The names are in `dir()`, and `from eventstore import …` finds them."""
    assert set(EVENTSTORE) <= set(dir(eventstore))
    assert set(PROJECTIONS) <= set(dir(projections))
    with pytest.raises(AttributeError, match="module 'eventstore' has no attribute 'nobody'"):
        eventstore.nobody  # noqa: B018
