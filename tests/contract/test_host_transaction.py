"""Inside a transaction of the host's own, all guarantees of the store hold, on every engine.

The contract's tests are written for `EventStore`. Here each method and read of a conversation is
one transaction of a host, over SQLAlchemy and a driver of the host's choice. What only a host can
do (roll back, continue after an error, wait with a lane locked) has tests of its own below.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import aiosqlite
import pytest
from sqlalchemy import Connection, Engine, NullPool, create_engine, event, make_url, text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from support.losses import restored
from support.storages import open_limited
from support.tiers import also_long

from eventstore import (
    AsyncDispatcher,
    AsyncEventStore,
    Conversation,
    Dispatcher,
    EventStore,
    EventStoreError,
    IllegalTransition,
    StorageError,
    ToolPending,
    VersionConflict,
)
from eventstore.errors import StoreBusy, StoreClosed, StoreCorrupt
from eventstore.storage.interface import Append, Rewrite, Storage
from eventstore.storage.sql import host_connection as host_transaction
from eventstore.storage.sqlite import backend as sqlite_backend
from eventstore.storage.sqlite.driver import driver
from eventstore.testing import (
    OpenStorage,
    SharedEventStoreContract,
    completed,
    message,
    pending,
    run_concurrently,
    running,
)

if TYPE_CHECKING:
    from support.servers import Server

# MySQL has MariaDB's drivers and statements, and psycopg is the driver of the blocking hosts.
HOSTS = also_long(["sqlite", "postgresql", "mariadb"], ["mysql"])
ASYNC_HOSTS = also_long(
    ["sqlite+aiosqlite", "postgresql+asyncpg", "mariadb+asyncmy"],
    ["postgresql+psycopg", "mysql+asyncmy"],
)
# What is asyncmy's own, the tests of asyncio below show. The contract is run through asyncpg, and
# on MariaDB by the blocking hosts.
CONTRACT_ASYNC_HOSTS = also_long(["sqlite+aiosqlite", "postgresql+asyncpg"], ["mariadb+asyncmy"])


def url_of(request: pytest.FixtureRequest, host: str, *, emptied: bool = False) -> str:
    """Return the URL of a database with a store in it, new or emptied."""
    kind = host.partition("+")[0]
    if kind == "sqlite":
        path: Path = request.getfixturevalue("tmp_path")
        url = f"sqlite:///{path / 'agent.db'}"
        EventStore.open(url).close()
        return url
    server: Server = request.getfixturevalue(kind)
    return server.emptied() if emptied else server.database(migrated=True)


def engine_at(url: str, **options: Any) -> Engine:
    """Return a host's engine."""
    if url.startswith("sqlite"):
        options["module"] = driver()
        options.setdefault("connect_args", {"timeout": 60})  # 5 s are short where much runs
    return create_engine(url, **options)


def async_engine_at(url: str, host: str, **options: Any) -> AsyncEngine:
    """Return a host's engine for asyncio, with the given driver."""
    there = make_url(url).set(drivername=host)
    if host == "sqlite+aiosqlite":  # by the same copy of SQLite as the store
        connect = partial(driver().connect, there.database, timeout=60)
        options["async_creator"] = lambda: aiosqlite.Connection(connect, 64)
    if host.endswith("asyncmy"):
        there = there.set(query={})
    return create_async_engine(there, poolclass=NullPool, **options)


# the contract


class Hosting:
    """A store whose conversations are read and appended to in transactions of a host."""

    def __init__(self, store: EventStore, within: Callable[..., Any]) -> None:
        self._store = store
        self._within = within

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def __enter__(self) -> Any:
        return self._store.__enter__()

    def __exit__(self, *error: object) -> None:
        self._store.__exit__(*error)

    def conversation(self, name: str) -> Any:
        """Return a conversation whose every use is a transaction."""
        return Committing(self._store, name, self._within)


class Committing:
    """A conversation that is used in one committed transaction of the host per call."""

    def __init__(self, store: EventStore, name: str, within: Callable[..., Any]) -> None:
        self._chat = store.conversation(name)
        self._use = partial(within, store, name)

    def __getattr__(self, name: str) -> Any:
        if name in ("follow", "decision"):
            return getattr(self._chat, name)
        if not callable(getattr(Conversation, name)):
            return self._use(name)
        return partial(self._use, name)

    @contextmanager
    def running(self, call_id: str) -> Iterator[Any]:
        """Begin and end an attempt, each in a transaction."""
        self.start(call_id)
        chat = self

        class Attempt:
            """The part of an attempt that the contract uses."""

            def complete(self, result: Any) -> None:
                """Record the result."""
                chat.complete(call_id, result)

        yield Attempt()


class _Hosted(SharedEventStoreContract):
    """The contract with few rows at once, so that short tests read many times."""

    more_than_a_chunk = 14

    @pytest.fixture
    def make_store(self, within: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that makes stores used through transactions of a host."""
        return lambda *given: Hosting(EventStore(*given), within)

    @pytest.fixture
    def open_storage(self, url: str) -> Iterator[OpenStorage]:
        """Return a function that opens storages on one database."""
        opened: list[Storage] = []

        def open_storage(tenant: str = "") -> Storage:
            opened.append(open_limited(url, tenant, chunk_rows=4))
            return opened[-1]

        yield open_storage
        for storage in opened:
            storage.close()


@pytest.mark.parametrize("host", HOSTS)
class TestBlockingHosts(_Hosted):
    """The contract over a `Connection`."""

    @pytest.fixture
    def url(self, request: pytest.FixtureRequest, host: str) -> str:
        """Return the URL of the database."""
        return url_of(request, host, emptied=True)

    @pytest.fixture
    def within(self, url: str) -> Iterator[Callable[..., Any]]:
        """Return a function that uses a conversation in a committed transaction."""
        engine = engine_at(url)

        def within(store: EventStore, chat: str, name: str, *given: Any, **options: Any) -> Any:
            with engine.begin() as connection:
                found = getattr(store.conversation(chat, connection=connection), name)
                value = found(*given, **options) if callable(found) else found
                return list(value) if isinstance(value, Iterator) else value

        yield within
        engine.dispose()


@pytest.mark.parametrize("host", CONTRACT_ASYNC_HOSTS)
class TestAsyncHosts(_Hosted):
    """The contract over an `AsyncConnection`."""

    @pytest.fixture
    def url(self, request: pytest.FixtureRequest, host: str) -> str:
        """Return the URL of the database."""
        return url_of(request, host, emptied=True)

    @pytest.fixture
    def within(self, url: str, host: str) -> Iterator[Callable[..., Any]]:
        """Return a function that uses a conversation in a committed transaction."""
        engine = async_engine_at(url, host)
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()

        async def used(store: EventStore, chat: str, name: str, *given: Any, **options: Any) -> Any:
            beside = AsyncEventStore(store)
            async with engine.begin() as connection:
                found = getattr(beside.conversation(chat, connection=connection), name)
                value = found(*given, **options) if callable(found) else found
                if hasattr(value, "__aiter__"):
                    return iter([recorded async for recorded in value])
                return await value

        def within(*given: Any, **options: Any) -> Any:
            return asyncio.run_coroutine_threadsafe(used(*given, **options), loop).result()

        yield within
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


# what only a host can do


class World:
    """A store, and a host's engine on its database, which has a table of the host's."""

    def __init__(self, url: str, host: str) -> None:
        self.url = url
        self.host = host
        self.store = EventStore.open(url)
        self.chat = self.store.conversation("chat")
        self.engine = engine_at(url)
        with self.engine.begin() as connection:
            connection.execute(text("CREATE TABLE orders (number INTEGER)"))

    def orders(self) -> int:
        """Return the number of orders that the host has."""
        with self.engine.connect() as connection:
            return int(connection.execute(text("SELECT COUNT(*) FROM orders")).scalar_one())

    def tags(self) -> list[str]:
        """Return the tags of the conversation's events."""
        return [recorded.event.tag for recorded in self.chat.events()]

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()
        self.store.close()


ORDER = text("INSERT INTO orders VALUES (7)")


@pytest.fixture(params=HOSTS)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """Return a world on each engine."""
    with closing(World(url_of(request, request.param), request.param)) as world:
        yield world


def test_events_stand_with_the_hosts_transaction(world: World) -> None:
    """Events are not visible before its commit; later appends follow them."""
    world.chat.append(message())
    follow = world.store.follow(timeout=0)
    with world.engine.begin() as connection:
        connection.execute(ORDER)
        chat = world.store.conversation("chat", connection=connection)
        call = chat.request("pay", {"order": 7})
        with chat.running(call.id) as attempt:
            attempt.complete("päid 😀")
        assert [r.version for r in chat.events()] == [1, 2, 3, 4]
        assert chat.version == 4
        assert chat.tools[call.id].response is not None
        assert [r.event.tag for r in follow] == ["message"]
        assert world.chat.version == 1
    assert [r.event.tag for r in follow] == ["pending", "running", "completed"]
    assert world.orders() == 1
    with pytest.raises(IllegalTransition):
        world.chat.start(call.id)
    assert world.chat.append(message())[0].version == 5
    assert len(list(world.store.read_fingerprint(call.fingerprint or ""))) == 3
    assert list(world.store.verify()) == []


def test_events_fall_with_the_hosts_transaction(world: World) -> None:
    """No position is used up, and the store does not remember the lost events."""
    world.chat.append(pending())
    with world.engine.connect() as connection:
        connection.execute(ORDER)
        written = world.chat.append(running(), completed(), connection=connection)
        other = world.store.conversation("other", connection=connection)
        other.append(message())
        connection.rollback()
    assert (world.tags(), world.orders()) == (["pending"], 0)
    assert list(world.store.conversations()) == [("chat", 1)]
    again = world.chat.append(running())
    assert (again[0].version, again[0].position) == (written[0].version, written[0].position)
    assert list(world.store.verify()) == []


def test_events_fall_with_a_savepoint(world: World) -> None:
    """Events before the savepoint stay, and later appends follow those."""
    with world.engine.begin() as connection:
        chat = world.store.conversation("chat", connection=connection)
        chat.append(pending())
        with connection.begin_nested() as savepoint:
            chat.append(running(), completed())
            savepoint.rollback()
        with connection.begin_nested():
            chat.append(running())
        with pytest.raises(IllegalTransition):
            chat.append(running())
    assert world.tags() == ["pending", "running"]
    assert list(world.store.verify()) == []


def test_a_refusal_leaves_the_hosts_transaction_as_it_was(world: World) -> None:
    """A host that goes on after the error commits its other work."""
    world.chat.append(pending())
    with world.engine.begin() as connection:
        connection.execute(ORDER)
        with pytest.raises(IllegalTransition):
            world.chat.append(message(), completed(), running(), connection=connection)
        with pytest.raises(VersionConflict) as refused:
            world.chat.append(message(), expected_version=0, connection=connection)
        world.chat.append(running(), expected_version=1, connection=connection)
    assert refused.value.actual == 1
    assert (world.tags(), world.orders()) == (["pending", "running"], 1)


def test_an_append_that_breaks_off_leaves_nothing(world: World) -> None:
    """This holds even if the host commits after the error."""

    @event.listens_for(world.engine, "before_cursor_execute")
    def interrupt(_: Any, __: Any, statement: str, *___: Any) -> None:
        if statement.startswith("INSERT INTO toolledger_fingerprints"):
            raise MemoryError

    with world.engine.begin() as connection:
        connection.execute(ORDER)
        with pytest.raises(MemoryError):
            world.chat.append(message(), pending(), connection=connection)
        world.chat.append(message("other"), connection=connection)
    assert (world.tags(), world.orders()) == (["message"], 1)
    assert list(world.store.verify()) == []


def test_an_append_repeated_after_a_rollback_is_stored_once(world: World) -> None:
    """Its ids are recognised, through the connection or without it."""
    ids = [uuid4(), uuid4()]
    append = partial(world.chat.append, pending(), running(), event_ids=ids)
    with world.engine.connect() as connection:
        append(connection=connection)
        connection.rollback()
    with world.engine.begin() as connection:
        first = append(connection=connection)
        assert append(connection=connection) == first
    assert append() == first
    assert world.tags() == ["pending", "running"]


def test_messages_are_recorded_and_imported_inside(world: World) -> None:
    """All methods of a conversation work in one transaction."""
    call = {"id": "call_1", "type": "function", "function": {"name": "pay", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "pay"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "paid"},
    ]
    with world.engine.begin() as connection:
        chat = world.store.conversation("chat", connection=connection)
        assert [tool.id for tool in chat.record_messages(messages)] == ["call_1"]
        again = world.store.conversation("imported", connection=connection)
        assert again.import_messages(messages).added == 3
        assert again.import_messages(messages).skipped == 3
        assert chat.complete("call_1", "paid").status.name == "Completed"
    assert world.tags() == ["message", "message", "pending", "completed"]
    assert world.store.conversation("imported").import_messages(messages).skipped == 3


def test_a_conversation_is_of_the_stores_tenant(world: World) -> None:
    """The connection does not change the tenant."""
    with closing(EventStore.open(world.url, tenant="acme")) as acme:
        world.chat.append(message())
        with world.engine.begin() as connection:
            chat = acme.conversation("chat", connection=connection)
            assert list(chat.events()) == []
            chat.append(pending())
        assert world.tags() == ["message"]
        assert list(acme.conversations()) == [("chat", 1)]


def test_a_redaction_is_refused_in_a_hosts_transaction(world: World) -> None:
    """A rollback of the host's would bring back what was told to be gone."""
    request = Append("chat", 0, 0, (), lambda _: (), [Rewrite(1, b"{}")])
    with world.engine.begin() as connection:
        storage = host_transaction.ConnectionStorage(world.store.session.storage, connection)
        with pytest.raises(StorageError, match=r"transaction of its own.*EventStore\.redact"):
            storage.append([request])


def test_other_writers_wait_for_the_hosts_end(world: World) -> None:
    """Their events are stored after it."""
    world.chat.append(pending())
    results: list[Any] = []

    def start() -> None:
        try:
            results.append(world.chat.start("call_1"))
        except IllegalTransition as refused:
            results.append(refused)

    with world.engine.begin() as connection:
        chat = world.store.conversation("chat", connection=connection)
        chat.append(message())
        thread = threading.Thread(target=start)
        thread.start()
        chat.start("call_1")
    thread.join()
    assert [type(result) for result in results] == [IllegalTransition]
    assert world.tags() == ["pending", "message", "running"]


def test_appending_beside_ones_own_transaction_raises_store_busy(world: World) -> None:
    """The thread waits for itself until `busy_timeout`."""
    with closing(EventStore.open(world.url, busy_timeout=0.25)) as impatient:
        chat = impatient.conversation("chat")
        with world.engine.begin() as connection:
            chat.append(message("kept"), connection=connection)
            with pytest.raises(StoreBusy):
                chat.append(message("beside"))
        chat.append(message("behind"))
    assert [r.event.parts[0].text for r in world.chat.events()] == ["kept", "behind"]  # type: ignore[union-attr]


def test_a_transaction_that_cannot_see_what_others_wrote_is_refused(world: World) -> None:
    """The host rolls back and begins again, and nothing is lost."""
    isolation = {} if world.host == "sqlite" else {"isolation_level": "REPEATABLE READ"}
    with world.engine.connect().execution_options(**isolation) as connection:
        if not isolation:
            connection.exec_driver_sql("BEGIN")
        chat = world.store.conversation("chat", connection=connection)
        assert chat.version == 0
        world.chat.append(message("theirs"))
        with pytest.raises(StoreBusy, match="roll the transaction back, and begin it") as refused:
            chat.append(message("ours"))
        assert ("BEGIN IMMEDIATE" if not isolation else "READ COMMITTED") in str(refused.value)
        connection.rollback()
        chat.append(message("ours"))
        connection.commit()
    assert [r.event.parts[0].text for r in world.chat.events()] == ["theirs", "ours"]  # type: ignore[union-attr]


def test_many_hosts_and_stores_leave_no_gap(world: World) -> None:
    """Hosts commit and roll back, and the feed has every committed event, in order."""

    def host(worker: int) -> int:
        chance = random.Random(worker)
        kept = 0
        for n in range(6):
            name = f"chat-{chance.randrange(3)}"
            if chance.random() < 0.3:
                world.store.conversation(name).append(message(f"{worker}.{n}"))
                kept += 1
                continue
            with world.engine.connect() as connection:
                chat = world.store.conversation(name, connection=connection)
                for piece in "ab":
                    chat.append(message(f"{worker}.{n}.{piece}"))
                if chance.random() < 0.4:
                    connection.rollback()
                else:
                    connection.commit()
                    kept += 2
        return kept

    kept = run_concurrently(*(partial(host, worker) for worker in range(6)))
    seen = list(world.store.follow(timeout=0))
    assert len(seen) == sum(kept)
    for name, version in world.store.conversations():
        versions = [r.version for r in seen if r.conversation_id == name]
        assert versions == list(range(1, version + 1))
    assert list(world.store.verify()) == []


def test_a_transaction_does_not_read_what_the_store_remembers(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store's events are committed, so only later ones of other writers are read."""
    read: list[int] = []

    def after(self: Any, lane: int, key: int, name: str, version: int) -> Any:
        read.append(version)
        return whole(self, lane, key, name, version)

    whole = host_transaction.ConnectionStorage._after
    monkeypatch.setattr(host_transaction.ConnectionStorage, "_after", after)
    world.chat.append(message(), pending())
    with world.engine.connect() as connection:
        world.chat.append(running(), connection=connection)
        connection.rollback()
    with closing(EventStore.open(world.url)) as other:
        other.conversation("chat").append(running())
    with world.engine.begin() as connection:
        world.chat.append(completed(), connection=connection)
    assert read == [2, 2]
    assert world.tags() == ["message", "pending", "running", "completed"]


def test_a_host_does_not_wait_for_an_append_through_the_store(world: World) -> None:
    """That append may wait for the host, so the host reads the log instead."""
    world.chat.append(pending())
    with world.engine.begin() as connection:
        chat = world.store.conversation("chat", connection=connection)
        held, done = threading.Event(), threading.Event()

        def append() -> None:
            with world.store.session.committer._lock:
                held.set()
                done.wait()

        thread = threading.Thread(target=append)
        thread.start()
        held.wait()
        chat.append(running())
        done.set()
        thread.join()
    assert world.tags() == ["pending", "running"]


def test_an_older_copy_of_the_database_is_not_written_to(world: World) -> None:
    """The store remembers events that the copy does not have."""
    with closing(EventStore.open(world.url)) as other:
        other.conversation("other").append(message())
    world.chat.append(message("first"), message("second"))
    with world.engine.connect() as connection:
        for table in ("events", "conversations"):
            connection.execute(text(f"DELETE FROM toolledger_{table}"))  # noqa: S608 - ours
        connection.execute(text("UPDATE toolledger_lanes SET position = 0"))
        with pytest.raises(StoreCorrupt, match="older copy"):
            world.chat.append(message("third"), connection=connection)
        connection.rollback()
        with pytest.raises(StoreCorrupt, match="until the loss is accepted"):
            world.chat.append(message("third"), connection=connection)
    assert world.tags() == ["message", "message"]
    world.store.accept_loss()
    with world.engine.begin() as connection:
        world.chat.append(message("third"), connection=connection)
    assert world.tags() == ["message"] * 3


def test_an_older_copy_is_noticed_by_the_loss_of_another_conversation(world: World) -> None:
    """The host's own conversation is there whole, and its lane is shorter than it was."""
    world.chat.append(message("kept"))
    lane_of = world.store.session.storage.lane_of
    near = next(name for n in range(10_000) if lane_of(name := f"other-{n}") == lane_of("chat"))
    (lost,) = world.store.conversation(near).append(message("lost"))
    with world.engine.connect() as connection:
        for statement in restored(lost.lane, lost.position - 1):
            connection.execute(text(statement))
        with pytest.raises(StoreCorrupt, match=f"was read up to {lost.position} before"):
            world.chat.append(message("more"), connection=connection)
        connection.rollback()


def test_followers_get_the_events_after_the_commit(world: World) -> None:
    """Followers of the store and of the conversation see them at their next poll."""
    found: list[Any] = []
    feeds = world.store.follow(poll=0.005), world.chat.follow(poll=0.005)
    threads = [threading.Thread(target=lambda f=feed: found.append(next(f))) for feed in feeds]
    for thread in threads:
        thread.start()
    with world.engine.begin() as connection:
        (written,) = world.chat.append(message(), connection=connection)
        assert found == []
    for thread in threads:
        thread.join()
    assert found == [written, written]


def test_an_orm_session_lends_its_connection(world: World) -> None:
    """The session's commit stores the events."""
    with Session(world.engine) as session:
        session.execute(ORDER)
        world.chat.append(pending(), connection=session.connection())
        session.commit()
        world.chat.append(running(), connection=session.connection())
        session.rollback()
    assert (world.tags(), world.orders()) == (["pending"], 1)


def test_a_closed_store_takes_no_connection(world: World) -> None:
    """A closed store refuses every other use, too."""
    with world.engine.connect() as connection:
        chat = world.store.conversation("chat", connection=connection)
        world.store.close()
        for attempt in (
            lambda: chat.append(message()),
            lambda: chat.version,
            lambda: world.store.conversation("chat", connection=connection),
        ):
            with pytest.raises(StoreClosed):
                attempt()


# wrong input


def test_a_connection_to_another_database_is_refused(
    world: World, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """That database may hold a store or not; the host's transaction continues."""
    other = f"sqlite:///{tmp_path / 'other.db'}"
    EventStore.open(other).close()
    strangers = [other, f"sqlite:///{tmp_path / 'empty.db'}"]
    if world.host != "sqlite":
        server = request.getfixturevalue(world.host)
        own = server.database()
        EventStore.open(own).close()
        strangers += [own, server.database()]
    for stranger in strangers:
        engine = engine_at(stranger)
        with engine.connect() as connection:
            chat = world.store.conversation("chat", connection=connection)
            with pytest.raises(ValueError, match="to the store's own database"):
                chat.append(message())
            with pytest.raises(ValueError, match="to the store's own database"):
                list(chat.events())
            assert connection.execute(text("SELECT 1")).scalar() == 1
        engine.dispose()


def test_a_connection_that_commits_each_statement_is_refused(world: World) -> None:
    """Such a connection has no transaction that the events could join."""
    with world.engine.connect() as connection:
        each = connection.execution_options(isolation_level="AUTOCOMMIT")
        with pytest.raises(ValueError, match="autocommit mode"):
            world.chat.append(message(), connection=each)
    assert world.tags() == []


def test_a_closed_connection_is_refused(world: World) -> None:
    """The error is raised before any statement."""
    with world.engine.connect() as connection:
        chat = world.store.conversation("chat", connection=connection)
    for use in (lambda: chat.append(message()), lambda: list(chat.events())):
        with pytest.raises(ValueError, match="the connection is closed"):
            use()


def test_an_unusable_connection_is_refused(world: World) -> None:
    """The error says what to pass instead."""
    with Session(world.engine) as session:
        for wrong in (world.engine, session, "sqlite://"):
            with pytest.raises(TypeError, match=r"pass a SQLAlchemy Connection .*session\.connect"):
                world.store.conversation("chat", connection=wrong)  # type: ignore[arg-type]
    with world.engine.connect() as connection:
        chat = world.store.conversation("chat", connection=connection)
        with pytest.raises(TypeError, match="uses a connection already and takes no other, got "):
            chat.append(message(), connection=connection)


def test_waiting_inside_a_transaction_is_refused(world: World) -> None:
    """The awaited event would not become visible."""
    with world.engine.connect() as connection:
        chat = world.store.conversation("chat", connection=connection)
        for wait in (chat.follow, partial(chat.decision, "call_1")):
            with pytest.raises(EventStoreError, match="without a connection"):
                wait()
        with pytest.raises(EventStoreError, match="without a connection"):
            Dispatcher(chat, [])


def test_an_ended_transaction_is_reported(world: World) -> None:
    """The library's own error is raised, whatever ended the transaction."""
    with world.engine.connect() as connection:
        chat = world.store.conversation("chat", connection=connection)
        chat.append(pending())
        connection.invalidate()
        for use in (lambda: chat.append(running()), lambda: list(chat.events())):
            with pytest.raises(StorageError, match="roll"):
                use()
        connection.rollback()
        chat.append(message())
        connection.commit()
    assert world.tags() == ["message"]


def test_a_lane_without_a_counter_is_damage(world: World) -> None:
    """The store raises the same error."""
    with world.engine.connect() as connection:
        chat = world.store.conversation("chat", connection=connection)
        connection.execute(text("DELETE FROM toolledger_lanes"))
        with pytest.raises(StoreCorrupt, match="no counter"):
            chat.append(message())
        connection.rollback()


@pytest.mark.parametrize("world", HOSTS[1:], indirect=True)
def test_an_id_that_a_server_cannot_hold_is_refused(world: World) -> None:
    """The error is raised before the server cuts the id or aborts the transaction."""
    with world.engine.begin() as connection:
        connection.execute(ORDER)
        with pytest.raises(ValueError, match="512 at most"):
            world.store.conversation("c" * 513, connection=connection).append(message())
    assert world.orders() == 1


# SQLite


@pytest.fixture
def file(tmp_path: Path) -> Iterator[World]:
    """Return a file with a store."""
    url = f"sqlite:///{tmp_path / 'agent.db'}"
    EventStore.open(url).close()
    with closing(World(url, "sqlite")) as world:
        yield world


def test_a_host_that_begins_by_itself_is_followed(file: World) -> None:
    """SQLAlchemy recommends this for SQLite: an event begins the transaction, not the driver."""
    engine = engine_at(file.url)

    @event.listens_for(engine, "connect")
    def manual(connection: Any, _: Any) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    with engine.connect() as connection:
        file.chat.append(message(), connection=connection)
        connection.rollback()
        file.chat.append(pending(), connection=connection)
        connection.commit()
    engine.dispose()
    assert file.tags() == ["pending"]


def test_another_copy_of_sqlite_is_refused(file: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two copies in one process would release each other's locks."""

    class Another:
        """Another copy of SQLite."""

        __name__ = "another"
        Connection = type("Connection", (), {})

    with file.engine.connect() as connection:
        chat = file.store.conversation("chat", connection=connection)
        monkeypatch.setattr(sqlite_backend, "driver", Another)
        with pytest.raises(ValueError, match=r"two copies .* module=another"):
            chat.append(message())


def test_a_database_in_memory_is_of_the_store_alone() -> None:
    """A host cannot have a connection to it."""
    engine = engine_at("sqlite://")
    with EventStore.open("sqlite://") as store, engine.connect() as connection:
        chat = store.conversation("chat", connection=connection)
        with pytest.raises(ValueError, match="to the store's own database"):
            chat.append(message())
    engine.dispose()


# asyncio


class AsyncWorld(World):
    """A world with a host's engine for asyncio."""

    def __init__(self, url: str, host: str) -> None:
        super().__init__(url, host)
        self.beside = AsyncEventStore(self.store)
        self.hosts = async_engine_at(url, host)


@pytest.fixture(params=ASYNC_HOSTS)
def async_world(request: pytest.FixtureRequest) -> Iterator[AsyncWorld]:
    """Return a world for each driver."""
    url = url_of(request, request.param)
    with closing(AsyncWorld(url, request.param)) as world:
        yield world


def test_a_task_appends_inside_its_transaction(async_world: AsyncWorld) -> None:
    """Every method works, and its events commit or roll back with the transaction."""
    store = async_world.beside

    async def pay(*, kept: bool) -> None:
        async with async_world.hosts.connect() as connection:
            await connection.execute(ORDER)
            chat = store.conversation("chat", connection=connection)
            await chat.add_message("user", "päy 😀")
            call = await chat.request("pay", {"order": 7})
            async with chat.running(call.id) as attempt:
                await attempt.complete("paid")
            await store.conversation("chat").append(pending("2"), connection=connection)
            await chat.record({"role": "assistant", "content": "done"})
            tags = [recorded.event.tag async for recorded in chat.events()]
            assert tags == ["message", "pending", "running", "completed", "pending", "message"]
            assert await chat.version == 6
            assert list(await chat.tools()) == [call.id, "2"]
            assert await store.conversation("chat").version == 0
            async with connection.begin_nested() as savepoint:
                await chat.append(message())
                await savepoint.rollback()
            with pytest.raises(IllegalTransition):
                await chat.start(call.id)
            imported = store.conversation("imported", connection=connection)
            messages = [{"role": "user", "content": "hello"}]
            assert (await imported.import_messages(messages)).added == 1
            await (connection.commit() if kept else connection.rollback())

    asyncio.run(pay(kept=False))
    assert (list(async_world.store.read()), async_world.orders()) == ([], 0)
    asyncio.run(pay(kept=True))
    assert (async_world.chat.version, async_world.orders()) == (6, 1)
    assert list(async_world.store.verify()) == []


def test_a_cancelled_host_leaves_nothing(async_world: AsyncWorld) -> None:
    """Its transaction is rolled back with its events."""

    async def main() -> None:
        begun = asyncio.get_running_loop().create_future()

        async def work() -> None:
            async with async_world.hosts.begin() as connection:
                chat = async_world.beside.conversation("chat", connection=connection)
                await chat.append(pending())
                async with chat.running("call_1"):
                    begun.set_result(None)
                    await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await asyncio.wait((task, begun), return_when=asyncio.FIRST_COMPLETED)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await async_world.beside.conversation("chat").append(message())

    asyncio.run(main())
    assert async_world.tags() == ["message"]


def test_an_async_session_lends_its_connection(async_world: AsyncWorld) -> None:
    """The session's commit stores the events."""

    async def main() -> None:
        chat = async_world.beside.conversation("chat")
        async with AsyncSession(async_world.hosts) as session:
            await session.execute(ORDER)
            await chat.append(pending(), connection=await session.connection())
            await session.commit()

    asyncio.run(main())
    assert (async_world.tags(), async_world.orders()) == (["pending"], 1)


def test_an_async_host_gets_an_error_that_says_what_is_wrong(async_world: AsyncWorld) -> None:
    """The error says what to pass instead."""
    chat = async_world.beside.conversation("chat")

    async def main() -> None:
        waiting = async_world.hosts.connect()
        with pytest.raises(ValueError, match="async with"):
            await chat.append(message(), connection=waiting)
        async with waiting as connection:
            with pytest.raises(TypeError, match="AsyncConnection goes to AsyncEventStore"):
                async_world.chat.append(message(), connection=connection)  # type: ignore[arg-type]
            inside = async_world.beside.conversation("chat", connection=connection)
            with pytest.raises(
                TypeError, match="uses a connection already and takes no other, got "
            ):
                await inside.append(message(), connection=connection)
            with pytest.raises(EventStoreError, match="without a connection"):
                inside.follow()
            with pytest.raises(EventStoreError, match="without a connection"):
                await inside.decision("call_1")
            with pytest.raises(EventStoreError, match="without a connection"):
                AsyncDispatcher(inside, [])
            each = await connection.execution_options(isolation_level="AUTOCOMMIT")
            with pytest.raises(ValueError, match="autocommit mode"):
                await chat.append(message(), connection=each)
        with pytest.raises(TypeError, match="a Connection goes to EventStore"):
            await chat.append(message(), connection=async_world.engine)  # type: ignore[arg-type]

    asyncio.run(main())
    assert async_world.tags() == []


def test_an_error_of_another_driver_becomes_the_librarys(async_world: AsyncWorld) -> None:
    """A lane that is locked for too long is `StoreBusy`, whatever driver the host has."""
    patience = {
        "sqlite": "PRAGMA busy_timeout = 1",
        "postgresql": "SET lock_timeout = 1",
    }.get(async_world.hosts.dialect.name, "SET innodb_lock_wait_timeout = 1")

    async def main() -> None:
        async with async_world.hosts.connect() as connection:
            await connection.execute(text(patience))
            await connection.commit()
            with pytest.raises(StoreBusy, match="roll the transaction back"):
                await async_world.beside.conversation("chat").append(
                    message("late"), connection=connection
                )

    with async_world.engine.begin() as connection:
        async_world.chat.append(ToolPending(pending().call), connection=connection)
        asyncio.run(main())
    assert async_world.tags() == ["pending"]
