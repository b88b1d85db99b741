"""LangChain plays the scenes, and what it has of its own is kept."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from integrations.scenes import DONE, Said, ScenesWithDecisions
from support.frameworks import required

required("langchain")

from integrations.langchain_model import ScriptedModel
from langchain.agents import create_agent
from langchain.agents.middleware import (
    HumanInTheLoopMiddleware,
    ToolErrorMiddleware,
    ToolRetryMiddleware,
)
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel

from eventstore import CallChanged, Completed, Conversation, Failed, Rejected
from eventstore.domain.doubt import MAY_HAVE_TAKEN_EFFECT
from eventstore.integrations.langchain import Ledger

THREAD: Any = {"configurable": {"thread_id": "c"}}
ASKS = {"messages": [("user", "Order 7?")]}
LOST = Said("", (("lost", '{"number": 7}', "a"),))


class TestLangChain(ScenesWithDecisions):
    """The scenes with a `Ledger` as middleware."""

    framework = "langchain"
    attempts_of_bad_arguments = 1


def lost(number: int) -> str:
    """Find an order that was lost."""
    return f"order {number} is lost"


@pytest.mark.parametrize(
    ("said_of_end", "runs"),
    [
        ({"model_provider": "ollama", "done": True, "done_reason": "length"}, 0),
        ({"model_provider": "bedrock_converse", "stopReason": "max_tokens"}, 0),
        ({"model_provider": "anthropic", "stop_reason": "refusal"}, 0),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, 0),
        ({"finish_reason": "STOP", "prompt_feedback": {"block_reason": "SAFETY"}}, 0),
        ({"model_provider": "google_genai", "finish_reason": "MAX_TOKENSMAX_TOKENS"}, 0),
        ({"model_provider": "google_genai", "finish_reason": "STOPSTOPSTOP"}, 1),
        ({"model_provider": "openai", "status": "completed", "object": "response"}, 1),
    ],
)
def test_a_response_is_whole_as_its_package_says(
    chat: Conversation, said_of_end: dict[str, Any], runs: int
) -> None:
    """Each package leaves its provider's words in the member where the provider has them."""
    model = ScriptedModel(script=[LOST, Said("Lost.")], said_of_end=said_of_end)
    create_agent(model, [lost], middleware=[Ledger(chat)]).invoke(ASKS)
    (tool,) = chat.tools.values()
    assert (tool.attempts, tool.status.name) == (runs, "Completed" if runs else "Failed")


def test_the_next_run_gets_the_history(chat: Conversation) -> None:
    """An agent without a checkpointer is asked with the words, the call and its result."""
    first = ScriptedModel(script=[LOST, Said("Lost.")])
    create_agent(first, [lost], middleware=[Ledger(chat)]).invoke(ASKS)
    second = ScriptedModel(script=[LOST, Said("Lost."), Said("You are welcome.")])
    agent = create_agent(second, [lost], middleware=[Ledger(chat)])
    result = agent.invoke({"messages": [("user", "Thanks.")]})
    shown = [(type(message), str(message.text)) for message in second.seen[0]]
    assert shown == [
        (HumanMessage, "Order 7?"),
        (AIMessage, ""),
        (ToolMessage, "order 7 is lost"),
        (AIMessage, "Lost."),
        (HumanMessage, "Thanks."),
    ]
    assert result["messages"][-1].text == "You are welcome."
    said = [r.event.role for r in chat.events() if r.event.tag == "message"]
    assert (said.count("user"), len(chat.tools)) == (2, 1)


def test_a_retry_by_middleware_is_another_attempt(chat: Conversation) -> None:
    """A call that the framework tries again in the same step runs again, and both are counted."""
    tries: list[int] = []

    def flaky(number: int) -> str:
        """Find an order at the second try."""
        tries.append(number)
        if len(tries) == 1:
            raise ConnectionRefusedError("carrier down")
        return "found"

    script = [Said("", (("flaky", '{"number": 7}', "a"),)), Said(DONE)]
    retry = ToolRetryMiddleware(initial_delay=0.0, jitter=False)
    agent = create_agent(ScriptedModel(script=script), [flaky], middleware=[retry, Ledger(chat)])
    agent.invoke(ASKS)
    (tool,) = chat.tools.values()
    assert isinstance(tool.status, Completed)
    assert (tool.attempts, len(tries)) == (2, 2)


@pytest.mark.parametrize("error", [TimeoutError("no answer"), ValueError("no such order")])
def test_an_error_that_middleware_tells_says_of_a_doubt(
    chat: Conversation, error: Exception
) -> None:
    """The model reads the middleware's words, and that the call may have taken effect."""

    def refund(number: int) -> str:
        """Refund an order."""
        raise error

    in_doubt = isinstance(error, TimeoutError)
    model = ScriptedModel(script=[Said("", (("refund", '{"number": 7}', "a"),)), Said(DONE)])
    tells = ToolErrorMiddleware(lambda error, _: f"It failed: {type(error).__name__}.")
    create_agent(model, [refund], middleware=[tells, Ledger(chat)]).invoke(ASKS)
    assert chat.tools["a"].in_doubt == in_doubt
    line = f". {MAY_HAVE_TAKEN_EFFECT}" if in_doubt else "."
    assert model.seen[-1][-1].text == f"It failed: {type(error).__name__}{line}"


@pytest.mark.parametrize("decided", ["approve", "edit", "reject"])
def test_the_middleware_for_people_decides(chat: Conversation, decided: str) -> None:
    """The log has the decision that a person makes through LangChain's own middleware."""
    decision: dict[str, Any] = {"type": decided}
    if decided == "edit":
        decision["edited_action"] = {"name": "lost", "args": {"number": 8}}
    people = HumanInTheLoopMiddleware(interrupt_on={"lost": True})
    agent = create_agent(
        ScriptedModel(script=[LOST, Said(DONE)]),
        [lost],
        middleware=[people, Ledger(chat)],
        checkpointer=InMemorySaver(),
    )
    assert "__interrupt__" in agent.invoke(ASKS, THREAD)
    agent.invoke(Command(resume={"decisions": [decision]}), THREAD)
    (tool,) = chat.tools.values()
    if decided == "reject":
        assert isinstance(tool.status, Rejected)
        assert tool.attempts == 0
        return
    assert tool.response is not None
    number = 8 if decided == "edit" else 7
    assert tool.response.result == f"order {number} is lost"
    assert tool.effective_call.arguments == {"number": number}


@pytest.mark.parametrize("decided", ["approve", "edit", "reject"])
def test_a_late_decision_by_the_middleware_decides_nothing(
    chat: Conversation, decided: str
) -> None:
    """Another desk has edited the call, and its tool has paused, while a person was asked."""
    decision: dict[str, Any] = {"type": decided}
    if decided == "edit":
        decision["edited_action"] = {"name": "lost", "args": {"number": 8}}
    agent = create_agent(
        ScriptedModel(script=[LOST, Said(DONE)]),
        [lost],
        middleware=[HumanInTheLoopMiddleware(interrupt_on={"lost": True}), Ledger(chat)],
        checkpointer=InMemorySaver(),
    )
    agent.invoke(ASKS, THREAD)
    chat.approve("a", {"number": 9000}, by="grace")
    with chat.running("a") as attempt:
        attempt.pause()
    late = Command(resume={"decisions": [decision]})
    if decided == "reject":
        with pytest.raises(CallChanged) as caught:
            agent.invoke(late, THREAD)
        assert caught.value.now.effective_call.arguments == {"number": 9000}
    else:
        (asked,) = agent.invoke(late, THREAD)["__interrupt__"]
        assert asked.value["args"] == {"number": 9000}
    assert (chat.tools["a"].is_paused, chat.tools["a"].attempts) == (True, 1)


def test_a_middleware_behind_the_ledger_changes_no_arguments(chat: Conversation) -> None:
    """The log would have other arguments than the tool."""
    edited = {"name": "lost", "args": {"number": 8}}
    agent = create_agent(
        ScriptedModel(script=[LOST, Said(DONE)]),
        [lost],
        middleware=[Ledger(chat), HumanInTheLoopMiddleware(interrupt_on={"lost": True})],
        checkpointer=InMemorySaver(),
    )
    agent.invoke(ASKS, THREAD)
    decision = {"type": "edit", "edited_action": edited}
    with pytest.raises(RuntimeError, match="give create_agent\\(\\) the ledger as the last of its"):
        agent.invoke(Command(resume={"decisions": [decision]}), THREAD)
    (tool,) = chat.tools.values()
    assert (type(tool.status), tool.in_doubt) == (Failed, False)


def test_a_structured_response_does_not_stay_open(chat: Conversation) -> None:
    """A call that is the run's output, which no tool runs, is completed."""

    class Found(BaseModel):
        """What was found."""

        number: int

    script = [Said("", (("Found", '{"number": 7}', "a"),))]
    agent = create_agent(
        ScriptedModel(script=script), [], response_format=Found, middleware=[Ledger(chat)]
    )
    assert agent.invoke(ASKS)["structured_response"] == Found(number=7)
    assert isinstance(chat.tools["a"].status, Completed)


def test_asyncio_needs_the_store_for_asyncio(chat: Conversation) -> None:
    """The error names the store to open."""
    agent = create_agent(ScriptedModel(script=[Said(DONE)]), [], middleware=[Ledger(chat)])
    with pytest.raises(TypeError, match="AsyncEventStore"):
        asyncio.run(agent.ainvoke(ASKS))
