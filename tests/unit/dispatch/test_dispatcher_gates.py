"""Gates in the dispatcher: what the model may see, and that hidden calls never run."""

from __future__ import annotations

import asyncio
from itertools import takewhile
from typing import Any

import pytest
from support.dispatchers import Driven, answers, last, make, tags

from eventstore import (
    AsyncToolGate,
    Conversation,
    Failed,
    GateClass,
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


class Only(ToolGate):
    """A gate that allows some names, gives reasons, and keeps its contexts."""

    def __init__(self, *names: str, reason: str | None = None) -> None:
        self.names = frozenset(names)
        self.reason = reason
        self.contexts: list[ToolGateContext] = []

    def allowlist(self, context: ToolGateContext, /) -> frozenset[str]:
        """Return the names that it allows."""
        self.contexts.append(context)
        return self.names

    def denial_reason(self, name: str, context: ToolGateContext, /) -> str | None:
        """Return the reason; keep the context."""
        assert context in self.contexts or not self.contexts
        return self.reason and f"{name}: {self.reason}"


RUNS: list[str] = []


def plan() -> str:
    """Return a plan."""
    RUNS.append("plan")
    return "planned"


def pay() -> str:
    """Return a receipt."""
    RUNS.append("pay")
    return "paid"


@pytest.fixture(autouse=True)
def _no_runs() -> None:
    RUNS.clear()


def gated(kind: str, chat: Conversation, *gates: Any, **options: Any) -> Driven:
    """Return a dispatcher of the two tools."""
    return make(kind, chat, [pay, plan], gates=gates, **options)


def test_an_offer_is_recorded_and_returned(kind: str, chat: Conversation) -> None:
    """The offer has the visible names in the order of the tools, and each gate's answer."""
    decision = gated(kind, chat, Only("plan", "gone")).offer()
    assert decision.visible == ("plan",)
    event = last(chat, ToolsOffered)
    assert event == decision.offered
    assert (event.iteration, event.available, event.allowed) == (
        0,
        ("pay", "plan"),
        ("gone", "plan"),
    )
    assert [(a.gate, a.allow) for a in event.gates] == [("Only", ("gone", "plan"))]


def test_without_gates_everything_is_offered(kind: str, chat: Conversation) -> None:
    """Every tool is offered, and a dispatch records no offer by itself."""
    dispatcher = gated(kind, chat)
    dispatcher.dispatch([chat.request("pay")])
    assert not [r for r in chat.events() if isinstance(r.event, ToolsOffered)]
    assert dispatcher.offer().visible == ("pay", "plan")


def test_denial_gives_the_text_for_hidden_tools(kind: str, chat: Conversation) -> None:
    """`denial` gives the text where no gate has a reason; None selects the library's text."""

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
    """The call is rejected with the gate's reason and details for the host; the turn goes on."""
    dispatcher = gated(kind, chat, Only("plan", reason="plan first"))
    dispatcher.offer()
    calls = [chat.request("pay"), chat.request("plan"), chat.request("nope")]
    done = dispatcher.dispatch(calls)
    assert [tool.status.name for tool in done] == ["Rejected", "Completed", "Failed"]
    assert RUNS == ["plan"]
    event = last(chat, ToolRejected)
    assert (event.source, event.by, event.reason) == ("gate", "Only", "pay: plan first")
    assert event.details == {
        "runtime_block": True,
        "requested_tool": "pay",
        "allowed_tools": ["plan"],
        "gate": "Only",
    }
    assert answers(chat)[calls[2].id].endswith("Available: plan.")


def test_a_hidden_call_never_runs_even_if_approved(kind: str, chat: Conversation) -> None:
    """An approval does not override the gate that hid the tool."""
    call = chat.request("pay")
    chat.approve(call.id, by="ada")
    (tool,) = gated(kind, chat, Only("plan")).dispatch([call])
    assert tool.status.name == "Rejected"
    assert RUNS == []


def test_a_turn_without_an_offer_is_gated_at_its_dispatch(kind: str, chat: Conversation) -> None:
    """The gates get the events before the turn, once, and the offer is recorded."""
    gate = Only("plan")
    dispatcher = gated(kind, chat, gate)
    calls = [chat.request("pay"), chat.request("plan")]
    dispatcher.dispatch(calls[:1])
    dispatcher.dispatch(calls[1:])
    assert len(gate.contexts) == 1
    assert gate.contexts[0].iteration == 0
    assert [e for e in tags(chat) if e == "running"] == ["running"]
    assert len([r for r in chat.events() if isinstance(r.event, ToolsOffered)]) == 1


def test_an_offer_is_valid_for_one_turn(kind: str, chat: Conversation) -> None:
    """The next turn is gated again; an opening gate then has no opinion."""
    dispatcher = gated(kind, chat, OpeningGate(["plan"]))
    dispatcher.offer()
    dispatcher.dispatch([chat.request("pay"), chat.request("plan")])
    chat.add_message("assistant", "now")
    dispatcher.dispatch([chat.request("pay")])
    assert RUNS == ["plan", "pay"]
    offers = [r.event for r in chat.events() if isinstance(r.event, ToolsOffered)]
    assert [(o.iteration, o.allowed) for o in offers] == [(0, ("plan",)), (1, None)]


def test_iterations_are_counted_from_the_runs_start(kind: str, chat: Conversation) -> None:
    """If the log has no run, they are counted from the last message of the user."""
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


def test_the_host_may_pass_the_context_of_the_gates(kind: str, chat: Conversation) -> None:
    """The context may be passed for one offer, or for all with `gate_context`."""
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


def test_on_all_empty_deny_offers_nothing(kind: str, chat: Conversation) -> None:
    """Without it every tool is offered."""
    dispatcher = gated(kind, chat, Only(), on_all_empty="deny")
    assert dispatcher.offer().visible == ()
    call = chat.request("pay")
    (tool,) = dispatcher.dispatch([call])
    assert tool.status.name == "Rejected"
    assert "Available now: none" in answers(chat)[call.id]
    assert gated(kind, chat, Only()).offer().visible == ("pay", "plan")


def test_a_gate_that_raises_leaves_every_call_open(kind: str, chat: Conversation) -> None:
    """The error is raised, and the calls stay open."""

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


def test_a_hidden_tool_stays_hidden_after_a_crash(kind: str, chat: Conversation) -> None:
    """The recorded offer of each turn counts, not the present answer of the gates."""
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


def test_an_offer_made_at_the_dispatch_belongs_to_that_turn(kind: str, chat: Conversation) -> None:
    """The process died after the gates were asked at the dispatch."""
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


def test_calls_without_an_offer_are_gated_on_resume(kind: str, chat: Conversation) -> None:
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
    """Raise an error that stands for the death of the process."""
    raise MemoryError


def test_an_unknown_tool_is_not_hidden_but_unknown(kind: str, chat: Conversation) -> None:
    """The answer says that the tool is unknown, even if a gate would hide it."""
    (tool,) = gated(kind, chat, Only("plan")).dispatch([chat.request("nope")])
    assert isinstance(tool.status, Failed)
    assert tool.status.failure.code == "tool_not_found"


class Misnamed:
    """A gate that derives from nothing, and whose rule has another name."""

    def allow_list(self, context: ToolGateContext) -> set[str]:
        """Return the planning tool alone."""
        return {"plan"}


def test_a_gate_without_a_rule_is_refused_where_it_is_passed(kind: str, chat: Conversation) -> None:
    """A dispatcher with a gate that would allow everything is not made, and nothing runs."""
    message = r"Misnamed object .* is not a gate: give it allowlist\(context\)"
    with pytest.raises(TypeError, match=message):
        gated(kind, chat, Misnamed())
    with pytest.raises(TypeError, match="gate OpeningGate is a class: pass an object of it"):
        gated(kind, chat, OpeningGate)
    assert RUNS == []


class Advised(AsyncToolGate):
    """An async gate: each of its methods awaits something."""

    def __init__(self, *names: str) -> None:
        self.names = frozenset(names)

    async def allowlist(self, context: ToolGateContext, /) -> frozenset[str]:
        """Return the names."""
        await asyncio.sleep(0)
        return self.names

    async def denial_reason(self, name: str, context: ToolGateContext, /) -> str:
        """Return a reason with the number of the model call."""
        await asyncio.sleep(0)
        return f"{name} is not for call {context.iteration}"

    async def suppresses_advisory_gates(self, context: ToolGateContext, /) -> bool:
        """Return that it does."""
        await asyncio.sleep(0)
        return True


class Later:
    """A gate that is not async by its declaration, and returns an awaitable."""

    def allowlist(self, context: ToolGateContext) -> Any:
        """Return the names, to be awaited."""
        return Advised("plan").allowlist(context)


def test_async_gates_are_awaited_in_asyncio(chat: Conversation) -> None:
    """Their names are visible, a hidden call gets their reason, advisory gates are suppressed."""
    advice = Only("pay")
    advice.gate_class = GateClass.ADVISORY
    advice.priority = -1
    dispatcher = gated("asyncio", chat, Advised("plan"), Later(), advice)
    decision = dispatcher.offer()
    assert decision.visible == ("plan",)
    assert decision.suppressed == ("Only",)
    done = dispatcher.dispatch([chat.request("pay"), chat.request("plan")])
    assert [tool.status.name for tool in done] == ["Rejected", "Completed"]
    assert RUNS == ["plan"]
    event = last(chat, ToolRejected)
    assert (event.source, event.by, event.reason) == ("gate", "Advised", "pay is not for call 0")


def test_an_async_gate_that_raises_starts_nothing(chat: Conversation) -> None:
    """Its error is raised, and the calls stay open."""

    class Broken(AsyncToolGate):
        async def allowlist(self, context: ToolGateContext, /) -> frozenset[str]:
            raise LookupError("no policy")

    dispatcher = gated("asyncio", chat, Broken())
    call = chat.request("pay")
    with pytest.raises(LookupError, match="no policy"):
        dispatcher.dispatch([call])
    assert RUNS == []
    assert chat.tools[call.id].is_pending


def test_async_gates_are_refused_without_asyncio(chat: Conversation) -> None:
    """The error comes when the gate is passed or when it answers, and names the remedy."""
    message = r"allowlist\(\) of gate 'Advised' is async: pass the gate to an AsyncDispatcher"
    with pytest.raises(TypeError, match=message):
        gated("threads", chat, Only("plan"), Advised("plan"))
    dispatcher = gated("threads", chat, Later())
    call = chat.request("pay")
    with pytest.raises(TypeError, match=r"allowlist\(\) of gate 'Later' is async"):
        dispatcher.dispatch([call])
    assert RUNS == []
    assert chat.tools[call.id].is_pending
