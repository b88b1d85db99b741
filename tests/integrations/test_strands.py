"""strands plays the scenes, and what it has of its own is kept."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from integrations.scenes import DONE, Play, Said, ScenesWithDecisions, url_in, with_ledger
from support.frameworks import required

required("strands")

from integrations.play_strands import ScriptedModel
from mcp import StdioServerParameters, stdio_client
from strands import Agent, ToolContext, tool
from strands.hooks import AfterToolCallEvent, BeforeToolCallEvent
from strands.tools.mcp import MCPClient

from eventstore import Completed, Failed, Rejected
from eventstore.integrations.strands import Ledger


class TestStrands(ScenesWithDecisions):
    """The scenes with a `Ledger` as the agent's plugin."""

    framework = "strands"
    attempts_of_bad_arguments = 1
    calls_that_were_cut_off = 0


def scripted(calls: tuple[tuple[str, str, str], ...]) -> ScriptedModel:
    """Return a model that makes these calls first, and then says that it is done."""
    return ScriptedModel(Play(url="", script=(Said("", calls), Said(DONE), Said("Again."))))


CALL = (("lost", '{"number": 7}', "call_a"),)


played = partial(with_ledger, Ledger)


def test_a_retry_by_a_hook_is_another_attempt(tmp_path: Path) -> None:
    """The first attempt has the tool's exception, the second its result."""
    runs: list[int] = []

    @tool
    def lost(number: int) -> str:
        """Find an order."""
        runs.append(number)
        if len(runs) == 1:
            raise ConnectionRefusedError("carrier down")
        return f"order {number} is lost"

    def retry(event: AfterToolCallEvent) -> None:
        event.retry = event.exception is not None

    async def scene(ledger: Ledger) -> None:
        agent = Agent(scripted(CALL), tools=[lost], plugins=[ledger], callback_handler=None)
        agent.add_hook(retry, AfterToolCallEvent)
        await agent.invoke_async("Order 7?")
        call = (await ledger.chat.tools())["call_a"]
        assert (call.attempts, type(call.status)) == (2, Completed)
        tags = [recorded.event.tag async for recorded in ledger.chat.events()]
        assert tags.count("running") == 2
        assert "failed" in tags

    played(url_in(tmp_path), scene)
    assert runs == [7, 7]


def test_a_call_that_a_hook_cancels_is_rejected(tmp_path: Path) -> None:
    """The hook's words are the reason, and no attempt began."""

    @tool
    def lost(number: int) -> str:
        """Find an order."""
        raise AssertionError(number)

    def cancel(event: BeforeToolCallEvent) -> None:
        event.cancel_tool = "not today"

    async def scene(ledger: Ledger) -> None:
        agent = Agent(scripted(CALL), tools=[lost], plugins=[ledger], callback_handler=None)
        agent.add_hook(cancel, BeforeToolCallEvent)
        await agent.invoke_async("Order 7?")
        call = (await ledger.chat.tools())["call_a"]
        assert isinstance(call.status, Rejected)
        assert (call.attempts, call.status.reason) == (0, "not today")

    played(url_in(tmp_path), scene)


def test_a_tool_that_interrupts_runs_again_with_the_answer_alone(tmp_path: Path) -> None:
    """The host's answer to this agent lets it go on; an agent of a restart asks for a decision."""
    answers: list[Any] = []

    @tool(context=True)
    def lost(number: int, tool_context: ToolContext) -> str:
        """Find an order."""
        answers.append(tool_context.interrupt("which-shop", reason=str(number)))
        return f"order {number} is lost in {answers[-1]}"

    def agent_of(ledger: Ledger) -> Agent:
        return Agent(scripted(CALL), tools=[lost], plugins=[ledger], callback_handler=None)

    async def interrupted(ledger: Ledger) -> None:
        result = await agent_of(ledger).invoke_async("Order 7?")
        assert [each.name for each in result.interrupts] == ["which-shop"]
        assert (await ledger.chat.tools())["call_a"].is_paused

    async def answered(ledger: Ledger) -> None:
        agent = agent_of(ledger)
        (asked,) = (await agent.invoke_async("Order 7?")).interrupts
        reply = {"interruptResponse": {"interruptId": asked.id, "response": "Lyon"}}
        await agent.invoke_async([reply])
        call: Any = (await ledger.chat.tools())["call_a"]
        assert call.response.result == "order 7 is lost in Lyon"

    async def restarted(ledger: Ledger) -> None:
        result = await ledger.resume(agent_of(ledger))
        (asked,) = result.interrupts
        assert asked.name.startswith("toolledger-approval 1.1.")
        assert (await ledger.chat.tools())["call_a"].is_paused

    played(url_in(tmp_path), interrupted)
    played(url_in(tmp_path), restarted)
    assert answers == []
    (tmp_path / "other").mkdir()
    played(url_in(tmp_path / "other"), answered)
    assert answers == ["Lyon"]


@pytest.mark.parametrize("reason", ["content_filtered", "guardrail_intervened", "cancelled"])
def test_a_call_of_a_response_that_is_not_whole_never_runs(tmp_path: Path, reason: str) -> None:
    """Neither in the run, which strands ends, nor when it is resumed."""

    @tool
    def lost(number: int) -> str:
        """Find an order."""
        raise AssertionError(number)

    async def scene(ledger: Ledger) -> None:
        model = scripted(CALL)
        model.stop_reason = reason
        agent = Agent(model, tools=[lost], plugins=[ledger], callback_handler=None)
        await agent.invoke_async("Order 7?")
        again = Agent(model, tools=[lost], plugins=[ledger], callback_handler=None)
        await ledger.resume(again)
        call: Any = (await ledger.chat.tools())["call_a"]
        assert (call.attempts, call.status.failure.code) == (0, "broken_off")
        assert reason in model.asked  # the model is told

    played(url_in(tmp_path), scene)


def test_an_unknown_tool_is_a_failure(tmp_path: Path) -> None:
    """The call that strands refuses by itself has failed with kind validation."""

    async def scene(ledger: Ledger) -> None:
        agent = Agent(scripted(CALL), plugins=[ledger], callback_handler=None)
        await agent.invoke_async("Order 7?")
        status: Any = (await ledger.chat.tools())["call_a"].status
        assert status.failure.kind == "validation"

    played(url_in(tmp_path), scene)


def test_the_agent_is_called_without_asyncio(tmp_path: Path) -> None:
    """`agent(...)` records as `invoke_async` does, and the next run has the history."""

    @tool
    def lost(number: int) -> dict[str, Any]:
        """Find an order."""
        return {"status": "success", "content": [{"json": {"order": number}}]}

    async def scene(ledger: Ledger) -> None:
        model = scripted(CALL)
        agent = Agent(model, tools=[lost], plugins=[ledger], callback_handler=None)
        await asyncio.to_thread(agent, "Order 7?")
        call: Any = (await ledger.chat.tools())["call_a"]
        assert call.response.result == {"order": 7}
        history = await ledger.history()
        again = Agent(model, messages=history, plugins=[ledger], callback_handler=None)
        assert "Again." in str(await again.invoke_async("And order 8?"))

    played(url_in(tmp_path), scene)


@pytest.mark.parametrize("decided", [None, "by the agent's host", "in the log"])
def test_arguments_that_a_hook_has_changed(tmp_path: Path, decided: str | None) -> None:
    """The change is an edit in the log, and decided on; a decision in the log is for its own."""
    runs: list[int] = []

    @tool
    def lost(number: int) -> str:
        """Find an order."""
        runs.append(number)
        return f"order {number} is lost"

    def change(event: BeforeToolCallEvent) -> None:
        event.tool_use["input"] = {"number": 70}

    async def scene(ledger: Ledger) -> None:
        agent = Agent(scripted(CALL), tools=[lost], plugins=[ledger], callback_handler=None)
        if decided != "in the log":
            agent.add_hook(change, BeforeToolCallEvent)
        result = await agent.invoke_async("Order 7?")
        if decided == "in the log":
            await ledger.chat.approve("call_a", by="ann")
            agent.add_hook(change, BeforeToolCallEvent)
            assert DONE in str(await ledger.resume(agent))
        elif decided is not None:
            (asked,) = result.interrupts or ()
            assert (asked.reason["arguments"], runs) == ({"number": 70}, [])
            answer = {"interruptId": asked.id, "response": True}
            await agent.invoke_async([{"interruptResponse": answer}])
        number = 7 if decided == "in the log" else 70
        call = await ledger.chat.tool("call_a")
        assert (runs, call.effective_call.arguments) == ([number], {"number": number})

    played(url_in(tmp_path), scene, needs_approval=["lost"] if decided else [])


@pytest.mark.parametrize(("order", "said"), [(1, "Connection closed"), (2, "timed out")])
def test_a_call_to_a_server_that_does_not_answer_is_in_doubt(
    order: int, said: str, tmp_path: Path
) -> None:
    """The text that strands has in the place of an exception is no answer of the server."""
    script = str(Path(__file__).with_name("bank_server.py"))
    params = StdioServerParameters(command=sys.executable, args=[script, str(tmp_path / "effects")])

    async def scene(ledger: Ledger) -> None:
        with MCPClient(lambda: stdio_client(params), startup_timeout=120) as client:
            tools = client.list_tools_sync()
            tools[0].timeout = timedelta(seconds=0.05) if order == 2 else None
            model = scripted((("refund", f'{{"number": {order}}}', "call_a"),))
            agent = Agent(model, tools=[*tools], plugins=[ledger], callback_handler=None)
            await agent.invoke_async("Refund it.")
        call = (await ledger.chat.tools())["call_a"]
        assert isinstance(call.status, Failed)
        assert (call.in_doubt, said in call.status.failure.message) == (True, True)
        assert "This call may have taken effect" in model.asked

    played("sqlite://", scene)
