"""The ids of events, and which of them are the library's own."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore.append.event_ids import event_ids, minted_at


@given(st.integers(0, 2**48 * 1000 - 1), st.integers(1, 3))
def test_an_id_tells_the_microsecond_at_which_it_was_made(at: int, count: int) -> None:
    """An id is a UUIDv7 whose fraction of a millisecond lies beside the version."""
    ids = event_ids(count, at)
    assert [minted_at(event_id) for event_id in ids] == [at] * count
    assert {UUID(bytes=event_id).version for event_id in ids} == {7}
    assert sorted(ids) == ids


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(4 << 76, id="version"),
        pytest.param(1 << 64, id="below a microsecond"),
        pytest.param(1000 << 66, id="a thousand microseconds"),
        pytest.param(1 << 61, id="more than the counter has"),
        pytest.param(1 << 62, id="variant"),
    ],
)
def test_an_id_of_another_maker_is_distinguished(changed: int) -> None:
    """Each bit that the library never sets is looked at."""
    (own,) = event_ids(1, 5_000_000)
    other = int.from_bytes(own) ^ changed
    assert minted_at(other.to_bytes(16)) is None
