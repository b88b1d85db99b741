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
    ToolPaused,
    ToolPending,
    ToolRejected,
    ToolRunning,
)
from eventstore.domain.recovery import OpenAttempt
from projections.resume_plan import ResumePlan, resume_plan


def pending(call_id: str = "a", name: str = "pay", arguments: Any = None) -> ToolPending:
    """Return the request of a call."""
    return ToolPending(FunctionCall.of(name, arguments, call_id))


def completed(call_id: str = "a") -> ToolCompleted:
    """Return the answer to a call."""
    return ToolCompleted(call_id, FunctionResponse("pay", "ok", call_id))


def failed(code: str | None = None, call_id: str = "a", delay: int | None = None) -> ToolFailed:
    """Return the failure of a call."""
    return ToolFailed(call_id, Failure(ErrorKind.TRANSIENT, "boom", code=code), delay=delay)


def log(*events: Event) -> list[Recorded]:
    """Return the events as one conversation's log, a millisecond apart."""
    return [
        Recorded(
            0, n, "chat", n, f"{n:032x}", n * 1000, getattr(event, "call_id", None), None, event
        )
        for n, event in enumerate(events, 1)
    ]


def sorted_out(plan: ResumePlan) -> dict[str, list[str]]:
    """Return the call ids on each list of the plan."""
    return {
        name: [step.id for step in getattr(plan, name)]
        for name in ("safe", "waiting", "unknown", "done")
    }


def test_each_call_is_on_one_list_in_call_order() -> None:
    """Safe, waiting, unknown and done calls are on separate lists."""
    plan = resume_plan(
        log(
            *(pending(call_id) for call_id in "prcfxa"),
            pending("b"),
            MessageAdded("user"),
            ToolRunning("r", 1),
            ToolRunning("c", 1),
            completed("c"),
            failed(None, "f"),
            ToolRejected("x", by="ann"),
            ToolApproved("b"),
            ToolApproved("a"),
        )
    )
    assert sorted_out(plan) == {
        "safe": ["a", "b"],
        "waiting": ["p"],
        "unknown": ["r"],
        "done": ["c", "f", "x"],
    }
    assert [step.id for step in plan.steps] == ["p", "r", "c", "f", "x", "a", "b"]
    assert {step.conversation_id for step in plan.steps} == {"chat"}


def test_needs_approval_decides_which_pending_calls_wait() -> None:
    """A call that needs no approval is safe to start; others wait unless they are approved."""
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
    """The step has the attempt's number, time and arguments, which may differ from the call's."""
    edit = FunctionCall("pay", {"sum": 5}, "a")
    events = log(
        pending(arguments={"sum": 9}), ToolApproved("a", edit), ToolRunning("a", 1, {"sum": 4})
    )
    (step,) = resume_plan(events).unknown
    assert step.attempts == (OpenAttempt(1, 3000, {"sum": 4}),)
    assert step.reason == "attempt 1 has no recorded end: it may have taken effect"


def test_a_call_of_unknown_outcome_may_run_again_where_its_tool_is_idempotent() -> None:
    """Such a call is safe. The others, and all of them without the question, are unknown."""
    events = log(
        *(pending(call_id, name) for call_id, name in (("r", "look"), ("f", "look"), ("p", "pay"))),
        *(ToolRunning(call_id, 1) for call_id in "rfp"),
        failed("timeout", "f"),
    )
    plan = resume_plan(events, is_idempotent=lambda tool: tool.call.name == "look")
    assert [(step.id, step.action) for step in plan.safe] == [("r", "retry"), ("f", "retry")]
    assert plan.safe[0].reason == "attempt 1 has no recorded end: it may run again"
    assert [step.id for step in plan.unknown] == ["p"]
    assert [step.id for step in resume_plan(events).unknown] == ["r", "f", "p"]


def test_an_idempotent_call_that_paused_after_an_unknown_outcome_waits_for_its_decision() -> None:
    """The call may run again, and a person has asked to be asked."""
    events = log(
        pending(), ToolRunning("a", 1), ToolRunning("a", 2), ToolPaused("a", 2, reason="again?")
    )
    assert resume_plan(events).unknown
    (step,) = resume_plan(events, is_idempotent=lambda _: True).steps
    assert (step.action, step.reason) == ("waiting", "it paused, and waits for a decision: again?")


@pytest.mark.parametrize("code", ["cancelled", "interrupted", "timeout"])
def test_an_interrupted_attempt_may_have_taken_effect(code: str) -> None:
    """A cancelled, interrupted or timed-out attempt has an unknown outcome and its arguments."""
    (step,) = resume_plan(log(pending(), ToolRunning("a", 1, {"n": 1}), failed(code))).unknown
    assert step.attempts == (OpenAttempt(1, 2000, {"n": 1}, code),)
    assert code.removesuffix("out") in step.reason.replace("timed", "time")


def test_a_failure_with_another_code_is_known() -> None:
    """A code of the other side shows that it answered."""
    assert not Failure(ErrorKind.TRANSIENT, "x", code="ECONNREFUSED").leaves_doubt
    assert sorted_out(resume_plan(log(pending(), ToolRunning("a", 1), failed("E42"))))["done"]


def test_an_interrupted_call_without_a_recorded_start_is_unknown() -> None:
    """A host that records only ends has lost the start, but the outcome is still unknown."""
    (step,) = resume_plan(log(pending(arguments={"n": 2}), failed("timeout"))).unknown
    assert step.attempts == (OpenAttempt(0, None, {"n": 2}, "timeout"),)
    assert step.reason == "it timed out: it may have taken effect"


def test_an_unknown_earlier_attempt_remains_after_a_known_failure() -> None:
    """Attempt 1 was lost and attempt 2 failed, so the call may still have taken effect once."""
    events = log(pending(), ToolRunning("a", 1, {"n": 1}), ToolRunning("a", 2), failed())
    (step,) = resume_plan(events).unknown
    assert step.attempts == (OpenAttempt(1, 2000, {"n": 1}),)


def test_every_attempt_of_unknown_outcome_is_listed() -> None:
    """One attempt timed out and the next is running, so both may have taken effect."""
    events = log(pending(), ToolRunning("a", 1), failed("timeout"), ToolRunning("a", 2))
    (step,) = resume_plan(events).unknown
    assert [(attempt.attempt, attempt.code) for attempt in step.attempts] == [
        (1, "timeout"),
        (2, None),
    ]
    reason = "attempt 1 timed out; attempt 2 has no recorded end: it may have taken effect"
    assert step.reason == reason


@pytest.mark.parametrize("end", [completed(), failed()])
def test_a_known_end_makes_the_last_attempt_known(end: Event) -> None:
    """A call that completed or failed is no longer in doubt."""
    plan = resume_plan(log(pending(), ToolRunning("a", 1), end))
    assert sorted_out(plan)["done"] == ["a"]


def test_a_late_answer_makes_every_attempt_known() -> None:
    """After a result no attempt is unknown, whichever attempt it came from."""
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


def test_an_unknown_outcome_precedes_an_announced_retry() -> None:
    """A timeout may have taken effect, even where the host meant to try again."""
    (step,) = resume_plan(log(pending(), ToolRunning("a", 1), failed("timeout", delay=7))).unknown
    assert step.not_before == 3007


def test_a_call_imported_without_its_result_may_have_run() -> None:
    """The call was made elsewhere; starting it could be the second time."""
    imported = msgspec.structs.replace(pending(arguments={"n": 3}), imported=True)
    (step,) = resume_plan(log(imported), lambda _: False).unknown
    assert step.attempts == (OpenAttempt(0, None, {"n": 3}),)
    assert step.reason == "it was imported without a result: it may have taken effect"
    assert sorted_out(resume_plan(log(imported, failed())))["done"] == ["a"]


def test_a_call_without_object_arguments_cannot_be_started() -> None:
    """Such a call waits for an edit, even if the host approves calls by itself."""
    events = log(pending(arguments="{oops"))
    (step,) = resume_plan(events, lambda _: False).waiting
    assert "not a JSON object" in step.reason
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


def test_a_plan_prints_as_a_list_of_actions() -> None:
    """There is one line for each call that is not done, and one word if there is none."""
    text = str(resume_plan(log(pending("a\x1b[2J"), pending("b"), completed("b"))))
    assert text == r"waiting   a\x1b[2J pay: it never started, and waits for a decision"
    assert str(resume_plan([])) == "nothing to resume"


def test_a_step_encodes_as_json() -> None:
    """The command line prints plans for programs."""
    (step,) = resume_plan(log(pending(arguments={"n": 1}), ToolRunning("a", 1, {"n": 1}))).steps
    read = msgspec.json.decode(msgspec.json.encode(step))
    assert read["action"] == "unknown"
    assert read["attempts"] == [
        {"attempt": 1, "started_at": 2000, "arguments": {"n": 1}, "code": None}
    ]
