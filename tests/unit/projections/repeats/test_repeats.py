"""Repeats: calls in a row, calls since the user spoke, and cycles."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from support.transcripts import REPEATS

from eventstore import (
    ErrorKind,
    Event,
    EventStore,
    Failure,
    FunctionCall,
    FunctionResponse,
    MessageAdded,
    Recorded,
    ToolCompleted,
    ToolFailed,
    ToolPending,
    ToolRejected,
    ToolRunning,
    fingerprint,
)
from projections.repeats.projection import Cycle, Repeat, Repeats, repeats
from projections.repeats.streaks import CallRequest


def log(events: Iterable[Event], conversation: str = "chat") -> list[Recorded]:
    """Return the events as the log of one conversation."""
    return [
        Recorded(
            0, n, conversation, n, f"{n:032x}", n, getattr(event, "call_id", None), None, event
        )
        for n, event in enumerate(events, 1)
    ]


def calls(sequence: str) -> list[Recorded]:
    """Return a log of calls, one per letter: its tool; a dot is a user message, a dash another."""
    return log(
        MessageAdded("user" if letter == "." else "assistant")
        if letter in ".-"
        else ToolPending(FunctionCall(letter, {"of": letter}, f"{letter}{n}"))
        for n, letter in enumerate(sequence, 1)
    )


def answered(*answers: Any) -> list[Recorded]:
    """Return a log of equal calls, each with its answer: a result, a `Failure`, or None."""
    events: list[Event] = []
    for n, answer in enumerate(answers):
        call_id = f"c{n}"
        events.append(ToolPending(FunctionCall("f", {}, call_id)))
        if isinstance(answer, Failure):
            events.append(ToolFailed(call_id, answer))
        elif isinstance(answer, str) and answer.startswith("no:"):
            events.append(ToolRejected(call_id, answer))
        elif answer is not None:
            events.append(ToolCompleted(call_id, FunctionResponse("f", answer, call_id)))
    return log(events)


def one(events: list[Recorded], **options: Any) -> Repeat:
    """Return the only finding, a repeat."""
    (finding,) = repeats(events, **options)
    assert isinstance(finding, Repeat)
    return finding


def cycles(sequence: str, threshold: int = 3) -> list[Cycle]:
    """Return the cycles of a log of letters."""
    return [f for f in repeats(calls(sequence), threshold) if isinstance(f, Cycle)]


def test_a_row_of_equal_calls_is_found() -> None:
    """The finding names the call, counts it and says where the row began and ended."""
    found = one(calls("xaaaab"))
    assert found.call == FunctionCall("a", {"of": "a"}, "a5")
    assert found.fingerprint == fingerprint("a", {"of": "a"})
    assert (found.total, found.run, found.since_user) == (4, 4, 4)
    assert (found.run_first, found.run_last) == (CallRequest("a2", 2), CallRequest("a5", 5))
    assert found.conversation_id == "chat"


def test_user_messages_do_not_break_a_row_but_split_the_count() -> None:
    """A heartbeat between the calls hides no loop."""
    found = one(calls("a.a.a-a.a-a"))
    assert (found.run, found.between_users, found.since_user) == (6, 2, 2)


def test_another_call_breaks_a_row() -> None:
    """The longest row is kept, the first among equals, and the current row is reported."""
    found = one(calls("aab.aaa.caaa.daa"))
    assert (found.total, found.run, found.current_run) == (10, 3, 2)
    assert (found.run_first, found.run_last) == (CallRequest("a5", 5), CallRequest("a7", 7))
    assert (found.first, found.last) == (CallRequest("a1", 1), CallRequest("a16", 16))
    assert one(calls("aaab")).current_run == 0


def test_calls_with_others_between_count_until_the_user_speaks() -> None:
    """Three reads of one file in one stretch are a finding, over three stretches they are not."""
    found = one(calls("abacda"))
    assert (found.call.name, found.run, found.between_users) == ("a", 1, 3)
    assert repeats(calls("ab.ac.da")) == []


def test_repeats_before_a_user_message_are_still_found() -> None:
    """`since_user` is the present count, `between_users` the largest one."""
    found = one(calls("abaca.e"))
    assert (found.between_users, found.since_user) == (3, 0)


def test_the_threshold_decides_which_repeats_are_found() -> None:
    """Two calls are found on request, and one call is not a repeat."""
    assert repeats(calls("aa")) == []
    assert one(calls("aa"), threshold=2).run == 2
    with pytest.raises(ValueError, match="threshold is 1"):
        repeats([], threshold=1)


def test_calls_differ_by_their_arguments() -> None:
    """The same tool with other arguments is another call; key order does not matter."""
    different = [ToolPending(FunctionCall("f", {"n": n}, f"c{n}")) for n in range(5)]
    assert repeats(log(different)) == []
    turned = [{"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1, "b": 2}]
    equal = [ToolPending(FunctionCall("f", given, f"c{n}")) for n, given in enumerate(turned)]
    assert one(log(equal)).run == 3


def test_attempts_of_one_call_are_not_repeats() -> None:
    """A call that is retried was requested once."""
    events: list[Event] = [ToolPending(FunctionCall("f", {}, "a"))]
    for attempt in (1, 2, 3):
        events += [
            ToolRunning("a", attempt),
            ToolFailed("a", Failure(ErrorKind.TRANSIENT, "x"), attempt),
        ]
    assert repeats(log(events)) == []


def test_a_request_that_comes_twice_is_counted_once() -> None:
    """A repeated request of an open call and one out of order are not counted again."""
    twice = calls("aab")
    again = msgspec.structs.replace(twice[1], version=4)
    assert repeats([*twice[:2], again]) == []
    assert repeats([*twice, *twice]) == []
    assert repeats([*calls("aa"), *answered(1)[1:], *calls("aa")]) == []


def test_a_call_without_an_id_or_a_fingerprint_is_ignored() -> None:
    """Without an id a call has no place in the log and no answer."""
    calls = [ToolPending(FunctionCall("f", {}, call_id)) for call_id in (None, "", "a")]
    assert repeats(log(calls), threshold=2) == []


@pytest.mark.parametrize(
    ("answers", "distinct", "same"),
    [
        ([{"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1, "b": 2}], 1, True),
        (["on", "on", "off"], 2, False),
        ([Failure(ErrorKind.QUOTA, "no"), Failure(ErrorKind.QUOTA, "no", code="1"), None], 1, True),
        ([Failure(ErrorKind.QUOTA, "no"), Failure(ErrorKind.AUTH, "no"), None], 2, False),
        (["no:", "no:", "no:"], 1, True),
        (["no", "no:", "no"], 2, False),
        ([["human", "no:"], "no:", "no:"], 2, False),
        ([1, None, None], 1, None),
    ],
)
def test_a_repeat_says_whether_its_answer_was_always_the_same(
    answers: list[Any], distinct: int, same: bool | None
) -> None:
    """Results by value, failures by kind and text; unanswered calls say nothing."""
    found = one(answered(*answers))
    assert (found.answers, found.same_answer) == (distinct, same)
    assert found.answered == sum(answer is not None for answer in answers)


def test_the_last_answer_of_a_call_counts() -> None:
    """A failure that a retry mended is not an answer beside the result."""
    events = [recorded.event for recorded in answered("ok", "ok")]
    events += [
        ToolPending(FunctionCall("f", {}, "r")),
        ToolFailed("r", Failure(ErrorKind.TRANSIENT, "x")),
        ToolCompleted("r", FunctionResponse("f", "ok", "r")),
        ToolCompleted("r", FunctionResponse("f", "too late", "r")),
    ]
    found = one(log(events))
    assert (found.answers, found.answered) == (1, 3)


def test_the_caller_chooses_the_compared_part_of_a_result() -> None:
    """Without its time each answer is the same; a function that raises is not the log's fault."""
    events = answered(*({"status": "OK", "time": n} for n in range(3)))
    assert one(events).same_answer is False
    assert one(events, comparable=lambda result: result["status"]).same_answer is True
    assert one(events, comparable=lambda result: result["nothing"]).answers == 3


@pytest.mark.parametrize(
    ("sequence", "names", "run", "first", "last"),
    [
        ("ababab", "ab", 3, "a1", "b6"),
        ("xababab", "ab", 3, "a2", "b7"),
        ("abababax", "ab", 3, "a1", "b6"),
        ("ab.a-b.ab", "ab", 3, "a1", "b9"),
        ("abcabcabcabc", "abc", 4, "a1", "c12"),
        ("aabaabaab", "aab", 3, "a1", "b9"),
        ("abcdabcdabcd", "abcd", 3, "a1", "d12"),
        ("ababxbababab", "ba", 3, "b6", "a11"),
    ],
)
def test_a_cycle_is_found(sequence: str, names: str, run: int, first: str, last: str) -> None:
    """The finding has the two to four calls of the cycle, how often they came, and where."""
    (cycle,) = cycles(sequence)
    assert "".join(call.name for call in cycle.calls) == names
    assert cycle.fingerprints == tuple(fingerprint(name, {"of": name}) for name in names)
    assert (cycle.run, cycle.run_first.call_id, cycle.run_last.call_id) == (run, first, last)


@pytest.mark.parametrize(
    "sequence", ["aaaaaaaaaaaa", "abab", "abcdeabcdeabcde", "abcacb", "abaaba"]
)
def test_other_sequences_are_not_cycles(sequence: str) -> None:
    """One repeated call, too few rounds, too many calls in a round and no order do not count."""
    assert cycles(sequence) == []


def test_a_cycle_is_reported_once_however_long_it_is() -> None:
    """A cycle is not reported as a cycle of twice the length, nor from another of its calls."""
    (cycle,) = cycles("ab" * 20 + "xy" + "ba" * 7)
    assert (cycle.run, cycle.current_run) == (20, 7)


def test_a_cycle_says_how_often_it_went_round_since_the_user_spoke() -> None:
    """Only whole rounds after the last user message count, and only those of the current row."""
    assert cycles("abababab.abab")[0].since_user == 2
    assert cycles("abababab.aba")[0].since_user == 1
    assert cycles("abababab")[0].since_user == 4
    assert (cycles("ababab.ababx")[0].since_user, cycles("abababx")[0].current_run) == (0, 0)


def test_a_cycle_replaced_by_another_is_not_current() -> None:
    """Only the row that the log ends with is under way."""
    under_way, over = cycles("abababcdcdcdcd")
    assert (over.run, over.current_run, over.since_user) == (3, 0, 0)
    assert (under_way.run, under_way.current_run, under_way.since_user) == (4, 4, 4)


def test_the_longest_row_comes_first() -> None:
    """A cycle counts with all its calls."""
    found = repeats(calls("cccc.ababababab.ddd"))
    lengths = [
        (type(f), "".join(c.name for c in getattr(f, "calls", [getattr(f, "call", None)])))
        for f in found
    ]
    assert lengths == [
        (Cycle, "ab"),
        (Repeat, "a"),
        (Repeat, "b"),
        (Repeat, "c"),
        (Repeat, "d"),
    ]


def test_an_answer_that_is_not_json_counts_as_an_answer() -> None:
    """A log made by hand may hold anything, and the fold still does not raise."""
    assert one(answered({1j}, {2j}, "text")).answers == 2


def test_conversations_are_kept_apart() -> None:
    """Equal calls of two conversations are not in a row."""
    one_call = [recorded.event for recorded in calls("aa")]
    mixed = [r for pair in zip(log(one_call), log(one_call, "b"), strict=True) for r in pair]
    assert repeats(mixed) == []
    assert len(repeats(mixed, threshold=2)) == 2


def test_findings_read_as_sentences() -> None:
    """`str` gives the sentence that a person reads."""
    assert str(one(answered(1, 1, 1))) == (
        "f {}: 3 times, 3 in a row, 3 between two user messages, always the same answer "
        "(c0 at version 1 to c2 at 5)"
    )
    assert str(one(calls("a.a.a"))) == (
        'a {"of":"a"}: 3 times, 3 in a row (a1 at version 1 to a5 at 5)'
    )
    assert str(one(calls("abaca.e"))) == (
        'a {"of":"a"}: 3 times, 3 between two user messages (a1 at version 1 to a5 at 5)'
    )
    assert str(cycles("ababab")[0]) == (
        'a {"of":"a"} > b {"of":"b"}: 3 times round (a1 at version 1 to b6 at 6)'
    )


def test_findings_encode_as_json_with_their_kind() -> None:
    """The command line prints findings for programs."""
    read = msgspec.json.decode(msgspec.json.encode(repeats(calls("ababab"))))
    assert [finding["type"] for finding in read] == ["cycle", "repeat", "repeat"]
    assert read[0]["run_first"] == ["a1", 1]


def test_findings_can_be_read_between_events() -> None:
    """A guard asks after each event, and learns of the third call at once."""
    fold = Repeats()
    seen = [len(fold.extend([recorded]).findings) for recorded in calls("aaaa")]
    assert seen == [0, 0, 1, 1]


def test_a_real_loop_between_heartbeats_is_found() -> None:
    """The log has 41 identical calls in a row, each followed by a message of the host."""
    messages = json.loads(REPEATS.read_text("utf-8"))

    def without_time(result: Any) -> Any:
        answer = json.loads(result) if isinstance(result, str) else result
        return {key: value for key, value in answer.items() if key != "time"}

    with EventStore.open("sqlite://") as store:
        chat = store.conversation("letta")
        chat.record_messages(messages if isinstance(messages, list) else messages["messages"])
        found = one(list(chat.events()), comparable=without_time)
    assert (found.call.name, found.run, found.total) == ("memory_finish_edits", 41, 59)
    assert found.between_users < 3
    assert found.same_answer
