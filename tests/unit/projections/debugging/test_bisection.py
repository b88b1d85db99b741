"""Bisection: what a search from the start finds, in a few steps."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.played_logs import STEPS, Step, played
from support.tiers import examples

from projections import bisect, model_history


@settings(max_examples=examples(30))
@given(steps=STEPS, kind=st.sampled_from(["failed", "completed", "rejected"]))
def test_bisect_finds_what_a_search_from_the_start_finds(steps: list[Step], kind: str) -> None:
    """The predicate holds from some event on."""
    events = played(steps)

    def holds(prefix: Any) -> bool:
        return any(recorded.event.tag == kind for recorded in prefix)

    first = next((each.version for each in events if holds(events[: each.version])), None)
    assert bisect(events, holds) == first


@settings(max_examples=examples(30))
@given(steps=STEPS, messages=st.integers(1, 12))
def test_bisect_over_prompts(steps: list[Step], messages: int) -> None:
    """The number of turns only grows."""
    events = played(steps)

    def holds(prefix: Any) -> bool:
        return len(model_history(prefix, collapse="none").turns) >= messages

    found = bisect(events, holds)
    assert (found is not None) is holds(events)
    if found is not None:
        assert holds(events[:found])
        assert not holds(events[: found - 1])


def test_bisect_at_the_ends() -> None:
    """A predicate that always holds does so before the first event; one that never holds, never."""
    events = played([("user", 1)])
    assert bisect(events, lambda prefix: True) == 0
    assert bisect(events, lambda prefix: False) is None
    assert bisect([], lambda prefix: False) is None
