"""How long something is kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from eventstore.retention.age import cutoff

NOW = datetime(2026, 8, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("keep", "before"),
    [
        ("90 days", datetime(2026, 6, 2, 12, tzinfo=UTC)),
        ("26w", datetime(2026, 3, 2, 12, tzinfo=UTC)),
        ("6 months", datetime(2026, 2, 28, 12, tzinfo=UTC)),
        ("2 years", datetime(2024, 8, 31, 12, tzinfo=UTC)),
        ("20mo", datetime(2024, 12, 31, 12, tzinfo=UTC)),
        (timedelta(hours=1), datetime(2026, 8, 31, 11, tzinfo=UTC)),
    ],
)
def test_a_limit_is_so_long_before_now(keep: str | timedelta, before: datetime) -> None:
    """Months go by the calendar."""
    found = cutoff(keep, int(NOW.timestamp()) * 1_000_000)
    assert datetime.fromtimestamp(found / 1_000_000, UTC) == before


@pytest.mark.parametrize(
    "keep", ["", "6", "months", "-1 days", "0 days", timedelta(0), timedelta(-1), "9999 years", 5]
)
def test_a_value_that_is_no_time_is_refused_by_its_name(keep: str | timedelta) -> None:
    """The error names the value."""
    with pytest.raises(ValueError, match="keep is ") as raised:
        cutoff(keep, int(NOW.timestamp()) * 1_000_000)
    assert repr(keep) in str(raised.value)
