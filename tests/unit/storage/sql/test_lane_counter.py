"""The lane counter: it stands where the last event stands, whatever became of a claim."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from eventstore.domain.events import Recorded
from eventstore.storage.factory import open_storage
from eventstore.storage.interface import Append, Draft
from eventstore.testing import append, append_one, draft, message


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_a_rebase_that_changes_the_number_of_events_leaves_no_gap(
    tmp_path: Path, kept: int
) -> None:
    """Move the counter by what is stored, not by what was claimed before another writer came."""
    url = f"sqlite:///{tmp_path / 'log.db'}"
    first, second = (open_storage(url, "", "full", 30.0) for _ in range(2))
    append(first, "chat", message("a"))
    append(second, "chat", message("b"), version=1, rebase=lambda _: [draft(message("b"))])

    def decide_again(tail: Sequence[Recorded]) -> Sequence[Draft]:
        assert [recorded.version for recorded in tail] == [2]
        return [draft(message(f"c{n}")) for n in range(kept)]

    drafts = [draft(message("c")), draft(message("d"))]
    appended = append_one(first, Append("chat", 1, 1, drafts, decide_again))
    assert (appended.version, appended.position) == (2 + kept, 2 + kept)
    assert first.heads() == {0: 2 + kept}
    assert append(second, "other", message("e")).position == 3 + kept
    assert [recorded.position for recorded in first.feed({})] == list(range(1, 4 + kept))
    assert list(first.verify()) == []
    first.close()
    second.close()
