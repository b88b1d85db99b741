"""PostgreSQL: an event that goes alone goes in one statement."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from threading import Thread, main_thread
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from eventstore import EventStore, FunctionCall, MessageAdded, Text, ToolPending
from eventstore.errors import StoreCorrupt, StoreFull
from eventstore.storage.at_once import AtOnceStorage
from eventstore.testing import message

if TYPE_CHECKING:
    from servers import PostgreSQL


@pytest.fixture
def url(postgresql: PostgreSQL) -> str:
    """A database with a store."""
    return postgresql.database(migrated=True)


@pytest.fixture
def store(url: str) -> Iterator[EventStore]:
    """A store whose conversation has begun, so that it knows where it stands."""
    with EventStore.open(url) as store:
        for _ in range(3):
            store.conversation("chat").add_message("user", "hello")
        yield store


def storage_of(store: EventStore) -> Any:
    """Where it writes."""
    assert isinstance(store._storage, AtOnceStorage)
    return store._storage


@pytest.fixture
def sent(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is sent through the cursor from now on."""
    statements: list[str] = []
    execute = psycopg.Cursor.execute

    def noted(self: Any, query: Any, *rest: Any, **more: Any) -> Any:
        if self is storage_of(store)._cursor:
            statements.append(query)
        return execute(self, query, *rest, **more)

    monkeypatch.setattr(psycopg.Cursor, "execute", noted)
    return statements


def versions(store: EventStore) -> list[int]:
    """Those of the conversation's events; nothing is damaged."""
    assert list(store.verify()) == []
    return [recorded.version for recorded in store.conversation("chat").events()]


def test_an_event_alone_goes_past_the_cursor(store: EventStore, sent: list[str]) -> None:
    """One that is found by its fingerprint, too."""
    chat = store.conversation("chat")
    call = chat.request("search", {"q": "ä\\u0000'"})
    chat.complete(call.id, {"found": 1})
    assert sent == []
    assert versions(store) == [1, 2, 3, 4, 5]
    (pending, completed) = store.read_fingerprint(call.fingerprint)
    assert pending.event.call.arguments == {"q": "ä\\u0000'"}  # type: ignore[union-attr]
    assert completed.version == 5


def test_a_conversation_that_has_just_begun_is_known(store: EventStore, sent: list[str]) -> None:
    """Its second event goes alone already."""
    chat = store.conversation("new")
    chat.add_message("user", "hello")
    assert sent[-1].endswith("; COMMIT")
    sent.clear()
    assert chat.add_message("user", "hello").version == 2
    assert sent == []


def test_a_conversation_whose_beginning_was_undone_is_not_known(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins with the next append."""
    chat = store.conversation("new")
    monkeypatch.setattr("eventstore.storage.sql.event_row", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        chat.add_message("user", "hello")
    monkeypatch.undo()
    assert "new" not in storage_of(store)._keys
    assert [chat.add_message("user", "hello").version for _ in range(2)] == [1, 2]


def test_it_is_stored_as_it_is_in_a_transaction(
    store: EventStore, postgresql: PostgreSQL, url: str
) -> None:
    """Each column but those that differ by their nature."""
    chat = store.conversation("chat")
    events = [recorded.event for recorded in chat.events()]
    chat.append(*events)
    chat.add_message("user", "hello")
    columns = "conversation, tag, schema, fingerprint, digest, payload"
    rows = postgresql.execute(f"SELECT {columns} FROM toolledger_events", database=url)  # noqa: S608
    assert len(rows) == 7
    assert len(set(rows)) == 1


def test_many_are_stored_as_each_alone(store: EventStore) -> None:
    """More than is sent at once; those that are found by their fingerprint, too."""
    chat, alone = store.conversation("many"), store.conversation("alone")
    events = [
        ToolPending(FunctionCall("search", {"q": "ä\x00'\\" * n}, f"call_{n}"), f"call_{n}", n, 0)
        for n in range(200)
    ]
    said = MessageAdded("user", (Text("hello"),))
    chat.append(said, *events)
    for event in (said, *events):
        alone.append(event)
    assert list(store.verify()) == []
    assert [r.event for r in chat.events()] == [r.event for r in alone.events()] == [said, *events]
    for recorded in list(chat.events())[1::50]:
        assert recorded.fingerprint is not None
        found = [
            (r.conversation_id, r.version) for r in store.read_fingerprint(recorded.fingerprint)
        ]
        assert sorted(found) == [("alone", recorded.version), ("many", recorded.version)]


def test_who_writes_elsewhere_in_the_lane_is_not_in_its_way(
    store: EventStore, sent: list[str], url: str
) -> None:
    """The counter stands elsewhere than it was left."""
    lane_of = storage_of(store).lane_of
    name = next(n for n in map(str, range(1000)) if lane_of(n) == lane_of("chat"))
    with EventStore.open(url) as other:
        for _ in range(3):
            other.conversation(name).add_message("user", "hello")
    assert [r.position for r in store.conversation("chat").append(message(), message())] == [7, 8]
    sent.clear()
    with EventStore.open(url) as other:
        other.conversation(name).add_message("user", "hello")
    (mine,) = store.conversation("chat").append(message())
    assert (mine.version, mine.position, sent) == (6, 10, [])
    (mine,) = store.conversation("chat").append(message())
    assert (mine.version, mine.position, sent) == (7, 11, [])
    # What they wrote is seen by who has read less.
    assert store.conversation(name).add_message("user", "hello").version == 5
    assert versions(store) == [1, 2, 3, 4, 5, 6, 7]


def test_where_others_have_written_it_goes_behind_them(
    store: EventStore, sent: list[str], url: str
) -> None:
    """The statement stores nothing; and goes first again when they have not, once."""
    chat = store.conversation("chat")
    with EventStore.open(url) as other:
        other.conversation("chat").add_message("user", "I was first")
        assert chat.add_message("user", "hello").version == 5
        assert sent[0].startswith("BEGIN")
        other.conversation("chat").add_message("user", "and again")
        sent.clear()
        assert chat.add_message("user", "hello").version == 7
        assert sent[0].startswith("BEGIN")
    assert storage_of(store)._shared == {"chat"}
    assert chat.add_message("user", "hello").version == 8
    assert storage_of(store)._shared == set()
    sent.clear()
    assert chat.add_message("user", "hello").version == 9
    assert sent == []
    assert versions(store) == [1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_the_memory_of_shared_conversations_has_a_bound(
    store: EventStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is forgotten is found out again."""
    monkeypatch.setattr("eventstore.storage.at_once.REMEMBERED", 1)
    for name in ("chat", "other"):
        store.conversation(name).add_message("user", "hello")
        with EventStore.open(url) as other:
            other.conversation(name).add_message("user", "I was first")
        store.conversation(name).add_message("user", "hello")
        assert storage_of(store)._shared == {name}


def test_behind_an_older_copy_nothing_is_written(
    store: EventStore, postgresql: PostgreSQL, url: str
) -> None:
    """The lane was further once."""
    postgresql.execute("UPDATE toolledger_lanes SET position = position - 1", database=url)
    with pytest.raises(StoreCorrupt, match="replaced by an older copy; nothing was written"):
        store.conversation("chat").add_message("user", "hello")
    assert [r.version for r in store.conversation("chat").events()] == [1, 2, 3]


def test_on_a_new_connection_it_is_prepared_again(store: EventStore) -> None:
    """The one before was lost."""
    storage = storage_of(store)
    before = storage._prepared
    with suppress(psycopg.OperationalError):
        storage._connection().execute("SELECT pg_terminate_backend(pg_backend_pid())")
    chat = store.conversation("chat")
    for _ in range(3):
        chat.add_message("user", "hello")
    assert storage._prepared is not before
    assert versions(store) == [1, 2, 3, 4, 5, 6]


def test_a_refusal_of_the_server_is_told(
    store: EventStore, postgresql: PostgreSQL, url: str
) -> None:
    """Another event stands in its place already."""
    postgresql.execute(
        "INSERT INTO toolledger_events SELECT lane, position + 1, conversation, version + 1, "
        "event_id || '0', recorded_at, tag, schema, fingerprint, digest, payload "
        "FROM toolledger_events WHERE version = 3",
        database=url,
    )
    with pytest.raises(StoreCorrupt, match=r"toolledger_events_.* already exists"):
        store.conversation("chat").add_message("user", "hello")


def test_where_there_is_no_answer_it_is_looked_up(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after every connection that is lost."""
    connection = storage_of(store)._connection()
    wait = connection.wait
    monkeypatch.setattr(connection, "wait", lambda answer: wait(answer)[1:])
    assert store.conversation("chat").add_message("user", "hello").version == 4
    assert connection.closed
    assert versions(store) == [1, 2, 3, 4]


def test_who_interrupts_it_does_not_wait_for_the_lane(
    store: EventStore, postgresql: PostgreSQL, url: str
) -> None:
    """Ctrl-C, while another holds the counter; nothing is written, and the next append goes on."""
    waiting = (
        "SELECT 1 FROM pg_stat_activity "
        "WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )

    def interrupt() -> None:
        until = time.monotonic() + 30
        while not postgresql.execute(waiting, database=url) and time.monotonic() < until:
            pass
        signal.pthread_kill(main_thread().ident or 0, signal.SIGINT)

    with postgresql.connected(url) as other:
        other.exec_driver_sql("BEGIN")
        other.exec_driver_sql("UPDATE toolledger_lanes SET position = position")
        thread = Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            store.conversation("chat").add_message("user", "never")
        thread.join()
        other.exec_driver_sql("ROLLBACK")
    assert store.conversation("chat").add_message("user", "hello").version == 4
    assert versions(store) == [1, 2, 3, 4]


def test_a_commit_that_fails_behind_the_statement_is_no_success(
    store: EventStore, postgresql: PostgreSQL, url: str
) -> None:
    """As where the disk is full of the server's log: the statement has been answered by then."""
    postgresql.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION USING ERRCODE = '53100', MESSAGE = 'no space'; END $$",
        "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON toolledger_events "
        "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()",
        database=url,
    )
    chat = store.conversation("chat")
    for events in ([message("lost")], [message("lost"), message("too")]):  # at once, and by COPY
        with pytest.raises(StoreFull, match="no space"):
            chat.append(*events)
    assert versions(store) == [1, 2, 3]
    postgresql.execute("DROP TRIGGER refuse ON toolledger_events", database=url)
    assert chat.append(message("kept"))[0].version == 4
    assert versions(store) == [1, 2, 3, 4]


@pytest.mark.parametrize("loss", ["DEALLOCATE ALL", "DISCARD ALL"])
def test_a_session_that_has_forgotten_the_statement_is_told_again(
    store: EventStore, sent: list[str], loss: str
) -> None:
    """As behind a pool of connections, which gives each transaction another."""
    chat = store.conversation("chat")
    chat.append(message("a"))
    storage_of(store)._connection().execute(loss)
    assert chat.append(message("b"))[0].version == 5
    assert sent[0].startswith("BEGIN")
    sent.clear()
    assert chat.append(message("c"))[0].version == 6
    assert sent == []
    assert versions(store) == [1, 2, 3, 4, 5, 6]


def test_a_name_that_is_taken_is_no_error(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statement goes in a transaction, and gets another name the next time."""
    from eventstore.storage import at_once  # noqa: PLC0415

    storage_of(store)._prepared = None
    monkeypatch.setattr(at_once, "_numbers", iter((1, 2, 3, 4)))
    name = (b"toolledger_%s_1" % at_once._chance).decode()
    storage_of(store)._connection().execute(f"PREPARE {name} AS SELECT 1")
    chat = store.conversation("chat")
    assert [chat.append(message())[0].version for _ in range(2)] == [4, 5]
    assert versions(store) == [1, 2, 3, 4, 5]
