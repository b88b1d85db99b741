"""Resume after a crash: safe calls go on, unknown outcomes are verified, nothing runs twice."""

from __future__ import annotations

from typing import Any

import pytest
from support.dispatchers import Driven, Waits, last, make, raising, refuse_commands, tags

from eventstore import (
    Conversation,
    ErrorKind,
    Failure,
    FunctionCall,
    FunctionTool,
    Outcome,
    RetryPolicy,
    StoreFull,
    Tool,
    ToolFailed,
    ToolPending,
    ToolRejected,
)
from eventstore.testing import NOON, FrozenClock
from projections import resume_plan


class Bank:
    """The outside system: the payments, and its answers to `verify`."""

    def __init__(self, found: Any = None) -> None:
        self.paid: list[str] = []
        self.asked: list[str] = []
        self.found = found

    def pay(self, tool: Tool) -> str:
        """Pay an order."""
        self.paid.append(tool.id)
        return "paid"

    def verify(self, tool: Tool) -> Any:
        """Return whether the payment happened."""
        self.asked.append(tool.id)
        return self.found

    def tool(self, **options: Any) -> FunctionTool:
        """Return the tool that pays; the calls of these tests have equal arguments."""
        return FunctionTool(self.pay, takes_tool=True, equal_calls="run", **options)


def resuming(kind: str, chat: Conversation, *tools: Any, **options: Any) -> Driven:
    """Return a dispatcher as a new process would make it."""
    return make(kind, chat, list(tools), **options)


def leave_one_of_each(chat: Conversation) -> None:
    """Record the calls that a process may leave behind when it dies."""
    for call_id in ("fresh", "approved", "running", "timeout", "failed", "done", "rejected"):
        chat.request("pay", call_id=call_id)
    chat.approve("approved")
    chat.start("running")
    chat.start("timeout")
    chat.fail("timeout", TimeoutError())
    chat.fail("failed", "no")
    chat.complete("done", 1)
    chat.reject("rejected")


def test_resume_starts_only_calls_that_never_started(kind: str, chat: Conversation) -> None:
    """`resume` returns the open calls as they are then, in call order."""
    leave_one_of_each(chat)
    plan = resume_plan(chat.events(), lambda _: False)
    bank = Bank()
    done = resuming(kind, chat, bank.tool()).resume()
    assert bank.paid == [step.id for step in plan.safe] == ["fresh", "approved"]
    assert [(tool.id, tool.status.name) for tool in done] == [
        ("fresh", "Completed"),
        ("approved", "Completed"),
        ("running", "Running"),
        ("timeout", "Failed"),
    ]
    assert [step.id for step in resume_plan(chat.events()).unknown] == ["running", "timeout"]
    version = chat.version
    resuming(kind, chat, bank.tool()).resume()
    assert (bank.paid, chat.version) == (["fresh", "approved"], version)


@pytest.mark.parametrize(
    ("found", "running", "timeout", "paid"),
    [
        (Outcome.done("was paid"), "Completed", "Completed", 0),
        (Outcome.failed("declined"), "Failed", "Failed", 0),
        (Outcome.not_done(), "Completed", "Completed", 2),
        (Outcome.unknown(), "Running", "Failed", 0),
        (None, "Running", "Failed", 0),
    ],
)
def test_verify_decides_calls_of_unknown_outcome(
    kind: str, chat: Conversation, found: Any, running: str, timeout: str, paid: int
) -> None:
    """Each unknown call is asked about once, and run again only where it did not happen."""
    leave_one_of_each(chat)
    bank = Bank(found)
    resuming(kind, chat, bank.tool(verify=bank.verify)).resume()
    assert bank.asked == ["running", "timeout"]
    assert len(bank.paid) == 2 + paid
    tools = chat.tools
    assert (tools["running"].status.name, tools["timeout"].status.name) == (running, timeout)
    if paid:
        assert tools["running"].attempts == 2


def test_an_idempotent_call_of_unknown_outcome_runs_again(kind: str, chat: Conversation) -> None:
    """The call is not verified, as long as its policy has attempts left."""
    leave_one_of_each(chat)
    bank = Bank()
    resuming(kind, chat, bank.tool(idempotent=True, verify=bank.verify)).resume()
    assert bank.asked == []
    assert len(bank.paid) == 4


def test_an_idempotent_call_runs_out_of_attempts(kind: str, chat: Conversation) -> None:
    """The policy's maximum holds for a call that kills its process each time."""
    chat.request("pay", call_id="a")
    chat.start("a")
    chat.start("a", attempt=2)
    bank = Bank()
    resuming(kind, chat, bank.tool(idempotent=True, retry=RetryPolicy(2))).resume()
    assert bank.paid == []
    resuming(kind, chat, bank.tool(idempotent=True, retry=RetryPolicy(3))).resume()
    assert bank.paid == ["a"]


def test_an_announced_retry_is_made_when_it_is_due(
    kind: str, chat: Conversation, clock: FrozenClock
) -> None:
    """Its wait goes on where it was; one long past waits for nothing."""
    chat.request("pay", call_id="soon")
    chat.request("pay", call_id="late")
    for call_id, delay in (("late", 2), ("soon", 30)):
        chat.start(call_id)
        chat.fail(call_id, ConnectionRefusedError("down"), delay=delay)
    clock.advance(10)
    bank, waits = Bank(), Waits()
    resuming(kind, chat, bank.tool(), clock=clock, sleep=waits).resume()
    assert clock.now == NOON + 10_000_000
    assert bank.paid == ["soon", "late"]
    assert waits.seconds == [20, 0]
    assert chat.tools["soon"].attempts == 2


def test_a_clock_set_back_does_not_lengthen_the_wait(
    kind: str, chat: Conversation, clock: FrozenClock
) -> None:
    """No wait is longer than the policy allows."""
    chat.request("pay", call_id="a")
    chat.start("a")
    chat.fail("a", ConnectionRefusedError("down"), delay=2)
    clock.advance(-86_400)
    bank, waits = Bank(), Waits()
    tool = bank.tool(retry=RetryPolicy(3, 1, 5))
    resuming(kind, chat, tool, clock=clock, sleep=waits).resume()
    assert (bank.paid, waits.seconds) == (["a"], [5])


def test_attempts_before_the_crash_count(kind: str, chat: Conversation) -> None:
    """The maximum of the policy is for the call, not for the process."""
    chat.request("bad", call_id="a")
    chat.start("a")
    chat.fail("a", ConnectionRefusedError("down"), delay=1)
    bad = FunctionTool(raising(ConnectionRefusedError("down")), "bad", retry=RetryPolicy(2))
    resuming(kind, chat, bad).resume()
    assert chat.tools["a"].attempts == 2


def test_a_call_still_waits_for_its_approval(kind: str, chat: Conversation) -> None:
    """A restart does not approve it."""
    chat.request("pay", call_id="a")
    bank = Bank()
    tool = bank.tool(needs_approval=True)
    (waiting,) = resuming(kind, chat, tool).resume()
    assert waiting.is_pending
    resuming(kind, chat, tool, approver=lambda _: True).resume()
    assert bank.paid == ["a"]


def test_calls_that_cannot_start_are_closed_on_resume(kind: str, chat: Conversation) -> None:
    """Unknown tools and arguments that do not parse are answered as in any turn."""
    chat.request("nope", call_id="a")
    chat.request("pay", "{oops", call_id="b")
    done = resuming(kind, chat, Bank().tool()).resume()
    assert [tool.status.name for tool in done] == ["Failed", "Failed"]


def test_a_started_call_of_an_unregistered_tool_stays_as_it_is(
    kind: str, chat: Conversation
) -> None:
    """Another process has the tool, and the answer."""
    chat.request("elsewhere", call_id="a")
    chat.start("a")
    (tool,) = resuming(kind, chat, Bank().tool()).resume()
    assert tool.status.name == "Running"


def test_an_imported_call_without_a_result_may_have_run(kind: str, chat: Conversation) -> None:
    """The call is verified and never simply started, and it is not rejected as unstarted."""
    chat.append(
        ToolPending(FunctionCall.of("pay", {}, "old"), imported=True),
        ToolPending(FunctionCall.of("bad", {}, "new")),
    )
    bank = Bank()
    bad = FunctionTool(raising(KeyboardInterrupt()), "bad")
    with pytest.raises(KeyboardInterrupt):
        resuming(kind, chat, bank.tool(), bad).resume()
    assert chat.tools["old"].is_pending
    assert bank.paid == []
    bank.found = Outcome.not_done()
    resuming(kind, chat, bank.tool(verify=bank.verify)).resume()
    assert bank.paid == ["old"]


def test_calls_before_the_crash_count_for_the_limit(kind: str, chat: Conversation) -> None:
    """The limit is for the turn, not for the process."""
    for call_id in "abc":
        chat.request("pay", call_id=call_id)
    chat.start("a")
    chat.complete("a", "paid")
    bank = Bank()
    resuming(kind, chat, bank.tool(), max_calls_per_turn=2).resume()
    assert bank.paid == ["b"]
    assert chat.tools["c"].status.name == "Rejected"


def test_calls_refused_before_the_crash_count_for_the_limit(kind: str, chat: Conversation) -> None:
    """As they do without a crash; those that the limit refused do not."""
    for call_id in "abcd":
        chat.request("pay", call_id=call_id)
    chat.reject("a", "hidden", "gate")
    chat.reject("b", "too many", "limit")
    bank = Bank()
    resuming(kind, chat, bank.tool(), max_calls_per_turn=2).resume()
    assert bank.paid == ["c"]
    assert last(chat, ToolRejected).details["total_tool_calls"] == 4


def test_a_verify_that_raises_does_not_stop_the_others(kind: str, chat: Conversation) -> None:
    """Its error is raised at the end; its call stays open."""
    for call_id, name in (("a", "down"), ("b", "pay"), ("c", "pay")):
        chat.request(name, call_id=call_id)
    chat.start("a")
    chat.start("b")
    bank = Bank(Outcome.done("paid"))
    down = FunctionTool(bank.pay, "down", verify=raising(ConnectionError("no route")))
    with pytest.raises(TypeError):  # `raising` takes no call: as good an error as any
        resuming(kind, chat, down, bank.tool(verify=bank.verify)).resume()
    assert [tool.status.name for tool in chat.tools.values()] == [
        "Running",
        "Completed",
        "Completed",
    ]


def test_parallel_calls_are_resumed(kind: str, chat: Conversation) -> None:
    """Those that never started run concurrently, the others one by one."""
    leave_one_of_each(chat)
    bank = Bank(Outcome.not_done())
    resuming(kind, chat, bank.tool(parallel=True, verify=bank.verify)).resume()
    assert sorted(bank.paid) == ["approved", "fresh", "running", "timeout"]


def test_a_terminated_resume_leaves_unknown_outcomes_open(kind: str, chat: Conversation) -> None:
    """Nothing more is started or verified, and started calls are not marked as cancelled."""
    chat.request("bad", call_id="a")
    chat.request("pay", call_id="b")
    chat.start("b")
    bank = Bank(Outcome.done(1))
    bad = FunctionTool(raising(KeyError("x")), "bad", abort_siblings=True)
    resuming(kind, chat, bad, bank.tool(verify=bank.verify)).resume()
    assert bank.asked == []
    assert chat.tools["b"].status.name == "Running"
    chat.request("worse", call_id="c")
    with pytest.raises(KeyboardInterrupt):
        resuming(kind, chat, FunctionTool(raising(KeyboardInterrupt()), "worse")).resume()
    assert chat.tools["b"].status.name == "Running"


def test_a_damaged_log_is_resumed_as_far_as_possible(
    kind: str, chat: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events that break the lifecycle are skipped."""
    chat.request("pay", call_id="a")
    chat.start("a")
    events = list(chat.events())
    monkeypatch.setattr(chat, "events", lambda: iter([*events[:1], events[2], *events[1:2]]))
    bank = Bank()
    refuse_commands(monkeypatch, "start", StoreFull("no space"))
    with pytest.raises(StoreFull):
        resuming(kind, chat, bank.tool()).resume()
    assert bank.paid == []


def test_a_refused_outcome_is_recorded_with_its_reason(kind: str, chat: Conversation) -> None:
    """The reason is the one that the outside system gave."""
    chat.request("pay", call_id="a")
    chat.start("a")
    declined = Failure(ErrorKind.PERMANENT, "declined", code="card_declined")
    bank = Bank(Outcome.failed(declined))
    resuming(kind, chat, bank.tool(verify=bank.verify)).resume()
    assert last(chat, ToolFailed).failure == declined
    assert tags(chat) == ["pending", "running", "failed"]
