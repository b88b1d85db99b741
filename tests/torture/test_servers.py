"""Servers that are killed, networks that are cut, and writers that block each other."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import make_url
from support import feeds as feeding
from support import proxies, workers
from support.pgbouncer import pooled
from support.servers import MariaDB, MySQL, PostgreSQL
from support.storms import Storm
from support.tiers import LONG, also_long, repeated

from eventstore import EventStore, IllegalTransition
from eventstore.errors import StorageError
from eventstore.storage.factory import open_storage
from eventstore.testing import (
    Acknowledgement,
    Reading,
    acknowledged,
    append,
    message,
    run_concurrently,
)

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from support.servers import Server

    from eventstore.storage.interface import Append, AppendOutcome, Storage

EVENTS = 50_000 if LONG else 500
"""About how many the tail-never-skips torture writes."""


@pytest.fixture
def url(server: Server) -> str:
    """Return the URL of a database with a store."""
    return server.database(migrated=True)


def texts(storage: Storage) -> list[str]:
    """Return the texts of all messages, in the order of the feed."""
    events: list[Any] = [recorded.event for recorded in storage.feed({})]
    return [event.parts[0].text for event in events]


# the tail never skips


def test_a_reader_misses_nothing_whatever_order_writers_commit_in(url: str) -> None:
    """A lane has no gap and no inversion, also beside writers that roll back or are killed."""
    check_that_nothing_is_missed(url)


def test_a_reader_of_a_file_misses_nothing(tmp_path: Path) -> None:
    """The same holds where all writers take turns."""
    url = f"sqlite:///{tmp_path / 'log.db'}"
    EventStore.open(url).close()
    check_that_nothing_is_missed(url)


@pytest.mark.parametrize("mode", also_long(["transaction"], ["session"]))
def test_a_reader_misses_nothing_behind_a_pooler(postgresql: PostgreSQL, mode: str) -> None:
    """The same holds where the clients share a few sessions of the server."""
    direct = postgresql.database(migrated=True)
    with pooled(postgresql, direct, mode) as url:
        check_that_nothing_is_missed(url)


def stopped(readers: list[tuple[Any, Connection]]) -> list[Reading]:
    """Tell readers that all has been written; return what each saw."""
    for _, pipe in readers:
        assert pipe.recv() == "follows"
        pipe.send("stop")
    return [pipe.recv() for _, pipe in readers]


def check_that_nothing_is_missed(url: str) -> None:
    """Read twice beside 6 writers, and three that are killed; twice as many in the long tier."""
    several = 2 if LONG else 1
    each = EVENTS // (15 * several)
    chance = random.Random(3)
    notes: list[Acknowledgement] = []
    jobs = [partial(feeding.write_in_the_way, url, f"slow-{n}", each) for n in range(4 * several)]
    jobs += [partial(feeding.write_together, url, f"many-{n}", each) for n in range(2 * several)]
    victims = [
        partial(feeding.write_in_the_way, url, f"victim-{n}", 10**9) for n in range(3 * several)
    ]
    with (
        workers.children([partial(feeding.follow, url)] * 2) as readers,
        workers.children(jobs) as writers,
    ):
        for victim in victims:
            with workers.children([victim]) as ((process, pipe),):
                notes.extend(islice(workers.received(pipe), chance.randint(2, 40)))
                time.sleep(chance.random() / 200)  # a random moment; nothing is waited for
                process.kill()
                process.join()
                notes.extend(workers.received(pipe))
        for _, pipe in writers:
            notes.extend(workers.received(pipe))
        readings = stopped(readers)
    with EventStore.open(url) as store:
        assert workers.check_log(store, notes, readings) >= 0.9 * EVENTS


def test_fifty_writers_on_one_conversation_all_get_through(url: str) -> None:
    """40 threads over one store and 10 processes with their own lose nothing."""
    count = repeated(2)
    names = [f"thread-{n}" for n in range(40)]
    others = [f"process-{n}" for n in range(10)]
    with EventStore.open(url) as store:
        run = partial(workers.at_once, [partial(workers.run_calls, url, n, count) for n in others])
        done = run_concurrently(run, *(partial(workers.live, store, name, count) for name in names))
        assert done == [[count] * 10] + [None] * 40
        tools = store.conversation("chat").tools
        results = sorted(tool.response.result for tool in tools.values() if tool.response)
        assert list(store.verify()) == []
        assert store.conversation("chat").version == 50 * count * 3
    assert results == sorted([name, n] for name in names + others for n in range(count))


def test_one_of_the_processes_that_race_for_an_attempt_gets_it(url: str) -> None:
    """Each attempt of each call starts once."""
    with EventStore.open(url) as store:
        chat = store.conversation("chat")
        call_ids = [chat.request("pay", {"n": n}).id for n in range(repeated(10))]
        got = workers.at_once([partial(workers.start_all, url, 1, call_ids)] * 6)
        assert not [one for one in got if isinstance(one, Exception)]
        assert Counter(call_id for one in got for call_id in one) == Counter(call_ids)
        with pytest.raises(IllegalTransition):
            chat.start(call_ids[0], attempt=1)


def test_processes_that_create_one_store_at_once_all_use_it(server: Server) -> None:
    """However many processes find an empty database, there is one store, and no event is lost."""
    for _ in range(repeated(1)):
        url = server.database()
        epochs = workers.at_once([partial(workers.open_and_append, url, n) for n in range(8)])
        with EventStore.open(url) as store:
            assert set(epochs) == {store.read().cursor.epoch}
            assert sorted(store.conversations()) == [(f"chat-{n}", 2) for n in range(8)]
            assert list(store.verify()) == []


def test_deadlocked_writers_are_retried(server: Server, url: str) -> None:
    """The server ends the deadlock, and the library repeats the transaction."""
    storage = open_storage(url, "", "full", 30.0)
    by_lane: dict[int, str] = {}
    for number in range(40):
        done = append(storage, f"chat-{number}", message())
        by_lane.setdefault(done.lane, f"chat-{number}")
    (low, first), *_, (high, last) = sorted(by_lane.items())
    with server.connected(url) as connection:
        lock = "SELECT position FROM toolledger_lanes WHERE lane = {} FOR UPDATE"
        connection.exec_driver_sql("BEGIN")
        connection.exec_driver_sql(lock.format(high))

        def across() -> None:
            outcomes = storage.append(
                [  # type: ignore[attr-defined]
                    feeding.Append(name, 1, 0, (), lambda _: [feeding.draft(message("late"))])
                    for name in (first, last)
                ]
            )
            assert [type(outcome).__name__ for outcome in outcomes] == ["Appended"] * 2

        def against() -> None:
            while not waits(server, url):
                time.sleep(0.005)
            connection.exec_driver_sql(lock.format(low))
            connection.exec_driver_sql("COMMIT")

        def repeated() -> None:
            for _ in range(20):  # the store carries them out one by one; here they may meet again
                try:
                    return across()
                except StorageError as error:
                    found = error
            raise found

        results = run_concurrently(repeated, against)
    assert results[0] is None
    assert texts(storage).count("late") == 2
    assert list(storage.verify()) == []
    storage.close()


def waits(server: Server, url: str) -> bool:
    """Return whether a transaction of a database waits for a lock; others share the server."""
    name = make_url(url).database
    if isinstance(server, PostgreSQL):
        waiting = (
            "SELECT 1 FROM pg_stat_activity "
            "WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        return bool(server.execute(waiting, database=name))
    # `information_schema.innodb_trx` stays as it is for as long as it is read more than ten times
    # a second.
    ((_, _, status),) = server.execute("SHOW ENGINE INNODB STATUS")
    row = rf"of table `{name}`\..* waiting"
    return re.search(row, status) is not None


# answers that are lost


@pytest.fixture
def through(server: Server, url: str) -> Iterator[tuple[proxies.Proxy, str]]:
    """Return a proxy before the server, and the URL through it."""
    with proxies.before(server, url) as proxied:
        yield proxied


def test_a_commit_whose_answer_is_lost_is_recognised(through: tuple[proxies.Proxy, str]) -> None:
    """The event is stored once, and the append returns normally."""
    proxy, url = through
    with EventStore.open(url) as store:
        chat = store.conversation("chat")
        chat.append(message("a"))
        proxy.strike(proxies.behind(b"lost", proxies.swallow_answer))
        second, _ = chat.append(message("lost"), message("too"))  # in a transaction
        assert (proxy.faults, second.version) == (1, 2)
        assert chat.append(message("c"))[0].version == 4
        assert texts(store.session.storage) == ["a", "lost", "too", "c"]
        assert list(store.verify()) == []


def test_a_commit_that_is_late_is_waited_for(
    server: Server, through: tuple[proxies.Proxy, str]
) -> None:
    """Without the wait the events would not be found, and would be stored twice."""
    proxy, url = through

    def late(link: proxies.Link, data: bytes) -> bool:
        proxies.hang_up(link.client)
        until = time.monotonic() + 10
        while not waits(server, url) and time.monotonic() < until:
            time.sleep(0.005)
        link.server.sendall(data)
        return True

    with EventStore.open(url) as store:
        chat = store.conversation("chat")
        chat.append(message("a"))
        proxy.strike(proxies.behind(b"lost", late))
        second, _ = chat.append(message("lost"), message("too"))  # in a transaction
        assert (proxy.faults, second.version) == (1, 2)
        assert texts(store.session.storage) == ["a", "lost", "too"]
        assert list(store.verify()) == []


def test_a_commit_that_never_arrived_is_made_again(through: tuple[proxies.Proxy, str]) -> None:
    """The commit is repeated after the server has ended the old transaction and its lock."""
    proxy, url = through
    with EventStore.open(url, busy_timeout=4.0) as store:
        chat = store.conversation("chat")
        chat.append(message("a"))
        proxy.strike(proxies.behind(b"lost", proxies.swallow_message))
        second, _ = chat.append(message("lost"), message("too"))  # in a transaction
        assert (proxy.faults, second.version) == (1, 2)
        assert texts(store.session.storage) == ["a", "lost", "too"]
        assert list(store.verify()) == []


@pytest.mark.parametrize("fault", [proxies.swallow_answer, proxies.swallow_message])
def test_an_event_whose_statement_is_not_answered_is_stored_once(
    through: tuple[proxies.Proxy, str], fault: proxies.Fault
) -> None:
    """On PostgreSQL one statement is the whole append; elsewhere it is not committed yet."""
    proxy, url = through
    with EventStore.open(url, busy_timeout=4.0) as store:
        chat = store.conversation("chat")
        for text in "abc":
            chat.append(message(text))
        proxy.strike(proxies.at(b"lost", fault))
        tool = chat.request("lost")
        assert (proxy.faults, chat.version) == (1, 4)
        proxy.strike(proxies.at(b"again", fault))
        (again,) = chat.append(message("again"))
        assert (proxy.faults, again.version) == (2, 5)
        assert [r.call_id for r in store.read_fingerprint(str(tool.fingerprint))] == [tool.id]
        assert list(store.verify()) == []


def test_a_group_whose_commit_is_not_answered_is_stored_once(
    through: tuple[proxies.Proxy, str],
) -> None:
    """This holds whether or not the server received it."""
    proxy, url = through
    with EventStore.open(url, busy_timeout=4.0) as store:
        chats = [store.conversation(f"chat-{n}") for n in range(12)]
        for chat in chats:
            chat.append(message("a"))
        for number, fault in enumerate((proxies.swallow_answer, proxies.swallow_message), 2):
            proxy.strike(proxies.behind(b"lost%d" % number, fault))
            done = run_concurrently(
                *(partial(chat.append, message(f"lost{number}")) for chat in chats)
            )
            assert not [one for one in done if isinstance(one, Exception)]
            assert proxy.faults == number - 1
            assert [chat.version for chat in chats] == [number] * 12
        assert list(store.verify()) == []


def test_a_commit_that_cannot_be_checked_is_an_error(
    server: Server, through: tuple[proxies.Proxy, str]
) -> None:
    """The caller repeats the append with its event ids, and it is stored once."""
    proxy, url = through
    with EventStore.open(url, busy_timeout=1.0) as store:
        chat = store.conversation("chat")
        chat.append(message("a"))

        def fault(link: proxies.Link, data: bytes) -> bool:
            proxy.refusing = True
            proxy.cut(besides=link)
            return proxies.swallow_answer(link, data)

        # PostgreSQL gets it in one statement, others a COMMIT after it.
        place = proxies.at if isinstance(server, PostgreSQL) else proxies.behind
        proxy.strike(place(b"lost", fault))
        ids = [b"0123456789abcdef"]
        with pytest.raises(StorageError, match="check that the server runs"):
            chat.append(message("lost"), event_ids=ids)
        proxy.refusing = False
        (again,) = chat.append(message("lost"), event_ids=ids)
        assert again.version == 2
        assert texts(store.session.storage) == ["a", "lost"]


def test_a_server_that_is_gone_is_waited_for_once_not_by_each(
    through: tuple[proxies.Proxy, str],
) -> None:
    """If many threads append at once, each gets the error when one wait has timed out."""
    proxy, url = through
    with EventStore.open(url, busy_timeout=1.2) as store:
        chats = [store.conversation(f"chat-{n}") for n in range(12)]
        for chat in chats:
            chat.append(message("a"))
        tries: list[str] = []
        storage: Any = store.session.storage
        write = storage.append

        def append(requests: Sequence[Append]) -> list[AppendOutcome]:
            tries.extend(one.conversation_id for one in requests if one.drafts)
            return write(requests)

        storage.append = append
        proxy.refusing = True
        proxy.cut()
        done = run_concurrently(*(partial(chat.append, message("b")) for chat in chats))
        assert {type(one) for one in done} == {StorageError}
        assert (
            1 <= len(tries) <= 3
        )  # the first leader, and the leader of the others; a thread may be late
        proxy.refusing = False
        done = run_concurrently(*(partial(chat.append, message("b")) for chat in chats))
        assert [one[0].version for one in done] == [2] * 12
        assert list(store.verify()) == []


def test_a_network_that_is_cut_again_and_again_loses_nothing(
    through: tuple[proxies.Proxy, str],
) -> None:
    """Every append succeeds, and is stored once."""
    proxy, url = through
    count = repeated(40)
    notes: list[Acknowledgement] = []
    with EventStore.open(url) as store:

        def write(thread: int) -> None:
            for number in range(count):
                chat = store.conversation(f"chat-{number % 5}")
                reported = chat.append(message(f"{thread}.{number}"))
                notes.append(acknowledged(f"{thread}", reported))

        def cut() -> None:
            chance = random.Random(1)
            for _ in range(repeated(10)):
                time.sleep(chance.random() / 20)
                proxy.cut()

        # A reader gets an error when it is cut off; a writer never does, so all is loaded first.
        for number in range(5):
            chat = store.conversation(f"chat-{number}")
            notes.append(acknowledged("first", chat.append(message("first"))))
        done = run_concurrently(cut, *(partial(write, thread) for thread in range(4)))
        assert done == [None] * 5
        assert workers.check_log(store, notes) == 5 + 4 * count


# a server that is killed


@pytest.mark.parametrize("kind", also_long([PostgreSQL, MariaDB], [MySQL]))
def test_a_killed_server_takes_nothing_back(
    own_server: Callable[..., Server], kind: type[Server]
) -> None:
    """The server is killed again and again while processes append and wait for it.

    Everything that was acknowledged, or returned to readers, is stored. The server's files are on a
    disk: in memory MariaDB maps its log, and a kill would lose nothing of it.
    """
    server = own_server(kind, Path(tempfile.gettempdir()))
    url = server.database(migrated=True)
    chance = random.Random(9)
    count = repeated(60)
    notes: list[Acknowledgement] = []
    jobs = [partial(feeding.append_until_done, url, f"writer-{n}", count) for n in range(3)]
    with (
        workers.children([partial(feeding.follow, url)] * 2) as readers,
        workers.children(jobs) as writers,
    ):
        for _, pipe in readers:
            assert pipe.poll(60)  # it follows
        for _ in range(repeated(3)):
            for _, pipe in writers:
                if pipe.poll(30):
                    notes.append(pipe.recv())
            time.sleep(chance.random() / 10)
            server.kill()
            server.start()
        for _, pipe in writers:
            notes.extend(workers.received(pipe))
        readings = stopped(readers)
    with EventStore.open(url) as store:
        assert workers.check_log(store, notes, readings) == 3 * count


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """Return a file system that is just large enough for a server, where its user may go."""
    mount, umount = shutil.which("mount"), shutil.which("umount")
    with tempfile.TemporaryDirectory(prefix="toolledger-disk-") as name:
        disk = Path(name)
        disk.chmod(0o755)
        options = ["-t", "tmpfs", "-o", "size=400m,mode=755", "tmpfs", disk]
        if (
            mount is None
            or umount is None
            or subprocess.run([mount, *options], check=False).returncode
        ):
            pytest.skip("a small file system can only be mounted by root, on Linux")
        yield disk
        subprocess.run([str(umount), "--lazy", disk], check=True)


def test_a_storm_over_a_killed_server_on_a_full_disk_loses_nothing(
    small_disk: Path, own_server: Callable[..., Server]
) -> None:
    """MariaDB is killed under followers and a projector, too, then the disk is full, then both."""
    server = own_server(MariaDB, small_disk)
    ballast = small_disk / "ballast"
    with Storm(server.database(migrated=True), busy_timeout=5.0) as storm:
        for _ in range(repeated(1)):
            restart(server)
            storm.wait_for_appends()
            fill(ballast)
            # InnoDB refuses the write, or ends the server: it depends on the file that is full.
            storm.wait_for_error("append: StoreFull", unless=lambda: server.has_ended)
            ballast.unlink()
            storm.wait_for_appends(meanwhile=server.revive)
            fill(ballast)
            server.kill()
            ballast.unlink()
            server.start()
            storm.wait_for_appends()
    storm.check()


def restart(server: Server) -> None:
    """Kill a server, and start it again."""
    server.kill()
    server.start()


def fill(ballast: Path) -> None:
    """Write a file until its disk is full."""
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(bytes(2**16)):
            pass
