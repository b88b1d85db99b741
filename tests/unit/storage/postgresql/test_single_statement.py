"""PostgreSQL: a single event is appended in one statement."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from threading import Thread, main_thread
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from support import proxies
from support.storages import open_limited, sql_storage_of
from support.unseen_forks import status_of, unseen_fork

from eventstore import EventStore, FunctionCall, MessageAdded, Text, ToolPending
from eventstore.errors import OutcomeUnknown, StoreCorrupt, StoreFull
from eventstore.testing import message

if TYPE_CHECKING:
    from support.servers import PostgreSQL


@pytest.fixture
def url(postgresql: PostgreSQL) -> str:
    """Return the URL of a database with a store."""
    return postgresql.database(migrated=True)


@pytest.fixture
def store(url: str) -> Iterator[EventStore]:
    """Return a store whose conversation has events, so that the store knows its version."""
    with EventStore.open(url) as store:
        for _ in range(3):
            store.conversation("chat").add_message("user", "hello")
        yield store


def storage_of(store: EventStore) -> Any:
    """Return the storage that the store writes to."""
    return sql_storage_of(store)


@pytest.fixture
def sent(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that receives every statement sent through the writer's cursor."""
    statements: list[str] = []
    execute = psycopg.Cursor.execute

    def noted(self: Any, query: Any, *rest: Any, **more: Any) -> Any:
        if self is storage_of(store).connections.writer_cursor:
            statements.append(query)
        return execute(self, query, *rest, **more)

    monkeypatch.setattr(psycopg.Cursor, "execute", noted)
    return statements


def versions(store: EventStore) -> list[int]:
    """Return the versions of the conversation's events; assert that nothing is damaged."""
    assert list(store.verify()) == []
    return [recorded.version for recorded in store.conversation("chat").events()]


def test_a_single_event_does_not_use_the_cursor(store: EventStore, sent: list[str]) -> None:
    """An event that is indexed by its fingerprint does not either."""
    chat = store.conversation("chat")
    call = chat.request("search", {"q": "ä\\u0000'"})
    chat.complete(call.id, {"found": 1})
    assert sent == []
    assert versions(store) == [1, 2, 3, 4, 5]
    (pending, completed) = store.read_fingerprint(call.fingerprint)
    assert pending.event.call.arguments == {"q": "ä\\u0000'"}  # type: ignore[union-attr]
    assert completed.version == 5


def test_a_conversation_that_has_just_begun_is_known(store: EventStore, sent: list[str]) -> None:
    """Its second event uses the single statement."""
    chat = store.conversation("new")
    chat.add_message("user", "hello")
    assert sent[-1].endswith("; COMMIT")
    sent.clear()
    assert chat.add_message("user", "hello").version == 2
    assert sent == []


def test_a_conversation_whose_beginning_was_undone_is_not_known(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The conversation is created by the next append."""
    chat = store.conversation("new")
    monkeypatch.setattr("eventstore.storage.sql.log_writer.event_row", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        chat.add_message("user", "hello")
    monkeypatch.undo()
    assert "new" not in storage_of(store).log.keys.known
    assert [chat.add_message("user", "hello").version for _ in range(2)] == [1, 2]


def test_a_single_statement_stores_the_same_row_as_a_transaction(
    store: EventStore, postgresql: PostgreSQL, url: str
) -> None:
    """All columns are equal, except for positions, ids and times."""
    chat = store.conversation("chat")
    events = [recorded.event for recorded in chat.events()]
    chat.append(*events)
    chat.add_message("user", "hello")
    columns = "conversation, tag, schema, fingerprint, payload"
    rows = postgresql.execute(f"SELECT {columns} FROM toolledger_events", database=url)  # noqa: S608
    assert len(rows) == 7
    assert len(set(rows)) == 1


def test_a_batch_is_stored_like_single_events(store: EventStore) -> None:
    """This holds for batches of several pieces, and for the index of fingerprints."""
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


def test_other_writers_of_the_lane_do_not_conflict(
    store: EventStore, sent: list[str], url: str
) -> None:
    """The statement works although the lane's counter has advanced."""
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
    # A reader that has read less sees what they wrote.
    assert store.conversation(name).add_message("user", "hello").version == 5
    assert versions(store) == [1, 2, 3, 4, 5, 6, 7]


def test_an_event_is_stored_after_those_of_other_writers(
    store: EventStore, sent: list[str], url: str
) -> None:
    """The statement stores nothing, and the general path stores the event."""
    chat = store.conversation("chat")
    with EventStore.open(url) as other:
        other.conversation("chat").add_message("user", "I was first")
        assert chat.add_message("user", "hello").version == 5
        assert sent[0].startswith("BEGIN")
        other.conversation("chat").add_message("user", "and again")
        sent.clear()
        assert chat.add_message("user", "hello").version == 7
        assert sent[0].startswith("BEGIN")
    assert storage_of(store).log.written.contested == {"chat"}
    assert chat.add_message("user", "hello").version == 8
    assert storage_of(store).log.written.contested == set()
    sent.clear()
    assert chat.add_message("user", "hello").version == 9
    assert sent == []
    assert versions(store) == [1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_the_memory_of_shared_conversations_has_a_bound(url: str) -> None:
    """A conversation that was forgotten is noticed again."""
    with EventStore(open_limited(url, cached_keys=1)) as store:
        for name in ("chat", "other"):
            store.conversation(name).add_message("user", "hello")
            with EventStore.open(url) as other:
                other.conversation(name).add_message("user", "I was first")
            store.conversation(name).add_message("user", "hello")
            assert storage_of(store).log.written.contested == {name}


def test_an_older_copy_is_not_written_to(
    store: EventStore, postgresql: PostgreSQL, url: str
) -> None:
    """The lane's counter is behind the positions that this store has seen."""
    postgresql.execute("UPDATE toolledger_lanes SET position = position - 1", database=url)
    for name in ("chat", "other"):
        with pytest.raises(StoreCorrupt, match="replaced by an older copy; nothing was written"):
            store.conversation(name).add_message("user", "hello")
    assert [r.version for r in store.conversation("chat").events()] == [1, 2, 3]


def test_the_statement_is_prepared_again_on_a_new_connection(store: EventStore) -> None:
    """The old connection was lost."""
    storage = storage_of(store)
    before = storage._single.prepared
    with suppress(psycopg.OperationalError):
        storage.connections.connection().execute("SELECT pg_terminate_backend(pg_backend_pid())")
    chat = store.conversation("chat")
    for _ in range(3):
        chat.add_message("user", "hello")
    assert storage._single.prepared is not before
    assert versions(store) == [1, 2, 3, 4, 5, 6]


def test_a_new_connection_is_proven_before_the_statement_uses_it(
    store: EventStore, postgresql: PostgreSQL, url: str
) -> None:
    """An event was replaced, and the server that had it fell silent."""
    postgresql.execute(
        "UPDATE toolledger_events SET event_id = set_byte(event_id, 0, 255) WHERE version = 3",
        database=url,
    )
    storage_of(store).backend.silences += 1
    with pytest.raises(StoreCorrupt, match="replaced by an older copy; nothing was written"):
        store.conversation("chat").add_message("user", "hello")
    assert [r.version for r in store.conversation("chat").events()] == [1, 2, 3]


def test_a_refusal_of_the_server_is_raised(
    store: EventStore, postgresql: PostgreSQL, url: str
) -> None:
    """The event's place in the log is taken already."""
    postgresql.execute(
        "INSERT INTO toolledger_events SELECT lane, position + 1, conversation, version + 1, "
        "event_id || '0', recorded_at, occurred_at, tag, schema, fingerprint, chain, payload "
        "FROM toolledger_events WHERE version = 3",
        database=url,
    )
    with pytest.raises(StoreCorrupt, match=r"toolledger_events_.* already exists"):
        store.conversation("chat").add_message("user", "hello")


def test_a_lost_answer_is_resolved_by_the_event_id(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same happens after every lost connection."""
    connection = storage_of(store).connections.connection()
    wait = connection.wait
    monkeypatch.setattr(connection, "wait", lambda answer: wait(answer)[1:])
    assert store.conversation("chat").add_message("user", "hello").version == 4
    assert connection.closed
    assert versions(store) == [1, 2, 3, 4]


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_the_wait_for_a_lane(postgresql: PostgreSQL, url: str) -> None:
    """Ctrl-C during the wait writes nothing, and the next append succeeds."""
    waiting = (
        "SELECT 1 FROM pg_stat_activity "
        "WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )

    def interrupt_once_it_waits() -> None:
        until = time.monotonic() + 300
        with postgresql.connected(url) as observer:
            while observer.exec_driver_sql(waiting).first() is None:
                if time.monotonic() > until:
                    break
                time.sleep(0.005)
        signal.pthread_kill(main_thread().ident or 0, signal.SIGINT)

    # A lock is waited for longer than the observer looks: only the interrupt can end the wait.
    with EventStore.open(url, busy_timeout=900) as store:
        chat = store.conversation("chat")
        for _ in range(3):
            chat.add_message("user", "hello")
        with postgresql.connected(url) as other:
            other.exec_driver_sql("BEGIN")
            other.exec_driver_sql("UPDATE toolledger_lanes SET position = position")
            thread = Thread(target=interrupt_once_it_waits)
            thread.start()
            with pytest.raises(KeyboardInterrupt):
                chat.add_message("user", "never")
            thread.join()
            other.exec_driver_sql("ROLLBACK")
        assert chat.add_message("user", "hello").version == 4
        assert versions(store) == [1, 2, 3, 4]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_fork_within_the_statement_leaves_its_connection_alone(
    postgresql: PostgreSQL, url: str
) -> None:
    """Go on with the statement under way, on its own connection, when a signal handler forks."""
    waiting = (
        "SELECT pid FROM pg_stat_activity "
        "WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    sessions: list[int] = []
    children: list[int] = []

    def fork(*_: object) -> None:
        child = os.fork()
        if not child:
            os._exit(0)
        children.append(os.waitpid(child, 0)[1])

    def fork_once_it_waits(holder: Any) -> None:
        until = time.monotonic() + 60
        with postgresql.connected(url) as observer:
            while not sessions and time.monotonic() < until:
                sessions.extend(pid for (pid,) in observer.exec_driver_sql(waiting))
                time.sleep(0.005)
        signal.pthread_kill(main_thread().ident or 0, signal.SIGUSR1)
        while not children and time.monotonic() < until:
            time.sleep(0.005)
        holder.exec_driver_sql("ROLLBACK")

    before = signal.signal(signal.SIGUSR1, fork)
    try:
        with EventStore.open(url, busy_timeout=60) as store, postgresql.connected(url) as holder:
            chat = store.conversation("chat")
            for _ in range(3):
                chat.add_message("user", "hello")
            holder.exec_driver_sql("BEGIN")
            holder.exec_driver_sql("UPDATE toolledger_lanes SET position = position")
            thread = Thread(target=fork_once_it_waits, args=(holder,))
            thread.start()
            assert chat.add_message("user", "hello").version == 4
            thread.join()
            (session,) = sessions
            assert children == [0]
            assert postgresql.execute(f"SELECT 1 FROM pg_stat_activity WHERE pid = {session}")  # noqa: S608
            assert versions(store) == [1, 2, 3, 4]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_forked_child_resolves_a_lost_commit_on_a_connection_of_its_own(
    postgresql: PostgreSQL, url: str
) -> None:
    """Never use the parent's connection in a child that Python does not know of."""
    with (
        proxies.before(postgresql, url) as (proxy, through),
        postgresql.connected(url) as holder,
        EventStore.open(through, busy_timeout=0.5) as store,
    ):
        chat = store.conversation("chat")
        chat.append(message("a"))

        def lose(link: proxies.Link, _: bytes) -> bool:
            proxies.hang_up(link.server)
            holder.exec_driver_sql("BEGIN")
            holder.exec_driver_sql("UPDATE toolledger_lanes SET position = position")
            proxies.hang_up(link.client)
            return True

        proxy.strike(proxies.at(b"lost", lose))
        with pytest.raises(OutcomeUnknown) as caught:
            chat.append(message("lost"))
        ids = [bytes.fromhex(event_id) for event_id in caught.value.event_ids]
        assert len(ids) == 1
        holder.exec_driver_sql("ROLLBACK")
        known, used = proxy.accepted, list[int]()

        def note(link: proxies.Link, data: bytes) -> bool:
            if b"pg_notify" not in data:  # which a thread of the parent may send at any time
                used.append(link.number)
            return False

        proxy.strike(note)
        child = unseen_fork()
        if not child:
            status = 1
            with suppress(BaseException):
                status = len(store.session.storage.known_ids("chat", ids))
            os._exit(status)
        assert status_of(child) == 0
        assert used
        assert min(used) > known
        assert chat.append(message("lost"), event_ids=ids)[0].version == 2


@pytest.mark.parametrize(
    ("part", "name"),
    [
        (psycopg.generators, "execute"),
        (psycopg.errors, "error_from_result"),
        (psycopg.pq, "ExecStatus"),
        (psycopg.Connection, "wait"),
    ],
)
def test_without_the_drivers_internals_the_general_path_stores_events(
    postgresql: PostgreSQL, url: str, monkeypatch: pytest.MonkeyPatch, part: Any, name: str
) -> None:
    """If psycopg lacks an attribute, the statement is tried once and not again."""
    with EventStore.open(url) as store:
        chat = store.conversation("chat")
        chat.append(message("a"))
        tried: list[str] = []

        class Incomplete:
            """A part of psycopg without the removed attribute."""

            def __getattr__(self, attribute: str) -> Any:
                if attribute == name:
                    tried.append(name)
                    raise AttributeError(name)
                return getattr(part, attribute)

        _replace(monkeypatch, storage_of(store), part, Incomplete(), name, tried)
        assert [chat.append(message("b"))[0].version for _ in range(3)] == [2, 3, 4]
        assert tried == [name]
        monkeypatch.undo()
        assert [recorded.version for recorded in chat.events()] == [1, 2, 3, 4]
        assert list(store.verify()) == []


def _replace(
    monkeypatch: pytest.MonkeyPatch,
    storage: Any,
    part: Any,
    incomplete: Any,
    name: str,
    tried: list[str],
) -> None:
    """Remove an attribute from a module of psycopg or from the writer's connection."""
    if part is not psycopg.Connection:
        monkeypatch.setattr(psycopg, part.__name__.rpartition(".")[2], incomplete)
        return

    def refuse(*_: Any, **__: Any) -> None:
        tried.append(name)
        raise TypeError("wait() takes other arguments")

    monkeypatch.setattr(storage.connections.connection(), name, refuse)


def test_a_commit_that_fails_after_the_statement_is_an_error(
    store: EventStore, postgresql: PostgreSQL, url: str
) -> None:
    """The disk may be full when the commit follows the answered statement."""
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
def test_a_session_without_the_statement_prepares_it_again(
    store: EventStore, sent: list[str], loss: str
) -> None:
    """A connection pooler may give each transaction another session."""
    chat = store.conversation("chat")
    chat.append(message("a"))
    storage_of(store).connections.connection().execute(loss)
    assert chat.append(message("b"))[0].version == 5
    assert sent[0].startswith("BEGIN")
    sent.clear()
    assert chat.append(message("c"))[0].version == 6
    assert sent == []
    assert versions(store) == [1, 2, 3, 4, 5, 6]


def test_a_statement_name_that_is_taken_is_replaced(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event is stored by the general path; the next statement gets another name."""
    from eventstore.storage.postgresql import single_statement as at_once

    storage_of(store)._single.prepared = None
    monkeypatch.setattr(at_once, "_numbers", itertools.count(10**9))
    name = (b"toolledger_%s_1000000000" % at_once._process_mark).decode()
    storage_of(store).connections.connection().execute(f"PREPARE {name} AS SELECT 1")
    chat = store.conversation("chat")
    assert [chat.append(message())[0].version for _ in range(2)] == [4, 5]
    assert versions(store) == [1, 2, 3, 4, 5]
