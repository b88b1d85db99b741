"""The read side: folds over the log. They append nothing and never raise on a log.

from projections import error_statistics, model_history

prompt = model_history(chat.events()).render("openai")
"""

from __future__ import annotations

from projections.entries import HistoryEntry, repair_history
from projections.history import History, model_history
from projections.messages import RepairedMessages, repair_messages
from projections.view import ModelHistory, Repair

__all__ = [
    "History",
    "HistoryEntry",
    "ModelHistory",
    "Repair",
    "RepairedMessages",
    "model_history",
    "repair_history",
    "repair_messages",
]
