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
from projections.fold import fingerprint_of, misplaced
from projections.tools import CurrentTools, current_tools


def pending(call_id: str, **arguments: Any) -> ToolPending:
    """The request of a call."""
    return ToolPending(FunctionCall("search", arguments, call_id))


def completed(call_id: str, result: Any = "ok") -> ToolCompleted:
    """The answer to a call."""
    return ToolCompleted(call_id, FunctionResponse("search", result, call_id), 1)


def failed(call_id: str) -> ToolFailed:
    """The failure of a call."""
    return ToolFailed(call_id, Failure(ErrorKind.TRANSIENT, "timed out"), 1)


def log(*events: Event, conversation: str = "chat", first: int = 1) -> list[Recorded]:
    """The events as one conversation's log, a millisecond apart."""
    return [
        Recorded(0, n, conversation, n, f"{n:032x}", n * 1000, getattr(event, "call_id", None),
                 None, event)
        for n, event in enumerate(events, first)
    ]  # fmt: skip


def problems(events: Iterable[Recorded]) -> list[tuple[int, str]]:
    """The anomalies of a log: version and problem."""
    return [(a.version, a.problem) for a in CurrentTools().extend(events).anomalies]


def test_each_call_stands_where_its_last_event_left_it() -> None:
    """Calls in every status, each by its id, in call order."""
    tools = current_tools(
        log(
            pending("p"), pending("r"), pending("c"), pending("f"), pending("x"),
            MessageAdded("user"),
            ToolRunning("r", 1, {"q": 1}), ToolRunning("c", 1), ToolRunning("f", 1),
            completed("c", {"hits": 3}), failed("f"), ToolRejected("x", "no", by="ann"),
        )
    )  # fmt: skip
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
    """After an edited approval the edit is what runs, under the edit's fingerprint."""
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
        pending("a"), ToolApproved("a"), ToolRunning("a", 1), failed("a"), ToolRunning("a", 2),
        ToolRunning("a", 3), failed("a"), completed("a"), UnknownEvent("from_the_future", 9, "{}"),
    )  # fmt: skip
    assert problems(events) == []


@pytest.mark.parametrize(
    ("events", "version", "told"),
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
def test_an_event_that_does_not_fit_is_named(events: list[Event], version: int, told: str) -> None:
    """The anomaly names its event and says what is wrong with it; it changes no call."""
    fold = CurrentTools().extend(log(*events))
    (anomaly,) = fold.anomalies
    assert (anomaly.conversation_id, anomaly.version) == ("chat", version)
    assert anomaly.position == version
    assert anomaly.event_id == f"{version:032x}"
    assert anomaly.call_id == getattr(events[-1], "call_id", None)
    assert told in anomaly.problem
    assert fold.tools == current_tools(log(*events[: version - 1]))


def test_what_repeats_is_no_anomaly() -> None:
    """An event that says again what is so already changes nothing and is no mistake."""
    events = log(pending("a"), pending("a"), completed("a"), completed("a"), pending("a"))
    assert problems(events) == []


def test_gaps_and_repeats_of_versions_are_named() -> None:
    """Missing versions are told apart from those that come again, and counted from the highest."""
    events = log(*[MessageAdded("user")] * 9)
    shuffled = [events[n - 1] for n in (3, 4, 7, 5, 7, 8)]
    assert problems(shuffled) == [
        (7, misplaced(7, 4)),
        (5, misplaced(5, 7)),
        (7, misplaced(7, 7)),
    ]
    assert misplaced(7, 4) == "versions 5 to 6 are missing before it"
    assert "again or late" in misplaced(5, 7)


def test_a_log_may_begin_anywhere_and_mix_conversations() -> None:
    """Each conversation counts its own versions, from whichever it begins with."""
    one, other = log(*[MessageAdded("user")] * 3, first=5), log(*[MessageAdded("user")] * 3)
    other = [msgspec.structs.replace(recorded, conversation_id="other") for recorded in other]
    mixed = [recorded for pair in zip(one, other, strict=True) for recorded in pair]
    assert problems(mixed) == []


def test_what_comes_again_or_late_changes_nothing() -> None:
    """A failure that is delivered twice does not end the retry that is under way."""
    request, start, end, retry = log(
        pending("a"), ToolRunning("a", 1), failed("a"), ToolRunning("a", 2)
    )
    once = current_tools([request, start, end, retry])
    assert type(once["a"].status) is Running
    assert current_tools([request, start, end, retry, end]) == once
    assert current_tools([request, start, end, request, start, end, retry]) == once


def test_the_later_conversation_of_two_with_one_id_is_qualified() -> None:
    """No call hides another: not one with the same id, nor one whose id looks like a key."""
    events = [
        *log(pending("a", n=1), pending("two/a", n=2), conversation="one"),
        *log(pending("a", n=3), pending("b", n=4), conversation="two"),
    ]
    arguments = {key: tool.call.arguments["n"] for key, tool in current_tools(events).items()}
    assert arguments == {"a": 1, "two/a": 2, "two/two/a": 3, "b": 4}


def test_a_call_is_found_by_conversation_and_id() -> None:
    """`get` needs no key to be unique, and knows what is not there."""
    fold = CurrentTools().extend(
        [*log(pending("a", n=1)), *log(pending("a", n=2), conversation="other")]
    )
    found = fold.get("other", "a")
    assert found is not None
    assert found.call.arguments == {"n": 2}
    assert fold.get("other", "b") is None
    assert fold.get("nowhere", "a") is None


def test_a_value_that_is_no_json_is_an_anomaly() -> None:
    """A log made by hand may hold anything, and the fold still does not raise."""
    fold = CurrentTools().extend(log(pending("a"), completed("a", {1j}), completed("a", {2j})))
    assert len(fold.anomalies) == 1
    assert type(fold.tools["a"].status) is Completed


def test_the_dict_that_is_returned_is_the_callers() -> None:
    """Changing what the fold gave out does not change the fold."""
    fold = CurrentTools().extend(log(pending("a")))
    fold.tools.clear()
    assert list(fold.tools) == ["a"]


def test_an_anomaly_reads_as_a_sentence() -> None:
    """Its text names the place and the problem."""
    (anomaly,) = CurrentTools().extend(log(completed("ghost"))).anomalies
    assert str(anomaly) == f"'chat' version 1: {anomaly.problem}"


def test_a_fingerprint_is_the_logs_or_made_anew() -> None:
    """The log's own goes first; without one it is taken of the call, where that is possible."""
    (recorded,) = log(pending("a", q=1))
    call = FunctionCall("search", {"q": 1})
    assert fingerprint_of(recorded, call) == fingerprint("search", {"q": 1})
    marked = msgspec.structs.replace(recorded, fingerprint="x1:abc")
    assert fingerprint_of(marked, call) == "x1:abc"
    raw = fingerprint_of(recorded, FunctionCall.of("search", "{oops"))
    assert raw != fingerprint_of(recorded, FunctionCall.of("search", "{other"))
    assert fingerprint_of(recorded, FunctionCall("search", {"q": float("nan")})) is None
