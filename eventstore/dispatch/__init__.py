"""`Dispatcher`: the calls of a turn gated, approved, run, retried, judged; each step recorded."""

from __future__ import annotations

from eventstore.dispatch.aio import AsyncDispatcher
from eventstore.dispatch.blocking import Dispatcher
from eventstore.dispatch.decision import (
    Approve,
    Outcome,
    Reject,
    Skip,
    StuckLoopGuard,
    Terminate,
)
from eventstore.dispatch.function_tool import FunctionTool

__all__ = [
    "Approve",
    "AsyncDispatcher",
    "Dispatcher",
    "FunctionTool",
    "Outcome",
    "Reject",
    "Skip",
    "StuckLoopGuard",
    "Terminate",
]
