"""LangGraph plays the scenes, and what it has of its own is kept."""

from __future__ import annotations

import asyncio
from itertools import product
from typing import Any

import pytest
from integrations.scenes import DONE, Said, ScenesWithDecisions
from support.frameworks import required

required("langgraph.checkpoint.sqlite")

from integrations.langchain_model import ScriptedModel
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import tools_condition
from langgraph.types import Command, interrupt

from eventstore import (
    AsyncEventStore,
    Completed,
    Conversation,
    EventStore,
    Failed,
    Pending,
    Rejected,
)
from eventstore.integrations.langgraph import Disagreement, Ledger
from projections import pending_approvals

THREAD: Any = {"configurable": {"thread_id": "c"}}
ASKS: Any = {"messages": [("user", "Order 7?")]}


class TestLangGraph(ScenesWithDecisions):
    """The scenes with a `Ledger` around the model and the tools."""

    framework = "langgraph"
    attempts_of_bad_arguments = 1


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


def test_an_answer_to_a_tool_is_for_what_it_has_asked_about(chat: Conversation) -> None:
    """Another desk has edited the call since: the graph asks whether it may run, then the tool."""
    sent: list[str] = []

    def mail(to: str) -> str:
        """Ask, then send a mail."""
        if interrupt(f"mail {to}?") == "yes":
            sent.append(to)
        return "done"

    def asked() -> list[Any]:
        return [each.value for each in result.get("__interrupt__", ())]

    script = [Said("", (("mail", '{"to": "ann"}', "m"),)), Said(DONE)]
    graph = compiled(Ledger(chat), script, mail)
    result = graph.invoke(ASKS, THREAD)
    assert asked() == ["mail ann?"]
    chat.approve("m", {"to": "eve"}, by="grace")
    with chat.running("m") as attempt:
        attempt.pause()
    result = graph.invoke(Command(resume="yes"), THREAD)
    assert asked() == [{"call_id": "m", "name": "mail", "args": {"to": "eve"}}]
    result = graph.invoke(Command(resume=True), THREAD)
    assert (asked(), sent) == (["mail eve?"], [])
    result = graph.invoke(Command(resume="yes"), THREAD)
    assert (asked(), sent) == ([], ["eve"])


@pytest.mark.parametrize("answer", [True, False])
def test_a_host_may_decide_with_a_command(
    store: EventStore, chat: Conversation, answer: bool
) -> None:
    """A call of a tool that needs an approval is decided by the value that resumes the graph."""

    def mail(to: str) -> str:
        """Send a mail."""
        return f"sent to {to}"

    script = [Said("", (("mail", '{"to": "ann"}', "m"),)), Said(DONE)]
    graph = compiled(Ledger(chat, needs_approval=["mail"]), script, mail)
    assert "__interrupt__" in graph.invoke(ASKS, THREAD)
    assert [waiting.call_id for waiting in pending_approvals(store)] == ["m"]
    graph.invoke(Command(resume=answer), THREAD)
    assert type(chat.tools["m"].status) is (Completed if answer else Rejected)


@pytest.mark.parametrize("answer", [True, False])
def test_a_host_decides_on_what_it_was_shown(chat: Conversation, answer: bool) -> None:
    """Another desk edits the call, and it pauses: the host is asked about it as it is now."""
    paid: list[int] = []

    def pay(euros: int) -> str:
        """Pay."""
        paid.append(euros)
        return "paid"

    script = [Said("", (("pay", '{"euros": 1}', "p"),)), Said(DONE)]
    graph = compiled(Ledger(chat, needs_approval=["pay"]), script, pay)
    (asked,) = graph.invoke(ASKS, THREAD)["__interrupt__"]
    assert asked.value["args"] == {"euros": 1}
    chat.approve("p", {"euros": 9000}, by="second desk")
    chat.begin("p").pause(reason="more than 1,000")
    (asked,) = graph.invoke(Command(resume=answer), THREAD)["__interrupt__"]
    assert (asked.value["args"], paid) == ({"euros": 9000}, [])
    assert isinstance(chat.tools["p"].status, Pending)
    graph.invoke(Command(resume=answer), THREAD)
    assert paid == ([9000] if answer else [])
    assert isinstance(chat.tools["p"].status, Completed if answer else Rejected)


def with_calls_changed(ledger: Ledger, script: list[Said], tool: Any, **changed: Any) -> Any:
    """Return a graph with a node of the host's that changes the calls before they run."""

    def change(state: Any) -> Any:
        last = state["messages"][-1]
        calls = [{**call, **changed} for call in last.tool_calls]
        return {"messages": [last.model_copy(update={"tool_calls": calls})]} if calls else {}

    graph = StateGraph(MessagesState)
    graph.add_node("model", ledger.model_node(ScriptedModel(script=script)))
    graph.add_node("change", change)
    graph.add_node("tools", ledger.tool_node([tool]))
    graph.add_edge(START, "model")
    graph.add_edge("model", "change")
    graph.add_conditional_edges("change", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=InMemorySaver())


REFUNDS = [Said("", (("refund", '{"number": 7}', "a"),)), Said(DONE)]


class Refunds:
    """A tool that keeps what it has refunded."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def refund(self, number: int) -> str:
        """Refund an order."""
        self.numbers.append(number)
        return f"refunded {number}"


def test_arguments_that_the_graph_has_changed_need_their_own_yes(chat: Conversation) -> None:
    """The question shows them, the answer is for them, and the log has them."""
    refunds = Refunds()
    ledger = Ledger(chat, needs_approval=["refund"])
    graph = with_calls_changed(ledger, REFUNDS, refunds.refund, args={"number": 70})
    (asked,) = graph.invoke(ASKS, THREAD)["__interrupt__"]
    assert (asked.value["args"], refunds.numbers) == ({"number": 70}, [])
    graph.invoke(Command(resume=True), THREAD)
    assert refunds.numbers == [70]
    assert chat.tool("a").effective_call.arguments == {"number": 70}


def test_an_approval_in_the_log_is_for_the_arguments_of_the_log(chat: Conversation) -> None:
    """Other ones that the graph has in their place do not run."""
    refunds = Refunds()
    ledger = Ledger(chat, needs_approval=["refund"])
    graph = with_calls_changed(ledger, REFUNDS, refunds.refund, args={"number": 70})
    graph.invoke(ASKS, THREAD)
    chat.approve("a", by="ann", seen=chat.tool("a"))
    ledger.resume(graph, THREAD)
    assert refunds.numbers == [7]


def test_a_change_of_arguments_is_in_the_log(chat: Conversation) -> None:
    """Nobody needs to decide on the call."""
    refunds = Refunds()
    graph = with_calls_changed(Ledger(chat), REFUNDS, refunds.refund, args={"number": 70})
    graph.invoke(ASKS, THREAD)
    assert refunds.numbers == [70]
    assert chat.tool("a").effective_call.arguments == {"number": 70}


def test_a_call_does_not_become_one_of_another_tool(chat: Conversation) -> None:
    """Its id is that of a call in the log."""
    refunds = Refunds()
    graph = with_calls_changed(Ledger(chat), REFUNDS, refunds.refund, name="pay")
    with pytest.raises(LookupError, match="'refund' in the log, and of 'pay' in the graph"):
        graph.invoke(ASKS, THREAD)
    assert isinstance(chat.tool("a").status, Pending)


def test_threads_of_a_graph_may_give_one_id_to_two_calls(chat: Conversation) -> None:
    """The yes on one of them is for its own call."""
    refunds = Refunds()
    ledger = Ledger(chat, needs_approval=["refund"])
    other = [Said("", (("refund", '{"number": 8}', "a"),)), Said(DONE)]
    graph = compiled(ledger, REFUNDS, refunds.refund)
    graph.invoke(ASKS, THREAD)
    asks: Any = {"messages": [("user", "Order 8?")]}
    compiled(ledger, other, refunds.refund).invoke(asks, {"configurable": {"thread_id": "d"}})
    graph.invoke(Command(resume=True), THREAD)
    assert refunds.numbers == [7]
    assert [type(tool.status) for tool in chat.tools.values()] == [Completed, Pending]


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


# answers reach the call that they were asked for

NAMES = ("close", "empty", "lock")


class Asked:
    """A graph whose model calls each tool of `NAMES` once; `ran` are those that took effect."""

    def __init__(self, asks: dict[str, int], *, by: str, awaited: bool) -> None:
        self.ran: list[str] = []
        self._asks = asks
        names = list(asks)
        self._store: Any = None
        self.chat: Any = None
        self._by = by
        self._awaited = awaited
        self._script = [Said("", tuple((name, '{"day": "mon"}', name) for name in names))]
        self._script.append(Said(DONE))
        self.result: Any = None

    async def begin(self) -> None:
        """Ask for all calls."""
        if self._awaited:
            store = await AsyncEventStore.open("sqlite://")
            chat: Any = store.conversation("c")
            self.chat = chat.blocking
        else:
            chat = self.chat = EventStore.open("sqlite://").conversation("c")
        needs = list(self._asks) if self._by == "ledger" else []
        self.ledger = Ledger(chat, needs_approval=needs)
        tools = [self._tool(name, asks) for name, asks in self._asks.items()]
        self.graph = compiled(self.ledger, self._script, *tools)
        await self.go_on(ASKS)

    async def go_on(self, given: Any) -> None:
        """Give the graph something."""
        if self._awaited:
            self.result = await self.graph.ainvoke(given, THREAD)
        else:
            self.result = self.graph.invoke(given, THREAD)

    async def answer(self, answer: object, *, by_id: bool) -> None:
        """Answer the question that is asked."""
        (asked,) = self.result["__interrupt__"]
        await self.go_on(Command(resume={asked.id: answer} if by_id else answer))

    @property
    def asked(self) -> str | None:
        """The name of the call whose question is asked."""
        waiting = self.result.get("__interrupt__")
        if not waiting:
            return None
        name: str = waiting[0].value["name"]
        return name

    def _tool(self, name: str, asks: int) -> StructuredTool:
        def run(day: str) -> str:
            """Do something that cannot be undone."""
            if self._by == "tool":
                for number in range(asks):
                    if interrupt({"name": name, "number": number}) is not True:
                        return "refused"
            self.ran.append(name)
            return f"done on {day}"

        async def arun(day: str) -> str:
            return run(day)

        return StructuredTool.from_function(run, arun, name=name)


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("by", ["tool", "ledger"])
def test_an_answer_reaches_its_own_call(by: str, awaited: bool) -> None:
    """Two and three calls wait: those run that were allowed, by value and by id."""

    async def play(answers: dict[str, bool], *, by_id: bool) -> None:
        scene = Asked(dict.fromkeys(answers, 1), by=by, awaited=awaited)
        await scene.begin()
        asked = []
        while scene.asked is not None:
            asked.append(scene.asked)
            await scene.answer(answers[scene.asked], by_id=by_id)
        assert asked == list(answers)
        assert sorted(scene.ran) == sorted(name for name, yes in answers.items() if yes)

    for count in (2, 3):
        for place, given in enumerate(product([True, False], repeat=count)):
            answers = dict(zip(NAMES, given, strict=False))
            asyncio.run(play(answers, by_id=place % 2 == 0))


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize(("by", "asks"), [("ledger", (1, 1)), ("tool", (1, 1)), ("tool", (2,))])
def test_an_answer_is_given_once(by: str, asks: tuple[int, ...], awaited: bool) -> None:
    """LangGraph would give it to the next question, too, for it has no id of its own."""

    async def play() -> None:
        scene = Asked(dict(zip(NAMES, asks, strict=False)), by=by, awaited=awaited)
        await scene.begin()
        await scene.answer(True, by_id=False)
        ran, asked = list(scene.ran), scene.asked
        assert asked is not None
        for _ in range(2):  # what `resume` gives the graph
            await scene.go_on(None)
            assert (scene.ran, scene.asked) == (ran, asked)
        await scene.answer(True, by_id=False)
        assert sorted(scene.ran) == sorted(NAMES[: len(asks)])

    asyncio.run(play())


@pytest.mark.parametrize("awaited", [False, True])
def test_a_tool_may_ask_twice_beside_others(awaited: bool) -> None:
    """Its second question is asked before those of the calls after it, which do not run again."""

    async def play() -> None:
        scene = Asked({"close": 2, "empty": 1}, by="tool", awaited=awaited)
        await scene.begin()
        for answer in (True, True, False):
            await scene.answer(answer, by_id=False)
        assert (scene.asked, scene.ran) == (None, ["close"])
        tags = [r.event.tag for r in scene.chat.events() if r.call_id == "empty"]
        assert tags == ["pending", "running", "paused", "approved", "running", "completed"]

    asyncio.run(play())


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("by", ["tool", "ledger"])
def test_a_late_answer_starts_no_other_call(by: str, awaited: bool) -> None:
    """The log decides on the call that was asked about; the host's answer is for no other."""

    async def play(*, goes_on: bool) -> None:
        scene = Asked(dict.fromkeys(NAMES, 1), by=by, awaited=awaited)
        await scene.begin()
        assert scene.asked == "close"
        (old,) = scene.result["__interrupt__"]
        scene.chat.reject("close", "not today", by="grace")
        if goes_on:
            await scene.go_on(None)
            assert scene.asked == "empty"
            await scene.go_on(Command(resume={old.id: True}))
        else:
            await scene.answer(True, by_id=False)
        assert (scene.asked, scene.ran) == ("empty", [])
        scene.chat.reject("lock", by="grace")
        await scene.answer(True, by_id=True)
        assert (scene.asked, scene.ran) == (None, ["empty"])
        assert [t.status.name for t in scene.chat.tools.values()] == [
            "Rejected",
            "Completed",
            "Rejected",
        ]

    asyncio.run(play(goes_on=False))
    asyncio.run(play(goes_on=True))


def test_a_step_ends_when_its_calls_have_ended() -> None:
    """An interrupt, or an exception, does not leave a call behind that still runs."""

    async def play(*, breaks: bool) -> None:
        async with await AsyncEventStore.open("sqlite://") as store:
            chat = store.conversation("c")
            began, other_left = asyncio.Event(), asyncio.Event()

            async def pay(number: int) -> str:
                """Pay; the effect takes a while longer than the other call."""
                began.set()
                await other_left.wait()
                for _ in range(1000):
                    await asyncio.sleep(0)
                return f"paid {number}"

            async def mail(number: int) -> str:
                """Leave the step while the other call runs."""
                await began.wait()
                task = asyncio.current_task()
                assert task is not None
                task.add_done_callback(lambda _: other_left.set())
                if breaks:
                    raise ConnectionError("mail server down")
                return str(interrupt("may I?"))

            calls = (("pay", '{"number": 7}', "p"), ("mail", '{"number": 7}', "m"))
            graph = compiled(Ledger(chat), [Said("", calls), Said(DONE)], pay, mail)
            if breaks:
                with pytest.raises(ConnectionError):
                    await graph.ainvoke(ASKS, THREAD)
            else:
                assert "__interrupt__" in await graph.ainvoke(ASKS, THREAD)
            tools = chat.blocking.tools  # at once: no other task runs meanwhile
            assert isinstance(tools["p"].status, Completed)

    asyncio.run(play(breaks=False))
    asyncio.run(play(breaks=True))
