"""A read keeps a few rows in memory, however long the log is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from support.storages import open_limited

from eventstore.domain.events import Recorded
from eventstore.storage.sql.storage import SqlStorage
from eventstore.testing import append, message

ROWS, MANY = 4, 20


@pytest.mark.parametrize(
    "read",
    [
        lambda storage: storage.conversation("chat"),
        lambda storage: storage.feed({}),
        lambda storage: storage.sealable_log.sealable_rows(0, 0, MANY),
    ],
    ids=["conversation", "feed", "rows to be sealed"],
)
def test_a_reader_has_no_more_rows_than_it_may_fetch_at_once(
    read: Callable[[SqlStorage], Iterator[Recorded]],
) -> None:
    """Rows that are gone after the first one was read are met only if they were fetched with it."""
    storage = open_limited("sqlite://", chunk_rows=ROWS)
    append(storage, "chat", *(message(str(number)) for number in range(MANY)))
    reading = read(storage)
    assert next(reading).version == 1
    with storage.connections.cursor() as cursor:
        cursor.execute("DELETE FROM toolledger_events")
    assert [recorded.version for recorded in reading] == [2, 3, 4]
    storage.close()
