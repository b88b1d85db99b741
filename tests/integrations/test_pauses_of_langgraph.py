"""LangGraph's own interrupts, in real graphs with a checkpointer: the calls wait in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest
from support.frameworks import required

from eventstore import (
    AsyncConversation,
    AsyncDispatcher,
    AsyncEventStore,
    Conversation,
    Dispatcher,
    EventStore,
    FunctionTool,
    Pending,
    Tool,
    validate,
)
from projections import model_history, pending_approvals, resume_plan

required("langgraph")

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, convert_to_openai_messages
from langchain_core.tools import tool as langchain_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

pytestmark = pytest.mark.slow

CONFIG: Any = {"configurable": {"thread_id": "1"}}
START_STATE: Any = {"messages": [HumanMessage("refund order 7")]}


class State(TypedDict):
    """The state of the graphs."""

    messages: Annotated[list[Any], add_messages]


class Shop:
    """Tools, one of which interrupts the graph until somebody answers."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def find(self, order: int) -> str:
        """Find an order."""
        self.ran.append(f"find {order}")
        return f"order {order} is lost"

    def refund(self, order: int) -> str:
        """Refund an order, if somebody agrees."""
        answer = interrupt({"refund": order})
        self.ran.append(f"refund {order}: {answer}")
        return "refunded"

    async def refund_async(self, order: int) -> str:
        """Do the same in asyncio."""
        await asyncio.sleep(0)
        return self.refund(order)

    def transfer(self, order: int) -> str:
        """Ask two persons."""
        first, second = interrupt("first"), interrupt("second")
        self.ran.append(f"transfer {order}: {first}, {second}")
        return "transferred"


@pytest.fixture
def shop() -> Shop:
    """Return the tools."""
    return Shop()


@pytest.fixture
def chat(chat: Conversation) -> Iterator[Conversation]:
    """Return a conversation whose renderings are valid at the end."""
    chat.add_message("user", "refund order 7")
    yield chat
    for provider in ("openai", "anthropic"):
        assert validate(model_history(chat.events()).render(provider)["messages"], provider) == []


def model(*names: str) -> Callable[[State], dict[str, Any]]:
    """Return a model that calls the tools once, then says that it is done."""

    def reply(state: State) -> dict[str, Any]:
        if any(isinstance(message, AIMessage) for message in state["messages"]):
            return {"messages": [AIMessage("done")]}
        calls: list[Any] = [
            {"name": name, "args": {"order": 7}, "id": f"call_{name}", "type": "tool_call"}
            for name in names
        ]
        return {"messages": [AIMessage("", tool_calls=calls)]}

    return reply


def recorded(chat: Conversation, reply: Callable[[State], dict[str, Any]]) -> Any:
    """Return the node of a model whose messages are recorded."""

    def node(state: State) -> dict[str, Any]:
        replied = reply(state)
        chat.record(convert_to_openai_messages(replied["messages"][0]), provider="openai")
        return replied

    return node


def graph(model_node: Any, tools_node: Any) -> Any:
    """Return an agent as a graph: the model, the tools, the model again."""
    made = StateGraph(State)
    made.add_node("model", model_node)
    made.add_node("tools", tools_node)
    made.add_edge(START, "model")
    made.add_conditional_edges(
        "model", lambda state: "tools" if state["messages"][-1].tool_calls else END
    )
    made.add_edge("tools", "model")
    return made.compile(checkpointer=InMemorySaver())


def answer(chat: Conversation, call_id: str) -> ToolMessage:
    """Return the answer to a call, as the log has it."""
    turns = model_history(chat.events()).turns
    (call,) = (call for turn in turns for call in turn.calls if call.id == call_id)
    return ToolMessage(call.answer.text, tool_call_id=call.id, name=call.name)


def tool_node(chat: Conversation, functions: list[Callable[..., str]]) -> ToolNode:
    """Return LangGraph's node of tools; each tool runs in an attempt that an interrupt pauses."""

    def wrap(request: Any, handler: Callable[[Any], Any]) -> Any:
        call_id = request.tool_call["id"]
        if chat.tools[call_id].is_resolved or chat.tools[call_id].is_paused:
            return answer(chat, call_id)
        with chat.running(call_id, pauses=GraphBubbleUp) as attempt:
            result = handler(request)
            attempt.complete(result.content)
        return result

    return ToolNode([langchain_tool(function) for function in functions], wrap_tool_call=wrap)


def dispatching_node(
    chat: Conversation, functions: list[Callable[..., Any]], **options: Any
) -> Callable[[State], dict[str, Any]]:
    """Return a node whose tools a `Dispatcher` runs."""
    dispatcher = Dispatcher(chat, functions, pauses=GraphBubbleUp, **options)

    def node(state: State) -> dict[str, Any]:
        ids = [call["id"] for call in state["messages"][-1].tool_calls]
        dispatcher.dispatch(ids)
        return {"messages": [answer(chat, call_id) for call_id in ids]}

    return node


NODES: Any = pytest.mark.parametrize("make_node", [tool_node, dispatching_node])


@NODES
def test_an_interrupt_pauses_the_call_and_the_graph(
    chat: Conversation, store: EventStore, shop: Shop, make_node: Any
) -> None:
    """The call is in the inbox, nothing claims that it ran, and the tool beside it has run."""
    app = graph(recorded(chat, model("find", "refund")), make_node(chat, [shop.find, shop.refund]))
    state = app.invoke(START_STATE, CONFIG)
    (asked,) = state["__interrupt__"]
    assert asked.value == {"refund": 7}
    assert shop.ran == ["find 7"]
    tools = chat.tools
    assert tools["call_find"].status.name == "Completed"
    waiting: Any = tools["call_refund"].status
    assert (type(waiting), waiting.needs_decision) == (Pending, True)
    assert "{'refund': 7}" in waiting.reason
    assert [approval.call_id for approval in pending_approvals(store)] == ["call_refund"]
    assert [step.id for step in resume_plan(chat.events()).waiting] == ["call_refund"]


@NODES
def test_an_approved_interrupt_goes_on_once(chat: Conversation, shop: Shop, make_node: Any) -> None:
    """LangGraph runs its node again from the start; the log keeps the other tool from it."""
    app = graph(recorded(chat, model("find", "refund")), make_node(chat, [shop.find, shop.refund]))
    app.invoke(START_STATE, CONFIG)
    chat.approve("call_refund", by="grace")
    state = app.invoke(Command(resume="yes"), CONFIG)
    assert shop.ran == ["find 7", "refund 7: yes"]
    assert [message.content for message in state["messages"]][2:] == [
        "order 7 is lost",
        "refunded",
        "done",
    ]
    refund = chat.tools["call_refund"]
    assert (refund.status.name, refund.attempts) == ("Completed", 2)


@NODES
def test_a_rejected_interrupt_runs_nothing(chat: Conversation, shop: Shop, make_node: Any) -> None:
    """The graph goes on with the answer of the log, and the model is told who refused."""
    app = graph(recorded(chat, model("refund")), make_node(chat, [shop.refund]))
    app.invoke(START_STATE, CONFIG)
    chat.reject("call_refund", "too much", by="grace")
    state = app.invoke(Command(resume="yes"), CONFIG)
    assert shop.ran == []
    assert "too much" in state["messages"][2].content
    assert state["messages"][-1].content == "done"


@NODES
def test_a_graph_that_goes_on_without_a_decision_runs_nothing(
    chat: Conversation, shop: Shop, make_node: Any
) -> None:
    """An answer that was given to LangGraph alone decides nothing."""
    app = graph(recorded(chat, model("refund")), make_node(chat, [shop.refund]))
    app.invoke(START_STATE, CONFIG)
    app.invoke(Command(resume="yes"), CONFIG)
    assert shop.ran == []
    assert (chat.tools["call_refund"].is_paused, chat.tools["call_refund"].attempts) == (True, 1)


@NODES
def test_a_tool_interrupts_as_often_as_it_asks(
    chat: Conversation, shop: Shop, make_node: Any
) -> None:
    """Each interrupt needs its own decision."""
    app = graph(recorded(chat, model("transfer")), make_node(chat, [shop.transfer]))
    app.invoke(START_STATE, CONFIG)
    for person in ("ada", "grace"):
        assert (chat.tools["call_transfer"].is_paused, shop.ran) == (True, [])
        chat.approve("call_transfer", by=person)
        app.invoke(Command(resume=person), CONFIG)
    assert shop.ran == ["transfer 7: ada, grace"]
    assert chat.tools["call_transfer"].attempts == 3


def test_the_answer_of_the_graph_may_be_the_decision(chat: Conversation, shop: Shop) -> None:
    """An approver that asks LangGraph: the interrupt is then raised by no tool, and pauses none."""

    def approver(tool: Tool) -> bool:
        return bool(interrupt({"approve": tool.call.name}) == "yes")

    tools = [FunctionTool(shop.find, needs_approval=True)]
    node = dispatching_node(chat, tools, approver=approver)
    app = graph(recorded(chat, model("find")), node)
    (asked,) = app.invoke(START_STATE, CONFIG)["__interrupt__"]
    assert (asked.value, shop.ran) == ({"approve": "find"}, [])
    assert (chat.tools["call_find"].attempts, chat.tools["call_find"].is_pending) == (0, True)
    app.invoke(Command(resume="yes"), CONFIG)
    assert shop.ran == ["find 7"]
    assert chat.tools["call_find"].status.name == "Completed"


def test_an_async_graph_is_interrupted_as_well(shop: Shop) -> None:
    """A tool of an `AsyncDispatcher` interrupts `ainvoke`."""

    async def node(chat: AsyncConversation, state: State) -> dict[str, Any]:
        dispatcher = AsyncDispatcher(chat, [shop.refund_async, shop.find], pauses=GraphInterrupt)
        done = await dispatcher.dispatch([call["id"] for call in state["messages"][-1].tool_calls])
        return {
            "messages": [ToolMessage(tool.response.result, tool_call_id=tool.id) for tool in done]
        }

    async def main() -> None:
        async with AsyncEventStore.open("sqlite://") as store:
            chat = store.conversation("c")

            async def recorded_model(state: State) -> dict[str, Any]:
                reply = model("refund_async", "find")(state)
                message = convert_to_openai_messages(reply["messages"][0])
                await chat.record(message, provider="openai")
                return reply

            async def tools_node(state: State) -> dict[str, Any]:
                return await node(chat, state)

            app = graph(recorded_model, tools_node)
            (asked,) = (await app.ainvoke(START_STATE, CONFIG))["__interrupt__"]
            assert asked.value == {"refund": 7}
            assert (await chat.tools())["call_refund_async"].is_paused
            await chat.approve("call_refund_async", by="grace")
            await app.ainvoke(Command(resume="yes"), CONFIG)
            assert shop.ran == ["find 7", "refund 7: yes"]
            assert (await chat.tools())["call_refund_async"].attempts == 2

    asyncio.run(main())
