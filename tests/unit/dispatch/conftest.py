"""The kind of dispatcher, and the conversation whose calls it runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.dispatchers import check_log

from eventstore import Conversation, EventStore


@pytest.fixture(params=["threads", "asyncio"])
def kind(request: pytest.FixtureRequest) -> str:
    """Return the kind of dispatcher."""
    return str(request.param)


@pytest.fixture
def chat(store: EventStore) -> Iterator[Conversation]:
    """Return a conversation with a message of the user."""
    chat = store.conversation("support-42")
    chat.add_message("user", "please")
    yield chat
    check_log(chat)
