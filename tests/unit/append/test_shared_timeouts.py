"""A timeout is shared with the appends that were already waiting, and with no others."""

from __future__ import annotations

import pytest

from eventstore.append.shared_timeouts import SharedTimeouts
from eventstore.errors import StorageError, StoreBusy, StoreCorrupt, StoreFull


def test_a_timeout_applies_to_appends_queued_before_the_wait_began() -> None:
    """An append queued later has not waited that long, so it does not share the timeout."""
    timeouts = SharedTimeouts()
    assert timeouts.last_began < 0.0
    error = StorageError("gone")
    error.__cause__ = OSError("reset")
    timeouts.record(error, 3, 10.0, 40.0)
    assert timeouts.last_began == 10.0
    reported = timeouts.error(5, 10.0)
    assert (type(reported), str(reported)) == (StorageError, "gone")
    assert reported is not error
    assert reported is not None
    assert reported.__cause__ is error.__cause__
    assert timeouts.error(5, 10.1) is None


def test_a_lock_is_of_its_lane() -> None:
    """A timed-out lock says nothing of other lanes; an unreachable server concerns all of them."""
    timeouts = SharedTimeouts()
    timeouts.record(StorageError("gone"), 1, 5.0, 35.0)
    timeouts.record(StoreBusy("locked"), 3, 50.0, 80.0)
    assert isinstance(timeouts.error(3, 50.0), StoreBusy)
    assert timeouts.error(4, 50.0) is None
    assert timeouts.last_began == 50.0
    assert str(timeouts.error(4, 5.0)) == "gone"


@pytest.mark.parametrize(
    ("error", "ended"),
    [(StorageError("short"), 1.0), (StoreFull("full"), 40.0), (StoreCorrupt("damaged"), 40.0)],
)
def test_a_failure_that_was_not_a_wait_is_not_remembered(error: StorageError, ended: float) -> None:
    """The refusal of one append is not raised for another."""
    timeouts = SharedTimeouts()
    timeouts.record(error, 0, 0.0, ended)
    assert timeouts.last_began < 0.0
    assert timeouts.error(0, 0.0) is None
