"""Tools that pause in a dispatcher: the call waits, and the framework gets its exception."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from support.dispatchers import answers, make, tags

from eventstore import (
    Approve,
    Conversation,
    ErrorKind,
    EventStore,
    EventStoreError,
    FunctionTool,
    Outcome,
    Pending,
    RetryPolicy,
    Tool,
    ToolErrorPolicy,
    ToolErrorTerminal,
)
from eventstore.testing import NOON, FrozenClock
from projections import pending_approvals, resume_plan


class Interrupted(Exception):
    """The exception by which a framework pauses a tool."""


class NeedsPerson(Interrupted):
    """One kind of it."""


class Signal(BaseException):
    """The same in a framework whose users must not catch it by accident."""


class Desk:
    """Tools, one of which asks for a person the first time."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error or NeedsPerson("delete ann?")
        self.ran: list[str] = []

    def delete(self, tool: Tool) -> str:
        """Ask before it deletes."""
        if tool.decided_at is None:
            raise self.error
        self.ran.append("delete")
        return "deleted"

    async def delete_async(self, tool: Tool) -> str:
        """Do the same without a thread."""
        await asyncio.sleep(0)
        return self.delete(tool)

    def look(self) -> str:
        """Look at an account."""
        self.ran.append("look")
        return "seen"

    def tools(self, *, parallel: bool = False, **options: Any) -> list[FunctionTool[..., Any]]:
        """Return them."""
        return [
            FunctionTool(self.delete, takes_tool=True, parallel=parallel, **options),
            FunctionTool(self.delete_async, takes_tool=True, parallel=parallel, **options),
            FunctionTool(self.look, parallel=parallel),
        ]


@pytest.fixture
def desk() -> Desk:
    """Return the tools."""
    return Desk()


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("name", ["delete", "delete_async"])
def test_a_tool_that_pauses_waits_and_the_other_calls_run(
    kind: str, store: EventStore, chat: Conversation, desk: Desk, name: str, *, parallel: bool
) -> None:
    """The exception is raised when they have their answers, and its text is in the inbox."""
    calls = [chat.request(name), chat.request("look")]
    driven = make(kind, chat, desk.tools(parallel=parallel), pauses=(KeyError, Interrupted))
    with pytest.raises(NeedsPerson) as raised:
        driven.dispatch(calls)
    assert raised.value is desk.error
    waiting, seen = (chat.tools[call.id] for call in calls)
    assert waiting.status == Pending(None, needs_decision=True, reason="delete ann?")
    assert (waiting.attempts, seen.status.name, desk.ran) == (1, "Completed", ["look"])
    assert [approval.call_id for approval in pending_approvals(store)] == [waiting.id]
    assert "has not run to its end" in answers(chat)[waiting.id]
    assert "ann" not in answers(chat)[waiting.id]


def test_a_paused_tool_runs_again_only_after_a_decision(
    kind: str, chat: Conversation, desk: Desk
) -> None:
    """Neither a resume nor a second dispatch runs it before; it then runs once."""
    call = chat.request("delete")
    driven = make(kind, chat, desk.tools(), pauses=Interrupted)
    with pytest.raises(Interrupted):
        driven.dispatch([call])
    assert driven.resume()[0].is_paused
    assert driven.dispatch([call.id])[0].is_paused
    assert driven.dispatch([call])[0].is_paused, "a handle from before the pause"
    assert (chat.tools[call.id].attempts, desk.ran) == (1, [])
    chat.approve(call.id, by="grace")
    (done,) = driven.resume()
    assert (done.status.name, done.attempts, desk.ran) == ("Completed", 2, ["delete"])
    assert tags(chat) == ["pending", "running", "paused", "approved", "running", "completed"]


def test_a_resume_raises_the_pause_of_a_tool_too(kind: str, chat: Conversation, desk: Desk) -> None:
    """A call that a crash left open may pause as any other."""
    call = chat.request("delete")
    driven = make(kind, chat, desk.tools(), pauses=Interrupted)
    with pytest.raises(Interrupted):
        driven.resume()
    assert chat.tools[call.id].is_paused


def test_a_paused_call_of_unknown_outcome_waits_for_its_decision(
    kind: str, chat: Conversation, desk: Desk
) -> None:
    """An outside system that knows nothing of the first attempt does not replace the decision."""
    call = chat.request("delete")
    chat.start(call.id)  # and here the process was killed
    tools = desk.tools(verify=lambda _: Outcome.not_done())
    driven = make(kind, chat, tools, pauses=Interrupted)
    with pytest.raises(Interrupted):
        driven.resume()
    (waiting,) = driven.resume()
    assert (waiting.is_paused, waiting.attempts, desk.ran) == (True, 2, [])
    chat.approve(call.id, by="grace")
    (done,) = driven.resume()
    assert (done.status.name, done.attempts, desk.ran) == ("Completed", 3, ["delete"])


def test_the_approver_decides_on_a_paused_call(kind: str, chat: Conversation, desk: Desk) -> None:
    """The approver is asked at the next dispatch, although the tool needs no approval."""
    call = chat.request("delete")
    asked: list[str] = []

    def approver(tool: Tool) -> Approve:
        asked.append(tool.id)
        return Approve(by="grace")

    driven = make(kind, chat, desk.tools(), pauses=Interrupted, approver=approver)
    with pytest.raises(Interrupted):
        driven.dispatch([call])
    assert asked == []
    (done,) = driven.dispatch([call.id])
    assert (done.status.name, asked) == ("Completed", [call.id])


def test_a_due_deferred_call_may_pause_as_well(
    kind: str, chat: Conversation, clock: FrozenClock, desk: Desk
) -> None:
    """The call runs when its time has come; after its pause no time lets it run."""
    call = chat.request("delete")
    chat.defer(call.id, NOON + 1)
    driven = make(kind, chat, desk.tools(), pauses=Interrupted, clock=clock)
    assert driven.resume()[0].attempts == 0
    clock.now = NOON + 1
    with pytest.raises(Interrupted):
        driven.resume()
    clock.now = NOON + 2
    (waiting,) = driven.resume()
    assert (waiting.attempts, waiting.is_paused, desk.ran) == (1, True, [])


def test_the_first_of_several_pauses_is_raised(kind: str, chat: Conversation) -> None:
    """First in the order of the calls, also if they run concurrently; all of them wait."""

    def ask(number: int) -> None:
        raise NeedsPerson(str(number))

    calls = [chat.request("ask", {"number": number}) for number in range(6)]
    driven = make(kind, chat, [FunctionTool(ask, parallel=True)], pauses=Interrupted)
    with pytest.raises(NeedsPerson, match=r"^0$"):
        driven.dispatch(calls)
    statuses = [chat.tools[call.id].status for call in calls]
    assert statuses == [Pending(None, needs_decision=True, reason=str(n)) for n in range(6)]


def test_a_pause_is_no_failure_to_retry_or_to_judge(kind: str, chat: Conversation) -> None:
    """Neither the policy of retries nor the one that ends the run is asked."""
    desk = Desk(ConnectionResetError("reset"))
    policy = ToolErrorPolicy(frozenset(ErrorKind))
    tools = desk.tools(retry=RetryPolicy(3, 0.001, 0.001), abort_siblings=True)
    driven = make(kind, chat, tools, pauses=ConnectionError, policy=policy)
    calls = [chat.request("delete"), chat.request("look")]
    with pytest.raises(ConnectionResetError):
        driven.dispatch(calls)
    assert tags(chat, calls[0].id) == ["pending", "running", "paused"]
    assert desk.ran == ["look"]
    assert resume_plan(chat.events()).unknown == []


def test_other_errors_fail_as_before(kind: str, chat: Conversation) -> None:
    """Only the exceptions that were named pause a tool, and without them none does."""
    for options, error in (({"pauses": Interrupted}, ValueError("broken")), ({}, NeedsPerson())):
        call = chat.request("delete")
        (done,) = make(kind, chat, Desk(error).tools(), **options).dispatch([call])
        assert done.status.name == "Failed"


@pytest.mark.parametrize("parallel", [False, True])
def test_an_exception_that_nobody_may_catch_pauses_too(
    kind: str, chat: Conversation, *, parallel: bool
) -> None:
    """A class that does not derive from `Exception` is no interruption if it was named."""
    desk = Desk(Signal("wait"))
    calls = [chat.request("delete"), chat.request("look"), chat.request("look")]
    driven = make(kind, chat, desk.tools(parallel=parallel), pauses=Signal)
    with pytest.raises(Signal):
        driven.dispatch(calls)
    assert [chat.tools[call.id].status.name for call in calls] == [
        "Pending",
        "Completed",
        "Completed",
    ]


@pytest.mark.parametrize(
    ("error", "base", "code"),
    [
        (TimeoutError("slow"), Exception, "timeout"),
        (KeyboardInterrupt(), BaseException, "interrupted"),
        (SystemExit(1), BaseException, "interrupted"),
        (asyncio.CancelledError(), BaseException, "cancelled"),
    ],
)
def test_an_interruption_is_never_a_pause(
    chat: Conversation, error: BaseException, base: type[BaseException], code: str
) -> None:
    """The call may have taken effect, so a base class of the error does not cover it."""
    call = chat.request("delete")
    driven = make("threads", chat, Desk(error).tools(), pauses=base)
    ends_run = isinstance(error, KeyboardInterrupt | SystemExit)
    with pytest.raises(type(error)) if ends_run else nullcontext():
        driven.dispatch([call])
    status: Any = chat.tools[call.id].status
    assert (status.name, status.failure.code) == ("Failed", code)
    assert "may have taken effect" in answers(chat)[call.id]


def test_a_cancelled_task_is_no_pause(chat: Conversation) -> None:
    """The cancel is recorded as one, and the task ends."""

    async def cancel() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.Event().wait()

    call = chat.request("cancel")
    driven = make("asyncio", chat, [cancel], pauses=BaseException)
    with pytest.raises(asyncio.CancelledError):
        driven.dispatch([call])
    status: Any = chat.tools[call.id].status
    assert status.failure.code == "cancelled"


def test_a_limit_of_time_is_no_pause(kind: str, chat: Conversation) -> None:
    """The dispatcher gave up on the attempt; the tool did not pause it."""

    async def wait() -> None:
        await asyncio.Event().wait()

    call = chat.request("wait")
    (done,) = make(kind, chat, [FunctionTool(wait, timeout=0.01)], pauses=Exception).dispatch(
        [call]
    )
    status: Any = done.status
    assert (status.name, status.failure.code) == ("Failed", "timeout")


def test_a_terminal_failure_is_raised_before_a_pause(
    kind: str, chat: Conversation, desk: Desk
) -> None:
    """The run ends, and the paused call waits for a later one."""

    def login() -> None:
        raise PermissionError("401")

    calls = [chat.request(name) for name in ("delete", "login", "look")]
    policy = ToolErrorPolicy.operator_safe()
    driven = make(kind, chat, [*desk.tools(), login], pauses=Interrupted, policy=policy)
    with pytest.raises(ToolErrorTerminal):
        driven.dispatch(calls)
    statuses = [chat.tools[call.id].status.name for call in calls]
    assert statuses == ["Pending", "Failed", "Rejected"]


def test_a_decision_that_comes_while_the_tool_pauses_stands(kind: str, chat: Conversation) -> None:
    """A person answered the call meanwhile; the framework stops all the same."""

    def ask(tool: Tool) -> None:
        chat.complete(tool.id, "answered")
        raise NeedsPerson

    call = chat.request("ask")
    driven = make(kind, chat, [FunctionTool(ask, takes_tool=True)], pauses=Interrupted)
    with pytest.raises(NeedsPerson):
        driven.dispatch([call])
    assert chat.tools[call.id].status.name == "Completed"


def test_a_pause_that_is_not_recorded_is_an_error(kind: str, tmp_path: Path) -> None:
    """The error of the store is raised, and the attempt has no recorded end."""
    url = f"sqlite:///{tmp_path / 'agent.db'}"
    store = EventStore.open(url)
    chat = store.conversation("c")
    call = chat.request("close")

    def close() -> None:
        store.close()
        raise NeedsPerson

    with pytest.raises(EventStoreError, match="closed"):
        make(kind, chat, [close], pauses=Interrupted).dispatch([call])
    with EventStore.open(url) as reopened:
        plan = resume_plan(reopened.conversation("c").events())
        assert [step.id for step in plan.unknown] == [call.id]


@pytest.mark.parametrize(
    ("pauses", "message"),
    [
        ("Interrupted", "pass exception classes"),
        ((Interrupted("one"),), "pass exception classes"),
        ((Interrupted, int), "pass exception classes"),
        (asyncio.CancelledError, "CancelledError, after which the call may have taken effect"),
        ((Interrupted, TimeoutError), "TimeoutError, after which the call may have taken effect"),
        (KeyboardInterrupt, "pass the exceptions by which a framework pauses a tool"),
    ],
)
def test_other_classes_are_refused_as_pauses(
    kind: str, chat: Conversation, pauses: Any, message: str
) -> None:
    """Where the dispatcher is made, and before an attempt is started."""
    with pytest.raises(TypeError, match=message):
        make(kind, chat, [], pauses=pauses)
    call = chat.request("pay")
    with pytest.raises(TypeError, match=message), chat.running(call.id, pauses=pauses):
        raise AssertionError("it has started")
    assert chat.tools[call.id].attempts == 0


def test_an_interruption_of_an_attempt_by_hand_is_no_pause(chat: Conversation) -> None:
    """The same rule holds for `running`."""
    call = chat.request("pay")

    def interrupted() -> None:
        with chat.running(call.id, pauses=BaseException):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    status: Any = chat.tools[call.id].status
    assert (status.name, status.failure.code) == ("Failed", "interrupted")
