"""The model of the log keeps its rules in every order of actions, and misses no planted bug."""

from __future__ import annotations

import pytest
from support.log_model import Bug, Size, search

ONE_EACH = Size(groups=(((0, 0),), ((1, 0),)), lanes=1)
IN_ONE_LANE = Size(groups=(((0, 0),), ((1, 0), (2, 0))), lanes=1)
GROUPED = Size(groups=(((0, 0), (1, 1)), ((2, 0),)))
THREE = Size(groups=(((0, 0),), ((1, 0),), ((2, 1),)))
EVERY_SIZE = [ONE_EACH, IN_ONE_LANE, GROUPED, pytest.param(THREE, marks=pytest.mark.slow)]


@pytest.mark.parametrize("size", EVERY_SIZE)
def test_no_order_of_actions_breaks_a_rule(size: Size) -> None:
    """All states are visited: lost answers, failovers, killed projectors and a restore."""
    states, way, rule = search(size)
    assert (way, rule) == ([], None)
    assert states > 1000


@pytest.mark.parametrize(
    ("bug", "rule"),
    [
        (Bug.NO_LOCK, "positions have no gaps"),
        (Bug.WARNING, "what was acknowledged is stored"),
        (Bug.BLIND_RETRY, "an event is stored once"),
        (Bug.EARLY_CHECKPOINT, "each event is applied exactly once"),
        (Bug.NO_ANCHOR, "a reader sees each event of a lane, once and in order"),
    ],
)
def test_a_planted_bug_is_found(bug: Bug, rule: str) -> None:
    """The search ends at the rule that it breaks, and tells the way there."""
    _, way, broken = search(IN_ONE_LANE, bug)
    assert broken == rule
    assert 2 <= len(way) <= 8
