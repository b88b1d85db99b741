"""The clock of a server, as a machine keeps it."""

from __future__ import annotations

import pytest

from eventstore.clock import MAX_AGE_SECONDS, DatabaseClock
from eventstore.errors import StorageError

SECOND = 1_000_000
AGE = round(MAX_AGE_SECONDS) * SECOND


@pytest.mark.parametrize(
    ("gained", "on_the_way", "fails", "error"),
    [
        (0, 0, False, 0),
        (7, 0, False, 7),
        (-7, 0, False, -7),
        (7, 10, False, 7),  # it is later by now than what the server read
        (-7, 10, False, 0),  # the answer may have been on its way for so long
        (-15, 10, False, -5),
        (7, 0, True, 0),
    ],
)
def test_the_time_goes_on_between_two_answers(
    gained: int, on_the_way: int, fails: bool, error: int
) -> None:
    """Only an answer that contradicts it sets it, and by the least; one that fails does not."""
    steady, there, asked = 100 * SECOND, 5000 * SECOND, 0

    def ask() -> int:
        nonlocal steady, there, asked
        asked += 1
        if asked > 1 and fails:
            raise StorageError("gone")
        steady, there = steady + way, there + way
        return there

    way = 0
    clock = DatabaseClock(ask, lambda: steady)
    assert clock() == 5000 * SECOND
    steady, there, way = steady + AGE, there + AGE + gained, on_the_way
    clock.keep()
    assert (clock() - 5000 * SECOND - AGE, asked) == (0, 1), "the answer is not old"
    steady, there = steady + 1, there + 1
    clock.keep()
    clock.keep()
    passed = 1 + (0 if fails else on_the_way)
    assert (clock() - 5000 * SECOND - AGE - passed, asked) == (error, 2)
