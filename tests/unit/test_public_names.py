"""What is public: two sorted lists, written down here so that a change is on purpose."""

from __future__ import annotations

import inspect
from types import ModuleType

import pytest

import eventstore
import projections

EVENTSTORE = [
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

PROJECTIONS = [
    "Anomaly",
    "CurrentTools",
    "Cycle",
    "ErrorStatistics",
    "Frame",
    "History",
    "HistoryEntry",
    "ModelHistory",
    "OpenAttempt",
    "Parked",
    "PendingApproval",
    "Percentiles",
    "Progress",
    "Projection",
    "Projector",
    "Repair",
    "RepairedMessages",
    "Repeat",
    "Repeats",
    "Replay",
    "ResumePlan",
    "Statistics",
    "Step",
    "TimeBucket",
    "current_tools",
    "error_statistics",
    "gate_context",
    "model_history",
    "pending_approvals",
    "repair_history",
    "repair_messages",
    "repeats",
    "replay",
    "resume_plan",
    "token_counter",
]

both = pytest.mark.parametrize(
    ("package", "names"), [(eventstore, EVENTSTORE), (projections, PROJECTIONS)]
)


@both
def test_the_public_names_are_these(package: ModuleType, names: list[str]) -> None:
    """A name is added or taken away here and in the package, together."""
    assert package.__all__ == names


@both
def test_the_public_names_are_sorted(package: ModuleType, names: list[str]) -> None:
    """Capitals first, as Python sorts, so that each name has one place."""
    assert names == sorted(set(names))
    assert list(package.__all__) == sorted(package.__all__)


@both
def test_every_public_name_is_there_and_says_what_it_is(
    package: ModuleType, names: list[str]
) -> None:
    """Each can be imported, and its own docstring begins with a full line."""
    for name in names:
        doc = getattr(package, name).__doc__
        assert doc, f"{package.__name__}.{name} has no docstring"
        assert inspect.cleandoc(doc).splitlines()[0].strip(), name


@both
def test_nothing_else_looks_public(package: ModuleType, names: list[str]) -> None:
    """What a package holds besides is modules and names with an underscore."""
    others = {
        name
        for name, value in vars(package).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert others - {"TYPE_CHECKING", "annotations"} <= set(names)


def test_what_is_loaded_late_is_there_from_the_start() -> None:
    """For those who look, and for those who import it by name."""
    assert set(EVENTSTORE) <= set(dir(eventstore))
    assert set(PROJECTIONS) <= set(dir(projections))
    with pytest.raises(AttributeError, match="module 'eventstore' has no attribute 'nobody'"):
        eventstore.nobody  # noqa: B018
