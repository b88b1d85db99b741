"""SQLite's single statement: when it is used, and that it stores what the locking path stores."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from support.storages import sql_storage_of

from eventstore import EventStore, FunctionCall, MessageAdded, Text, ToolPending
from eventstore.errors import StoreCorrupt
from eventstore.storage.sql.storage import SqlStorage

SINGLE = "INSERT INTO toolledger_append"
Two: TypeAlias = tuple[EventStore, EventStore]


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EventStore]:
    """Return a store in which the conversation "chat" has begun."""
    url = f"sqlite:///{tmp_path / 'agent.db'}" if request.param == "file" else "sqlite://"
    with EventStore.open(url) as store:
        store.conversation("chat").add_message("user", "hello")
        yield store


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    """Return two stores on the same new file."""
    url = f"sqlite:///{tmp_path / 'agent.db'}"
    with EventStore.open(url) as ours, EventStore.open(url) as theirs:
        yield ours, theirs


def sent_by(store: EventStore) -> list[str]:
    """Return the list to which every statement of the writer's connection goes from now on."""
    statements: list[str] = []
    sql_storage_of(store).connections.connection().set_trace_callback(statements.append)
    return statements


def rows(store: EventStore, columns: str) -> list[tuple[Any, ...]]:
    """Return columns of all events, in order."""
    storage = sql_storage_of(store)
    return storage.connections.rows(f"SELECT {columns} FROM toolledger_events ORDER BY position")  # noqa: S608


def test_every_kind_of_event_is_stored_in_one_statement(store: EventStore) -> None:
    """No statement begins or ends a transaction."""
    sent, chat = sent_by(store), store.conversation("chat")
    call = chat.request("search", {"q": "ä\x00'"})
    chat.start(call.id)
    chat.complete(call.id, {"found": 1})
    chat.add_message("user", "thanks")
    statements = {each for each in sent if each.startswith(SINGLE)}
    assert len(statements) == 4
    assert not [each for each in sent if each.startswith(("BEGIN", "COMMIT", "SELECT"))]
    assert list(store.verify()) == []
    found = store.read_fingerprint(call.fingerprint)
    assert [recorded.version for recorded in found] == [2, 3, 4]


def test_the_same_rows_are_stored_as_by_the_locking_path(store: EventStore) -> None:
    """NULL is NULL in both."""
    events = (
        MessageAdded("user", (Text("hello"),)),
        ToolPending(FunctionCall("search", {"q": "ä\x00'"}, "call_1"), "call_1", 1, 0),
    )
    at = datetime(2026, 1, 2, tzinfo=UTC)
    sent = sent_by(store)
    for name in ("batch", "single"):
        store.conversation(name).add_message("user", "hello")
    store.conversation("batch").append(*events, occurred_at=[None, at])
    before = len(sent)
    for event, time in zip(events, (None, at), strict=True):
        store.conversation("single").append(event, occurred_at=[time])
    assert any(each.startswith(SINGLE) for each in sent[before:])
    columns = ", ".join(
        f"{name}, typeof({name})"
        for name in ("version", "occurred_at", "tag", "schema", "fingerprint", "payload")
    )
    _, _, _, *stored = rows(store, f"{columns}, typeof(event_id), typeof(chain)")
    assert stored[:2] == stored[2:]
    assert stored[0][3] == "null"
    assert list(store.verify()) == []


def test_events_of_others_are_read_first(two: Two) -> None:
    """A counter that another store has moved stores nothing; then the locking path decides."""
    ours, theirs = two
    chats = [store.conversation("chat") for store in (ours, theirs)]
    other = theirs.conversation("other")
    for chat in chats:
        chat.add_message("user", "hello")
    sent = sent_by(ours)
    for number in range(3):
        assert chats[0].add_message("user", "so?").version == 3 + 2 * number
        assert chats[1].add_message("user", "and?").version == 4 + 2 * number
    other.add_message("user", "elsewhere")
    assert chats[0].add_message("user", "so?").version == 9
    assert [each for each in sent if each.startswith("BEGIN")]
    sent.clear()
    assert chats[0].add_message("user", "so?").version == 10
    assert {each.startswith(SINGLE) for each in sent} == {True}
    assert list(ours.verify()) == []
    assert [recorded.version for recorded in chats[1].events()] == list(range(1, 11))


def test_a_call_that_another_store_started_is_not_started_again(
    two: Two,
) -> None:
    """The decision is made anew on what the other one wrote."""
    ours, theirs = two
    chat = ours.conversation("chat")
    call = chat.request("refund", {"order": 1})
    chat.add_message("user", "go on")  # from here on in one statement
    theirs.conversation("chat").start(call.id)
    with pytest.raises(Exception, match="no recorded end"):
        chat.start(call.id)
    assert chat.tool(call.id).attempts == 1


def test_a_conversation_that_others_continued_is_read_first(
    two: Two,
) -> None:
    """The counter alone does not say so: this store has written elsewhere meanwhile."""
    ours, theirs = two
    chat, elsewhere = ours.conversation("chat"), ours.conversation("elsewhere")
    for each in (chat, chat, elsewhere):
        each.add_message("user", "hello")
    theirs.conversation("chat").add_message("user", "hello")
    elsewhere.add_message("user", "hello")
    sent = sent_by(ours)
    assert chat.add_message("user", "so?").version == 4
    assert not [each for each in sent if each.startswith(SINGLE)]
    assert list(ours.verify()) == []


def test_an_older_copy_with_the_same_counter_is_noticed(two: Two) -> None:
    """Events of others that were read before are gone: nothing is written in their place."""
    ours, theirs = two
    chat = ours.conversation("chat")
    for _ in range(2):
        chat.add_message("user", "hello")
    theirs.conversation("other").add_message("user", "hello")
    assert len(list(ours.conversation("other").events())) == 1
    put_back = sql_storage_of(theirs).connections.writer()
    put_back.execute("DELETE FROM toolledger_events WHERE position = 3")
    put_back.execute("UPDATE toolledger_lanes SET position = 2")
    with pytest.raises(StoreCorrupt, match="was read up to 3 before"):
        chat.add_message("user", "lost?")
    assert rows(ours, "position") == [(1,), (2,)]


def test_a_replaced_event_is_noticed_on_a_new_connection(
    two: Two,
) -> None:
    """The event that the statement stored last is looked for there."""
    ours, theirs = two
    chat = ours.conversation("chat")
    for _ in range(3):
        chat.add_message("user", "hello")
    sql_storage_of(theirs).connections.writer().execute(
        "UPDATE toolledger_events SET event_id = zeroblob(16) WHERE position = 3"
    )
    sql_storage_of(ours).connections.roll_back(lost=True)
    with pytest.raises(StoreCorrupt, match="position 3 of lane 0 had event"):
        chat.add_message("user", "lost?")


def test_a_lane_without_a_counter_stores_nothing(store: EventStore) -> None:
    """The locking path says what is wrong."""
    chat = store.conversation("chat")
    chat.add_message("user", "so?")
    sql_storage_of(store).connections.writer().execute("DELETE FROM toolledger_lanes")
    with pytest.raises(StoreCorrupt, match="has no counter"):
        chat.add_message("user", "lost?")
    assert len(rows(store, "version")) == 2


def test_the_statement_is_used_again_after_an_error(store: EventStore) -> None:
    """The view is there on the writer's next cursor, too."""
    chat = store.conversation("chat")
    chat.add_message("user", "so?")
    sql_storage_of(store).connections.roll_back()
    assert [chat.add_message("user", "so?").version for _ in range(2)] == [3, 4]
    sent = sent_by(store)
    chat.add_message("user", "so?")
    assert {each.startswith(SINGLE) for each in sent} == {True}


def test_nothing_of_it_is_in_the_file(tmp_path: Path) -> None:
    """Another program sees neither the view nor its trigger."""
    path = tmp_path / "agent.db"
    with EventStore.open(f"sqlite:///{path}") as store:
        chat = store.conversation("chat")
        chat.add_message("user", "hello")
        sent = sent_by(store)
        for _ in range(2):
            chat.add_message("user", "hello")
        assert any(each.startswith(SINGLE) for each in sent)
        connection = sqlite3.connect(path)
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        connection.close()
    assert not [name for name in names if "append" in name]


def test_other_storages_do_without(store: EventStore) -> None:
    """The locking path alone gives the same conversation."""
    store = EventStore(SqlStorage(sql_storage_of(store).backend, ""))
    sent, chat = sent_by(store), store.conversation("chat")
    assert [chat.add_message("user", "so?").version for _ in range(3)] == [2, 3, 4]
    assert not [each for each in sent if each.startswith(SINGLE)]
    assert list(store.verify()) == []
    store.close()
