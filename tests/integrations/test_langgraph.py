"""LangGraph plays the scenes, and what it has of its own is kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from integrations.scenes import DONE, Said, ScenesWithDecisions, url_in
from support.frameworks import required

required("langgraph.checkpoint.sqlite")

from integrations.langchain_model import ScriptedModel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import tools_condition
from langgraph.types import Command, interrupt

from eventstore import Completed, Conversation, EventStore, Failed, Rejected
from eventstore.integrations.langgraph import Disagreement, Ledger
from projections import pending_approvals

THREAD: Any = {"configurable": {"thread_id": "c"}}
ASKS: Any = {"messages": [("user", "Order 7?")]}


class TestLangGraph(ScenesWithDecisions):
    """The scenes with a `Ledger` around the model and the tools."""

    framework = "langgraph"
    attempts_of_bad_arguments = 1


@pytest.fixture
def chat(tmp_path: Path) -> Iterator[Conversation]:
    """Return a conversation of the blocking store."""
    with EventStore.open(url_in(tmp_path)) as store:
        yield store.conversation("c")


def compiled(ledger: Ledger, script: list[Said], *tools: Any, **options: Any) -> Any:
    """Return the usual graph: a model, and a node for all of its calls."""
    graph = StateGraph(MessagesState)
    graph.add_node("model", ledger.model_node(ScriptedModel(script=script)))
    graph.add_node("tools", ledger.tool_node(tools, **options))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=InMemorySaver())


def test_a_resumed_superstep_runs_no_tool_twice(chat: Conversation) -> None:
    """The step that one tool broke is repeated, and each call gives what the log says."""
    ran: list[str] = []

    def refund(number: int) -> str:
        """Refund an order."""
        ran.append("refund")
        return f"refunded {number}"

    def mail(number: int) -> str:
        """Break the step."""
        ran.append("mail")
        raise ConnectionError("mail server down")

    calls = (("refund", '{"number": 7}', "a"), ("mail", '{"number": 7}', "b"))
    graph = compiled(Ledger(chat), [Said("", calls), Said(DONE)], refund, mail)
    with pytest.raises(ConnectionError):
        graph.invoke(ASKS, {**THREAD, "max_concurrency": 1})
    result = Ledger(chat).resume(graph, THREAD)
    assert result["messages"][-1].text == DONE
    assert sorted(ran) == ["mail", "refund"]
    answers = [(m.text, m.status) for m in result["messages"] if m.type == "tool"]
    assert answers[0] == ("refunded 7", "success")
    assert "mail server down" in answers[1][0]
    assert answers[1][1] == "error"
    assert [type(tool.status) for tool in chat.tools.values()] == [Completed, Failed]


def test_a_response_that_the_checkpoint_lost_is_given_again(chat: Conversation) -> None:
    """The model is not asked twice for the response that the log has."""

    def refund(number: int) -> str:
        """Refund an order."""
        raise KeyboardInterrupt

    script = [Said("I refund it.", (("refund", '{"number": 7}', "a"),)), Said(DONE)]
    with pytest.raises(KeyboardInterrupt):
        compiled(Ledger(chat), script, refund).invoke(ASKS, THREAD)
    before = chat.version
    other = [Said("I do something else.", (("refund", '{"number": 8}', "x"),)), Said(DONE)]
    result = compiled(Ledger(chat), other, refund).invoke(ASKS, THREAD)  # an empty checkpointer
    assert [m.text for m in result["messages"] if m.type == "ai"] == ["I refund it.", DONE]
    assert (list(chat.tools), chat.version) == (["a"], before + 2)  # words, and their usage


def test_a_tool_that_interrupts_pauses(chat: Conversation) -> None:
    """The call waits in the inbox, and goes on with what the host resumes the graph with."""

    def mail(to: str) -> str:
        """Ask, then send a mail."""
        return f"sent to {to}: {interrupt('may I?')}"

    script = [Said("", (("mail", '{"to": "ann"}', "m"),)), Said(DONE)]
    graph = compiled(Ledger(chat), script, mail)
    assert "__interrupt__" in graph.invoke(ASKS, THREAD)
    assert chat.tools["m"].is_paused
    result = graph.invoke(Command(resume="yes"), THREAD)
    assert result["messages"][-2].text == "sent to ann: yes"
    tags = [r.event.tag for r in chat.events() if r.call_id == "m"]
    assert tags == ["pending", "running", "paused", "approved", "running", "completed"]


@pytest.mark.parametrize("answer", [True, False])
def test_a_host_may_decide_with_a_command(tmp_path: Path, chat: Conversation, answer: bool) -> None:
    """A call of a tool that needs an approval is decided by the value that resumes the graph."""

    def mail(to: str) -> str:
        """Send a mail."""
        return f"sent to {to}"

    script = [Said("", (("mail", '{"to": "ann"}', "m"),)), Said(DONE)]
    graph = compiled(Ledger(chat, needs_approval=["mail"]), script, mail)
    assert "__interrupt__" in graph.invoke(ASKS, THREAD)
    with EventStore.open(url_in(tmp_path)) as store:
        assert [waiting.call_id for waiting in pending_approvals(store)] == ["m"]
    graph.invoke(Command(resume=answer), THREAD)
    assert type(chat.tools["m"].status) is (Completed if answer else Rejected)


def test_the_checkpoint_and_the_log_are_compared(chat: Conversation) -> None:
    """Both agree after a run; a call that one of them does not have is named."""

    def refund(number: int) -> str:
        """Refund an order."""
        return f"refunded {number}"

    ledger = Ledger(chat)
    graph = compiled(ledger, [Said("", (("refund", '{"number": 7}', "a"),)), Said(DONE)], refund)
    messages = graph.invoke(ASKS, THREAD)["messages"]
    assert ledger.disagreements(messages) == []
    chat.request("refund", {"number": 8}, "b")
    assert ledger.disagreements(messages) == [Disagreement("b", None, "Pending")]
    other = Ledger(EventStore.open("sqlite://").conversation("c"))
    assert other.disagreements(messages) == [Disagreement("a", "answered", None)]
