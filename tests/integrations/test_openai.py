"""openai plays the scenes over both of its APIs, and what its runner has of its own is kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from integrations.scenes import DONE, Said, Scenes
from support.frameworks import required

required("openai.types.responses")

from integrations.openai_transport import ScriptedAPI

from eventstore import (
    AsyncEventStore,
    Completed,
    Conversation,
    Failed,
    FunctionTool,
    MessageAdded,
    ModelResponded,
    Pending,
    ResponseFailed,
)
from eventstore.integrations.openai import Ledger

Api = Callable[..., Any]
BOTH = pytest.mark.parametrize("api", [Ledger.responses, Ledger.completions])
STREAMED = pytest.mark.parametrize("stream", [False, True])


class TestResponses(Scenes):
    """The scenes with `Ledger.responses`."""

    framework = "openai"


class TestCompletions(Scenes):
    """The scenes with `Ledger.completions`."""

    framework = "openai_chat"


def lost(number: int) -> str:
    """Find an order that was lost."""
    return f"order {number} is lost"


CALL = Said("Look.", (("lost", '{"number": 7}', "a"),))


@BOTH
@STREAMED
def test_the_blocking_client_is_served(chat: Conversation, api: Api, stream: bool) -> None:
    """The loop runs to its end, and hands through each response, or each chunk."""
    server = ScriptedAPI([CALL, Said(DONE)])
    runner = api(Ledger(chat, [lost]), server.client(), "7?", model="gpt-5", stream=stream)
    given = list(runner)
    assert len(given) > 2 if stream else len(given) == 2
    assert isinstance(chat.tools["a"].status, Completed)
    assert "order 7 is lost" in str(server.requests[-1])
    assert server.requests[0]["tools"]


@BOTH
def test_the_next_run_gets_the_history(chat: Conversation, api: Api) -> None:
    """All that was said stays, and the tools of the host stand beside ours."""
    server = ScriptedAPI([CALL, Said("Lost."), Said(DONE)])
    ledger = Ledger(chat, [lost])
    assert api(ledger, server.client(), "Order 7?", model="gpt-5").until_done() == "Lost."
    own = [{"type": "web_search"}]
    again = api(ledger, server.client(), "Thanks.", model="gpt-5", tools=own)
    assert again.until_done() == DONE
    assert "Order 7?" in str(server.requests[-1])
    assert len(server.requests[-1]["tools"]) == 2


@BOTH
@STREAMED
def test_a_response_that_was_cut_off_runs_nothing(
    chat: Conversation, api: Api, stream: bool
) -> None:
    """The calls of a response that ended at its limit fail, and a later runner leaves them."""
    server = ScriptedAPI([CALL, Said(DONE)], cut_off=True)
    ledger = Ledger(chat, [lost])
    api(ledger, server.client(), "7?", model="gpt-5", stream=stream).until_done()
    (tool,) = chat.tools.values()
    assert isinstance(tool.status, Failed)
    assert (tool.status.failure.code, tool.attempts) == ("broken_off", 0)
    assert api(ledger, server.client(), model="gpt-5", stream=stream).until_done() == DONE


@BOTH
@pytest.mark.parametrize("edited", [None, {"number": 9}])
def test_the_other_call_runs_while_one_waits(
    chat: Conversation, api: Api, edited: dict[str, Any] | None
) -> None:
    """The other call of the response runs; the one that waits runs as it was approved."""

    def refund(number: int) -> str:
        """Refund an order."""
        return f"refunded {number}"

    calls = (("refund", '{"number": 7}', "r"), ("lost", '{"number": 7}', "a"))
    server = ScriptedAPI([Said("", calls), Said(DONE)])
    ledger = Ledger(chat, [lost, FunctionTool(refund, needs_approval=True)])
    assert api(ledger, server.client(), "?", model="gpt-5").until_done() is None
    assert [type(tool.status) for tool in chat.tools.values()] == [Pending, Completed]
    assert api(ledger, server.client(), model="gpt-5").until_done() is None
    assert len(server.requests) == 1
    chat.approve("r", edited)
    assert api(ledger, server.client(), model="gpt-5").until_done() == DONE
    response = chat.tools["r"].response
    assert response is not None
    assert response.result == f"refunded {9 if edited else 7}"


@BOTH
def test_a_loop_may_be_left(chat: Conversation, api: Api) -> None:
    """The calls of the last response did not run; a runner without a prompt runs them."""
    server = ScriptedAPI([CALL, Said(DONE)])
    ledger = Ledger(chat, [lost])
    for _ in api(ledger, server.client(), "7?", model="gpt-5"):
        break
    assert isinstance(chat.tools["a"].status, Pending)
    assert api(ledger, server.client(), model="gpt-5").until_done() == DONE
    assert isinstance(chat.tools["a"].status, Completed)


def test_an_asynchronous_client_needs_its_store(chat: Conversation) -> None:
    """The error says how to open the log."""
    with pytest.raises(TypeError, match="AsyncEventStore"):
        Ledger(chat, [lost]).responses(ScriptedAPI([]).async_client(), "?", model="gpt-5")


class ClientItems(ScriptedAPI):
    """Calls in a form of its own first, and then says that it is done."""

    def __init__(self, called: dict[str, Any]) -> None:
        super().__init__([Said(DONE)])
        self._called = called

    def _response(self, body: dict[str, Any]) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
        whole, _ = super()._response({"input": []})
        if len(self.requests) == 1:
            whole |= {"id": "resp_called", "output": [self._called]}
        return whole, iter(())


@pytest.mark.parametrize("answer", [None, "failure"])
def test_a_function_runs_the_shell_of_the_api(chat: Conversation, answer: str | None) -> None:
    """The API's own tool alone is offered, and the output has the form of a shell's."""
    called = {
        "type": "shell_call",
        "id": "sh_1",
        "call_id": "a",
        "action": {"commands": ["make"], "timeout_ms": 9},
        "status": "completed",
    }
    ran: list[list[str]] = []

    def shell(commands: list[str], timeout_ms: int | None = None) -> dict[str, Any]:
        """Run commands."""
        ran.append(commands)
        if answer:
            raise OSError("no disk")
        return {"stdout": f"made {timeout_ms}", "stderr": "", "exit_code": 0}

    server = ClientItems(called)
    runner = Ledger(chat, [shell]).responses(
        server.client(), "Build it.", model="gpt-5", tools=[{"type": "shell"}]
    )
    assert runner.until_done() == DONE
    assert server.requests[0]["tools"] == [{"type": "shell"}]
    assert ran == [["make"]]
    assert server.requests[1]["input"][1] == called
    output = server.requests[1]["input"][2]
    assert output["type"] == "shell_call_output"
    assert ("no disk" if answer else "made 9") in str(output["output"])


@pytest.mark.parametrize("approved", [True, False])
def test_an_mcp_server_of_the_api_waits_for_a_person(chat: Conversation, approved: bool) -> None:
    """The run ends until somebody has decided; the answer is that decision."""
    asked = {
        "type": "mcp_approval_request",
        "id": "mcpr_1",
        "server_label": "shop",
        "name": "refund",
        "arguments": '{"order": 7}',
    }
    server = ClientItems(asked)
    tools = [{"type": "mcp", "server_label": "shop", "server_url": "https://shop.example"}]
    ledger = Ledger(chat, [lost])
    options: dict[str, Any] = {"model": "gpt-5", "tools": tools}
    assert ledger.responses(server.client(), "Refund it.", **options).until_done() is None
    (tool,) = chat.tools.values()
    assert isinstance(tool.status, Pending)
    if approved:
        chat.approve(tool.id, by="Ann")
    else:
        chat.reject(tool.id, reason="too dear")
    assert ledger.responses(server.client(), **options).until_done() == DONE
    answered = server.requests[1]["input"][2]
    assert (answered["approval_request_id"], answered["approve"]) == ("mcpr_1", approved)
    assert approved or "too dear" in answered["reason"]


TEXT = "The server is not well."
FAILURES: list[tuple[Api, dict[str, Any], str]] = [
    (Ledger.responses, {"error": {"message": TEXT, "code": 502}}, "error: 502"),
    (
        Ledger.responses,
        {
            "id": "resp_f",
            "object": "response",
            "created_at": 1,
            "model": "gpt-5",
            "status": "failed",
            "error": {"code": "server_error", "message": TEXT},
            "output": [],
        },
        "failed: server_error",
    ),
    (Ledger.completions, {"error": {"message": TEXT, "code": 502}}, "error: 502"),
    (Ledger.completions, {"id": "c", "object": "chat.completion", "choices": []}, "empty"),
]


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
        event = self._failure
        if event.get("object") == "response":
            event = {"type": "response.failed", "sequence_number": 1, "response": event}
        headers = {"content-type": "text/event-stream"}
        return type(answer)(200, headers=headers, content=f"data: {json.dumps(event)}\n\n")


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(("api", "failure", "reason"), FAILURES)
def test_a_response_that_failed_is_raised_and_the_next_run_asks_again(
    api: Api, failure: dict[str, Any], reason: str, is_async: bool
) -> None:
    """The failure is nobody's words: a runner without a prompt sends the same request."""

    async def main() -> None:
        async with AsyncEventStore.open("sqlite://") as store:
            chat, server = store.conversation("c"), FailsFirst(failure, [Said(DONE)])
            client: Any = server.async_client() if is_async else server.client()
            ledger = Ledger(chat, [lost])

            async def run(*prompt: str) -> Any:
                runner = api(ledger, client, *prompt, model="gpt-5")
                if is_async:
                    return await runner.until_done()
                return await asyncio.to_thread(runner.until_done)

            with pytest.raises(ResponseFailed) as raised:
                await run("7?")
            assert raised.value.reason == reason
            said, failed = [each.event async for each in chat.events()]
            assert isinstance(said, MessageAdded)
            assert isinstance(failed, ModelResponded)
            assert (failed.failed, failed.finish_reason) == (True, reason)
            assert await run() == DONE
            assert server.requests[0] == server.requests[1]

    asyncio.run(main())


@pytest.mark.parametrize(("api", "failure", "reason"), FAILURES)
def test_a_stream_that_failed_is_raised(
    chat: Conversation, api: Api, failure: dict[str, Any], reason: str
) -> None:
    """By the SDK, which knows some errors itself, or by the runner."""
    server = FailsFirst(failure, [Said(DONE)])
    ledger = Ledger(chat, [lost])
    if reason == "empty":  # a stream without a word may be cut off: nothing is known of it
        return
    with pytest.raises(Exception, match=TEXT):
        api(ledger, server.client(), "7?", model="gpt-5", stream=True).until_done()
    assert api(ledger, server.client(), model="gpt-5", stream=True).until_done() == DONE
    first, second = server.requests
    assert first == second


@BOTH
def test_an_answer_without_words_is_an_empty_text(chat: Conversation, api: Api) -> None:
    """The words of the user are not taken for it."""
    server = ScriptedAPI([Said("")])
    assert api(Ledger(chat, [lost]), server.client(), "7?", model="gpt-5").until_done() == ""
