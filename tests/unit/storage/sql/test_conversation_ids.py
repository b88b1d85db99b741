"""The conversation ids of a feed are looked up many at a time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.storages import open_limited

from eventstore import EventStore

if TYPE_CHECKING:
    import pytest


def test_a_feed_looks_up_many_conversation_ids_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each id is read once; those of another tenant are skipped on every read."""
    url = f"sqlite:///{tmp_path}/log.db"
    limited = open_limited(url, ids_per_query=4)
    with EventStore(limited) as store, EventStore.open(url, tenant="other") as other:
        for n in range(20):
            (store if n % 3 else other).conversation(f"chat-{n}").add_message("user", "hello")
        storage: Any = store.session.storage
        asked: list[tuple[Any, ...]] = []
        rows = storage.connections.rows

        def noted(statement: str, *given: Any) -> Any:
            if "conversation_id" in statement:
                asked.append(given[5:])  # behind an event of the lane, and the lane
            return rows(statement, *given)

        monkeypatch.setattr(storage.connections, "rows", noted)
        ours = [f"chat-{n}" for n in range(20) if n % 3]
        for _ in range(2):
            assert [recorded.conversation_id for recorded in store.read()] == ours
    assert [len(keys) for keys in asked] == [4] * 5
    assert len({key for keys in asked for key in keys}) == 20
