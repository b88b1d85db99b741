"""Compactions that a caller appends: what cannot be one is refused, and nothing is stored."""

from __future__ import annotations

from typing import Any

import pytest

from eventstore import EventStore, HistoryCompacted, MessageAdded, Text

SUMMARY = MessageAdded("user", (Text("the password is hunter2"),))


@pytest.mark.parametrize(
    ("event", "error", "words"),
    [
        (HistoryCompacted(0, (SUMMARY,)), ValueError, "HistoryCompacted.until is 0"),
        (HistoryCompacted(1, (SUMMARY,), after=-1), ValueError, "HistoryCompacted.after is -1"),
        (HistoryCompacted(1, (SUMMARY,), after=1), ValueError, "pass an `until` that is greater"),
        (HistoryCompacted(9, (SUMMARY,)), ValueError, "until"),
        (HistoryCompacted(1, ("hunter2",)), TypeError, "has a str: pass a tuple of messages"),
        (HistoryCompacted(1, "hunter2"), TypeError, "has a str: pass a tuple of messages"),
        (HistoryCompacted(1, (MessageAdded("tool", ()),)), ValueError, "role 'tool'"),
        (HistoryCompacted(1, (MessageAdded("assistant", calls=1),)), ValueError, "with calls"),
    ],
)
def test_an_event_that_compacts_nothing_is_refused(
    store: EventStore, event: Any, error: type[Exception], words: str
) -> None:
    """The error names the value and the remedy, and none of the words of a message."""
    chat = store.conversation("a")
    chat.append(MessageAdded("user", (Text("go"),)))
    with pytest.raises(error, match=words) as refusal:
        chat.append(event)
    assert "hunter2" not in str(refusal.value)
    assert [recorded.version for recorded in chat.events()] == [1]
