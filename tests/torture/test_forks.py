"""Forks of a process that has stores open, and threads that use them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import proxies
import pytest
import workers

from eventstore import EventStore
from eventstore.conversation import Conversation
from eventstore.errors import StoreClosed
from eventstore.storage import connections, sql
from eventstore.testing import message, together

if TYPE_CHECKING:
    from servers import Server

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store is."""
    return tmp_path / "agent.db"


@pytest.fixture
def store(path: Path) -> Iterator[EventStore]:
    """A store in a file."""
    with EventStore.open(f"sqlite:///{path}") as store:
        yield store


@pytest.fixture
def chat(store: EventStore) -> Conversation:
    """A conversation with one event, so that connections are open."""
    chat = store.conversation("chat")
    chat.append(message("before"))
    assert chat.version == 1
    return chat


def fork(job: Callable[[], object]) -> int:
    """Run the job in a child; it is gone behind it, with status 0 when all went well."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child = os.fork()
    if child:
        return child
    status = 1
    try:
        job()
        status = 0
    finally:
        os._exit(status)


def succeeded(*children: int) -> bool:
    """Whether all children went well."""
    return all(os.waitpid(child, 0)[1] == 0 for child in children)


def look(path: Path) -> int:
    """Another program opens the file, counts the events and closes it."""
    script = (
        "import sqlite3, sys; connection = sqlite3.connect(sys.argv[1])\n"
        "print(connection.execute('SELECT count(*) FROM toolledger_events').fetchone()[0])\n"
        "connection.close()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, path], check=True, capture_output=True, text=True
    )
    return int(done.stdout)


def test_parent_and_child_both_go_on(chat: Conversation) -> None:
    """Each with connections of its own, and each sees what the other wrote."""
    child = fork(lambda: chat.append(message("child"), expected_version=1))
    assert succeeded(child)
    assert chat.append(message("parent"), expected_version=2)[0].version == 3
    assert list(chat._store.verify()) == []


def test_a_daemon_keeps_its_log_when_its_parent_is_gone(
    store: EventStore, chat: Conversation, path: Path
) -> None:
    """Its connections hold locks of their own.

    With those that it only believed to have inherited, another program that looked at the file
    and closed it took the log away, and what the daemon wrote afterwards was gone.
    """
    forked, tell_forked = os.pipe()
    go_on, tell_go_on = os.pipe()

    def daemon() -> None:
        chat.append(message("a"))
        os.write(tell_forked, b"x")
        os.read(go_on, 1)
        chat.append(message("b"))

    child = fork(daemon)
    os.read(forked, 1)
    store.close()
    assert look(path) == 2
    os.write(tell_go_on, b"x")
    assert succeeded(child)
    assert look(path) == 3


def test_children_of_a_process_with_busy_threads(store: EventStore, chat: Conversation) -> None:
    """Forked in the middle of appends and reads: nobody waits for a lock that nobody holds."""
    enough = threading.Event()
    written = []

    def write(worker: int) -> None:
        own = store.conversation(f"thread-{worker}")
        while not enough.is_set():
            own.append(message())
            chat.append(message())
            written.append(worker)

    def read() -> None:
        while not enough.is_set():
            versions = [r.version for r in chat.events()]
            assert versions == list(range(1, len(versions) + 1))

    def child(number: int) -> None:
        own = store.conversation(f"child-{number}")
        for n in range(3):
            own.append(message(), expected_version=n)
            chat.append(message())
        assert [r.version for r in own.events()] == [1, 2, 3]

    count = 10 * workers.LONG

    def forks() -> None:
        try:
            children = [fork(lambda n=number: child(n)) for number in range(count)]  # type: ignore[misc]
            assert succeeded(*children)
        finally:
            enough.set()

    results = together(lambda: write(1), lambda: write(2), read, read, forks)
    assert results == [None] * 5
    assert chat.version == 1 + len(written) + 3 * count
    assert dict(store.conversations())["thread-1"] == written.count(1)
    assert list(store.verify()) == []


def test_grandchildren_and_closed_stores(store: EventStore, chat: Conversation) -> None:
    """A child may fork and close; its parent's store stays open."""

    def child() -> None:
        chat.append(message("child"))
        assert succeeded(fork(lambda: chat.append(message("grandchild"))))
        store.close()
        with pytest.raises(StoreClosed):
            chat.append(message())
        assert succeeded(fork(store.close))

    assert succeeded(fork(child))
    assert chat.append(message("parent"))[0].version == 4


def test_a_child_keeps_its_own_copy_of_a_store_in_memory() -> None:
    """It goes on with what was there."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("chat")
        chat.append(message())

        def child() -> None:
            assert chat.append(message())[0].version == 2

        assert succeeded(fork(child), fork(child))
        assert chat.version == 1


def test_a_fork_while_what_is_wrong_is_listed(store: EventStore, chat: Conversation) -> None:
    """The reader does not wait for itself."""
    with_damage = store._storage._connection()  # type: ignore[attr-defined]
    with_damage.execute("UPDATE toolledger_lanes SET position = 5")
    for damage in store.verify():
        assert "events are missing" in damage.problem
        assert succeeded(fork(lambda: list(chat.events())))


def test_a_fork_in_the_middle_of_an_append(
    chat: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a signal handler: the append goes on in the parent, the child can read."""
    insert = sql.SqlStorage._insert
    children = []

    def child() -> None:
        assert len(list(chat.events())) in (1, 2)  # the parent commits meanwhile

    def forking(*arguments: Any) -> None:
        insert(*arguments)
        if not children:
            children.append(fork(child))

    monkeypatch.setattr(sql.SqlStorage, "_insert", forking)
    assert chat.append(message())[0].version == 2
    assert succeeded(*children)
    assert chat.append(message())[0].version == 3


def test_a_fork_behind_pythons_back_is_noticed(store: EventStore, chat: Conversation) -> None:
    """By the number of the process; the inherited connections are left alone."""
    storage: Any = store._storage
    held = storage._held
    storage._pid = -1
    assert chat.append(message())[0].version == 2
    assert storage._held is not held
    engine, kept = connections._orphans.pop()
    assert (storage._pid, kept) == (os.getpid(), held)
    held.close()
    engine.dispose()


def test_a_store_closed_behind_a_fork_that_nobody_noticed(store: EventStore) -> None:
    """The parent's handles are the parent's to close."""
    storage: Any = store._storage
    pid, storage._pid = storage._pid, -1
    store.close()
    assert storage._closed
    storage._pid, storage._closed = pid, False


def test_many_stores_are_forked_together(tmp_path: Path) -> None:
    """Also by threads that fork at the same moment."""
    stores = [EventStore.open(f"sqlite:///{tmp_path / name}") for name in ("a.db", "b.db", "c.db")]

    def child() -> None:
        for store in stores:
            store.conversation("chat").append(message())

    def forks() -> bool:
        return succeeded(*(fork(child) for _ in range(3)))

    assert together(*[forks] * 4) == [True] * 4
    for store in stores:
        assert store.conversation("chat").version == 12
        store.close()


@pytest.mark.parametrize("gone", [True, False])
def test_a_fork_does_not_wait_for_a_server(
    server: Server, monkeypatch: pytest.MonkeyPatch, *, gone: bool
) -> None:
    """While an append waits for one that is gone, or does not answer; both append later."""
    asking, forked = threading.Event(), threading.Event()
    pauses = connections.pauses

    def asks_again(until: float) -> Iterator[float]:
        if store._storage._lock._is_owned():  # type: ignore[attr-defined]
            asking.set()
        yield from pauses(until)

    def hears_nothing(_: proxies.Link, __: bytes) -> bool:
        asking.set()
        return True

    url = server.database(migrated=True)
    with proxies.before(server, url) as (proxy, through), EventStore.open(through) as store:
        chat = store.conversation("chat")
        chat.append(message("before"))
        if gone:
            monkeypatch.setattr(connections, "pauses", asks_again)
            proxy.refusing = True
            proxy.cut()
        else:
            proxy.strike(proxies.at(b"UPDATE toolledger_lanes", hears_nothing))

        def append() -> bool:
            chat.append(message("parent"))
            return forked.is_set()

        def forks() -> bool:
            asking.wait()
            child = fork(lambda: chat.append(message("child")))
            forked.set()
            proxy.refusing = False
            if not gone:
                proxy.cut()
            return succeeded(child)

        assert together(append, forks) == [True, True]
        assert chat.version == 3
        assert list(store.verify()) == []
