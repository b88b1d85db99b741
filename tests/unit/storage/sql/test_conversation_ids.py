"""The ids of the conversations that a feed is of: looked up many at a time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventstore import EventStore
from eventstore.storage import reading

if TYPE_CHECKING:
    import pytest


def test_a_feed_looks_names_up_many_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each once, whoever's it is; another tenant's are passed over, on every read."""
    monkeypatch.setattr(reading, "NAMED", 4)
    url = f"sqlite:///{tmp_path}/log.db"
    with EventStore.open(url) as store, EventStore.open(url, tenant="other") as other:
        for n in range(20):
            (store if n % 3 else other).conversation(f"chat-{n}").add_message("user", "hello")
        storage: Any = store._storage
        asked: list[tuple[Any, ...]] = []
        rows = storage.rows

        def noted(statement: str, *given: Any) -> Any:
            if "conversation_id" in statement:
                asked.append(given)
            return rows(statement, *given)

        monkeypatch.setattr(storage, "rows", noted)
        ours = [f"chat-{n}" for n in range(20) if n % 3]
        for _ in range(2):
            assert [recorded.conversation_id for recorded in store.read()] == ours
    assert [len(keys) for _, *keys in asked] == [4] * 5
    assert len({key for _, *keys in asked for key in keys}) == 20
