"""After a crash: what is safe goes on, what is unknown is asked about, nothing runs twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from dispatching import Driven, Waits, check_log, last, make, raising, tags

from eventstore import (
    Conversation,
    ErrorKind,
    EventStore,
    Failure,
    FunctionCall,
    FunctionTool,
    Outcome,
    RetryPolicy,
    StoreFull,
    Tool,
    ToolFailed,
    ToolPending,
)
from eventstore.testing import NOON, FrozenClock
from projections import resume_plan


@pytest.fixture(params=["threads", "asyncio"])
def kind(request: pytest.FixtureRequest) -> str:
    """Which dispatcher."""
    return str(request.param)


@pytest.fixture
def clock() -> FrozenClock:
    """The clock of the store and the dispatcher."""
    return FrozenClock()


@pytest.fixture
def chat(clock: FrozenClock) -> Iterator[Conversation]:
    """A conversation in which the user has asked for something."""
    with EventStore.open("sqlite://", clock=clock) as store:
        chat = store.conversation("support-42")
        chat.add_message("user", "please")
        yield chat
        check_log(chat)


class Bank:
    """The outside system: who was paid how often, and what it answers when asked."""

    def __init__(self, found: Any = None) -> None:
        self.paid: list[str] = []
        self.asked: list[str] = []
        self.found = found

    def pay(self, tool: Tool) -> str:
        """Pay."""
        self.paid.append(tool.id)
        return "paid"

    def verify(self, tool: Tool) -> Any:
        """What became of a payment."""
        self.asked.append(tool.id)
        return self.found

    def tool(self, **options: Any) -> FunctionTool:
        """The tool that pays."""
        return FunctionTool(self.pay, takes_tool=True, **options)


def resuming(kind: str, chat: Conversation, *tools: Any, **options: Any) -> Driven:
    """A dispatcher of a new process."""
    return make(kind, chat, list(tools), **options)


def leave_one_of_each(chat: Conversation) -> None:
    """What a process may leave behind when it dies."""
    for call_id in ("fresh", "approved", "running", "timeout", "failed", "done", "rejected"):
        chat.request("pay", call_id=call_id)
    chat.approve("approved")
    chat.start("running")
    chat.start("timeout")
    chat.fail("timeout", TimeoutError())
    chat.fail("failed", "no")
    chat.complete("done", 1)
    chat.reject("rejected")


def test_what_never_started_is_started_and_nothing_else(kind: str, chat: Conversation) -> None:
    """It gives the calls that were open, as they now stand, in call order."""
    leave_one_of_each(chat)
    plan = resume_plan(chat.events(), lambda _: False)
    bank = Bank()
    done = resuming(kind, chat, bank.tool()).resume()
    assert bank.paid == [step.id for step in plan.safe] == ["fresh", "approved"]
    assert [(tool.id, tool.status.name) for tool in done] == [
        ("fresh", "Completed"), ("approved", "Completed"), ("running", "Running"),
        ("timeout", "Failed"),
    ]  # fmt: skip
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
def test_the_outside_system_says_what_became_of_the_rest(
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


def test_what_may_run_twice_is_run_again(kind: str, chat: Conversation) -> None:
    """An idempotent tool needs nobody to be asked, as long as its policy has attempts left."""
    leave_one_of_each(chat)
    bank = Bank()
    resuming(kind, chat, bank.tool(idempotent=True, verify=bank.verify)).resume()
    assert bank.asked == []
    assert len(bank.paid) == 4


def test_what_may_run_twice_does_not_run_for_ever(kind: str, chat: Conversation) -> None:
    """A call that kills its process each time runs out of attempts."""
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
        chat.fail(call_id, ConnectionError("reset"), delay=delay)
    clock.advance(10)
    bank, waits = Bank(), Waits()
    resuming(kind, chat, bank.tool(), clock=clock, sleep=waits).resume()
    assert clock.now == NOON + 10_000_000
    assert bank.paid == ["soon", "late"]
    assert waits.seconds == [20, 0]
    assert chat.tools["soon"].attempts == 2


def test_a_clock_that_was_set_back_delays_nothing(
    kind: str, chat: Conversation, clock: FrozenClock
) -> None:
    """No wait is longer than the policy allows."""
    chat.request("pay", call_id="a")
    chat.start("a")
    chat.fail("a", ConnectionError("reset"), delay=2)
    clock.advance(-86_400)
    bank, waits = Bank(), Waits()
    tool = bank.tool(retry=RetryPolicy(3, 1, 5))
    resuming(kind, chat, tool, clock=clock, sleep=waits).resume()
    assert (bank.paid, waits.seconds) == (["a"], [5])


def test_attempts_are_counted_over_the_crash(kind: str, chat: Conversation) -> None:
    """The policy's maximum is of the call, not of the process."""
    chat.request("bad", call_id="a")
    chat.start("a")
    chat.fail("a", ConnectionError("reset"), delay=1)
    bad = FunctionTool(raising(ConnectionError("reset")), "bad", retry=RetryPolicy(2))
    resuming(kind, chat, bad).resume()
    assert chat.tools["a"].attempts == 2


def test_a_person_is_still_asked(kind: str, chat: Conversation) -> None:
    """An approval that nobody gave is not given by a restart."""
    chat.request("pay", call_id="a")
    bank = Bank()
    tool = bank.tool(needs_approval=True)
    (waiting,) = resuming(kind, chat, tool).resume()
    assert waiting.is_pending
    resuming(kind, chat, tool, approver=lambda _: True).resume()
    assert bank.paid == ["a"]


def test_what_cannot_start_is_closed(kind: str, chat: Conversation) -> None:
    """Unknown tools and arguments that do not parse, as in any turn."""
    chat.request("nope", call_id="a")
    chat.request("pay", "{oops", call_id="b")
    done = resuming(kind, chat, Bank().tool()).resume()
    assert [tool.status.name for tool in done] == ["Failed", "Failed"]


def test_a_started_call_of_a_tool_that_is_not_here_stays_as_it_is(
    kind: str, chat: Conversation
) -> None:
    """Another process has the tool, and the answer."""
    chat.request("elsewhere", call_id="a")
    chat.start("a")
    (tool,) = resuming(kind, chat, Bank().tool()).resume()
    assert tool.status.name == "Running"


def test_an_imported_call_without_a_result_may_have_run(kind: str, chat: Conversation) -> None:
    """It is asked about, and never just started; nor is it said that it did not run."""
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


def test_the_limit_of_a_turn_outlives_the_process(kind: str, chat: Conversation) -> None:
    """What ran before the crash counts."""
    for call_id in "abc":
        chat.request("pay", call_id=call_id)
    chat.start("a")
    chat.complete("a", "paid")
    bank = Bank()
    resuming(kind, chat, bank.tool(), max_calls_per_turn=2).resume()
    assert bank.paid == ["b"]
    assert chat.tools["c"].status.name == "Rejected"


def test_one_system_that_cannot_be_asked_holds_up_no_other(kind: str, chat: Conversation) -> None:
    """Its error is raised at the end; its call stays unknown."""
    for call_id, name in (("a", "down"), ("b", "pay"), ("c", "pay")):
        chat.request(name, call_id=call_id)
    chat.start("a")
    chat.start("b")
    bank = Bank(Outcome.done("paid"))
    down = FunctionTool(bank.pay, "down", verify=raising(ConnectionError("no route")))
    with pytest.raises(TypeError):  # `raising` takes no call: as good an error as any
        resuming(kind, chat, down, bank.tool(verify=bank.verify)).resume()
    assert [tool.status.name for tool in chat.tools.values()] == [
        "Running", "Completed", "Completed",
    ]  # fmt: skip


def test_parallel_calls_are_resumed_too(kind: str, chat: Conversation) -> None:
    """Those that never started side by side, the others one by one."""
    leave_one_of_each(chat)
    bank = Bank(Outcome.not_done())
    resuming(kind, chat, bank.tool(parallel=True, verify=bank.verify)).resume()
    assert sorted(bank.paid) == ["approved", "fresh", "running", "timeout"]


def test_a_run_that_ends_leaves_the_unknown_unknown(kind: str, chat: Conversation) -> None:
    """Nothing more is started or asked, and what started before is not called cancelled."""
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


def test_a_log_out_of_order_is_resumed_as_far_as_it_says(
    kind: str, chat: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What breaks the lifecycle is passed over."""
    chat.request("pay", call_id="a")
    chat.start("a")
    events = list(chat.events())
    monkeypatch.setattr(chat, "events", lambda: iter([*events[:1], events[2], *events[1:2]]))
    bank = Bank()
    full = raising(StoreFull("no space"))
    monkeypatch.setattr(Conversation, "start", lambda *_: full())
    with pytest.raises(StoreFull):
        resuming(kind, chat, bank.tool()).resume()
    assert bank.paid == []


def test_a_refused_outcome_is_recorded_with_its_reason(kind: str, chat: Conversation) -> None:
    """As the outside system gave it."""
    chat.request("pay", call_id="a")
    chat.start("a")
    declined = Failure(ErrorKind.PERMANENT, "declined", code="card_declined")
    bank = Bank(Outcome.failed(declined))
    resuming(kind, chat, bank.tool(verify=bank.verify)).resume()
    assert last(chat, ToolFailed).failure == declined
    assert tags(chat) == ["pending", "running", "failed"]
