"""chat-rs, rig-compose, clark-agent: pauses, edits, skips, refused gates, typed tools.

Each test quotes the sentence of the system that it holds.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from eventstore import Conversation, Dispatcher, EventStore, Skip, ToolGate, ToolGateContext
from projections import pending_approvals, resume_plan


def add(number: int) -> int:
    """Add one."""
    return number + 1


def test_a_pause_awaits_approval_and_siblings_run(chat: Conversation, store: EventStore) -> None:
    """In chat-rs: "executable tools in the same message do run even if a sibling pauses"."""
    waits, runs = chat.request("ask"), chat.request("add", {"number": 1})
    with chat.running(waits.id) as attempt:
        attempt.pause(reason="too much")
    Dispatcher(chat, [add]).dispatch([runs])
    assert chat.tools[waits.id].status.name == "Pending"
    assert chat.tools[runs.id].response is not None
    assert [waiting.call_id for waiting in pending_approvals(store)] == [waits.id]


def test_deferred_calls_keep_their_own_times(chat: Conversation) -> None:
    """In chat-rs: "individual times lost" before an approval. Here each call keeps its own."""
    now = datetime.now(UTC)
    for hours in (8, 2):
        chat.defer(chat.request("charge", {"hours": hours}).id, now + timedelta(hours=hours))
    chat.defer(chat.request("later").id, now + timedelta(hours=5))
    times = {step.not_before for step in resume_plan(chat.events(), now=now).scheduled}
    assert len(times) == 3


def test_an_approved_edit_is_executed(chat: Conversation) -> None:
    """In chat-rs an edited approval "executes the original". Here the edit runs, and stays."""
    call = chat.request("add", {"number": 1})
    chat.approve(call.id, edited_arguments={"number": 41})
    (done,) = Dispatcher(chat, [add]).dispatch([chat.tools[call.id]])
    assert done.response is not None
    assert done.response.result == 42
    assert done.effective_call.arguments == {"number": 41}


def test_a_skip_is_a_success_with_its_reason(chat: Conversation) -> None:
    """In rig-compose: "Skip{output, reason?} (synthetic success output)"."""
    dispatcher = Dispatcher(chat, [add], hooks=[lambda _: Skip(7, "policy")])
    (done,) = dispatcher.dispatch([chat.request("add", {"number": 1})])
    assert done.attempts == 0
    assert done.status.name == "Completed"
    assert (done.status.synthetic, done.status.reason) == (True, "policy")
    assert done.status.response.result == 7


def test_a_hidden_call_never_runs_and_the_run_goes_on(chat: Conversation) -> None:
    """In clark: "never executed; error result, run continues"; the reason is the gate's text."""

    class Closed(ToolGate):
        def allowlist(self, _: ToolGateContext, /) -> set[str]:
            return {"other"}

        def denial_reason(self, _name: str, _: ToolGateContext, /) -> str:
            return "closed today"

    dispatcher = Dispatcher(chat, {"add": add, "other": add}, gates=[Closed()])
    dispatcher.offer()
    (refused,) = dispatcher.dispatch([chat.request("add", {"number": 1})])
    assert refused.status.name == "Rejected"
    assert (refused.status.source, refused.status.reason) == ("gate", "closed today")


def test_a_gate_without_a_rule_is_refused() -> None:
    """In clark a gate's default is "absent": a misspelled method allows all. Here it raises."""
    rules = {"allow_list": lambda _self, _context: set()}
    with pytest.raises(TypeError, match="allowlist"):
        type("Misspelled", (ToolGate,), rules)()


def test_failed_validation_of_arguments_runs_nothing(chat: Conversation) -> None:
    """In clark: "malformed JSON args / failed validation: explanatory text, run continues"."""
    (failed,) = Dispatcher(chat, [add]).dispatch([chat.request("add", {"number": "nine"})])
    assert failed.attempts == 0
    assert failed.status.name == "Failed"
    assert (failed.status.failure.kind, "$.number" in failed.status.error) == ("validation", True)
