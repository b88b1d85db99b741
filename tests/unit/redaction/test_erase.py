"""Erasure: whom events are about is found without a clear name, and forgotten in every copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventstore import (
    AsyncEventStore,
    Conversation,
    Dispatcher,
    EventStore,
    FunctionTool,
    SubjectSecret,
    WrongKey,
)
from eventstore.domain.redaction import REDACTED

SECRET = SubjectSecret(bytes(range(32)))
ANN = "customer-17 Ann"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return the URL of a log that is not there yet."""
    return f"sqlite:///{tmp_path / 'agent.db'}"


def texts(chat: Conversation) -> str:
    """Return all that is read of a conversation, as one text."""
    return str([recorded.event for recorded in chat.events()])


def test_what_is_appended_about_somebody_is_erased_and_nothing_else(
    url: str, tmp_path: Path
) -> None:
    """Messages, calls and their results are found by the tag; what others said stays."""
    with EventStore.open(url, subjects=SECRET) as store:
        chat = store.conversation("chat")
        chat.add_message("system", "Be kind.")
        about = chat.about(ANN)
        about.add_message("user", "I am Ann.")
        note = about.request("find", {"name": "Ann"})
        chat.start(note.id)
        chat.complete(note.id, "Ann lives in Graz")  # by a worker without a tag
        chat.add_message("assistant", "Bye.")
        store.conversation("other", subjects=["customer-18"]).add_message("user", "I am Bob.")

        planned = store.erase_subject(ANN, by="mia", dry_run=True)
        assert planned.conversations[0].versions == (2, 3, 4, 5)
        assert "Ann" in texts(chat)
        done = store.erase_subject(ANN, by="mia", reason="asked for it")

        (erased,) = done.conversations
        assert (erased.conversation_id, erased.versions) == ("chat", (2, 3, 4, 5))
        assert done.is_complete
        assert "Ann" not in texts(chat)
        assert "Be kind." in texts(chat)
        assert "Bye." in texts(chat)
        assert "Bob" in texts(store.conversation("other"))
        assert list(store.verify()) == []
        assert store.erase_subject(ANN, by="mia").conversations == ()  # the tags are gone
    held = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"Ann" not in held
    assert b"customer" not in held
