"""`gate_context`: what gates decide on, from any prefix of a log."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from eventstore import (
    Conversation,
    EventStore,
    MessageAdded,
    OpeningGate,
    RunStarted,
    ToolGate,
    ToolGateContext,
    ToolsOffered,
    compose_gates,
)
from eventstore.testing import log, pending
from projections import gate_context, model_history

NAMES = ("plan", "shell", "deliver")


class LateGate(ToolGate):
    """A gate that allows delivery alone, once the messages show that a tool has answered."""

    name = "late"

    def allowlist(self, context: ToolGateContext, /) -> set[str] | None:
        """Decide on what the model sees."""
        return {"deliver"} if any(turn.calls for turn in context.messages) else None


@pytest.fixture
def chat() -> Any:
    """Return a new conversation."""
    with EventStore.open("sqlite://") as store:
        yield store.conversation("support-42")


def iteration(chat: Conversation) -> int:
    """Return the iteration of the next model call."""
    return gate_context(chat.events(), NAMES).iteration


def test_an_empty_log_is_the_first_iteration_of_no_conversation() -> None:
    """There are no messages, and there is no conversation id."""
    assert gate_context([], iter(NAMES)) == ToolGateContext(0, (), None, NAMES)


def test_iterations_are_counted_from_the_start_of_the_run(chat: Conversation) -> None:
    """A user message in the middle of a run does not start another run."""
    chat.add_message("user", "go")
    chat.append(RunStarted("agent"))
    assert iteration(chat) == 0
    for number in (1, 2):
        chat.complete(chat.request("plan", {"n": number}).id, "done")
        assert iteration(chat) == number
        chat.add_message("user", "faster")
        assert iteration(chat) == number
    chat.append(RunStarted("agent"))
    assert iteration(chat) == 0


def test_without_a_run_iterations_are_counted_from_the_last_user_message(
    chat: Conversation,
) -> None:
    """A turn counts once, however many calls it makes."""
    assert iteration(chat) == 0
    chat.add_message("user", "go")
    chat.add_message("assistant", "I will")
    for _ in range(3):
        chat.request("plan")
    assert iteration(chat) == 1
    chat.add_message("assistant", "done")
    assert iteration(chat) == 2
    chat.add_message("user", "again")
    assert iteration(chat) == 0


def test_the_messages_are_those_that_the_model_sees(chat: Conversation) -> None:
    """Messages are neutral turns, or what a function makes of the events."""
    chat.add_message("user", "go")
    chat.request("plan", {}, "1")
    context = gate_context(chat.events(), NAMES)
    assert context.conversation_id == "support-42"
    assert [turn.role for turn in context.messages] == ["user", "assistant"]
    shown = gate_context(
        chat.events(), NAMES, lambda events: model_history(events).render("openai")["messages"]
    )
    assert [message["role"] for message in shown.messages] == ["user", "assistant", "tool"]


def test_any_past_decision_can_be_made_again(chat: Conversation) -> None:
    """The events before it and the names offered give the same event once more."""
    gates: list[ToolGate] = [OpeningGate(["plan", "deliver"]), LateGate()]
    chat.add_message("user", "go")
    for number in range(3):
        chat.append(compose_gates(gates, gate_context(chat.events(), NAMES)).offered)
        chat.complete(chat.request("plan", {"n": number}).id, "done")
    log = list(chat.events())
    decisions = [recorded for recorded in log if isinstance(recorded.event, ToolsOffered)]
    assert [d.event.allowed for d in decisions] == [
        ("deliver", "plan"),
        ("deliver",),
        ("deliver",),
    ]
    for decision in decisions:
        before = takewhile(lambda recorded, end=decision: recorded is not end, log)
        again = compose_gates(gates, gate_context(before, decision.event.available))
        assert again.offered == decision.event


said = st.sampled_from(
    [
        RunStarted("agent"),
        MessageAdded("user"),
        MessageAdded("system"),
        *(MessageAdded("assistant", turn=turn) for turn in (1, 2, 3)),
        *(replace(pending(f"call_{turn}"), turn=turn) for turn in (None, 1, 2)),
    ]
)


@given(st.lists(said, max_size=8))
def test_iterations_are_those_that_the_dispatcher_counts(events: list[Any]) -> None:
    """The dispatcher counts the same without messages, on any log."""
    recorded = log(*events)
    assert ToolGateContext.after(recorded, NAMES) == gate_context(recorded, NAMES, lambda _: ())
    runs = [event for event in events if isinstance(event, RunStarted)]
    start = max(
        (n for n, event in enumerate(events) if _begins(event, in_run=bool(runs))), default=0
    )
    turns = {getattr(event, "turn", None) for event in events[start:]} - {None}
    assert ToolGateContext.after(recorded, NAMES).iteration == len(turns)


def _begins(event: Any, *, in_run: bool) -> bool:
    """Return whether iterations are counted from this event on."""
    if in_run:
        return isinstance(event, RunStarted)
    return isinstance(event, MessageAdded) and event.role == "user"
