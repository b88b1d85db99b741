"""google-adk plays the scenes, and what it has of its own is kept."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from integrations.scenes import DONE, Said, ScenesWithDecisions, url_in, with_ledger
from support.frameworks import required

required("google.adk")

from google.adk.agents import LlmAgent
from google.adk.apps.app import App
from google.adk.plugins import ReflectAndRetryToolPlugin
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import InMemoryRunner
from google.adk.tools import FunctionTool, LongRunningFunctionTool, ToolContext
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.mcp_tool import McpTool
from google.genai import types
from integrations.play_google_adk import NAMES, ScriptedModel, confirmation, message, words
from mcp import MCPError
from mcp.types import CallToolResult, TextContent
from mcp.types import Tool as ServerTool

from eventstore import (
    Completed,
    Failed,
    Pending,
    Rejected,
)
from eventstore.integrations.google_adk import Ledger

if TYPE_CHECKING:
    from google.adk.events import Event
    from google.adk.models import LlmRequest, LlmResponse


class TestGoogleAdk(ScenesWithDecisions):
    """The scenes with a `Ledger` as a plugin of the app."""

    framework = "google_adk"


class Listening(ScriptedModel):
    """A model that keeps the contents of its prompts."""

    prompts: list[list[types.Content]]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Keep the prompt, and give the next response."""
        self.prompts.append([content.model_copy(deep=True) for content in llm_request.contents])
        async for response in super().generate_content_async(llm_request, stream):
            yield response


CALL = Said("", (("lost", '{"number": 7}', "call_a"),))
SCRIPT = (CALL, Said(DONE), Said("Again."))


class Shop:
    """A runner of one agent with a ledger, and one session of it."""

    def __init__(self, ledger: Ledger, script: tuple[Said, ...], *tools: Any, **agent: Any) -> None:
        self.ledger = ledger
        self.model = Listening(script=script, prompts=[])
        root = LlmAgent(name="support", model=self.model, tools=list(tools), **agent)
        self.runner = InMemoryRunner(app=App(name="shop", root_agent=root, plugins=[ledger]))

    async def opened(self, state: dict[str, Any] | None = None) -> Shop:
        """Begin the session."""
        await self.runner.session_service.create_session(app_name="shop", state=state, **NAMES)
        return self

    async def hears(self, said: str | types.Part) -> list[Event]:
        """Run until the agent stops; return its events."""
        content = message(said) if isinstance(said, str) else types.Content(parts=[said])
        return [e async for e in self.runner.run_async(new_message=content, **NAMES)]

    async def resumes(self) -> list[Event]:
        """Resume, and return the events."""
        return [e async for e in self.ledger.resume(self.runner, **NAMES)]

    async def call(self, call_id: str = "call_a") -> Any:
        """Return a call as the log has it."""
        return (await self.ledger.chat.tools())[call_id]


played = partial(with_ledger, Ledger)


def texts(prompt: list[types.Content]) -> list[str]:
    """Return what a prompt says, a call or an answer as its name."""
    found = []
    for part in [part for content in prompt for part in content.parts or []]:
        called = part.function_call or part.function_response
        found.append(part.text or (called and called.name) or "")
    return found


def lost(number: int) -> str:
    """Find an order."""
    return f"order {number} is lost"


@pytest.mark.parametrize("by", ["needs_approval", "require_confirmation"])
@pytest.mark.parametrize("confirmed", [True, False])
def test_a_host_confirms_in_the_session(tmp_path: Path, by: str, confirmed: bool) -> None:
    """ADK's own confirmation decides on the call, which waits without having started."""
    runs: list[int] = []

    def refund(number: int) -> str:
        """Refund an order."""
        runs.append(number)
        return "refunded"

    async def scene(ledger: Ledger) -> None:
        tool = FunctionTool(refund, require_confirmation=by == "require_confirmation")
        shop = await Shop(
            ledger, (Said("", (("refund", '{"number": 7}', "call_a"),)), Said(DONE)), tool
        ).opened()
        waits = await shop.hears("Refund order 7")
        call = await shop.call()
        assert (call.attempts, type(call.status), runs) == (0, Pending, [])
        assert words(await shop.hears(confirmation(waits, confirmed))) == DONE
        call = await shop.call()
        assert runs == [7] * confirmed
        assert call.attempts == confirmed
        assert type(call.status) is (Completed if confirmed else Rejected)

    needs = ["refund"] if by == "needs_approval" else []
    played(url_in(tmp_path), scene, needs_approval=needs)


def test_an_approval_in_the_log_opens_the_gate_of_a_tool(tmp_path: Path) -> None:
    """A tool with `require_confirmation` runs after `chat.approve`, with the edited arguments."""

    async def scene(ledger: Ledger) -> None:
        tool = FunctionTool(lost, require_confirmation=True)
        shop = await Shop(ledger, SCRIPT, tool).opened()
        await shop.hears("Order 7?")
        await ledger.chat.approve("call_a", {"number": 8})
        assert words(await shop.resumes()) == DONE
        assert (await shop.call()).response.result == "order 8 is lost"

    played(url_in(tmp_path), scene)


def test_a_kept_session_is_resumed_in_place(tmp_path: Path) -> None:
    """The state stays; the model reads each message once, those from before the session, too."""

    async def waits(ledger: Ledger) -> None:
        shop = await Shop(ledger, (Said("Hello."),)).opened()
        await shop.hears("Hi")

    async def goes_on(ledger: Ledger) -> None:
        def counted(number: int, tool_context: ToolContext) -> str:
            """Find an order."""
            tool_context.state["found"] = number
            return "lost"

        calls = (("counted", '{"number": 7}', "call_b"), *CALL.calls)
        script = (Said("Hello."), Said("", calls), Said(DONE), Said("Again."))
        shop = await Shop(ledger, script, counted, lost).opened({"shop": "Lyon"})
        await shop.hears("Order 7?")
        await ledger.chat.approve("call_a")
        assert words(await shop.resumes()) == DONE
        history = ["Hi", "Hello.", "Order 7?", "counted", "lost", "counted", "lost"]
        assert texts(shop.model.prompts[-1]) == history
        session = await shop.runner.session_service.get_session(app_name="shop", **NAMES)
        assert session is not None
        assert {"shop": "Lyon", "found": 7}.items() <= session.state.items()
        assert words(await shop.hears("And order 8?")) == "Again."
        assert texts(shop.model.prompts[-1]) == [*history, DONE, "And order 8?"]
        assert (await shop.call("call_b")).attempts == 1

    played(url_in(tmp_path), waits)
    played(url_in(tmp_path), goes_on, needs_approval=["lost"])


def test_ids_that_a_model_uses_twice_are_distinguished(tmp_path: Path) -> None:
    """Each call that is given again has its own answer."""
    runs: list[int] = []

    def counted(number: int) -> str:
        """Find an order."""
        runs.append(number)
        return f"order {number} is lost"

    async def scene(ledger: Ledger) -> None:
        tool = FunctionTool(counted, require_confirmation=lambda number: number == 8)
        turns = [Said("", (("counted", f'{{"number": {number}}}', "call_0"),)) for number in (7, 8)]
        shop = await Shop(ledger, (*turns, Said(DONE)), tool).opened()
        await shop.hears("Orders 7 and 8?")
        _, second = (await ledger.chat.tools()).values()
        await ledger.chat.approve(second.id)
        assert words(await shop.resumes()) == DONE
        assert runs == [7, 8]
        answers = [
            part.function_response.response
            for content in shop.model.prompts[-1]
            for part in content.parts or []
            if part.function_response
        ]
        assert answers == [{"result": f"order {number} is lost"} for number in (7, 8)]

    played(url_in(tmp_path), scene)


def test_nothing_is_resumed_after_the_last_word(tmp_path: Path) -> None:
    """A run that came to its end yields no events, nor does an empty log."""

    async def scene(ledger: Ledger) -> None:
        shop = Shop(ledger, SCRIPT, lost)
        assert await shop.resumes() == []
        await shop.opened()
        assert words(await shop.hears("Order 7?")) == DONE
        assert await shop.resumes() == []
        assert len(shop.model.prompts) == 2

    played(url_in(tmp_path), scene)


def test_a_message_that_met_no_model_is_answered(tmp_path: Path) -> None:
    """The log has the message, ADK's session was lost: the model is asked for the first time."""

    async def scene(ledger: Ledger) -> None:
        await ledger.chat.add_message("user", "Order 7?")
        shop = Shop(ledger, SCRIPT, lost)
        assert words(await shop.resumes()) == DONE
        assert texts(shop.model.prompts[0]) == ["Order 7?"]
        assert (await shop.call()).attempts == 1

    played(url_in(tmp_path), scene)


def test_an_id_that_adk_made_is_not_shown_to_a_model(tmp_path: Path) -> None:
    """A model that gives no ids reads none in the next session either."""

    async def first(ledger: Ledger) -> None:
        shop = await Shop(
            ledger, (Said("", (("lost", '{"number": 7}', ""),)), Said(DONE)), lost
        ).opened()
        assert words(await shop.hears("Order 7?")) == DONE
        (call,) = (await ledger.chat.tools()).values()
        assert (call.provider_call_id or "").startswith("adk-")
        assert isinstance(call.status, Completed)

    async def second(ledger: Ledger) -> None:
        shop = await Shop(ledger, SCRIPT, lost).opened()
        assert words(await shop.hears("And order 8?")) == "Again."
        (prompt,) = shop.model.prompts
        assert texts(prompt) == ["Order 7?", "lost", "lost", DONE, "And order 8?"]
        assert "adk-" not in str(prompt)

    played(url_in(tmp_path), first)
    played(url_in(tmp_path), second)


@pytest.mark.parametrize("call", [("unknown", '{"number": 7}'), ("lost", "{}")])
def test_a_call_that_adk_refuses_is_a_failure(tmp_path: Path, call: tuple[str, str]) -> None:
    """An unknown tool, or a missing argument, is a failure of kind validation."""

    async def scene(ledger: Ledger) -> None:
        shop = await Shop(ledger, (Said("", ((*call, "call_a"),)), Said(DONE)), lost).opened()
        assert words(await shop.hears("Order 7?")) == DONE
        status = (await shop.call()).status
        assert isinstance(status, Failed)
        assert status.failure.kind == "validation"

    played(url_in(tmp_path), scene)


def test_a_tool_that_asks_for_confirmation_runs_again_with_it(tmp_path: Path) -> None:
    """The attempt that asked has paused; the one that follows ends the call."""

    def careful(number: int, tool_context: ToolContext) -> str:
        """Find an order."""
        if tool_context.tool_confirmation is None:
            tool_context.request_confirmation(hint="which shop?")
            return ""
        return f"order {number} is lost"

    async def scene(ledger: Ledger) -> None:
        script = (Said("", (("careful", '{"number": 7}', "call_a"),)), Said(DONE))
        shop = await Shop(ledger, script, careful).opened()
        waits = await shop.hears("Order 7?")
        call = await shop.call()
        assert (call.is_paused, call.status.reason) == (True, "which shop?")
        await shop.hears(confirmation(waits, True))
        call = await shop.call()
        assert (call.attempts, call.response.result) == (2, "order 7 is lost")

    played(url_in(tmp_path), scene)


def test_a_long_running_call_is_answered_later(tmp_path: Path) -> None:
    """The call has paused until the host sends what came of it; a resumed run leaves it so."""

    def ticket(number: int) -> dict[str, str]:
        """Open a ticket."""
        return {"status": "open"}

    async def scene(ledger: Ledger) -> None:
        opens = Said("", (("ticket", '{"number": 7}', "call_a"),))
        shop = await Shop(ledger, (opens,), LongRunningFunctionTool(ticket)).opened()
        with pytest.raises(IndexError):  # the model fails
            await shop.hears("Order 7?")
        assert (await shop.call()).is_paused
        shop.model.script = (opens, Said("Wait."), Said(DONE))
        assert words(await shop.resumes()) == "Wait."
        assert (await shop.call()).attempts == 1
        closed = types.FunctionResponse(id="call_a", name="ticket", response={"status": "closed"})
        await shop.hears(types.Part(function_response=closed))
        assert (await shop.call()).response.result == {"status": "closed"}

    played(url_in(tmp_path), scene)


@pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated")  # ADK's own use of it
def test_an_agent_that_is_a_tool_is_one_call(tmp_path: Path) -> None:
    """Its own session, with its prompts and calls, is no part of the conversation."""

    async def scene(ledger: Ledger) -> None:
        inner = Listening(script=(CALL, Said("It is lost.")), prompts=[])
        finder = LlmAgent(name="finder", description="Finds.", model=inner, tools=[lost])
        script = (Said("", (("finder", '{"request": "Order 7"}', "call_a"),)), Said(DONE))
        shop = await Shop(ledger, script, AgentTool(finder)).opened()
        assert words(await shop.hears("Order 7?")) == DONE
        (call,) = (await ledger.chat.tools()).values()
        assert (call.attempts, call.response and call.response.result) == (1, "It is lost.")
        assert texts(inner.prompts[-1]) == ["Order 7", "lost", "lost"]

    played(url_in(tmp_path), scene)


def test_a_resumed_run_goes_to_the_agent_it_was_with(tmp_path: Path) -> None:
    """A recorded transfer is done again; no call runs twice."""
    runs: list[int] = []

    def refund(number: int) -> str:
        """Refund an order."""
        runs.append(number)
        return "refunded"

    async def scene(ledger: Ledger) -> None:
        transfer = Said("", (("transfer_to_agent", '{"agent_name": "clerk"}', "call_t"),))
        script = (Said("", (("refund", '{"number": 7}', "call_a"),)), Said(DONE))
        clerk = Listening(script=script, prompts=[])
        agent = LlmAgent(name="clerk", description="Refunds.", model=clerk, tools=[refund])
        shop = await Shop(ledger, (transfer,), sub_agents=[agent]).opened()
        await shop.hears("Refund order 7")
        assert (await shop.call("call_t")).status.name == "Completed"
        await ledger.chat.approve("call_a")
        events = await shop.resumes()
        assert (events[-1].author, words(events), runs) == ("clerk", DONE, [7])
        assert (await shop.call("call_t")).attempts == 1

    played(url_in(tmp_path), scene, needs_approval=["refund"])


def test_two_sessions_at_once_are_refused(tmp_path: Path) -> None:
    """One ledger has one conversation: the run that was overtaken ends with an error."""

    async def scene(ledger: Ledger) -> None:
        begun, overtaken = asyncio.Event(), asyncio.Event()

        async def slow(number: int) -> str:
            """Find an order."""
            begun.set()
            await overtaken.wait()
            return "lost"

        script = (Said("", (("slow", '{"number": 7}', "call_a"),)), Said(DONE))
        shop = await Shop(ledger, script, slow).opened()
        await shop.runner.session_service.create_session(
            app_name="shop", user_id="ann", session_id="other"
        )
        first = asyncio.ensure_future(shop.hears("Order 7?"))
        await asyncio.wait_for(begun.wait(), 60)
        run = shop.runner.run_async(
            user_id="ann", session_id="other", new_message=message("Order 8?")
        )
        async with contextlib.aclosing(run) as events:
            assert await anext(events)
        overtaken.set()
        with pytest.raises(RuntimeError, match="runs while 'other' does"):
            await first

    played(url_in(tmp_path), scene)


def test_a_resumed_run_asks_again_for_a_decision(tmp_path: Path) -> None:
    """A call that still waits, waits; the model has not been asked."""

    async def scene(ledger: Ledger) -> None:
        shop = await Shop(ledger, SCRIPT, lost).opened()
        await shop.hears("Order 7?")
        events = await shop.resumes()
        assert confirmation(events, True)
        assert len(shop.model.prompts) == 1
        assert isinstance((await shop.call()).status, Pending)

    played(url_in(tmp_path), scene, needs_approval=["lost"])


def test_a_callback_that_raises_leaves_no_call_under_way(tmp_path: Path) -> None:
    """ADK tells the plugin of no end, and whether the tool has run is not known."""

    def down(**_: Any) -> None:
        raise RuntimeError("the policy service is down")

    async def scene(ledger: Ledger) -> None:
        shop = await Shop(ledger, SCRIPT, lost, before_tool_callback=down).opened()
        with pytest.raises(RuntimeError, match="policy service"):
            await shop.hears("Order 7?")
        call = await shop.call()
        assert (type(call.status), call.in_doubt) == (Failed, True)

    played(url_in(tmp_path), scene)


def test_arguments_that_an_earlier_plugin_has_changed_are_an_edit(tmp_path: Path) -> None:
    """The log has them."""

    class Changes(BasePlugin):
        async def before_tool_callback(self, *, tool_args: dict[str, Any], **_: Any) -> None:
            tool_args["number"] = 70

    async def scene(ledger: Ledger) -> None:
        shop = await Shop(ledger, SCRIPT, lost).opened()
        shop.runner.plugin_manager.plugins.insert(0, Changes("changes"))
        await shop.hears("Order 7?")
        call = await shop.call()
        assert call.effective_call.arguments == {"number": 70}
        assert call.response is not None
        assert call.response.result == "order 70 is lost"

    played(url_in(tmp_path), scene)


class Bank:
    """A server of MCP, and a session with it, of which no answer but one comes."""

    def __init__(self, answer: Exception | CallToolResult) -> None:
        self.answer = answer

    async def create_session(self, **_: Any) -> Bank:
        """Return the session."""
        return self

    async def call_tool(self, *_: Any, **__: Any) -> CallToolResult:
        """Give the answer."""
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


FAILED_ON_SERVER = CallToolResult(
    content=[TextContent(type="text", text="no such order")], isError=True
)


@pytest.mark.parametrize(
    ("answer", "said", "in_doubt"),
    [
        (MCPError(-32000, "Connection closed"), "Connection closed", True),
        (MCPError(-32001, "Request 'tools/call' timed out"), "timed out", True),
        (MCPError(-32602, "Unknown tool: refund"), "Unknown tool", False),
        (ConnectionError(""), "no reason was given", True),
        (RuntimeError("unhandled errors in a TaskGroup"), "TaskGroup", True),
        (FAILED_ON_SERVER, "no such order", False),
    ],
)
def test_an_error_that_adk_made_into_a_result_is_a_failure(
    answer: Exception | CallToolResult, said: str, in_doubt: bool
) -> None:
    """A broken connection, or no answer in time, leaves a doubt, and the model reads of it."""
    schema = {"type": "object", "properties": {"number": {"type": "integer"}}}
    server: Any = Bank(answer)
    tool = McpTool(mcp_tool=ServerTool(name="lost", inputSchema=schema), mcp_session_manager=server)

    async def scene(ledger: Ledger) -> None:
        shop = await Shop(ledger, SCRIPT, tool).opened()
        assert words(await shop.hears("Order 7?")) == DONE
        call = await shop.call()
        assert (type(call.status), call.in_doubt) == (Failed, in_doubt)
        assert said in call.status.failure.message
        assert ("may have taken effect" in str(shop.model.prompts[-1])) == in_doubt

    played("sqlite://", scene)


def test_a_function_of_the_host_may_return_an_error() -> None:
    """ADK's telemetry counts such a dict as an error; the log keeps it whole."""
    returned = {"error": "no such order", "looked_in": ["archive"]}

    def lost(number: int) -> dict[str, Any]:
        """Find an order."""
        return returned

    async def scene(ledger: Ledger) -> None:
        shop = await Shop(ledger, SCRIPT, lost).opened()
        assert words(await shop.hears("Order 7?")) == DONE
        call = await shop.call()
        assert isinstance(call.status, Completed)
        assert call.response is not None
        assert call.response.result == returned

    played("sqlite://", scene)


@pytest.mark.parametrize("error", [TimeoutError("no answer"), ValueError("no such order")])
def test_no_plugin_hides_how_a_tool_ended(error: Exception) -> None:
    """One before the ledger answers to an error, but not where the call may have taken effect."""
    in_doubt = isinstance(error, TimeoutError)

    def lost(number: int) -> str:
        """Find an order."""
        raise error

    async def scene(ledger: Ledger) -> None:
        shop = await Shop(ledger, SCRIPT, lost).opened()
        shop.runner.plugin_manager.plugins.insert(0, ReflectAndRetryToolPlugin())
        assert words(await shop.hears("Order 7?")) == DONE
        call = await shop.call()
        assert (type(call.status), call.in_doubt) == (Failed, in_doubt)
        assert call.status.failure.exception == type(error).__name__
        asked = str(shop.model.prompts[-1])
        assert ("may have taken effect" in asked) == in_doubt
        assert ("Reflection Guidance" in asked) != in_doubt

    played("sqlite://", scene)


def test_a_plugin_that_refuses_a_call_rejects_it() -> None:
    """The plugin's reason is in the log, and there is no attempt."""

    class Refuses(BasePlugin):
        async def before_tool_callback(self, **_: Any) -> dict[str, str]:
            return {"error": "above the limit"}

    async def scene(ledger: Ledger) -> None:
        shop = await Shop(ledger, SCRIPT, lost).opened()
        shop.runner.plugin_manager.plugins.insert(0, Refuses("refuses"))
        assert words(await shop.hears("Order 7?")) == DONE
        call = await shop.call()
        assert isinstance(call.status, Rejected)
        assert (call.status.reason, call.status.source) == ("above the limit", "hook")

    played("sqlite://", scene)
