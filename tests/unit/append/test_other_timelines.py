"""What is remembered of a log is not believed once the log was put back to an older state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.losses import put_back, restored
from support.storages import open_limited, sql_storage_of

from eventstore import EventStore, StoreCorrupt
from eventstore.testing import message

if TYPE_CHECKING:
    from support.servers import PostgreSQL


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of the log."""
    return tmp_path / "agent.db"


@pytest.fixture
def store(path: Path) -> Iterator[EventStore]:
    """Return a store with little memory, which stays open while its log is put back."""
    with EventStore(open_limited(f"sqlite:///{path}", chunk_rows=2)) as store:
        yield store


def replace(path: Path, position: int, *names: str) -> None:
    """Take back the events after a position; then another process appends to conversations."""
    put_back(path, position)
    with EventStore.open(f"sqlite:///{path}") as other:
        for name in names:
            other.conversation(name).append(message("another"))


LOGS = [(), ("other",), ("other", "other"), ("chat",)]
"""What others appended since: the log is shorter, as long as before, or longer."""


@pytest.mark.parametrize("since", LOGS)
def test_a_state_is_read_again(store: EventStore, path: Path, since: tuple[str, ...]) -> None:
    """Nothing seems to be new after what is remembered."""
    chat = store.conversation("chat")
    chat.request("refund", {}, "c1")
    chat.start("c1")
    assert (chat.version, chat.tool("c1").status.name) == (2, "Running")
    replace(path, 1, *since)
    for _ in range(2):
        assert chat.version == 1 + since.count("chat")
        assert chat.tool("c1").status.name == "Pending"
    with pytest.raises(StoreCorrupt, match="position"):
        chat.append(message("mine"))


@pytest.mark.parametrize("since", LOGS)
def test_no_answer_rests_on_a_lost_event(
    store: EventStore, path: Path, since: tuple[str, ...]
) -> None:
    """A step is not refused, and a repeated one not acknowledged, for what the log has not."""
    chat = store.conversation("chat")
    chat.request("refund", {}, "c1")
    chat.approve("c1")
    assert chat.approve("c1").status.name == "Approved"  # it is stored already
    replace(path, 1, *since)
    with pytest.raises(StoreCorrupt, match="position"):
        chat.approve("c1")
    store.accept_loss()
    assert chat.start("c1").status.name == "Running"
    replace(path, 1, *since)
    with pytest.raises(StoreCorrupt, match="position"):
        chat.start("c1")  # not: it is running


def test_an_id_counts_only_where_the_rest_of_the_log_is(store: EventStore, path: Path) -> None:
    """The event itself was kept; a log that is shorter may only be behind."""
    storage = sql_storage_of(store)
    (kept,) = store.conversation("kept").append(message("1"))
    store.conversation("lost").append(message("2"))
    assert storage.event_id_at("kept", 1) == bytes.fromhex(kept.event_id)
    replace(path, 1)
    with pytest.raises(StoreCorrupt, match=r"has none: .* by an older copy, or it is behind"):
        storage.event_id_at("kept", 1)
    replace(path, 1, "other")
    with pytest.raises(StoreCorrupt, match="until the loss is accepted"):
        storage.event_id_at("kept", 1)


def test_a_read_does_not_continue_in_another_log(store: EventStore, path: Path) -> None:
    """The events that were read before are of the first one."""
    chat = store.conversation("chat")
    chat.append(*map(message, "abcd"))
    events = chat.events()
    assert [next(events).version for _ in range(2)] == [1, 2]
    replace(path, 1, *["chat"] * 5)
    with pytest.raises(StoreCorrupt, match="until the loss is accepted"):
        next(events)
    assert [recorded.version for recorded in chat.events()] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("since", [("b",), ("b", "b")])
def test_the_names_of_a_page_are_those_of_its_log(
    store: EventStore, path: Path, monkeypatch: pytest.MonkeyPatch, since: tuple[str, ...]
) -> None:
    """The log is put back after the page was read, and before its names are."""
    store.conversation("kept").append(message("1"))
    store.conversation("lost").append(message("2"))
    storage, rows = sql_storage_of(store), sql_storage_of(store).connections.rows

    def rows_then(statement: str, *given: Any) -> list[Any]:
        if "conversation_id" in statement:
            monkeypatch.undo()
            replace(path, 1, *since)
        return rows(statement, *given)

    monkeypatch.setattr(storage.connections, "rows", rows_then)
    found = list(storage.feed({}))
    assert [event.conversation_id for event in found] == ["kept", *since]
    assert found == list(storage.feed({}))


def test_only_what_was_compared_is_replaced(store: EventStore) -> None:
    """A read that compared an earlier event does not replace what another thread has seen."""
    seen = sql_storage_of(store).log.seen
    chat = store.conversation("chat")
    (first,) = chat.append(message("1"))
    compared = seen.furthest[first.lane]
    (second,) = chat.append(message("2"))
    after = seen.furthest[first.lane]
    (third,) = chat.append(message("3"))
    seen.furthest[first.lane] = after
    seen.note([third], compared)
    assert seen.furthest == {first.lane: after}
    seen.note([second, third], after)
    assert seen.furthest[first.lane][0] == third.position


@pytest.mark.parametrize("others", [1, 2])
def test_one_connection_is_no_proof_of_one_log(postgresql: PostgreSQL, others: int) -> None:
    """The log is put back in place, and an event alone goes in one statement."""
    url = postgresql.database(migrated=True)
    with EventStore.open(url) as store:
        chat = store.conversation("chat")
        (first,) = chat.append(message("1"))
        chat.append(message("2"))
        postgresql.execute(*restored(first.lane, first.position), database=url)
        lane_of = sql_storage_of(store).lane_of
        name = next(n for n in map(str, range(999)) if lane_of(n) == first.lane)
        with EventStore.open(url) as other:
            other.conversation(name).append(*[message("another")] * others)
        with pytest.raises(StoreCorrupt, match="until the loss is accepted"):
            chat.append(message("3"))
