"""PostgreSQL's hints: a follower hears at once what another process appends."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread
from typing import TYPE_CHECKING

import psycopg
import pytest
from sqlalchemy import make_url

from eventstore import EventStore, StoreCorrupt
from eventstore.storage import notices
from eventstore.storage.notices import CHANNEL, NotifyingStorage
from eventstore.testing import message

if TYPE_CHECKING:
    from servers import PostgreSQL

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
    """A database with a store."""
    return postgresql.database(migrated=True)


@pytest.fixture
def listening(url: str) -> Iterator[psycopg.Connection]:
    """A connection that hears every hint."""
    place = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute(f"LISTEN {CHANNEL}")
        yield connection


def append_elsewhere(url: str) -> None:
    """One event, of another process that ends at once."""
    subprocess.run([sys.executable, "-c", APPENDING, url], check=True, timeout=120)


def hints(listening: psycopg.Connection, seconds: float) -> list[str]:
    """Those that come within so many seconds of one another."""
    found: list[str] = []
    while some := list(listening.notifies(timeout=seconds, stop_after=1)):
        found += [notice.payload for notice in some]
    return found


def listeners(listening: psycopg.Connection, but: int = 0) -> list[int]:
    """Wait until others listen on the database, too: their processes."""
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


def test_who_follows_hears_at_once_what_another_process_appends(
    url: str, listening: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long before it would look; also when the connection that listened was lost."""
    monkeypatch.setattr(notices, "RETRY", 0.01)
    with EventStore.open(url) as store, ThreadPoolExecutor(1) as pool:
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


def test_many_appends_are_one_hint(url: str, listening: psycopg.Connection) -> None:
    """The first is told at once, the others together."""
    with EventStore.open(url) as store:
        chat = store.conversation("told")
        for number in range(100):
            chat.append(message(str(number)))
        assert 1 <= len(hints(listening, 1.0)) < 50


def test_the_last_append_is_told_before_the_store_is_closed(
    url: str, listening: psycopg.Connection
) -> None:
    """Also by a process that ends then, and by the one that appended many together."""
    append_elsewhere(url)
    (hint,) = hints(listening, 1.0)
    with EventStore.open(url) as store:
        epoch = store._storage.epoch
    assert hint.startswith(f"{epoch} ")


def test_it_tells_nothing_where_nothing_was_appended(
    url: str, listening: psycopg.Connection
) -> None:
    """Reading is silent."""
    with EventStore.open(url) as store:
        assert list(store.read()) == []
    assert hints(listening, 0.5) == []


def test_the_thread_ends_when_there_is_nothing_to_tell(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And another begins with the next append."""
    monkeypatch.setattr(notices, "LINGER", 0.01)
    with EventStore.open(url) as store:
        chat = store.conversation("told")
        for number in range(2):
            chat.append(message(str(number)))
            teller = store._storage._teller  # type: ignore[attr-defined]
            if teller is not None:
                teller.join(60)
            assert store._storage._teller is None  # type: ignore[attr-defined]


def test_who_listens_is_not_told_of_his_own_process(
    url: str, listening: psycopg.Connection
) -> None:
    """The bell has told him already; nor of another log's."""
    with EventStore.open(url) as store:
        storage = store._storage
        assert isinstance(storage, NotifyingStorage)
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


def test_what_is_stored_is_stored_where_no_thread_can_tell_of_it(
    url: str, listening: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while Python ends, or at the system's limit; the next append is told again."""

    def refuse(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    with EventStore.open(url) as store:
        chat = store.conversation("told")
        with monkeypatch.context() as limited:
            limited.setattr(Thread, "start", refuse)
            assert len(chat.append(message())) == 1
            with store._storage.hints(pytest.fail):
                pass
        assert hints(listening, 0.2) == []
        assert len(chat.append(message())) == 1
        assert len(hints(listening, 1.0)) == 1


def test_a_store_without_its_row_is_named(url: str, postgresql: PostgreSQL) -> None:
    """Before anything of it can be told."""
    postgresql.execute("DELETE FROM toolledger_store", database=url)
    with pytest.raises(StoreCorrupt, match="toolledger_store is empty"):
        EventStore.open(url)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_tells_for_itself(url: str, listening: psycopg.Connection) -> None:
    """Its parent's thread is not there."""
    with EventStore.open(url) as store:
        store.conversation("told").add_message("user", "of the parent")
        parent = hints(listening, 1.0)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                store.conversation("told").add_message("user", "of the child")
                store.close()
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        told = hints(listening, 1.0)
        assert told
        assert set(told).isdisjoint(parent)
