"""The rows of events in PostgreSQL's binary form."""

from __future__ import annotations

import pytest

from eventstore.storage import Draft, binary

DRAFTS = [
    Draft(bytes([n]) * 16, n, "pending" if n % 2 else "message", 1, b'"%d"' % n,
          bytes([n]) * 16 if n % 2 else None, n % 2 == 1)
    for n in range(9)
]  # fmt: skip
BATCHES = [((1, 7), 0, 0, DRAFTS[:4]), ((2, 9), 40, 4, DRAFTS[4:])]


def test_no_rows_are_no_copy() -> None:
    """Nothing is begun that has nothing to say."""
    assert list(binary.copied_events([])) == []
    assert list(binary.copied_marks([((1, 7), 0, 0, [DRAFTS[0]])])) == []


@pytest.mark.parametrize("size", [1, 100, 200, 1000])
def test_what_is_sent_is_the_same_in_any_pieces(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the last row fills a piece."""
    whole = [list(binary.copied_events(BATCHES)), list(binary.copied_marks(BATCHES))]
    monkeypatch.setattr(binary, "PIECE", size)
    parts = [list(binary.copied_events(BATCHES)), list(binary.copied_marks(BATCHES))]
    assert [len(pieces) for pieces in whole] == [1, 1]
    assert size > 200 or len(parts[0]) > 4
    assert [b"".join(pieces) for pieces in parts] == [b"".join(pieces) for pieces in whole]


def test_marks_are_of_those_alone_that_begin() -> None:
    """With the version that each has in its conversation."""
    (sent,) = binary.copied_marks(BATCHES)
    rows = [draft for draft in DRAFTS if draft.begins]
    assert len(sent) == 19 + 2 + len(rows) * 50
    assert sent.endswith((8).to_bytes(4) + b"\xff\xff")
