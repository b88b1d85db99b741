"""What is remembered of a wait in vain, and whom it concerns."""

from __future__ import annotations

import pytest

from eventstore.errors import StorageError, StoreBusy, StoreCorrupt, StoreFull
from eventstore.in_vain import InVain


def test_it_concerns_who_had_asked_before_the_wait_began() -> None:
    """Whoever came later has not waited for so long."""
    in_vain = InVain()
    assert not in_vain.concerns(0.0)
    error = StorageError("gone")
    error.__cause__ = OSError("reset")
    in_vain.note(error, 3, 10.0, 40.0)
    assert (in_vain.concerns(10.0), in_vain.concerns(10.1)) == (True, False)
    told = in_vain.error(5, 10.0)
    assert (type(told), str(told)) == (StorageError, "gone")
    assert told is not error
    assert told is not None
    assert told.__cause__ is error.__cause__
    assert in_vain.error(5, 10.1) is None


def test_a_lock_is_of_its_lane() -> None:
    """Others may have got through; and what is known of the server stays."""
    in_vain = InVain()
    in_vain.note(StorageError("gone"), 1, 5.0, 35.0)
    in_vain.note(StoreBusy("locked"), 3, 50.0, 80.0)
    assert isinstance(in_vain.error(3, 50.0), StoreBusy)
    assert in_vain.error(4, 50.0) is None
    assert in_vain.concerns(50.0)
    assert str(in_vain.error(4, 5.0)) == "gone"


@pytest.mark.parametrize(
    ("error", "ended"),
    [(StorageError("short"), 1.0), (StoreFull("full"), 40.0), (StoreCorrupt("damaged"), 40.0)],
)
def test_what_was_no_wait_is_not_remembered(error: StorageError, ended: float) -> None:
    """A refusal is of the append that it was given to."""
    in_vain = InVain()
    in_vain.note(error, 0, 0.0, ended)
    assert not in_vain.concerns(0.0)
    assert in_vain.error(0, 0.0) is None
