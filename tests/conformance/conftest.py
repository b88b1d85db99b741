"""Fixtures of the conformance tests. Each file is one system, each test a row of its tables.

`test_limits_and_errors.py` and `test_pauses_edits_and_skips.py` hold rows of several systems.

A test is named after its row. Where the system's rule and ours differ, the test holds ours and
its docstring says so: "there" is the system, "here" is this library.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from eventstore import Conversation, EventStore


@pytest.fixture
def store() -> Iterator[EventStore]:
    """Return a store in memory."""
    with EventStore.open("sqlite://") as store:
        yield store


@pytest.fixture
def chat(store: EventStore) -> Conversation:
    """Return an empty conversation."""
    return store.conversation("c")
