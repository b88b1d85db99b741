"""What the conformance tests share. Each file is one system, each test a row of its tables.

A test is named for its row. Where the system's rule and ours differ, the test holds ours and
its docstring says so.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from eventstore import Conversation, EventStore


@pytest.fixture
def chat() -> Iterator[Conversation]:
    """An empty conversation."""
    with EventStore.open("sqlite://") as store:
        yield store.conversation("c")
