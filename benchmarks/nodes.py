"""The same storm on one server and on several nodes: what an append costs, and what grows.

    python benchmarks/nodes.py --url one=postgresql://u@h1/log --url two=postgresql://u@h1,h2/log

Each URL names a store (or an empty database), with all nodes as its hosts; the first node is the
one that a lone writer uses. `?load_balance_hosts=random` lets a storm's connections go to all of
them. Distribute a store on Citus before (`toolledger migrate --distribute`). Servers that should
have a slow disk are started with the preload of `slow_disk.c`.

alone: one writer appends to one conversation after the other. Per append: its CPU (the smallest of
the rounds; URLs take turns); its round trips to the first node, by the time that it loses where a
relay makes each one longer; and of all nodes together the transactions and the syncs of their log,
as the servers count them. Citus also counts the tasks that it passes on to the tables of a node,
where `citus.enable_stat_counters` is on. On Galera each node syncs what it applies.

storm: writers in processes of eight threads append to conversations in all lanes, a follower in a
process of its own reads the feed. Events a second, and how long after its writer took the time an
event was seen. Each round measures all URLs, one after the other.

bytes: by how much the tables and their indexes grow with an event; on Galera each node has all.
"""

from __future__ import annotations

import argparse
import multiprocessing
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any, NamedTuple

from measure import Figure, report
from sqlalchemy import create_engine, make_url

from eventstore import EventStore, MessageAdded, Text

if TYPE_CHECKING:
    from sqlalchemy.engine import URL, Connection

THREADS = 8
"""Writers of a process."""

STATISTICS_SECONDS = 1.2
"""After this time PostgreSQL's processes have told what they counted."""

_fork = multiprocessing.get_context("spawn")


class Place(NamedTuple):
    """A store that is measured."""

    name: str
    url: str

    @property
    def nodes(self) -> list[URL]:
        """The URL of each of its nodes."""
        driver = "postgresql+psycopg" if self.is_postgresql else "mysql+pymysql"
        _, _, rest = self.url.partition("://")
        address, _, database = rest.partition("/")
        user, at, hosts = address.rpartition("@")
        database, _, _ = database.partition("?")
        return [make_url(f"{driver}://{user}{at}{host}/{database}") for host in hosts.split(",")]

    @property
    def is_postgresql(self) -> bool:
        """Whether it is on PostgreSQL, or Citus."""
        return self.url.startswith("postgres")


@contextmanager
def connected(node: URL) -> Iterator[Connection]:
    """Give a connection to a node, without the library."""
    engine = create_engine(node, isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


class Counts(NamedTuple):
    """What the nodes of a place have done so far, all together."""

    transactions: float = 0
    syncs: float = 0
    tasks: float = 0

    def since(self, before: Counts) -> Counts:
        """Return what came after."""
        return Counts(*(now - then for now, then in zip(self, before, strict=True)))


def counted(place: Place) -> Counts:
    """Return what all nodes have done so far."""
    if place.is_postgresql:
        time.sleep(STATISTICS_SECONDS)
    found = []
    for node in place.nodes:
        with connected(node) as connection:
            run = connection.exec_driver_sql
            if place.is_postgresql:
                transactions = run(
                    "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
                ).scalar_one()
                found.append(Counts(transactions, _postgresql_syncs(run), _tasks(run)))
            else:
                status: dict[str, str] = dict(run("SHOW GLOBAL STATUS").fetchall())
                found.append(Counts(int(status["Com_commit"]), int(status["Innodb_data_fsyncs"])))
    return Counts(*(sum(of) for of in zip(*found, strict=True)))


def _tasks(run: Callable[[str], Any]) -> int:
    """Return how many tasks a node of Citus has passed on; 0 where nothing counts them."""
    if run("SELECT to_regclass('pg_catalog.citus_stat_counters')").scalar_one() is None:
        return 0
    columns = "query_execution_single_shard + query_execution_multi_shard"
    where = "name = current_database()"
    return int(run(f"SELECT {columns} FROM citus_stat_counters WHERE {where}").scalar() or 0)


def _postgresql_syncs(run: Callable[[str], Any]) -> int:
    """Return how often the write-ahead log was synced; PostgreSQL 18 counts it in pg_stat_io."""
    if int(run("SHOW server_version_num").scalar_one()) < 180000:
        return int(run("SELECT wal_sync FROM pg_stat_wal").scalar_one())
    return int(run("SELECT SUM(fsyncs) FROM pg_stat_io WHERE object = 'wal'").scalar_one() or 0)


def size_of(place: Place) -> int:
    """Return the bytes of the tables with their indexes; on Galera those of one node."""
    node = place.nodes[0]
    with connected(node) as connection:
        run = connection.exec_driver_sql
        if not place.is_postgresql:
            run(
                "ANALYZE TABLE toolledger_events, toolledger_conversations, toolledger_fingerprints"
            )
            return int(
                run(
                    "SELECT SUM(data_length + index_length) FROM information_schema.tables "
                    "WHERE table_schema = DATABASE() AND table_name LIKE 'toolledger%%'"
                ).scalar_one()
            )
        spread = run("SELECT 1 FROM pg_extension WHERE extname = 'citus'").scalar()
        spread = spread and run("SELECT COUNT(*) FROM citus_tables").scalar()
        size = "citus_total_relation_size" if spread else "pg_total_relation_size"
        return int(
            run(
                f"SELECT SUM({size}(c.oid::regclass)) FROM pg_class c WHERE c.relkind = 'r' "
                "AND c.relnamespace = 'public'::regnamespace AND c.relname IN "
                "('toolledger_events', 'toolledger_conversations', 'toolledger_fingerprints', "
                "'toolledger_event_ids', 'toolledger_lanes')"
            ).scalar_one()
        )


# alone


DELAY = 0.2
"""Seconds by which a relay is late with what a client sends."""


class Relay:
    """A port that leads to a server, some time after a client has sent."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listening.accept()
            server = socket.create_connection(self._address)
            on_its_way: SimpleQueue[tuple[float, bytes]] = SimpleQueue()
            for work, ends in (
                (self._receive, (client, on_its_way)),
                (self._deliver, (on_its_way, server)),
                (self._answer, (server, client)),
            ):
                threading.Thread(target=work, args=ends, daemon=True).start()

    def _receive(self, client: socket.socket, on_its_way: SimpleQueue[tuple[float, bytes]]) -> None:
        while data := _received(client):
            on_its_way.put((time.monotonic() + DELAY, data))
        on_its_way.put((0, b""))

    def _deliver(self, on_its_way: SimpleQueue[tuple[float, bytes]], server: socket.socket) -> None:
        with suppress(OSError):
            while (late := on_its_way.get())[1]:
                time.sleep(max(late[0] - time.monotonic(), 0))
                server.sendall(late[1])
            server.shutdown(socket.SHUT_WR)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := _received(server):
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)


def _received(end: socket.socket) -> bytes:
    """Return what came next; nothing where that was the last."""
    with suppress(OSError):
        return end.recv(65536)
    return b""


def round_trips(place: Place, count: int) -> float:
    """Return how often an append waits for the first node: the time that it loses by a relay."""
    node = place.nodes[0]
    relay = Relay((node.host or "127.0.0.1", node.port or (5432 if place.is_postgresql else 3306)))
    took = []
    for port in (node.port, relay.port):
        url = node.set(drivername=place.url.partition(":")[0], port=port)
        with EventStore.open(url.render_as_string(hide_password=False)) as store:
            chat = store.conversation("round-trips")
            for _ in range(8):  # a driver prepares what it has sent before
                chat.add_message("user", "hello")
            began = time.monotonic()
            for _ in range(count):
                chat.add_message("user", "hello")
            took.append(time.monotonic() - began)
    return (took[1] - took[0]) / count / DELAY


class Alone:
    """One writer at a place."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.store = EventStore.open(place.url)
        self.chats = [self.store.conversation(f"alone-{number}") for number in range(32)]
        self.cpu: list[float] = []
        self.append(64)  # all lanes are known, and all statements prepared

    def append(self, count: int) -> None:
        """Append to one conversation after the other."""
        for number in range(count):
            self.chats[number % len(self.chats)].add_message("user", "Where is my order? " * 10)

    def round(self, count: int) -> None:
        """Measure the CPU of some appends."""
        began = time.process_time()
        self.append(count)
        self.cpu.append((time.process_time() - began) / count)

    def counted(self, count: int) -> Counts:
        """Return what all nodes do for an append, without what they do by themselves."""
        found = [self._settled() for _ in range(2)]
        self.append(count)
        found.append(self._settled())
        (first, began), (idle, idled), (last, ended) = found
        share = (ended - idled) / (idled - began)
        appends = count + len(self.chats) * (1 - share)
        return Counts(
            *(
                (now - then - share * (then - before)) / appends
                for before, then, now in zip(first, idle, last, strict=True)
            )
        )

    def _settled(self) -> tuple[Counts, float]:
        """Return the counts, and when; a session tells of what it did before at its next append."""
        time.sleep(STATISTICS_SECONDS)
        self.append(len(self.chats))
        return counted(self.place), time.monotonic()

    def bytes_an_event(self, count: int) -> float:
        """Return by how much the tables grow with an event of a batch."""
        before = size_of(self.place)
        said = MessageAdded("user", (Text("Where is my order? " * 10),))
        for chat in self.chats:
            for _ in range(max(count // len(self.chats) // 100, 1)):
                chat.append(*[said] * 100)
        events = len(self.chats) * max(count // len(self.chats) // 100, 1) * 100
        return (size_of(self.place) - before) / events


# the storm


def write(url: str, number: int, seconds: float, ready: Any, go: Any, results: Any) -> None:
    """Append in threads for some seconds; put the number of events, and how many a second."""
    counts = [0] * THREADS
    with EventStore.open(url) as store:
        chats = [
            [store.conversation(f"storm-{number}-{thread}-{n}") for n in range(4)]
            for thread in range(THREADS)
        ]
        for some in chats:
            for chat in some:
                chat.add_message("user", "begun")
        ready.release()
        go.wait()
        began = time.monotonic()
        until = began + seconds

        def work(thread: int) -> None:
            while time.monotonic() < until:
                chat = chats[thread][counts[thread] % 4]
                chat.add_message("user", "Where is my order? " * 10)
                counts[thread] += 1

        threads = [threading.Thread(target=work, args=(thread,)) for thread in range(THREADS)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        took = time.monotonic() - began  # until the last append was answered
    results.put((sum(counts), sum(counts) / took))


def follow(url: str, ready: Any, go: Any, end: Any, results: Any) -> None:
    """Read the feed; put how long after they were taken the times of events were, in ms."""
    delays: list[float] = []
    with EventStore.open(url) as store:
        cursor = store.end()
        ready.release()
        go.wait()
        delays.extend(
            (time.time_ns() / 1e3 - recorded.recorded_at) / 1e3
            for recorded in store.follow(cursor, stop=end)
        )
    results.put(delays)


def storm(place: Place, writers: int, seconds: float) -> tuple[float, list[float], float]:
    """Return events a second, the follower's delays, and syncs an event."""
    processes = max(writers // THREADS, 1)
    ready, go, end = _fork.Semaphore(0), _fork.Event(), _fork.Event()
    results, seen = _fork.Queue(), _fork.Queue()
    started = [
        _fork.Process(target=write, args=(place.url, n, seconds, ready, go, results))
        for n in range(processes)
    ]
    started.append(_fork.Process(target=follow, args=(place.url, ready, go, end, seen)))
    for process in started:
        process.start()
    for _ in started:
        ready.acquire()
    before = counted(place)
    go.set()
    done = [results.get() for _ in range(processes)]
    total, rate = (sum(of) for of in zip(*done, strict=True))
    time.sleep(1)
    end.set()
    delays = seen.get()
    for process in started:
        process.join()
    return rate, delays, counted(place).since(before).syncs / total


def main() -> None:
    """Measure all places, in turn, and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", action="append", required=True, metavar="NAME=URL")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="less of everything, less exact")
    parser.add_argument("--writers", type=int, default=64, help="default 64")
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="of each storm, default 10; 0: none"
    )
    parser.add_argument("--rounds", type=int, default=3, help="default 3")
    options = parser.parse_args()
    places = [Place(*text.split("=", 1)) for text in options.url]
    rounds, seconds = (
        (1, min(options.seconds, 3.0)) if options.quick else (options.rounds, options.seconds)
    )
    alone = [Alone(place) for place in places]
    for _ in range(10 * rounds):
        for each in alone:
            each.round(32)
    figures = []
    for each in alone:
        name = each.place.name
        counts = each.counted(100 * rounds)
        figures += [
            Figure(f"{name}: alone, CPU of an append", 1e6 * min(each.cpu), "us"),
            Figure(f"{name}: alone, round trips an append", round_trips(each.place, 10 * rounds)),
            Figure(f"{name}: alone, transactions an append, all nodes", counts.transactions),
            Figure(f"{name}: alone, syncs an append, all nodes", counts.syncs),
        ]
        if counts.tasks:
            figures.append(Figure(f"{name}: alone, tasks an append, all nodes", counts.tasks))
        figures.append(Figure(f"{name}: bytes an event", each.bytes_an_event(12_800 * rounds)))
        each.store.close()
    if not seconds:
        report(__file__, options, figures)
        return
    storms: dict[str, list[tuple[float, list[float], float]]] = {p.name: [] for p in places}
    for _ in range(rounds):
        for place in places:
            storms[place.name].append(storm(place, options.writers, seconds))
    for place in places:
        found = storms[place.name]
        delays = sorted(delay for _, some, _ in found for delay in some)
        figures += [
            Figure(
                f"{place.name}: storm, events", median(rate for rate, _, _ in found), "a second"
            ),
            Figure(f"{place.name}: storm, syncs an event", median(s for _, _, s in found)),
        ]
        if len(delays) > 1:  # otherwise the follower has seen nothing before the end
            delay = f"{place.name}: storm, delay of the feed"
            figures += [
                Figure(f"{delay}, median", median(delays), "ms"),
                Figure(f"{delay}, 95 %", quantiles(delays, n=20)[-1], "ms"),
            ]
    report(__file__, options, figures)


if __name__ == "__main__":
    main()
