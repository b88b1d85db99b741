"""The scenes as pydantic-ai plays them, with its `FunctionModel`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import wraps
from typing import Any

from integrations.scenes import Play, Played, Said, Tools, note_request
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ModelRetry, Tool
from pydantic_ai.messages import (
    ERROR_OUTCOMES,
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from eventstore import AsyncEventStore, CallChanged
from eventstore.integrations.pydantic_ai import Ledger


def asking_again(tool: Callable[..., Any]) -> Callable[..., Any]:
    """Return a tool whose lost connections let the model ask again, in pydantic-ai's own way."""

    @wraps(tool)
    def asked(*args: Any, **kwargs: Any) -> Any:
        try:
            return tool(*args, **kwargs)
        except (ConnectionError, RuntimeError) as lost:
            raise ModelRetry("try again") from lost

    return asked


def plain_message(message: ModelMessage) -> list[Any]:
    """Return what the models of providers send of a message: results as text, and as an object."""
    read: list[Any] = []
    for part in message.parts:
        if isinstance(part, ToolReturnPart):
            is_error = part.outcome in ERROR_OUTCOMES
            text, shown = part.model_response_str_and_user_content()
            files = [str(getattr(each, "identifier", each)) for each in shown]
            read.append([part.tool_call_id, is_error, text, files, part.model_response_object()])
        else:
            read.append([part.part_kind, str(getattr(part, "content", part))])
    return read


def fake_model(play: Play) -> FunctionModel:
    """Return the model that follows the script."""

    def next_said(messages: list[ModelMessage]) -> Said:
        return play.script[sum(isinstance(message, ModelResponse) for message in messages)]

    def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        note_request(play, [*map(plain_message, messages)])
        said = next_said(messages)
        text = [TextPart(said.text)] if said.text else []
        calls = [ToolCallPart(n, a, i) for n, a, i in said.calls]
        return ModelResponse([*text, *calls], finish_reason="length" if said.cut_off else None)

    async def stream(
        messages: list[ModelMessage], _: AgentInfo
    ) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        said = next_said(messages)
        if said.text:
            yield said.text
        for number, (name, arguments, call_id) in enumerate(said.calls, 1):
            yield {number: DeltaToolCall(name, arguments[:5], tool_call_id=call_id)}
            yield {number: DeltaToolCall(json_args=arguments[5:])}

    return FunctionModel(answer, stream_function=stream)


async def play(play: Play, tools: Tools) -> Played:
    """Play a scene, or its second half."""
    agent = Agent(
        fake_model(play),
        output_type=[str, DeferredToolRequests],
        tools=[
            Tool(asking_again(tools.find_order), name="find_order", sequential=play.kill),
            Tool(asking_again(tools.audit), name="audit"),
            Tool(tools.refund, sequential=play.kill),
            Tool(tools.mail, requires_approval=True),
            tools.ponder,
            tools.consult,
        ],
    )
    async with AsyncEventStore.open(play.url, redact=play.rules) as store:
        ledger = Ledger(store.conversation(play.chat))
        if play.prompt is None:
            result = await ledger.resume(agent)
        elif play.streamed:
            async with agent.run_stream(play.prompt, capabilities=[ledger]) as stream:
                return Played("".join([piece async for piece in stream.stream_text(delta=True)]))
        else:
            history = await ledger.history()
            result = await agent.run(play.prompt, message_history=history, capabilities=[ledger])
        if play.answer is not None:
            tools.change_mail()
            try:
                result = await agent.run(
                    message_history=result.all_messages(),
                    deferred_tool_results=DeferredToolResults(approvals={"call_m": play.answer}),
                    capabilities=[ledger],
                )
            except CallChanged as changed:
                return Played(shown=str(changed.now.effective_call.arguments))
        return Played(result.output if isinstance(result.output, str) else "")
