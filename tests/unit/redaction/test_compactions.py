"""What was redacted stands in no compaction either: its messages are texts as others are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from eventstore import Conversation, EventStore, HistoryCompacted, MessageAdded, Redact, Text
from projections import model_history

if TYPE_CHECKING:
    from pathlib import Path

CARD = "4711-0815"


def compacted(store: EventStore) -> Conversation:
    """Return a conversation whose summary names a card."""
    chat = store.conversation("chat")
    chat.add_message("user", f"My card is {CARD}.")
    native = {"role": "user", "content": f"The card is {CARD}."}
    said = MessageAdded("user", (Text(f"The card is {CARD}."),), provider="openai", native=native)
    chat.append(HistoryCompacted(until=1, messages=(said,), trigger="auto", tokens_before=9))
    return chat


def test_a_text_goes_and_the_boundary_stays(store: EventStore) -> None:
    """The text goes from the form that a provider wrote, too."""
    chat = compacted(store)
    assert store.redact("chat", by="ann", text=CARD).versions == (1, 2)
    event = [recorded.event for recorded in chat.events()][1]
    assert isinstance(event, HistoryCompacted)
    assert (event.until, event.trigger, event.tokens_before) == (1, "auto", 9)
    assert CARD not in str(event)
    assert "The card is [redacted]." in str(model_history(chat).render("openai"))
    assert list(store.verify()) == []


def test_the_range_of_a_redacted_compaction_stays(store: EventStore) -> None:
    """The model goes on from a summary that is gone, and does not see the past again."""
    chat = compacted(store)
    store.redact("chat", by="ann", versions=[2])
    event = [recorded.event for recorded in chat.events()][1]
    assert isinstance(event, HistoryCompacted)
    assert (event.after, event.until, event.trigger) == (0, 1, None)
    assert CARD not in str(model_history(chat).render("openai"))
    assert "[redacted]" in str(model_history(chat).render("openai"))
    assert list(store.verify()) == []


def test_a_rule_of_the_store_covers_it_before_it_is_stored(tmp_path: Path) -> None:
    """The summary holds what the rule has taken out of the messages."""
    rule = Redact("cards", re.compile(CARD))
    with EventStore.open(f"sqlite:///{tmp_path / 'x.db'}", redact=[rule]) as store:
        chat = compacted(store)
        assert CARD not in str([recorded.event for recorded in chat.events()])
