"""The model of the log keeps its rules in every order of actions, and misses no planted bug."""

from __future__ import annotations

import pytest
from support.log_model import Bug, Follower, Size, search
from support.tiers import also_long

ONE_EACH = Size(groups=(((0, 0),), ((1, 0),)), lanes=1)
IN_ONE_LANE = Size(groups=(((0, 0),), ((1, 0), (2, 0))), lanes=1)
GROUPED = Size(groups=(((0, 0), (1, 1)), ((2, 0),)))
THREE = Size(groups=(((0, 0),), ((1, 0),), ((2, 1),)))
REPEATED = Size(groups=(((0, 0),), ((1, 0),), ((2, 0),)), lanes=1)
EVERY_SIZE = [
    ONE_EACH,
    IN_ONE_LANE,
    GROUPED,
    pytest.param(REPEATED, marks=pytest.mark.slow),
    *also_long([], [THREE]),
]


@pytest.mark.parametrize("follower", Follower)
@pytest.mark.parametrize("size", EVERY_SIZE)
def test_no_order_of_actions_breaks_a_rule(size: Size, follower: Follower) -> None:
    """All states are visited: lost answers, failovers, killed projectors and a restore."""
    states, way, rule = search(size, follower)
    assert (way, rule) == ([], None)
    assert states > 800


@pytest.mark.parametrize(
    ("bug", "follower", "longest", "rule"),
    [
        (Bug.NO_LOCK, Follower.READER, 8, "positions have no gaps"),
        (Bug.WARNING, Follower.READER, 8, "what was acknowledged is stored"),
        (Bug.BLIND_RETRY, Follower.READER, 8, "an event is stored once"),
        (Bug.EARLY_CHECKPOINT, Follower.PROJECTOR, 8, "each event is applied exactly once"),
        (
            Bug.NO_ANCHOR,
            Follower.READER,
            8,
            "a reader sees each event of a lane, once and in order",
        ),
        (Bug.PASSED_OVER, Follower.PROJECTOR, 10, "each event is applied exactly once"),
        (Bug.NOT_ACCEPTED, Follower.READER, 8, "nobody writes over a loss that is not accepted"),
    ],
)
def test_a_planted_bug_is_found(bug: Bug, follower: Follower, longest: int, rule: str) -> None:
    """The search ends at the rule that it breaks, and tells the way there."""
    _, way, broken = search(IN_ONE_LANE, follower, bug)
    assert broken == rule
    assert 2 <= len(way) <= longest


@pytest.mark.slow
@pytest.mark.parametrize("follower", Follower)
def test_an_anchor_without_a_time_is_found(follower: Follower) -> None:
    """An event that is repeated with its id, at its old position, hides a loss before it."""
    _, way, broken = search(REPEATED, follower, Bug.ID_ALONE)
    assert broken is not None
    assert "the copy is restored" in way
