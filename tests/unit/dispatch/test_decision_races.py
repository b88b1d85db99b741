"""Hooks and the approver decide on the call that they saw; a hook may let a person decide again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from support.dispatchers import make, tags

from eventstore import (
    Approve,
    Approved,
    Ask,
    Conversation,
    Defer,
    EventStore,
    FunctionTool,
    HookAnswer,
    Pending,
    Reject,
    RetryPolicy,
    Skip,
    Tool,
)
from eventstore.testing import NOON, FrozenClock
from projections import pending_approvals


class Desk:
    """An approver, or a hook: while it looks for the first time, another desk acts."""

    def __init__(self, answer: object, beside: Callable[[], object]) -> None:
        self._answer = answer
        self._beside = beside
        self.shown: list[Any] = []

    def __call__(self, tool: Tool) -> object:
        """Return the answer."""
        self.shown.append(tool.effective_call.arguments["euros"])
        if len(self.shown) == 1:
            self._beside()
        return self._answer


@pytest.fixture
def paid() -> list[int]:
    """Return what was paid."""
    return []


@pytest.fixture
def pay(paid: list[int]) -> Any:
    """Return the tool, which needs approval."""

    def pay(euros: int) -> str:
        paid.append(euros)
        return "paid"

    return FunctionTool(pay, needs_approval=True)


def edits(chat: Conversation) -> None:
    """Approve it with other arguments."""
    chat.approve("c1", {"euros": 9000}, by="second desk")


def edits_and_pauses(chat: Conversation) -> None:
    """Let it start with other arguments, and pause."""
    edits(chat)
    chat.begin("c1").pause(reason="more than 1,000")


@pytest.mark.parametrize(
    ("answer", "end"),
    [
        (Approve(by="first desk"), "Completed"),
        (Reject("no"), "Rejected"),
        (Skip("as before"), "Completed"),
        (Defer(NOON + 1), "Pending"),
        (Ask("twice"), "Pending"),
    ],
)
def test_an_approver_decides_on_what_it_saw(
    kind: str, chat: Conversation, clock: FrozenClock, pay: Any, paid: Any, answer: Any, end: str
) -> None:
    """The approver is asked again about the call as it is; only the second answer is in the log."""
    call = chat.request("pay", {"euros": 1}, "c1")
    desk = Desk(answer, lambda: edits_and_pauses(chat))
    (done,) = make(kind, chat, [pay], approver=desk, clock=clock).dispatch([call])
    assert desk.shown == [1, 9000]
    assert done.status.name == end
    assert paid == ([9000] if isinstance(answer, Approve) else [])
    hooks = [getattr(recorded.event, "hooks", ()) for recorded in chat.events(5)]
    assert len(hooks[0]) == 1


@pytest.mark.parametrize("answer", [Approve(), Reject("no"), Skip("as before"), Ask("twice")])
def test_a_hook_decides_on_what_it_saw(
    kind: str, chat: Conversation, pay: Any, paid: Any, answer: Any
) -> None:
    """A person has edited and approved the call meanwhile: the hook sees the edit, too."""
    call = chat.request("pay", {"euros": 1}, "c1")
    desk = Desk(answer, lambda: edits(chat))
    make(kind, chat, [pay], hooks=[desk]).dispatch([call])
    assert desk.shown == [1, 9000]
    assert paid == ([9000] if answer == Approve() else [])


def test_a_person_who_said_the_same_was_first(
    kind: str, chat: Conversation, pay: Any, paid: Any
) -> None:
    """The first approval stands, and nobody is asked again."""
    call = chat.request("pay", {"euros": 1}, "c1")
    desk = Desk(Approve(by="first desk"), lambda: chat.approve("c1", by="second desk"))
    make(kind, chat, [pay], approver=desk).dispatch([call])
    assert (desk.shown, paid) == ([1], [1])
    assert tags(chat) == ["pending", "approved", "running", "completed"]


def reason_of(chat: Conversation) -> str | None:
    """Return why the call waits."""
    status = chat.tool("c1").status
    assert isinstance(status, Pending)
    return status.reason


# asking again


def asks_above(limit: int) -> Callable[[Tool], Ask | None]:
    """Return a hook that takes back what the first desk approved above a limit."""

    def second_look(tool: Tool) -> Ask | None:
        by = tool.status.by if isinstance(tool.status, Approved) else None
        if tool.effective_call.arguments["euros"] > limit and by != "second desk":
            return Ask("above the limit")
        return None

    return second_look


def test_a_hook_takes_an_approval_back(
    kind: str, chat: Conversation, store: EventStore, pay: Any, paid: Any
) -> None:
    """The call waits in the inbox with the reason, however often it is dispatched."""
    call = chat.request("pay", {"euros": 900}, "c1")
    seen = chat.approve("c1", by="first desk")
    driven = make(kind, chat, [pay], hooks=[asks_above(500)])
    for _ in range(2):
        (waiting,) = driven.dispatch([call.id])
        assert (waiting.is_paused, waiting.attempts, paid) == (True, 0, [])
    assert tags(chat) == ["pending", "approved", "paused"]
    (asked,) = pending_approvals(store)
    assert asked.reason == "above the limit"
    assert next(iter(chat.events(3))).event.hooks == (  # type: ignore[union-attr]
        HookAnswer("second_look", "ask", "above the limit"),
    )
    with pytest.raises(Exception, match="since it was seen"):
        chat.approve("c1", by="first desk", seen=seen)
    chat.approve("c1", by="second desk", seen=asked.revision)
    driven.resume()
    assert paid == [900]


def test_an_approver_is_asked_where_a_hook_asks(kind: str, chat: Conversation, paid: Any) -> None:
    """The tool itself needs no approval; the approver may leave it to others in turn."""

    def pay(euros: int) -> str:
        paid.append(euros)
        return "paid"

    answers = [Ask("ask the boss"), Approve(by="second desk")]
    driven = make(kind, chat, [pay], hooks=[asks_above(500)], approver=lambda _: answers.pop(0))
    driven.dispatch([chat.request("pay", {"euros": 900}, "c1")])
    assert (reason_of(chat), paid) == ("ask the boss", [])
    driven.resume()
    assert paid == [900]
    driven.dispatch([chat.request("pay", {"euros": 5}, "c2")])
    assert paid == [900, 5]


# approvals that expire


def test_an_expired_approval_starts_nothing(
    kind: str, chat: Conversation, clock: FrozenClock, pay: Any, paid: Any
) -> None:
    """The call waits, and the approver is asked when it is dispatched again."""
    call = chat.request("pay", {"euros": 1}, "c1")
    chat.approve("c1", by="ann", expires=timedelta(seconds=5))
    clock.advance(5)
    hour = Approve(by="bob", expires=timedelta(hours=1))
    driven = make(kind, chat, [pay], approver=lambda _: hour)
    driven.dispatch([call.id])
    assert (reason_of(chat), paid) == ("the approval by ann has expired", [])
    (done,) = driven.dispatch([call.id])
    assert (done.status.name, paid) == ("Completed", [1])
    assert done.expires_at == clock.now + 3_600_000_000


def test_an_announced_attempt_is_asked_about_again_when_the_approval_expires(
    kind: str, chat: Conversation, clock: FrozenClock, paid: list[int]
) -> None:
    """The inbox has the call with the reason, the approver is asked, and attempts count on."""

    def pay(euros: int) -> str:
        paid.append(euros)
        return "paid"

    tool = FunctionTool(pay, needs_approval=True, retry=RetryPolicy(max_attempts=2))
    call = chat.request("pay", {"euros": 1}, "c1")
    chat.approve("c1", by="ann", expires=timedelta(seconds=5))
    chat.start("c1")
    chat.fail("c1", "busy", delay=1)
    clock.advance(5)
    asked: list[Tool] = []
    driven = make(kind, chat, [tool], approver=lambda waits: asked.append(waits) or Approve())
    driven.resume()
    assert (reason_of(chat), paid, asked) == ("the approval has expired", [], [])
    (done,) = driven.resume()
    assert (done.id, done.status.name, done.attempts) == (call.id, "Completed", 2)
    assert (len(asked), paid) == (1, [1])


def test_a_retry_policy_goes_on_with_the_approval(
    kind: str, chat: Conversation, paid: list[int]
) -> None:
    """A person allowed the call once, and it took effect once."""

    def pay(euros: int) -> str:
        paid.append(euros)
        if len(paid) < 3:
            raise ConnectionRefusedError("busy")
        return "paid"

    tool = FunctionTool(pay, needs_approval=True, retry=RetryPolicy(max_attempts=3))
    call = chat.request("pay", {"euros": 1}, "c1")
    assert isinstance(chat.approve("c1").status, Approved)
    (done,) = make(kind, chat, [tool], sleep=lambda _: None).dispatch([call.id])
    assert (done.status.name, done.attempts) == ("Completed", 3)
