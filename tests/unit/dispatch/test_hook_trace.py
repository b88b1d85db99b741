"""The trace of hooks and gates: what each of them said, in the log, in replays and explanations."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from support.dispatchers import make, tags

from eventstore import (
    Approve,
    Ask,
    Conversation,
    Defer,
    FunctionTool,
    GateAnswer,
    HookAnswer,
    HookRaised,
    OpeningGate,
    Reject,
    RetryPolicy,
    Skip,
    Terminate,
    Tool,
    ToolErrorTerminal,
    ToolGateContext,
    ToolRunning,
    ToolsOffered,
)
from eventstore.providers import PROVIDERS
from eventstore.testing import NOON, FrozenClock
from projections import model_history, replay, why


def pay() -> str:
    """Pay."""
    return "paid"


def quiet(_: Tool) -> None:
    """Say nothing."""


def asked(chat: Conversation) -> list[tuple[HookAnswer, ...]]:
    """Return the answers of hooks, as the log has them."""
    events: list[Any] = [recorded.event for recorded in chat.events()]
    return [event.hooks for event in events if getattr(event, "hooks", ())]


def asking(chat: Conversation) -> list[str]:
    """Return the tags of the events that followed from the answers of hooks."""
    return [r.event.tag for r in chat.events() if getattr(r.event, "hooks", ())]


def order(chat: Conversation) -> list[str]:
    """Return the tags of all events after the message."""
    return [recorded.event.tag for recorded in chat.events()][1:]


def test_hooks_that_say_nothing_are_recorded_with_the_start(kind: str, chat: Conversation) -> None:
    """Each hook is named in its order, in the event of the first attempt."""

    def budget(_: Tool) -> None:
        return None

    make(kind, chat, [pay], hooks=[quiet, budget]).dispatch([chat.request("pay")])
    assert asked(chat) == [(HookAnswer("quiet"), HookAnswer("budget"))]
    assert order(chat) == ["pending", "running", "completed"]
    assert asking(chat) == ["running"]


@pytest.mark.parametrize("asked", ["hooks", "approver", "needs_approval"])
@pytest.mark.parametrize("note", ["changed", {1, 2}])
def test_arguments_that_a_hook_changes_in_place_are_an_error(
    kind: str, chat: Conversation, asked: str, note: object
) -> None:
    """The hook is asked once and nothing is decided; the error names it and how to edit a call."""
    seen: list[Tool] = []

    def decide(tool: Tool) -> Any:
        seen.append(tool)
        tool.effective_call.arguments["note"] = note
        return Approve(tool.effective_call.arguments) if asked == "approver" else Ask("look")

    tool = FunctionTool(pay, needs_approval=decide if asked == "needs_approval" else True)
    options: dict[str, Any] = {"hooks": [decide], "approver": decide, "needs_approval": None}
    given = {asked: options[asked]} if options[asked] else {}
    call = chat.request("pay")
    with pytest.raises(TypeError, match=r"changed the arguments of call .*give Approve\(edited"):
        make(kind, chat, [tool], **given).dispatch([call.id])
    assert (len(seen), order(chat)) == (1, ["pending", "hook_raised"])
    assert chat.tool(call.id).effective_call.arguments == {}


@pytest.mark.parametrize(
    ("decision", "answer", "follows"),
    [
        (Approve(reason="small"), HookAnswer("decide", "approve", "small"), "approved"),
        (Reject("no"), HookAnswer("decide", "reject", "no"), "rejected"),
        (Skip("as before", "cached"), HookAnswer("decide", "skip", "cached"), "completed"),
        (Defer(NOON + 1, "night"), HookAnswer("decide", "defer", "night"), "paused"),
        (True, HookAnswer("decide", "approve"), "approved"),
        (False, HookAnswer("decide", "reject"), "rejected"),
    ],
)
def test_the_decision_of_a_hook_is_recorded_with_its_step(
    kind: str, chat: Conversation, clock: FrozenClock, decision: Any, answer: Any, follows: str
) -> None:
    """The hooks after it are not asked, and are not in the trace."""

    def decide(_: Tool) -> object:
        return decision

    driven = make(kind, chat, [pay], hooks=[quiet, decide, quiet], clock=clock)
    driven.dispatch([chat.request("pay")])
    assert asked(chat) == [(HookAnswer("quiet"), answer)]
    assert asking(chat) == [follows]


def test_a_hook_that_ends_the_run_is_in_the_trace(kind: str, chat: Conversation) -> None:
    """The calls after it were not asked about."""

    def stop(_: Tool) -> Terminate:
        return Terminate("enough")

    calls = [chat.request("pay"), chat.request("pay")]
    with pytest.raises(ToolErrorTerminal):
        make(kind, chat, [pay], hooks=[stop]).dispatch(calls)
    assert asked(chat) == [(HookAnswer("stop", "terminate", "enough"),)]
    assert tags(chat) == ["pending", "pending", "rejected", "rejected"]


def test_an_approver_is_in_the_trace_when_something_follows(kind: str, chat: Conversation) -> None:
    """A call that goes on waiting adds nothing to the log, however often they are asked."""
    answers: list[Any] = [None, None, Approve(by="grace", reason="fine")]

    def person(_: Tool) -> object:
        return answers.pop(0)

    tool = FunctionTool(pay, needs_approval=True)
    driven = make(kind, chat, [tool], hooks=[quiet], approver=person)
    call = chat.request("pay")
    for _ in range(2):
        driven.dispatch([call.id])
        assert order(chat) == ["pending"]
    driven.resume()
    assert asked(chat) == [
        (HookAnswer("quiet"), HookAnswer("person", "approve", "fine", approver=True))
    ]
    assert order(chat) == ["pending", "approved", "running", "completed"]
    assert asking(chat) == ["approved"]


def test_a_person_who_is_first_leaves_the_answers_for_the_next_step(
    kind: str, chat: Conversation
) -> None:
    """The approval of the hook is refused by the log; the start carries what was said."""

    def decide(tool: Tool) -> Approve:
        chat.approve(tool.id, {"amount": 2}, by="grace")
        return Approve(reason="by rule")

    def pay_with(amount: int) -> int:
        return amount

    call = chat.request("pay_with", {"amount": 1})
    (done,) = make(kind, chat, [pay_with], hooks=[decide]).dispatch([call])
    assert done.response is not None
    assert done.response.result == 2
    assert asked(chat) == [(HookAnswer("decide", "approve", "by rule"),)]
    assert order(chat) == ["pending", "approved", "running", "completed"]
    assert asking(chat) == ["running"]


def test_only_hooks_leave_a_trace(kind: str, chat: Conversation) -> None:
    """Without hooks nothing is added, and an attempt that follows a failure asks nobody again."""
    make(kind, chat, [pay]).dispatch([chat.request("pay")])
    assert asked(chat) == []
    errors = [ConnectionRefusedError("refused"), ConnectionError("reset")]

    def flaky() -> str:
        if errors:
            raise errors.pop()
        return "done"

    tool = FunctionTool(flaky, retry=RetryPolicy(3, 0.001, 0.001))
    make(kind, chat, [tool], hooks=[quiet]).dispatch([chat.request("flaky")])
    assert asked(chat) == [(HookAnswer("quiet"),)]


def test_a_replay_and_an_explanation_show_hooks_and_gates(chat: Conversation) -> None:
    """An explanation has the offer under its turn, and the answers of hooks under their call."""

    class Silent:
        name = "silent"

        def allowlist(self, _: ToolGateContext) -> None:
            return None

    class Nights:
        name = "nights"

        def allowlist(self, _: ToolGateContext) -> set[str]:
            return {"look"}

    def limit(tool: Tool) -> Reject | None:
        return Reject("too much") if tool.call.arguments else None

    gates = [OpeningGate(["pay", "look"]), Silent(), Nights()]
    tools = {"pay": pay, "look": lambda **_: "seen"}
    driven = make("threads", chat, tools, gates=gates, hooks=[quiet, limit])
    driven.offer()
    calls = [
        chat.request("look", {}, "1"),
        chat.request("look", {"far": True}, "2"),
        chat.request("pay", {}, "3"),
    ]
    driven.dispatch(calls)
    driven.dispatch([chat.request("look", {}, "4")])  # the gates are asked late, for this turn
    lines = [frame.line(None) for frame in replay(chat.events())]
    offered = "1 of 2 tools; OpeningGate: look, pay; silent: no opinion; nights: look"
    assert f"iteration 0: {offered}" in lines[1]
    (started,) = (line for line in lines if "1: attempt 1" in line)
    (refused,) = (line for line in lines if "2 by limit" in line)
    assert started.endswith("\n        asked: quiet: no decision; limit: no decision")
    assert refused.endswith("\n        asked: quiet: no decision; limit: reject (too much)")
    explained = model_history(chat.events()).explain().splitlines()
    first, second = (n for n, line in enumerate(explained) if "  assistant" in line)
    assert explained[first + 1].strip() == f"offered: {offered}"
    assert explained[second + 1].strip().startswith("offered: 1 of 2 tools; OpeningGate: no op")
    one, two = (explained.index(f"      {n}: look({a})") for n, a in (("1", "{}"), ("2", far())))
    assert explained[one + 1].strip() == "asked: quiet: no decision; limit: no decision"
    assert explained[two + 1].strip() == "asked: quiet: no decision; limit: reject (too much)"


def far() -> str:
    """Return the arguments of the second call, as they are shown."""
    return '{"far":true}'


def test_suppressed_gates_and_conflicts_are_shown(chat: Conversation) -> None:
    """The line of an offer says which gates did not count, and how a conflict was resolved."""
    gates = [OpeningGate(["pay"]), OpeningGate(["look"])]
    gates[0].name, gates[1].name = "first", "second"
    make("threads", chat, {"pay": pay, "look": pay}, gates=gates).offer()
    line = [frame.line(None) for frame in replay(chat.events())][-1]
    assert "first: pay; second: look; conflict: " in line


def test_the_trace_changes_no_prompt(chat: Conversation) -> None:
    """The requests are those of the same log without it."""
    make("threads", chat, [pay], hooks=[quiet], gates=[OpeningGate(["pay"])]).dispatch(
        [chat.request("pay")]
    )
    events = list(chat.events())
    without = [
        replace(r, event=replace(r.event, hooks=())) if isinstance(r.event, ToolRunning) else r
        for r in events
        if not isinstance(r.event, ToolsOffered)
    ]
    assert asking(chat) == ["running"]
    for provider in PROVIDERS:
        assert model_history(without).render(provider) == model_history(events).render(provider)


def test_an_earlier_frame_of_a_replay_shows_its_own_trace(chat: Conversation) -> None:
    """The answers that came later are not in it."""
    driven = make("threads", chat, [pay], hooks=[quiet])
    driven.dispatch([chat.request("pay")])
    frames = list(replay(chat.events()))
    before = frames[1].history()
    after = frames[-1].history()
    assert "asked: quiet" not in before.explain()
    assert "asked: quiet" in after.explain()


def fails(*_: object, **__: object) -> None:
    """Raise, whatever it is asked."""
    raise LookupError("no such rule")


class FailingGate:
    """A gate that raises."""

    name = "night"

    def allowlist(self, _: ToolGateContext) -> None:
        """Raise."""
        fails()


class FailingClassifier:
    """A classifier that raises."""

    def classify(self, _: object) -> Any:
        """Raise."""
        fails()


def breaks() -> str:
    """Fail."""
    raise ValueError("broken")


RETRIED = FunctionTool(breaks, name="pay", retry=RetryPolicy(2, 0.001, 0.001))
GATES = [OpeningGate(["pay"]), FailingGate()]
RAISING: dict[str, tuple[dict[str, Any], Any, str, tuple[Any, ...], str]] = {
    "hook": ({"hooks": [quiet, fails]}, pay, "fails", (HookAnswer("quiet"),), "pending"),
    "approver": (
        {"hooks": [quiet], "approver": fails},
        FunctionTool(pay, needs_approval=True),
        "fails",
        (HookAnswer("quiet"),),
        "pending",
    ),
    "needs_approval": (
        {"hooks": [quiet]},
        FunctionTool(pay, needs_approval=fails),
        "pay",
        (HookAnswer("quiet"),),
        "pending",
    ),
    "gate": ({"gates": GATES}, pay, "night", (GateAnswer("OpeningGate", ("pay",)),), "pending"),
    "classifier": (
        {"retry_classifier": FailingClassifier()},
        RETRIED,
        "FailingClassifier",
        (),
        "failed",
    ),
}


@pytest.mark.parametrize("asked_as", RAISING)
def test_a_function_of_the_host_that_raises_is_in_the_log(
    kind: str, chat: Conversation, asked_as: str
) -> None:
    """With what was answered before it; the error reaches the caller, and the call is as it was."""
    options, tool, name, before, status = RAISING[asked_as]
    call = chat.request("pay", {}, "1")
    with pytest.raises(LookupError, match="no such rule"):
        make(kind, chat, [tool], **options).dispatch([call])
    events = [recorded.event for recorded in chat.events()]
    (raised,) = (event for event in events if isinstance(event, HookRaised))
    assert (raised.hook, raised.asked, raised.failure.message) == (name, asked_as, "no such rule")
    assert (*raised.hooks, *raised.gates) == before
    assert raised.call_id == (None if asked_as == "gate" else "1")
    assert chat.tool("1").status.name.lower() == status
    text = f"the {asked_as} {name} raised LookupError: no such rule"
    assert text in str(why(chat.events()))
    assert text in [frame.line(None) for frame in replay(chat.events())][-1]
    if raised.call_id:
        assert f"{name}: raised (LookupError: no such rule)" in model_history(chat).explain()


def test_the_classifier_of_a_tool_that_raises_is_in_the_log(kind: str, chat: Conversation) -> None:
    """The failure is recorded as it is without it, and the run goes on."""
    tool = FunctionTool(breaks, classify=fails)
    (done,) = make(kind, chat, [tool]).dispatch([chat.request("breaks")])
    assert done.status.name == "Failed"
    (raised,) = (r.event for r in chat.events() if isinstance(r.event, HookRaised))
    assert (raised.hook, raised.asked) == ("breaks", "classifier")
