"""Pauses and deferrals: a call waits again, and nothing says that it ran to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from eventstore import (
    AsyncEventStore,
    Conversation,
    EventStore,
    FunctionCall,
    IllegalTransition,
    Pending,
    Tool,
    ToolPaused,
    UnknownEvent,
)
from eventstore.domain.codec import encode
from eventstore.providers import PROVIDERS
from eventstore.testing import NOON, FrozenClock
from projections import (
    Projector,
    error_statistics,
    model_history,
    pending_approvals,
    replay,
    resume_plan,
)

HOUR = 3_600_000_000
TOMORROW = NOON + 24 * HOUR


class Interrupted(Exception):
    """The exception by which a framework pauses a tool."""


class NeedsPerson(Interrupted):
    """One kind of it."""


class Verbs:
    """The verbs of a conversation, called without `await`, through either handle."""

    def __init__(self, kind: str, store: EventStore) -> None:
        self._kind = kind
        self._store = store

    def call(self, verb: str, *args: Any, **options: Any) -> Any:
        """Call a verb."""
        if self._kind == "sync":
            return getattr(self._store.conversation("c"), verb)(*args, **options)

        async def go() -> Any:
            return await getattr(AsyncEventStore(self._store).conversation("c"), verb)(
                *args, **options
            )

        return asyncio.run(go())

    def running(self, call_id: str, act: Callable[[Any], Any], **options: Any) -> None:
        """Run a call; `act` is given the attempt."""
        if self._kind == "sync":
            with self._store.conversation("c").running(call_id, **options) as attempt:
                act(attempt)
            return

        async def go() -> None:
            chat = AsyncEventStore(self._store).conversation("c")
            async with chat.running(call_id, **options) as attempt:
                done = act(attempt)
                if hasattr(done, "__await__"):
                    await done

        asyncio.run(go())


@pytest.fixture(params=["sync", "async"])
def verbs(request: pytest.FixtureRequest, store: EventStore) -> Verbs:
    """Return the verbs of one kind of handle."""
    return Verbs(request.param, store)


def raising(error: BaseException) -> Callable[[Any], Any]:
    """Return what raises an error in an attempt."""

    def act(_: Any) -> None:
        raise error

    return act


def answers(chat: Conversation) -> dict[str, str]:
    """Return the text of the one answer, by provider."""
    history = model_history(chat.events())
    (call,) = history.turns[-1].calls
    for provider in PROVIDERS:
        assert call.answer.text in str(history.render(provider))
    return {"text": call.answer.text, "is_error": str(call.answer.is_error)}


def only(chat: Conversation) -> Tool:
    """Return the one call of the conversation."""
    (tool,) = chat.tools.values()
    return tool


# an attempt that pauses


def test_a_paused_attempt_waits_again(chat: Conversation, store: EventStore, verbs: Verbs) -> None:
    """The call is pending and in the inbox; its attempt is counted, and not of unknown outcome."""
    call = chat.request("pay", {"sum": 9}, "call_1")
    chat.approve(call.id, {"sum": 4}, by="ada")
    verbs.running(call.id, lambda attempt: attempt.pause(reason="above the limit"))
    tool = only(chat)
    assert tool.status == Pending(None, needs_decision=True, reason="above the limit")
    assert (tool.is_pending, tool.is_paused, tool.is_executing, tool.is_resolved) == (
        True,
        True,
        False,
        False,
    )
    assert (tool.attempts, tool.decided_at, tool.response) == (1, None, None)
    assert tool.effective_call.arguments == {"sum": 4}, "an edit stays in force for good"
    (waiting,) = pending_approvals(store)
    assert (waiting.call_id, waiting.arguments, waiting.attempts) == ("call_1", {"sum": 4}, 1)
    assert (waiting.reason, waiting.until) == ("above the limit", None)
    plan = resume_plan(chat.events(), lambda _: False)
    assert [step.id for step in plan.waiting] == ["call_1"]
    assert plan.waiting[0].reason == "it paused, and waits for a decision: above the limit"
    assert not plan.unknown
    assert not plan.safe
    assert list(store.verify()) == []


def test_a_paused_call_needs_a_decision_before_it_goes_on(chat: Conversation, verbs: Verbs) -> None:
    """A start without one is refused; after an approval the next attempt follows."""
    call = chat.request("pay", {"sum": 9})
    verbs.running(call.id, lambda attempt: attempt.pause())
    with pytest.raises(IllegalTransition, match=r"until a person decides.*pass attempt=2"):
        verbs.call("start", call.id)
    verbs.call("approve", call.id, by="ada")
    verbs.running(call.id, lambda attempt: attempt.complete("paid"))
    tool = only(chat)
    assert (tool.status.name, tool.attempts) == ("Completed", 2)
    tags = [recorded.event.tag for recorded in chat.events()]
    assert tags == ["pending", "running", "paused", "approved", "running", "completed"]


def test_a_paused_call_is_started_all_the_same_with_its_number(chat: Conversation) -> None:
    """As for an attempt without a recorded end, the caller says that it knows."""
    call = chat.request("pay")
    with chat.running(call.id) as attempt:
        attempt.pause()
    assert chat.start(call.id, attempt=2).status.name == "Running"


def test_a_paused_call_may_be_rejected_or_answered(chat: Conversation) -> None:
    """A person refuses it, or gives the result that the tool could not."""
    refused, answered = chat.request("pay").id, chat.request("ask").id
    for call in (refused, answered):
        with chat.running(call) as attempt:
            attempt.pause()
    assert chat.reject(refused, "no", by="ada").status.name == "Rejected"
    assert chat.complete(answered, "42").status.name == "Completed"


def test_a_second_approval_keeps_the_edit_of_the_first(chat: Conversation) -> None:
    """The handle, the state and the log agree on it."""
    call = chat.request("pay", {"sum": 9})
    chat.approve(call.id, {"sum": 4})
    with chat.running(call.id) as attempt:
        attempt.pause()
    returned = chat.approve(call.id)
    assert returned.effective_call.arguments == {"sum": 4}
    assert returned == only(chat)
    with chat.running(call.id) as attempt:
        assert attempt.arguments == {"sum": 4}
        attempt.complete("paid")


@pytest.mark.parametrize("error", [NeedsPerson("pay 9?"), NeedsPerson()])
def test_a_frameworks_interrupt_pauses_the_attempt(
    chat: Conversation, verbs: Verbs, error: Interrupted
) -> None:
    """The exception is raised again, and its text is the reason."""
    call = chat.request("pay")
    with pytest.raises(NeedsPerson):
        verbs.running(call.id, raising(error), pauses=(KeyError, Interrupted))
    status = only(chat).status
    assert status == Pending(None, needs_decision=True, reason=str(error) or "NeedsPerson")


def test_other_errors_are_failures_as_before(chat: Conversation, verbs: Verbs) -> None:
    """Only the exceptions that were named pause an attempt."""
    call = chat.request("pay")
    with pytest.raises(ValueError, match="broken"):
        verbs.running(call.id, raising(ValueError("broken")), pauses=Interrupted)
    assert only(chat).status.name == "Failed"


def test_an_interrupt_after_the_result_changes_nothing(chat: Conversation) -> None:
    """The tool did its work."""
    call = chat.request("pay")

    def pay() -> None:
        with chat.running(call.id, pauses=Interrupted) as attempt:
            attempt.complete("paid")
            raise Interrupted

    with pytest.raises(Interrupted):
        pay()
    assert only(chat).status.name == "Completed"


def test_only_exception_classes_are_taken_for_pauses(chat: Conversation, verbs: Verbs) -> None:
    """The error is raised before anything is recorded."""
    call = chat.request("pay")
    for pauses in ("Interrupted", (Interrupted("one"),), (int,)):
        with pytest.raises(TypeError, match="pass exception classes"):
            verbs.running(call.id, raising(Interrupted()), pauses=pauses)
    assert only(chat).attempts == 0


def test_only_the_attempt_under_way_pauses(chat: Conversation) -> None:
    """A replaced worker cannot pause the next attempt, and another process cannot defer it."""
    call = chat.request("pay")
    with chat.running(call.id) as first:
        chat.start(call.id, attempt=2)
        assert first.pause(reason="late").status.name == "Running"
        late: Any = list(chat.events())[-1].event
        assert (late.tag, late.attempt, late.reason) == ("ended_late", 1, "late")
        with pytest.raises(IllegalTransition, match="attempt 2 is under way, and may pause itself"):
            chat.defer(call.id, TOMORROW)
        chat.complete(call.id, "paid")
    with pytest.raises(IllegalTransition, match="is Completed: paused is not allowed"):
        chat.defer(call.id, TOMORROW)
    other = chat.request("pay")
    with pytest.raises(IllegalTransition, match="attempt 3 is not under way"):
        chat.append(ToolPaused(other.id, 3))


def test_the_same_pause_again_is_no_event(chat: Conversation) -> None:
    """A repeated append changes nothing."""
    call = chat.request("pay")
    chat.start(call.id)
    chat.append(ToolPaused(call.id, 1))
    version = chat.version
    chat.append(ToolPaused(call.id, 1))
    chat.defer(call.id, TOMORROW)
    chat.defer(call.id, TOMORROW)
    assert chat.version == version + 1


def test_a_killed_attempt_that_had_not_paused_stays_unknown(tmp_path: Path) -> None:
    """A killed process leaves a waiting call if the pause was recorded, else an unknown one."""
    url = f"sqlite:///{tmp_path / 'agent.db'}"
    with EventStore.open(url) as store:
        chat = store.conversation("c")
        paused, killed = chat.request("pay", {"n": 1}).id, chat.request("pay", {"n": 2}).id
        with chat.running(paused) as attempt:
            attempt.pause()
        chat.start(killed)  # and here the process was killed
    with EventStore.open(url) as store:
        plan = resume_plan(store.conversation("c").events())
        assert [step.id for step in plan.waiting] == [paused]
        assert [step.id for step in plan.unknown] == [killed]
        assert [waiting.call_id for waiting in pending_approvals(store)] == [paused]


def test_an_unknown_attempt_before_a_pause_stays_unknown(chat: Conversation) -> None:
    """The pause says nothing about the attempt before it."""
    call = chat.request("pay")
    chat.start(call.id)
    with chat.running(call.id, attempt=2) as attempt:
        attempt.pause()
    (step,) = resume_plan(chat.events()).unknown
    assert [attempt.attempt for attempt in step.attempts] == [1]


# a time to wait for


def test_a_deferred_call_is_due_when_its_time_has_come(
    chat: Conversation, store: EventStore, verbs: Verbs
) -> None:
    """Before it is scheduled, with its time; after it is safe to start."""
    call = chat.request("pay")
    verbs.call("defer", call.id, TOMORROW, "the bank is closed")
    assert only(chat).status == Pending(TOMORROW, reason="the bank is closed")
    for now in (None, NOON, TOMORROW - 1):
        plan = resume_plan(chat.events(), now=now)
        assert [(s.id, s.action, s.not_before) for s in plan.scheduled] == [
            (call.id, "scheduled", TOMORROW)
        ]
        assert not plan.safe
    due = resume_plan(chat.events(), now=TOMORROW)
    assert [(step.id, step.action) for step in due.safe] == [(call.id, "start")]
    assert (
        due.safe[0].reason == "it was deferred to 2023-11-15 22:13:20.000 UTC: the bank is closed"
    )
    assert not due.scheduled
    (waiting,) = pending_approvals(store)
    assert (waiting.until, waiting.reason) == (TOMORROW, "the bank is closed")
    verbs.running(call.id, lambda attempt: attempt.complete("paid"))
    assert only(chat).status.name == "Completed"


def test_several_calls_keep_their_own_times(chat: Conversation) -> None:
    """The earliest time is one of them, and none is lost."""
    calls = [chat.request("pay", {"n": n}).id for n in range(4)]
    for call, hours in zip(calls, (3, 1, 2), strict=False):
        chat.defer(call, NOON + hours * HOUR)
    plan = resume_plan(chat.events(), now=NOON + HOUR)
    assert [step.id for step in plan.safe] == [calls[1]]
    assert [step.not_before for step in plan.scheduled] == [NOON + 3 * HOUR, NOON + 2 * HOUR]
    assert [step.id for step in plan.waiting] == [calls[3]]


@pytest.mark.parametrize(
    ("approves", "needs", "action"),
    [
        (False, None, "start"),
        (False, False, "start"),
        (False, True, "waiting"),
        (True, True, "start"),
    ],
)
def test_a_due_call_starts_unless_a_person_has_to_decide(
    chat: Conversation, approves: Any, needs: Any, action: str
) -> None:
    """An approval before the deferral stays in force."""
    call = chat.request("pay")
    if approves:
        chat.approve(call.id, by="ada")
    chat.defer(call.id, TOMORROW)
    needs_approval = None if needs is None else lambda _: bool(needs)
    (step,) = resume_plan(chat.events(), needs_approval, now=TOMORROW).steps
    assert step.action == action


def test_an_approval_lets_a_deferred_call_start_before_its_time(chat: Conversation) -> None:
    """A person decides that it need not wait."""
    call = chat.request("pay")
    chat.defer(call.id, TOMORROW)
    chat.approve(call.id, by="ada")
    (step,) = resume_plan(chat.events(), now=NOON).steps
    assert (step.action, step.not_before) == ("start", None)


def test_a_deferral_does_not_replace_a_decision_that_is_due(chat: Conversation) -> None:
    """A call that paused for a person waits for the person when its time has come."""
    call = chat.request("pay")
    with chat.running(call.id) as attempt:
        attempt.pause()
    chat.defer(call.id, TOMORROW)
    (step,) = resume_plan(chat.events(), lambda _: False, now=TOMORROW).steps
    assert step.action == "waiting"
    with pytest.raises(IllegalTransition, match="until a person decides"):
        chat.start(call.id)


@pytest.mark.parametrize(
    ("until", "stored"),
    [
        (NOON, NOON),
        (datetime(2023, 11, 14, 22, 13, 20, 5, UTC), NOON + 5),
        (datetime(2023, 11, 15, 0, 13, 20, tzinfo=timezone(timedelta(hours=2))), NOON),
    ],
)
def test_a_time_may_be_given_in_two_forms(
    chat: Conversation, verbs: Verbs, until: Any, stored: int
) -> None:
    """As microseconds since 1970 UTC, or as a `datetime` with a time zone."""
    deferred, paused = chat.request("a").id, chat.request("b").id
    verbs.call("defer", deferred, until)
    verbs.running(paused, lambda attempt: attempt.pause(until))
    assert chat.tools[deferred].status == chat.tools[paused].status == Pending(stored)
    assert resume_plan(chat.events(), now=until).scheduled == []


@pytest.mark.parametrize(
    ("until", "message"),
    [
        (datetime(2030, 1, 1), "which has no time zone: pass"),  # noqa: DTZ001 - it is refused
        ("tomorrow", "until is 'tomorrow': pass a datetime"),
        (1.5, "until is 1.5: pass a datetime"),
        (True, "until is True: pass a datetime"),
        (-1, "until is -1: pass a time between 1970 and the year 9999"),
    ],
)
def test_values_other_than_times_are_refused(
    chat: Conversation, verbs: Verbs, until: Any, message: str
) -> None:
    """Nothing is written; an attempt that was to pause fails with the error."""
    call = chat.request("pay")
    with pytest.raises((TypeError, ValueError), match=message):
        verbs.call("defer", call.id, until)
    assert only(chat).status == Pending()
    with pytest.raises((TypeError, ValueError), match=message):
        verbs.running(call.id, lambda attempt: attempt.pause(until))
    assert only(chat).status.name == "Failed"
    with pytest.raises((TypeError, ValueError), match=message.replace("until", "now")):
        resume_plan(chat.events(), now=until)


# what is read from it


def test_the_model_sees_that_a_call_has_not_run_to_its_end(chat: Conversation) -> None:
    """One text for each state, in each provider's form; none is an error."""
    call = chat.request("pay")
    chat.defer(call.id, TOMORROW)
    deferred = "[Deferred until 2023-11-15 22:13:20.000 UTC: this call has not run.]"
    assert answers(chat) == {"text": deferred, "is_error": "False"}
    with chat.running(call.id) as attempt:
        attempt.pause(TOMORROW)
    paused = "[Paused until 2023-11-15 22:13:20.000 UTC: this call has not run to its end.]"
    assert answers(chat) == {"text": paused, "is_error": "False"}
    with chat.running(call.id) as attempt:
        attempt.pause(reason="not for the model")
    waiting = "[Paused until a person decides: this call has not run to its end.]"
    assert answers(chat) == {"text": waiting, "is_error": "False"}
    chat.approve(call.id)
    approved = "[Approved, but not continued: this call has not run to its end.]"
    assert answers(chat) == {"text": approved, "is_error": "False"}
    assert only(chat).to_tuple()[1] is None


def test_statistics_count_a_pause_as_neither_failure_nor_retry(
    chat: Conversation, clock: FrozenClock
) -> None:
    """The wait for the second decision is counted, and the call is a success at its first try."""
    call = chat.request("pay")
    with chat.running(call.id) as attempt:
        attempt.pause()
    clock.advance(60)
    chat.approve(call.id)
    with chat.running(call.id) as attempt:
        attempt.complete("paid")
    numbers = error_statistics(chat.events()).overall
    assert (numbers.attempts, numbers.pauses, numbers.retries, numbers.failures) == (2, 1, 0, 0)
    assert (numbers.outcome_unknown, numbers.recovered, numbers.first_try_successes) == (0, 0, 1)
    assert numbers.waiting.max == 60_000_000
    assert numbers.queueing.count == 1
    assert "1 pause" in str(error_statistics(chat.events()))


def test_a_projectors_tables_hold_paused_calls(chat: Conversation, store: EventStore) -> None:
    """The inbox, the calls and the statistics are those of the log, also event by event."""
    call = chat.request("pay", {"sum": 9})
    with Projector(store) as projector:
        steps: list[Callable[[], object]] = [
            lambda: chat.approve(call.id, {"sum": 4}),
            lambda: chat.start(call.id),
            lambda: chat.append(ToolPaused(call.id, 1, None, "above the limit")),
            lambda: chat.defer(call.id, TOMORROW),
            lambda: chat.approve(call.id),
            lambda: chat.start(call.id),
            lambda: chat.complete(call.id, "paid"),
        ]
        for step in steps:
            step()
            projector.catch_up()
            assert projector.pending_approvals() == pending_approvals(store)
            assert [tool for _, tool in projector.tools()] == [only(chat)]
            assert projector.statistics().overall == error_statistics(store.read()).overall


def test_a_replay_names_pauses(chat: Conversation) -> None:
    """With the attempt, the time and the reason."""
    call = chat.request("pay", call_id="1")
    chat.defer(call.id, TOMORROW, "closed")
    with chat.running(call.id) as attempt:
        attempt.pause()
    lines = [frame.line().strip() for frame in replay(chat.events())]
    assert "paused" in lines[1]
    assert "1: waits until 2023-11-15 22:13:20.000 UTC: closed" in lines[1]
    assert "1: attempt 1 waits for a decision  [Running → Pending]" in lines[3]


@pytest.mark.parametrize(
    "status",
    [Pending(), Pending(TOMORROW), Pending(None, needs_decision=True, reason="a person decides")],
)
def test_a_paused_call_is_kept_as_json(status: Pending) -> None:
    """A call that was only requested has the same form as before."""
    tool = Tool("1", FunctionCall("pay", {}), status, attempts=1)
    assert Tool.decode(tool.encode()) == tool
    assert (b'"status":{"state":"Pending"}' in tool.encode()) == (status == Pending())


def test_an_older_version_sees_an_unknown_outcome(chat: Conversation) -> None:
    """The event is unknown to it: the attempt has no end, and the call is not started again."""
    call = chat.request("pay")
    with chat.running(call.id) as attempt:
        attempt.pause()
    read = [
        replace(recorded, event=UnknownEvent("paused", 1, encode(recorded.event).decode()))
        if isinstance(recorded.event, ToolPaused)
        else recorded
        for recorded in chat.events()
    ]
    assert [step.id for step in resume_plan(read).unknown] == [call.id]
    assert "outcome unknown" in str(model_history(read).render("openai"))
