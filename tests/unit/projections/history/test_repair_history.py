"""`repair_history`: its four rules and its algebra."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore import (
    ErrorKind,
    Failure,
    FunctionCall,
    RetryClass,
    UnhashableArguments,
    fingerprint,
)
from projections import HistoryEntry, repair_history


def call(name: str = "search", **arguments: object) -> FunctionCall:
    """Return a call with these arguments."""
    return FunctionCall(name, arguments)


def done(output: object, **arguments: object) -> HistoryEntry:
    """Return a completed call."""
    return HistoryEntry.completed(call(**arguments), output)


def failed(
    message: str, retry_class: RetryClass = RetryClass.TRANSIENT, **arguments: object
) -> HistoryEntry:
    """Return a failed call."""
    return HistoryEntry.failed(call(**arguments), retry_class, message=message)


def test_the_first_completion_stays() -> None:
    """Failures before and after it, and later completions, are left out."""
    entries = [failed("timeout"), done({"hits": 1}), done({"hits": 99}), failed("late")]
    assert repair_history(entries) == [done({"hits": 1})]


def test_without_a_completion_the_last_failure_stays() -> None:
    """The failure keeps its own class, whatever the earlier ones were."""
    last = failed("last", RetryClass.PERMANENT)
    assert repair_history([failed("first"), last]) == [last]
    assert repair_history([last, failed("first")]) == [failed("first")]


def test_the_order_is_that_of_first_occurrence() -> None:
    """A survivor moves up to where its call was first seen."""
    entries = [failed("x", q="a"), done(1, q="b"), done(2, q="a"), done(3, q="a")]
    assert repair_history(entries) == [done(2, q="a"), done(1, q="b")]


def test_an_empty_history_stays_empty() -> None:
    """An empty history has no entries to keep."""
    assert repair_history([]) == []


def test_calls_that_differ_in_key_order_are_equal() -> None:
    """Arguments are compared by their value."""
    one = HistoryEntry.completed(FunctionCall("f", {"a": 1, "b": 2}), 1)
    other = HistoryEntry.completed(FunctionCall("f", {"b": 2, "a": 1}), 2)
    assert repair_history([one, other]) == [one]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TimeoutError("slow"), RetryClass.TRANSIENT),
        (RuntimeError("flake"), RetryClass.TRANSIENT),
        (PermissionError("no"), RetryClass.PERMANENT),
    ],
)
def test_a_failure_has_the_retry_class_of_the_classifier(
    error: Exception, expected: RetryClass
) -> None:
    """The class comes from the default classifier, the message from the error."""
    entry = HistoryEntry.failed(call(), error)
    assert (entry.retry_class, entry.message) == (expected, str(error))
    assert not entry.is_completed


def test_a_failure_from_the_log_is_classified_by_its_kind() -> None:
    """The entry has the text that operators read."""
    entry = HistoryEntry.failed(call(), Failure(ErrorKind.AUTH, "no", "not allowed"))
    assert (entry.retry_class, entry.message) == (RetryClass.PERMANENT, "no")


def test_an_error_whose_text_cannot_be_read_is_named_by_its_class() -> None:
    """The same rule holds in the log."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    entry = HistoryEntry.failed(call(), Mute())
    assert entry.retry_class is RetryClass.TRANSIENT
    assert str(entry.message).endswith("Mute")


def test_a_custom_classifier_decides() -> None:
    """Any object with a `classify` method is accepted."""

    class Never:
        def classify(self, error: BaseException | ErrorKind) -> RetryClass:
            return RetryClass.PERMANENT

    assert HistoryEntry.failed(call(), TimeoutError(), Never()).retry_class is RetryClass.PERMANENT


entries = st.lists(
    st.builds(
        lambda key, ok, text: done(text, key=key) if ok else failed(text, key=key),
        st.integers(0, 3),
        st.booleans(),
        st.text(max_size=3),
    ),
    max_size=12,
)


@given(entries)
def test_repair_history_is_total_deterministic_and_idempotent(history: list[HistoryEntry]) -> None:
    """There is one entry per call, completed if any attempt was; the input does not change."""
    before = copy.deepcopy(history)
    kept = repair_history(history)
    assert history == before
    assert repair_history(kept) == kept == repair_history(iter(history))
    assert [e.digest for e in kept] == list(dict.fromkeys(e.digest for e in history))
    for entry in kept:
        group = [e for e in history if e.digest == entry.digest]
        completed = [e for e in group if e.is_completed]
        assert entry == (completed[0] if completed else group[-1])


def test_a_call_without_a_fingerprint_equals_no_other_call() -> None:
    """NaN is not JSON: a call that cannot be compared stays."""
    entries = [done(1, q=float("nan")), done(2, q=float("nan")), done(3, q="a")]
    assert repair_history(entries) == entries
    with pytest.raises(UnhashableArguments):
        _ = entries[0].fingerprint


def test_an_entry_has_the_fingerprint_of_the_log() -> None:
    """The fingerprint is text, the same for the same call."""
    assert done(1, q="a").fingerprint == fingerprint("search", {"q": "a"})
