"""The difference of two runs: aligned by tool and fingerprint."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from eventstore import (
    ErrorKind,
    Event,
    Failure,
    FunctionCall,
    FunctionResponse,
    Recorded,
    ToolApproved,
    ToolCompleted,
    ToolFailed,
    ToolPending,
    ToolRejected,
    ToolRunning,
)
from eventstore.testing.builders import log
from projections import diff


def run(*calls: tuple[str, Any, Any], prefix: str = "c") -> list[Recorded]:
    """Return the log of calls with their answers: a result, a `Failure`, or None for none."""
    events: list[Event] = []
    for n, (name, arguments, answer) in enumerate(calls):
        call_id = f"{prefix}{n}"
        events.append(ToolPending(FunctionCall(name, arguments, call_id)))
        if isinstance(answer, Failure):
            events.append(ToolFailed(call_id, answer))
        elif answer is not None:
            events.append(ToolCompleted(call_id, FunctionResponse(name, answer, call_id)))
    return log(*events)


def test_equal_runs_do_not_differ() -> None:
    """Ids are not compared."""
    one, other = (run(("f", {"n": 1}, "one"), ("g", {}, 2), prefix=p) for p in "ab")
    found = diff(one, other)
    assert not found
    assert (found.equal, found.differences) == (2, ())
    assert str(found) == "2 equal calls, 0 differences"


def test_the_first_divergence_comes_first() -> None:
    """Changed arguments, results, statuses and failures have their paths."""
    failure = Failure(ErrorKind.INTERNAL, "npm warn x\nError: no such host")
    before = run(("f", {"n": 1}, {"a": 1}), ("g", {"x": 1, "y": 2}, "same"), ("h", {}, "fine"))
    after = run(("f", {"n": 1}, {"a": 2}), ("g", {"x": 1, "y": 3}, "same"), ("h", {}, failure))
    assert str(diff(before, after)).splitlines() == [
        'changed f {"n":1} (versions 1 and 1)',
        "    $result.a: 1 became 2",
        'changed g {"x":1,"y":2} (versions 3 and 3)',
        "    $arguments.y: 2 became 3",
        "changed h {} (versions 5 and 5)",
        '    $status: "completed" became "failed"',
        '    $failure: null became "Error: no such host"',
        "0 equal calls, 3 differences",
    ]


def test_calls_without_a_partner_are_added_or_removed() -> None:
    """The calls around them stay aligned."""
    before = run(("f", {"n": 1}, 1), ("old", {}, 1), ("f", {"n": 2}, 2))
    after = run(("f", {"n": 1}, 1), ("f", {"n": 2}, 2), ("new", {"a": 1}, 3))
    found = diff(before, after)
    assert [(each.kind, each.tool) for each in found.differences] == [
        ("removed", "old"),
        ("added", "new"),
    ]
    assert found.equal == 2
    assert str(found.differences[1]) == 'added new {"a":1} (version 5)'


def test_an_open_call_differs_from_one_that_was_rejected() -> None:
    """The status is a difference, also without a result."""
    pending = ToolPending(FunctionCall("f", {}, "a"))
    (found,) = diff(log(pending), log(pending, ToolRejected("a", "no"))).differences
    assert [change.path for change in found.changes] == ["$status"]


def test_an_edit_is_what_is_compared() -> None:
    """The approved edit is the call in force."""
    pending = ToolPending(FunctionCall("f", {"n": 1}, "a"))
    edited = ToolApproved("a", FunctionCall("f", {"n": 2}, "a"))
    (found,) = diff(log(pending, ToolApproved("a")), log(pending, edited)).differences
    assert [str(change) for change in found.changes] == ["$arguments.n: 1 became 2"]


def test_running_times_are_reported_and_are_no_difference() -> None:
    """The sums of the measured durations stand in the last line."""
    logs = [
        log(
            ToolPending(FunctionCall("f", {}, "a")),
            ToolRunning("a", 1),
            ToolCompleted("a", FunctionResponse("f", 1, "a"), 1, duration=duration),
        )
        for duration in (1_500, 2_000_000)
    ]
    found = diff(*logs)
    assert not found
    assert found.running == (1_500, 2_000_000)
    assert str(found).endswith("; running 1.50 ms and 2.00 s")


calls = st.lists(
    st.tuples(
        st.sampled_from("fgh"),
        st.fixed_dictionaries({"n": st.integers(0, 2)}),
        st.integers(0, 1) | st.none(),
    ),
    max_size=8,
)


@given(calls, calls)
def test_every_call_is_counted_once(one: Any, other: Any) -> None:
    """Equal, changed, added and removed calls are all the calls of both runs."""
    found = diff(run(*one), run(*other))
    kinds = [each.kind for each in found.differences]
    paired = found.equal + kinds.count("changed")
    assert paired + kinds.count("removed") == len(one)
    assert paired + kinds.count("added") == len(other)
    assert bool(found) is (one != other)
