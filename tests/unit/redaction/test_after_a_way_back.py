"""A redacted log whose schema was taken back, with the salts, is whole when it is upgraded."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventstore import EventStore
from eventstore.migrate import REVISIONS, move


@pytest.mark.parametrize("revision", ["0001", "0002", "0003"])
def test_a_redacted_log_is_whole_after_a_way_back(tmp_path: Path, revision: str) -> None:
    """Its markers prove nothing any more, and are told from altered ones all the same."""
    url = f"sqlite:///{tmp_path / 'agent.db'}"
    with EventStore.open(url) as store:
        chat = store.conversation("a")
        chat.add_message("user", "my number is 4711")
        chat.add_message("user", "ann@example.org asks for it")
        chat.request("pay", {"card": "4000", "sum": 7}, "c")
        chat.complete(chat.start("c").id, "paid")
        chat.fail(chat.start(chat.request("look", {"at": "x"}, "d").id).id, "no answer")
        store.redact("a", by="ann", versions=[1])
        store.redact("a", by="ann", text="ann@example.org")
        store.redact("a", by="ann", calls=["c"], paths=["arguments.card"])
        store.redact("a", by="ann", calls=["d"])
        shown = [each.event for each in chat.events()]
    assert move(url, revision)[1] == revision
    assert move(url) == (revision, REVISIONS[-1])
    with EventStore.open(url) as store:
        assert list(store.verify()) == []
        assert [each.event for each in store.conversation("a").events()] == shown
        store.conversation("a").add_message("user", "and so on")
        store.redact("a", by="ann", whole=True)
        assert list(store.verify()) == []
