"""Forks of a process that has open stores, and threads that use them."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from support import proxies, workers
from support.forking import fork, succeeded
from support.projected_logs import execute
from support.storages import sql_storage_of
from support.tiers import repeated

from eventstore import EventStore
from eventstore.conversation import Conversation
from eventstore.errors import StoreClosed
from eventstore.storage.sql.log_writer import insert_rows
from eventstore.storage.sql.parts import Parts
from eventstore.storage.sql.reader import LogReader
from eventstore.storage.sql.storage import SqlStorage
from eventstore.testing import Acknowledgement, message, run_concurrently, unknown

if TYPE_CHECKING:
    from support.servers import Server

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of the store."""
    return tmp_path / "agent.db"


@pytest.fixture
def store(path: Path) -> Iterator[EventStore]:
    """Return a store in a file."""
    with EventStore.open(f"sqlite:///{path}") as store:
        yield store


@pytest.fixture
def chat(store: EventStore) -> Conversation:
    """Return a conversation with one event, so that connections are open."""
    chat = store.conversation("chat")
    chat.append(message("before"))
    assert chat.version == 1
    return chat


def note(folder: Path, chat: Conversation, text: str, **options: Any) -> None:
    """Append a message in a child, and leave a note of it for the parent."""
    notes: list[Acknowledgement] = []
    workers.noted(notes, str(os.getpid()), chat, text, **options)
    (folder / f"{os.getpid()}-{uuid4()}.notes").write_bytes(pickle.dumps(notes))


def noted_by_children(folder: Path) -> list[Acknowledgement]:
    """Return the notes that children left, those of each child in its order."""
    files = sorted(folder.glob("*.notes"), key=lambda path: path.stat().st_mtime_ns)
    return [one for file in files for one in pickle.loads(file.read_bytes())]  # noqa: S301 - ours


def look(path: Path) -> int:
    """Let another program open the file, count the events and close it."""
    script = (
        "import sqlite3, sys; connection = sqlite3.connect(sys.argv[1])\n"
        "print(connection.execute('SELECT count(*) FROM toolledger_events').fetchone()[0])\n"
        "connection.close()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, path], check=True, capture_output=True, text=True
    )
    return int(done.stdout)


def test_parent_and_child_both_go_on(store: EventStore, chat: Conversation, tmp_path: Path) -> None:
    """Each has connections of its own, and sees the events of the other."""
    notes = [unknown("main", ["before"])]
    assert succeeded(fork(lambda: note(tmp_path, chat, "child", expected_version=1)))
    workers.noted(notes, "main", chat, "parent", expected_version=2)
    workers.check_messages(store, notes + noted_by_children(tmp_path))


def test_a_daemon_keeps_its_log_when_its_parent_is_gone(
    store: EventStore, chat: Conversation, path: Path
) -> None:
    """Its connections hold locks of their own.

    If it only believed to have inherited them, another program that looked at the file would remove
    the log when it closed the file, and the daemon's later events would be lost.
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


def test_children_of_a_process_with_busy_threads(
    store: EventStore, chat: Conversation, tmp_path: Path
) -> None:
    """A child that is forked during appends and reads does not wait for a lock without a holder."""
    enough = threading.Event()
    notes = [unknown("main", ["before"])]

    def write(worker: int) -> None:
        own, number = store.conversation(f"thread-{worker}"), 0
        while not enough.is_set():
            number += 1
            for to in (own, chat):
                workers.noted(notes, f"thread-{worker}", to, f"{worker}.{number} in {to.id}")

    def read() -> None:
        while not enough.is_set():
            versions = [r.version for r in chat.events()]
            assert versions == list(range(1, len(versions) + 1))

    def child(number: int) -> None:
        own = store.conversation(f"child-{number}")
        for n in range(3):
            note(tmp_path, own, f"{own.id}.{n}", expected_version=n)
            note(tmp_path, chat, f"{own.id}.{n} in chat")
        assert [r.version for r in own.events()] == [1, 2, 3]

    count = repeated(10)

    def forks() -> None:
        try:
            children = [fork(lambda n=number: child(n)) for number in range(count)]  # type: ignore[misc]
            assert succeeded(*children)
        finally:
            enough.set()

    results = run_concurrently(lambda: write(1), lambda: write(2), read, read, forks)
    assert results == [None] * 5
    children = noted_by_children(tmp_path)
    assert len([one for one in children if one.places]) == 6 * count
    workers.check_messages(store, notes + children)


def test_grandchildren_and_closed_stores(store: EventStore, chat: Conversation) -> None:
    """A child may fork and close its store, and its parent's store stays open."""

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
    """The child continues with the events at the fork."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("chat")
        chat.append(message())

        def child() -> None:
            assert chat.append(message())[0].version == 2

        assert succeeded(fork(child), fork(child))
        assert chat.version == 1


def test_a_fork_while_verify_is_read(path: Path, store: EventStore, chat: Conversation) -> None:
    """The reader does not wait for itself."""
    execute(path, "UPDATE toolledger_lanes SET position = 5")
    for damage in store.verify():
        assert "events are missing" in damage.problem
        assert succeeded(fork(lambda: list(chat.events())))


def test_a_fork_in_the_middle_of_an_append(store: EventStore) -> None:
    """A signal handler forks: the parent's append succeeds, and the child can read."""
    children: list[int] = []

    def child() -> None:
        assert len(list(chat.events())) in (0, 2)  # the parent commits meanwhile

    def forking(*arguments: Any) -> None:
        insert_rows(*arguments)
        if not children:
            children.append(fork(child))

    backend = sql_storage_of(store).backend
    storage = SqlStorage(backend, "", lambda log: Parts(LogReader(log), forking))
    with EventStore(storage) as forked:
        chat = forked.conversation("chat")
        assert chat.append(message(), message())[-1].version == 2
        assert len(children) == 1
        assert succeeded(*children)
        assert chat.append(message())[0].version == 3


UNSEEN_FORK = """
import ctypes, os, sys
from contextlib import suppress
from eventstore import EventStore
from eventstore.testing import message

path, appends = sys.argv[1], sys.argv[2] == "True"
url = f"sqlite:///{path}"

def handles():
    "Return how many handles on the file this process has."
    found = 0
    for number in os.listdir("/dev/fd"):
        with suppress(OSError):  # that of the listing itself
            found += os.path.samestat(os.fstat(int(number)), os.stat(path))
    return found

with EventStore.open(url) as store:
    chat = store.conversation("chat")
    chat.append(message("before"))
    inherited = handles()
    assert inherited > 0
    child = ctypes.PyDLL(None).fork()  # past Python's hooks
    if not child:
        status = 1
        try:
            if appends:
                assert chat.append(message("child"))[0].version == 2
                assert [recorded.version for recorded in chat.events()] == [1, 2]
                assert handles() > inherited
            store.close()
            assert handles() >= inherited
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    with EventStore.open(url) as other:
        other.conversation("chat").append(message("other"))
    assert chat.append(message("parent"))[0].version == (4 if appends else 3)
    assert list(store.verify()) == []
"""


@pytest.mark.parametrize("appends", [True, False])
def test_a_fork_that_python_does_not_see_is_noticed(path: Path, *, appends: bool) -> None:
    """The child does not use or close the parent's connections, and both can append."""
    arguments = (path, str(appends))
    subprocess.run([sys.executable, "-c", UNSEEN_FORK, *arguments], check=True, timeout=60)


def test_many_stores_are_forked_together(tmp_path: Path) -> None:
    """Threads may fork at the same moment."""
    folders = [tmp_path / name for name in ("a", "b", "c")]
    for folder in folders:
        folder.mkdir()
    stores = [EventStore.open(f"sqlite:///{folder}/agent.db") for folder in folders]

    def child() -> None:
        for store, folder in zip(stores, folders, strict=True):
            note(folder, store.conversation("chat"), f"child {os.getpid()}")

    def forks() -> bool:
        return succeeded(*(fork(child) for _ in range(3)))

    assert run_concurrently(*[forks] * 4) == [True] * 4
    for store, folder in zip(stores, folders, strict=True):
        assert store.conversation("chat").version == 12
        workers.check_messages(store, noted_by_children(folder))
        store.close()


@pytest.mark.parametrize("gone", [True, False])
def test_a_fork_does_not_wait_for_a_server(server: Server, tmp_path: Path, *, gone: bool) -> None:
    """An append may wait for an unreachable server meanwhile; both processes append later."""
    asking, forked = threading.Event(), threading.Event()

    def hears_nothing(_: proxies.Link, __: bytes) -> bool:
        asking.set()
        return True

    url = server.database(migrated=True)
    with proxies.before(server, url) as (proxy, through), EventStore.open(through) as store:
        chat = store.conversation("chat")
        notes: list[Acknowledgement] = []
        workers.noted(notes, "main", chat, "before")
        if gone:
            asking = proxy.refused
            proxy.refusing = True
            proxy.cut()
        else:
            proxy.strike(proxies.at(b"UPDATE toolledger_lanes", hears_nothing))

        def append() -> bool:
            workers.noted(notes, "main", chat, "parent")
            return forked.is_set()

        def forks() -> bool:
            asking.wait()
            child = fork(lambda: note(tmp_path, chat, "child"))
            forked.set()
            proxy.refusing = False
            if not gone:
                proxy.cut()
            return succeeded(child)

        assert run_concurrently(append, forks) == [True, True]
        assert chat.version == 3
        workers.check_messages(store, notes + noted_by_children(tmp_path))
