"""Events that were seen, and are not in their place any more."""

from __future__ import annotations

import pytest

from eventstore.storage.sql.seen_anchors import first_missing

SEEN = {0: (3, bytearray(b"\xaa"), 10), 2: (7, bytearray(b"\xbb"), 20)}
THERE = {0: "aa@10", 2: "bb@20"}


def test_events_in_their_places_are_not_missed() -> None:
    """Other lanes do not count, nor do lanes of which nothing was seen."""
    assert first_missing(SEEN, {**THERE, 5: "cc@30"}) is None
    assert first_missing({}, {}) is None


@pytest.mark.parametrize(
    ("there", "text"),
    [
        ({2: "bb@20"}, "position 3 of lane 0 had event aa, and has none"),
        ({**THERE, 2: "cc@20"}, "position 7 of lane 2 had event bb, and has cc"),
        ({**THERE, 0: "aa@11"}, "had event aa, and has the same, recorded at another time"),
    ],
    ids=["shorter", "another event", "repeated later"],
)
def test_the_first_missing_event_is_named(there: dict[int, str], text: str) -> None:
    """With its place, and with what is there now."""
    missing = first_missing(SEEN, there)
    assert text in str(missing)
