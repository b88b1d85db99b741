"""How the tools of ADK ended.

1. An end is recorded before any other plugin sees it, wherever the ledger stands in the list, so
   that none of them hides it. The log answers a call in doubt.
2. An error that ADK, or a tool of ADK, has made into a result is a failure. Only its text says
   whether it leaves a doubt. What a function of the host returns is its result.
3. A run that ended under calls of which ADK told no end leaves them in doubt.
"""

from __future__ import annotations

import json
from asyncio import CancelledError
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.function_tool import FunctionTool
from msgspec.structs import replace

from eventstore.domain.failure import ErrorKind, Failure
from eventstore.integrations.error_texts import failure_of_text
from eventstore.integrations.google_adk_contents import recorded_result, wording_of
from eventstore.integrations.host_answers import seen_at_pause
from eventstore.integrations.recorded_calls import AsyncRecordedCalls, shown_text

if TYPE_CHECKING:
    from google.adk.sessions import Session
    from google.adk.tools.base_tool import BaseTool
    from google.adk.tools.tool_context import ToolContext

    from eventstore.aio.attempt import AsyncAttempt
    from eventstore.domain.tool import Tool

_MCP_ERRORS: Final = ("MCP tool execution failed", "Unexpected error during MCP tool execution")
"""Begin what ADK answers with an error of the MCP SDK, and with any other, as of a transport."""


class ToolEnds(BasePlugin):
    """The plugin that stands before the others, and records how each tool ended."""

    def __init__(self, calls: AsyncRecordedCalls, is_own: Callable[[Session], bool]) -> None:
        super().__init__("toolledger_ends")
        self.failed: dict[str, Tool] = {}
        """The calls that failed, by ADK's ids, until the model's answer is given."""
        self._calls = calls
        self._is_own = is_own
        self._open: dict[str, tuple[AsyncAttempt, AsyncExitStack]] = {}  # by ADK's ids

    async def begin(self, call_id: str, call: Tool) -> AsyncAttempt | None:
        """Begin a call, unless it is rejected, or has changed since it was read: then None."""
        stack = AsyncExitStack()
        attempt = await stack.enter_async_context(self._calls.running(call))
        if attempt is None:
            await stack.aclose()
        else:
            self._open[call_id] = attempt, stack
        return attempt

    async def after_tool_callback(
        self,
        *,
        tool: BaseTool,
        tool_args: dict[str, Any],
        tool_context: ToolContext,
        result: object,
    ) -> dict[str, Any] | None:
        """Record what a tool returned, or that it paused; give the answer of one in doubt."""
        call_id = tool_context.function_call_id or ""
        self.failed.pop(call_id, None)
        under_way = self._under_way(tool_context)
        if under_way is None:
            return None
        attempt, stack = under_way
        async with stack:
            asked = tool_context.actions.requested_tool_confirmations.get(call_id)
            if asked is not None:
                tool_context.state[seen_key(attempt.tool)] = str(seen_at_pause(attempt.tool))
                await attempt.pause(reason=asked.hint)
            elif tool_context.actions.requested_auth_configs:
                await attempt.pause(reason="credentials")
            elif tool.is_long_running:
                await attempt.pause(reason="long-running")
            elif (failure := _failure_in(tool, result)) is not None:
                in_doubt = failure.leaves_doubt and attempt.has_effect
                wording = None if in_doubt else wording_of(call_id, tool.name, result)
                await attempt.fail(failure, wording=wording)
            else:
                await attempt.complete(recorded_result(result))
        return await self.answered(attempt.tool) if attempt.tool.in_doubt else None

    async def on_tool_error_callback(
        self,
        *,
        tool: BaseTool,
        tool_args: dict[str, Any],
        tool_context: ToolContext,
        error: BaseException,
    ) -> dict[str, Any] | None:
        """Record a tool's own exception; give the answer of a call in doubt."""
        under_way = self._under_way(tool_context)
        if under_way is None:
            return None
        attempt, stack = under_way
        async with stack:
            await attempt.fail(error)
        if isinstance(error, CancelledError):
            return None
        if attempt.tool.in_doubt:
            return await self.answered(attempt.tool)
        self.failed[tool_context.function_call_id or ""] = attempt.tool
        return None

    async def break_off(self, error: Exception) -> None:
        """Record that a run ended: whether the tools of its calls have run is not known."""
        failure = replace(Failure.from_exception(error), in_doubt=True)
        while self._open:
            _, (attempt, stack) = self._open.popitem()
            async with stack:
                await attempt.fail(failure)

    async def answered(self, call: Tool) -> dict[str, Any]:
        """Return the recorded answer of a call, as ADK gives a tool's answer."""
        answer = await self._calls.answer(call)
        result = None if call.response is None else call.response.result
        if isinstance(result, dict) and not answer.is_error:
            return result
        return {"error" if answer.is_error else "result": shown_text(answer)}

    def _under_way(self, context: ToolContext) -> tuple[AsyncAttempt, AsyncExitStack] | None:
        """Return the attempt of a tool's context, which ends now; None if it has none here."""
        if not self._is_own(context.session):
            return None
        return self._open.pop(context.function_call_id or "", None)


def seen_key(call: Tool) -> str:
    """Return the key of a session's state that has what was asked about a call."""
    return f"toolledger:{call.id}"


def refusal_of(name: str) -> str:
    """Return how ADK begins its answer to arguments that it refuses, or to an unknown name."""
    return f"Invoking `{name}()` failed"


def _failure_in(tool: BaseTool, result: object) -> Failure | None:
    """Return the failure that ADK, or a tool of ADK, tells as a result."""
    if not isinstance(result, dict):
        return None
    reason = result.get("error")
    if isinstance(reason, str) and reason.startswith(refusal_of(tool.name)):
        return Failure(ErrorKind.VALIDATION, reason)
    if isinstance(reason, str) and reason.startswith(_MCP_ERRORS):
        _, _, text = reason.partition(": ")
        return failure_of_text(text, leaves_doubt=not reason.startswith(_MCP_ERRORS[0]))
    detect = getattr(type(tool), "_detect_error_in_response", None)
    is_of_host = detect is getattr(FunctionTool, "_detect_error_in_response", None)
    if detect is None or is_of_host or detect(tool, result) is None:
        return None  # what a function of the host returns is its result, whatever the keys
    return failure_of_text(_error_text(result))


def _error_text(result: dict[str, Any]) -> str:
    """Return the words of an error: of a server's result, of a tool's, or all of it as JSON."""
    content = result.get("content")
    if isinstance(content, list):
        texts = [block["text"] for block in content if isinstance(block, dict) and "text" in block]
        if texts:
            return "\n".join(texts)
    reason = result.get("error")
    if isinstance(reason, str) and result.keys() == {"error"}:
        return reason
    return json.dumps(result, ensure_ascii=False, default=str)
