"""Deferred and paused calls in the dispatcher: they wait, and go on when they may."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest
from support.dispatchers import Driven, answers, make, tags

from eventstore import (
    Approve,
    Conversation,
    Defer,
    FunctionTool,
    Pending,
    Tool,
)
from eventstore.testing import NOON, FrozenClock

TOMORROW = NOON + 86_400_000_000


class Bank:
    """A tool that counts its runs."""

    def __init__(self) -> None:
        self.paid: list[str] = []

    def pay(self, tool: Tool) -> str:
        """Pay an order."""
        self.paid.append(tool.id)
        return "paid"


@pytest.fixture
def bank() -> Bank:
    """Return a bank."""
    return Bank()


def dispatcher(
    kind: str, chat: Conversation, clock: FrozenClock, bank: Bank, **options: Any
) -> Driven:
    """Return a dispatcher of the one tool, by the clock of the log."""
    needs = options.pop("needs_approval", False)
    tool = FunctionTool(bank.pay, takes_tool=True, needs_approval=needs)
    return make(kind, chat, [tool], clock=clock, **options)


def pause(chat: Conversation, call_id: str) -> None:
    """Start a call, and pause it until a person decides."""
    with chat.running(call_id) as attempt:
        attempt.pause()


@pytest.mark.parametrize("resumes", [False, True])
def test_a_deferred_call_runs_when_its_time_has_come(
    kind: str, chat: Conversation, clock: FrozenClock, bank: Bank, resumes: Any
) -> None:
    """Before it waits, and the hooks are not asked; after it runs once."""
    asked: list[str] = []
    driven = dispatcher(kind, chat, clock, bank, hooks=[lambda tool: asked.append(tool.id)])
    call = chat.request("pay")
    chat.defer(call.id, TOMORROW)
    for expected in ([], [call.id]):
        (done,) = driven.resume() if resumes else driven.dispatch([call.id])
        assert bank.paid == asked == expected
        clock.now = TOMORROW
    assert done.status.name == "Completed"
    assert tags(chat, call.id) == ["pending", "paused", "running", "completed"]


def test_a_deferral_counts_for_a_stale_handle(
    kind: str, chat: Conversation, clock: FrozenClock, bank: Bank
) -> None:
    """The call as it was recorded does not show that it was deferred or paused since."""
    deferred, paused = chat.request("pay"), chat.request("pay")
    chat.defer(deferred.id, TOMORROW)
    pause(chat, paused.id)
    done = dispatcher(kind, chat, clock, bank).dispatch([deferred, paused])
    assert [tool.status for tool in done] == [Pending(TOMORROW), Pending(needs_decision=True)]
    assert bank.paid == []


def test_a_hook_defers_a_call(
    kind: str, chat: Conversation, clock: FrozenClock, bank: Bank
) -> None:
    """The other calls of the turn run; the hook decides again when the time has come."""

    def by_day(tool: Tool) -> Defer | None:
        is_night = clock() < TOMORROW and tool.index == 0
        return Defer(TOMORROW, "the bank is closed") if is_night else None

    driven = dispatcher(kind, chat, clock, bank, hooks=[by_day])
    calls = [chat.request("pay"), chat.request("pay")]
    done = driven.dispatch(calls)
    assert [tool.status.name for tool in done] == ["Pending", "Completed"]
    assert done[0].status == Pending(TOMORROW, reason="the bank is closed")
    assert bank.paid == [calls[1].id]
    assert "this call has not run" in answers(chat)[calls[0].id]
    clock.now = TOMORROW
    driven.resume()
    assert bank.paid == [calls[1].id, calls[0].id]


def test_an_approver_defers_a_call(
    kind: str, chat: Conversation, clock: FrozenClock, bank: Bank
) -> None:
    """The approver is asked again when the time has come, as the call is not approved."""
    decisions: list[Any] = [Defer(TOMORROW), Approve(by="ada")]
    driven = dispatcher(
        kind, chat, clock, bank, needs_approval=True, approver=lambda _: decisions.pop(0)
    )
    call = chat.request("pay")
    driven.dispatch([call])
    driven.dispatch([call.id])
    assert len(decisions) == 1
    clock.now = TOMORROW
    (done,) = driven.dispatch([call.id])
    assert (done.status.name, bank.paid) == ("Completed", [call.id])


def test_a_call_approved_before_it_was_deferred_is_not_asked_for_again(
    kind: str, chat: Conversation, clock: FrozenClock, bank: Bank
) -> None:
    """The approval stays in force."""
    call = chat.request("pay")
    chat.approve(call.id, by="ada")
    chat.defer(call.id, NOON)
    (done,) = dispatcher(kind, chat, clock, bank, needs_approval=True).dispatch([call.id])
    assert done.status.name == "Completed"


@pytest.mark.parametrize("resumes", [False, True])
def test_a_paused_call_does_not_run_without_a_decision(
    kind: str, chat: Conversation, clock: FrozenClock, bank: Bank, resumes: Any
) -> None:
    """The approver is asked, although the tool of the call needs no approval."""
    call = chat.request("pay")
    pause(chat, call.id)
    driven = dispatcher(kind, chat, clock, bank)
    (waiting,) = driven.resume() if resumes else driven.dispatch([call.id])
    assert (waiting.status.name, bank.paid) == ("Pending", [])
    asking = dispatcher(kind, chat, clock, bank, approver=lambda _: Approve(by="ada"))
    (done,) = asking.resume() if resumes else asking.dispatch([call.id])
    assert (done.status.name, done.attempts, bank.paid) == ("Completed", 2, [call.id])


def test_a_paused_call_takes_one_place_of_its_turn(
    kind: str, chat: Conversation, clock: FrozenClock, bank: Bank
) -> None:
    """The attempt that paused and the one that follows count once for the limit of the turn."""
    call = chat.request("pay")
    pause(chat, call.id)
    chat.approve(call.id)
    (done,) = dispatcher(kind, chat, clock, bank, max_calls_per_turn=1).resume()
    assert done.status.name == "Completed"


def test_an_interruption_leaves_a_deferred_call_waiting(
    chat: Conversation, clock: FrozenClock, bank: Bank
) -> None:
    """The calls that had not started are rejected, but not the one whose time has not come."""

    def interrupt(tool: Tool) -> None:
        if tool.index == 1:
            raise KeyboardInterrupt

    driven = dispatcher("threads", chat, clock, bank, hooks=[interrupt])
    calls = [chat.request("pay").id for _ in range(4)]
    chat.defer(calls[0], TOMORROW)
    chat.defer(calls[3], TOMORROW)
    with pytest.raises(KeyboardInterrupt):
        driven.dispatch(calls)
    statuses = [chat.tools[call].status.name for call in calls]
    assert statuses == ["Pending", "Rejected", "Rejected", "Pending"]


def test_a_deferral_to_no_time_is_refused() -> None:
    """Where it is made."""
    with pytest.raises(TypeError, match="until is 'later': pass a datetime"):
        Defer("later")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="has no time zone"):
        Defer(datetime(2030, 1, 1))  # noqa: DTZ001 - it is refused


def test_async_hooks_defer_too(chat: Conversation, clock: FrozenClock, bank: Bank) -> None:
    """Their decision is awaited."""

    async def defer(_: Tool) -> Defer:
        await asyncio.sleep(0)
        return Defer(TOMORROW)

    (done,) = dispatcher("asyncio", chat, clock, bank, hooks=[defer]).dispatch(
        [chat.request("pay")]
    )
    assert done.status == Pending(TOMORROW)
