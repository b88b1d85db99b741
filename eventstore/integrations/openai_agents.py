"""openai-agents: a session that records an agent's runs, and gives the next run its history.

    ledger = Ledger(store.conversation("support-42"))
    result = await ledger.run(agent, "Where is my order?")

1. The model is wrapped: what it is asked is recorded before, what it answers with its calls before
   any of them runs. The tools are wrapped: each runs between the start and the end of an attempt.
2. The SDK checks arguments inside the tool's own invocation: refused arguments fail an attempt that
   has begun, with kind `validation`.
3. A decision in the log (`chat.approve`, `chat.reject`) is what `resume` goes on with. One of the
   SDK's state is for the call as the model asked for it, because that is what the state has.
4. `resume` gives the SDK the recorded response again, so that the SDK itself runs the calls that
   are open. Calls with a recorded answer do not run again.
5. An agent that another hands over to is wrapped, too: once, however many hand over to it.
6. A guardrail that refuses a call rejects it in the log. It sees the arguments that would run.

A tool with a `failure_error_function` of its own hides its exceptions: what that returns is
recorded as the result. The tools of an MCP server hide none; see `openai_agents_mcp`.
"""

from __future__ import annotations

import copy
import inspect
import json
import time
import weakref
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from eventstore.aio.conversation import AsyncConversation
from eventstore.domain.decision_errors import CallChanged
from eventstore.domain.doubt import text_of_doubt
from eventstore.domain.events import MessageAdded
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.domain.statuses import Approved, Pending, Rejected
from eventstore.integrations.extras import missing_extra
from eventstore.integrations.recorded_calls import (
    AsyncRecordedCalls,
    first_seen,
    is_done,
    may_run,
    shown_text,
    validation_failure,
)
from eventstore.providers.native_form import without_restorable_native
from eventstore.providers.parsing import parse_own
from eventstore.providers.sdk_objects import member, plain
from eventstore.providers.to_events import events_of_history

try:
    from agents import (
        Agent,
        AgentsException,
        FunctionTool,
        Handoff,
        ItemHelpers,
        Model,
        ModelBehaviorError,
        ModelResponse,
        MultiProvider,
        RunConfig,
        Runner,
        Usage,
    )
    from agents.memory import SessionABC
    from openai.types.responses import ResponseOutputItem
    from pydantic import TypeAdapter

    from eventstore.integrations.openai_agents_mcp import RemoteEnds, WatchedServer, words_of
except ImportError as error:
    raise missing_extra("openai-agents", error) from error

if TYPE_CHECKING:
    from agents import (
        RunContextWrapper,
        RunResult,
        RunResultStreaming,
        ToolGuardrailFunctionOutput,
        ToolInputGuardrail,
        ToolInputGuardrailData,
    )
    from agents.run_config import ToolErrorFormatterArgs
    from agents.tool import ToolErrorFunction
    from agents.tool_context import ToolContext

    from eventstore.domain.json_types import JsonObject
    from eventstore.domain.tool import Tool
    from eventstore.providers.model import Turn

PROVIDER: Final = "openai-responses"
"""The form of the SDK's items."""

_WORDS = ("user", "system", "developer")


class Ledger(SessionABC):
    """A session of openai-agents that records every call of an agent in a conversation.

    `chat` is a conversation of an `AsyncEventStore`.

    Raises:
        TypeError: `chat` is a conversation of an `EventStore`.
    """

    def __init__(self, chat: AsyncConversation, *, read_only: Collection[str] = ()) -> None:
        if not isinstance(chat, AsyncConversation):
            raise TypeError(f"chat is {chat!r}: open the log with AsyncEventStore")
        self.chat = chat
        self.session_id = chat.id
        self.session_settings = None
        self._calls = AsyncRecordedCalls(chat, "openai-agents", read_only=read_only)
        self._errors: dict[str, Exception] = {}  # by the call whose tool raised it
        self.remote_ends: RemoteEnds = {}
        self._replayed: ModelResponse | None = None
        self._resumed_history: list[JsonObject] | None = (
            None  # what comes before the replayed calls
        )

    async def run(self, agent: Agent[Any], prompt: str | list[Any], **options: Any) -> RunResult:
        """Run an agent, as `Runner.run` does; `options` are its own.

        Raises:
            ValueError: `session` is another than this ledger.
        """
        return await Runner.run(self.wrapped(agent), prompt, **self._arguments(options))

    def run_streamed(
        self, agent: Agent[Any], prompt: str | list[Any], **options: Any
    ) -> RunResultStreaming:
        """Run an agent, as `Runner.run_streamed` does."""
        return Runner.run_streamed(self.wrapped(agent), prompt, **self._arguments(options))

    async def resume(self, agent: Agent[Any], **options: Any) -> RunResult | None:
        """Let an agent go on after a crash, or after a decision.

        The calls of the last turn that may start run first. Then the model is asked. A result with
        `interruptions` waits for a person still. None if the model has had the last word: nothing
        is done.

        Raises:
            CallUnderWay: another worker is at a call; nothing is done.
        """
        await self._calls.check_no_other_worker()
        turns = await self._calls.turns()
        if is_done(turns):
            return None
        await self._prepare_replay(turns)
        wrapped, arguments = self.wrapped(agent), self._arguments(options)
        try:
            result = await Runner.run(wrapped, [], **arguments)
        finally:
            self._replayed = self._resumed_history = None
        while result.interruptions:
            state = result.to_state()
            decided = False
            for waiting in result.interruptions:
                tool = await self._calls.find(str(member(waiting.raw_item, "call_id")))
                status = None if tool is None else tool.status
                if isinstance(status, Approved):
                    state.approve(waiting)
                    decided = True
                elif isinstance(status, Rejected):
                    state.reject(waiting, rejection_message=status.reason)
                    decided = True
            if not decided:
                break
            result = await Runner.run(wrapped, state, **arguments)
        return result

    def wrapped(self, agent: Agent[Any]) -> Agent[Any]:
        """Return the agent with its model and its tools recorded, and those it hands over to.

        Raises:
            ValueError: an agent or a tool of it is one that another ledger has wrapped.
        """
        return _RecordedAgents(self).of(agent)

    # the session

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return what was said so far, as input items; each call has its answer."""
        items = self._resumed_history
        if items is None:
            items = await self._calls.items(PROVIDER)
        return items if limit is None else items[len(items) - limit :]

    async def add_items(self, items: list[Any]) -> None:
        """Do nothing: everything was recorded before it happened."""

    async def pop_item(self) -> None:
        """Refuse: a log only grows.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("a log only grows: start another conversation")

    async def clear_session(self) -> None:
        """Refuse: a log only grows.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("a log only grows: start another conversation")

    # recording

    async def record_request(self, given: str | list[Any]) -> ModelResponse | None:
        """Record what the model is asked; return the response that is to be given again, if any."""
        replayed, self._replayed = self._replayed, None
        if replayed is not None:
            return replayed
        said = [{"role": "user", "content": given}] if isinstance(given, str) else _tail(given)
        outputs = [item for item in said if item.get("type") == "function_call_output"]
        await self._record_outputs({str(item.get("call_id")): item for item in outputs})
        words: Any = [item for item in said if item.get("role") in _WORDS]
        if words:
            events = _words_added(ItemHelpers.input_to_new_input_list(words))
            await self._calls.record_words(lambda stored: events[len(stored) :])
        return None

    async def record_response(
        self, response: object, latency: float, known: Collection[str] | None = None
    ) -> None:
        """Record a response and its calls, before any of them runs.

        A call of a tool that is not among the `known` names has failed.
        """
        output = [plain(item) for item in response.output]  # type: ignore[attr-defined]
        name = member(response, "response_id") or member(response, "id")
        whole: JsonObject = {"output": output, "usage": _usage(member(response, "usage"))}
        if name is not None:
            whole["id"] = name
        tools = await self.chat.record(whole, PROVIDER, latency=latency)
        for tool in tools:
            if known is not None and tool.call.name not in known:  # the SDK may end the run for it
                text = f"there is no tool {tool.call.name!r}"
                await self.chat.fail(tool.id, Failure(ErrorKind.VALIDATION, text))
        self._calls.know(tools)

    async def _record_outputs(self, items: dict[str, JsonObject]) -> None:
        """Record the outputs of calls that no tool ran, such as a handoff or a refusal.

        Raises:
            CallChanged: a call is no longer as the model asked for it, and so not what was refused.
        """
        texts = {call_id: str(item.get("output")) for call_id, item in items.items()}
        for call_id, tool in (await self._calls.unanswered(texts)).items():
            if tool.revision != first_seen(tool):
                raise _RefusedAnswer("completed", first_seen(tool), tool)
            await self.chat.complete(tool.id, items[call_id].get("output"), synthetic=True)

    async def find(self, call_id: str) -> Tool | None:
        """Return the latest call to which the SDK gave this id, or None."""
        return await self._calls.find(call_id)

    async def record_refusal(self, tool: Tool, reason: str | None, guardrail: str) -> None:
        """Record that a guardrail of the host has refused a call, as it was then."""
        if isinstance(tool.status, Pending | Approved):
            await self.chat.reject(tool.id, reason, "hook", guardrail, seen=tool)

    async def _format_error(self, args: ToolErrorFormatterArgs[Any]) -> str | None:
        """Keep a tool's own exception; record a refused or an unknown call."""
        if args.error is not None:
            self._errors[args.call_id] = args.error
            return None
        tool = await self._calls.find(args.call_id)
        if tool is not None and isinstance(tool.status, Pending | Approved):
            if args.kind == "approval_rejected":
                if tool.revision == first_seen(tool):  # otherwise the next request is refused
                    await self.chat.reject(tool.id, args.default_message, seen=tool)
            else:
                failure = Failure(ErrorKind.VALIDATION, args.default_message)
                await self.chat.fail(tool.id, failure)
        return None

    async def _approved(self, tool: Tool) -> Tool:
        """Return a call with the host's approval of what the model asked for.

        Raises:
            CallChanged: the call is no longer that.
        """
        try:
            return await self.chat.approve(tool.id, reason="by the host", seen=first_seen(tool))
        except CallChanged as changed:
            raise _RefusedAnswer("approved", changed.seen, changed.now) from None

    def _arguments(self, options: dict[str, Any]) -> dict[str, Any]:
        session = options.pop("session", self)
        if session is not self:
            raise ValueError(
                f"session is {session!r}: the model would be asked without the answers of the log, "
                "and calls would run again; leave it out, because the ledger is the run's session"
            )
        config = options.pop("run_config", None) or RunConfig()
        config = replace(config, tool_error_formatter=self._formatter(config.tool_error_formatter))
        return {"session": self, "run_config": config, **options}

    def _formatter(self, own: Callable[..., Any] | None) -> Callable[..., Any]:
        async def formatted(args: ToolErrorFormatterArgs[Any]) -> str | None:
            await self._format_error(args)
            text = None if own is None else own(args)
            return await text if inspect.isawaitable(text) else text

        return formatted

    async def invoke(self, tool: FunctionTool, context: ToolContext[Any], arguments: str) -> Any:
        """Run a call of a tool between its start and its end; one that ran gives its answer."""
        needs_decision = tool.needs_approval is True
        found = await self._calls.find(context.tool_call_id, as_recorded=not needs_decision)
        if found is None:
            raise LookupError(f"the log has no call {context.tool_call_id!r}")
        waits = needs_decision and isinstance(found.status, Pending)
        if waits and found.effective_call.is_object:  # the tool itself refuses anything else
            found = await self._approved(found)
        if not may_run(found):
            return shown_text(await self._calls.answer(found))
        async with self._calls.running(found) as attempt:
            if attempt is None:
                return await self.invoke(tool, context, arguments)
            given = arguments if found.edit is None else json.dumps(attempt.arguments)
            try:
                result = await tool.on_invoke_tool(context, given)
            except ModelBehaviorError as refused:
                await attempt.fail(validation_failure(refused))
                raise
            except Exception:
                if (ended := self.remote_ends.pop(found.id, None)) is not None:
                    await attempt.fail(ended)
                raise
            is_remote = found.id in self.remote_ends
            failed = self._failure_of(found, context.tool_call_id)
            if failed is not None:
                await attempt.fail(failed)
                if attempt.tool.in_doubt:
                    return shown_text(await self._calls.answer(attempt.tool))
            else:
                await attempt.complete(plain(words_of(result) if is_remote else result))
            return result

    def _failure_of(self, call: Tool, call_id: str) -> Exception | Failure | None:
        """Return why the tool of a call has failed; None if it has not."""
        raised = self._errors.pop(call_id, None)
        failed = self.remote_ends.pop(call.id, None) or raised
        return validation_failure(failed) if isinstance(failed, ModelBehaviorError) else failed

    async def _prepare_replay(self, turns: Sequence[Turn]) -> None:
        """Let the next request be answered with the open calls of the last response, if any are."""
        last = turns[-1]
        tools = await self.chat.tools()
        open_ids = {
            call.provider_id or call.id
            for call in last.calls
            if isinstance(tools[call.id].status, Pending | Approved)
        }
        if not open_ids:
            return
        known = await self._calls.items(PROVIDER, last.version)
        history, output = list(known), []
        for item in (await self._calls.items(PROVIDER))[len(known) :]:
            if item.get("call_id") not in open_ids:
                history.append(item)
            elif _is_call(item):
                output.append(_output_item().validate_python(item))
        self._resumed_history = history
        self._replayed = ModelResponse(output=output, usage=Usage(), response_id=None)


class _RefusedAnswer(CallChanged, AgentsException):
    """The error of a late answer, as one of the SDK, which would put another into its words."""


class _RecordedAgents:
    """The recorded copies of agents that hand over to each other, in a circle, too: one of each."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._copies: dict[int, tuple[Agent[Any], Agent[Any]]] = {}  # by the id of the first

    def of(self, agent: Agent[Any]) -> Agent[Any]:
        """Return the copy of an agent."""
        if (known := self._copies.get(id(agent))) is not None:
            return known[1]
        copied = copy.copy(agent)
        self._copies[id(agent)] = agent, copied
        if not self._is_recorded(agent.model):
            copied.model = _RecordedModel(self._ledger, agent.model)
        copied.tools = [
            self._tool(tool) if isinstance(tool, FunctionTool) else tool for tool in agent.tools
        ]
        copied.handoffs = [
            self.of(other) if isinstance(other, Agent) else self._handoff(other)
            for other in agent.handoffs
        ]
        copied.mcp_servers = [self._server(server) for server in agent.mcp_servers]
        copied.get_mcp_tools = partial(self._mcp_tools, copied)  # type: ignore[method-assign]
        return copied

    async def _mcp_tools(self, agent: Agent[Any], context: RunContextWrapper[Any]) -> list[Any]:
        """Return the tools of an agent's servers, recorded; each turn has new ones."""
        tools = await type(agent).get_mcp_tools(agent, context)
        return [self._tool(tool) if isinstance(tool, FunctionTool) else tool for tool in tools]

    def _server(self, server: Any) -> Any:
        if isinstance(server, WatchedServer):  # of a run that goes on with the last one's agent
            return server
        return WatchedServer(server, self._ledger.remote_ends)

    def _handoff(self, handoff: Handoff[Any, Any]) -> Handoff[Any, Any]:
        """Return a handoff to the copy of the agent that it gives, whichever that is."""
        hand_over = handoff.on_invoke_handoff

        async def hand_over_recorded(context: RunContextWrapper[Any], arguments: str) -> Agent[Any]:
            return self.of(await hand_over(context, arguments))

        copied = copy.copy(handoff)
        copied.on_invoke_handoff = hand_over_recorded
        target = handoff._agent_ref and handoff._agent_ref()  # noqa: SLF001 - a state finds it there
        if isinstance(target, Agent):
            copied._agent_ref = weakref.ref(self.of(target))  # noqa: SLF001
        return copied

    def _tool(self, tool: FunctionTool) -> FunctionTool:
        if self._is_recorded(tool.on_invoke_tool):
            return tool
        copied = copy.copy(tool)
        copied.on_invoke_tool = _RecordedInvocation(self._ledger, tool)
        if tool.tool_input_guardrails:
            copied.tool_input_guardrails = [*map(self._guardrail, tool.tool_input_guardrails)]
        if tool.timeout_seconds is not None:
            copied.timeout_error_function = self._timeout_function(tool.timeout_error_function)
        return copied

    def _guardrail(self, guardrail: ToolInputGuardrail[Any]) -> ToolInputGuardrail[Any]:
        """Return a guardrail that sees the arguments that will run, and whose no is recorded."""
        name = guardrail.get_name()

        async def checked(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
            call = await self._ledger.find(data.context.tool_call_id)
            if call is not None and call.edit is not None:
                context = copy.copy(data.context)
                context.tool_arguments = json.dumps(call.effective_call.arguments)
                data = replace(data, context=context)
            output = await guardrail.run(data)
            behavior = output.behavior
            if call is not None and behavior["type"] != "allow":
                reason = behavior["message"] if behavior["type"] == "reject_content" else None
                await self._ledger.record_refusal(call, reason, name)
            return output

        copied = copy.copy(guardrail)
        copied.name, copied.guardrail_function = name, checked
        return copied

    def _timeout_function(self, own: ToolErrorFunction | None) -> ToolErrorFunction:
        """Return what tells the model of a timeout: that the call may have taken effect, too."""

        async def text_of(context: RunContextWrapper[Any], error: Exception) -> str:
            given = str(error) if own is None else own(context, error)
            text = await given if inspect.isawaitable(given) else given
            call = await self._ledger.find(str(member(context, "tool_call_id")))
            return text_of_doubt(text, "timeout") if call is not None and call.in_doubt else text

        return text_of

    def _is_recorded(self, piece: object) -> bool:
        """Return whether the ledger records a model, or the invocation of a tool, already.

        It does in a run that goes on with the agent that the last one ended with.

        Raises:
            ValueError: another ledger does.
        """
        if not isinstance(piece, _RecordedModel | _RecordedInvocation):
            return False
        if piece.ledger is not self._ledger:
            raise ValueError(
                f"the agent is recorded in conversation {piece.ledger.chat.id!r} already: "
                f"give the ledger of {self._ledger.chat.id!r} an agent that no ledger has "
                "wrapped, not the `last_agent` of another ledger's result"
            )
        return True


class _RecordedInvocation:
    """The invocation of a tool, which is recorded."""

    def __init__(self, ledger: Ledger, tool: FunctionTool) -> None:
        self.ledger = ledger
        self._tool = tool

    async def __call__(self, context: ToolContext[Any], arguments: str) -> Any:
        """Run a call of the tool; see `Ledger.invoke`."""
        return await self.ledger.invoke(self._tool, context, arguments)


class _RecordedModel(Model):
    """A model whose requests and responses are recorded."""

    def __init__(self, ledger: Ledger, model: str | Model | None) -> None:
        self.ledger = ledger
        self._model = model

    async def get_response(self, *args: Any, **named: Any) -> Any:
        """Return the model's response, recorded; or the one that is given again."""
        replayed = await self.ledger.record_request(_input_of(args, named))
        if replayed is not None:
            return replayed
        requested_at = time.monotonic()
        response = await self._own().get_response(*args, **named)
        latency = time.monotonic() - requested_at
        await self.ledger.record_response(response, latency, _names_in(args, named))
        return response

    async def stream_response(self, *args: Any, **named: Any) -> AsyncIterator[Any]:
        """Yield the model's events; the response is recorded before its last event."""
        await self.ledger.record_request(_input_of(args, named))
        requested_at = time.monotonic()
        async for event in self._own().stream_response(*args, **named):
            if event.type == "response.completed":
                latency = time.monotonic() - requested_at
                names = _names_in(args, named)
                await self.ledger.record_response(event.response, latency, names)
            yield event

    def _own(self) -> Model:
        if not isinstance(self._model, Model):
            self._model = MultiProvider().get_model(self._model)
        return self._model


def _input_of(args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Return the input of a model's request: the second argument, or the one of that name."""
    return named["input"] if "input" in named else args[1]


def _names_in(args: tuple[Any, ...], named: dict[str, Any]) -> set[str] | None:
    """Return the names of a request's tools and handoffs; None if some of its tools run elsewhere.

    They are the fourth argument and the sixth, or those of these names.
    """
    tools = named["tools"] if "tools" in named else args[3]
    handoffs = named["handoffs"] if "handoffs" in named else args[5]
    if not all(isinstance(tool, FunctionTool) for tool in tools):
        return None
    return {*(tool.name for tool in tools), *(handoff.tool_name for handoff in handoffs)}


def _tail(items: list[JsonObject]) -> list[JsonObject]:
    """Return the input items after the model's last one."""
    return list(takewhile(_is_given, reversed(items)))[::-1]


def _words_added(items: list[Any]) -> list[MessageAdded]:
    """Return the events of someone's words."""
    parsed = [without_restorable_native(item, PROVIDER) for item in parse_own(items, PROVIDER)]
    events = events_of_history(parsed, PROVIDER).events
    return [event for event in events if isinstance(event, MessageAdded)]


def _usage(used: object) -> JsonObject:
    """Return the tokens that a response has used, by the names of the API."""
    read, written = member(used, "input_tokens_details"), member(used, "output_tokens_details")
    return {
        "input_tokens": member(used, "input_tokens"),
        "output_tokens": member(used, "output_tokens"),
        "input_tokens_details": {"cached_tokens": member(read, "cached_tokens")},
        "output_tokens_details": {"reasoning_tokens": member(written, "reasoning_tokens")},
    }


def _is_given(item: JsonObject) -> bool:
    """Return whether an input item is not the model's: someone's words, or a call's output."""
    return item.get("type") == "function_call_output" or item.get("role") in _WORDS


def _is_call(item: JsonObject) -> bool:
    return item.get("type") in ("function_call", "custom_tool_call")


@cache
def _output_item() -> TypeAdapter[Any]:
    return TypeAdapter(ResponseOutputItem)
