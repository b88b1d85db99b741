"""The rows of events in PostgreSQL's binary form."""

from __future__ import annotations

import pytest

from eventstore.storage.interface import Draft
from eventstore.storage.postgresql import binary_rows as binary
from eventstore.storage.sql.rows import Batch

DRAFTS = [
    Draft(
        bytes([n]) * 16,
        n,
        "pending" if n % 2 else "message",
        1,
        b'"%d"' % n,
        bytes([n]) * 16 if n % 2 else None,
        n % 2 == 1,
    )
    for n in range(9)
]
DIGESTS = [bytes([n]) * 16 for n in range(9)]
BATCHES = [
    Batch((1, 7), 0, 0, DRAFTS[:4], DIGESTS[:4]),
    Batch((2, 9), 40, 4, DRAFTS[4:], DIGESTS[4:]),
]


def test_no_rows_give_no_copy() -> None:
    """Nothing is sent, not even a header."""
    assert list(binary.copied_events([])) == []
    assert list(binary.copied_marks([Batch((1, 7), 0, 0, [DRAFTS[0]], DIGESTS[:1])])) == []


@pytest.mark.parametrize("size", [1, 100, 200, 1000])
def test_the_bytes_of_copy_do_not_depend_on_the_size_of_pieces(
    size: int,
) -> None:
    """This holds where the last row fills a piece, too."""
    whole = [list(binary.copied_events(BATCHES)), list(binary.copied_marks(BATCHES))]
    parts = [
        list(binary.copied_events(BATCHES, size)),
        list(binary.copied_marks(BATCHES, size)),
    ]
    assert [len(pieces) for pieces in whole] == [1, 1]
    assert size > 200 or len(parts[0]) > 4
    assert [b"".join(pieces) for pieces in parts] == [b"".join(pieces) for pieces in whole]


def test_only_events_that_begin_a_fingerprint_are_indexed() -> None:
    """Each row has the version of its event in the conversation."""
    (sent,) = binary.copied_marks(BATCHES)
    rows = [draft for draft in DRAFTS if draft.begins]
    assert len(sent) == 19 + 2 + len(rows) * 50
    assert sent.endswith((8).to_bytes(4) + b"\xff\xff")
