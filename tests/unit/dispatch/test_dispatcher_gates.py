"""Gates in the dispatcher: what the model may see, and that hidden calls never run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import Any

import pytest
from dispatching import Driven, answers, check_log, last, make, tags

from eventstore import (
    Conversation,
    EventStore,
    Failed,
    GateDecision,
    MessageAdded,
    OpeningGate,
    RunStarted,
    ToolGate,
    ToolGateContext,
    ToolRejected,
    ToolsOffered,
    compose_gates,
)
from projections import gate_context


@pytest.fixture(params=["threads", "asyncio"])
def kind(request: pytest.FixtureRequest) -> str:
    """Which dispatcher."""
    return str(request.param)


@pytest.fixture
def chat() -> Iterator[Conversation]:
    """A conversation in which the user has asked for something."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("support-42")
        chat.add_message("user", "please")
        yield chat
        check_log(chat)


class Only(ToolGate):
    """Allows some names, says why not, and keeps what it was asked with."""

    def __init__(self, *names: str, reason: str | None = None) -> None:
        self.names = frozenset(names)
        self.reason = reason
        self.contexts: list[ToolGateContext] = []

    def allowlist(self, context: ToolGateContext, /) -> frozenset[str]:
        """These."""
        self.contexts.append(context)
        return self.names

    def denial_reason(self, name: str, context: ToolGateContext, /) -> str | None:
        """The reason, in the context that was decided in."""
        assert context in self.contexts or not self.contexts
        return self.reason and f"{name}: {self.reason}"


RUNS: list[str] = []


def plan() -> str:
    """Plan."""
    RUNS.append("plan")
    return "planned"


def pay() -> str:
    """Pay."""
    RUNS.append("pay")
    return "paid"


@pytest.fixture(autouse=True)
def _no_runs() -> None:
    RUNS.clear()


def gated(kind: str, chat: Conversation, *gates: Any, **options: Any) -> Driven:
    """A dispatcher of the two tools."""
    return make(kind, chat, [pay, plan], gates=gates, **options)


def test_what_is_offered_is_recorded_and_given(kind: str, chat: Conversation) -> None:
    """The names to show, in the order the tools were given, with each gate's answer."""
    decision = gated(kind, chat, Only("plan", "gone")).offer()
    assert decision.visible == ("plan",)
    event = last(chat, ToolsOffered)
    assert event == decision.offered
    assert (event.iteration, event.available, event.allowed) == (
        0, ("pay", "plan"), ("gone", "plan"),
    )  # fmt: skip
    assert [(a.gate, a.allow) for a in event.gates] == [("Only", ("gone", "plan"))]


def test_without_gates_everything_is_offered(kind: str, chat: Conversation) -> None:
    """And a dispatch records no offer that nobody asked for."""
    dispatcher = gated(kind, chat)
    dispatcher.dispatch([chat.request("pay")])
    assert not [r for r in chat.events() if isinstance(r.event, ToolsOffered)]
    assert dispatcher.offer().visible == ("pay", "plan")


def test_a_product_has_its_own_words_for_hidden_tools(kind: str, chat: Conversation) -> None:
    """Where no gate gives a reason; None leaves it to the library."""

    def words(name: str, decision: GateDecision) -> tuple[str, dict[str, Any]] | None:
        assert not decision.allows(name)
        return None if name == "plan" else (f"upgrade to use {name}", {"plan": "free"})

    dispatcher = gated(kind, chat, Only(), on_all_empty="deny", denial=words)
    dispatcher.offer()
    dispatcher.dispatch([chat.request("pay"), chat.request("plan")])
    paying, planning = (r.event for r in chat.events() if isinstance(r.event, ToolRejected))
    assert isinstance(paying, ToolRejected)
    assert isinstance(planning, ToolRejected)
    assert (paying.by, paying.reason) == ("tool_gate", "upgrade to use pay")
    assert paying.details == {"plan": "free"}
    assert "plan" in (planning.reason or "")
    assert RUNS == []
    with pytest.raises(TypeError, match="denial is 'no': pass a function"):
        gated(kind, chat, denial="no")


def test_a_hidden_call_never_runs(kind: str, chat: Conversation) -> None:
    """It is rejected in the gate's words, with the details for the host; the turn goes on."""
    dispatcher = gated(kind, chat, Only("plan", reason="plan first"))
    dispatcher.offer()
    calls = [chat.request("pay"), chat.request("plan"), chat.request("nope")]
    done = dispatcher.dispatch(calls)
    assert [tool.status.name for tool in done] == ["Rejected", "Completed", "Failed"]
    assert RUNS == ["plan"]
    event = last(chat, ToolRejected)
    assert (event.source, event.by, event.reason) == ("gate", "Only", "pay: plan first")
    assert event.details == {
        "runtime_block": True, "requested_tool": "pay", "allowed_tools": ["plan"], "gate": "Only",
    }  # fmt: skip
    assert answers(chat)[calls[2].id].endswith("Available: plan.")


def test_a_hidden_call_never_runs_though_somebody_approved_it(
    kind: str, chat: Conversation
) -> None:
    """A person's yes is not to what the model could not see."""
    call = chat.request("pay")
    chat.approve(call.id, by="ada")
    (tool,) = gated(kind, chat, Only("plan")).dispatch([call])
    assert tool.status.name == "Rejected"
    assert RUNS == []


def test_who_offers_nothing_is_gated_at_the_turn(kind: str, chat: Conversation) -> None:
    """The gates are asked with what was there before the turn, once, and that is recorded."""
    gate = Only("plan")
    dispatcher = gated(kind, chat, gate)
    calls = [chat.request("pay"), chat.request("plan")]
    dispatcher.dispatch(calls[:1])
    dispatcher.dispatch(calls[1:])
    assert len(gate.contexts) == 1
    assert gate.contexts[0].iteration == 0
    assert [e for e in tags(chat) if e == "running"] == ["running"]
    assert len([r for r in chat.events() if isinstance(r.event, ToolsOffered)]) == 1


def test_an_offer_holds_for_one_turn(kind: str, chat: Conversation) -> None:
    """The next is gated anew; an opening gate opens then."""
    dispatcher = gated(kind, chat, OpeningGate(["plan"]))
    dispatcher.offer()
    dispatcher.dispatch([chat.request("pay"), chat.request("plan")])
    chat.add_message("assistant", "now")
    dispatcher.dispatch([chat.request("pay")])
    assert RUNS == ["plan", "pay"]
    offers = [r.event for r in chat.events() if isinstance(r.event, ToolsOffered)]
    assert [(o.iteration, o.allowed) for o in offers] == [(0, ("plan",)), (1, None)]


def test_iterations_are_counted_from_the_runs_start(kind: str, chat: Conversation) -> None:
    """Or from the user's last word where no run is in the log."""
    gate = Only("plan")
    dispatcher = gated(kind, chat, gate)
    chat.add_message("assistant", "one")
    dispatcher.offer()
    chat.add_message("user", "again")
    dispatcher.offer()
    chat.append(RunStarted("agent"))
    dispatcher.offer()
    chat.request("plan")
    chat.add_message("user", "hurry")
    dispatcher.offer()
    assert [context.iteration for context in gate.contexts] == [1, 0, 0, 1]
    assert gate.contexts[-1].conversation_id == "support-42"


def test_a_host_says_what_gates_decide_on(kind: str, chat: Conversation) -> None:
    """For one offer, or for all: then what was before the turn is what counts."""
    gate = Only("plan")
    context = ToolGateContext(7, ["hello"], "x", ["plan"])
    dispatcher = gated(kind, chat, gate, gate_context=gate_context)
    dispatcher.offer(context)
    assert gate.contexts == [context]
    dispatcher.dispatch([chat.request("plan")])
    chat.add_message("assistant", "more")
    dispatcher.dispatch([chat.request("plan")])
    assert [turn.role for turn in gate.contexts[-1].messages] == ["user", "assistant"]
    before = takewhile(lambda r: r.event != last(chat, ToolsOffered), chat.events())
    replayed = compose_gates([gate], gate_context(before, ["pay", "plan"]))
    assert replayed.offered.gates == last(chat, ToolsOffered).gates


def test_all_empty_may_mean_nothing(kind: str, chat: Conversation) -> None:
    """Where the host says so; else everything is open again."""
    dispatcher = gated(kind, chat, Only(), on_all_empty="deny")
    assert dispatcher.offer().visible == ()
    call = chat.request("pay")
    (tool,) = dispatcher.dispatch([call])
    assert tool.status.name == "Rejected"
    assert "Available now: none" in answers(chat)[call.id]
    assert gated(kind, chat, Only()).offer().visible == ("pay", "plan")


def test_a_gate_that_raises_lets_nothing_run(kind: str, chat: Conversation) -> None:
    """The host's error is raised and the calls stay open."""

    class Broken(ToolGate):
        def allowlist(self, context: ToolGateContext, /) -> None:
            raise ZeroDivisionError

    dispatcher = gated(kind, chat, Broken())
    with pytest.raises(ZeroDivisionError):
        dispatcher.offer()
    with pytest.raises(ZeroDivisionError):
        dispatcher.dispatch([chat.request("pay")])
    assert tags(chat) == ["pending"]
    assert RUNS == []


# after a crash


def test_what_was_hidden_stays_hidden_after_a_crash(kind: str, chat: Conversation) -> None:
    """The log knows what the model could see, turn by turn, whatever the gates would say now."""
    first = gated(kind, chat, Only("plan"))
    first.offer()
    chat.request("pay", call_id="hidden")
    chat.add_message("assistant", "next")
    gated(kind, chat, Only("pay")).offer()
    chat.add_message("assistant", "and")
    chat.request("pay", call_id="seen")
    gated(kind, chat).resume()  # a process without gates of its own
    assert [tool.status.name for tool in chat.tools.values()] == ["Rejected", "Completed"]
    event = last(chat, ToolRejected)
    assert (event.call_id, event.by) == ("hidden", "tool_gate")


def test_a_late_offer_is_of_the_turn_that_it_was_made_for(kind: str, chat: Conversation) -> None:
    """The gates were asked at the dispatch; then the process died."""
    gate = Only("plan")
    dispatcher = gated(kind, chat, gate, hooks=[_die])
    calls = [chat.request("plan"), chat.request("pay")]
    with pytest.raises(MemoryError):
        dispatcher.dispatch(calls)
    assert tags(chat) == ["pending", "pending"]
    again = gated(kind, chat, Only("pay"))
    again.resume()
    assert RUNS == ["plan"]
    chat.add_message("assistant", "next")
    again.dispatch([chat.request("pay")])
    assert RUNS == ["plan", "pay"]


def test_calls_that_nobody_gated_are_gated_on_resume(kind: str, chat: Conversation) -> None:
    """The process died before the gates were asked."""
    chat.request("pay")
    chat.request("plan")
    dispatcher = gated(kind, chat, Only("plan"))
    dispatcher.resume()
    assert RUNS == ["plan"]
    offers = [r.event for r in chat.events() if isinstance(r.event, ToolsOffered)]
    assert len(offers) == 1
    chat.append(RunStarted())
    chat.append(MessageAdded("assistant"))
    dispatcher.offer()
    assert last(chat, ToolsOffered).iteration == 1


def _die(tool: Any) -> None:
    """No process dies in a test, but this is as sudden."""
    raise MemoryError


def test_an_unknown_tool_is_not_hidden_but_unknown(kind: str, chat: Conversation) -> None:
    """Even where a gate would hide it, too."""
    (tool,) = gated(kind, chat, Only("plan")).dispatch([chat.request("nope")])
    assert isinstance(tool.status, Failed)
    assert tool.status.failure.code == "tool_not_found"
