"""openai-agents plays the scenes, and what it has of its own is kept."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from integrations.scenes import ScenesWithoutReads, url_in, with_ledger
from support.frameworks import required

required("agents")

from agents import (
    Agent,
    Handoff,
    ModelBehaviorError,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailTripwireTriggered,
    UserError,
    function_tool,
    handoff,
    set_tracing_disabled,
    tool_input_guardrail,
)
from agents.mcp import MCPServerStdio
from agents.testing import ScriptedModel, assistant_message, function_call
from mcp import MCPError
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from eventstore import AsyncEventStore, Completed, EventStore, Failed, Pending, Rejected
from eventstore.integrations.openai_agents import Ledger
from projections import resume_plan


class TestOpenAIAgents(ScenesWithoutReads):
    """The scenes with a `Ledger` as the session."""

    framework = "openai_agents"
    attempts_of_bad_arguments = 1

    def test_a_call_of_a_response_that_was_cut_off_does_not_run(self, tmp_path: Path) -> None:
        """The models of openai-agents do not tell how a response ended."""
        pytest.skip("no member of its responses says so")


set_tracing_disabled(disabled=True)
played = partial(with_ledger, Ledger)


@function_tool
def lost(number: int) -> str:
    """Find an order that was lost."""
    return f"order {number} is lost"


def test_the_next_run_gets_the_history(tmp_path: Path) -> None:
    """The words, the call and its result are in the input of the next run, each once."""

    async def scene(ledger: Ledger) -> None:
        first = ScriptedModel(
            [[function_call("lost", '{"number": 7}', call_id="a")], [assistant_message("Lost.")]]
        )
        await ledger.run(Agent("support", model=first, tools=[lost]), "Order 7?")
        second = ScriptedModel([[assistant_message("You are welcome.")]])
        await ledger.run(Agent("support", model=second, tools=[lost]), "Thanks.")
        assert second.last_call is not None
        shown = [
            item.get("content") or item.get("output") or item.get("name")
            for item in second.last_call.input
            if isinstance(item, dict)
        ]
        assert [str(text) for text in shown][:3] == ["Order 7?", "lost", "order 7 is lost"]
        assert "Lost." in str(shown[3])
        assert shown[4:] == ["Thanks."]
        said = [r.event.role async for r in ledger.chat.events() if r.event.tag == "message"]
        assert (said.count("user"), len((await ledger.chat.tools()).values())) == (2, 1)

    played(url_in(tmp_path), scene)


def test_a_handoff_does_not_stay_open(tmp_path: Path) -> None:
    """A handoff is a call that no tool runs: it is completed with the SDK's output."""

    async def scene(ledger: Ledger) -> None:
        other = Agent("billing", model=ScriptedModel([[assistant_message("Refunded.")]]))
        name = handoff(other).tool_name
        model = ScriptedModel([[function_call(name, "{}", call_id="h")]])
        result = await ledger.run(Agent("support", model=model, handoffs=[other]), "Refund it.")
        assert result.final_output == "Refunded."
        assert isinstance((await ledger.chat.tools())["h"].status, Completed)

    played(url_in(tmp_path), scene)


@pytest.mark.parametrize("by", ["agent", "handoff", "agent of the moment", "circle", "last agent"])
def test_every_agent_of_a_run_is_recorded(by: str) -> None:
    """A call of an agent that another hands over to is in the log, and runs once."""
    asks = [function_call("lost", '{"number": 7}', call_id="a")]
    clerk = Agent(
        "clerk", model=ScriptedModel([asks, [assistant_message("Lost.")]] * 2), tools=[lost]
    )
    to_clerk = handoff(clerk)
    model = ScriptedModel([[function_call(to_clerk.tool_name, "{}", call_id="h")]])
    desk: Agent[Any] = Agent("desk", model=model, handoffs=[to_clerk])
    if by in ("agent", "circle"):
        desk.handoffs = [clerk]
    if by == "circle":
        clerk.handoffs = [desk]
    if by == "agent of the moment":

        async def hand_over(_: object, __: str) -> Agent[Any]:
            return clerk

        name, schema = to_clerk.tool_name, to_clerk.input_json_schema
        desk.handoffs = [Handoff(name, "To the clerk.", schema, hand_over, "clerk")]

    async def scene(ledger: Ledger) -> None:
        asked = desk
        if by == "last agent":
            hello = Agent("desk", model=ScriptedModel([[assistant_message("Hello.")]]))
            said = await ledger.run(hello, "Hello.")
            asked = said.last_agent.clone(model=model, handoffs=desk.handoffs)
        result = await ledger.run(asked, "Order 7?")
        assert (result.final_output, result.last_agent.name) == ("Lost.", "clerk")
        tools = await ledger.chat.tools()
        assert {i: t.status.name for i, t in tools.items()} == dict.fromkeys("ha", "Completed")
        assert await ledger.resume(desk) is None
        again = await ledger.run(result.last_agent, "And order 7 now?")
        assert again.final_output == "Lost."
        assert [t.status.name for t in (await ledger.chat.tools()).values()] == ["Completed"] * 3

    played("sqlite://", scene)


def test_an_agent_of_another_ledger_is_refused() -> None:
    """The error names both conversations, and says what to give."""

    async def scene(ledger: Ledger) -> None:
        other = Ledger(AsyncEventStore(EventStore.open("sqlite://")).conversation("other"))
        agent = other.wrapped(Agent("support", model=ScriptedModel([])))
        with pytest.raises(ValueError, match=r"'other' already.* of 'c' an agent that no ledger"):
            await ledger.run(agent, "Order 7?")
        assert await ledger.chat.version == 0

    played("sqlite://", scene)


@pytest.mark.parametrize("refusal", ["reject_content", "raise_exception"])
def test_a_guardrail_that_refuses_a_call_rejects_it(refusal: str) -> None:
    """The guardrail sees the arguments that would run, and its reason is in the log."""
    checked: list[str] = []

    @tool_input_guardrail
    def policy(data: Any) -> ToolGuardrailFunctionOutput:
        """Let nothing pass."""
        checked.append(data.context.tool_arguments)
        if refusal == "raise_exception":
            return ToolGuardrailFunctionOutput.raise_exception()
        return ToolGuardrailFunctionOutput.reject_content("above the limit")

    @function_tool(needs_approval=True, tool_input_guardrails=[policy])
    def refund(number: int) -> str:
        """Refund an order."""
        raise AssertionError(number)

    async def scene(ledger: Ledger) -> None:
        model = ScriptedModel(
            [[function_call("refund", '{"number": 7}', call_id="a")], [assistant_message("No.")]]
        )
        agent = Agent("support", model=model, tools=[refund])
        await ledger.run(agent, "Refund order 7.")
        assert isinstance((await ledger.chat.tools())["a"].status, Pending)
        await ledger.chat.approve("a", {"number": 8}, by="grace")
        if refusal == "raise_exception":
            with pytest.raises(ToolInputGuardrailTripwireTriggered):
                await ledger.resume(agent)
        else:
            assert (result := await ledger.resume(agent)) is not None
            assert result.final_output == "No."
        tool = (await ledger.chat.tools())["a"]
        assert isinstance(tool.status, Rejected)
        reason = "above the limit" if refusal == "reject_content" else None
        assert (tool.status.reason, tool.attempts, checked) == (reason, 0, ['{"number": 8}'])
        assert (tool.status.source, tool.status.by) == ("hook", "policy")

    played("sqlite://", scene)


@pytest.mark.parametrize("own", [None, "The bank is slow."])
def test_the_model_reads_that_a_call_that_timed_out_may_have_taken_effect(own: str | None) -> None:
    """The SDK's text for a timeout, or the host's, does not leave that out."""

    async def refund(number: int) -> str:
        """Refund an order, and wait for ever for the answer."""
        await asyncio.Event().wait()
        return str(number)

    async def scene(ledger: Ledger) -> None:
        options: Any = {"timeout_error_function": lambda _, __: own} if own else {}
        call = function_call("refund", '{"number": 7}', call_id="a")
        model = ScriptedModel([[call], [assistant_message("I shall check.")]])
        tool = function_tool(refund, timeout=0.01, **options)
        await ledger.run(Agent("support", model=model, tools=[tool]), "Refund order 7.")
        assert (await ledger.chat.tools())["a"].in_doubt
        assert model.last_call is not None
        (output,) = [i["output"] for i in model.last_call.input if "output" in i]
        assert str(output).startswith((own or "Tool 'refund' timed out").removesuffix("."))
        assert str(output).endswith("may have taken effect: check before running it again.")

    played("sqlite://", scene)


def test_arguments_that_end_the_run_are_a_failure(tmp_path: Path) -> None:
    """A tool without an error function lets the run end, and the kind is validation."""

    @function_tool(failure_error_function=None)
    def strict(number: int) -> str:
        """Find an order, or end the run."""
        return str(number)

    async def scene(ledger: Ledger) -> None:
        model = ScriptedModel([[function_call("strict", '{"number": "x"}', call_id="a")]])
        with pytest.raises(ModelBehaviorError):
            await ledger.run(Agent("support", model=model, tools=[strict]), "Order x?")
        status = (await ledger.chat.tools())["a"].status
        assert isinstance(status, Failed)
        assert status.failure.kind == "validation"

    played(url_in(tmp_path), scene)


async def needs_a_person(_: object, __: object, ___: str) -> bool:
    """Say of any call that a person has to decide on it."""
    return True


@pytest.mark.parametrize("needs_approval", [True, needs_a_person])
def test_a_host_may_decide_with_the_state_of_the_sdk(tmp_path: Path, needs_approval: Any) -> None:
    """An approval by `RunState.approve` is in the log, before the tool runs."""
    from agents import Runner

    @function_tool(needs_approval=needs_approval)
    def mail(to: str) -> str:
        """Send a mail."""
        return f"sent to {to}"

    async def scene(ledger: Ledger) -> None:
        model = ScriptedModel(
            [[function_call("mail", '{"to": "ann"}', call_id="m")], [assistant_message("Done.")]]
        )
        agent = ledger.wrapped(Agent("support", model=model, tools=[mail]))
        result = await Runner.run(agent, "Write to ann.", session=ledger)
        state = result.to_state()
        state.approve(result.interruptions[0])
        again = await Runner.run(agent, state, session=ledger)
        assert again.final_output == "Done."
        tags = [r.event.tag async for r in ledger.chat.events() if r.call_id == "m"]
        assert tags == ["pending", "approved", "running", "completed"]

    played(url_in(tmp_path), scene)


def test_an_approval_that_has_expired_waits_for_a_person_again(tmp_path: Path) -> None:
    """The resumed run gives the interruption, and the tool does not run."""
    ran: list[str] = []

    @function_tool(needs_approval=True)
    def mail(to: str) -> str:
        """Send a mail."""
        ran.append(to)
        return "sent"

    async def scene(ledger: Ledger) -> None:
        model = ScriptedModel(
            [[function_call("mail", '{"to": "ann"}', call_id="m")], [assistant_message("Done.")]]
        )
        agent = Agent("support", model=model, tools=[mail])
        await ledger.run(agent, "Write to ann.")
        await ledger.chat.approve("m", by="ann", expires=timedelta(microseconds=1))
        result = await ledger.resume(agent)
        assert result is not None
        assert [str(each.name) for each in result.interruptions] == ["mail"]
        assert ran == []

    played(url_in(tmp_path), scene)


def test_another_session_is_refused_before_anything_runs(tmp_path: Path) -> None:
    """The model would be asked without the log's answers, and would ask for its calls again."""

    async def scene(ledger: Ledger) -> None:
        from agents import SQLiteSession

        model = ScriptedModel([[function_call("lost", '{"number": 7}', call_id="a")]])
        agent = Agent("support", model=model, tools=[lost])
        with pytest.raises(ValueError, match="leave it out"):
            await ledger.run(agent, "Order 7?", session=SQLiteSession("s"))
        await ledger.chat.add_message("user", "Order 7?")
        with pytest.raises(ValueError, match="leave it out"):
            await ledger.resume(agent, session=SQLiteSession("s"))
        assert await ledger.chat.version == 1

    played(url_in(tmp_path), scene)


def test_a_good_call_beside_an_unknown_tool_goes_on(tmp_path: Path) -> None:
    """The SDK ends the run; the unknown call has failed, and the other one runs on resume."""

    async def scene(ledger: Ledger) -> None:
        calls = [
            function_call("lost", '{"number": 7}', call_id="a"),
            function_call("nothing", "{}", call_id="b"),
        ]
        agent = Agent("support", model=ScriptedModel([calls]), tools=[lost])
        with pytest.raises(ModelBehaviorError):
            await ledger.run(agent, "Order 7?")
        again = ScriptedModel([[assistant_message("Done.")]])
        result = await ledger.resume(Agent("support", model=again, tools=[lost]))
        assert result is not None
        assert result.final_output == "Done."
        first, second = (await ledger.chat.tools()).values()
        assert isinstance(first.status, Completed)
        assert isinstance(second.status, Failed)
        assert second.status.failure.kind == "validation"

    played(url_in(tmp_path), scene)


class InMemory(MCPServerStdio):
    """A server of the SDK that is asked without a process."""

    def __init__(self, *tools: Callable[..., Any], **options: Any) -> None:
        super().__init__({"command": "none"}, **options)
        self._server = MCPServer("bank")
        for tool in tools:
            self._server.add_tool(tool)

    def create_streams(self) -> Any:
        """Return what the client of the `mcp` package connects to in memory."""
        return self._server


REFUND_1 = [function_call("refund", '{"number": 1}', call_id="a")]


def last_output(model: ScriptedModel) -> str:
    """Return what a model was last told of a call."""
    assert model.last_call is not None
    (output,) = [item["output"] for item in model.last_call.input if "output" in item]  # type: ignore[operator]
    return str(output)


def test_a_call_to_a_server_that_dies_runs_once(tmp_path: Path) -> None:
    """`resume` tells the model that the call is in doubt, and does not run it again."""
    effects = tmp_path / "effects"
    script = str(Path(__file__).with_name("bank_server.py"))
    params: Any = {"command": sys.executable, "args": [script, str(effects)]}

    async def scene(ledger: Ledger) -> None:
        model = ScriptedModel([REFUND_1, [assistant_message("I shall check.")]])
        for again in (False, True, True):
            server = MCPServerStdio(params, client_session_timeout_seconds=60)
            async with server:
                agent = Agent("support", model=model, mcp_servers=[server])
                if again:
                    await ledger.resume(agent)
                else:  # the next turn has no server to list the tools of
                    with pytest.raises(MCPError, match="Connection closed"):
                        await ledger.run(agent, "Refund order 1.")
            assert (await ledger.chat.tools())["a"].in_doubt
            plan = resume_plan([recorded async for recorded in ledger.chat.events()])
            assert (len(plan.safe), len(plan.unknown)) == (0, 1)
        assert "Connection closed. This call may have taken effect" in last_output(model)

    played(url_in(tmp_path), scene)
    assert effects.read_text() == "1\n"


ENDS: dict[str, tuple[Exception | None, bool]] = {
    "refunded 1": (None, False),
    "above the limit": (ToolError("above the limit"), False),
    "no such order": (MCPError(-32602, "no such order"), False),
    "Request timed out": (MCPError(-32001, "Request timed out"), True),
}
"""What a server's tool raises, and whether the call is in doubt, by the text that is recorded."""


@pytest.mark.parametrize("failure_function", ["default", "own", None])
@pytest.mark.parametrize("text", ENDS)
def test_a_call_to_a_server_ends_as_the_server_said(
    text: str, failure_function: str | None
) -> None:
    """Without an answer, the call is in doubt, and the model is told."""
    error, in_doubt = ENDS[text]

    def refund(number: int) -> str:
        """Refund an order."""
        if error is not None:
            raise error
        return f"refunded {number}"

    async def scene(ledger: Ledger) -> None:
        model = ScriptedModel([REFUND_1, [assistant_message("Done.")]])
        own: Any = {"own": {"failure_error_function": lambda _, __: "Hm."}, "default": {}}
        config = own.get(failure_function, {"failure_error_function": None})
        async with InMemory(refund, require_approval="always") as server:
            agent = Agent("support", model=model, mcp_servers=[server], mcp_config=config)
            result = await ledger.run(agent, "Refund order 1.")
            assert isinstance((await ledger.chat.tools())["a"].status, Pending)
            state: Any = result.to_state()
            state.approve(result.interruptions[0])
            if failure_function is None and isinstance(error, MCPError):
                with pytest.raises(UserError, match=text):
                    await ledger.run(agent, state)
            else:
                await ledger.run(agent, state)
                assert ("may have taken effect" in last_output(model)) is in_doubt
        tool = (await ledger.chat.tools())["a"]
        assert (tool.attempts, tool.in_doubt) == (1, in_doubt)
        if isinstance(tool.status, Failed):
            assert text in tool.status.failure.message
        else:
            assert tool.response is not None
            assert tool.response.result == text

    played("sqlite://", scene)
