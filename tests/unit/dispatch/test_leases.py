"""Leases: one worker at a time resumes a call, and a worker that was taken over changes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from eventstore import (
    AsyncDispatcher,
    AsyncEventStore,
    Conversation,
    CurrentAttempt,
    Dispatcher,
    EventStore,
    FunctionTool,
    IllegalTransition,
    Outcome,
    Tool,
    current_attempt,
)
from eventstore.domain.leases import lease_in_microseconds
from eventstore.leases.keeper import LeaseKeeper
from eventstore.leases.under_way import is_under_way
from eventstore.leases.worker import has_ended, this_worker
from eventstore.testing import NOON, FrozenClock
from projections import doubts, resume_plan

LEASE = 30.0


class Desk:
    """A worker of its own: a store with a clock that a test moves, and the tools."""

    def __init__(self, path: Path, effects: list[int]) -> None:
        self.clock = FrozenClock()
        self.store = EventStore.open(f"sqlite:///{path}", clock=self.clock)
        self.chat = self.store.conversation("chat")
        self.effects = effects
        self.asked: list[CurrentAttempt | None] = []

    def tools(self, pay: Callable[[], object], **options: Any) -> Dispatcher:
        """Return a dispatcher with one tool."""
        return Dispatcher(self.chat, [FunctionTool(pay, "pay", **options)], lease=LEASE)

    def pay(self) -> str:
        """Pay, and note by which attempt."""
        attempt = current_attempt()
        self.effects.append(attempt.fence if attempt else 0)
        return f"paid by {self.effects[-1]}"

    def verify(self, _: Tool) -> Outcome:
        """Answer that nothing was paid."""
        self.asked.append(current_attempt())
        return Outcome.not_done()


@pytest.fixture
def desks(tmp_path: Path) -> Iterator[tuple[Desk, Desk]]:
    """Return two workers at one log, and one list of effects."""
    effects: list[int] = []
    first, second = (Desk(tmp_path / "agent.db", effects) for _ in range(2))
    with first.store, second.store:
        yield first, second


def tags(chat: Conversation) -> list[str]:
    """Return the tags of the events."""
    return [recorded.event.tag for recorded in chat.events()]


@pytest.mark.parametrize("options", [{}, {"idempotent": True}, {"verify": None}])
def test_resume_leaves_a_call_alone_that_a_living_worker_is_at(
    desks: tuple[Desk, Desk], options: dict[str, Any]
) -> None:
    """Neither `verify` nor a second run comes before the lease is over; then each does as ever."""
    first, second = desks
    if "verify" in options:
        options = {"verify": second.verify}

    def slow() -> str:
        (beside,) = second.tools(second.pay, **options).resume()
        assert (beside.status.name, beside.attempts, second.asked) == ("Running", 1, [])
        with pytest.raises(IllegalTransition, match=r"attempt 1 is under way until 2023-11-14T22:"):
            second.chat.start(beside.id, attempt=2)
        plan = resume_plan(second.chat.events(), now=second.clock())
        assert plan.unknown == [], str(plan)
        assert "attempt 1 is under way until 2023-11-14 22:13:50" in plan.under_way[0].reason
        later = resume_plan(second.chat.events(), now=second.clock() + 30_000_000)
        assert [step.id for step in later.unknown] == [beside.id]
        assert "its lease ends at" in resume_plan(second.chat.events()).unknown[0].reason
        return first.pay()

    call = first.chat.request("pay")
    (done,) = first.tools(slow).dispatch([call])
    assert (done.status.name, first.effects) == ("Completed", [1]), done.status
    assert second.tools(second.pay, **options).resume() == []
    assert tags(first.chat) == ["pending", "running", "completed"]


def test_a_lease_is_renewed_while_a_tool_runs_and_only_then(desks: tuple[Desk, Desk]) -> None:
    """A renewal comes after a third of the lease; a tool that ends before adds no event."""
    first, second = desks
    leases = first.store.session.leases

    def slow() -> str:
        began = time.monotonic()
        assert leases.renew_due(began) is not None
        assert tags(first.chat) == ["pending", "running"]
        for third in range(1, 5):
            first.clock.advance(10)
            leases.renew_due(began + third * 11)
        second.clock.advance(60)
        assert second.tools(second.pay, idempotent=True).resume()[0].attempts == 1
        return first.pay()

    call = first.chat.request("pay")
    (done,) = first.tools(slow).dispatch([call])
    assert tags(first.chat) == ["pending", "running", *4 * ["renewed"], "completed"]
    assert (done.status.name, first.effects) == ("Completed", [1]), done.status
    assert leases.renew_due() is None


@pytest.mark.parametrize("step", [-3600, 3600])
def test_a_clock_step_of_the_worker_ends_no_lease(desks: tuple[Desk, Desk], step: int) -> None:
    """A renewal goes on from where the lease was; the other worker's clock is right."""
    first, second = desks
    leases = first.store.session.leases

    def slow() -> str:
        began = time.monotonic()
        first.clock.advance(step)
        for third in range(1, 7):
            second.clock.advance(10)
            leases.renew_due(began + third * 11)
        assert second.tools(second.pay, idempotent=True).resume()[0].attempts == 1
        return first.pay()

    call = first.chat.request("pay")
    first.tools(slow).dispatch([call])
    assert first.effects == [1]


def test_a_worker_that_was_taken_over_changes_nothing(desks: tuple[Desk, Desk]) -> None:
    """Its late result is kept; `verify` and the tool have a fence that tells the attempts apart."""
    first, second = desks
    taken: list[Tool] = []

    def suspended() -> str:
        second.clock.advance(31)
        taken.extend(second.tools(second.pay, verify=second.verify).resume())
        assert current_attempt() == CurrentAttempt("chat", taken[0].id, 1)
        return first.pay()

    call = first.chat.request("pay")
    (seen,) = first.tools(suspended).dispatch([call])
    (asked,) = second.asked
    assert asked is not None
    assert (asked.fence, len(asked.idempotency_key)) == (2, 32)
    assert asked.idempotency_key == CurrentAttempt("chat", call.id, 1).idempotency_key
    assert asked.idempotency_key != CurrentAttempt("cha", f"t{call.id}", 1).idempotency_key
    assert seen == first.chat.tool(call.id)
    assert seen.response is not None
    assert seen.response.result == "paid by 2"
    assert first.effects == [2, 1], "the outside system has to refuse the smaller one"
    late: Any = list(first.chat.events())[-1].event
    assert (late.tag, late.attempt, late.response.result) == ("ended_late", 1, "paid by 1")
    assert current_attempt() is None


@pytest.mark.parametrize("policy", ["late failure", "taken over"])
def test_a_late_failure_is_not_retried_beside_the_next_attempt(
    desks: tuple[Desk, Desk], policy: str
) -> None:
    """The worker that was taken over starts nothing more, also where its tool may be retried."""
    from eventstore import RetryPolicy

    first, second = desks
    retry = RetryPolicy(3, 0.0, 0.0)

    def broken() -> str:
        first.effects.append(1)
        if len(first.effects) == 1:
            if policy == "taken over":
                second.chat.start(call.id, attempt=2, lease=60, take_over=True)
            else:
                second.chat.fail(call.id, "a person says so")
        raise ConnectionRefusedError("no")

    call = first.chat.request("pay")
    (seen,) = first.tools(broken, retry=retry).dispatch([call])
    assert len(first.effects) == 1
    assert seen.attempts == (2 if policy == "taken over" else 1)
    assert tags(first.chat)[-1] == "ended_late"


def test_an_end_that_comes_late_counts_if_no_other_took_over(desks: tuple[Desk, Desk]) -> None:
    """A lease that ran out keeps no worker from recording what its tool did."""
    first, second = desks

    def slow() -> str:
        first.clock.advance(99)
        second.clock.advance(99)
        (doubtful,) = second.tools(second.pay).resume()
        assert doubtful.status.name == "Running"
        return first.pay()

    (done,) = first.tools(slow).dispatch([first.chat.request("pay")])
    assert (done.status.name, first.effects) == ("Completed", [1]), done.status


def test_two_dispatchers_of_one_process_keep_apart(desks: tuple[Desk, Desk]) -> None:
    """The worker of the lease is this process: its own threads say whether one is at the call."""
    first, second = desks
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        assert go_on.wait(60)
        return first.pay()

    call = first.chat.request("pay")
    worker = threading.Thread(target=first.tools(slow).dispatch, args=([call],))
    worker.start()
    assert begun.wait(60)
    assert second.tools(second.pay, idempotent=True).resume()[0].status.name == "Running"
    go_on.set()
    worker.join()
    assert first.effects == [1]

    def left() -> str:
        first.store.session.committer.closed = True  # its end cannot be recorded
        return "lost"

    again = first.chat.request("pay", {})
    with pytest.raises(Exception, match="closed"):
        first.tools(left, equal_calls="run").dispatch([again])
    (resumed,) = second.tools(second.pay, idempotent=True).resume()
    assert (resumed.status.name, resumed.attempts) == ("Completed", 2)


BEGIN = """
import sys
from eventstore import EventStore
chat = EventStore.open(sys.argv[1]).conversation("chat")
attempt = chat.begin(chat.request("pay").id, lease=3600)
print(attempt.tool.status.worker)
"""


@pytest.mark.skipif(not Path("/proc/self/ns/time").exists(), reason="Linux tells of processes")
def test_a_lease_is_over_when_its_process_has_ended_on_this_machine(
    desks: tuple[Desk, Desk],
) -> None:
    """Nothing waits after a crash; of a process on another machine nothing is known."""
    _, second = desks
    run = [sys.executable, "-c", BEGIN, second.store.url]
    second.store.session.committer.clock = second.store.session.clock = lambda: 0
    worker = subprocess.run(run, capture_output=True, check=True, text=True).stdout.strip()
    machine, _, process = worker.partition("-")
    assert this_worker().startswith(f"{machine}-{os.getpid()}-")
    assert has_ended(worker)
    assert has_ended(f"{machine}-{os.getpid()}-1"), "the id was given to another process"
    assert not has_ended(f"{'0' * 16}-{process}")
    assert not has_ended(this_worker())
    assert not has_ended("of another program")
    assert [doubt.attempt for doubt in doubts(second.store, now=0)] == [1]
    assert resume_plan(second.chat.events(), now=0).unknown
    (resumed,) = second.tools(second.pay, idempotent=True).resume()
    assert (resumed.status.name, second.effects) == ("Completed", [2])


@pytest.mark.parametrize("facade", ["blocking", "asyncio"])
def test_a_loop_by_hand_takes_a_lease_where_it_asks_for_one(
    desks: tuple[Desk, Desk], facade: str
) -> None:
    """`running` renews it and has a current attempt; `start` holds it for its time alone."""
    import asyncio

    first, second = desks
    chat, held = first.chat, first.store.session.leases

    def check(call_id: str) -> None:
        assert current_attempt() == CurrentAttempt("chat", call_id, 1)
        assert is_under_way("chat", second.chat.tool(call_id), NOON + 4_999_999)
        assert not is_under_way("chat", second.chat.tool(call_id), NOON + 5_000_000)
        assert held.is_held("chat", call_id, 1)

    async def main() -> str:
        async with AsyncEventStore(first.store) as store:
            awaited = store.conversation("chat")
            call = await awaited.request("pay")
            async with awaited.running(call.id, lease=timedelta(seconds=5)) as attempt:
                check(call.id)
                await attempt.complete("paid")
            return call.id

    if facade == "asyncio":
        call_id = asyncio.run(main())
    else:
        call_id = chat.request("pay").id
        with chat.running(call_id, lease=5) as attempt:
            check(call_id)
            attempt.complete("paid")
    assert current_attempt() is None
    assert not held.is_held("chat", call_id, 1)


def test_a_start_with_a_lease_keeps_others_away_for_its_time(desks: tuple[Desk, Desk]) -> None:
    """Without renewals it is over by the clock; a person may settle it, or take it over."""
    first, second = desks
    call = first.chat.request("pay")
    status: Any = first.chat.start(call.id, lease=5).status
    assert (status.leased_until, status.worker) == (NOON + 5_000_000, None)
    for attempt in (None, 2):
        with pytest.raises(IllegalTransition, match="attempt 1 is under way"):
            second.chat.start(call.id, attempt)
    assert second.chat.start(call.id, 2, take_over=True).attempts == 2
    with pytest.raises(IllegalTransition, match="attempt 2 has no recorded end"):
        second.chat.start(call.id)
    second.chat.start(call.id, 3, lease=5)
    second.clock.advance(5)
    assert second.chat.start(call.id, 4, lease=5).attempts == 4
    assert first.chat.complete(call.id, "a person says so").status.name == "Completed"


def test_a_renewal_that_fails_is_tried_again_unless_it_is_refused() -> None:
    """A store that is busy is asked again soon; an attempt that is over is let go."""
    from eventstore.errors import StoreBusy, StoreClosed

    errors: list[Exception] = [StoreBusy("busy"), RuntimeError("odd"), StoreClosed("closed")]
    now = 0.0

    def renew(_: object) -> None:
        if errors:
            raise errors.pop(0)

    keeper = LeaseKeeper(renew, lambda: now)
    hold = keeper.hold("chat", "call", 12_000_000)
    hold.due = 4.0  # as `renew_later` sets it, which starts the thread
    for now, due in ((0, 4), (4, 1), (5, 1), (6, float("inf"))):
        assert keeper.renew_due(now) == due
    hold.release()
    assert keeper.renew_due(now) is None
    keeper.hold("chat", "call", 1)  # a hold that is gone is renewed no more
    assert keeper.renew_due(now) is None


@pytest.mark.parametrize(
    ("lease", "error"),
    [(0, ValueError), (-1.0, ValueError), (float("nan"), ValueError), (True, TypeError),
     ("30", TypeError), (timedelta(0), ValueError)],
)  # fmt: skip
def test_a_lease_is_a_duration(lease: Any, error: type[Exception]) -> None:
    """The error names the value."""
    with pytest.raises(error, match="lease is"):
        lease_in_microseconds(lease)
    with EventStore.open("sqlite://") as store, pytest.raises(error):
        Dispatcher(store.conversation("chat"), [], lease=lease)


@pytest.mark.parametrize("dispatcher", [Dispatcher, AsyncDispatcher])
def test_leases_may_be_off(dispatcher: Any) -> None:
    """Then the log says nothing of a worker, as before."""
    import asyncio

    with EventStore.open("sqlite://") as store:
        chat: Any = store.conversation("chat")
        call = chat.request("pay")
        if dispatcher is AsyncDispatcher:
            awaited: Any = AsyncEventStore(store).conversation("chat")
            asyncio.run(dispatcher(awaited, {"pay": int}, lease=None).dispatch([call]))
        else:
            dispatcher(chat, {"pay": int}, lease=None).dispatch([call])
        running: Any = list(chat.events())[1].event
        assert (running.lease, running.worker) == (None, None)
