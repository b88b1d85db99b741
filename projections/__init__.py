"""The read side: folds over the log. They append nothing and never raise on a log.

from projections import error_statistics, model_history

prompt = model_history(chat.events()).render("openai")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventstore.recovery import OpenAttempt
from projections.approvals import PendingApproval, pending_approvals
from projections.durations import Percentiles
from projections.entries import HistoryEntry, repair_history
from projections.figures import Statistics
from projections.fold import Anomaly, Projection
from projections.gates import gate_context
from projections.history import History, model_history
from projections.messages import RepairedMessages, repair_messages
from projections.recovery import ResumePlan, Step, resume_plan
from projections.repair import Repair
from projections.repeats import Cycle, Repeat, Repeats, repeats
from projections.replay import Frame, Replay, replay
from projections.statistics import ErrorStatistics, error_statistics
from projections.tokens import token_counter
from projections.tools import CurrentTools, current_tools
from projections.view import ModelHistory

if TYPE_CHECKING:  # loaded late, as it needs SQLAlchemy
    from projections.projector import Parked, Progress, Projector, TimeBucket

__all__ = [
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

_LATE = frozenset({"Parked", "Progress", "Projector", "TimeBucket"})


def __getattr__(name: str) -> object:
    """Load the projector when it is asked for."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from projections import projector  # noqa: PLC0415 - it loads SQLAlchemy

    return getattr(projector, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
