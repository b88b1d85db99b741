"""Lanes that live on several nodes: transactions of one lane, and commits at the same time.

Most of it is tried on one server that is taken for such a cluster; what only a cluster has, is
tried where `TOOLLEDGER_CITUS_URL` names one.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import psycopg
import pytest
from sqlalchemy import text

from eventstore import AsyncEventStore, EventStore, VersionConflict
from eventstore.append.lane_committers import LaneCommitters
from eventstore.errors import OutcomeUnknown, StoreBusy, StoreClosed, StoreCorrupt
from eventstore.storage.interface import Append, Appended
from eventstore.storage.postgresql.backend import Postgresql
from eventstore.storage.postgresql.spread import (
    COMMIT_FAILED,
    MOVE,
    ROWS,
    SEEN,
    LaneTransaction,
    for_rows,
)
from eventstore.storage.sql.counter_clauses import advance_all, hold
from eventstore.storage.sql.storage import SqlStorage
from eventstore.testing import draft, message, run_concurrently

if TYPE_CHECKING:
    from support.citus import Citus
    from support.servers import PostgreSQL

FAILED = (
    f"DO $$ BEGIN RAISE EXCEPTION USING MESSAGE = '{COMMIT_FAILED} 102014 on at least one active "
    "node', ERRCODE = 'XX000'; END $$"
)
"""Raises what a coordinator says whose node did not answer a COMMIT."""

LOCK = text("SELECT 1 FROM toolledger_lanes WHERE lane = :lane FOR UPDATE")


@pytest.fixture
def url(postgresql: PostgreSQL, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URL of a store on one server, which is taken for a cluster."""
    monkeypatch.setattr(Postgresql, "commits_by_lane", True)
    return postgresql.emptied()


@pytest.fixture
def store(url: str) -> Iterator[EventStore]:
    """Return a store there."""
    with EventStore.open(url) as opened:
        yield opened


def committers(store: EventStore) -> LaneCommitters:
    """Return what commits the appends of a store."""
    found = store.session.committer
    assert isinstance(found, LaneCommitters)
    return found


def storage_of(store: EventStore, conversation_id: str) -> SqlStorage:
    """Return the storage by which a conversation is appended to."""
    return cast("SqlStorage", committers(store)._of(conversation_id).storage)


def names_by_lane(store: EventStore, count: int) -> dict[int, str]:
    """Return conversations of so many lanes, by their lanes."""
    storage, found, number = store.session.storage, dict[int, str](), 0
    while len(found) < count:
        found.setdefault(storage.lane_of(f"chat-{number}"), f"chat-{number}")
        number += 1
    return found


def texts(store: EventStore, conversation_id: str) -> list[str]:
    """Return the texts of a conversation's messages."""
    events: list[Any] = [each.event for each in store.conversation(conversation_id).events()]
    return [event.parts[0].text for event in events]


# one event


def test_an_event_is_stored_in_a_transaction_of_its_lane(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the second event of a conversation on, `LaneTransaction` stores it."""
    done: list[Appended | None] = []
    store_one = LaneTransaction.store

    def noting(*arguments: Any) -> Appended | None:
        done.append(store_one(*arguments))
        return done[-1]

    monkeypatch.setattr(LaneTransaction, "store", noting)
    chat = store.conversation("chat")
    for number in range(3):
        chat.append(message(f"{number}"))
    call = chat.request("pay", {"n": 1})
    chat.start(call.id)
    chat.complete(call.id, "paid")
    assert [outcome.version if outcome else None for outcome in done] == [None, 2, 3, 4, 5, 6]
    assert [each.event_id for each in store.read_call("chat", call.id)] == [
        each.event_id for each in chat.events(after=3)
    ]
    assert list(store.verify()) == []


def test_writers_of_one_conversation_take_turns(url: str, store: EventStore) -> None:
    """Another store's event between is taken in; nothing is stored twice."""
    with EventStore.open(url) as other:
        ours, theirs = store.conversation("chat"), other.conversation("chat")
        for number in range(4):
            ours.append(message(f"ours {number}"))
            theirs.append(message(f"theirs {number}"))
        with pytest.raises(VersionConflict):
            ours.append(message("late"), expected_version=7)
    both = [(f"ours {number}", f"theirs {number}") for number in range(4)]
    assert texts(store, "chat") == [text for pair in both for text in pair]
    assert list(store.verify()) == []


def test_writers_of_one_lane_do_not_conflict(url: str, store: EventStore) -> None:
    """Events of other conversations of the lane come between; positions have no gaps."""
    lane = store.session.storage.lane_of("chat")
    names = (f"other-{number}" for number in range(1000))
    name = next(each for each in names if store.session.storage.lane_of(each) == lane)
    with EventStore.open(url) as other:
        for number in range(4):
            store.conversation("chat").append(message(f"{number}"))
            other.conversation(name).append(message(f"{number}"))
    assert storage_of(store, "chat").log.written.contested == set()
    assert [each.position for each in store.read()] == list(range(1, 9))


def test_an_older_copy_is_refused(postgresql: PostgreSQL, url: str, store: EventStore) -> None:
    """The lane is put back below what was seen: every append is refused, of other lanes, too."""
    first, second = list(names_by_lane(store, 2).values())
    for name in (first, second):
        for number in range(3):
            store.conversation(name).append(message(f"{number}"))
    lane = store.session.storage.lane_of(first)
    for table in ("events", "lanes"):
        last = {"events": "DELETE FROM toolledger_events WHERE lane = {} AND position = 3"}
        put_back = last.get(table, "UPDATE toolledger_lanes SET position = 2 WHERE lane = {}")
        postgresql.execute(put_back.format(lane), database=url)
    with pytest.raises(StoreCorrupt, match="replaced by an older copy"):
        store.conversation(first).append(message("4"))
    with pytest.raises(StoreCorrupt, match="replaced by an older copy"):
        store.conversation(second).append(message("4"))
    store.accept_loss()
    for name in (first, second):
        store.conversation(name).append(message("after"))
    assert texts(store, first) == ["0", "1", "after"]
    assert texts(store, second) == ["0", "1", "2", "after"]
    assert list(store.verify()) == []


# a COMMIT that a node did not answer


@pytest.mark.parametrize("took_place", [True, False])
@pytest.mark.parametrize("count", [1, 2])
def test_a_commit_that_failed_at_a_node_is_looked_up(
    store: EventStore, monkeypatch: pytest.MonkeyPatch, count: int, *, took_place: bool
) -> None:
    """The connection is well, and says that a COMMIT failed; it may have taken place."""
    chat = store.conversation("chat")
    chat.append(message("a"))
    chat.append(message("b"))
    storage = storage_of(store, "chat")
    part, name = (storage._single, "_insert") if count == 1 else (storage._proof, "commit")
    commit, tries = getattr(part, name), list[bool]()

    def failing(first: Any, *others: Any) -> None:
        tries.append(took_place)
        if took_place or len(tries) > 1:
            commit(first, *others)
        if len(tries) == 1:
            first.execute(FAILED)

    monkeypatch.setattr(part, name, failing)
    chat.append(*(message(f"new {number}") for number in range(count)))
    assert texts(store, "chat") == ["a", "b", *(f"new {number}" for number in range(count))]
    assert tries
    assert list(store.verify()) == []


def test_a_commit_that_cannot_be_looked_up_has_an_unknown_outcome(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No error says that nothing was written; the append is repeated with its id."""
    with EventStore.open(url, busy_timeout=0.2) as store:
        chat = store.conversation("chat")
        chat.append(message("a"))
        storage = storage_of(store, "chat")
        commit = cast("Any", storage._proof).commit
        lock = storage.unanswered._lock_lanes

        def failing(cursor: Any, statement: str) -> None:
            commit(cursor, statement)
            monkeypatch.setattr(storage.unanswered, "_lock_lanes", unreachable)
            cursor.execute(FAILED)

        def unreachable() -> None:
            raise storage.connections.driver.OperationalError("no node answers")

        monkeypatch.setattr(storage._proof, "commit", failing)
        with pytest.raises(OutcomeUnknown) as unknown:
            chat.append(message("b"), message("c"))
        monkeypatch.setattr(storage._proof, "commit", commit)
        monkeypatch.setattr(storage.unanswered, "_lock_lanes", lock)
        again = chat.append(message("b"), message("c"), event_ids=unknown.value.event_ids)
        assert [each.version for each in again] == [2, 3]
        assert texts(store, "chat") == ["a", "b", "c"]


# several events


def test_many_events_go_in_few_statements(store: EventStore) -> None:
    """Rows with and without marks, given ids and NULLs are stored as they are one by one."""
    chat = store.conversation("chat")
    count = 2 * ROWS + 3
    ids = [number.to_bytes(16).hex() for number in range(1, count + 1)]
    chat.append(*(message(f"{number}") for number in range(count)), event_ids=ids)
    calls = [chat.request("pay", {"n": number}) for number in range(3)]
    assert chat.version == count + 3
    assert [each.event_id for each in chat.events()][:count] == ids
    assert [each.call_id for each in store.read_fingerprint(calls[1].fingerprint)] == [calls[1].id]
    assert list(store.verify()) == []


def test_one_request_to_a_storage_may_still_name_several_lanes(store: EventStore) -> None:
    """All of them are stored in one transaction, or none is."""
    storage = store.session.storage
    names = list(names_by_lane(store, 3).values())
    for version in range(2):
        requests = [Append(n, version, -1, (), lambda _: [draft(message("x"))]) for n in names]
        outcomes = storage.append(requests)
        assert [each.version for each in outcomes if isinstance(each, Appended)] == [
            version + 1
        ] * 3

    def refuse(_: object) -> Any:
        raise VersionConflict(0, 1)

    stored = Append(names[0], 2, -1, (), lambda _: [draft(message("y"))], joint=True)
    refused = Append(names[1], 2, -1, (), refuse, joint=True)
    assert all(isinstance(each, VersionConflict) for each in storage.append([stored, refused]))
    assert dict(store.conversations()) == dict.fromkeys(names, 2)


def test_a_lane_is_held_at_its_node_before_it_is_read(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each transaction writes to its lane first: a move of the lane waits for that alone."""
    sent: list[str] = []
    execute = psycopg.Cursor.execute

    def noting(cursor: Any, query: Any, *more: Any, **named: Any) -> Any:
        sent.extend(str(query).split("; "))
        return execute(cursor, query, *more, **named)

    monkeypatch.setattr(psycopg.Cursor, "execute", noting)
    chat = store.conversation("chat")
    chat.append(message("a"), message("b"))
    storage_of(store, "chat").unanswered.lanes.add(storage_of(store, "chat").lane_of("chat"))
    storage_of(store, "chat").known_ids("chat", [bytes(16)])
    after = [sent[n + 1] for n, each in enumerate(sent[:-1]) if each.startswith("BEGIN")]
    assert len(after) >= 2
    lane = store.session.storage.lane_of("chat")
    assert set(after) == {hold(lane)}


# commits at the same time


def test_a_lane_that_waits_holds_up_no_other(
    postgresql: PostgreSQL, url: str, store: EventStore
) -> None:
    """While another program locks a lane, an append to it waits, and those to others return."""
    (lane, held), (_, free) = names_by_lane(store, 2).items()
    for name in (held, free):
        store.conversation(name).append(message("a"))
    with postgresql.connected(url) as connection:
        connection.exec_driver_sql("BEGIN")
        connection.execute(LOCK, {"lane": lane})
        waiting = threading.Thread(target=store.conversation(held).append, args=(message("b"),))
        waiting.start()
        for number in range(5):
            store.conversation(free).append(message(f"{number}"))
        assert waiting.is_alive()
        connection.exec_driver_sql("ROLLBACK")
        waiting.join()
    assert texts(store, held) == ["a", "b"]
    assert len(texts(store, free)) == 6


def test_threads_that_append_to_all_lanes_lose_nothing(store: EventStore) -> None:
    """Each conversation is in order; every commit is of one lane."""
    names = list(names_by_lane(store, 16).values())
    chats = [store.conversation(name) for name in names * 2]

    def write(number: int) -> None:
        for step in range(5):
            chats[(number + 7 * step) % len(chats)].append(message(f"{number}.{step}"))

    assert run_concurrently(*(partial(write, number) for number in range(32))) == [None] * 32
    assert sum(version for _, version in store.conversations()) == 160
    assert committers(store).idle
    assert list(store.verify()) == []


def test_tasks_append_to_all_lanes(url: str) -> None:
    """The writer of asyncio commits the lanes at the same time, too."""

    async def work() -> dict[str, int]:
        async with await AsyncEventStore.open(url) as store:
            chats = [store.conversation(f"chat-{number}") for number in range(24)]
            for _ in range(2):
                await asyncio.gather(*(chat.append(message("a")) for chat in chats))
            return {name: version async for name, version in store.conversations()}

    assert asyncio.run(work()) == {f"chat-{number}": 2 for number in range(24)}


def test_a_store_that_is_closed_refuses_appends_to_any_lane(store: EventStore) -> None:
    """Those of lanes that were never used, too; all connections are given up."""
    first, second = names_by_lane(store, 2).values()
    store.conversation(first).append(message("a"))
    storage = storage_of(store, first)
    store.close()
    assert storage.connections.closed
    for name in (first, second):
        with pytest.raises(StoreClosed):
            store.conversation(name).append(message("b"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_appends_by_connections_of_its_own(store: EventStore) -> None:
    """Parent and child go on, each with the lanes that it uses."""
    names = list(names_by_lane(store, 4).values())
    for name in names:
        store.conversation(name).append(message("before"))
    child = os.fork()
    if child == 0:
        try:
            for name in names:
                store.conversation(name).append(message("child"))
        except BaseException:  # noqa: BLE001 - the parent sees it by the status
            os._exit(1)
        os._exit(0)
    for name in names:
        store.conversation(name).append(message("parent"))
    assert os.waitpid(child, 0)[1] == 0
    for name in names:
        assert sorted(texts(store, name)) == ["before", "child", "parent"]
    assert list(store.verify()) == []


def test_an_unanswered_commit_of_a_lane_is_settled_for_readers_of_ids(store: EventStore) -> None:
    """`known_ids` of the store waits for commits of the storages beside its own."""
    store.conversation("chat").append(message("a"))
    storage = storage_of(store, "chat")
    storage.unanswered.lanes.add(storage.lane_of("chat"))
    store.session.known_ids("chat", [bytes(16)])
    assert not storage.unanswered.lanes


# a real cluster


@pytest.fixture
def spread(citus: Citus) -> str:
    """Return the URL of a distributed store without events, by its coordinator."""
    return citus.emptied()


def test_no_append_prepares_a_transaction(citus: Citus, spread: str) -> None:
    """Each commit is one node's, whichever node the client is connected to."""
    with EventStore.open(spread) as store:
        lanes = names_by_lane(store, 16).values()
        before = recorded_transactions(citus, spread)
        requests = [Append(n, 0, -1, (), lambda _: [draft(message("x"))]) for n in lanes]
        store.session.storage.append(requests)  # of all nodes: this one is prepared
        assert recorded_transactions(citus, spread) - before
    for node in range(len(citus.places)):
        with EventStore.open(citus.url(spread.rpartition("/")[2], node)) as store:
            before = recorded_transactions(citus, spread)
            run_concurrently(*(partial(use, store, name) for name in lanes))
            assert recorded_transactions(citus, spread) <= before
    with EventStore.open(spread) as store:
        assert list(store.verify()) == []


def use(store: EventStore, name: str) -> None:
    """Append by all ways: one event, several, with ids, and one that is found by its arguments."""
    chat = store.conversation(name)
    chat.append(message("a"))
    chat.append(message("b"))
    chat.append(message("c"), message("d"))
    chat.append(message("e"), event_ids=[os.urandom(16).hex()])
    chat.complete(chat.request("pay", {"to": name}).id, "paid")


def recorded_transactions(citus: Citus, url: str) -> set[tuple[int, str]]:
    """Return the transactions that nodes have recorded before they were prepared."""
    database = url.rpartition("/")[2]
    rows = (
        row
        for node in range(len(citus.places))
        for row in citus.execute(
            "SELECT groupid, gid FROM pg_dist_transaction", database=database, node=node
        )
    )
    return {(int(group), str(name)) for group, name in rows}


def test_all_that_is_sent_for_a_conversation_goes_to_one_node(citus: Citus, spread: str) -> None:
    """Every statement of appends and reads of one conversation is one task."""
    del citus
    with EventStore.open(spread) as store:
        chat = store.conversation("chat")
        chat.append(message("a"))
        chat.append(message("b"))
        storage: Any = storage_of(store, "chat")
        with storage.connections.cursor() as cursor:
            for statement, parameters in statements(storage):
                cursor.execute(f"EXPLAIN (COSTS OFF) {statement}", parameters or None)
                plan = "\n".join(line for (line,) in cursor.fetchall())
                assert "Task Count: 1\n" in plan, (statement, plan)


def statements(storage: SqlStorage) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the statements that are sent for one conversation, with parameters."""
    sql, (lane, key) = storage.log.sql, storage.log.keys.known["chat"]
    seen = storage.log.seen.furthest[lane]
    place, mark, name = seen[0], bytearray(16), (lane, lane, "", "chat", 0, 9)
    yield MOVE, (lane, 0, place)
    yield SEEN, (lane, *seen)
    yield sql.heads([lane], {}, whole=True), ()
    yield sql.heads([lane], {lane: place}, whole=False), ()
    yield sql.head, (lane,)
    yield advance_all({lane: place}, {lane: 0}), ()
    yield advance_all({lane: 64}, {lane: 0}), ()
    yield sql.find, (lane, "", "chat")
    yield sql.create, (lane, 99, "", "other", 1)
    yield sql.insert, (lane, 99, key, 99, mark, 1, None, "message", 1, None, mark, "{}", None)
    yield sql.index, (lane, mark, key, 99)
    yield sql.insert_id, (lane, key, mark, 99)
    yield for_rows(sql.index, 2), (lane, mark, key, 98, lane, mark, key, 99)
    yield sql.redact, ("{}", lane, key, 1)
    yield sql.forget_mark, (lane, key, 1)
    yield sql.unindex, (lane, mark, key, 1)
    yield sql.digest, (lane, key, 1)
    yield sql.event_id, (lane, key, 1)
    yield sql.known, (lane, key, mark)
    yield sql.tail, (lane, key, 0)
    yield sql.versions([(lane, key)], apart=True), ()
    yield sql.versions_of(["chat"]), (lane, lane, "", "chat")
    yield sql.anchors_at(1), (lane, place)
    yield sql.conversation, (lane, key, 0, 9)
    yield sql.conversation_known, (lane, *seen, lane, key, 0, 9)
    yield sql.named, name
    yield sql.named_known, (lane, *seen, *name)
    yield sql.payloads, (lane, key, 0, 9)
    yield sql.archived, (lane, key)
    yield sql.feed, (lane, 0, 9)
    yield sql.feed_known, (lane, *seen, lane, 0, 9)
    yield sql.names_beside([key]), (lane, *seen, lane, key)
    yield sql.fingerprint, (lane, mark)
    yield sql.conversations, (lane, lane, "", 0, 9)


def test_a_lock_at_a_node_is_waited_for_no_longer_than_asked(citus: Citus, spread: str) -> None:
    """The node knows nothing of the client's `lock_timeout`: the statement is cancelled."""
    with EventStore.open(spread, busy_timeout=0.5) as store:
        (lane, held), (_, free) = names_by_lane(store, 2).items()
        for name in (held, free):
            store.conversation(name).append(message("a"))
        with citus.connected(spread.rpartition("/")[2], 1) as connection:
            connection.exec_driver_sql("BEGIN")
            connection.execute(LOCK, {"lane": lane})
            with pytest.raises(StoreBusy, match="nothing was written, try again"):
                store.conversation(held).append(message("b"))
            store.conversation(free).append(message("b"))
            connection.exec_driver_sql("ROLLBACK")
        store.conversation(held).append(message("c"))
        assert texts(store, held) == ["a", "c"]
