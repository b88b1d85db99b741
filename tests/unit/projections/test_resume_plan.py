"""The resume plan: what to do with each call after a crash."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from eventstore import (
    ErrorKind,
    Event,
    Failure,
    FunctionCall,
    FunctionResponse,
    MessageAdded,
    Recorded,
    Tool,
    ToolApproved,
    ToolCompleted,
    ToolFailed,
    ToolPending,
    ToolRejected,
    ToolRunning,
)
from eventstore.recovery import OpenAttempt, outcome_unknown
from projections.recovery import ResumePlan, resume_plan


def pending(call_id: str = "a", name: str = "pay", arguments: Any = None) -> ToolPending:
    """The request of a call."""
    return ToolPending(FunctionCall.of(name, arguments, call_id))


def completed(call_id: str = "a") -> ToolCompleted:
    """The answer to a call."""
    return ToolCompleted(call_id, FunctionResponse("pay", "ok", call_id))


def failed(code: str | None = None, call_id: str = "a", delay: int | None = None) -> ToolFailed:
    """The failure of a call."""
    return ToolFailed(call_id, Failure(ErrorKind.TRANSIENT, "boom", code=code), delay=delay)


def log(*events: Event) -> list[Recorded]:
    """The events as one conversation's log, a millisecond apart."""
    return [
        Recorded(0, n, "chat", n, f"{n:032x}", n * 1000, getattr(event, "call_id", None), None,
                 event)
        for n, event in enumerate(events, 1)
    ]  # fmt: skip


def sorted_out(plan: ResumePlan) -> dict[str, list[str]]:
    """The call ids on each list of the plan."""
    return {
        name: [step.id for step in getattr(plan, name)]
        for name in ("safe", "waiting", "unknown", "done")
    }


def test_each_call_is_on_one_list_in_call_order() -> None:
    """Never started, waiting, unknown and done are told apart."""
    plan = resume_plan(
        log(
            *(pending(call_id) for call_id in "prcfxa"), pending("b"), MessageAdded("user"),
            ToolRunning("r", 1), ToolRunning("c", 1), completed("c"), failed(None, "f"),
            ToolRejected("x", by="ann"), ToolApproved("b"), ToolApproved("a"),
        )
    )  # fmt: skip
    assert sorted_out(plan) == {
        "safe": ["a", "b"],
        "waiting": ["p"],
        "unknown": ["r"],
        "done": ["c", "f", "x"],
    }
    assert [step.id for step in plan.steps] == ["p", "r", "c", "f", "x", "a", "b"]
    assert {step.conversation_id for step in plan.steps} == {"chat"}


def test_the_host_says_which_pending_calls_wait_for_a_person() -> None:
    """What needs no approval is safe to start; the rest waits, and approved calls are not asked."""
    asked: list[str] = []

    def is_dangerous(tool: Tool) -> bool:
        asked.append(tool.id)
        return tool.call.name == "pay"

    events = log(pending("a", "pay"), pending("b", "look"), pending("c", "pay"), ToolApproved("c"))
    plan = resume_plan(events, is_dangerous)
    assert [(step.id, step.action) for step in plan.steps] == [
        ("a", "waiting"),
        ("b", "start"),
        ("c", "start"),
    ]
    assert asked == ["a", "b"]


def test_a_running_call_says_what_was_started_and_when() -> None:
    """Number, time and the arguments that were really used, which need not be the call's."""
    edit = FunctionCall("pay", {"sum": 5}, "a")
    events = log(
        pending(arguments={"sum": 9}), ToolApproved("a", edit), ToolRunning("a", 1, {"sum": 4})
    )
    (step,) = resume_plan(events).unknown
    assert step.attempts == (OpenAttempt(1, 3000, {"sum": 4}),)
    assert step.reason == "attempt 1 has no recorded end: it may have taken effect"


@pytest.mark.parametrize("code", ["cancelled", "interrupted", "timeout"])
def test_an_attempt_that_was_cut_short_may_have_taken_effect(code: str) -> None:
    """Cancelled, interrupted and timed out are unknown outcomes, with what was started."""
    (step,) = resume_plan(log(pending(), ToolRunning("a", 1, {"n": 1}), failed(code))).unknown
    assert step.attempts == (OpenAttempt(1, 2000, {"n": 1}, code),)
    assert code.removesuffix("out") in step.reason.replace("timed", "time")


def test_a_failure_with_another_code_is_known() -> None:
    """The other side's own codes say that it answered."""
    assert not outcome_unknown(Failure(ErrorKind.TRANSIENT, "x", code="ECONNREFUSED"))
    assert sorted_out(resume_plan(log(pending(), ToolRunning("a", 1), failed("E42"))))["done"]


def test_a_cut_short_call_whose_start_was_not_recorded_is_unknown() -> None:
    """A host that records ends only has lost the start, not the doubt."""
    (step,) = resume_plan(log(pending(arguments={"n": 2}), failed("timeout"))).unknown
    assert step.attempts == (OpenAttempt(0, None, {"n": 2}, "timeout"),)
    assert step.reason == "it timed out: it may have taken effect"


def test_doubt_about_an_earlier_attempt_outlives_a_known_failure() -> None:
    """Attempt 1 was lost, attempt 2 failed: the call may still have taken effect, once."""
    events = log(pending(), ToolRunning("a", 1, {"n": 1}), ToolRunning("a", 2), failed())
    (step,) = resume_plan(events).unknown
    assert step.attempts == (OpenAttempt(1, 2000, {"n": 1}),)


def test_every_attempt_in_doubt_is_listed() -> None:
    """One timed out, the next is running: both may have taken effect."""
    events = log(pending(), ToolRunning("a", 1), failed("timeout"), ToolRunning("a", 2))
    (step,) = resume_plan(events).unknown
    assert [(attempt.attempt, attempt.code) for attempt in step.attempts] == [
        (1, "timeout"),
        (2, None),
    ]
    told = "attempt 1 timed out; attempt 2 has no recorded end: it may have taken effect"
    assert step.reason == told


@pytest.mark.parametrize("end", [completed(), failed()])
def test_a_known_end_settles_the_last_attempt(end: Event) -> None:
    """What completed or failed is in doubt no more."""
    plan = resume_plan(log(pending(), ToolRunning("a", 1), end))
    assert sorted_out(plan)["done"] == ["a"]


def test_a_late_answer_settles_every_attempt() -> None:
    """The result is there: no attempt is in doubt, whichever it came from."""
    lost = (ToolRunning("a", 1), ToolRunning("a", 2), failed("timeout"))
    events = log(pending(), *lost, completed())
    assert sorted_out(resume_plan(events))["done"] == ["a"]


def test_an_announced_retry_is_safe_at_its_time() -> None:
    """A failure with a delay means that the host was about to try again."""
    events = log(pending(), ToolRunning("a", 1), failed(delay=5_000_000))
    (step,) = resume_plan(events).safe
    assert (step.action, step.not_before) == ("retry", 3000 + 5_000_000)
    assert step.reason == "it failed (transient): boom; the next attempt was announced"


def test_a_retry_that_began_is_no_longer_due() -> None:
    """Once attempt 2 runs and fails for good, nothing is left to do."""
    events = log(pending(), ToolRunning("a", 1), failed(delay=1), ToolRunning("a", 2), failed())
    (step,) = resume_plan(events).done
    assert step.not_before is None


def test_doubt_goes_before_an_announced_retry() -> None:
    """A timeout may have taken effect, even where the host meant to try again."""
    (step,) = resume_plan(log(pending(), ToolRunning("a", 1), failed("timeout", delay=7))).unknown
    assert step.not_before == 3007


def test_a_call_imported_without_its_result_may_have_run() -> None:
    """It was made elsewhere; starting it could be the second time."""
    imported = msgspec.structs.replace(pending(arguments={"n": 3}), imported=True)
    (step,) = resume_plan(log(imported), lambda _: False).unknown
    assert step.attempts == (OpenAttempt(0, None, {"n": 3}),)
    assert step.reason == "it was imported without a result: it may have taken effect"
    assert sorted_out(resume_plan(log(imported, failed())))["done"] == ["a"]


def test_arguments_that_are_no_object_cannot_be_started() -> None:
    """Such a call waits, whatever the host approves by itself, until somebody edits it."""
    events = log(pending(arguments="{oops"))
    (step,) = resume_plan(events, lambda _: False).waiting
    assert "no JSON object" in step.reason
    edit = FunctionCall("pay", {}, "a")
    assert sorted_out(resume_plan(log(pending(arguments="{oops"), ToolApproved("a", edit))))["safe"]


def test_two_conversations_may_use_one_id() -> None:
    """Each call has its own step and its own attempts."""
    one = log(pending(), ToolRunning("a", 1))
    other = [msgspec.structs.replace(r, conversation_id="other") for r in log(pending())]
    plan = resume_plan(one + other)
    assert [(step.conversation_id, step.action) for step in plan.steps] == [
        ("chat", "unknown"),
        ("other", "waiting"),
    ]


def test_an_illegal_event_changes_no_step() -> None:
    """A second start of one attempt is an anomaly, and no second attempt in doubt."""
    plan = resume_plan(log(pending(), ToolRunning("a", 1), ToolRunning("a", 1)))
    assert [len(step.attempts) for step in plan.unknown] == [1]
    assert [anomaly.version for anomaly in plan.anomalies] == [3]


def test_the_plan_reads_as_a_list_of_what_to_do() -> None:
    """One line for each call that is not done, and a word when there is none."""
    text = str(resume_plan(log(pending("a\x1b[2J"), pending("b"), completed("b"))))
    assert text == r"waiting  a\x1b[2J pay: it never started, and nobody has decided"
    assert str(resume_plan([])) == "nothing to resume"


def test_a_step_is_json() -> None:
    """The command line prints plans for programs."""
    (step,) = resume_plan(log(pending(arguments={"n": 1}), ToolRunning("a", 1, {"n": 1}))).steps
    read = msgspec.json.decode(msgspec.json.encode(step))
    assert read["action"] == "unknown"
    assert read["attempts"] == [
        {"attempt": 1, "started_at": 2000, "arguments": {"n": 1}, "code": None}
    ]
