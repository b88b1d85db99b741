"""The read side: folds over the log. They append nothing and never raise on a log.

from projections import error_statistics, model_history

prompt = model_history(chat.events()).render("openai")
"""

from __future__ import annotations

from eventstore.recovery import OpenAttempt
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
    "Percentiles",
    "Projection",
    "Repair",
    "RepairedMessages",
    "Repeat",
    "Repeats",
    "Replay",
    "ResumePlan",
    "Statistics",
    "Step",
    "current_tools",
    "error_statistics",
    "gate_context",
    "model_history",
    "repair_history",
    "repair_messages",
    "repeats",
    "replay",
    "resume_plan",
    "token_counter",
]
