"""LangGraph: a ledger that records a graph's runs. A resumed superstep runs no tool twice.

    ledger = Ledger(store.conversation("support-42"))
    graph.add_node("model", ledger.model_node(model))
    graph.add_node("tools", ledger.tool_node([find_order, refund]))

1. What the model is asked is recorded before, what it answers with its calls before any of them
   runs. A tool runs between the start and the end of an attempt.
2. Where a graph repeats a step, the log answers: the model's response that the checkpoint has not
   seen is given again, and a call with a recorded end gives its answer.
3. `interrupt()` in a tool pauses the call. A call of a tool in `needs_approval` interrupts the
   graph before it starts, until the log has a decision, or the host resumes with one.
4. The arguments that run are those of the log. Where the graph has changed them, by a node or by
   `update_state`, they are an edit: of a call that needs a decision it takes that, made on them.
5. LangGraph checks arguments inside the tool's own invocation: refused arguments fail an attempt
   that has begun, with kind `validation`.

A tool with a `handle_tool_error` of its own hides its exceptions: the text that it makes of one is
recorded as the failure.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import msgspec

from eventstore.aio.conversation import AsyncConversation
from eventstore.conversation import Conversation
from eventstore.domain.decision_errors import CallChanged
from eventstore.domain.doubt import text_of_doubt
from eventstore.domain.failure import Failure
from eventstore.domain.own_texts import is_own_text
from eventstore.domain.statuses import Approved, Failed, Pending, Rejected
from eventstore.domain.tool import Tool
from eventstore.integrations.extras import missing_extra
from eventstore.integrations.recorded_calls import (
    RecordedCalls,
    awaited_chat,
    blocking_chat,
    first_seen,
    host_edit,
    is_done,
    may_run,
    running_unchanged,
    seen_unedited,
    shown_revision,
    shown_text,
    validation_failure,
)

try:
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.messages import (
        AIMessage,
        AnyMessage,
        BaseMessage,
        ToolMessage,
        convert_to_openai_messages,
    )
    from langchain_core.runnables import Runnable, RunnableConfig
    from langchain_core.tools import BaseTool, ToolException
    from langgraph.errors import GraphBubbleUp, GraphInterrupt
    from langgraph.prebuilt.tool_node import ToolInvocationError
    from pydantic import ValidationError

    from eventstore.integrations.langchain_messages import (
        FRAMEWORK,
        calls_made,
        recorded_parts,
        said_after_response,
        shown_messages,
        shown_response,
        stated_facts,
        trailing_words,
        with_answers,
        words_of,
    )
    from eventstore.integrations.langgraph_answers import (
        HostAnswer,
        RecordedToolNode,
        StepAnswers,
        step_of,
    )
except ImportError as error:
    raise missing_extra("langgraph", error) from error

if TYPE_CHECKING:
    from uuid import UUID

    from langchain_core.callbacks import Callbacks
    from langgraph.prebuilt import ToolNode
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.pregel import Pregel
    from langgraph.types import Command

    from eventstore.attempt import StartedAttempt
    from eventstore.domain.json_types import JsonObject
    from eventstore.providers.model import Turn

    Returned = ToolMessage | Command[Any]
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
        self._calls = RecordedCalls(self._chat, FRAMEWORK, needs_approval, read_only)
        self._needs_approval = frozenset(needs_approval)
        self._watched_tools = _WatchedTools()
        self._failed_in: dict[str, object] = {}  # by call: the step in which it failed last

    # what a graph is made of

    def model_node(self, model: Runnable[Any, AIMessage]) -> Runnable[Any, dict[str, Any]]:
        """Return a node that asks a model for the next message, and records both."""
        return _ModelNode(self, model)

    def tool_node(self, tools: Sequence[Any], **options: Any) -> ToolNode:
        """Return a `ToolNode` whose calls are recorded; `options` are its own.

        It ends when its calls have ended, and its interrupts ask one question at a time: that of
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
        with self._calls.running(tool, GraphBubbleUp) as attempt:
            if attempt is None:
                return self._run(request, handler, step)
            errors = _ToolErrors(attempt.tool)
            try:
                with errors.kept(), step.of_call(attempt.tool, request.runtime.config):
                    result = handler(self._watched(request, attempt))
            except Exception as error:
                if not isinstance(error, GraphBubbleUp):
                    attempt.fail(self._failed(tool, request, error))
                raise
            failure = _failure(result, errors, request)
            if failure is None:
                attempt.complete(_value(result, request))
            else:
                attempt.fail(failure)
                if attempt.tool.in_doubt and isinstance(result, ToolMessage):
                    return self._answer(attempt.tool, request)
            return result

    async def _arun(
        self, request: ToolCallRequest, handler: AsyncHandler, step: StepAnswers
    ) -> Returned:
        tool = await self._found(request)
        if self._asks(tool, request):
            asked = tool
            tool = await self.call_blocking(lambda: self._decide(asked, request, step))
        if not self._is_open(tool, request):
            return await self.call_blocking(lambda: self._answer(tool, request))
        session = awaited_chat(self.chat).session
        async with running_unchanged(session, self._calls, tool, GraphBubbleUp) as attempt:
            if attempt is None:
                return await self._arun(request, handler, step)
            errors = _ToolErrors(attempt.tool)
            try:
                with errors.kept(), step.of_call(attempt.tool, request.runtime.config):
                    result = await handler(self._watched(request, attempt))
            except Exception as error:
                if not isinstance(error, GraphBubbleUp):
                    await attempt.fail(self._failed(tool, request, error))
                raise
            failure = _failure(result, errors, request)
            if failure is None:
                await attempt.complete(_value(result, request))
            else:
                await attempt.fail(failure)
                if attempt.tool.in_doubt and isinstance(result, ToolMessage):
                    doubtful = attempt.tool
                    return await self.call_blocking(lambda: self._answer(doubtful, request))
            return result

    # going on

    def history(self) -> list[AnyMessage]:
        """Return what was said so far as messages; each call has its answer."""
        return shown_messages(self._calls.turns())

    def resume(
        self, graph: Pregel[Any], config: RunnableConfig | None = None, **options: Any
    ) -> Any:
        """Let a graph go on after a crash, or after a decision; `options` go to `invoke`.

        It goes on from its checkpoint if that has a step to do, otherwise from the log. The calls
        of the last turn that may start run first. Then the model is asked. None if the model has
        had the last word: nothing is done.

        Raises:
            CallUnderWay: another worker is at a call; nothing is done.
        """
        snapshot = graph.get_state(config or {}) if graph.checkpointer else None
        if self._is_done(snapshot):
            return None
        return graph.invoke(self._resumption(snapshot), config, **options)

    async def aresume(
        self, graph: Pregel[Any], config: RunnableConfig | None = None, **options: Any
    ) -> Any:
        """Let a graph go on; see `resume`."""
        snapshot = await graph.aget_state(config or {}) if graph.checkpointer else None
        if await self.call_blocking(lambda: self._is_done(snapshot)):
            return None
        given = await self.call_blocking(lambda: self._resumption(snapshot))
        return await graph.ainvoke(given, config, **options)

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

    # recording, for the hooks; all of it blocks

    def record_request(self, messages: Sequence[BaseMessage]) -> AIMessage | None:
        """Record what is new in a request; return the recorded response to give again, if any."""
        after = said_after_response(messages)
        self._record_answers(after)
        turns = self._calls.turns()
        if turns and _is_unseen(turns, messages):
            return shown_response(turns[-1])
        stored = trailing_words(turns)
        for message in words_of(after)[len(stored) :]:
            if is_own_text(str(message.text)):
                continue
            self._chat.record(convert_to_openai_messages(message), "openai")
        return None

    def with_answers(self, messages: Sequence[AnyMessage]) -> list[AnyMessage]:
        """Return a request's messages with the log's answers to calls that have none there.

        A checkpoint has none of a step that broke off, and keeps what it was shown of an open call.
        An error that other code has told of a call in doubt gets the line that says so.
        """
        given = {m.tool_call_id: m for m in messages if isinstance(m, ToolMessage)}
        missing = {
            call_id
            for call_id in calls_made(messages)
            if call_id not in given or is_own_text(str(given[call_id].text))
        }
        shown = self._with_doubts(messages)
        return with_answers(shown, missing, self._calls.turns()) if missing else shown

    def _with_doubts(self, messages: Sequence[AnyMessage]) -> list[AnyMessage]:
        """Return messages whose errors say of calls in doubt that they may have taken effect."""
        if not any(isinstance(m, ToolMessage) and m.status == "error" for m in messages):
            return list(messages)
        tools = self._chat.tools.values()
        doubtful = {tool.provider_call_id or tool.id for tool in tools if tool.in_doubt}
        return [
            m.model_copy(update={"content": text_of_doubt(str(m.text), None)})
            if isinstance(m, ToolMessage) and m.status == "error" and m.tool_call_id in doubtful
            else m
            for m in messages
        ]

    def record_response(self, messages: Sequence[BaseMessage], latency: float) -> None:
        """Record a response that took `latency` seconds, and its calls, before any of them runs."""
        for message in messages:
            if isinstance(message, AIMessage):
                parts, calls, native = recorded_parts(message)
                name = message.id or uuid4().hex
                self._calls.record(name, parts, calls, native, stated_facts(message, latency))
        self._record_answers(messages)

    def missing_history(self, given: Sequence[AnyMessage]) -> list[AnyMessage] | None:
        """Return what a run's messages should be where they lack the log's, or None."""
        if any(isinstance(message, AIMessage | ToolMessage) for message in given):
            return None
        turns = self._calls.turns()
        before = self._before_open_calls(turns)
        repeated = not given or [str(m.text) for m in given] == trailing_words(before)
        if repeated:
            return shown_messages(before)
        return [*shown_messages(turns), *given] if turns else None

    def _record_answers(self, messages: Sequence[BaseMessage]) -> None:
        """Record answers that no tool gave: a refusal by the host, an output that is no tool's."""
        answers = {m.tool_call_id: m for m in messages if isinstance(m, ToolMessage)}
        texts = {call_id: str(message.text) for call_id, message in answers.items()}
        for call_id, tool in self._calls.unanswered(texts).items():
            message = answers[call_id]
            if message.status != "error":
                self._chat.complete(tool.id, message.content, synthetic=True)
            elif tool.call.raw is not None:
                self._chat.fail(tool.id, validation_failure(ValueError(str(message.text))))
            else:
                self._chat.reject(tool.id, str(message.text), seen=seen_unedited(tool))

    def _find(self, request: ToolCallRequest) -> Tool:
        """Return the call in the log."""
        asked = request.tool_call
        call_id, name = str(asked["id"]), asked["name"]
        tool = self._calls.find(call_id)
        if tool is not None and not _is_same(tool, request):
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
        if new is not None and _is_same(new, request) and not self._asks(new, request):
            return new
        return await self.call_blocking(lambda: self._find(request))

    def _asks(self, tool: Tool, request: ToolCallRequest) -> bool:
        """Return whether a call waits for a decision, or the host has decided to edit it."""
        status = tool.status
        if not isinstance(status, Pending):
            return False
        return self._needs_decision(tool) or _edit(tool, request) is not None

    def _needs_decision(self, tool: Tool) -> bool:
        status = tool.status
        waits = isinstance(status, Pending) and status.needs_decision
        return waits or tool.call.name in self._needs_approval

    def _decide(self, tool: Tool, request: ToolCallRequest, step: StepAnswers) -> Tool:
        """Record the host's answer for a call, if the log has no decision by now.

        Raises:
            GraphInterrupt: there is neither an answer nor a decision, or the answer is one on what
                the call is no longer.
            ValueError: the answer decides nothing.
        """
        now = self._calls.now(tool.id)
        if not isinstance(now.status, Pending):
            return now
        answer = step.answer(now)
        edited = _edit(now, request)
        if answer is None and (edited is None or self._needs_decision(now)):
            step.ask(now, edited)
        try:
            if answer is not None:
                return self._decided(now, answer, edited)
            reason, seen = "edited by the host", first_seen(now)
            return self._chat.approve(now.id, edited, reason=reason, seen=seen)
        except CallChanged as changed:
            step.ask(changed.now, edited)

    def _decided(self, tool: Tool, answer: HostAnswer, edited: JsonObject | None) -> Tool:
        """Return a call with the decision that the host's answer stands for.

        `edited` are the arguments that the graph has, where they are not the log's.

        Raises:
            CallChanged: the call is no longer as it was when the host was asked.
            ValueError: the answer decides nothing.
        """
        seen = answer.seen
        if answer.kind != "approval":  # its tool, or the graph in it, has asked
            return self._chat.approve(tool.id, reason="the graph went on", seen=seen)
        if edited is not None:
            if seen != shown_revision(tool, edited):
                raise CallChanged("approved", tool.revision, tool)
            seen = tool.revision
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
        answer = self._calls.answer(tool)
        return ToolMessage(
            shown_text(answer),
            tool_call_id=request.tool_call["id"],
            name=request.tool_call["name"],
            status="error" if answer.is_error else "success",
        )

    def _is_done(self, snapshot: Any) -> bool:
        """Return whether neither the checkpoint nor the log has anything to go on with.

        Raises:
            CallUnderWay: another worker is at a call.
        """
        self._calls.check_no_other_worker()
        has_step = snapshot is not None and snapshot.next
        return not has_step and is_done(self._calls.turns())

    def _resumption(self, snapshot: Any) -> dict[str, Any] | None:
        if snapshot is not None and snapshot.next:
            return None
        if snapshot is not None and snapshot.values:
            return {"messages": []}
        return {"messages": shown_messages(self._before_open_calls(self._calls.turns()))}

    def _before_open_calls(self, turns: Sequence[Turn]) -> Sequence[Turn]:
        """Return the turns before the last response if calls of it may run, otherwise all."""
        if not turns or not turns[-1].calls:
            return turns
        tools = self._chat.tools
        statuses = [tools[call.id].status for call in turns[-1].calls]
        has_open = any(isinstance(s, Pending | Approved | Rejected) for s in statuses)
        return turns[:-1] if has_open else turns

    async def call_blocking(self, function: Callable[[], T]) -> T:
        """Call a function that blocks, for an awaited hook."""
        return await awaited_chat(self.chat).session.call(function)


class _ModelNode(Runnable[Any, dict[str, Any]]):
    """A node that asks a model, and records its requests and responses."""

    name = "model"

    def __init__(self, ledger: Ledger, model: Runnable[Any, AIMessage]) -> None:
        self._ledger = ledger
        self._model = model

    def invoke(
        self,
        input: Mapping[str, Any],  # noqa: A002 - the name in LangChain
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the model's next message, or the recorded one that the state lacks."""
        messages = input["messages"]
        response = self._ledger.record_request(messages)
        if response is None:
            shown = self._ledger.with_answers(messages)
            requested_at = time.monotonic()
            response = self._model.invoke(shown, config, **kwargs)
            self._ledger.record_response([response], time.monotonic() - requested_at)
        return {"messages": [response]}

    async def ainvoke(
        self,
        input: Mapping[str, Any],  # noqa: A002 - the name in LangChain
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the next message; see `invoke`."""
        ledger, messages = self._ledger, input["messages"]
        response = await ledger.call_blocking(lambda: ledger.record_request(messages))
        if response is None:
            shown = await ledger.call_blocking(lambda: ledger.with_answers(messages))
            requested_at = time.monotonic()
            given = await self._model.ainvoke(shown, config, **kwargs)
            latency = time.monotonic() - requested_at
            await ledger.call_blocking(lambda: ledger.record_response([given], latency))
            response = given
        return {"messages": [response]}


class _ChangedArguments(RuntimeError):
    """A middleware between the ledger and the tool has changed the arguments that the log has."""

    in_doubt = False

    def __init__(self, tool: Tool) -> None:
        super().__init__(
            f"the arguments of call {tool.id!r} were changed after its start was recorded; it did "
            "not run: give create_agent() the ledger as the last of its middleware"
        )


class _ToolErrors:
    """The exception of one tool, which a `ToolNode` may turn into text."""

    def __init__(self, tool: Tool) -> None:
        self.error: BaseException | None = None
        self.tool = tool

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the exception of the tool that runs in the block."""
        before = _ERRORS.set(self)
        try:
            yield
        finally:
            _ERRORS.reset(before)


_ERRORS: ContextVar[_ToolErrors | None] = ContextVar("toolledger_tool_errors", default=None)
"""Where the exception of the tool that runs in this context is kept."""


class _Watcher(BaseCallbackHandler):
    """Looks at the arguments of tools, and keeps their exceptions."""

    run_inline = True
    raise_error = True

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        inputs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Refuse arguments that are not those of the attempt."""
        errors = _ERRORS.get()
        if errors is None or inputs is None:
            return
        in_force = errors.tool.effective_call.arguments
        if inputs != {name: in_force[name] for name in in_force if name in inputs}:
            raise _ChangedArguments(errors.tool)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Keep the exception."""
        errors = _ERRORS.get()
        if errors is not None:
            errors.error = error


class _WatchedTools:
    """Copies of a graph's tools that tell their exceptions; a copy learns its signature once."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[BaseTool, dict[str, Any], BaseTool]] = {}

    def of(self, tool: BaseTool) -> BaseTool:
        """Return the copy of a tool as it is now."""
        known = self._copies.get(id(tool))
        if known is not None and known[0] is tool and known[1] == tool.__dict__:
            return known[2]
        callbacks = _with_handler(tool.callbacks, _Watcher())
        copied = tool.model_copy(update={"callbacks": callbacks})
        self._copies[id(tool)] = tool, tool.__dict__.copy(), copied
        return copied


def _is_unseen(turns: Sequence[Turn], messages: Sequence[BaseMessage]) -> bool:
    """Return whether the last response answers just what these messages ask, and is not there."""
    last = turns[-1]
    made = {call.provider_id or call.id for call in last.calls if not call.hidden}
    if not made.isdisjoint(calls_made(messages)):
        return False
    if not made and not _is_lost(last, messages):
        return False
    asked = [str(message.text) for message in words_of(said_after_response(messages))]
    return asked == trailing_words(turns[:-1])


def _is_lost(turn: Turn, messages: Sequence[BaseMessage]) -> bool:
    """Return whether a response is one of LangChain's, and not among the messages."""
    own = turn.native if turn.provider == FRAMEWORK else None
    name = own.get("id") if turn.role == "assistant" and isinstance(own, dict) else None
    return name is not None and all(message.id != name for message in messages)


def _is_same(tool: Tool, request: ToolCallRequest) -> bool:
    """Return whether the log and the graph have the same name and arguments for a call."""
    return tool.call.name == request.tool_call["name"] and _edit(tool, request) is None


def _edit(tool: Tool, request: ToolCallRequest) -> JsonObject | None:
    """Return the arguments to which the host has changed those of a call that it has a tool for."""
    return None if request.tool is None else host_edit(tool, request.tool_call["args"])


def _with_handler(callbacks: Callbacks, handler: BaseCallbackHandler) -> Callbacks:
    if callbacks is None or isinstance(callbacks, list):
        return [*(callbacks or ()), handler]
    manager = callbacks.copy()
    manager.add_handler(handler)
    return manager


def _failure(
    result: Returned, errors: _ToolErrors, request: ToolCallRequest
) -> Failure | BaseException | str | None:
    """Return the failure that a result tells of, with the tool's own exception if it is known."""
    message = _message(result, request)
    if message is None or message.status != "error":
        return None
    if isinstance(errors.error, ValidationError) or request.tool is None:
        return validation_failure(errors.error or ToolException(str(message.text)))
    return errors.error or str(message.text)


def _value(result: Returned, request: ToolCallRequest) -> object:
    """Return what a result says to the model; a command may say nothing."""
    message = _message(result, request)
    return None if message is None else message.content


def _message(result: Returned, request: ToolCallRequest) -> ToolMessage | None:
    """Return the answer in a result: a message, a command that adds one, or a list of them."""
    if isinstance(result, ToolMessage):
        return result
    results = result if isinstance(result, list) else [result]
    for message in (message for one in results for message in _added_messages(one)):
        if isinstance(message, ToolMessage) and message.tool_call_id == request.tool_call["id"]:
            return message
    return None


def _added_messages(result: Returned) -> Sequence[object]:
    if isinstance(result, ToolMessage):
        return [result]
    held = result.update.get("messages", []) if isinstance(result.update, dict) else []
    return held if isinstance(held, list) else [held]
