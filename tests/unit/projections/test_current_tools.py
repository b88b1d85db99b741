"""Current tools: each call as it stands, and the events that do not fit their log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from eventstore import (
    Completed,
    ErrorKind,
    Event,
    Failed,
    Failure,
    FunctionCall,
    FunctionResponse,
    MessageAdded,
    Pending,
    Recorded,
    Rejected,
    Running,
    ToolApproved,
    ToolCompleted,
    ToolFailed,
    ToolPending,
    ToolRejected,
    ToolRunning,
    UnknownEvent,
    fingerprint,
)
from projections.current_tools import CurrentTools, current_tools
from projections.projection import fingerprint_of, version_problem


def pending(call_id: str, **arguments: Any) -> ToolPending:
    """Return the request of a call."""
    return ToolPending(FunctionCall("search", arguments, call_id))


def completed(call_id: str, result: Any = "ok") -> ToolCompleted:
    """Return the answer to a call."""
    return ToolCompleted(call_id, FunctionResponse("search", result, call_id), 1)


def failed(call_id: str) -> ToolFailed:
    """Return the failure of a call."""
    return ToolFailed(call_id, Failure(ErrorKind.TRANSIENT, "timed out"), 1)


def log(*events: Event, conversation: str = "chat", first: int = 1) -> list[Recorded]:
    """Return the events as one conversation's log, a millisecond apart."""
    return [
        Recorded(
            0,
            n,
            conversation,
            n,
            f"{n:032x}",
            n * 1000,
            getattr(event, "call_id", None),
            None,
            event,
        )
        for n, event in enumerate(events, first)
    ]


def problems(events: Iterable[Recorded]) -> list[tuple[int, str]]:
    """Return the anomalies of a log as pairs of version and problem."""
    return [(a.version, a.problem) for a in CurrentTools().extend(events).anomalies]


def test_each_call_has_the_status_of_its_last_event() -> None:
    """Calls in every status are found by id, in call order."""
    tools = current_tools(
        log(
            pending("p"),
            pending("r"),
            pending("c"),
            pending("f"),
            pending("x"),
            MessageAdded("user"),
            ToolRunning("r", 1, {"q": 1}),
            ToolRunning("c", 1),
            ToolRunning("f", 1),
            completed("c", {"hits": 3}),
            failed("f"),
            ToolRejected("x", "no", by="ann"),
        )
    )
    assert {call_id: tool.status for call_id, tool in tools.items()} == {
        "p": Pending(),
        "r": Running(1, {"q": 1}),
        "c": Completed(FunctionResponse("search", {"hits": 3}, "c")),
        "f": Failed(Failure(ErrorKind.TRANSIENT, "timed out")),
        "x": Rejected("no", "human", "ann"),
    }
    assert list(tools) == ["p", "r", "c", "f", "x"]
    assert (tools["c"].requested_at, tools["c"].started_at, tools["c"].ended_at) == (
        3000,
        8000,
        10_000,
    )


def test_an_edit_and_its_fingerprint_stay_in_force() -> None:
    """After an edited approval the edited arguments run, under their own fingerprint."""
    edit = FunctionCall("search", {"q": "safe"}, "a")
    events = log(pending("a", q="risky"), ToolApproved("a", edit), ToolRunning("a", 1))
    events[1] = msgspec.structs.replace(events[1], fingerprint="x1:" + "0" * 32)
    tool = current_tools(events)["a"]
    assert tool.effective_call == edit
    assert tool.call.arguments == {"q": "risky"}
    assert tool.fingerprint == "x1:" + "0" * 32


def test_a_clean_log_has_no_anomalies() -> None:
    """Retries, superseded attempts and late answers are all legal."""
    events = log(
        pending("a"),
        ToolApproved("a"),
        ToolRunning("a", 1),
        failed("a"),
        ToolRunning("a", 2),
        ToolRunning("a", 3),
        failed("a"),
        completed("a"),
        UnknownEvent("from_the_future", 9, "{}"),
    )
    assert problems(events) == []


@pytest.mark.parametrize(
    ("events", "version", "problem"),
    [
        ([completed("ghost")], 1, "'ghost' is unknown: completed is not allowed"),
        ([pending("a"), ToolRunning("a", 2)], 2, "attempt 2 cannot start"),
        ([pending("a"), completed("a"), ToolApproved("a")], 3, "is Completed: approved is not"),
        ([pending("a"), completed("a", 1), completed("a", 2)], 3, "the first completion stands"),
        ([pending("a", q=1), pending("a", q=2)], 2, "another call of this id exists"),
        ([ToolPending(FunctionCall("search", {}))], 1, "the call has no id"),
        ([UnknownEvent("completed", 1, "{")], 1, "(schema 1) cannot be read: it is damaged"),
        ([UnknownEvent("run_ended", 7, "{}")], 1, "run_ended (schema 7) is of a newer version"),
    ],
)
def test_an_event_that_does_not_fit_is_named(
    events: list[Event], version: int, problem: str
) -> None:
    """The anomaly names its event and says what is wrong with it; it changes no call."""
    fold = CurrentTools().extend(log(*events))
    (anomaly,) = fold.anomalies
    assert (anomaly.conversation_id, anomaly.version) == ("chat", version)
    assert anomaly.position == version
    assert anomaly.event_id == f"{version:032x}"
    assert anomaly.call_id == getattr(events[-1], "call_id", None)
    assert problem in anomaly.problem
    assert fold.tools == current_tools(log(*events[: version - 1]))


def test_a_repeated_event_is_not_an_anomaly() -> None:
    """An event that repeats the current state changes nothing and is not a mistake."""
    events = log(pending("a"), pending("a"), completed("a"), completed("a"), pending("a"))
    assert problems(events) == []


def test_gaps_and_repeats_of_versions_are_named() -> None:
    """Missing versions differ from repeated ones, and are counted from the highest version."""
    events = log(*[MessageAdded("user")] * 9)
    shuffled = [events[n - 1] for n in (3, 4, 7, 5, 7, 8)]
    assert problems(shuffled) == [
        (7, version_problem(events[7 - 1], 4)),
        (5, version_problem(events[5 - 1], 7)),
        (7, version_problem(events[7 - 1], 7)),
    ]
    assert version_problem(events[7 - 1], 4) == "versions 5 to 6 are missing before it"
    assert "again or late" in version_problem(events[5 - 1], 7)


def test_a_log_may_begin_anywhere_and_mix_conversations() -> None:
    """Each conversation counts its own versions, from whichever it begins with."""
    one, other = log(*[MessageAdded("user")] * 3, first=5), log(*[MessageAdded("user")] * 3)
    other = [msgspec.structs.replace(recorded, conversation_id="other") for recorded in other]
    mixed = [recorded for pair in zip(one, other, strict=True) for recorded in pair]
    assert problems(mixed) == []


def test_a_repeated_or_late_event_changes_nothing() -> None:
    """A failure that is delivered twice does not end the retry that is under way."""
    request, start, end, retry = log(
        pending("a"), ToolRunning("a", 1), failed("a"), ToolRunning("a", 2)
    )
    once = current_tools([request, start, end, retry])
    assert type(once["a"].status) is Running
    assert current_tools([request, start, end, retry, end]) == once
    assert current_tools([request, start, end, request, start, end, retry]) == once


def test_a_call_id_of_two_conversations_is_qualified_in_the_later_one() -> None:
    """No call hides another one, not even one whose id looks like a qualified key."""
    events = [
        *log(pending("a", n=1), pending("two/a", n=2), conversation="one"),
        *log(pending("a", n=3), pending("b", n=4), conversation="two"),
    ]
    arguments = {key: tool.call.arguments["n"] for key, tool in current_tools(events).items()}
    assert arguments == {"a": 1, "two/a": 2, "two/two/a": 3, "b": 4}


def test_a_call_is_found_by_conversation_and_id() -> None:
    """`get` needs no unique key, and returns None for an unknown call."""
    fold = CurrentTools().extend(
        [*log(pending("a", n=1)), *log(pending("a", n=2), conversation="other")]
    )
    found = fold.get("other", "a")
    assert found is not None
    assert found.call.arguments == {"n": 2}
    assert fold.get("other", "b") is None
    assert fold.get("nowhere", "a") is None


def test_a_value_that_is_not_json_is_an_anomaly() -> None:
    """A log made by hand may hold anything, and the fold still does not raise."""
    fold = CurrentTools().extend(log(pending("a"), completed("a", {1j}), completed("a", {2j})))
    assert len(fold.anomalies) == 1
    assert type(fold.tools["a"].status) is Completed


def test_changing_the_returned_dict_does_not_change_the_fold() -> None:
    """The fold returns a new dict each time."""
    fold = CurrentTools().extend(log(pending("a")))
    fold.tools.clear()
    assert list(fold.tools) == ["a"]


def test_an_anomaly_reads_as_a_sentence() -> None:
    """Its text names the place and the problem."""
    (anomaly,) = CurrentTools().extend(log(completed("ghost"))).anomalies
    assert str(anomaly) == f"'chat' version 1: {anomaly.problem}"


def test_a_fingerprint_comes_from_the_log_or_is_computed() -> None:
    """The log's fingerprint is preferred; without one it is computed from the call if possible."""
    (recorded,) = log(pending("a", q=1))
    call = FunctionCall("search", {"q": 1})
    assert fingerprint_of(recorded, call) == fingerprint("search", {"q": 1})
    marked = msgspec.structs.replace(recorded, fingerprint="x1:abc")
    assert fingerprint_of(marked, call) == "x1:abc"
    raw = fingerprint_of(recorded, FunctionCall.of("search", "{oops"))
    assert raw != fingerprint_of(recorded, FunctionCall.of("search", "{other"))
    assert fingerprint_of(recorded, FunctionCall("search", {"q": float("nan")})) is None
