"""An event that was altered, and can still be read, is not copied as a sound one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from eventstore import EventStore, StoreCorrupt
from eventstore.backup import stored_events


@pytest.mark.parametrize("one", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        "payload = replace(payload, 'mine', 'thine')",
        "recorded_at = recorded_at + 1",
        "tag = 'rejected', payload = '{\"call_id\":\"c\"}'",
    ],
)
def test_an_altered_event_is_not_exported(tmp_path: Path, change: str, *, one: bool) -> None:
    """The error names its version and conversation, and comes before the first event."""
    path = tmp_path / "log.db"
    with EventStore.open(f"sqlite:///{path}") as store:
        chat = store.conversation("chat")
        for text in ("first", "mine", "last"):
            chat.add_message("user", text)
        assert len(list(stored_events(store))) == 3
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE toolledger_events SET " + change + " WHERE version = 2")  # noqa: S608 - our own
    with EventStore.open(f"sqlite:///{path}") as store:
        events = stored_events(store, "chat" if one else None)
        with pytest.raises(StoreCorrupt, match=r"version 2 of conversation 'chat'.*verify"):
            next(events)
