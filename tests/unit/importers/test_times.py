"""Times of sources: text and numbers become microseconds since 1970 UTC, all else is not a time."""

from __future__ import annotations

import pytest

from eventstore.importers.reading.times import duration_of, time_of

AT = 1_735_787_045_000_000


@pytest.mark.parametrize(
    ("value", "microseconds"),
    [
        ("2025-01-02T03:04:05Z", AT),
        ("2025-01-02T03:04:05", AT),
        ("2025-01-02T04:04:05.000001999+01:00", AT + 1),
        ("2025-01-02 03:04:05.25", AT + 250_000),
        (AT // 1_000_000, AT),
        (AT / 1_000_000 + 0.5, AT + 500_000),
        (AT // 1000, AT),
        (AT, AT),
        (AT * 1000 + 999, AT),
        (str(AT * 1000), AT),
        ("<redacted>", None),
        ("1969-01-01T00:00:00Z", None),
        ("", None),
        (True, None),
        (0, None),
        (-5, None),
        (10**20, None),
        (float("nan"), None),
        (None, None),
        ([], None),
    ],
)
def test_a_time_is_read_by_its_form_and_its_size(value: object, microseconds: int | None) -> None:
    """A text without a zone is UTC, a number's size tells its unit."""
    assert time_of(value) == microseconds


@pytest.mark.parametrize(
    ("seconds", "microseconds"),
    [(1.5, 1_500_000), (0, 0), (-1, None), (True, None), ("1", None), (float("inf"), None)],
)
def test_a_duration_is_a_number_of_seconds(seconds: object, microseconds: int | None) -> None:
    """Anything else is not a duration."""
    assert duration_of(seconds) == microseconds
