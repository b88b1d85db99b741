"""anthropic plays the scenes, and what its tool runner has of its own is kept."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from integrations.scenes import DONE, Said, Scenes
from support.frameworks import required

required("anthropic.lib.tools")

from anthropic import beta_async_tool, beta_tool
from integrations.anthropic_transport import ScriptedAPI

from eventstore import (
    AsyncEventStore,
    Completed,
    Conversation,
    Failed,
    MessageAdded,
    ModelResponded,
    Pending,
    ResponseFailed,
)
from eventstore.integrations.anthropic import Ledger

OPTIONS: Any = {"model": "claude-opus-4-8", "max_tokens": 1000}


class TestAnthropic(Scenes):
    """The scenes with the runner of a `Ledger`."""

    framework = "anthropic"
    attempts_of_bad_arguments = 1


@beta_tool
def lost(number: int) -> str:
    """Find an order that was lost."""
    return f"order {number} is lost"


async def waited(number: int) -> str:
    """Find an order, awaited."""
    return str(number)


def test_parallel_calls_of_one_tool_keep_their_results(chat: Conversation) -> None:
    """The calls are told apart by their arguments, and twins by their order."""
    numbers = {"a": 7, "b": 8, "c": 7}
    calls = tuple(("lost", f'{{"number": {n}}}', call_id) for call_id, n in numbers.items())
    api = ScriptedAPI([Said("", calls), Said(DONE)])
    Ledger(chat).tool_runner(api.client(), "Orders?", tools=[lost], **OPTIONS).until_done()
    results = {i: tool.response.result for i, tool in chat.tools.items() if tool.response}
    assert results == {i: f"order {number} is lost" for i, number in numbers.items()}


def test_the_next_run_gets_the_history(chat: Conversation) -> None:
    """The words, the call and its result are in the next request; a host's `system` stays."""
    api = ScriptedAPI([Said("", (("lost", '{"number": 7}', "a"),)), Said("Lost."), Said(DONE)])
    ledger = Ledger(chat)
    options = {**OPTIONS, "tools": [lost], "system": "Be short."}
    ledger.tool_runner(api.client(), "Order 7?", **options).until_done()
    messages = list(ledger.tool_runner(api.client(), "Thanks.", **options))
    assert [m.content[0].text for m in messages] == [DONE]
    last = api.requests[-1]
    assert [m["role"] for m in last["messages"]] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]
    assert last["system"] == "Be short."
    assert "order 7 is lost" in str(last["messages"][2])


def test_a_streamed_message_is_recorded_before_its_calls(chat: Conversation) -> None:
    """A loop over streams runs its tools after each, and the calls are on disk by then."""
    api = ScriptedAPI([Said("Look.", (("lost", '{"number": 7}', "a"),)), Said(DONE)])
    said = ""
    runner = Ledger(chat).tool_runner(api.client(), "?", tools=[lost], stream=True, **OPTIONS)
    for stream in runner:
        said += "".join(stream.text_stream)
    assert said == "Look." + DONE
    assert isinstance(chat.tools["a"].status, Completed)


@pytest.mark.filterwarnings("ignore:Tool 'nothing' not found")
def test_an_unknown_tool_is_a_failure(chat: Conversation) -> None:
    """The call fails with kind validation; a definition that the host runs itself stays open."""
    api = ScriptedAPI([Said("", (("nothing", "{}", "a"),)), Said(DONE)])
    Ledger(chat).tool_runner(api.client(), "?", tools=[lost], **OPTIONS).until_done()
    status = chat.tools["a"].status
    assert isinstance(status, Failed)
    assert status.failure.kind == "validation"


@pytest.mark.parametrize("edited", [None, {"number": 9}])
def test_the_other_call_runs_while_one_waits(
    chat: Conversation, edited: dict[str, Any] | None
) -> None:
    """The other call of the turn runs; the one that waits runs as it was approved."""

    @beta_tool
    def refund(number: int) -> str:
        """Refund an order."""
        return f"refunded {number}"

    calls = (("refund", '{"number": 7}', "r"), ("lost", '{"number": 7}', "a"))
    api = ScriptedAPI([Said("", calls), Said(DONE)])
    ledger = Ledger(chat, needs_approval=["refund"])
    options = {**OPTIONS, "tools": [lost, refund]}
    ledger.tool_runner(api.client(), "?", **options).until_done()
    assert [type(tool.status) for tool in chat.tools.values()] == [Pending, Completed]
    assert ledger.tool_runner(api.client(), **options).until_done() is None
    chat.approve("r", edited)
    ledger.tool_runner(api.client(), **options).until_done()
    response = chat.tools["r"].response
    assert response is not None
    assert response.result == f"refunded {9 if edited else 7}"


def test_unrecorded_tools_and_clients_are_refused(chat: Conversation) -> None:
    """Tools that would run unrecorded are refused, and clients that need another store."""
    api = ScriptedAPI([])
    with pytest.raises(ValueError, match="run_tools_eagerly"):
        Ledger(chat).tool_runner(api.client(), "?", run_tools_eagerly=True, **OPTIONS)
    with pytest.raises(TypeError, match="AsyncEventStore"):
        Ledger(chat).tool_runner(api.async_client(), "?", **OPTIONS)
    with pytest.raises(TypeError, match="beta_tool"):
        Ledger(chat).tool_runner(api.client(), "?", tools=[len], **OPTIONS)
    awaited = Ledger(chat).tool_runner(
        api.client(), "?", tools=[beta_async_tool(waited)], **OPTIONS
    )
    with pytest.raises(TypeError, match="async tool"):
        awaited.until_done()


def test_a_message_that_was_cut_off_runs_nothing(chat: Conversation) -> None:
    """The calls of a message that ended at its limit fail, and a later runner leaves them."""
    api = ScriptedAPI([Said("", (("lost", '{"number": 7}', "a"),)), Said(DONE)], "max_tokens")
    options = {**OPTIONS, "tools": [lost]}
    Ledger(chat).tool_runner(api.client(), "Order 7?", **options).until_done()
    message = Ledger(chat).tool_runner(api.client(), **options).until_done()
    (tool,) = chat.tools.values()
    assert isinstance(tool.status, Failed)
    assert (tool.status.failure.code, tool.attempts) == ("broken_off", 0)
    assert message.content[0].text == DONE


def test_calls_of_a_message_that_the_server_paused_run(chat: Conversation) -> None:
    """The SDK sends such a message back as it is; a set of tools without a name is no obstacle."""
    calls = (("lost", '{"number": 7}', "a"), ("lost", '{"number": 7}', "b"))
    api = ScriptedAPI([Said("", calls), Said(DONE)], "pause_turn")
    tools = [lost, {"type": "mcp_toolset", "mcp_server_name": "s"}]
    message = Ledger(chat).tool_runner(api.client(), "?", tools=tools, **OPTIONS).until_done()
    assert message.content[0].text == DONE
    assert [type(tool.status) for tool in chat.tools.values()] == [Completed, Completed]


@pytest.mark.parametrize("first", ["complete", "fail", "reject", "start", "start a read-only one"])
def test_an_open_call_runs_whatever_became_of_equal_ones(chat: Conversation, first: str) -> None:
    """A call is found by its id on resume: each that may start runs once, and nothing is raised.

    While an equal call is in doubt none may start, unless its tool only reads.
    """
    calls = tuple(("lost", '{"number": 7}', call_id) for call_id in "abc")
    api = ScriptedAPI([Said("", calls), Said(DONE)])
    options = {**OPTIONS, "tools": [lost]}
    for _ in Ledger(chat).tool_runner(api.client(), "?", **options):
        break
    ends: dict[str, Any] = {
        "complete": lambda: chat.complete("a", "lost before"),
        "fail": lambda: chat.fail("a", "carrier down"),
        "reject": lambda: chat.reject("a", by="grace"),
        "start": lambda: chat.start("a"),
        "start a read-only one": lambda: chat.start("a"),
    }
    ends[first]()
    before = chat.tools["a"]
    ledger = Ledger(chat, read_only=["lost"] if "read-only" in first else [])
    message = ledger.tool_runner(api.client(), **options).until_done()
    assert message.content[0].text == DONE
    assert chat.tools["a"] == before
    attempts = 0 if first == "start" else 1
    assert [chat.tools[call_id].attempts for call_id in "bc"] == [attempts, attempts]


def test_a_call_that_is_edited_while_others_run_runs_as_the_log_says(chat: Conversation) -> None:
    """A resume has read it before."""
    ran: list[int] = []

    @beta_tool
    def lost(number: int) -> str:
        """Find an order; meanwhile a person edits the next call."""
        ran.append(number)
        if len(ran) == 1:
            chat.approve("b", {"number": 1}, by="grace")
        return "lost"

    calls = (("lost", '{"number": 7}', "a"), ("lost", '{"number": 100}', "b"))
    api = ScriptedAPI([Said("", calls), Said(DONE)])
    options = {**OPTIONS, "tools": [lost]}
    for _ in Ledger(chat).tool_runner(api.client(), "?", **options):
        break
    Ledger(chat).tool_runner(api.client(), **options).until_done()
    assert ran == [7, 1]
    assert isinstance(chat.tools["b"].status, Completed)


def test_a_loop_may_be_left(chat: Conversation) -> None:
    """The calls of the last message did not run; a runner without a prompt runs them."""
    api = ScriptedAPI([Said("", (("lost", '{"number": 7}', "a"),)), Said(DONE)])
    options = {**OPTIONS, "tools": [lost]}
    for _ in Ledger(chat).tool_runner(api.client(), "Order 7?", **options):
        break
    assert isinstance(chat.tools["a"].status, Pending)
    Ledger(chat).tool_runner(api.client(), **options).until_done()
    assert isinstance(chat.tools["a"].status, Completed)


class FailsFirst(ScriptedAPI):
    """An API that answers the first request with status 200 and a failure."""

    def __init__(self, failure: dict[str, Any], script: list[Said]) -> None:
        super().__init__(script)
        self._failure = failure

    def _answer(self, request: Any) -> Any:
        answer = super()._answer(request)
        if len(self.requests) > 1:
            return answer
        if not self.requests[0].get("stream"):
            return type(answer)(200, json=self._failure)
        events = [self._failure]
        if self._failure["type"] == "message":
            end = {"stop_reason": "refusal", "stop_sequence": None}
            events = [
                {"type": "message_start", "message": {**self._failure, "stop_reason": None}},
                {"type": "message_delta", "delta": end, "usage": {"output_tokens": 0}},
                {"type": "message_stop"},
            ]
        text = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)
        return type(answer)(200, headers={"content-type": "text/event-stream"}, content=text)


OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
REFUSED = {
    "id": "msg_r",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-4-8",
    "content": [],
    "stop_reason": "refusal",
    "stop_sequence": None,
    "usage": {"input_tokens": 10, "output_tokens": 0},
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("failure", [OVERLOADED, REFUSED], ids=["overloaded", "refused"])
def test_a_message_that_failed_is_raised_and_the_next_run_asks_again(
    failure: dict[str, Any], is_async: bool, stream: bool
) -> None:
    """The failure is nobody's words; the SDK raises its own exception at an error."""

    async def main() -> None:
        async with AsyncEventStore.open("sqlite://") as store:
            chat, api = store.conversation("c"), FailsFirst(failure, [Said(DONE)])
            client: Any = api.async_client() if is_async else api.client()
            options = {**OPTIONS, "tools": [], "stream": stream}

            async def run(*prompt: str) -> Any:
                runner = Ledger(chat).tool_runner(client, *prompt, **options)
                if is_async:
                    return await runner.until_done()
                return await asyncio.to_thread(runner.until_done)

            # The SDK itself stops at an error, of status 200 with an AttributeError of its own.
            kind = Exception if failure is OVERLOADED else ResponseFailed
            with pytest.raises(kind):
                await run("7?")
            said, *failed = [each.event async for each in chat.events()]
            assert isinstance(said, MessageAdded)
            assert all(isinstance(each, ModelResponded) and each.failed for each in failed)
            assert failed or kind is Exception
            assert (await run()).content[0].text == DONE
            assert api.requests[0] == api.requests[1]

    asyncio.run(main())
