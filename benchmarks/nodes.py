"""The same storm on one server and on several nodes: what an append costs, and what grows.

    python benchmarks/nodes.py --url one=postgresql://u@h1/log --url two=postgresql://u@h1,h2/log

Each URL names a store (or an empty database), with all nodes as its hosts. Distribute it before
(`toolledger migrate --distribute`). Servers that should have a slow disk are started with the
preload of `slow_disk.c`.

alone: one writer appends to one conversation after the other. Per append: its CPU (the smallest of
the rounds; URLs take turns), and of all nodes together the transactions and the syncs of their log,
as the servers count them. On Galera each node syncs what it applies.

storm: writers in processes of eight threads append to conversations in all lanes, a follower in a
process of its own reads the feed. Events a second, and how long after its writer took the time an
event was seen.

bytes: the tables with their indexes, by events; on Galera each node has all of them.
"""

from __future__ import annotations

import argparse
import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any, NamedTuple

from measure import Figure, report
from sqlalchemy import create_engine, make_url

from eventstore import EventStore

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


def counted(place: Place) -> tuple[float, float]:
    """Return the transactions and the syncs of all nodes so far."""
    transactions = syncs = 0.0
    for node in place.nodes:
        with connected(node) as connection:
            run = connection.exec_driver_sql
            if place.is_postgresql:
                time.sleep(STATISTICS_SECONDS)
                transactions += run(
                    "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
                ).scalar_one()
                syncs += _postgresql_syncs(run)
            else:
                found = dict(run("SHOW GLOBAL STATUS").fetchall())
                transactions += int(found["Com_commit"])
                syncs += int(found["Innodb_data_fsyncs"])
    return transactions, syncs


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

    def counted(self, count: int) -> tuple[float, float]:
        """Return the transactions and syncs of an append, of all nodes."""
        before = counted(self.place)
        idle = counted(self.place)
        self.append(count)
        after = counted(self.place)
        return tuple(  # type: ignore[return-value]
            (end - begin - (begin - first)) / count
            for first, begin, end in zip(before, idle, after, strict=True)
        )


# the storm


def write(url: str, number: int, seconds: float, ready: Any, go: Any, results: Any) -> None:
    """Append in threads for some seconds; put the number of events."""
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
        until = time.monotonic() + seconds

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
    results.put(sum(counts))


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
    total = sum(results.get() for _ in range(processes))
    time.sleep(1)
    end.set()
    try:
        delays = seen.get(timeout=30)
    except Empty:
        delays = []
    for process in started:
        process.join()
    return total / seconds, delays, (counted(place)[1] - before[1]) / total


def main() -> None:
    """Measure all places, in turn, and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", action="append", required=True, metavar="NAME=URL")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="less of everything, less exact")
    parser.add_argument("--writers", type=int, default=64, help="default 64")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each storm, default 10")
    parser.add_argument("--rounds", type=int, default=3, help="default 3")
    options = parser.parse_args()
    places = [Place(*text.split("=", 1)) for text in options.url]
    rounds, seconds = (1, 3.0) if options.quick else (options.rounds, options.seconds)
    alone = [Alone(place) for place in places]
    for _ in range(10 * rounds):
        for each in alone:
            each.round(32)
    figures = []
    for each in alone:
        name = each.place.name
        transactions, syncs = each.counted(100 * rounds)
        figures += [
            Figure(f"{name}: alone, CPU of an append", 1e6 * min(each.cpu), "us"),
            Figure(f"{name}: alone, transactions an append, all nodes", transactions),
            Figure(f"{name}: alone, syncs an append, all nodes", syncs),
        ]
        each.store.close()
    storms: dict[str, list[tuple[float, list[float], float]]] = {p.name: [] for p in places}
    for _ in range(rounds):
        for place in places:
            storms[place.name].append(storm(place, options.writers, seconds))
    for place in places:
        found = storms[place.name]
        delays = sorted(delay for _, some, _ in found for delay in some)
        with EventStore.open(place.url, read_only=True) as store:
            events = sum(version for _, version in store.conversations())
        figures += [
            Figure(
                f"{place.name}: storm, events", median(rate for rate, _, _ in found), "a second"
            ),
            Figure(f"{place.name}: storm, syncs an event", median(s for _, _, s in found)),
            Figure(f"{place.name}: storm, delay of the feed, median", median(delays), "ms"),
            Figure(
                f"{place.name}: storm, delay of the feed, 95 %", quantiles(delays, n=20)[-1], "ms"
            ),
            Figure(f"{place.name}: bytes an event", size_of(place) / events),
        ]
    report(__file__, options, figures)


if __name__ == "__main__":
    main()
