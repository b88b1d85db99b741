"""PostgreSQL's notifications: a follower is woken at once by appends of another process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from threading import Event, Thread
from typing import TYPE_CHECKING

import psycopg
import pytest
from sqlalchemy import create_engine, make_url
from sqlalchemy.exc import DBAPIError
from support.storages import sql_storage_of

from eventstore import EventStore, StorageError, StoreCorrupt
from eventstore.storage.postgresql import notify as notices
from eventstore.storage.postgresql.notify import CHANNEL, Notifications
from eventstore.testing import message

if TYPE_CHECKING:
    from support.servers import PostgreSQL

APPENDING = """
import sys
from eventstore import EventStore
with EventStore.open(sys.argv[1]) as store:
    store.conversation("told").add_message("user", "from afar")
"""

LONG = 3600.0
"""Seconds between two looks: what comes sooner was heard of."""


@pytest.fixture
def url(postgresql: PostgreSQL) -> str:
    """Return the URL of a database with a store."""
    return postgresql.database(migrated=True)


@pytest.fixture
def listening(url: str) -> Iterator[psycopg.Connection]:
    """Return a connection that receives every notification."""
    place = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute(f"LISTEN {CHANNEL}")
        yield connection


def append_elsewhere(url: str) -> None:
    """Append one event in another process, which ends at once."""
    subprocess.run([sys.executable, "-c", APPENDING, url], check=True, timeout=120)


def hints(listening: psycopg.Connection, seconds: float) -> list[str]:
    """Return the notifications that come within so many seconds of one another."""
    found: list[str] = []
    while some := list(listening.notifies(timeout=seconds, stop_after=1)):
        found += [notice.payload for notice in some]
    return found


def notifications(store: EventStore) -> Notifications:
    """Return what a store on PostgreSQL tells other processes with."""
    found = sql_storage_of(store)._hints
    assert isinstance(found, Notifications)
    return found


def listeners(listening: psycopg.Connection, but: int = 0) -> list[int]:
    """Wait until other connections listen on the database; return their process ids."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        found = listening.execute(
            "SELECT pid, pg_sleep(0.01) FROM pg_stat_activity WHERE query LIKE 'LISTEN%%' "
            "AND pid NOT IN (pg_backend_pid(), %s) AND datname = current_database()",
            (but,),
        ).fetchall()
        if found:
            return [pid for pid, _ in found]
    raise AssertionError("nobody listens")


def test_a_follower_is_woken_by_appends_in_another_process(
    url: str, listening: psycopg.Connection
) -> None:
    """A follower does not wait for its next poll, even if the listening connection was lost."""
    with EventStore.open(url) as store, ThreadPoolExecutor(1) as pool:
        notifications(store).listen_retry_seconds = 0.01
        follow = store.follow(poll=LONG, timeout=120)
        awaited = pool.submit(next, follow)
        (listener,) = listeners(listening)
        append_elsewhere(url)
        assert awaited.result(60).version == 1

        awaited = pool.submit(next, follow)
        listening.execute("SELECT pg_terminate_backend(%s)", (listener,))
        assert listeners(listening, but=listener) != [listener]
        append_elsewhere(url)
        assert awaited.result(60).version == 2


def test_a_follower_is_woken_by_a_host_s_commit(url: str, listening: psycopg.Connection) -> None:
    """When the host gives its connection back, or begins another transaction on it."""
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    with EventStore.open(url) as store, ThreadPoolExecutor(1) as pool:
        follow = store.follow(poll=LONG, timeout=120)
        awaited = pool.submit(next, follow)
        listeners(listening)
        with engine.begin() as connection:
            store.conversation("told", connection=connection).append(message())
        assert awaited.result(60).version == 1

        awaited = pool.submit(next, follow)
        with engine.connect() as connection:
            with connection.begin():
                store.conversation("told", connection=connection).append(message())
            with connection.begin():
                assert awaited.result(60).version == 2
    engine.dispose()


def test_a_host_s_transaction_takes_no_lock_of_the_server_at_its_commit(url: str) -> None:
    """A NOTIFY in it would, and could not be prepared for a commit in two phases."""
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    with EventStore.open(url) as store, engine.connect() as connection:
        connection.exec_driver_sql("BEGIN")
        store.conversation("told", connection=connection).append(message())
        with pytest.raises(DBAPIError, match="prepared transactions are disabled"):
            connection.exec_driver_sql("PREPARE TRANSACTION 'host'")
    engine.dispose()


def test_a_listener_hears_only_a_part_where_lanes_live_on_several_nodes(
    url: str, listening: psycopg.Connection
) -> None:
    """A notification reaches one node alone: what is heard is heard, and polls go on as ever."""
    with EventStore.open(url) as store:
        log = sql_storage_of(store).log
        for apart in (False, True):
            log.backend.commits_by_lane = apart
            heard = Event()
            with Notifications(log).listen(heard.set) as hears:
                (listener,) = listeners(listening)
                assert heard.wait(60)  # it looks for what came before it listened
                assert hears() is not apart
            while listening.execute(
                "SELECT 1 FROM pg_stat_activity WHERE pid = %s", (listener,)
            ).fetchall():
                pass
            assert not hears()
        log.backend.commits_by_lane = False


@pytest.mark.slow
def test_an_idle_follower_asks_rarely_while_it_listens(
    postgresql: PostgreSQL, url: str, listening: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's count of its transactions, beside that of a follower which hears nothing."""
    deaf_url = postgresql.database(migrated=True)

    def transactions(of: str) -> int:
        count = "SELECT xact_commit FROM pg_stat_database WHERE datname ="
        ((found,),) = postgresql.execute(f"{count} '{make_url(of).database}'")
        return int(found)

    def unheard(_: Callable[[], object]) -> AbstractContextManager[None]:
        return nullcontext()

    with EventStore.open(url) as store, EventStore.open(deaf_url) as deaf:
        monkeypatch.setattr(notifications(deaf), "listen", unheard)
        with ThreadPoolExecutor(2) as pool:
            ends = [pool.submit(list, other.follow(timeout=60)) for other in (store, deaf)]
            listeners(listening)
            first, deaf_first = transactions(url), transactions(deaf_url)
            while transactions(deaf_url) < deaf_first + 150:
                pass
            asked = transactions(url) - first
            for other in (store, deaf):
                other.close()
            for end in ends:
                with suppress(StorageError):
                    end.result()
        assert asked < 50


def test_many_appends_send_few_notifications(url: str, listening: psycopg.Connection) -> None:
    """The first append is notified at once, the others together."""
    with EventStore.open(url) as store:
        chat = store.conversation("reported")
        for number in range(100):
            chat.append(message(str(number)))
        assert 1 <= len(hints(listening, 1.0)) < 50


def test_the_last_append_is_notified_before_the_store_is_closed(
    url: str, listening: psycopg.Connection
) -> None:
    """This holds for a process that ends then, and for many appends together."""
    append_elsewhere(url)
    (hint,) = hints(listening, 1.0)
    with EventStore.open(url) as store:
        epoch = store.session.storage.epoch
    assert hint.startswith(f"{epoch} ")


def test_no_notification_is_sent_without_an_append(url: str, listening: psycopg.Connection) -> None:
    """Opening and reading send none."""
    with EventStore.open(url) as store:
        assert list(store.read()) == []
    assert hints(listening, 0.5) == []


def test_the_notifying_thread_ends_when_it_is_idle(url: str) -> None:
    """The next append starts another thread."""
    with EventStore.open(url) as store:
        notifications(store).idle_seconds = 0.01
        chat = store.conversation("reported")
        for number in range(2):
            chat.append(message(str(number)))
            teller = notifications(store)._notifier
            if teller is not None:
                teller.join(60)
            assert notifications(store)._notifier is None


def test_a_listener_ignores_its_own_process(url: str, listening: psycopg.Connection) -> None:
    """Its notifier has woken the waiters already; notifications of another log are ignored, too."""
    with EventStore.open(url) as store:
        storage = store.session.storage
        heard = Event()
        counted: list[int] = []

        def hear() -> None:
            counted.append(1)
            heard.set()

        with storage.hints(hear):
            assert heard.wait(60)  # it listens now
            heard.clear()
            listening.execute(
                "SELECT pg_notify(%s, %s)", (CHANNEL, f"{storage.epoch} {notices._process()}")
            )
            listening.execute("SELECT pg_notify(%s, 'another log')", (CHANNEL,))
            listening.execute("SELECT pg_notify(%s, %s)", (CHANNEL, f"{storage.epoch} other"))
            assert heard.wait(60)
        assert len(counted) == 2


def test_an_append_succeeds_where_no_notifying_thread_can_start(
    url: str, listening: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python may be ending, or the system may be at its limit.

    The next append is notified again.
    """

    def refuse(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    with EventStore.open(url) as store:
        chat = store.conversation("reported")
        with monkeypatch.context() as limited:
            limited.setattr(Thread, "start", refuse)
            assert len(chat.append(message())) == 1
            with store.session.storage.hints(pytest.fail):
                pass
        assert hints(listening, 0.2) == []
        assert len(chat.append(message())) == 1
        assert len(hints(listening, 1.0)) == 1


def test_a_store_without_its_row_is_named(url: str, postgresql: PostgreSQL) -> None:
    """The error is raised before any notification."""
    postgresql.execute("DELETE FROM toolledger_store", database=url)
    with pytest.raises(StoreCorrupt, match="toolledger_store is empty"):
        EventStore.open(url)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_sends_its_own_notifications(
    url: str, listening: psycopg.Connection
) -> None:
    """The parent's thread does not exist in the child."""
    with EventStore.open(url) as store:
        store.conversation("reported").add_message("user", "of the parent")
        parent = hints(listening, 1.0)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                store.conversation("reported").add_message("user", "of the child")
                store.close()
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        reported = hints(listening, 1.0)
        assert reported
        assert set(reported).isdisjoint(parent)
