"""Error statistics: the outcomes of calls, where they are counted, and how long calls took."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable, Iterable
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
    ToolApproved,
    ToolCompleted,
    ToolFailed,
    ToolPaused,
    ToolPending,
    ToolRejected,
    ToolRunning,
    UnknownEvent,
    fingerprint,
)
from eventstore.domain.one_line import one_line
from projections.current_tools import CurrentTools
from projections.formatting import arguments_text, duration, share, table
from projections.statistics.durations import (
    MAX_EXACT_DURATIONS,
    RELATIVE_ERROR,
    Durations,
    Percentiles,
)
from projections.statistics.fold import MAX_ANOMALIES
from projections.statistics.projection import ErrorStatistics, error_statistics
from projections.statistics.results import Statistics, ToolStatistics

EDIT = FunctionCall("search", {"q": "safe"}, "a")
SECOND = 1_000_000

TABLE = """\
3 calls of 2 tools in 1 conversation (11 events)
1 completed, 1 failed, 1 rejected (gate 1), 0 open
3 attempts, 1 retry, 1 recovered, 0 with unknown outcome, 1 repeated, 0.0% right at first try

TOOL    CALLS  DONE  FAILED  REJECTED  FAILURES  RETRIES  RECOVERED  REPEATED  1ST TRY     P50       P95
search      2     0       1         1         1        0          0         1     0.0%  1.00 s    1.00 s
fetch       1     1       0         0         1        1          1         0     0.0%  2.00 s  1 m 26 s

TIME      COUNT     P50       P95       P99       MAX
queueing      2  1.00 s  1 m 35 s  1 m 35 s  1 m 35 s
running       3  2.00 s  1 m 26 s  1 m 26 s  1 m 26 s

ERROR       FAILURES  RETRIED  RECOVERED  FAILED  TOOLS
quota              1        0          0       1  search 1
rate_limit         1        1          1       0  fetch 1

CALLS  REPEATED  FAILURES  FAILED  CALL
    2         1         1       1  search {"q":1}
    1         0         1       0  fetch {"url":"u"}

1 anomaly: events that do not fit the log
  'chat' version 11: call 'ghost' is unknown: completed is not allowed (no such call: request() or record() it first)
"""[:-1]  # noqa: E501 - as it is printed


def pending(call_id: str = "a", name: str = "search", **arguments: Any) -> ToolPending:
    """Return the request of a call."""
    return ToolPending(FunctionCall(name, arguments, call_id))


def running(attempt: int = 1, call_id: str = "a") -> ToolRunning:
    """Return the start of an attempt."""
    return ToolRunning(call_id, attempt)


def completed(call_id: str = "a", **flags: Any) -> ToolCompleted:
    """Return the answer to a call."""
    return ToolCompleted(call_id, FunctionResponse("search", "ok", call_id), **flags)


def failed(
    kind: ErrorKind = ErrorKind.TRANSIENT,
    code: str | None = None,
    call_id: str = "a",
    **fields: Any,
) -> ToolFailed:
    """Return the failure of an attempt."""
    return ToolFailed(call_id, Failure(kind, "boom", code=code), **fields)


def log(*events: Event, conversation: str = "chat", seconds: Iterable[int] = ()) -> list[Recorded]:
    """Return the events as one conversation's log, recorded at these seconds or all at once."""
    times = list(seconds) or [0] * len(events)
    return [
        Recorded(
            0,
            n,
            conversation,
            n,
            f"{n:032x}",
            at * SECOND,
            getattr(event, "call_id", None),
            None,
            event,
        )
        for n, (event, at) in enumerate(zip(events, times, strict=True), 1)
    ]


def of(*events: Event) -> ToolStatistics:
    """Return the overall numbers of a log without anomalies."""
    statistics = error_statistics(log(*events))
    assert statistics.anomalies == ()
    return statistics.overall


def counts(numbers: Any) -> dict[str, Any]:
    """Return the numbers that are not 0 or empty, without the times."""
    fields = msgspec.to_builtins(numbers)
    return {
        name: value
        for name, value in fields.items()
        if value and name not in {"waiting", "queueing", "running"}
    }


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([pending()], {"calls": 1, "open": 1}),
        ([pending(), ToolApproved("a")], {"calls": 1, "open": 1}),
        (
            [pending(), running()],
            {"calls": 1, "open": 1, "attempts": 1, "outcome_unknown": 1},
        ),
        (
            [pending(), running(), completed()],
            {
                "calls": 1,
                "attempts": 1,
                "completions": 1,
                "first_tries": 1,
                "first_try_successes": 1,
                "first_try_success_rate": 1.0,
            },
        ),
        (
            [pending(), completed(synthetic=True, lossy=True)],
            {"calls": 1, "completions": 1, "synthetic": 1, "lossy": 1},
        ),
        (
            [pending(), failed(ErrorKind.VALIDATION)],
            {
                "calls": 1,
                "failures": 1,
                "failures_by_kind": {"validation": 1},
                "terminal_failures": 1,
                "first_tries": 1,
            },
        ),
        (
            [pending(), ToolRejected("a", source="gate")],
            {"calls": 1, "rejections": 1, "rejections_by_source": {"gate": 1}},
        ),
        (
            [
                pending(),
                running(),
                failed(),
                running(2),
                failed(ErrorKind.QUOTA),
                running(3),
                completed(),
            ],
            {
                "calls": 1,
                "attempts": 3,
                "retries": 2,
                "failures": 2,
                "recovered": 1,
                "failures_by_kind": {"quota": 1, "transient": 1},
                "completions": 1,
                "first_tries": 1,
            },
        ),
        (
            [pending(), running(), running(2), completed()],
            {
                "calls": 1,
                "attempts": 2,
                "retries": 1,
                "recovered": 1,
                "completions": 1,
                "outcome_unknown": 1,
                "first_tries": 1,
            },
        ),
        (
            [pending(), failed(ErrorKind.VALIDATION), running(), completed()],
            {
                "calls": 1,
                "attempts": 1,
                "failures": 1,
                "failures_by_kind": {"validation": 1},
                "recovered": 1,
                "completions": 1,
                "first_tries": 1,
            },
        ),
        (
            [pending(), running(), failed(code="timeout")],
            {
                "calls": 1,
                "attempts": 1,
                "failures": 1,
                "failures_by_kind": {"transient": 1},
                "terminal_failures": 1,
                "outcome_unknown": 1,
                "first_tries": 1,
            },
        ),
        (
            [pending(), running(), failed(code="timeout"), running(2), failed()],
            {
                "calls": 1,
                "attempts": 2,
                "retries": 1,
                "failures": 2,
                "failures_by_kind": {"transient": 2},
                "terminal_failures": 1,
                "outcome_unknown": 1,
                "first_tries": 1,
            },
        ),
        (
            [pending(), running(), failed(code="cancelled"), completed()],
            {
                "calls": 1,
                "attempts": 1,
                "failures": 1,
                "failures_by_kind": {"transient": 1},
                "completions": 1,
                "first_tries": 1,
            },
        ),
        (
            [pending(), running(), failed(), completed()],
            {
                "calls": 1,
                "attempts": 1,
                "failures": 1,
                "failures_by_kind": {"transient": 1},
                "completions": 1,
                "first_tries": 1,
            },
        ),
        (
            [pending(), running(), failed(), running(2)],
            {
                "calls": 1,
                "open": 1,
                "attempts": 2,
                "retries": 1,
                "failures": 1,
                "failures_by_kind": {"transient": 1},
                "outcome_unknown": 1,
                "first_tries": 1,
            },
        ),
    ],
)
def test_the_counts_after_the_events_of_one_call(
    events: list[Event], expected: dict[str, Any]
) -> None:
    """The same counts are found overall, for the call's tool and for its fingerprint."""
    statistics = error_statistics(log(*events))
    assert statistics.anomalies == ()
    assert counts(statistics.overall) == expected
    assert counts(statistics.by_tool["search"]) == expected
    by_fingerprint = counts(statistics.by_fingerprint[fingerprint("search", {})])
    by_fingerprint.pop("arguments", None)
    assert by_fingerprint == {**expected, "tool": "search"}


def test_counts_add_up_over_tools_and_conversations() -> None:
    """The overall numbers are the sum over the tools; conversations and events are counted."""
    one = log(pending("a", "x"), pending("b", "y"), running(1, "a"), completed("a"))
    other = log(pending("a", "y"), failed(), MessageAdded("user"), conversation="other")
    statistics = error_statistics(one + other)
    assert (statistics.events, statistics.conversations) == (7, 2)
    assert {name: n.calls for name, n in statistics.by_tool.items()} == {"y": 2, "x": 1}
    assert (statistics.overall.calls, statistics.overall.open) == (3, 1)
    assert statistics.overall.first_try_success_rate == 0.5


def test_the_most_severe_tools_and_calls_come_first() -> None:
    """The order is: calls that stayed failed, unknown outcomes, failures that a retry mended."""
    events: list[Event] = [
        pending("1", "fine"),
        pending("2", "fine"),
        pending("3", "mended"),
        pending("4", "lost"),
        pending("5", "broken"),
        running(1, "3"),
        failed(call_id="3"),
        running(2, "3"),
        completed("3"),
        running(1, "4"),
        failed(ErrorKind.VALIDATION, call_id="5"),
        failed(ErrorKind.VALIDATION, call_id="2"),
        completed("2"),
    ]
    statistics = error_statistics(log(*events))
    assert list(statistics.by_tool) == ["broken", "lost", "fine", "mended"]
    assert list(statistics.by_kind) == ["validation", "transient"]
    assert list(statistics.overall.failures_by_kind) == ["validation", "transient"]
    worst = next(iter(statistics.by_fingerprint.values()))
    assert worst.tool == "broken"


def test_each_error_kind_counts_retries_and_recoveries() -> None:
    """Each kind has its retried, recovered and failed calls, and their tools."""
    events: list[Event] = [
        pending("a", "x"),
        pending("b", "x"),
        pending("c", "y"),
        pending("d", "y"),
        running(1, "a"),
        failed(call_id="a"),
        running(2, "a"),
        failed(ErrorKind.QUOTA, call_id="a"),
        running(3, "a"),
        completed("a"),
        failed(call_id="b"),
        failed(call_id="c"),
        failed(call_id="d"),
        completed("d"),
    ]
    by_kind = error_statistics(log(*events)).by_kind
    assert msgspec.to_builtins(by_kind) == {
        "transient": {
            "failures": 4,
            "retried": 1,
            "recovered": 0,
            "terminal": 2,
            "by_tool": {"x": 2, "y": 2},
        },
        "quota": {"failures": 1, "retried": 1, "recovered": 1, "terminal": 0, "by_tool": {"x": 1}},
    }


def test_a_call_repeats_when_its_conversation_asks_again() -> None:
    """Other calls may come between the two."""
    one = log(pending("a", q=1), pending("b", q=1), pending("c", q=2), pending("d", q=1))
    other = log(pending("a", q=1), conversation="other")
    statistics = error_statistics(one + other)
    assert statistics.overall.repeated == 2
    assert statistics.by_fingerprint[fingerprint("search", {"q": 1})].repeated == 2
    assert statistics.by_fingerprint[fingerprint("search", {"q": 1})].calls == 4
    assert statistics.by_fingerprint[fingerprint("search", {"q": 2})].repeated == 0


def test_an_edit_is_counted_under_its_own_fingerprint() -> None:
    """The request counts under the original arguments, the attempts under the edited ones."""
    edit = FunctionCall("search", {"q": "safe"}, "a")
    events = log(pending(q="risky"), ToolApproved("a", edit), running(), failed())
    by_fingerprint = error_statistics(events).by_fingerprint
    asked = by_fingerprint[fingerprint("search", {"q": "risky"})]
    ran = by_fingerprint[fingerprint("search", {"q": "safe"})]
    assert (asked.calls, asked.open, asked.attempts, asked.failures) == (1, 0, 0, 0)
    assert (ran.calls, ran.open, ran.attempts, ran.failures) == (0, 0, 1, 1)
    assert (ran.arguments, ran.terminal_failures) == ('{"q":"safe"}', 1)


def test_a_call_without_a_fingerprint_is_counted() -> None:
    """Arguments without a fingerprint are counted for their tool."""
    events: list[Event] = [pending(q=float("nan")), pending("b", q=float("nan")), failed()]
    statistics = error_statistics(log(*events))
    assert (statistics.overall.calls, statistics.overall.repeated) == (2, 0)
    assert statistics.by_fingerprint == {}


def test_waiting_queueing_and_running_times_are_separate() -> None:
    """Waiting ends with the decision, queueing with the first start, running with each end."""
    events = log(
        pending("a"),
        ToolApproved("a"),
        running(1, "a"),
        failed(call_id="a"),
        running(2, "a"),
        completed("a"),
        seconds=(0, 10, 13, 20, 50, 59),
    )
    overall = error_statistics(events).overall
    assert overall.waiting == Percentiles(1, *[10 * SECOND] * 4)
    assert overall.queueing == Percentiles(1, *[3 * SECOND] * 4)
    assert overall.running == Percentiles(2, 7 * SECOND, *[9 * SECOND] * 3)


def test_a_measured_duration_is_used_for_an_attempt() -> None:
    """The measured duration outranks the times of the log, and needs no start."""
    events = log(
        pending("a"),
        running(1, "a"),
        completed("a", duration=7),
        pending("b"),
        failed(call_id="b", duration=5),
        pending("c"),
        completed("c"),
        seconds=range(7),
    )
    assert error_statistics(events).overall.running == Percentiles(2, 5, 7, 7, 7)


def test_times_at_the_source_outrank_those_of_the_recording() -> None:
    """An imported call ran as long as its source says."""
    recorded = log(pending("a"), running(1, "a"), completed("a"))
    events = [
        msgspec.structs.replace(each, occurred_at=each.version**2 * SECOND) for each in recorded
    ]
    assert error_statistics(events).overall.running == Percentiles(1, *[5 * SECOND] * 4)


def test_only_a_persons_rejection_counts_as_waiting() -> None:
    """A gate's rejection does not count as waiting, nor does one that revokes an approval."""
    events = log(
        pending("a"),
        pending("b"),
        pending("c"),
        ToolRejected("a", source="gate"),
        ToolRejected("b", source="human"),
        ToolApproved("c"),
        ToolRejected("c", source="human"),
        seconds=(0, 0, 0, 1, 2, 3, 9),
    )
    assert error_statistics(events).overall.waiting == Percentiles(
        2, 2 * SECOND, 3 * SECOND, 3 * SECOND, 3 * SECOND
    )


def test_an_auto_approved_call_queues_from_its_request() -> None:
    """Without a decision the queueing time begins with the request."""
    events = log(pending(), running(), seconds=(5, 9))
    assert error_statistics(events).overall.queueing.p50 == 4 * SECOND


def test_clocks_that_disagree_give_no_negative_time() -> None:
    """An attempt that ends before its start took no time."""
    events = log(pending(), running(), completed(), seconds=(9, 5, 1))
    overall = error_statistics(events).overall
    assert (overall.queueing.max, overall.running.max) == (0, 0)


@pytest.mark.parametrize(
    "events",
    [
        [completed("ghost")],
        [pending(), completed(), failed()],
        [pending(), completed(), completed()],
        [pending(), running(), running(), completed()],
        [pending(), failed(), failed()],
        [UnknownEvent("pending", 1, "{")],
        [ToolPending(FunctionCall("search", {}))],
        [pending(q=1), pending(q=2)],
    ],
)
def test_an_event_that_cannot_be_counted_is_an_anomaly(events: list[Event]) -> None:
    """The event is named, and everything else is counted as if it were not there."""
    statistics = error_statistics(log(*events))
    assert statistics.anomaly_count == len(statistics.anomalies) == 1
    at = statistics.anomalies[0].version
    rest = log(*events)
    del rest[at - 1]
    assert statistics.overall == error_statistics(rest).overall


@pytest.mark.parametrize("call_id", ["a", "ghost"])
@pytest.mark.parametrize(
    "event",
    [
        ToolApproved("a", EDIT),
        ToolApproved("a"),
        ToolRejected("a"),
        running(1),
        running(2),
        completed(),
        failed(),
        ToolPaused("a"),
        MessageAdded("user"),
        UnknownEvent("from_the_future", 1, "{}"),
    ],
    ids=lambda event: event.tag,
)
@pytest.mark.parametrize(
    "life",
    [
        [],
        [ToolApproved("a", EDIT)],
        [ToolApproved("a")],
        [running()],
        [failed()],
        [running(), failed(), running(2)],
        [ToolApproved("a", expires_at=1), running(), failed(delay=1)],
    ],
    ids=["Pending", "edited", "Approved", "Running", "Failed", "retried", "announced"],
)
def test_anomalies_follow_the_table_of_transitions(
    life: list[Event], event: Any, call_id: str
) -> None:
    """A call that is not settled refuses the steps that its `Tool` does, for the same reason."""
    if hasattr(event, "call_id"):
        event = msgspec.structs.replace(event, call_id=call_id)
    events = log(pending(), *life, event)
    assert list(error_statistics(events).anomalies) == CurrentTools().extend(events).anomalies


def test_a_repeated_request_is_recognised_until_its_call_ends() -> None:
    """The same request again is not an anomaly; another request with its id is one."""
    again = [pending(q=1), pending(q=1), running(), pending(q=1)]
    assert error_statistics(log(*again)).anomalies == ()
    (anomaly,) = error_statistics(log(*again, pending(q=2))).anomalies
    assert "another call of this id exists" in anomaly.problem


def test_a_log_that_comes_twice_counts_once() -> None:
    """Neither ended calls, which are forgotten, nor running attempts are counted again."""
    events = log(
        pending("a"),
        running(),
        completed(),
        pending("b"),
        running(1, "b"),
        failed(call_id="b"),
        running(2, "b"),
        pending("c"),
        ToolRejected("c"),
        pending("d"),
        failed(call_id="d"),
    )
    once, twice = error_statistics(events), error_statistics(events + events)
    assert twice.overall == once.overall
    assert twice.by_fingerprint == once.by_fingerprint
    assert twice.anomaly_count == len(events)


def test_anomalies_are_all_counted_and_the_first_are_kept() -> None:
    """A log that contains only damage needs little memory."""
    statistics = error_statistics(log(*[completed("ghost")] * (MAX_ANOMALIES + 50)))
    assert (statistics.anomaly_count, len(statistics.anomalies)) == (
        MAX_ANOMALIES + 50,
        MAX_ANOMALIES,
    )
    assert statistics.anomalies[0].version == 1


def test_a_failed_call_recovers_however_late() -> None:
    """The memory of a failed call is enough for a retry and for a late answer."""
    others = [event for n in range(50) for event in (pending(f"o{n}", q=n), completed(f"o{n}"))]
    retried = of(pending(), running(), failed(), *others, running(2), completed())
    assert (retried.terminal_failures, retried.recovered, retried.open) == (0, 1, 0)
    late = of(pending(), running(), failed(code="timeout"), *others, completed())
    assert (late.terminal_failures, late.recovered, late.outcome_unknown) == (0, 0, 0)


def test_the_lightest_fingerprints_are_forgotten_first() -> None:
    """The half that failed and repeated least is dropped, of equals the oldest.

    Totals stay exact.
    """
    events: list[Event] = [pending("bad", q="bad"), failed(call_id="bad")]
    events += [pending("r1", q="again"), pending("r2", q="again")]
    for n in range(20):
        events += [pending(f"c{n}", q=n), completed(f"c{n}")]
    fold = ErrorStatistics(fingerprints=6).extend(log(*events))
    statistics = fold.result()
    assert len(statistics.by_fingerprint) <= 6
    assert len(statistics.by_fingerprint) + statistics.forgotten == 22
    kept = set(statistics.by_fingerprint)
    assert {fingerprint("search", {"q": q}) for q in ("bad", "again", 19)} <= kept
    assert fingerprint("search", {"q": 0}) not in kept
    assert (statistics.overall.calls, statistics.overall.repeated) == (23, 1)
    with pytest.raises(ValueError, match="fingerprints is 0"):
        ErrorStatistics(fingerprints=0)


def test_a_forgotten_fingerprint_is_counted_from_zero_again() -> None:
    """Only its later calls are counted, and no repeats are invented."""
    events: list[Event] = [pending(f"c{n}", q=n % 4) for n in range(12)]
    statistics = error_statistics(log(*events), fingerprints=1)
    assert list(statistics.by_fingerprint) == [fingerprint("search", {"q": 3})]
    assert statistics.overall.repeated == 0
    assert error_statistics(log(*events), fingerprints=4).overall.repeated == 8


def test_ended_calls_use_no_memory() -> None:
    """Memory does not grow with the number of calls, nor with what they were about."""

    def lives(count: int) -> Iterable[Recorded]:
        version = 0
        for n in range(count):
            call_id = f"call-{n}"
            big = FunctionCall("search", {"q": n, "text": "x" * 1000}, call_id)
            for event in (ToolPending(big), running(1, call_id), completed(call_id)):
                version += 1
                yield Recorded(0, version, "chat", version, "", version, call_id, None, event)

    def memory(count: int) -> int:
        fold = ErrorStatistics(fingerprints=100)
        tracemalloc.start()
        fold.extend(lives(count))
        used, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert fold.result().overall.completions == count
        return used

    memory(6000)  # what is allocated once: caches, interned names
    assert memory(6000) < memory(600) + 50_000


def test_a_failed_call_keeps_none_of_its_payload() -> None:
    """Neither arguments nor tracebacks of calls that stay failed are kept in memory."""
    fold = ErrorStatistics(fingerprints=1)
    tracemalloc.start()
    version = 0
    for n in range(500):
        call = FunctionCall("search", {"q": n, "text": "x" * 10_000}, f"c{n}")
        failure = Failure(ErrorKind.INTERNAL, "y" * 10_000)
        for event in (ToolPending(call), ToolFailed(f"c{n}", failure)):
            version += 1
            fold.apply(Recorded(0, version, "chat", version, "", 0, f"c{n}", None, event))
        del call, failure, event
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert fold.result().overall.terminal_failures == 500
    assert used < 500 * 1000


def test_arguments_are_kept_for_repeated_and_failed_calls() -> None:
    """The shortened arguments of failed, rejected and repeated calls are kept."""
    events: list[Event] = [
        pending("a", q="plain"),
        pending("b", q="bad"),
        failed(call_id="b"),
        running(1, "b"),
        failed(call_id="b"),
        pending("c", q="no"),
        ToolRejected("c"),
        pending("d", q="x" * 500),
        pending("e", q="x" * 500),
        completed("a"),
    ]
    statistics = error_statistics(log(*events))
    assert "plain" not in str(statistics)
    shown = {n.arguments for n in statistics.by_fingerprint.values()}
    (long,) = (text for text in shown if text and "xxx" in text)
    assert shown - {long} == {None, '{"q":"bad"}', '{"q":"no"}'}
    assert len(long) == 200


def test_statistics_encode_as_json_and_decode_again() -> None:
    """The command line prints this JSON for programs."""
    statistics = error_statistics(log(pending(), running(), failed(), completed("ghost")))
    assert msgspec.json.decode(msgspec.json.encode(statistics), type=Statistics) == statistics


# the text


def test_statistics_print_as_tables() -> None:
    """The whole text that a person sees in a terminal is compared."""
    events = log(
        pending("a", "fetch", url="u"),
        pending("b", q=1),
        pending("c", q=1),
        running(1, "a"),
        failed(ErrorKind.RATE_LIMIT, call_id="a"),
        running(2, "a"),
        completed("a"),
        running(1, "b"),
        failed(ErrorKind.QUOTA, call_id="b"),
        ToolRejected("c", source="gate"),
        completed("ghost"),
        seconds=(0, 0, 0, 1, 3, 4, 90, 95, 96, 97, 98),
    )
    assert str(error_statistics(events)) == TABLE


def test_a_log_without_calls_reads_as_one_line() -> None:
    """Empty tables are not printed."""
    assert str(error_statistics([])) == "0 calls of 0 tools in 0 conversations (0 events)"


def test_only_the_worst_calls_are_listed() -> None:
    """The text stays short for a long log."""
    events: list[Event] = [pending("fine"), completed("fine")]
    for n in range(25):
        events += [pending(f"c{n}", q=n), failed(call_id=f"c{n}")]
    text = str(error_statistics(log(*events)))
    assert text.count("search {") == 10
    assert text.endswith("  and 15 more")


def test_the_text_cannot_harm_a_terminal() -> None:
    """Names and arguments come from a model: control characters are shown, not obeyed."""
    events = log(pending("a", "\x1b[2J\r\n", q="\x1b]0;x\x07"), failed())
    assert all(line.isprintable() for line in str(error_statistics(events)).split("\n"))


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (None, "-"),
        (0, "0 us"),
        (999, "999 us"),
        (1000, "1.00 ms"),
        (12_345, "12.3 ms"),
        (999_499, "999 ms"),
        (1_000_000, "1.00 s"),
        (59_900_000, "59.9 s"),
        (60_000_000, "1 m 0 s"),
        (3_599_000_000, "59 m 59 s"),
        (12_000_000_000, "3 h 20 m"),
        (86_400_000_000 * 1234, "1,234 d 0 h"),
    ],
)
def test_a_duration_has_the_unit_that_suits_it(microseconds: int | None, text: str) -> None:
    """Units go from microseconds to days, with two units from a minute on."""
    assert duration(microseconds) == text


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (None, "-"),
        (0.0, "0.0%"),
        (1.0, "100.0%"),
        (0.99999, "99.9%"),
        (0.00001, "0.1%"),
        (0.5, "50.0%"),
    ],
)
def test_only_exact_rates_read_0_and_100_percent(rate: float | None, text: str) -> None:
    """One failure in a million calls does not read as 100 % success."""
    assert share(rate) == text


def test_a_long_text_shows_its_beginning_and_end() -> None:
    """Calls often differ only at the end; the width limit holds for escaped characters, too."""
    assert one_line("abcdefghij" * 3, 18) == "abcdefghi...efghij"
    assert one_line("  short ", 18) == "short"
    assert all(len(one_line("\x1b" * n, 18)) <= 18 for n in range(30))


def test_arguments_text_is_the_json_or_the_raw_text() -> None:
    """Arguments of another kind are named by their type."""
    assert arguments_text(FunctionCall("f", {"q": [1]})) == '{"q":[1]}'
    assert arguments_text(FunctionCall.of("f", "{oops")) == "{oops"
    assert arguments_text(FunctionCall("f", object())) == "<object>"


def test_a_table_leaves_out_empty_columns() -> None:
    """A column of zeros is left out, a column of names stays."""
    rows = [("-", 0, 1000, 0), ("-", 0, 2, 1)]
    assert table(("NAME", "NONE", "MANY", "SOME"), rows, ["NAME"]) == [
        "NAME   MANY  SOME",
        "-     1,000     0",
        "-         2     1",
    ]
    assert table(("NAME",), [], ["NAME"]) == []


# percentiles


def brute(values: list[int], percent: int) -> int:
    """Return the nearest rank by definition: the least value that so many percent do not exceed."""
    return min(v for v in values if sum(w <= v for w in values) * 100 >= percent * len(values))


def measured(values: Iterable[int]) -> Durations:
    """Return the distribution of some values."""
    durations = Durations()
    for value in values:
        durations.add(value)
    return durations


def skewed(source: random.Random) -> int:
    """Return durations of which most are short and a few very long."""
    return int(source.lognormvariate(10, 3))


def even(source: random.Random) -> int:
    """Return durations that are spread evenly."""
    return source.randrange(1_000_000)


def coarse(source: random.Random) -> int:
    """Return few different durations, on the borders of buckets."""
    return source.choice([0, 1, 127, 128, 129, 10**12])


@pytest.mark.parametrize("size", [1, 2, 3, 19, 20, 21, 99, 100, 101, 257])
def test_percentiles_of_few_are_exact(size: int) -> None:
    """Percentiles equal the nearest rank, found by brute force."""
    values = [even(random.Random(size * n)) for n in range(size)]
    p50, p95, p99 = (brute(values, percent) for percent in (50, 95, 99))
    assert measured(values).percentiles() == Percentiles(size, p50, p95, p99, max(values))


@pytest.mark.parametrize("draw", [skewed, even, coarse])
@pytest.mark.parametrize(
    "size", [MAX_EXACT_DURATIONS, MAX_EXACT_DURATIONS + 1, 3 * MAX_EXACT_DURATIONS + 5]
)
def test_percentiles_of_many_are_close(draw: Callable[[random.Random], int], size: int) -> None:
    """Up to `MAX_EXACT_DURATIONS` they are exact, beyond that within `RELATIVE_ERROR`."""
    source = random.Random(1)
    values = sorted(draw(source) for _ in range(size))
    found = measured(values).percentiles()
    assert (found.count, found.max) == (size, values[-1])
    for percent, got in ((50, found.p50), (95, found.p95), (99, found.p99)):
        true = values[-(-size * percent // 100) - 1]
        assert got is not None
        assert abs(got - true) <= (0 if size <= MAX_EXACT_DURATIONS else true * RELATIVE_ERROR)


def test_every_value_is_near_the_middle_of_its_bucket() -> None:
    """This holds around every power of two, up to the longest duration."""
    for exponent in range(63):
        for value in (2**exponent - 1, 2**exponent, 2**exponent + 1, 3 * 2**exponent // 2):
            filled = measured([value] * (MAX_EXACT_DURATIONS + 1)).percentiles()
            assert filled.p50 is not None
            assert abs(filled.p50 - value) <= value * RELATIVE_ERROR
            assert filled.p50 <= value == filled.max


def test_the_order_of_arrival_does_not_matter() -> None:
    """Any order and any split into distributions give the same percentiles."""
    source = random.Random(2)
    values = [skewed(source) for _ in range(3 * MAX_EXACT_DURATIONS)]
    whole = measured(values).percentiles()
    source.shuffle(values)
    assert measured(values).percentiles() == whole
    parts = measured([])
    for start in (0, 100, MAX_EXACT_DURATIONS):
        stop = {0: 100, 100: MAX_EXACT_DURATIONS, MAX_EXACT_DURATIONS: None}[start]
        parts.include(measured(values[start:stop]))
    assert parts.percentiles() == whole


def test_a_sum_of_exact_distributions_is_exact() -> None:
    """The sum over many tools with few calls each stays exact."""
    source = random.Random(3)
    values = [even(source) for _ in range(2 * MAX_EXACT_DURATIONS)]
    whole = measured(values[:MAX_EXACT_DURATIONS])
    whole.include(measured(values[MAX_EXACT_DURATIONS:]))
    ordered = sorted(values)
    assert whole.percentiles() == Percentiles(
        2 * MAX_EXACT_DURATIONS,
        ordered[MAX_EXACT_DURATIONS - 1],
        ordered[-(-2 * MAX_EXACT_DURATIONS * 95 // 100) - 1],
        ordered[-(-2 * MAX_EXACT_DURATIONS * 99 // 100) - 1],
        ordered[-1],
    )


@pytest.mark.slow
def test_a_distribution_needs_little_memory() -> None:
    """A million durations over nine orders of magnitude take less than 300 kB."""
    source = random.Random(4)
    tracemalloc.start()
    durations = measured(int(10 ** source.uniform(0, 9)) for _ in range(200_000))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert durations.percentiles().count == 200_000
    assert used < 300_000


def test_impossible_durations_are_clamped() -> None:
    """Negative and absurd values of a damaged log become the least and the greatest duration."""
    assert measured([-5, 2**80]).percentiles() == Percentiles(2, 0, *[2**63 - 1] * 3)
    assert Durations().percentiles() == Percentiles()


def test_reading_percentiles_changes_nothing() -> None:
    """Values can be added after a read, and two reads give the same."""
    many = measured(range(3 * MAX_EXACT_DURATIONS + 7))
    assert many.percentiles() == many.percentiles()
    assert measured([10, 9]).percentiles().max == 10
