"""Kept folds: a handle's fold goes on with new events, and begins anew where the log is another."""

from __future__ import annotations

import gc
import sqlite3
import weakref
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.losses import put_back

from eventstore import Conversation, EventStore, MessageAdded, Recorded
from projections.kept_folds import KeptFolds
from projections.projection import Projection


class Texts(Projection):
    """What was said: the version of each message, and how many folds there were before."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def apply(self, recorded: Recorded) -> None:
        """Take in one event."""
        self.said.append(f"{recorded.version} {recorded.event_id}")


class WatchedConversation(Conversation):
    """A handle that remembers from where it was read, and may break off."""

    def __init__(self, chat: Conversation) -> None:
        super().__init__(chat.session, chat.id)
        self.reads: list[int] = []
        self.breaks_after: int | None = None

    def events(self, after: int = 0) -> Iterator[Recorded]:
        """Yield the events after a version, or some of them and an error."""
        self.reads.append(after)
        for recorded in super().events(after):
            yield recorded
            if recorded.version == self.breaks_after:
                raise ConnectionError("the server is gone")


def said(chat: Conversation) -> list[str]:
    """Return what is in the log."""
    return Texts().extend(chat.events()).said


def ask(folds: KeptFolds[Texts], chat: Conversation) -> list[str]:
    """Return what the handle's fold has, as a copy."""
    return folds.ask(chat, lambda fold: list(fold.said))


@pytest.fixture
def folds() -> KeptFolds[Texts]:
    """Return folds that no handle has yet."""
    return KeptFolds(Texts)


@pytest.fixture
def watched(chat: Conversation) -> WatchedConversation:
    """Return a handle on a conversation with three messages."""
    chat.append(*(MessageAdded("user") for _ in range(3)))
    return WatchedConversation(chat)


def test_the_second_question_reads_from_the_last_event_on(
    folds: KeptFolds[Texts], watched: WatchedConversation, chat: Conversation
) -> None:
    """The last event is read again, to compare it; what another handle appended is taken in."""
    assert ask(folds, watched) == said(chat)
    chat.append(MessageAdded("user"))
    assert ask(folds, watched) == said(chat)
    assert ask(folds, watched) == said(chat)
    assert watched.reads == [0, 2, 3]


def test_each_handle_has_a_fold_of_its_own_which_goes_with_the_handle(
    folds: KeptFolds[Texts], store: EventStore
) -> None:
    """A second handle reads all for itself; when the first one is collected, so is its fold."""
    handles = [store.conversation("c"), store.conversation("c")]
    handles[0].append(MessageAdded("user"))
    first, second = (folds.ask(handles[place], weakref.ref) for place in range(2))
    assert first() is not None is not second() is not first()
    del handles[0]
    gc.collect()
    assert (first(), len(handles)) == (None, 1)
    assert second() is not None


def test_an_empty_conversation_is_read_again(folds: KeptFolds[Texts], chat: Conversation) -> None:
    """There is no event yet to go on from."""
    assert ask(folds, chat) == []
    chat.append(MessageAdded("user"))
    assert ask(folds, chat) == said(chat) != []


@pytest.mark.parametrize("kept", [0, 1, 2])
@pytest.mark.parametrize("appended", [0, 1, 2, 3])
def test_a_log_that_was_put_back_is_folded_anew(
    folds: KeptFolds[Texts], tmp_path: Path, kept: int, appended: int
) -> None:
    """The last event is gone, or another one stands in its place: its id is another."""
    path = tmp_path / "agent.db"
    with EventStore.open(f"sqlite:///{path}") as store:
        chat = store.conversation("c")
        chat.append(*(MessageAdded("user") for _ in range(3)))
        assert len(ask(folds, chat)) == 3
        put_back(path, kept)
        with EventStore.open(f"sqlite:///{path}") as other:
            other.accept_loss()
            other.conversation("c").append(*(MessageAdded("user") for _ in range(appended)))
        assert ask(folds, chat) == said(chat)


def test_an_event_that_has_the_id_of_the_one_before_the_loss_is_not_taken_for_it(
    folds: KeptFolds[Texts], tmp_path: Path
) -> None:
    """An append is repeated with its id after the loss, and what is before it is not the same."""
    path, event_id = tmp_path / "agent.db", "7" * 32
    with EventStore.open(f"sqlite:///{path}") as store:
        chat = store.conversation("c")
        chat.append(MessageAdded("user"))
        chat.append(MessageAdded("user"))
        chat.append(MessageAdded("user"), event_ids=[event_id])
        before = ask(folds, chat)
        put_back(path, 1)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("DELETE FROM toolledger_event_ids")
        with EventStore.open(f"sqlite:///{path}") as other:
            other.accept_loss()
            other.conversation("c").append(MessageAdded("user"))
            other.conversation("c").append(MessageAdded("user"), event_ids=[event_id])
        after = said(chat)
        assert after[-1] == before[-1]
        assert ask(folds, chat) == after != before


def test_a_second_question_meanwhile_folds_anew(
    folds: KeptFolds[Texts], watched: WatchedConversation, chat: Conversation
) -> None:
    """No two ask one fold at a time, and neither waits for the other."""

    def ask_meanwhile(fold: Texts) -> tuple[list[str], list[str]]:
        chat.append(MessageAdded("user"))
        return list(fold.said), ask(folds, watched)

    first, second = folds.ask(watched, ask_meanwhile)
    assert second == said(chat) == [*first, second[-1]]
    assert watched.reads == [0, 0]
    assert ask(folds, watched) == said(chat)


def test_a_read_that_broke_off_leaves_no_half_of_it(
    folds: KeptFolds[Texts], watched: WatchedConversation, chat: Conversation
) -> None:
    """The error is raised, and the next question reads all."""
    ask(folds, watched)
    chat.append(MessageAdded("user"), MessageAdded("user"))
    watched.breaks_after = 4
    with pytest.raises(ConnectionError):
        ask(folds, watched)
    watched.breaks_after = None
    assert ask(folds, watched) == said(chat)
    assert watched.reads == [0, 2, 0]


def test_a_question_that_is_refused_keeps_the_fold(
    folds: KeptFolds[Texts], watched: WatchedConversation
) -> None:
    """The fold is whole: only its answer was an error."""
    with pytest.raises(ZeroDivisionError):
        folds.ask(watched, lambda fold: len(fold.said) // 0)
    assert len(ask(folds, watched)) == 3
    assert watched.reads == [0, 2]
