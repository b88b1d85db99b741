"""pydantic-ai plays the scenes, and what it has of its own is kept."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import pytest
from integrations.scenes import ScenesWithoutReads, url_in, with_ledger
from support.frameworks import required

required("pydantic_ai")

from pydantic import BaseModel, Field
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    BinaryContent,
    DeferredToolRequests,
    DeferredToolResults,
    RunContext,
    Tool,
    ToolDenied,
    UserError,
)
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from eventstore import Approved, Completed, EventStore, Image, Pending, Rejected
from eventstore.integrations.pydantic_ai import Ledger
from eventstore.integrations.recorded_calls import RecordedCalls
from projections import current_tools


class TestPydanticAI(ScenesWithoutReads):
    """The scenes with a `Ledger` as the agent's capability."""

    framework = "pydantic_ai"


played = partial(with_ledger, Ledger)


def says(*parts: Any) -> FunctionModel:
    """Return a model that says these parts first, and then that it is done."""

    def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        asked = any(isinstance(message, ModelResponse) for message in messages)
        return ModelResponse([TextPart("Done.")] if asked else [*parts])

    return FunctionModel(answer)


def test_a_reason_that_pydantic_ai_has_no_name_for_counts(tmp_path: Path) -> None:
    """The details alone have it then, as the provider gave it."""

    def answer(given: list[Any], _: AgentInfo) -> ModelResponse:
        if len(given) > 1:
            return ModelResponse([TextPart("Later.")])
        call = ToolCallPart("lost", {"number": 7}, "call_a")
        return ModelResponse([call], provider_details={"finish_reason": "ERROR_TOXIC"})

    def lost(number: int) -> str:
        raise AssertionError(number)

    async def scene(ledger: Ledger) -> None:
        agent = Agent(FunctionModel(answer), tools=[lost])
        await agent.run("Order 7?", capabilities=[ledger])
        call: Any = (await ledger.chat.tools())["call_a"]
        assert (call.attempts, call.status.failure.code) == (0, "broken_off")

    played(url_in(tmp_path), scene)


def test_the_next_run_gets_thinking_and_usage_back(tmp_path: Path) -> None:
    """The history is what pydantic-ai had: thinking with its signature, usage, model."""
    parts = (ThinkingPart("An order.", signature="c2ln"), TextPart("Lost."))

    async def scene(ledger: Ledger) -> None:
        agent = Agent(says(*parts), system_prompt="Be short.")
        first = await agent.run("Order 7?", capabilities=[ledger])
        history = await ledger.history()
        (response,) = (m for m in history if isinstance(m, ModelResponse))
        given = first.all_messages()[-1]
        assert (response.parts, response.usage) == (given.parts, given.usage)
        assert response.model_name == given.model_name
        assert [type(part).__name__ for m in history[:-1] for part in m.parts] == [
            "SystemPromptPart",
            "UserPromptPart",
        ]
        await agent.run("And order 8?", message_history=history, capabilities=[ledger])
        said = [p.content for m in await ledger.history() for p in m.parts if hasattr(p, "content")]
        assert said == ["Be short.", "Order 7?", "An order.", "Lost.", "And order 8?", "Done."]

    played(url_in(tmp_path), scene)


def test_a_call_to_an_output_tool_does_not_stay_open(tmp_path: Path) -> None:
    """Structured output is a call that no tool runs: it is completed with pydantic-ai's answer."""

    class Order(BaseModel):
        number: int

    async def scene(ledger: Ledger) -> None:
        agent = Agent(TestModel(), output_type=Order)
        await agent.run("Order 7?", capabilities=[ledger])
        (call,) = (await ledger.chat.tools()).values()
        assert isinstance(call.status, Completed)

    played(url_in(tmp_path), scene)


def test_an_unknown_tool_is_a_failure(tmp_path: Path) -> None:
    """The call that pydantic-ai refuses by itself has failed with kind validation."""

    async def scene(ledger: Ledger) -> None:
        agent = Agent(says(ToolCallPart("nope", "{}", "call_a")), tools=[lost])
        await agent.run("Order 7?", capabilities=[ledger])
        status: Any = (await ledger.chat.tools())["call_a"].status
        assert status.failure.kind == "validation"

    played(url_in(tmp_path), scene)


def lost(number: int) -> str:
    """Find an order that was lost."""
    return f"order {number} is lost"


def test_ids_that_a_model_repeats_are_distinguished(tmp_path: Path) -> None:
    """Each run's call has its own result, although the ids are equal."""

    async def scene(ledger: Ledger) -> None:
        for number in (7, 8):
            agent = Agent(says(ToolCallPart("lost", {"number": number}, "call_a")), tools=[lost])
            await agent.run("Order?", capabilities=[ledger])
        results = [tool.response.result for tool in (await ledger.chat.tools()).values()]
        assert results == ["order 7 is lost", "order 8 is lost"]

    played(url_in(tmp_path), scene)


def test_a_tool_that_asks_for_approval_pauses(tmp_path: Path) -> None:
    """The call waits without having failed, and runs with the edit that a person approved."""
    limits: list[float] = []

    def refund(ctx: RunContext[None], amount: float) -> str:
        """Refund an amount; above 500 a person has to approve it."""
        if amount > 500 and not ctx.tool_call_approved:
            raise ApprovalRequired
        limits.append(amount)
        return f"refunded {amount}"

    model = says(ToolCallPart("refund", {"amount": 900.0}, "call_a"))
    agent = Agent(model, tools=[refund], output_type=[str, DeferredToolRequests])

    async def ask(ledger: Ledger) -> None:
        result = await agent.run("Refund it.", capabilities=[ledger])
        assert isinstance(result.output, DeferredToolRequests)
        assert (await ledger.chat.tools())["call_a"].is_paused
        again = await ledger.resume(agent)  # no person has decided
        assert isinstance(again.output, DeferredToolRequests)

    async def resume(ledger: Ledger) -> None:
        assert (await ledger.resume(agent)).output == "Done."

    played(url_in(tmp_path), ask)
    with EventStore.open(url_in(tmp_path)) as store:
        store.conversation("c").approve("call_a", {"amount": 800.0}, by="grace")
    played(url_in(tmp_path), resume)
    assert limits == [800.0]
    with EventStore.open(url_in(tmp_path)) as store:
        (tool,) = current_tools(store.read()).values()
        assert (tool.attempts, type(tool.status)) == (2, Completed)


def test_a_host_that_denies_a_paused_call_rejects_it(tmp_path: Path) -> None:
    """The log says what the person said, and the inbox asks no more."""

    def refund(ctx: RunContext[None], amount: float) -> str:
        """Ask a person."""
        raise ApprovalRequired

    model = says(ToolCallPart("refund", {"amount": 900.0}, "call_a"))
    agent = Agent(model, tools=[refund], output_type=[str, DeferredToolRequests])

    async def scene(ledger: Ledger) -> None:
        first = await agent.run("Refund it.", capabilities=[ledger])
        answers = DeferredToolResults(approvals={"call_a": ToolDenied("too much")})
        result = await agent.run(
            message_history=first.all_messages(),
            deferred_tool_results=answers,
            capabilities=[ledger],
        )
        assert result.output == "Done."
        status = (await ledger.chat.tools())["call_a"].status
        assert isinstance(status, Rejected)
        assert status.reason == "too much"

    played(url_in(tmp_path), scene)


def test_images_of_a_user_are_recorded(tmp_path: Path) -> None:
    """The log has images, and the history the bytes again."""

    async def scene(ledger: Ledger) -> None:
        picture = BinaryContent(b"\x89PNG", media_type="image/png")
        await Agent(says(TextPart("A dot."))).run(["What?", picture], capabilities=[ledger])
        first = await anext(ledger.chat.events())
        assert isinstance(first.event.parts[1], Image)
        history = await ledger.history()
        assert history[0].parts[0].content[1].data == b"\x89PNG"

    played(url_in(tmp_path), scene)


@pytest.mark.parametrize("early", [True, False], ids=["words first", "call alone"])
def test_run_stream_records_the_response_before_its_tools(tmp_path: Path, early: bool) -> None:
    """`run_stream` calls the hook after the tools, where words came first: nothing is lost."""

    async def stream(messages: list[ModelMessage], _: AgentInfo) -> Any:
        if any(isinstance(message, ModelResponse) for message in messages):
            yield "Done."
            return
        if early:
            yield "Let me look."
        from pydantic_ai.models.function import DeltaToolCall

        yield {1: DeltaToolCall("lost", '{"number": 7}', tool_call_id="call_a")}

    async def scene(ledger: Ledger) -> None:
        agent = Agent(FunctionModel(stream_function=stream), tools=[lost])
        async with agent.run_stream("Order 7?", capabilities=[ledger]) as result:
            await result.get_output()
        tools = await ledger.chat.tools()
        assert list(tools) == ["call_a"]
        tags = [recorded.event.tag async for recorded in ledger.chat.events()]
        tags = [tag for tag in tags if tag != "model_responded"]
        assert tags[:5] == ["message", "message", "pending", "running", "completed"]
        assert "Let me look." in str(await ledger.history()) or not early

    played(url_in(tmp_path), scene)


def test_a_call_that_is_edited_before_it_starts_runs_as_it_was_approved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process approves it with other arguments when the integration has taken it up."""
    url, ran = url_in(tmp_path), list[int]()
    take_new = RecordedCalls.take_new

    def take_new_and_edit(calls: RecordedCalls, call_id: str) -> Any:
        tool = take_new(calls, call_id)
        if tool is not None:
            with EventStore.open(url) as store:
                store.conversation("c").approve(tool.id, {"number": 8}, by="grace")
        return tool

    monkeypatch.setattr(RecordedCalls, "take_new", take_new_and_edit)

    def find_order(number: int) -> str:
        ran.append(number)
        return "lost"

    async def scene(ledger: Ledger) -> None:
        agent = Agent(says(ToolCallPart("find_order", {"number": 7}, "call_a")), tools=[find_order])
        result = await agent.run("Order 7?", capabilities=[ledger])
        assert result.output == "Done."

    played(url, scene)
    assert ran == [8]
    with EventStore.open(url) as store:
        (tool,) = current_tools(store.read()).values()
    assert isinstance(tool.status, Completed)


class Changes(AbstractCapability[Any]):
    """A capability of the host that changes the arguments of a call, in one of its hooks."""

    def __init__(self, hook: str) -> None:
        async def change(*_: Any, args: dict[str, Any], handler: Any = None, **__: Any) -> Any:
            changed = {**args, "number": 900}
            return changed if handler is None else await handler(changed)

        setattr(self, hook, change)


@pytest.mark.parametrize(
    ("hook", "is_outer"),
    [
        ("before_tool_validate", False),
        ("after_tool_validate", False),
        ("before_tool_execute", False),
        ("before_tool_execute", True),
        ("wrap_tool_execute", True),
        ("wrap_tool_execute", False),
    ],
)
def test_arguments_that_another_capability_has_changed_are_an_edit(
    hook: str, is_outer: bool
) -> None:
    """The log has them before the tool runs, wherever the ledger stands in the list."""
    ran: list[int] = []

    def refund(
        number: int, key: Annotated[str, Field(default_factory=lambda: str(uuid4()))]
    ) -> str:
        """Refund an order; the key is made anew whenever the arguments are validated."""
        ran.append(number)
        return f"paid {number}, {len(key)}"

    async def scene(ledger: Ledger) -> None:
        call = ToolCallPart("refund", {"number": 7}, "call_a")
        both = [Changes(hook), ledger] if is_outer else [ledger, Changes(hook)]
        await Agent(says(call), tools=[refund]).run("Pay.", capabilities=both)
        tool = (await ledger.chat.tools())["call_a"]
        assert tool.effective_call.arguments["number"] == 900  # type: ignore[index, call-overload]
        assert isinstance(tool.status, Completed)
        call = ToolCallPart("refund", {"number": 8}, "call_b")
        await Agent(says(call), tools=[refund]).run("Pay.", capabilities=[ledger])
        assert (await ledger.chat.tools())["call_b"].edit is None
        assert ran == [900, 8]

    played("sqlite://", scene)


@pytest.mark.parametrize("decides", ["log", "host"])
def test_arguments_that_are_changed_after_an_approval_do_not_run(decides: str) -> None:
    """Nobody has approved them; the error says what to do, and the call stays as it is."""

    def refund(number: int) -> str:
        """Refund an order."""
        return f"paid {number}"

    async def scene(ledger: Ledger) -> None:
        agent = Agent(
            says(ToolCallPart("refund", {"number": 7}, "call_a")),
            tools=[Tool(refund, requires_approval=True)],
            output_type=[str, DeferredToolRequests],
        )
        both = [ledger, Changes("before_tool_execute")]
        asked = await agent.run("Pay.", capabilities=both)
        if decides == "log":
            await ledger.chat.approve("call_a", by="ann")
            goes_on = ledger.resume(agent, capabilities=both[1:])
        else:
            yes = DeferredToolResults(approvals={"call_a": True})
            said = asked.all_messages()
            goes_on = agent.run(message_history=said, deferred_tool_results=yes, capabilities=both)
        with pytest.raises(UserError, match="changed the arguments of call 'call_a'"):
            await goes_on
        tool = (await ledger.chat.tools())["call_a"]
        assert isinstance(tool.status, Approved if decides == "log" else Pending)

    played("sqlite://", scene)


def test_the_model_reads_that_a_call_that_timed_out_may_have_taken_effect() -> None:
    """The words of pydantic-ai, a retry prompt, would not say that."""

    async def refund(number: int) -> str:
        """Refund an order, and wait for ever for the answer."""
        await asyncio.Event().wait()
        return str(number)

    async def scene(ledger: Ledger) -> None:
        call = ToolCallPart("refund", {"number": 7}, "call_a")
        agent = Agent(says(call), tools=[Tool(refund, timeout=0.01)])
        result = await agent.run("Pay.", capabilities=[ledger])
        (answer,) = result.all_messages()[2].parts
        assert str(answer.content).startswith("Timed out after")  # type: ignore[union-attr]
        assert "may have taken effect" in str(answer)
        assert (await ledger.chat.tools())["call_a"].in_doubt

    played("sqlite://", scene)
