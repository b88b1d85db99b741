"""The read side: folds over the log. They append nothing, and never raise on a damaged log.

```python
from projections import error_statistics, model_history

prompt = model_history(chat.events()).render("openai")
print(error_statistics(store.read()))
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventstore.domain.recovery import OpenAttempt
from projections.approvals import PendingApproval, pending_approvals
from projections.current_tools import CurrentTools, current_tools
from projections.debugging.bisection import bisect
from projections.debugging.event_filter import EventFilter
from projections.debugging.event_lines import load_events
from projections.debugging.log_diff import LogDiff, diff
from projections.debugging.prompt_diff import PromptDiff, prompt_diff
from projections.debugging.recorded_model import PromptDivergence, RecordedModel
from projections.debugging.recorded_tools import Divergence, RecordedFailure, RecordedTools
from projections.debugging.rules.evidence import Cause
from projections.debugging.scan import ScanFinding, ScannedLog, scan
from projections.debugging.what_if import JudgedCall, WhatIf, what_if
from projections.debugging.why import Diagnosis, why
from projections.doubts import Doubt, doubts
from projections.exports.otlp import otlp_trace
from projections.history.cache_breaks import CacheBreak, cache_breaks
from projections.history.entries import Repair
from projections.history.gate_context import gate_context
from projections.history.history_entries import history_entries
from projections.history.model_history import ModelHistory
from projections.history.projection import History, model_history
from projections.history.repair_history import HistoryEntry, repair_history
from projections.history.repair_messages import RepairedMessages, repair_messages
from projections.history.token_counter import estimate_tokens, token_counter
from projections.projection import Anomaly, Projection
from projections.repeats.projection import Cycle, Repeat, Repeats, repeats
from projections.replay import Frame, Replay, replay
from projections.resume_plan import ResumePlan, Step, resume_plan
from projections.statistics.durations import Percentiles
from projections.statistics.projection import ErrorStatistics, error_statistics
from projections.statistics.results import Statistics
from projections.statistics.usage import UsageReport, UsageStatistics, usage_statistics

if TYPE_CHECKING:  # at run time loaded on first use: SQLAlchemy, and jinja2
    from projections.projector import (
        OtherVersion,
        Parked,
        Progress,
        ProjectedLane,
        Projector,
        TableProjection,
        TimeBucket,
    )
    from projections.report.page import html_report
    from projections.search import FoundEvent, TextSearch

__all__ = [
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

_OF_THE_SEARCH = frozenset({"FoundEvent", "TextSearch"})
_OF_THE_PROJECTOR = frozenset(
    {
        "OtherVersion",
        "Parked",
        "Progress",
        "ProjectedLane",
        "Projector",
        "TableProjection",
        "TimeBucket",
    }
)


def __getattr__(name: str) -> object:
    """Load the projector, the search and the report on first use."""
    if name in _OF_THE_PROJECTOR:
        from projections import projector  # loads SQLAlchemy

        return getattr(projector, name)
    if name in _OF_THE_SEARCH:
        from projections import search  # loads SQLAlchemy

        return getattr(search, name)
    if name == "html_report":
        from projections.report.page import html_report  # loads jinja2

        return html_report
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
