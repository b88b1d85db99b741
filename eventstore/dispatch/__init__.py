"""The dispatchers: they run the calls of a turn and record each step."""

from __future__ import annotations

from eventstore.dispatch.async_dispatcher import AsyncDispatcher
from eventstore.dispatch.decisions import (
    Approve,
    Ask,
    Defer,
    Outcome,
    Reject,
    Replace,
    Skip,
    StuckLoopGuard,
    Terminate,
)
from eventstore.dispatch.dispatcher import Dispatcher
from eventstore.dispatch.function_tool import FunctionTool
from eventstore.dispatch.toolbox import Toolbox

__all__ = [
    "Approve",
    "Ask",
    "AsyncDispatcher",
    "Defer",
    "Dispatcher",
    "FunctionTool",
    "Outcome",
    "Reject",
    "Replace",
    "Skip",
    "StuckLoopGuard",
    "Terminate",
    "Toolbox",
]
