"""The algebra of the folds: resumable, total, deterministic, and right.

Legal logs are walks through the table of transitions, of several conversations in any interleaving.
Hostile logs are made from them: shuffled, repeated, with holes, damaged, foreign.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby, pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiers import examples

from eventstore import (
    Approved,
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
    RunEnded,
    Running,
    RunStarted,
    Tool,
    ToolApproved,
    ToolCompleted,
    ToolEvent,
    ToolFailed,
    ToolPaused,
    ToolPending,
    ToolRejected,
    ToolRunning,
    UnknownEvent,
    evolve,
    fingerprint,
)
from projections.current_tools import CurrentTools, current_tools
from projections.repeats.projection import Cycle, Repeat, Repeats, repeats
from projections.resume_plan import ResumePlan, resume_plan
from projections.statistics.durations import MAX_EXACT_DURATIONS, RELATIVE_ERROR, Durations
from projections.statistics.projection import ErrorStatistics, error_statistics
from projections.statistics.usage import UsageStatistics

# each fold, and everything that can be asked of it
FOLDS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "tools": (CurrentTools, lambda fold: (fold.tools, fold.anomalies, list(fold.calls()))),
    "statistics": (ErrorStatistics, lambda fold: (fold.result(), str(fold.result()))),
    "usage": (UsageStatistics, lambda fold: (fold.result(), str(fold.result()))),
    "statistics of few": (lambda: ErrorStatistics(fingerprints=2), ErrorStatistics.result),
    "repeats": (lambda: Repeats(2), lambda fold: (fold.findings, [*map(str, fold.findings)])),
    "recovery": (ResumePlan, lambda fold: (fold.steps, fold.anomalies, str(fold))),
}
UNKNOWN = {"cancelled", "interrupted", "timeout"}

each_fold = pytest.mark.parametrize("name", FOLDS)

# how a legal log goes on: (conversation, call, what happens, in which way)
moves = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(0, 5), st.integers(0, 11)),
    max_size=40,
)


def step(tool: Tool | None, call_id: str, what: int, way: int) -> Event:
    """Return the next event of a call: one that its status allows, chosen by two numbers."""
    if tool is None:
        return ToolPending(FunctionCall(f"tool{way % 2}", {"n": way % 3}, call_id))
    edit = FunctionCall(tool.call.name, {"n": 9}, call_id) if way % 3 == 0 else None
    code = (None, "timeout", "cancelled", "E1")[way % 4]
    failure = Failure(list(ErrorKind)[way % 7], "boom", code=code)
    response = FunctionResponse(tool.call.name, way % 2, call_id)
    run = ToolRunning(call_id, tool.attempts + 1, {"really": way})
    complete = ToolCompleted(call_id, response, tool.attempts, way or None, way == 1, way == 2)
    fail = ToolFailed(call_id, failure, tool.attempts, None, way if way > 6 else None)
    reject = ToolRejected(call_id, "no", ("human", "gate")[way % 2])
    defer = ToolPaused(call_id, 0, way if way % 3 else None, "later")
    pause = ToolPaused(call_id, tool.attempts, way if way % 2 else None)
    legal: dict[type, list[Event]] = {
        Pending: [ToolApproved(call_id, edit), run, defer, complete, fail, reject],
        Approved: [run, run, complete, fail, reject, defer],
        Running: [run, complete, pause, complete, fail, fail],
        Failed: [run, complete],
    }
    options = legal.get(type(tool.status), [MessageAdded("assistant")])
    return options[what % len(options)]


def legal_log(walk: Sequence[tuple[int, int, int, int]]) -> list[Recorded]:
    """Return the log of a walk, without anomalies: versions and times increase."""
    log: list[Recorded] = []
    versions: Counter[str] = Counter()
    tools: dict[tuple[str, str], Tool] = {}
    for at, (of, number, what, way) in enumerate(walk):
        conversation, call_id = f"chat{of}", f"call{number}"
        event = step(tools.get((conversation, call_id)), call_id, what, way)
        if way == 11:
            event = MessageAdded("user")
        versions[conversation] += 1
        if isinstance(event, ToolEvent):
            tools[conversation, call_id] = evolve(tools.get((conversation, call_id)), event)
        log.append(
            Recorded(
                0,
                at + 1,
                conversation,
                versions[conversation],
                f"{at:032x}",
                at * 1000,
                getattr(event, "call_id", None),
                None,
                event,
            )
        )
    return log


legal_logs = moves.map(legal_log)

strange_events = st.sampled_from(
    [
        UnknownEvent("completed", 1, "{"),
        UnknownEvent("from_the_future", 3, "{}"),
        RunStarted("agent"),
        RunEnded("error"),
        MessageAdded("tool", call_id="call0"),
        ToolPending(FunctionCall("f", {}, None)),
        ToolPending(FunctionCall("f", {}, "")),
        ToolPending(FunctionCall("f", None, "call1", "{oops")),
        ToolPending(FunctionCall("f", {"n": float("nan")}, "call2"), imported=True),
        ToolPending(FunctionCall("\ud800", object(), "call3")),
        ToolApproved("call1", FunctionCall("g", {1j}, "other")),
        ToolRunning("call0", 10**30),
        ToolRunning("call0", -1, object()),
        ToolRunning("foreign", 1),
        ToolCompleted("call0", FunctionResponse("f", object()), -1, -(10**30)),
        ToolCompleted("call1", FunctionResponse("f", float("nan")), 7, 10**30, True, True),
        ToolFailed("call2", Failure(ErrorKind.QUOTA, "", code="timeout"), 3, -1, -(10**30)),
        ToolRejected("foreign", None, "", None, {"x": {1}}),
    ]
)


@st.composite
def hostile_logs(draw: st.DrawFn) -> list[Recorded]:
    """Generate events of a legal log in any order, some missing, replaced or mislabelled."""
    log = draw(legal_logs)
    order = draw(st.lists(st.integers(0, max(len(log) - 1, 0)), max_size=40)) if log else []
    hostile = []
    for n in order:
        changes: dict[str, Any] = {}
        if draw(st.integers(0, 3)) == 0:
            changes["event"] = draw(strange_events)
        if draw(st.integers(0, 5)) == 0:
            changes["call_id"] = draw(st.sampled_from([None, "", "call0", "foreign"]))
            changes["fingerprint"] = draw(st.sampled_from([None, "", "x1:f", "\ud800"]))
            changes["version"] = draw(st.integers(-2, 50))
            changes["recorded_at"] = draw(st.sampled_from([0, -5, 10**30]))
        hostile.append(msgspec.structs.replace(log[n], **changes))
    return hostile


def seen(name: str, *parts: Sequence[Recorded]) -> Any:
    """Return the results of a fold that is asked after each part."""
    make, ask = FOLDS[name]
    fold = make()
    for part in parts:
        fold.extend(part)
        said = ask(fold)
    return said


@each_fold
@given(log=hostile_logs(), cut=st.integers(0, 40))
def test_a_prefix_and_then_the_rest_is_the_whole(name: str, log: list[Recorded], cut: int) -> None:
    """A fold that was asked in between gives the same result; `apply` is `extend` of one event."""
    whole = seen(name, log)
    assert seen(name, log[:cut], log[cut:]) == whole
    make, ask = FOLDS[name]
    fold = make()
    for recorded in log:
        fold.apply(recorded)
    assert ask(fold) == whole


@each_fold
@given(log=hostile_logs())
def test_a_fold_is_total_and_deterministic_and_leaves_its_input_alone(
    name: str, log: list[Recorded]
) -> None:
    """Any log gives a result, equal logs give equal results, and no event is changed."""
    before = repr(log)
    assert seen(name, log) == seen(name, copy.copy(log))
    assert repr(log) == before


@each_fold
@given(log=legal_logs, again=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40))))
def test_an_event_delivered_twice_counts_once(
    name: str, log: list[Recorded], again: list[tuple[int, int]]
) -> None:
    """Events that are repeated anywhere after their place add only anomalies."""
    repeated = list(log)
    for place, back in again:
        if log:
            behind = place % len(repeated)
            repeated.insert(behind + 1, repeated[max(behind - back, 0)])

    def without_anomalies(said: Any) -> Any:
        if name == "statistics of few":
            said = (said,)
        if name.startswith("statistics"):
            return msgspec.structs.replace(said[0], events=0, anomaly_count=0, anomalies=())
        return said[0]

    assert without_anomalies(seen(name, repeated)) == without_anomalies(seen(name, log))


@each_fold
@given(log=legal_logs, order=st.randoms(use_true_random=False))
def test_conversations_may_come_in_any_interleaving(
    name: str, log: list[Recorded], order: Any
) -> None:
    """The folds need only the order within each conversation."""
    names = sorted({recorded.conversation_id for recorded in log})
    queues = [[recorded for recorded in log if recorded.conversation_id == of] for of in names]
    mixed: list[Recorded] = []
    while any(queues):
        mixed.append(order.choice([q for q in queues if q]).pop(0))

    def said(events: list[Recorded]) -> Any:
        if name == "tools":
            return sorted(CurrentTools().extend(events).calls(), key=lambda c: (c[0], c[1].id))
        if name == "recovery":
            return sorted(msgspec.json.encode(s) for s in ResumePlan().extend(events).steps)
        if name == "repeats":
            return repeats(events, 2)
        return error_statistics(events)

    assert said(mixed) == said(log)


@given(log=legal_logs)
def test_a_legal_log_has_no_anomalies_and_every_call(log: list[Recorded]) -> None:
    """Each call has the state that `evolve` gives, under its id or a qualified id."""
    expected: dict[tuple[str, str], Tool] = {}
    for recorded in log:
        if isinstance(recorded.event, ToolEvent):
            key = recorded.conversation_id, recorded.event.call_id
            expected[key] = evolve(
                expected.get(key), recorded.event, recorded.recorded_at, recorded.fingerprint
            )
    fold = CurrentTools().extend(log)
    assert fold.anomalies == []
    assert {(of, tool.id): tool for of, tool in fold.calls()} == expected
    ids = Counter(call_id for _, call_id in expected)
    tools = current_tools(log)
    assert len(tools) == len(expected)
    for (conversation, call_id), tool in expected.items():
        if ids[call_id] == 1:
            assert tools[call_id] == tool
        else:
            assert tool in (tools[call_id], tools.get(f"{conversation}/{call_id}"))


def lives_of(log: list[Recorded]) -> dict[tuple[str, str], list[Any]]:
    """Return the events of each call."""
    lives: dict[tuple[str, str], list[Any]] = {}
    for recorded in log:
        if isinstance(recorded.event, ToolEvent):
            key = recorded.conversation_id, recorded.event.call_id
            lives.setdefault(key, []).append(recorded.event)
    return lives


def attempts_in_doubt(life: list[Any]) -> int:
    """Count the attempts of one call without a known end, by each event's successor."""
    doubts = 0
    for event, then in zip(life, [*life[1:], None], strict=True):
        if type(event) is ToolRunning:
            doubts += then is None or type(then) is ToolRunning
        elif type(event) is ToolFailed and event.failure.code in UNKNOWN:
            doubts += type(then) is not ToolCompleted
    return doubts


def numbers_of(life: list[Any]) -> Counter[str]:
    """Return the numbers of one call, computed from all its events at once."""
    kinds = Counter(type(event) for event in life)
    end = life[-1]
    done = end if type(end) is ToolCompleted else None
    lost = any(type(event) is type(then) is ToolRunning for event, then in pairwise(life))
    mishap = kinds[ToolFailed] > 0 or lost
    at_once = done is not None and not mishap and not done.synthetic
    runs = [type(before) for before, event in pairwise(life) if type(event) is ToolRunning]
    return Counter(
        calls=1,
        open=type(end) in (ToolPending, ToolApproved, ToolRunning, ToolPaused),
        attempts=kinds[ToolRunning],
        retries=sum(before in (ToolFailed, ToolRunning) for before in runs[1:]),
        pauses=sum(type(event) is ToolPaused and event.attempt > 0 for event in life),
        completions=kinds[ToolCompleted],
        synthetic=bool(done and done.synthetic),
        lossy=bool(done and done.lossy),
        failures=kinds[ToolFailed],
        terminal_failures=type(end) is ToolFailed,
        recovered=bool(done and type(life[-2]) is not ToolFailed and mishap),
        rejections=kinds[ToolRejected],
        outcome_unknown=attempts_in_doubt(life),
        first_tries=mishap or at_once,
        first_try_successes=at_once,
    )


@given(log=legal_logs)
def test_statistics_equal_the_sum_over_each_calls_events(log: list[Recorded]) -> None:
    """The numbers overall, by tool and by kind equal a count over each call's events."""
    lives = lives_of(log)
    statistics = error_statistics(log)
    assert (statistics.anomaly_count, statistics.events) == (0, len(log))

    def check(numbers: Any, of: list[list[Any]]) -> None:
        expected: Counter[str] = Counter()
        for life in of:
            expected.update(numbers_of(life))
        assert {name: getattr(numbers, name) for name in expected} == expected
        assert sum(numbers.failures_by_kind.values()) == numbers.failures
        assert sum(numbers.rejections_by_source.values()) == numbers.rejections

    check(statistics.overall, list(lives.values()))
    for name, numbers in statistics.by_tool.items():
        check(numbers, [life for life in lives.values() if life[0].call.name == name])
    failures = [e for life in lives.values() for e in life if type(e) is ToolFailed]
    kinds = Counter(event.failure.kind for event in failures)
    assert {kind: n.failures for kind, n in statistics.by_kind.items()} == kinds
    ends = [life[-1] for life in lives.values()]
    kinds = Counter(event.failure.kind for event in ends if type(event) is ToolFailed)
    assert {kind: n.terminal for kind, n in statistics.by_kind.items() if n.terminal} == kinds
    asked = [
        (of, fingerprint(life[0].call.name, life[0].call.arguments))
        for (of, _), life in lives.items()
    ]
    assert statistics.overall.repeated == len(asked) - len(set(asked))
    for mark, calls in Counter(mark for _, mark in asked).items():
        assert statistics.by_fingerprint[mark].calls == calls
    for group in (statistics.by_tool, statistics.by_fingerprint):
        for field in ("calls", "open", "attempts", "failures", "completions", "outcome_unknown"):
            total = sum(getattr(numbers, field) for numbers in group.values())
            assert total == getattr(statistics.overall, field)


@given(log=legal_logs)
def test_a_resume_plan_starts_nothing_that_may_have_taken_effect(log: list[Recorded]) -> None:
    """Each call has one step, and no call to start can have taken effect."""
    lives = lives_of(log)
    plan = resume_plan(log, lambda _: False, now=5)
    steps = {(s.conversation_id, s.id): s for s in plan.steps}
    assert steps.keys() == lives.keys()
    for key, life in lives.items():
        found, end = steps[key], life[-1]
        settled = type(end) in (ToolCompleted, ToolRejected)
        assert (found.action == "unknown") == (not settled and attempts_in_doubt(life) > 0)
        assert len(found.attempts) == (0 if settled else attempts_in_doubt(life))
        if found.action == "start":
            assert type(end) in (ToolPending, ToolApproved, ToolPaused)
            ends = [type(then) for event, then in pairwise(life) if type(event) is ToolRunning]
            assert set(ends) <= {ToolPaused, ToolFailed}
            assert not (type(end) is ToolPaused and end.until is None)
        elif found.action == "retry":
            assert type(end) is ToolFailed
            assert end.delay is not None
        elif found.action == "scheduled":
            assert type(end) is ToolPaused
            assert end.until > 5
        elif found.action == "done":
            assert type(found.tool.status) in (Completed, Rejected, Failed)


def rows(sequence: list[str], user_at: list[int]) -> dict[str, tuple[int, int, int, int]]:
    """Count by brute force for each name: total, longest row, since and between user messages."""
    found = {}
    stretches = [sequence[a:b] for a, b in zip([0, *user_at], [*user_at, None], strict=True)]
    for name in set(sequence):
        longest = max(len([*group]) for key, group in groupby(sequence) if key == name)
        between = [stretch.count(name) for stretch in stretches]
        found[name] = (sequence.count(name), longest, between[-1], max(between))
    return found


def turns(sequence: list[str]) -> dict[tuple[str, ...], int]:
    """Count by brute force how often each cycle that repeats went round at most."""
    found: dict[tuple[str, ...], int] = {}
    for start in range(len(sequence)):
        for period in (2, 3, 4):
            turn = sequence[start : start + period]
            rounds = 1
            while sequence[start + rounds * period : start + (rounds + 1) * period] == turn:
                rounds += 1
            is_whole = all(turn != turn[n:] + turn[:n] for n in range(1, len(turn)))
            if rounds > 1 and is_whole and len(turn) == period:
                key = min(tuple(turn[n:] + turn[:n]) for n in range(period))
                found[key] = max(found.get(key, 0), rounds)
    return found


@settings(max_examples=examples(150))
@given(text=st.text("abc.", max_size=24), threshold=st.integers(2, 4))
def test_repeats_equal_a_brute_force_search(text: str, threshold: int) -> None:
    """Rows, counts and cycles agree for any sequence of calls and user messages."""
    log = [
        Recorded(
            0,
            n,
            "chat",
            n,
            "",
            n,
            None,
            letter,
            MessageAdded("user")
            if letter == "."
            else ToolPending(FunctionCall(letter, {}, f"c{n}")),
        )
        for n, letter in enumerate(text, 1)
    ]
    sequence = [letter for letter in text if letter != "."]
    user_at = [len(text[:n].replace(".", "")) for n, letter in enumerate(text) if letter == "."]
    found = repeats(log, threshold)
    assert {
        f.fingerprint: (f.total, f.run, f.since_user, f.between_users)
        for f in found
        if isinstance(f, Repeat)
    } == {
        name: counts
        for name, counts in rows(sequence, user_at).items()
        if max(counts[1], counts[3]) >= threshold
    }
    cycles = {
        min(f.fingerprints[n:] + f.fingerprints[:n] for n in range(4)): f.run
        for f in found
        if isinstance(f, Cycle)
    }
    assert cycles == {name: n for name, n in turns(sequence).items() if n >= threshold}


@given(
    values=st.lists(st.integers(0, 2**50), min_size=1, max_size=60),
    copies=st.sampled_from([1, MAX_EXACT_DURATIONS]),
)
def test_percentiles_are_the_nearest_rank(values: list[int], copies: int) -> None:
    """Percentiles are exact for few values, and within the stated error for many."""
    durations = Durations()
    for value in values * copies if len(values) * copies < 3 * MAX_EXACT_DURATIONS else values:
        durations.add(value)
    found = durations.percentiles()
    ordered = sorted(values)
    allowed = RELATIVE_ERROR if found.count > MAX_EXACT_DURATIONS else 0
    for percent, got in ((50, found.p50), (95, found.p95), (99, found.p99)):
        true = ordered[-(-len(ordered) * percent // 100) - 1]
        assert got is not None
        assert abs(got - true) <= true * allowed
    assert found.max == ordered[-1]
