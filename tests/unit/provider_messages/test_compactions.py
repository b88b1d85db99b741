"""Compactions in a history that is imported: numbers of messages become versions of the log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from eventstore import Conversation, FunctionCall, HistoryCompacted, MessageAdded, RunStarted, Text
from eventstore.errors import ImportConflict
from eventstore.provider_messages.batches import ImportSizes
from eventstore.provider_messages.history_import import Import, Imported, ImportSource
from eventstore.providers.model import (
    CopiedMessage,
    ParsedCall,
    ParsedCompaction,
    ParsedMessage,
    ParsedResult,
)
from projections import model_history

SUMMARY = ParsedMessage("user", (Text("SUMMARY"),), well_formed=True)
LATER = ParsedMessage("user", (Text("LATER"),), well_formed=True)


def said(number: int, role: str = "user") -> ParsedMessage:
    """Return a message of text."""
    return ParsedMessage(role, (Text(f"{role} {number}"),), well_formed=True)


CALL = ParsedMessage("assistant", (), (ParsedCall("a", FunctionCall("ls", {})),), well_formed=True)
HISTORY: list[Any] = [
    said(0),
    CALL,
    ParsedResult("a", "ls", "a file", well_formed=True),
    said(3, "assistant"),
    said(4),
    ParsedCompaction((SUMMARY,), 0, 4, trigger="auto", tokens_before=9000),
    said(6, "assistant"),
    said(7),
    ParsedCompaction((LATER,), 1, hides_system=True),
    said(9),
]


def imported(
    chat: Conversation, messages: Iterable[Any], started: RunStarted | None = None, **sizes: int
) -> Imported:
    """Import messages in batches of any size."""
    source = ImportSource(started=started)
    return Import(chat.session, chat.id, "openai", source, ImportSizes(**sizes)).run(messages)


def compactions(chat: Conversation) -> list[HistoryCompacted]:
    """Return those of the log."""
    return [r.event for r in chat.events() if isinstance(r.event, HistoryCompacted)]


def text(chat: Conversation) -> str:
    """Return all that the model is shown."""
    return " ".join(
        part.text
        for turn in model_history(chat).turns
        for part in turn.parts
        if isinstance(part, Text)
    )


def test_the_range_is_that_of_the_messages(chat: Conversation) -> None:
    """Events of the first messages: one, two with the call, its result, and two more."""
    done = imported(chat, HISTORY)
    assert (done.added, done.events) == (10, 11)
    first, second = (MessageAdded("user", (Text(each),)) for each in ("SUMMARY", "LATER"))
    assert compactions(chat) == [
        HistoryCompacted(5, (first,), trigger="auto", tokens_before=9000),
        HistoryCompacted(9, (second,), 1, hides_system=True),
    ]
    assert text(chat) == "SUMMARY LATER user 9"


@pytest.mark.parametrize("batch", [1, 2, 3, 100])
@pytest.mark.parametrize("cut", range(len(HISTORY) + 1))
def test_an_import_that_is_continued_gives_the_same_log(
    chat: Conversation, cut: int, batch: int
) -> None:
    """Wherever the file ended before, in whatever batches; with a run at its beginning."""
    started = RunStarted(None, "parent")
    sizes = {"batch_messages": batch, "max_batch_messages": batch}
    first = imported(chat, HISTORY[:cut], started, **sizes)
    second = imported(chat, HISTORY, started, **sizes)
    assert (first.added, second.skipped, second.added) == (cut, cut, 10 - cut)
    assert [(each.after, each.until) for each in compactions(chat)] == [(0, 6), (2, 10)]
    assert imported(chat, HISTORY, started, **sizes).added == 0
    assert chat.version == 12


def test_events_recorded_in_between_move_the_versions(chat: Conversation) -> None:
    """A decision of a person is an event of the log, and no message of the history."""
    imported(chat, HISTORY[:2])
    chat.start("a", 1)
    imported(chat, HISTORY)
    assert [(each.after, each.until) for each in compactions(chat)] == [(0, 6), (1, 10)]


@pytest.mark.parametrize("cut", [2, 5, 6, 9])
def test_copies_are_known_by_their_own_ids(chat: Conversation, cut: int) -> None:
    """A history that begins with messages of another conversation, and a boundary in them."""
    copied = [*map(CopiedMessage, HISTORY[:6]), *HISTORY[6:]]
    imported(chat, copied[:cut])
    imported(chat, copied)
    assert [(each.after, each.until) for each in compactions(chat)] == [(0, 5), (1, 9)]
    assert [r.version for r in chat.events() if r.is_copy] == [1, 2, 3, 4, 5, 6, 7]


def test_another_compaction_is_another_history(chat: Conversation) -> None:
    """Its digest covers what stands in the place of the past, and what that is."""
    imported(chat, HISTORY)
    for other in (ParsedCompaction((SUMMARY,), 2), ParsedCompaction((said(1),), 1)):
        with pytest.raises(ImportConflict):
            imported(chat, [*HISTORY[:8], other, HISTORY[9], said(10)])


def test_with_nothing_before_it_the_messages_are_the_beginning(chat: Conversation) -> None:
    """A session file that continues another one begins with its summary."""
    imported(chat, [ParsedCompaction((SUMMARY,)), said(1)])
    assert compactions(chat) == []
    assert text(chat) == "SUMMARY user 1"


def test_half_of_a_surrogate_pair_is_written_out(chat: Conversation) -> None:
    """As in any other message."""
    broken = ParsedMessage("user", (Text("cut \ud83d"),), well_formed=True)
    imported(chat, [said(0), ParsedCompaction((broken,))])
    assert text(chat) == "cut \\ud83d"
