"""Copies of the agents of openai-agents, which record what their models and their tools do.

1. The model is wrapped: what it is asked is recorded before, what it answers with its calls before
   any of them runs. The tools are wrapped: each runs between the start and the end of an attempt.
2. An agent that another hands over to is copied, too: once, however many hand over to it.
3. A guardrail that refuses a call rejects it in the log. It sees the arguments that would run.
"""

from __future__ import annotations

import copy
import json
import time
import weakref
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from agents import Agent, ApplyPatchTool, FunctionTool, Handoff, Model, MultiProvider

from eventstore.integrations.openai_agents_mcp import WatchedServer
from eventstore.integrations.openai_agents_native import (
    NATIVE_TOOLS,
    RecordedEditor,
    RecordedExecutor,
    RecordedNative,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agents import (
        ModelResponse,
        RunContextWrapper,
        ToolGuardrailFunctionOutput,
        ToolInputGuardrail,
        ToolInputGuardrailData,
    )
    from agents.items import TResponseStreamEvent
    from agents.mcp import MCPServer
    from agents.tool import Tool, ToolErrorFunction
    from agents.tool_context import ToolContext

    from eventstore.integrations.openai_agents_log import RunLog
    from eventstore.integrations.openai_agents_native import NativeTool


class RecordedAgents:
    """The recorded copies of agents that hand over to each other, in a circle, too: one of each."""

    def __init__(self, log: RunLog) -> None:
        self._log = log
        self._copies: dict[int, tuple[Agent[Any], Agent[Any]]] = {}  # by the id of the first

    def of(self, agent: Agent[Any]) -> Agent[Any]:
        """Return the copy of an agent."""
        if (known := self._copies.get(id(agent))) is not None:
            return known[1]
        copied = copy.copy(agent)
        self._copies[id(agent)] = agent, copied
        if not self._is_recorded(agent.model):
            copied.model = _RecordedModel(self._log, agent.model)
        copied.tools = [self._tool(tool) for tool in agent.tools]
        copied.handoffs = [
            self.of(other) if isinstance(other, Agent) else self._handoff(other)
            for other in agent.handoffs
        ]
        copied.mcp_servers = [self._server(server) for server in agent.mcp_servers]
        copied.get_mcp_tools = partial(self._mcp_tools, copied)  # type: ignore[method-assign]
        return copied

    async def _mcp_tools(self, agent: Agent[Any], context: RunContextWrapper[Any]) -> list[Tool]:
        """Return the tools of an agent's servers, recorded; each turn has new ones."""
        tools = await type(agent).get_mcp_tools(agent, context)
        return [self._tool(tool) for tool in tools]

    def _server(self, server: MCPServer) -> MCPServer:
        if isinstance(server, WatchedServer):  # of a run that continues with the last one's agent
            return server
        return cast("MCPServer", WatchedServer(server, self._log.remote_ends))

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

    def _tool(self, tool: Tool) -> Tool:
        if isinstance(tool, NATIVE_TOOLS):
            return self._native(tool)
        if not isinstance(tool, FunctionTool) or self._is_recorded(tool.on_invoke_tool):
            return tool
        copied = copy.copy(tool)
        copied.on_invoke_tool = _RecordedInvocation(self._log, tool)
        if tool.tool_input_guardrails:
            copied.tool_input_guardrails = [*map(self._guardrail, tool.tool_input_guardrails)]
        if tool.timeout_seconds is not None:
            copied.timeout_error_function = self._timeout_function(tool)
        return copied

    def _native(self, tool: NativeTool) -> NativeTool:
        """Return a shell or a tool for patches that is recorded; not one that the API runs."""
        member_name = "editor" if isinstance(tool, ApplyPatchTool) else "executor"
        own = getattr(tool, member_name)
        if own is None or self._is_recorded(own):
            return tool
        copied = copy.copy(tool)
        recorded = RecordedEditor if member_name == "editor" else RecordedExecutor
        setattr(copied, member_name, recorded(self._log, tool))
        return copied

    def _guardrail(self, guardrail: ToolInputGuardrail[Any]) -> ToolInputGuardrail[Any]:
        """Return a guardrail that sees the arguments that will run, and whose no is recorded."""
        name = guardrail.get_name()

        async def checked(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
            call = await self._log.calls.find(data.context.tool_call_id)
            given = data.context.tool_arguments
            if call is not None and (call.edit is not None or self._log.is_covered(given)):
                context = copy.copy(data.context)
                context.tool_arguments = json.dumps(call.effective_call.arguments)
                data = replace(data, context=context)
            output = await guardrail.run(data)
            behavior = output.behavior
            if call is not None and behavior["type"] != "allow":
                reason = behavior["message"] if behavior["type"] == "reject_content" else None
                await self._log.record_refusal(call, reason, name)
            return output

        copied = copy.copy(guardrail)
        copied.name, copied.guardrail_function = name, checked
        return copied

    def _timeout_function(self, tool: FunctionTool) -> ToolErrorFunction:
        """Return what tells the model of a timeout: that the call may have taken effect, too."""

        async def text_of(context: RunContextWrapper[Any], _: Exception) -> str:
            return await self._log.timeout_text(tool, cast("ToolContext[Any]", context))

        return text_of

    def _is_recorded(self, piece: object) -> bool:
        """Return whether the ledger records a model, or the invocation of a tool, already.

        It does in a run that continues with the agent that the last one ended with.

        Raises:
            ValueError: another ledger does.
        """
        if not isinstance(piece, _RecordedModel | _RecordedInvocation | RecordedNative):
            return False
        if piece.log is not self._log:
            raise ValueError(
                f"the agent is recorded in conversation {piece.log.chat.id!r} already: "
                f"give the ledger of {self._log.chat.id!r} an agent that no ledger has "
                "wrapped, not the `last_agent` of another ledger's result"
            )
        return True


class _RecordedInvocation:
    """The invocation of a tool, which is recorded."""

    def __init__(self, log: RunLog, tool: FunctionTool) -> None:
        self.log = log
        self._tool = tool

    async def __call__(self, context: ToolContext[Any], arguments: str) -> object:
        """Run a call of the tool; see `RunLog.invoke`."""
        return await self.log.invoke(self._tool, context, arguments)


class _RecordedModel(Model):
    """A model whose requests and responses are recorded."""

    def __init__(self, log: RunLog, model: str | Model | None) -> None:
        self.log = log
        self._model = model

    async def get_response(self, *args: Any, **named: Any) -> ModelResponse:
        """Return the model's response, recorded; or the one that is given again."""
        replayed = await self.log.record_request(_input_of(args, named))
        if replayed is not None:
            return replayed
        requested_at = time.monotonic()
        response = await self._own().get_response(*args, **named)
        latency = time.monotonic() - requested_at
        await self.log.record_response(response, latency, _names_in(args, named))
        return response

    async def stream_response(
        self, *args: Any, **named: Any
    ) -> AsyncIterator[TResponseStreamEvent]:
        """Yield the model's events; the response is recorded before its last event."""
        await self.log.record_request(_input_of(args, named))
        requested_at = time.monotonic()
        async for event in self._own().stream_response(*args, **named):
            if event.type == "response.completed":
                latency = time.monotonic() - requested_at
                names = _names_in(args, named)
                await self.log.record_response(event.response, latency, names)
            yield event

    def _own(self) -> Model:
        if not isinstance(self._model, Model):
            self._model = MultiProvider().get_model(self._model)
        return self._model


def _input_of(args: tuple[Any, ...], named: dict[str, Any]) -> str | list[Any]:
    """Return the input of a model's request: the second argument, or the one of that name."""
    return named["input"] if "input" in named else args[1]


def _names_in(args: tuple[Any, ...], named: dict[str, Any]) -> set[str] | None:
    """Return the names of a request's tools and handoffs; None if some of its tools run elsewhere.

    They are the fourth argument and the sixth, or have these names.
    """
    tools = named["tools"] if "tools" in named else args[3]
    handoffs = named["handoffs"] if "handoffs" in named else args[5]
    if not all(isinstance(tool, FunctionTool) for tool in tools):
        return None
    return {*(tool.name for tool in tools), *(handoff.tool_name for handoff in handoffs)}
