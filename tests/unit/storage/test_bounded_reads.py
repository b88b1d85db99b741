"""A read keeps a few rows in memory, however long the log is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from support.storages import open_limited

from eventstore.domain.events import Recorded
from eventstore.storage.interface import Storage
from eventstore.testing import append, message

ROWS, MANY = 4, 20


@pytest.mark.parametrize(
    "read",
    [lambda storage: storage.conversation("chat"), lambda storage: storage.feed({})],
    ids=["conversation", "feed"],
)
def test_rows_are_fetched_as_the_reader_goes_on(
    read: Callable[[Storage], Iterator[Recorded]],
) -> None:
    """An event that is appended after the first one was read is met at the end."""
    storage = open_limited("sqlite://", chunk_rows=ROWS)
    append(storage, "chat", *(message(str(number)) for number in range(MANY)))
    reading = read(storage)
    next(reading)
    append(storage, "chat", message("late"), version=MANY)
    assert [recorded.version for recorded in reading][-1] == MANY + 1
    storage.close()
