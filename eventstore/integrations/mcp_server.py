"""mcp: a server that records the calls of its tools.

    server = RecordedServer(chat, "orders")  # in place of MCPServer("orders")

1. A call is pending, then running, on disk before its tool runs, for any client.
2. The failure is the tool's own exception, which the client never sees. Refused arguments are a
   failure of kind `validation`, of an attempt that has begun: the server checks them inside.
3. The protocol gives a call no id that outlives its connection, so each request is a call of its
   own. A client that must not repeat one records it, too: see `eventstore.integrations.mcp`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eventstore.aio.conversation import AsyncConversation
from eventstore.integrations.extras import missing_extra
from eventstore.integrations.mcp import RemoteToolError, result_of
from eventstore.integrations.recorded_calls import (
    AsyncRecordedCalls,
    shown_text,
    validation_failure,
)

try:
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
    from mcp.types import CallToolResult, TextContent
    from pydantic import ValidationError
except ImportError as error:
    raise missing_extra("mcp", error) from error

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from mcp.server.mcpserver import Context
    from mcp.types import InputRequiredResult

    from eventstore.aio.attempt import AsyncAttempt
    from eventstore.domain.failure import Failure


class RecordedServer(MCPServer[Any]):
    """An `MCPServer` whose calls are in the log; its other arguments go to `MCPServer`.

    `chat` is the conversation of all calls. Where clients have one each, it is a function that
    returns the conversation of a request's `Context` (None for a call from inside the server).

    A client that had no answer may ask again: a call with the name and arguments of one in doubt
    is rejected, and answered with an error that says so. `read_only` names the tools that may run
    again all the same.
    """

    def __init__(
        self,
        chat: AsyncConversation | Callable[[Context[Any, Any] | None], AsyncConversation],
        name: str | None = None,
        *,
        read_only: Collection[str] = (),
        **options: Any,
    ) -> None:
        super().__init__(name, **options)
        self._chat = chat
        self._read_only = read_only
        self._begun: set[str] = set()

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Record a call, run its tool, and record how it ended."""
        chat = self._chat if isinstance(self._chat, AsyncConversation) else self._chat(context)
        call = await chat.request(name, arguments)
        calls = AsyncRecordedCalls(chat, "mcp", read_only=self._read_only, begun=self._begun)
        async with calls.running(call) as attempt:
            if attempt is None:
                text = shown_text(await calls.answer(await calls.now(call.id)))
                return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)
            try:
                answer = await super().call_tool(name, attempt.arguments, context)
            except ToolError as error:
                await attempt.fail(_own_failure(error))
                raise
            await _record_answer(attempt, answer)
        return answer


async def _record_answer(
    attempt: AsyncAttempt, answer: CallToolResult | InputRequiredResult
) -> None:
    if not isinstance(answer, CallToolResult):  # a question: the client asks once more
        asked = answer.model_dump(
            mode="json", by_alias=True, exclude={"request_state"}, exclude_none=True
        )
        await attempt.complete(asked)
        return
    try:
        result = result_of(answer)
    except RemoteToolError as error:
        await attempt.fail(error)
    else:
        await attempt.complete(result)


def _own_failure(error: ToolError) -> BaseException | Failure:
    """Return what a tool raised itself, below what the server made of it."""
    cause = error.__cause__
    if isinstance(cause, ToolError):  # of a tool that this one called
        return _own_failure(cause)
    if isinstance(cause, ValidationError) and not isinstance(error, UnexpectedToolError):
        return validation_failure(cause)
    return cause or error
