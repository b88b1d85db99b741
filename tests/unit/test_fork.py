"""Forks: a copy of a conversation up to a version, whose open calls never run."""

from __future__ import annotations

import asyncio
from itertools import groupby

import msgspec
import pytest

from eventstore import (
    AsyncEventStore,
    Conversation,
    ErrorKind,
    EventStore,
    Failure,
    RunStarted,
    ToolFailed,
    VersionConflict,
)
from eventstore.backup import restore_events, stored_events
from projections import current_tools, model_history, resume_plan


@pytest.fixture
def chat(store: EventStore) -> Conversation:
    """Return a conversation with a call in each open state."""
    chat = store.conversation("origin")
    chat.add_message("user", "Go.")
    for name in ("done", "waits", "allowed", "runs"):
        chat.request(name, {"n": 1}, call_id=name)
    chat.start("done")
    chat.complete("done", "fine")
    chat.approve("allowed")
    chat.start("runs")
    return chat


def test_events_are_copied_with_their_versions(chat: Conversation) -> None:
    """The events up to the fork are equal, and the origin is as it was."""
    before = list(chat.events())
    copy = chat.fork(at=7, to="copy")
    events = list(copy.events())
    assert [recorded.event for recorded in events[:7]] == [each.event for each in before[:7]]
    assert events[7].event == RunStarted(parent_conversation_id="origin", forked_at=7)
    assert list(chat.events()) == before
    assert copy.id == "copy"


def test_open_calls_never_run_in_the_copy(chat: Conversation) -> None:
    """A call that had not started is rejected, one that was under way has failed."""
    copy = chat.fork(at=chat.version, to="copy")
    tools = current_tools(copy.events())
    assert {name: tool.status.name for name, tool in tools.items()} == {
        "done": "Completed",
        "waits": "Rejected",
        "allowed": "Rejected",
        "runs": "Failed",
    }
    plan = resume_plan(copy.events())
    assert [step.action for step in plan.steps] == ["done"] * 4
    assert tools["runs"].status.failure.code == "forked"  # type: ignore[union-attr]
    reported = str(model_history(copy.events()).render("openai"))
    assert "not executed: the call belongs to" in reported
    assert "outcome is not known here" in reported


def test_an_announced_attempt_is_not_announced_in_the_copy(chat: Conversation) -> None:
    """The next attempt belongs to the origin."""
    failure = Failure(ErrorKind.TRANSIENT, "no answer")
    chat.append(ToolFailed("runs", failure, 1, delay=1_000_000))
    assert [step.action for step in resume_plan(chat.events()).safe] == ["start", "retry"]
    copy = chat.fork(at=chat.version, to="copy")
    assert resume_plan(copy.events()).safe == []


@pytest.mark.parametrize("at", [0, 99, -1])
def test_a_fork_at_no_version_is_refused(chat: Conversation, at: int) -> None:
    """Nothing is written."""
    with pytest.raises(ValueError, match="at is"):
        chat.fork(at=at, to="copy")


def test_a_conversation_that_exists_is_not_written_to(chat: Conversation) -> None:
    """The copy is a new conversation."""
    chat.fork(at=1, to="copy")
    with pytest.raises(VersionConflict):
        chat.fork(at=2, to="copy")


def test_a_copy_of_a_copy_names_its_own_origin(chat: Conversation) -> None:
    """The events of the first fork are copied like all others."""
    copy = chat.fork(at=3, to="copy")
    again = copy.fork(at=copy.version, to="again")
    origins = [
        recorded.event.parent_conversation_id
        for recorded in again.events()
        if isinstance(recorded.event, RunStarted)
    ]
    assert origins == ["origin", "copy"]


def test_all_of_a_fork_is_marked_but_what_names_its_origin(chat: Conversation) -> None:
    """Copied events are, and those that close calls; later ones are the copy's own."""
    copy = chat.fork(at=chat.version, to="copy")
    forked = copy.version
    copy.add_message("user", "And now?")
    assert [r.version for r in copy.events() if not r.is_copy] == [chat.version + 1, forked + 1]
    again = copy.fork(at=copy.version, to="again")
    assert [r.version for r in again.events() if not r.is_copy] == [copy.version + 1]
    assert not any(recorded.is_copy for recorded in chat.events())


def test_a_copy_stays_one_when_it_is_redacted_and_exported(
    store: EventStore, chat: Conversation
) -> None:
    """Its id stays with it; so it does in a fork of what was redacted."""
    copy = chat.fork(at=chat.version, to="copy")
    store.redact("copy", by="ann", versions=[2])
    again = copy.fork(at=4, to="again")
    for name in ("copy", "again"):
        events = list(store.conversation(name).events())
        assert events[1].redacted or name == "again"
        assert [r.is_copy for r in events[:4]] == [True] * 4
    stored = list(stored_events(store))
    with EventStore.open("sqlite://") as other:
        for _, group in groupby(stored, lambda each: each.recorded.conversation_id):
            restore_events(other, list(group))
        marks = [(r.conversation_id, r.version, r.is_copy) for r in other.read()]
        assert marks == [(r.conversation_id, r.version, r.is_copy) for r in store.read()]
    assert {r.is_copy for r in again.events()} == {True, False}
    assert list(store.verify()) == []


def test_asyncio_has_the_same_fork(chat: Conversation) -> None:
    """The prompt of the copy is the same, byte for byte."""
    expected = model_history(chat.fork(at=7, to="copy").events()).render("openai")

    async def forked() -> dict[str, object]:
        async with AsyncEventStore.open("sqlite://") as store:
            origin = store.conversation("origin")
            await origin.append(*(recorded.event for recorded in chat.events()))
            copy = await origin.fork(at=7, to="copy")
            return model_history([each async for each in copy.events()]).render("openai")

    assert msgspec.json.encode(asyncio.run(forked())) == msgspec.json.encode(expected)
