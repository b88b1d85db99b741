"""The inbox: which calls wait for a person."""

from __future__ import annotations

import pytest

from eventstore import EventStore, FunctionCall, Recorded, ToolPending
from eventstore.testing import (
    FrozenClock,
    approved,
    completed,
    failed,
    log,
    message,
    pending,
    rejected,
    running,
)
from projections import doubts, pending_approvals
from projections.approvals import approvals_among
from projections.unsettled_calls import UnsettledCalls


def test_pending_calls_of_all_conversations_are_listed() -> None:
    """The call that has waited longest is first; each has what a person needs to decide."""
    clock = FrozenClock()
    with EventStore.open("sqlite://", clock=clock) as store:
        store.conversation("b").request("pay", {"amount": 1}, "x")
        clock.advance(1)
        store.conversation("a").request("pay", {"amount": 2}, "x")
        store.conversation("a").request("pay", "{oops", "y")
        first, second, third = pending_approvals(store)
        assert (first.conversation_id, first.call_id, first.arguments) == ("b", "x", {"amount": 1})
        assert first.fingerprint == FunctionCall("pay", {"amount": 1}).fingerprint
        assert (first.requested_at, second.requested_at) == (clock() - 1_000_000, clock())
        assert str(second) == 'a x: pay({"amount":2})'
        assert (third.raw, third.call.is_object) == ("{oops", False)
        store.conversation("b").approve("x")
        assert pending_approvals(store) == [second, third]


@pytest.mark.parametrize(
    "event", [approved(), rejected(), running(), completed(), failed()], ids=lambda e: e.tag
)
def test_a_call_that_moved_on_is_not_listed(event: object) -> None:
    """A decision, a start and an end each remove the call from the list."""
    events = log(pending(), message(), event)  # type: ignore[arg-type]
    assert len(approvals_among(UnsettledCalls().extend(events[:2]).unsettled())) == 1
    assert approvals_among(UnsettledCalls().extend(events).unsettled()) == []


def test_a_call_requested_twice_is_listed_once() -> None:
    """Another call under its id does not replace it."""
    events = log(pending(n=1), pending(n=1), pending(n=2))
    (found,) = approvals_among(UnsettledCalls().extend(events).unsettled())
    assert found.arguments == {"n": 1}


def test_an_imported_call_is_not_listed() -> None:
    """Calls without an id and ends without a request are not listed either."""
    call = FunctionCall("f", {}, "x")
    strange = [ToolPending(call, imported=True), ToolPending(FunctionCall("f", {}))]
    events: list[Recorded] = log(*strange, completed("y"))
    assert approvals_among(UnsettledCalls().extend(events).unsettled()) == []


def test_a_copied_call_waits_in_its_own_conversation_alone(store: EventStore) -> None:
    """A reader may be between the copies of a fork and the ends of its calls."""
    chat = store.conversation("a")
    chat.request("pay", {"amount": 1}, "x")
    chat.fork(chat.version, "b")
    calls = UnsettledCalls()
    for recorded in store.read():
        calls.apply(recorded)
        assert [name for name, _ in calls.unsettled()] == ["a"]


def test_a_copied_call_that_runs_again_is_in_doubt_where_it_runs(store: EventStore) -> None:
    """The new attempt is the fork's own."""
    chat = store.conversation("a")
    chat.request("pay", {"amount": 1}, "x")
    chat.start("x")
    chat.fail("x", "no")
    fork = chat.fork(chat.version, "b")
    assert doubts(store) == []
    fork.start("x", 2)
    assert [doubt.conversation_id for doubt in doubts(store)] == ["b"]
