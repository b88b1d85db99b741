"""Runs of agent frameworks, with an integration and by hand, for `integrations.py`.

A model that answers from memory makes a number of calls, and after their results says the last
words. By hand, the log is read for the history, the response is recorded as it is made, and each
tool runs in `chat.running`: what someone writes who has the library and the framework alone.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

from eventstore import AsyncConversation, AsyncDispatcher, FunctionCall
from projections import model_history

Run = Callable[[AsyncConversation], Awaitable[object]]

PROMPT = "Where are my orders?"
WORDS = "All are lost."
IDS = {"user_id": "ann", "session_id": "s"}


async def find_order(number: int) -> str:
    """Find an order at once."""
    return f"order {number} is lost"


class ByHand:
    """What is written by hand: responses are recorded, and their calls run in their order."""

    def __init__(self, chat: AsyncConversation) -> None:
        self._chat = chat
        self._open: list[str] = []

    async def began(self) -> None:
        """Read what was said before, and record the prompt."""
        before = model_history([event async for event in self._chat.events()])
        assert not before.turns
        await self._chat.add_message("user", PROMPT)

    async def said(self, calls: int) -> None:
        """Record a response with this number of calls; without calls, the last words."""
        made = [FunctionCall.of("find_order", {"number": n}, f"call_{n}") for n in range(calls)]
        tools = await self._chat.turn("" if calls else WORDS, made)
        self._open += [tool.id for tool in tools]

    async def find_order(self, number: int) -> str:
        """Find an order at once."""
        found: str = await self.run(lambda: find_order(number), lambda text: text)
        return found

    async def run(
        self, tool: Callable[[], Awaitable[Any]], value_of: Callable[[Any], object]
    ) -> Any:
        """Run the next call, and record the value of its result."""
        async with self._chat.running(self._open.pop(0)) as attempt:
            result = await tool()
            await attempt.complete(value_of(result))
        return result


def pydantic_ai(calls: int) -> tuple[Run, Run]:
    """Return the runs of pydantic-ai."""
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    from eventstore.integrations.pydantic_ai import Ledger

    async def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        if any(isinstance(message, ModelResponse) for message in messages):
            return ModelResponse([TextPart(WORDS)])
        made = range(calls)
        return ModelResponse([ToolCallPart("find_order", {"number": n}, f"call_{n}") for n in made])

    async def integrated(chat: AsyncConversation) -> None:
        ledger = Ledger(chat)
        agent = Agent(FunctionModel(answer), tools=[find_order])
        history = await ledger.history()
        await agent.run(PROMPT, message_history=history, capabilities=[ledger])

    async def by_hand(chat: AsyncConversation) -> None:
        hand = ByHand(chat)

        async def recorded(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            response = await answer(messages, info)
            await hand.said(len(response.tool_calls))
            return response

        await hand.began()
        await Agent(FunctionModel(recorded), tools=[hand.find_order]).run(PROMPT)

    return integrated, by_hand


def agents_session(hand: ByHand, name: str) -> Any:
    """Return a session by which openai-agents reads the log: without one it takes a tenth less."""
    from agents.memory import SessionABC

    class Session(SessionABC):
        session_id = name
        session_settings = None

        async def get_items(self, limit: int | None = None) -> list[Any]:
            await hand.began()
            return []

        async def add_items(self, items: Any) -> None:
            pass  # what was said is recorded when it is said

        async def pop_item(self) -> None:
            raise NotImplementedError

        async def clear_session(self) -> None:
            raise NotImplementedError

    return Session()


def openai_agents(calls: int) -> tuple[Run, Run]:
    """Return the runs of openai-agents."""
    from agents import Agent, RunHooks, Runner, function_tool, set_tracing_disabled
    from agents.testing import ScriptedModel, assistant_message, function_call

    from eventstore.integrations.openai_agents import Ledger

    set_tracing_disabled(disabled=True)

    def agent(tool: Callable[..., Any]) -> Agent[Any]:
        made = [
            function_call("find_order", json.dumps({"number": n}), call_id=f"call_{n}")
            for n in range(calls)
        ]
        model = ScriptedModel([made, [assistant_message(WORDS)]])
        return Agent("support", model=model, tools=[function_tool(tool)])

    async def integrated(chat: AsyncConversation) -> None:
        await Ledger(chat).run(agent(find_order), PROMPT)

    class Hooks(RunHooks[Any]):
        def __init__(self, hand: ByHand) -> None:
            self._hand = hand

        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
            made = [item for item in response.output if item.type == "function_call"]
            await self._hand.said(len(made))

    async def by_hand(chat: AsyncConversation) -> None:
        hand = ByHand(chat)
        session = agents_session(hand, chat.id)
        await Runner.run(agent(hand.find_order), PROMPT, hooks=Hooks(hand), session=session)

    return integrated, by_hand


def langchain_model(calls: int, hand: ByHand | None = None) -> Any:
    """Return a model of LangChain that answers from memory, and records itself by hand."""
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class Model(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "memory"

        def bind_tools(self, tools: Any, **options: Any) -> Any:
            return self

        def _generate(self, *args: Any, **options: Any) -> Any:
            raise NotImplementedError

        async def _agenerate(self, messages: Any, *args: Any, **options: Any) -> ChatResult:
            asked = any(isinstance(message, AIMessage) for message in messages)
            made = [
                {"name": "find_order", "args": {"number": n}, "id": f"call_{n}"}
                for n in range(0 if asked else calls)
            ]
            if hand is not None:
                await hand.said(len(made))
            message = AIMessage("" if made else WORDS, tool_calls=made)
            return ChatResult(generations=[ChatGeneration(message=message)])

    return Model()


def langchain(calls: int) -> tuple[Run, Run]:
    """Return the runs of LangChain's agent; by hand, tools run in a middleware as well."""
    from langchain.agents import create_agent
    from langchain.agents.middleware import AgentMiddleware

    from eventstore.integrations.langchain import Ledger

    given: Any = {"messages": [("user", PROMPT)]}

    async def integrated(chat: AsyncConversation) -> None:
        agent = create_agent(langchain_model(calls), [find_order], middleware=[Ledger(chat)])
        await agent.ainvoke(given)

    class Middleware(AgentMiddleware):
        def __init__(self, hand: ByHand) -> None:
            self._hand = hand

        async def abefore_agent(self, state: Any, runtime: Any) -> None:
            await self._hand.began()

        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            return await self._hand.run(lambda: handler(request), lambda result: result.content)

    async def by_hand(chat: AsyncConversation) -> None:
        hand = ByHand(chat)
        model = langchain_model(calls, hand)
        await create_agent(model, [find_order], middleware=[Middleware(hand)]).ainvoke(given)

    return integrated, by_hand


def langgraph(calls: int) -> tuple[Run, Run]:
    """Return the runs of a graph of LangGraph."""
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition

    from eventstore.integrations.langgraph import Ledger

    def graph(model: Any, tools: Any) -> Any:
        made = StateGraph(MessagesState)
        made.add_node("model", model)
        made.add_node("tools", tools)
        made.add_edge(START, "model")
        made.add_conditional_edges("model", tools_condition)
        made.add_edge("tools", "model")
        return made.compile()

    given: Any = {"messages": [("user", PROMPT)]}

    async def integrated(chat: AsyncConversation) -> None:
        ledger = Ledger(chat)
        nodes = ledger.model_node(langchain_model(calls)), ledger.tool_node([find_order])
        await graph(*nodes).ainvoke(given)

    async def by_hand(chat: AsyncConversation) -> None:
        hand = ByHand(chat)
        model = langchain_model(calls, hand)

        async def node(state: MessagesState) -> Any:
            return {"messages": [await model.ainvoke(state["messages"])]}

        await hand.began()
        await graph(node, ToolNode([hand.find_order])).ainvoke(given)

    return integrated, by_hand


def strands_model(calls: int, hand: ByHand | None = None) -> Any:
    """Return a model of strands that answers from memory, and records itself by hand."""
    from strands.models import Model

    class Memory(Model):
        def update_config(self, **config: Any) -> None:
            pass

        def get_config(self) -> dict[str, Any]:
            return {}

        def structured_output(self, *args: Any, **named: Any) -> Any:
            raise NotImplementedError

        async def stream(self, messages: Any, *args: Any, **named: Any) -> AsyncIterator[Any]:
            asked = any(message["role"] == "assistant" for message in messages)
            if hand is not None:
                await hand.said(0 if asked else calls)
            for event in _bedrock_events(0 if asked else calls):
                yield event

    return Memory()


def strands(calls: int) -> tuple[Run, Run]:
    """Return the runs of strands."""
    from strands import Agent, tool

    from eventstore.integrations.strands import Ledger

    async def integrated(chat: AsyncConversation) -> None:
        ledger = Ledger(chat)
        agent = Agent(
            strands_model(calls),
            tools=[tool(find_order)],
            messages=await ledger.history(),
            plugins=[ledger],
            callback_handler=None,
        )
        await agent.invoke_async(PROMPT)

    async def by_hand(chat: AsyncConversation) -> None:
        hand = ByHand(chat)
        await hand.began()

        @tool
        async def find_order(number: int) -> str:
            """Find an order at once."""
            return await hand.find_order(number)

        agent = Agent(strands_model(calls, hand), tools=[find_order], callback_handler=None)
        await agent.invoke_async(PROMPT)

    return integrated, by_hand


def _bedrock_events(calls: int) -> Iterator[dict[str, Any]]:
    yield {"messageStart": {"role": "assistant"}}
    if not calls:
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": WORDS}}}
        yield {"contentBlockStop": {}}
    for n in range(calls):
        use = {"toolUseId": f"call_{n}", "name": "find_order"}
        yield {"contentBlockStart": {"start": {"toolUse": use}}}
        yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps({"number": n})}}}}
        yield {"contentBlockStop": {}}
    yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}


def google_adk(calls: int) -> tuple[Run, Run]:
    """Return the runs of google-adk."""
    from google.adk.agents import LlmAgent
    from google.adk.apps.app import App
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.runners import InMemoryRunner
    from google.genai.types import Content, FunctionCall, Part

    from eventstore.integrations.google_adk import Ledger

    class Memory(BaseLlm):
        model: str = "memory"
        hand: Any = None

        async def generate_content_async(
            self, llm_request: Any, stream: bool = False
        ) -> AsyncIterator[LlmResponse]:
            asked = any(content.role == "model" for content in llm_request.contents)
            if self.hand is not None:
                await self.hand.said(0 if asked else calls)
            made = [
                FunctionCall(name="find_order", args={"number": n}, id=f"call_{n}")
                for n in range(calls)
            ]
            parts = [Part(text=WORDS)] if asked else [Part(function_call=call) for call in made]
            yield LlmResponse(content=Content(role="model", parts=parts))

    async def run(model: Memory, tool: Any, plugins: list[Any]) -> None:
        agent = LlmAgent(name="support", model=model, tools=[tool])
        runner = InMemoryRunner(app=App(name="shop", root_agent=agent, plugins=plugins))
        await runner.session_service.create_session(app_name="shop", **IDS)
        message = Content(role="user", parts=[Part(text=PROMPT)])
        async for _ in runner.run_async(new_message=message, **IDS):
            pass

    async def integrated(chat: AsyncConversation) -> None:
        await run(Memory(), find_order, [Ledger(chat)])

    async def by_hand(chat: AsyncConversation) -> None:
        hand = ByHand(chat)
        await hand.began()
        await run(Memory(hand=hand), hand.find_order, [])

    return integrated, by_hand


def mcp(calls: int) -> tuple[Run, Run]:
    """Return the runs of an MCP server's tools, without a model."""
    from mcp import Client
    from mcp.server.mcpserver import MCPServer

    from eventstore.integrations.mcp import tools_of

    server = MCPServer("orders")
    server.add_tool(find_order)

    async def requested(chat: AsyncConversation) -> list[Any]:
        made = [FunctionCall.of("find_order", {"number": n}, f"call_{n}") for n in range(calls)]
        return await chat.turn("", made)

    async def integrated(chat: AsyncConversation) -> None:
        async with Client(server) as session:
            dispatcher = AsyncDispatcher(chat, await tools_of(session))
            await dispatcher.dispatch(await requested(chat))

    async def by_hand(chat: AsyncConversation) -> None:
        async with Client(server) as session:
            await session.list_tools()
            for tool in await requested(chat):
                async with chat.running(tool.id) as attempt:
                    result = await session.call_tool(tool.call.name, attempt.arguments)
                    await attempt.complete(result.content[0].text)

    return integrated, by_hand


FRAMEWORKS: dict[str, Callable[[int], tuple[Run, Run]]] = {
    "pydantic-ai": pydantic_ai,
    "openai-agents": openai_agents,
    "langchain": langchain,
    "langgraph": langgraph,
    "strands": strands,
    "google-adk": google_adk,
    "mcp": mcp,
}
