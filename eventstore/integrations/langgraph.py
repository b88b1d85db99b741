"""LangGraph: a ledger that records a graph's runs. A resumed superstep runs no tool twice.

    ledger = Ledger(store.conversation("support-42"))
    graph.add_node("model", ledger.model_node(model))
    graph.add_node("tools", ledger.tool_node([find_order, refund]))

1. A tool runs between the start and the end of an attempt. `langgraph_model` records what the model
   is asked and answers, `langgraph_tools` says how a tool ended.
2. Where a graph repeats a step, the log answers: a call with a recorded end gives its answer.
3. `interrupt()` in a tool pauses the call. A call of a tool in `needs_approval` interrupts the
   graph before it starts, until the log has a decision, or the host resumes with one.
   `langgraph_answers` says which call an answer is for.
4. The arguments that run are the log's. Where the graph has changed them, by a node or by
   `update_state`, they are an edit: of a call that needs a decision it takes that, made on them.
5. LangGraph checks arguments inside the tool's own invocation: refused arguments fail an attempt
   that has begun, with kind `validation`.

A tool with a `handle_tool_error` of its own hides its exceptions: the text that it makes of one is
recorded as the failure.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from eventstore.aio.conversation import AsyncConversation
from eventstore.conversation import Conversation
from eventstore.domain.decision_errors import CallChanged
from eventstore.domain.failure import Failure
from eventstore.domain.statuses import Failed, Pending
from eventstore.domain.tool import Tool
from eventstore.integrations.call_starts import may_run
from eventstore.integrations.extras import missing_extra
from eventstore.integrations.host_answers import EDITED, first_seen, host_edit, seen_with_edit
from eventstore.integrations.recorded_calls import (
    RecordedCalls,
    awaited_chat,
    blocking_chat,
    is_done,
    validation_failure,
)

try:
    from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage
    from langgraph.errors import GraphBubbleUp, GraphInterrupt
    from langgraph.prebuilt.tool_node import ToolInvocationError

    from eventstore.integrations.langchain_messages import (
        FRAMEWORK,
        calls_made,
        shown_answer,
        shown_messages,
    )
    from eventstore.integrations.langgraph_answers import (
        HostAnswer,
        RecordedToolNode,
        StepAnswers,
        step_of,
    )
    from eventstore.integrations.langgraph_model import ModelNode, RecordedModel
    from eventstore.integrations.langgraph_tools import (
        ToolErrors,
        WatchedTools,
        failure_in,
        value_in,
        wording_in,
    )
except ImportError as error:
    raise missing_extra("langgraph", error) from error

if TYPE_CHECKING:
    from langchain_core.runnables import Runnable, RunnableConfig
    from langgraph.prebuilt import ToolNode
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.pregel import Pregel
    from langgraph.types import StateSnapshot

    from eventstore.attempt import StartedAttempt
    from eventstore.domain.json_types import JsonObject
    from eventstore.integrations.langgraph_tools import Returned

    Handler = Callable[[ToolCallRequest], Returned]
    AsyncHandler = Callable[[ToolCallRequest], Awaitable[Returned]]

T = TypeVar("T")


class Disagreement(msgspec.Struct, frozen=True):
    """A call on which a checkpoint and the log do not agree; None where one does not have it."""

    call_id: str
    in_checkpoint: str | None
    in_log: str | None


class Ledger:
    """What records every call of a graph in a conversation.

    A conversation of an `EventStore` serves `invoke` and `stream`, one of an `AsyncEventStore`
    serves `ainvoke` and `astream` as well. `needs_approval` names the tools whose calls wait for a
    decision; that takes a checkpointer, as every interrupt of LangGraph does.
    """

    def __init__(
        self,
        chat: Conversation | AsyncConversation,
        *,
        needs_approval: Collection[str] = (),
        read_only: Collection[str] = (),
    ) -> None:
        self.chat = chat
        self._chat = blocking_chat(chat)
        self._calls = RecordedCalls(chat, FRAMEWORK, needs_approval, read_only)
        self._recorded_model = RecordedModel(chat, self._calls)
        self._needs_approval = frozenset(needs_approval)
        self._watched_tools = WatchedTools()
        self._failed_in: dict[str, object] = {}  # by call: the step in which it failed last

    # what a graph is made of

    def model_node(self, model: Runnable[Any, AIMessage]) -> Runnable[Any, dict[str, Any]]:
        """Return a node that asks a model for the next message, and records both."""
        return ModelNode(self.chat, self._recorded_model, model)

    def tool_node(self, tools: Sequence[Any], **options: Any) -> ToolNode:
        """Return a `ToolNode` whose calls are recorded; `options` are its own.

        It ends when its calls have ended, and its interrupts ask one question at a time, about
        the first call that waits.
        """
        return RecordedToolNode(
            tools,
            wrap_tool_call=self.wrap_tool_call,
            awrap_tool_call=self.awrap_tool_call,
            **options,
        )

    def wrap_tool_call(self, request: ToolCallRequest, handler: Handler) -> Returned:
        """Run a call between its start and its end; one that ran before gives its answer.

        Where several calls of one `ToolNode` may wait, it takes `tool_node`.
        """
        with step_of(request.runtime.config) as step:
            try:
                return self._run(request, handler, step)
            except GraphInterrupt:
                if (used := step.used_answer()) is not None:
                    used.forget()
                raise

    async def awrap_tool_call(self, request: ToolCallRequest, handler: AsyncHandler) -> Returned:
        """Run a call; see `wrap_tool_call`."""
        with step_of(request.runtime.config) as step, step.running():
            try:
                return await self._arun(request, handler, step)
            except GraphInterrupt:
                if (used := step.used_answer()) is not None:
                    await used.aforget()
                raise

    def _run(self, request: ToolCallRequest, handler: Handler, step: StepAnswers) -> Returned:
        tool = self._find(request)
        if self._asks(tool, request):
            tool = self._decide(tool, request, step)
        if not self._is_open(tool, request):
            return self._answer(tool, request)
        with self._calls.starts.running(tool, GraphBubbleUp) as attempt:
            if attempt is None:
                return self._run(request, handler, step)
            errors = ToolErrors(attempt.tool)
            try:
                with errors.kept(), step.of_call(attempt.tool, request.runtime.config):
                    result = handler(self._watched(request, attempt))
            except Exception as error:
                if not isinstance(error, GraphBubbleUp):
                    self._note_failed(attempt.fail(self._failed(tool, request, error)), request)
                raise
            failure = failure_in(result, errors, request)
            if failure is None:
                attempt.complete(value_in(result, request))
            else:
                attempt.fail(failure, wording=wording_in(result, failure, request, attempt))
                if attempt.tool.in_doubt and isinstance(result, ToolMessage):
                    return self._answer(attempt.tool, request)
            return result

    async def _arun(
        self, request: ToolCallRequest, handler: AsyncHandler, step: StepAnswers
    ) -> Returned:
        session = awaited_chat(self.chat).session
        tool = await self._found(request)
        if self._asks(tool, request):
            asked = tool
            tool = await session.call(lambda: self._decide(asked, request, step))
        if not self._is_open(tool, request):
            return await session.call(lambda: self._answer(tool, request))
        async with self._calls.starts.running_async(session, tool, GraphBubbleUp) as attempt:
            if attempt is None:
                return await self._arun(request, handler, step)
            errors = ToolErrors(attempt.tool)
            try:
                with errors.kept(), step.of_call(attempt.tool, request.runtime.config):
                    result = await handler(self._watched(request, attempt))
            except Exception as error:
                if not isinstance(error, GraphBubbleUp):
                    failed = await attempt.fail(self._failed(tool, request, error))
                    self._note_failed(failed, request)
                raise
            failure = failure_in(result, errors, request)
            if failure is None:
                await attempt.complete(value_in(result, request))
            else:
                wording = wording_in(result, failure, request, attempt)
                await attempt.fail(failure, wording=wording)
                if attempt.tool.in_doubt and isinstance(result, ToolMessage):
                    doubtful = attempt.tool
                    return await session.call(lambda: self._answer(doubtful, request))
            return result

    # continuing

    def history(self) -> list[AnyMessage]:
        """Return what was said so far as messages; each call has its answer."""
        return shown_messages(self._calls.turns())

    def resume(
        self, graph: Pregel[Any], config: RunnableConfig | None = None, **options: Any
    ) -> Any:
        """Continue a graph after a crash, or after a decision; `options` go to `invoke`.

        It continues from its checkpoint if that has a step to do, otherwise from the log. The calls
        of the last turn that may start run first. Then the model is asked. None if the model has
        had the last word: nothing is done.

        Raises:
            CallUnderWay: another worker executes a call; nothing is done.
        """
        snapshot = graph.get_state(config or {}) if graph.checkpointer else None
        if self._is_done(snapshot):
            return None
        return graph.invoke(self._resumption(snapshot), config, **options)

    async def aresume(
        self, graph: Pregel[Any], config: RunnableConfig | None = None, **options: Any
    ) -> Any:
        """Continue a graph; see `resume`."""
        snapshot = await graph.aget_state(config or {}) if graph.checkpointer else None
        if await self.call_blocking(lambda: self._is_done(snapshot)):
            return None
        given = await self.call_blocking(lambda: self._resumption(snapshot))
        return await graph.ainvoke(given, config, **options)

    def _is_done(self, snapshot: StateSnapshot | None) -> bool:
        """Return whether neither the checkpoint nor the log has anything to continue.

        Raises:
            CallUnderWay: another worker executes a call.
        """
        self._calls.check_no_other_worker()
        has_step = snapshot is not None and snapshot.next
        return not has_step and is_done(self._calls.turns())

    def _resumption(self, snapshot: StateSnapshot | None) -> dict[str, Any] | None:
        if snapshot is not None and snapshot.next:
            return None
        if snapshot is not None and snapshot.values:
            return {"messages": []}
        return {"messages": self._recorded_model.history_to_resume()}

    def disagreements(self, messages: Sequence[BaseMessage]) -> list[Disagreement]:
        """Return the calls on which a checkpoint's messages and the log do not agree.

        `graph.get_state(config).values["messages"]` are the messages of a checkpoint.
        """
        answered = {m.tool_call_id: str(m.text) for m in messages if isinstance(m, ToolMessage)}
        seen = {call: answered.get(call) for call in calls_made(messages)}
        known = {call.provider_id or call.id: call for t in self._calls.turns() for call in t.calls}
        tools = self._chat.tools
        found = [
            Disagreement(call_id, "open" if answer is None else "answered", None)
            for call_id, answer in seen.items()
            if call_id not in known
        ]
        for call_id, call in known.items():
            status = tools[call.id].status.name
            if call_id not in seen:
                found.append(Disagreement(call_id, None, status))
            elif seen[call_id] is not None and not tools[call.id].is_resolved:
                found.append(Disagreement(call_id, "answered", status))
        return found

    # a call of the graph in the log

    def _find(self, request: ToolCallRequest) -> Tool:
        asked = request.tool_call
        call_id, name = str(asked["id"]), asked["name"]
        tool = self._calls.find(call_id)
        if tool is not None and not self._is_same(tool, request):
            tool = self._calls.find_made(call_id, name, asked["args"]) or tool
        if tool is None:
            raise LookupError(f"the log has no call {call_id!r}: record the model's response")
        if tool.call.name != name:
            raise LookupError(
                f"call {call_id!r} is one of {tool.call.name!r} in the log, and of {name!r} in the "
                "graph: give another call an id of its own, and record the response that makes it"
            )
        return tool

    async def _found(self, request: ToolCallRequest) -> Tool:
        """Return the same; a call that was just recorded and needs no decision is not read."""
        new = self._calls.take_new(str(request.tool_call["id"]))
        if new is not None and self._is_same(new, request) and not self._asks(new, request):
            return new
        return await self.call_blocking(lambda: self._find(request))

    def _is_open(self, tool: Tool, request: ToolCallRequest) -> bool:
        """Return whether a call may run: it has no end, or it is tried again in the same step."""
        again = self._failed_in.get(tool.id) is request.runtime
        fails_again = isinstance(tool.status, Failed) and again and not tool.in_doubt
        return may_run(tool) or fails_again

    def _failed(
        self, tool: Tool, request: ToolCallRequest, error: Exception
    ) -> Failure | BaseException:
        self._failed_in[tool.id] = request.runtime
        if isinstance(error, ToolInvocationError):
            return validation_failure(error.source)
        return error

    def _note_failed(self, failed: Tool, request: ToolCallRequest) -> None:
        """Note that other code says of an exception what the model is told."""
        text = failed.status.model_text if isinstance(failed.status, Failed) else None
        self._calls.unworded[str(request.tool_call["id"])] = failed.id, text

    def _watched(self, request: ToolCallRequest, attempt: StartedAttempt) -> ToolCallRequest:
        """Return a request for the arguments in force, whose tool tells its exceptions."""
        arguments = attempt.arguments
        if request.tool_call["args"] != arguments:
            call = request.tool_call.copy()
            call["args"] = arguments
            request = request.override(tool_call=call)
        if request.tool is None:
            return request
        return request.override(tool=self._watched_tools.of(request.tool))

    def _answer(self, tool: Tool, request: ToolCallRequest) -> ToolMessage:
        asked = request.tool_call
        return shown_answer(self._calls.answer(tool), str(asked["id"]), asked["name"])

    # decisions

    def _is_same(self, tool: Tool, request: ToolCallRequest) -> bool:
        """Return whether the log and the graph have the same name and arguments for a call."""
        return tool.call.name == request.tool_call["name"] and self._edit(tool, request) is None

    def _edit(self, tool: Tool, request: ToolCallRequest) -> JsonObject | None:
        """Return the arguments to which the host has changed those of a call that has a tool."""
        if request.tool is None:
            return None
        return host_edit(tool, request.tool_call["args"], self._chat.session)

    def _asks(self, tool: Tool, request: ToolCallRequest) -> bool:
        """Return whether a call waits for a decision, or the host has decided to edit it."""
        if not isinstance(tool.status, Pending):
            return False
        return self._needs_decision(tool) or self._edit(tool, request) is not None

    def _needs_decision(self, tool: Tool) -> bool:
        status = tool.status
        waits = isinstance(status, Pending) and status.needs_decision
        return waits or tool.call.name in self._needs_approval

    def _decide(self, tool: Tool, request: ToolCallRequest, step: StepAnswers) -> Tool:
        """Record the host's answer for a call, if the log has no decision by now.

        Raises:
            GraphInterrupt: there is neither an answer nor a decision, or the call has changed since
                it was asked about.
            ValueError: the answer decides nothing.
        """
        now = self._calls.now(tool.id)
        if not isinstance(now.status, Pending):
            return now
        answer = step.answer(now)
        edited = self._edit(now, request)
        if answer is None and (edited is None or self._needs_decision(now)):
            step.ask(now, edited)
        try:
            if answer is not None:
                return self._decided(now, answer, edited)
            return self._chat.approve(now.id, edited, reason=EDITED, seen=first_seen(now))
        except CallChanged as changed:
            step.ask(changed.now, edited)

    def _decided(self, tool: Tool, answer: HostAnswer, edited: JsonObject | None) -> Tool:
        """Return a call with the decision that the host's answer stands for.

        `edited` are the arguments that the graph has, where they are not the log's.

        Raises:
            CallChanged: the call is no longer as it was when the host was asked.
            ValueError: the answer decides nothing.
        """
        if answer.kind != "approval":  # its tool, or the graph in it, has asked
            return self._chat.approve(tool.id, reason="the graph went on", seen=answer.seen)
        seen = seen_with_edit(tool, answer.seen, edited)
        said = answer.value
        decision: dict[str, Any] = said if isinstance(said, dict) else {"type": said}
        if decision["type"] in (True, "approve"):
            return self._chat.approve(tool.id, edited, reason="by the host", seen=seen)
        if decision["type"] == "edit":
            edited = decision["edited_action"]["args"]
            return self._chat.approve(tool.id, edited, reason="by the host", seen=seen)
        if decision["type"] in (False, "reject"):
            return self._chat.reject(tool.id, decision.get("message"), seen=seen)
        raise ValueError(f"{said!r} decides nothing: resume with True, False or a decision")

    async def call_blocking(self, function: Callable[[], T]) -> T:
        """Call a function that blocks, for an awaited hook."""
        return await awaited_chat(self.chat).session.call(function)
