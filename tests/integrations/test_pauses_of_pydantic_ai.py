"""pydantic-ai's own deferrals, in real agents with its test models: the calls wait in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from support.frameworks import required

from eventstore import (
    AsyncConversation,
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

required("pydantic_ai")

from pydantic_ai import (
    Agent,
    ApprovalRequired,
    CallDeferred,
    DeferredToolRequests,
    DeferredToolResults,
    RunContext,
    ToolApproved,
    ToolDenied,
)
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

pytestmark = pytest.mark.slow

PAUSES = (ApprovalRequired, CallDeferred)


class Ledger(AbstractCapability[Any]):
    """Records the calls of an agent: requested before they run, then run as attempts."""

    def __init__(self, chat: AsyncConversation) -> None:
        self.chat = chat

    async def after_model_request(
        self, ctx: Any, *, request_context: Any, response: ModelResponse
    ) -> ModelResponse:
        """Record the calls of the model."""
        for call in response.tool_calls:
            await self.chat.request(call.tool_name, call.args_as_dict(), call_id=call.tool_call_id)
        return response

    async def wrap_tool_execute(
        self, ctx: Any, *, call: ToolCallPart, tool_def: Any, args: Any, handler: Any
    ) -> Any:
        """Run a tool in an attempt."""
        async with self.chat.running(call.tool_call_id, pauses=PAUSES) as attempt:
            result = await handler(args)
            await attempt.complete(result)
            return result


class Shop:
    """Tools of an agent."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def find(self, order: int) -> str:
        """Find an order."""
        self.ran.append("find")
        return f"order {order} is lost"

    def refund(self, ctx: RunContext[None], order: int) -> str:
        """Refund an order, if somebody approves it."""
        if not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"order": order})
        self.ran.append(f"refund {order}")
        return "refunded"

    def ship(self, order: int) -> str:
        """Let another system ship the order."""
        self.ran.append("ship asked")
        raise CallDeferred(metadata={"order": order})

    def agent(self, chat: AsyncConversation, model: Any) -> Agent[None, Any]:
        """Return an agent with these tools, whose calls are recorded."""
        return Agent(
            model,
            tools=[self.find, self.refund, self.ship],
            output_type=[str, DeferredToolRequests],
            capabilities=[Ledger(chat)],
        )


def calling(*names: str) -> FunctionModel:
    """Return a model that calls the tools for order 7, then says that it is done."""

    def reply(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        if any(isinstance(message, ModelResponse) for message in messages):
            return ModelResponse(parts=[TextPart("done")])
        calls = [ToolCallPart(name, {"order": 7}, f"call_{name}") for name in names]
        return ModelResponse(parts=calls)

    return FunctionModel(reply)


@pytest.fixture
def shop() -> Shop:
    """Return the tools."""
    return Shop()


def in_conversation(
    store: EventStore, act: Callable[[AsyncConversation], Coroutine[Any, Any, None]]
) -> None:
    """Run a coroutine with the conversation "c", whose renderings are valid at the end."""

    async def main() -> None:
        chat = AsyncEventStore(store).conversation("c")
        await chat.add_message("user", "refund order 7")
        await act(chat)

    asyncio.run(main())
    messages = model_history(store.conversation("c").events()).render("openai")["messages"]
    assert validate(messages, "openai") == []


def test_a_tool_that_needs_an_approval_waits_in_the_inbox(store: EventStore, shop: Shop) -> None:
    """The agent ends its run with the call; the log says that nothing ran to its end."""

    async def act(chat: AsyncConversation) -> None:
        result = await shop.agent(chat, calling("find", "refund")).run("refund order 7")
        (asked,) = result.output.approvals
        assert (asked.tool_call_id, shop.ran) == ("call_refund", ["find"])
        tools = await chat.tools()
        assert tools["call_find"].status.name == "Completed"
        assert tools["call_refund"].status == Pending(
            None, needs_decision=True, reason="ApprovalRequired"
        )

    in_conversation(store, act)
    assert [approval.call_id for approval in pending_approvals(store)] == ["call_refund"]
    plan = resume_plan(store.conversation("c").events())
    assert ([step.id for step in plan.waiting], plan.unknown) == (["call_refund"], [])


def test_an_approval_in_the_log_lets_the_agent_go_on(store: EventStore, shop: Shop) -> None:
    """The decision of the log, with its edit, is what pydantic-ai is given."""

    async def act(chat: AsyncConversation) -> None:
        agent = shop.agent(chat, calling("find", "refund"))
        first = await agent.run("refund order 7")
        await chat.approve("call_refund", {"order": 8}, by="grace")
        decided = await chat.decision("call_refund")
        approved = ToolApproved(override_args=dict(decided.effective_call.arguments))
        results = DeferredToolResults(approvals={"call_refund": approved})
        second = await agent.run(
            message_history=first.all_messages(), deferred_tool_results=results
        )
        assert second.output == "done"
        assert shop.ran == ["find", "refund 8"]
        refund = (await chat.tools())["call_refund"]
        assert (refund.status.name, refund.attempts) == ("Completed", 2)

    in_conversation(store, act)


def test_an_agent_that_goes_on_without_a_decision_runs_nothing(
    store: EventStore, shop: Shop
) -> None:
    """An approval that was given to pydantic-ai alone is not in the log: the start is refused."""

    async def act(chat: AsyncConversation) -> None:
        agent = shop.agent(chat, calling("refund"))
        first = await agent.run("refund order 7")
        results = DeferredToolResults(approvals={"call_refund": True})
        with pytest.raises(Exception, match="paused until a person decides"):
            await agent.run(message_history=first.all_messages(), deferred_tool_results=results)
        assert shop.ran == []
        assert (await chat.tools())["call_refund"].is_paused

    in_conversation(store, act)


def test_a_rejection_in_the_log_reaches_the_agent(store: EventStore, shop: Shop) -> None:
    """The tool does not run, in the log as in the run."""

    async def act(chat: AsyncConversation) -> None:
        agent = shop.agent(chat, calling("refund"))
        first = await agent.run("refund order 7")
        rejected = await chat.reject("call_refund", "too much", by="grace")
        status: Any = rejected.status
        denied = ToolDenied(status.reason)
        results = DeferredToolResults(approvals={"call_refund": denied})
        await agent.run(message_history=first.all_messages(), deferred_tool_results=results)
        assert shop.ran == []
        assert (await chat.tools())["call_refund"].status.name == "Rejected"

    in_conversation(store, act)


def test_a_call_for_another_system_waits_for_its_result(store: EventStore, shop: Shop) -> None:
    """The result that comes from outside completes the call that waits."""

    async def act(chat: AsyncConversation) -> None:
        agent = shop.agent(chat, calling("ship"))
        first = await agent.run("ship order 7")
        assert [call.tool_call_id for call in first.output.calls] == ["call_ship"]
        assert (await chat.tools())["call_ship"].is_paused
        await chat.complete("call_ship", "shipped")
        results = DeferredToolResults(calls={"call_ship": "shipped"})
        second = await agent.run(
            message_history=first.all_messages(), deferred_tool_results=results
        )
        assert (second.output, shop.ran) == ("done", ["ship asked"])
        assert (await chat.tools())["call_ship"].attempts == 1

    in_conversation(store, act)


def test_all_tools_of_the_test_model_end_as_they_should(store: EventStore, shop: Shop) -> None:
    """The `TestModel` of pydantic-ai calls each tool, with arguments of its own."""

    async def act(chat: AsyncConversation) -> None:
        result = await shop.agent(chat, TestModel()).run("go")
        assert isinstance(result.output, DeferredToolRequests)
        statuses = {tool.call.name: tool.status for tool in (await chat.tools()).values()}
        assert {name: status.name for name, status in statuses.items()} == {
            "find": "Completed",
            "refund": "Pending",
            "ship": "Pending",
        }

    in_conversation(store, act)
    assert len(pending_approvals(store)) == 2


@pytest.mark.parametrize("error", [ApprovalRequired(), CallDeferred()])
def test_a_tool_of_a_dispatcher_raises_them_too(chat: Conversation, error: Exception) -> None:
    """A tool that was written for pydantic-ai may run in a `Dispatcher`."""

    def pay(tool: Tool) -> str:
        if tool.decided_at is None:
            raise error
        return "paid"

    call = chat.request("pay")
    dispatcher = Dispatcher(chat, [FunctionTool(pay, takes_tool=True)], pauses=PAUSES)
    with pytest.raises(type(error)):
        dispatcher.dispatch([call])
    assert chat.tools[call.id].status == Pending(
        None, needs_decision=True, reason=type(error).__name__
    )
    assert dispatcher.resume()[0].is_paused
    chat.approve(call.id)
    assert dispatcher.resume()[0].status.name == "Completed"
