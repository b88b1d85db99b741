"""agent-framework plays the scenes, and what it has of its own is kept."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from integrations.scenes import DONE, Play, Said, ScenesWithDecisions, url_in, with_ledger
from support.frameworks import required

required("agent_framework")

from agent_framework import (
    Agent,
    AgentSession,
    ChatContext,
    Content,
    ContextProvider,
    FunctionInvocationContext,
    FunctionTool,
    InMemoryHistoryProvider,
    MCPStdioTool,
    Message,
    MiddlewareTermination,
    UserInputRequiredException,
    chat_middleware,
    function_middleware,
    tool,
)
from integrations.play_agent_framework import ScriptedClient, shown

from eventstore import Completed, Failed, MessageAdded, Pending, Rejected
from eventstore.integrations.agent_framework import Ledger

CALL = ("lost", '{"number": 7}', "call_a")
UNKNOWN = ("nope", "{}", "call_a")
AGAIN = Said("Again.")

played = partial(with_ledger, Ledger)


class TestAgentFramework(ScenesWithDecisions):
    """The scenes with a `Ledger` as the agent's history provider."""

    framework = "agent_framework"


def scripted(*calls: tuple[str, str, str], **options: Any) -> ScriptedClient:
    """Return a client that makes these calls first, and then says that it is done."""
    return ScriptedClient(Play(url="", script=(Said("", calls), Said(DONE), AGAIN)), **options)


def agent_of(ledger: Ledger, client: ScriptedClient, *tools: Any, **options: Any) -> Agent[Any]:
    """Return an agent with a ledger."""
    return Agent(client, tools=list(tools), context_providers=[ledger], **options)


def lost(number: int = 1) -> str:
    """Find an order."""
    return f"order {number} is lost"


def secret(number: int) -> str:
    """Fail with what nobody else may read."""
    raise ValueError(f"password of order {number}")


async def prompts_of_two_runs(
    ledger: Ledger, client: ScriptedClient, *tools: Any
) -> list[list[Message]]:
    """Return the requests of a run, and of one after a restart that knows the log alone."""
    await agent_of(ledger, client, *tools).run("Order 7?")
    again = Ledger(ledger.chat)
    await agent_of(again, client, *tools).run("And order 8?")
    return client.prompts


@pytest.mark.parametrize("detailed", [False, True])
@pytest.mark.parametrize(
    "call",
    [
        CALL,
        ("secret", '{"number": 7}', "call_a"),
        ("lost", '{"number": "x"}', "call_a"),
        ("lost", '{"number": ', "call_a"),
        UNKNOWN,
    ],
)
def test_the_model_reads_in_a_run_what_it_reads_later(
    tmp_path: Path, call: tuple[str, str, str], detailed: bool
) -> None:
    """The request after a call is the beginning of each later one, word for word."""
    config: Any = {"include_detailed_errors": detailed}
    client = scripted(call, function_invocation_configuration=config)

    async def scene(ledger: Ledger) -> None:
        _, live, later = await prompts_of_two_runs(ledger, client, lost, secret)
        assert shown(later)[: len(live)] == shown(live)
        hidden = ("password", "valid integer", "JSON object")
        is_shown = any(text in str(shown(later)) for text in hidden)
        assert is_shown == (detailed and call not in (CALL, UNKNOWN))

    played(url_in(tmp_path), scene)


def test_a_hidden_exception_is_for_operators(tmp_path: Path) -> None:
    """The log has the exception, and its words."""

    async def scene(ledger: Ledger) -> None:
        client = scripted(("secret", '{"number": 7}', "call_a"))
        await agent_of(ledger, client, secret).run("Order 7?")
        failure: Any = (await ledger.chat.tools())["call_a"].status
        assert failure.failure.exception == "ValueError"
        assert failure.failure.message == "password of order 7"

    played(url_in(tmp_path), scene)


@pytest.mark.parametrize("arguments", ['{"number": ', "[1]", '"seven"'])
def test_arguments_that_are_no_object_run_nothing(tmp_path: Path, arguments: str) -> None:
    """The framework would run the tool with its defaults; the log has what the model wrote."""
    runs: list[int] = []

    def find(number: int = 1) -> str:
        """Find an order."""
        runs.append(number)
        return "found"

    async def scene(ledger: Ledger) -> None:
        await agent_of(ledger, scripted(("find", arguments, "call_a")), find).run("Order 7?")
        call: Any = (await ledger.chat.tools())["call_a"]
        assert (call.attempts, call.status.failure.kind) == (0, "validation")
        assert call.call.raw == arguments

    played(url_in(tmp_path), scene)
    assert runs == []


def test_an_unknown_tool_is_a_failure(tmp_path: Path) -> None:
    """The call that the framework refuses by itself has failed with kind validation."""

    async def scene(ledger: Ledger) -> None:
        await agent_of(ledger, scripted(UNKNOWN), lost).run("Order 7?")
        status: Any = (await ledger.chat.tools())["call_a"].status
        assert status.failure.kind == "validation"

    played(url_in(tmp_path), scene)


@pytest.mark.parametrize("answer", [True, False])
def test_the_host_answers_through_the_framework(tmp_path: Path, answer: bool) -> None:
    """A yes runs the call and a no rejects it; the other calls ran before."""
    calls = (CALL, ("mail", '{"to": "ann"}', "call_m"))
    mails: list[str] = []

    @tool(approval_mode="always_require")
    def mail(to: str) -> str:
        """Send a mail."""
        mails.append(to)
        return "sent"

    async def scene(ledger: Ledger) -> None:
        client, session = scripted(*calls), AgentSession()
        agent = agent_of(ledger, client, lost, mail)
        result = await agent.run("Write.", session=session)
        (asked,) = result.user_input_requests
        assert asked.function_call is not None
        assert asked.function_call.parse_arguments() == {"to": "ann"}
        found, waiting = (await ledger.chat.tools()).values()
        assert (type(found.status), type(waiting.status)) == (Completed, Pending)
        reply = Message("user", [asked.to_function_approval_response(answer)])
        assert (await agent.run(reply, session=session)).text == DONE
        status = (await ledger.chat.tool("call_m")).status
        assert isinstance(status, Completed if answer else Rejected)
        roles = [message.role for message in client.prompts[-1]]
        assert roles == ["user", "assistant", "tool"]

    played(url_in(tmp_path), scene)
    assert mails == (["ann"] if answer else [])


def test_one_of_two_questions_is_answered(tmp_path: Path) -> None:
    """The other call stays open, and the request is valid all the same."""

    async def scene(ledger: Ledger) -> None:
        calls = (CALL, ("lost", '{"number": 8}', "call_b"))
        client, session = scripted(*calls), AgentSession()
        agent = agent_of(ledger, client, lost)
        first, second = (await agent.run("Order 7?", session=session)).user_input_requests
        reply = Message("user", [second.to_function_approval_response(True)])
        assert (await agent.run(reply, session=session)).text == DONE
        statuses = [type(call.status) for call in (await ledger.chat.tools()).values()]
        assert statuses == [Pending, Completed]
        (results,) = (m.contents for m in client.prompts[-1] if m.role == "tool")
        assert "Awaiting approval" in str(results[0].result)
        assert results[1].result == "order 8 is lost"
        assert first.id != second.id

    played(url_in(tmp_path), scene, needs_approval=["lost"])


@pytest.mark.parametrize("decided", [None, "by the host", "in the log"])
def test_arguments_that_middleware_has_changed(tmp_path: Path, decided: str | None) -> None:
    """The change is an edit in the log, and decided on; a decision in the log is for its own."""
    runs: list[int] = []

    def find(number: int) -> str:
        """Find an order."""
        runs.append(number)
        return "found"

    @function_middleware
    async def change(
        context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]
    ) -> None:
        context.arguments = {"number": 70}
        await call_next()

    async def scene(ledger: Ledger) -> None:
        client, session = scripted(("find", '{"number": 7}', "call_a")), AgentSession()
        changing = [] if decided == "in the log" else [change]
        agent = agent_of(ledger, client, find, middleware=changing)
        result = await agent.run("Order 7?", session=session)
        if decided == "in the log":
            await ledger.chat.approve("call_a", by="ann")
            agent = agent_of(ledger, client, find, middleware=[change])
            await ledger.resume(agent, session=session)
        elif decided is not None:
            (asked,) = result.user_input_requests
            assert asked.function_call is not None
            assert (asked.function_call.parse_arguments(), runs) == ({"number": 70}, [])
            reply = Message("user", [asked.to_function_approval_response(True)])
            await agent.run(reply, session=session)
        number = 7 if decided == "in the log" else 70
        call = await ledger.chat.tool("call_a")
        assert (runs, call.effective_call.arguments) == ([number], {"number": number})

    played(url_in(tmp_path), scene, needs_approval=["find"] if decided else [])


def test_a_retry_by_middleware_is_another_attempt(tmp_path: Path) -> None:
    """The first attempt has the tool's exception, the second its result."""
    runs: list[int] = []

    def find(number: int) -> str:
        """Find an order."""
        runs.append(number)
        if len(runs) == 1:
            raise ConnectionRefusedError("carrier down")
        return "found"

    @function_middleware
    async def retry(
        context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]
    ) -> None:
        try:
            await call_next()
        except ConnectionError:
            await call_next()

    async def scene(ledger: Ledger) -> None:
        client = scripted(("find", '{"number": 7}', "call_a"))
        await agent_of(ledger, client, find, middleware=[retry]).run("Order 7?")
        call = await ledger.chat.tool("call_a")
        assert (call.attempts, type(call.status)) == (2, Completed)

    played(url_in(tmp_path), scene)
    assert runs == [7, 7]


@pytest.mark.parametrize("way", ["answers", "raises", "ends the run"])
def test_middleware_in_place_of_the_tool(tmp_path: Path, way: str) -> None:
    """Its answer completes the call without an attempt, and its error rejects it."""

    @function_middleware
    async def instead(
        context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]
    ) -> None:
        if way == "raises":
            raise PermissionError("not today")
        context.result = "from a cache"
        if way == "ends the run":
            raise MiddlewareTermination

    async def scene(ledger: Ledger) -> None:
        await agent_of(ledger, scripted(CALL), lost, middleware=[instead]).run("Order 7?")
        call: Any = (await ledger.chat.tools())["call_a"]
        if way == "raises":
            assert (call.attempts, type(call.status)) == (0, Rejected)
        else:
            assert (call.attempts, call.response.result) == (0, "from a cache")

    played(url_in(tmp_path), scene)


def test_a_tool_that_ends_the_run_has_completed(tmp_path: Path) -> None:
    """Its result is that with which it ends the run."""

    def last(number: int) -> str:
        """End the run."""
        raise MiddlewareTermination(result=f"order {number} is lost")

    async def scene(ledger: Ledger) -> None:
        client = scripted(("last", '{"number": 7}', "call_a"))
        await agent_of(ledger, client, last).run("Order 7?")
        call: Any = await ledger.chat.tool("call_a")
        assert (call.attempts, call.response.result) == (1, "order 7 is lost")

    played(url_in(tmp_path), scene)


def test_a_tool_that_needs_input_pauses(tmp_path: Path) -> None:
    """The call has not failed, and runs again with a decision."""
    runs: list[int] = []

    def pay(number: int) -> str:
        """Ask for consent first."""
        runs.append(number)
        if len(runs) == 1:
            consent = Content.from_oauth_consent_request("https://example.com")
            raise UserInputRequiredException([consent])
        return "paid"

    async def scene(ledger: Ledger) -> None:
        client = scripted(("pay", '{"number": 7}', "call_a"))
        agent = agent_of(ledger, client, pay)
        (asked,) = (await agent.run("Pay.")).user_input_requests
        assert asked.type == "oauth_consent_request"
        assert (await ledger.chat.tool("call_a")).is_paused
        (asked,) = (await ledger.resume(agent)).user_input_requests
        assert (asked.type, runs) == ("function_approval_request", [7])
        await ledger.chat.approve("call_a", by="ann")
        assert (await ledger.resume(agent)).messages[-1].text == DONE
        assert (await ledger.chat.tool("call_a")).attempts == 2

    played(url_in(tmp_path), scene)
    assert runs == [7, 7]


def test_the_host_runs_a_call_of_a_definition(tmp_path: Path) -> None:
    """The call stays open until the host hands over its result."""
    schema: Any = {"type": "object", "properties": {"number": {"type": "integer"}}}
    definition = FunctionTool(name="lost", description="Find an order.", input_model=schema)

    async def scene(ledger: Ledger) -> None:
        client, session = scripted(CALL), AgentSession()
        agent = agent_of(ledger, client, definition)
        (asked,) = (await agent.run("Order 7?", session=session)).user_input_requests
        assert isinstance((await ledger.chat.tool("call_a")).status, Pending)
        result = Content.from_function_result("call_a", result="it is lost", id=asked.id)
        await agent.run(Message("tool", [result]), session=session)
        call: Any = await ledger.chat.tool("call_a")
        assert (call.attempts, call.response.result) == (0, "it is lost")

    played(url_in(tmp_path), scene)


def test_a_resumed_run_streams(tmp_path: Path) -> None:
    """The framework runs the open call of the recorded response, and then streams the model's."""

    async def scene(ledger: Ledger) -> None:
        client = scripted(CALL)
        await agent_of(ledger, client, lost).run("Order 7?")
        await ledger.chat.approve("call_a", by="ann")
        again = Ledger(ledger.chat)
        stream = await again.resume(agent_of(again, client, lost), stream=True)
        assert "".join([update.text async for update in stream]) == DONE
        assert isinstance((await ledger.chat.tool("call_a")).status, Completed)

    played(url_in(tmp_path), scene, needs_approval=["lost"])


def test_media_are_in_the_log_and_in_the_next_request(tmp_path: Path) -> None:
    """An image of the user and one of a tool come back as they were."""
    picture = Content.from_data(b"\x89PNG", "image/png")

    def draw() -> list[Content]:
        """Draw a dot."""
        return [Content.from_text("a dot"), picture]

    async def scene(ledger: Ledger) -> None:
        client = scripted(("draw", "{}", "call_a"))
        await agent_of(ledger, client, draw).run(Message("user", ["Like this?", picture]))
        again = Ledger(ledger.chat)
        await agent_of(again, client, draw).run("And now?")
        _, live, later = client.prompts
        assert shown(later)[: len(live)] == shown(live)
        assert [c.uri for c in later[0].contents] == [None, picture.uri]
        items = later[2].contents[0].items or ()
        assert [(item.text, item.uri) for item in items] == [
            ("a dot", None),
            (None, picture.uri),
        ]

    played(url_in(tmp_path), scene)


def test_the_next_run_gets_thinking_back(tmp_path: Path) -> None:
    """The response is what the framework had, with what its provider protects."""
    thinking = Content.from_text_reasoning(text="An order.", protected_data="c2ln")

    class Thinking(ScriptedClient):
        async def _inner_get_response(self, **asked: Any) -> Any:
            response = await super()._inner_get_response(**asked)
            response.messages[0].contents.insert(0, thinking)
            return response

    async def scene(ledger: Ledger) -> None:
        client = Thinking(Play(url="", script=(Said(DONE), AGAIN)))
        await agent_of(ledger, client).run("Order 7?")
        await agent_of(Ledger(ledger.chat), client).run("And order 8?")
        assert client.prompts[1][1].contents[0] == thinking

    played(url_in(tmp_path), scene)


def test_ids_that_a_model_repeats_are_distinguished(tmp_path: Path) -> None:
    """Each run's call has its own result, although the ids are equal."""

    async def scene(ledger: Ledger) -> None:
        script = tuple(
            said
            for number in (7, 8)
            for said in (Said("", (("lost", f'{{"number": {number}}}', "call_a"),)), Said(DONE))
        )
        client = ScriptedClient(Play(url="", script=script))
        for number in (7, 8):
            await agent_of(ledger, client, lost).run(f"Order {number}?")
        results = [m.contents[0].result for m in client.prompts[-1] if m.role == "tool"]
        assert results == ["order 7 is lost", "order 8 is lost"]
        recorded: Any = (await ledger.chat.tools()).values()
        assert [call.response.result for call in recorded] == results

    played(url_in(tmp_path), scene)


def test_a_call_without_an_id_gets_one(tmp_path: Path) -> None:
    """The log and the framework know the call by the same."""

    async def scene(ledger: Ledger) -> None:
        client = scripted(("lost", '{"number": 7}', ""))
        await agent_of(ledger, client, lost).run("Order 7?")
        (call,) = (await ledger.chat.tools()).values()
        assert isinstance(call.status, Completed)

    played(url_in(tmp_path), scene)


def test_words_that_others_add_to_a_request_stay_there(tmp_path: Path) -> None:
    """The words of a context provider and of middleware are shown, and are not in the log."""

    class Memory(ContextProvider):
        async def before_run(self, *, context: Any, **given: Any) -> None:
            context.extend_messages(self, [Message("user", ["Ann likes tea."])])

    @chat_middleware
    async def brief(context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        context.messages = [Message("system", ["Be brief."]), *context.messages]
        await call_next()

    async def scene(ledger: Ledger) -> None:
        client = scripted(CALL)
        providers: list[Any] = [ledger, Memory("memory")]
        agent = Agent(client, tools=[lost], context_providers=providers, middleware=[brief])
        await agent.run("Order 7?")
        texts = [message.text for message in client.prompts[-1]]
        assert texts == ["Be brief.", "Ann likes tea.", "Order 7?", "", ""]
        said = [each.event async for each in ledger.chat.events()]
        words = [str(e.parts) for e in said if isinstance(e, MessageAdded) and e.role == "user"]
        assert words == ["(Text(text='Order 7?'),)"]

    played(url_in(tmp_path), scene)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"require_per_service_call_history_persistence": True}, "no middleware"),
        ({"default_options": {"store": True}}, "'store': False"),
        ({"default_options": {"conversation_id": "resp_1"}}, "no conversation_id"),
    ],
)
def test_an_agent_that_the_log_would_not_answer_is_refused(
    tmp_path: Path, options: dict[str, Any], named: str
) -> None:
    """The error names the option, and nothing is asked."""

    async def scene(ledger: Ledger) -> None:
        client = scripted(CALL)
        with pytest.raises(ValueError, match=named):
            await agent_of(ledger, client, lost, **options).run("Order 7?")
        assert client.prompts == []

    played(url_in(tmp_path), scene)


def test_another_history_beside_the_log_is_refused(tmp_path: Path) -> None:
    """The same holds for words of the model among a run's, and for an agent without it."""

    async def scene(ledger: Ledger) -> None:
        client = scripted(CALL)
        both = Agent(client, context_providers=[InMemoryHistoryProvider(), ledger])
        with pytest.raises(ValueError, match="read everything twice"):
            await both.run("Order 7?")
        with pytest.raises(ValueError, match="pass the new words alone"):
            await agent_of(ledger, client).run([Message("assistant", ["Yes."]), "Order 7?"])
        with pytest.raises(ValueError, match="context_providers=\\[ledger\\]"):
            await ledger.resume(Agent(client))
        kept = InMemoryHistoryProvider(load_messages=False)
        await Agent(client, context_providers=[kept, ledger]).run("Order 7?")

    played(url_in(tmp_path), scene)


@pytest.mark.parametrize(("order", "in_doubt"), [(1, True), (7, False)])
def test_a_call_to_a_server_that_does_not_answer_is_in_doubt(
    order: int, in_doubt: bool, tmp_path: Path
) -> None:
    """The framework sends the call again once; the refund may have happened twice."""
    script = str(Path(__file__).with_name("bank_server.py"))
    command = {"command": sys.executable, "args": [script, str(tmp_path / "effects")]}

    async def scene(ledger: Ledger) -> None:
        client = scripted(("refund", f'{{"number": {order}}}', "call_a"))
        async with MCPStdioTool(name="bank", **command) as bank:
            await agent_of(ledger, client, bank).run("Refund it.")
        call = await ledger.chat.tool("call_a")
        assert isinstance(call.status, Failed if in_doubt else Completed)
        assert call.in_doubt == in_doubt
        assert ("may have taken effect" in client.asked) == in_doubt

    played("sqlite://", scene)
