"""strands: a plugin that records an agent's runs, and gives the next run its history.

    ledger = Ledger(store.conversation("support-42"))
    agent = Agent(tools=[find_order], messages=await ledger.history(), plugins=[ledger])

1. Each message is recorded when strands adds it: the model's, with its calls, before any of them
   runs.
2. A call runs between its start and its end in the stage `ExecuteToolStage`, which hooks that
   cancel, or interrupt, never reach. A retry that a hook asks for is another attempt.
3. strands checks arguments inside the tool's own stream: refused arguments fail an attempt that
   has begun, with kind `validation`.
4. A call of a tool in `needs_approval` interrupts the agent before it starts. A decision in the log
   (`chat.approve`, `chat.reject`) is what `resume` continues with. strands gives an answer to the
   interrupt of the same name: the one about a call that has changed has the revision in its name.
5. The arguments that run are the log's. What a hook has changed before is an edit: of a call
   that needs a decision it takes that, made on them.
6. `resume` gives strands the last response again, so that strands itself runs the calls that are
   open. Calls with a recorded answer do not run again.
"""

from __future__ import annotations

import copy
import time
from typing import TYPE_CHECKING, Any, Final

from eventstore.aio.conversation import AsyncConversation
from eventstore.append.inputs import failure_of
from eventstore.clock import system_clock
from eventstore.domain.decision_errors import CallChanged
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.domain.statuses import Failed, Pending
from eventstore.integrations.call_starts import awaits_attempt, may_run
from eventstore.integrations.extras import missing_extra
from eventstore.integrations.host_answers import (
    first_seen,
    host_edit,
    seen_at_pause,
    seen_unedited,
    shown_revision,
)
from eventstore.integrations.mcp_failures import remote_failure
from eventstore.integrations.recorded_calls import (
    AsyncRecordedCalls,
    record_response,
    shown_text,
    validation_failure,
)
from eventstore.integrations.recorded_wordings import recorded_of, wording_in

try:
    from pydantic import ValidationError
    from strands.hooks import (
        AfterModelCallEvent,
        AfterToolCallEvent,
        BeforeModelCallEvent,
        MessageAddedEvent,
    )
    from strands.middleware import ExecuteToolStage
    from strands.plugins import Plugin
    from strands.types._events import ToolInterruptEvent, ToolResultEvent
    from strands.types.exceptions import MCPClientInitializationError
except ImportError as error:
    raise missing_extra("strands", error) from error

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection

    from strands import Agent
    from strands.agent import AgentResult
    from strands.middleware.stages import ExecuteToolContext
    from strands.types.content import Messages
    from strands.types.events import TypedEvent
    from strands.types.tools import AgentTool, ToolResult, ToolUse

    from eventstore.aio.attempt import AsyncAttempt
    from eventstore.domain.json_types import JsonObject
    from eventstore.domain.revision import Revision
    from eventstore.domain.tool import Tool

    Events = AsyncGenerator[TypedEvent, None]
    Next = Callable[[ExecuteToolContext], Events]

PROVIDER: Final = "bedrock"
"""The form of the messages of strands, whichever model it asks."""


class Ledger(Plugin):
    """A plugin that records every call of an agent in a conversation.

    `chat` is a conversation of an `AsyncEventStore`, which serves `agent(...)` as well.
    `needs_approval` names the tools whose calls wait for a decision.

    Raises:
        TypeError: `chat` is a conversation of an `EventStore`.
    """

    name = "toolledger"

    def __init__(
        self,
        chat: AsyncConversation,
        *,
        needs_approval: Collection[str] = (),
        read_only: Collection[str] = (),
    ) -> None:
        super().__init__()
        self.chat = chat
        self._calls = AsyncRecordedCalls(chat, "strands", needs_approval, read_only)
        self._needs_approval = frozenset(needs_approval)
        self._failed_in: dict[str, object] = {}  # by call: the cycle in which it failed last
        self._requested_at: float | None = None  # by `time.monotonic`, until the response is there
        self._stop_reason: str | None = None  # of the response whose message is to be added
        self._seen_errors: set[str] = set()  # calls whose errors are the log's
        self._interrupted: dict[str, Revision] = {}  # calls whose tools this agent has interrupted

    async def history(self) -> list[Any]:
        """Return what was said so far as an agent's `messages`; each call has its answer."""
        messages: list[Any] = await self._calls.items(PROVIDER)
        for block in (block for message in messages for block in message["content"]):
            if "toolResult" in block:
                block["toolResult"].setdefault("status", "success")
        return messages

    async def resume(self, agent: Agent, **options: Any) -> AgentResult | None:
        """Continue an agent after a crash, or after a decision; its `messages` become the log's.

        The calls of the last turn that may start run first. Then the model is asked. A result with
        `interrupts` still waits for a person. None if the model has had the last word: nothing is
        done. `options` go to `agent.invoke_async`.

        Raises:
            CallUnderWay: another worker executes a call; nothing is done.
        """
        turns = await self._calls.turns_to_resume()
        if not turns:
            return None
        messages = await self.history()
        if any(awaits_attempt(tool) for tool in await self._calls.last_calls(turns)):
            messages.pop()  # its answers: strands runs the calls of the last message
        agent.messages[:] = messages
        # To an agent that has asked, strands wants a list of answers: the log has them.
        waits = getattr(getattr(agent, "_interrupt_state", None), "activated", False)
        return await agent.invoke_async([] if waits else None, **options)

    # what strands calls

    def init_agent(self, agent: Agent) -> None:
        """Register what records an agent's messages and calls."""
        agent.add_hook(self._before_request, BeforeModelCallEvent)
        agent.add_hook(self._after_response, AfterModelCallEvent)
        agent.add_hook(self._record_message, MessageAddedEvent)
        agent.add_hook(self._record_cancelled, AfterToolCallEvent)
        agent.add_middleware(ExecuteToolStage, self._execute)

    async def _before_request(self, event: BeforeModelCallEvent) -> None:
        """Let the log answer where strands does, and note when the model is asked."""
        await self._answer_errors(event.agent.messages)
        self._requested_at, self._stop_reason = time.monotonic(), None

    def _after_response(self, event: AfterModelCallEvent) -> None:
        """Note why the model stopped, which the message that follows does not say."""
        if event.stop_response is not None:
            self._stop_reason = event.stop_response.stop_reason

    async def _answer_errors(self, messages: Messages) -> None:
        """Give the log's answers in place of errors that strands has kept, or made up.

        A session manager of strands says "interrupted" of each call of a turn that broke off.
        """
        results = [b["toolResult"] for m in messages for b in m["content"] if "toolResult" in b]
        errors = {r["toolUseId"]: r for r in results if r.get("status") == "error"}
        if errors.keys() <= self._seen_errors:
            return
        for turn in await self._calls.turns():
            for call in turn.calls:
                error = errors.get(call.provider_id or call.id)
                if error is not None and error["toolUseId"] not in self._seen_errors:
                    error["status"] = "error" if call.answer.is_error else "success"
                    error["content"] = [{"text": shown_text(call.answer)}]
        self._seen_errors |= errors.keys()

    async def _record_message(self, event: MessageAddedEvent) -> None:
        """Record someone's words, or a response with its calls, before any of them runs."""
        message = event.message
        results = [block["toolResult"] for block in message["content"] if "toolResult" in block]
        if results:
            answers = {result["toolUseId"]: result for result in results}
            texts = {call_id: _text(result) for call_id, result in answers.items()}
            for call_id, tool in (await self._calls.unanswered(texts)).items():
                await self._record_answer(tool, answers[call_id])
            return
        whole: dict[str, Any] = {"role": message["role"], "content": message["content"]}
        usage = message.get("metadata", {}).get("usage")
        latency = stop_reason = None
        if message["role"] == "assistant":
            stop_reason, self._stop_reason = self._stop_reason, None
            if self._requested_at is not None:
                latency, self._requested_at = time.monotonic() - self._requested_at, None
        if usage is not None or stop_reason is not None:
            stated = {"usage": usage and dict(usage), "stopReason": stop_reason}
            whole = {"output": {"message": whole}}
            whole |= {key: value for key, value in stated.items() if value is not None}
        tools = await record_response(self.chat, whole, PROVIDER, latency)
        self._calls.know(tools)

    async def _record_answer(self, tool: Tool, result: ToolResult) -> None:
        """Record the answer to a call that no tool gave: its name or its arguments are refused."""
        if result["status"] == "error":
            wording = wording_in(_message(dict(result)), PROVIDER)
            await self._calls.fail(tool, Failure(ErrorKind.VALIDATION, _text(result)), wording)
        else:
            await self.chat.complete(tool.id, _value(result), synthetic=True)

    async def _record_cancelled(self, event: AfterToolCallEvent) -> None:
        """Record that a hook of the host refused a call."""
        if event.cancel_message is None:
            return
        tool = await self._calls.find(event.tool_use["toolUseId"])
        if tool is not None and awaits_attempt(tool):
            await self.chat.reject(tool.id, event.cancel_message, seen=seen_unedited(tool))

    async def _execute(self, context: ExecuteToolContext, proceed: Next) -> Events:
        """Run a call between its start and its end; one that ran before gives its answer."""
        needs_decision = context.tool_use["name"] in self._needs_approval
        tool = await self._calls.find(context.tool_use["toolUseId"], as_recorded=not needs_decision)
        if tool is None or context.tool is None:  # the host's own call, or an unknown tool
            async for event in proceed(context):
                yield event
            return
        tool = await self._decided(tool, context)
        cycle = context.invocation_state.get("event_loop_cycle_id")
        has_failed = isinstance(tool.status, Failed) and not tool.in_doubt
        tried_again = has_failed and self._failed_in.get(tool.id) == cycle
        if not (may_run(tool) or tried_again):
            yield ToolResultEvent(await self._answered(tool, context))
            return
        async with self._calls.running(tool) as attempt:
            if attempt is None:
                async for event in self._execute(context, proceed):
                    yield event
                return
            use: ToolUse = {**context.tool_use, "input": attempt.arguments}
            errors: list[Exception] = []
            watched = _watched(context.tool, errors)
            async for event in proceed(context.replace(tool=watched, tool_use=use)):
                shown = event
                if isinstance(event, ToolInterruptEvent):
                    self._interrupted[tool.id] = seen_at_pause(attempt.tool)
                    await attempt.pause(reason=event.interrupts[0].name)
                elif isinstance(event, ToolResultEvent):
                    await _end(attempt, event, _remote_failure(watched, event, errors))
                    self._failed_in[tool.id] = cycle
                    if attempt.tool.in_doubt:
                        answer = await self._answered(attempt.tool, context)
                        shown = ToolResultEvent(answer, exception=event.exception)
                yield shown

    async def _decided(self, tool: Tool, context: ExecuteToolContext) -> Tool:
        """Return a call once it is decided on; one that waits interrupts the agent."""
        status, session = tool.status, self.chat.session.blocking
        edited = host_edit(tool, context.tool_use["input"], session)
        waits = isinstance(status, Pending) and status.needs_decision
        needs_decision = waits or tool.call.name in self._needs_approval
        if not isinstance(status, Pending) or not (needs_decision or edited is not None):
            return tool
        interrupted = self._interrupted.pop(tool.id, None)
        if status.needs_decision and interrupted == tool.revision:  # strands has the response
            return await self.chat.approve(tool.id, reason="the agent went on", seen=tool)
        if edited is not None and not needs_decision:
            return await self._calls.edit(tool, edited)
        name, shown = "toolledger-approval", shown_revision(tool, edited)
        if shown != first_seen(tool):
            name = f"{name} {shown}"
        arguments = tool.effective_call.arguments if edited is None else edited
        question = {"tool": tool.call.name, "arguments": arguments}
        answer = context.interrupt(name, reason=question).response
        try:
            if answer is True or answer == "approve":
                return await self.chat.approve(tool.id, edited, reason="by the host", seen=tool)
            reason = None if answer is False else str(answer)
            return await self.chat.reject(tool.id, reason, seen=tool)
        except CallChanged as changed:
            return await self._decided(changed.now, context)

    async def _answered(self, tool: Tool, context: ExecuteToolContext) -> ToolResult:
        """Return the recorded answer of a call as a result of strands."""
        answer = await self._calls.answer(tool)
        return {
            "toolUseId": context.tool_use["toolUseId"],
            "status": "error" if answer.is_error else "success",
            "content": [{"text": shown_text(answer)}],
        }


async def _end(attempt: AsyncAttempt, event: ToolResultEvent, remote: Failure | None) -> None:
    """Record the end of an attempt, with the tool's own exception if it failed.

    `remote` is its failure if no server has answered.
    """
    error, result = event.exception, event.tool_result
    if result["status"] != "error":
        await _complete(attempt, result)
        return
    failure = remote if error is None and remote else _failure(error, result)
    in_doubt = failure.leaves_doubt and attempt.has_effect
    wording = None if in_doubt else wording_in(_message(dict(result)), PROVIDER)
    await attempt.fail(failure, wording=wording)


async def _complete(attempt: AsyncAttempt, result: ToolResult) -> None:
    shown: Any = {key: result[key] for key in ("toolUseId", "content")}  # success goes without
    value, wording = recorded_of(_message(shown), PROVIDER, _value(result))
    await attempt.complete(value, wording=wording)


def _failure(error: Exception | None, result: ToolResult) -> Failure:
    """Return the failure of a tool of the host, with its own exception if strands has it."""
    if error is None:
        return failure_of(_text(result))
    if isinstance(error.__cause__, ValidationError):  # which strands wraps in a ValueError
        return validation_failure(error)
    return Failure.from_exception(error, now=system_clock())


def _message(result: JsonObject) -> JsonObject:
    return {"role": "user", "content": [{"toolResult": result}]}


def _is_remote(tool: AgentTool) -> bool:
    """Return whether a tool is one of an MCP server; strands loads `mcp` for those alone."""
    return any(cls.__name__ == "MCPAgentTool" for cls in type(tool).__mro__)


def _watched(tool: Any, errors: list[Exception]) -> AgentTool:
    """Return a tool that keeps the errors of its MCP client, of which strands gives the text."""
    if not _is_remote(tool):
        return tool
    copied, client = copy.copy(tool), copy.copy(tool.mcp_client)
    answer = client._handle_tool_execution_error  # noqa: SLF001 - nothing public has the exception

    def answer_kept(tool_use_id: str, exception: Exception) -> ToolResult:
        errors.append(exception)
        return answer(tool_use_id, exception)

    client._handle_tool_execution_error = answer_kept  # type: ignore[method-assign]  # noqa: SLF001
    copied.mcp_client = client
    return copied


def _remote_failure(
    tool: AgentTool, event: ToolResultEvent, errors: list[Exception]
) -> Failure | None:
    """Return the failure of a call to an MCP server that gave no answer; None of any other."""
    if not _is_remote(tool) or "isError" in event.tool_result:
        return None
    if not errors:
        return Failure(ErrorKind.INTERNAL, _text(event.tool_result), in_doubt=True)
    error = errors[-1]
    if isinstance(error, MCPClientInitializationError):  # nothing was sent
        return Failure.from_exception(error)
    return remote_failure(error)


def _value(result: ToolResult) -> object:
    """Return what a tool returned: the text or the JSON value of one block, or all blocks."""
    content = result["content"]
    if len(content) == 1:
        (block,) = content
        if "text" in block or "json" in block:
            return block.get("text", block.get("json"))
    return content


def _text(result: ToolResult) -> str:
    """Return a result's words."""
    return "\n".join(block["text"] for block in result["content"] if "text" in block)
