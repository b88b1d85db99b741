"""A lost COMMIT: nothing is looked up before it has taken place, or never will."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from eventstore.errors import StoreCorrupt, VersionConflict
from eventstore.storage.factory import open_storage
from eventstore.storage.interface import Append, Appended
from eventstore.storage.sql.storage import SqlStorage
from eventstore.testing import append, append_one, draft, forbid_rebase, message


@pytest.fixture
def storage() -> Iterator[SqlStorage]:
    """Return a storage in memory."""
    storage = open_storage("sqlite://", "", "full", 30.0)
    assert isinstance(storage, SqlStorage)
    yield storage
    storage.close()


def test_a_lookup_waits_until_an_unanswered_commit_has_ended(storage: SqlStorage) -> None:
    """Its lanes are locked first: whoever holds them has committed, or never will."""
    append(storage, "chat", message("a"))
    first = next(storage.conversation("chat"))
    lookups: list[Callable[[], object]] = [
        lambda: storage.event_id_at("chat", 1) == bytes.fromhex(first.event_id),
        lambda: storage.known_ids("chat", [b"?" * 16]) == {},
    ]
    for lookup in lookups:
        storage.unanswered.lanes.add(0)
        assert lookup()
        assert not storage.unanswered.lanes


def test_an_unresolvable_commit_is_reported_with_the_database(storage: SqlStorage) -> None:
    """The COMMIT was not answered, and the lane has been deleted by then."""
    storage.unanswered.lanes = {5}
    with pytest.raises(StoreCorrupt, match="memory: lane 5 has no counter"):
        storage.known_ids("chat", [bytes(16)])
    storage.unanswered.lanes = set()
    assert storage.known_ids("chat", [bytes(16)]) == {}


def test_everything_must_be_stored_that_was_to_be(storage: SqlStorage) -> None:
    """A request that was refused stores nothing, nor does one without events."""
    stored, lost = draft(message("a")), draft(message("b"))
    there = Append("chat", 0, 0, [stored], forbid_rebase)
    done = append_one(storage, there)
    gone = Append("chat", 1, 1, [lost], forbid_rebase)
    empty = Append("other", 0, 0, [], forbid_rebase)
    are_stored = storage.unanswered.are_stored
    nothing = Appended(0, 0, 1)
    assert are_stored([there, gone, empty], [done, VersionConflict(1, 2), nothing])
    assert not are_stored([there, gone], [done, Appended(0, 2, 2)])
    storage.connections.in_transaction = True  # its connection could not be rolled back
    assert not are_stored([there], [done])
    storage.connections.in_transaction = False
