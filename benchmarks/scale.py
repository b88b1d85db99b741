"""What a log of 10,000,000 events costs, beside the same work in a log of 10,000.

Both logs are open at once, and each work is done in both in turn: lifecycles of single appends, a
batch of 1,000 events, the feed of what was appended last, the next prompt of a conversation of 50
calls, the tools of a conversation of 1,000 events, and opening the store. A ratio is the long log's
time divided by the short one's, the median over the rounds. On SQLite the clock is CPU time; with
`--server 1` the logs are on a PostgreSQL that is started for it, and the clock is the wall's.

Bytes are those of the database with all indexes, divided by its events.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path

import bare
import logs
from measure import ROOT, Figure, arguments, folder, in_turn, median, report

from eventstore import EventStore
from projections import current_tools, error_statistics, model_history

SHORT = 10_000
EVENTS_PER_CONVERSATION = 1000
LONGER = 1.2
"""The most that a work may take in the long log, as a multiple of the short log's."""


class Log:
    """An open log of a given length, and the work that is measured in it."""

    def __init__(self, url: str, events: int) -> None:
        self.url = url
        logs.grow(url, -(-events // EVENTS_PER_CONVERSATION), EVENTS_PER_CONVERSATION)
        self.store = EventStore.open(url, durability="normal")
        self._batches = 0
        self._calls = 0
        prompted = list(islice(logs.endless_conversation(0), 250))
        self.store.conversation("prompted").append(*prompted)

    def appends(self) -> None:
        """Append the lifecycles of 20 calls, event by event."""
        chat = self.store.conversation("appended")
        for _ in range(20):
            self._calls += 1
            call = chat.request("find_order", {"number": self._calls})
            chat.start(call.id)
            chat.complete(call.id, {"number": self._calls})

    def batch_and_feed(self) -> None:
        """Append 1,000 events at once, and read them from the feed."""
        end = self.store.end()
        self._batches += 1
        events = islice(logs.endless_conversation(self._batches), 1000)
        self.store.conversation(f"batch-{self._batches}").append(*events)
        assert sum(1 for _ in self.store.read(end)) == 1000

    def prompt(self) -> None:
        """Make the next prompt of a conversation of about 50 calls."""
        model_history(self.store.conversation("prompted").events()).render("openai")

    def tools(self) -> None:
        """Rebuild the tools of one conversation."""
        assert current_tools(self.store.conversation("conversation-1").events())

    def opening(self) -> None:
        """Open the store once more."""
        EventStore.open(self.url).close()


WORKS: dict[str, Callable[[Log], None]] = {
    "60 single appends": Log.appends,
    "a batch of 1,000 and its feed": Log.batch_and_feed,
    "a prompt": Log.prompt,
    "the tools of a conversation": Log.tools,
    "opening": Log.opening,
}


def figures(short: Log, long: Log, rounds: int, now: Callable[[], float]) -> list[Figure]:
    """Return each work's ratio, and its time in the long log."""
    found = []
    for name, work in WORKS.items():
        times = [
            in_turn(now, partial(work, short), partial(work, long), first=number)
            for number in range(rounds)
        ]
        found += [
            Figure(f"{name}: long / short", median(b / a for a, b in times), "", LONGER),
            Figure(f"{name}: long", median(b for _, b in times) * 1e3, "ms"),
        ]
    return found


def statistics(log: Log, events: int) -> float:
    """Return the CPU seconds that the error statistics of the whole log take for each event."""
    began = time.process_time()
    assert error_statistics(log.store.read()).events >= events
    return (time.process_time() - began) / events


def sqlite_bytes(log: Log) -> float:
    """Return the bytes of a file for each of its events."""
    log.store.close()
    path = Path(log.url.removeprefix("sqlite:///"))
    connection = bare.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    ((count,),) = connection.execute("SELECT count(*) FROM toolledger_events")
    connection.close()
    return path.stat().st_size / float(count)


@contextmanager
def on_sqlite() -> Generator[tuple[Callable[[str], str], Callable[[Log], float]]]:
    """Give what makes a URL of a name, and what counts a log's bytes."""
    with folder() as name:
        yield lambda log: f"sqlite:///{Path(name) / log}.db", sqlite_bytes


@contextmanager
def on_postgresql() -> Generator[tuple[Callable[[str], str], Callable[[Log], float]]]:
    """Give the same for a server that is started, and stopped at the end."""
    import sys

    sys.path.insert(0, str(ROOT / "tests"))
    from support.servers import PostgreSQL

    place = folder()
    Path(place.name).chmod(0o755)
    server = PostgreSQL(Path(place.name))
    server.start()

    def size(log: Log) -> float:
        tables = "sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r'"
        ((total,),) = server.execute(
            f"SELECT {tables} AND starts_with(relname, 'toolledger_')",
            database=log.url,
        )
        ((count,),) = server.execute("SELECT count(*) FROM toolledger_events", database=log.url)
        return float(total) / float(count)

    try:
        yield lambda _: server.database(migrated=True), size
    finally:
        server.remove()
        place.cleanup()


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__, events=10_000_000, rounds=21, server=0)
    events = options.events or (50_000 if options.quick else 10_000_000)
    rounds = options.rounds or (3 if options.quick else 21)
    now = time.perf_counter if options.server else time.process_time
    with ExitStack() as stack:
        url, size = stack.enter_context(on_postgresql() if options.server else on_sqlite())
        began = time.monotonic()
        short, long = Log(url("short"), SHORT), Log(url("long"), events)
        grown = time.monotonic() - began
        stack.callback(short.store.close)
        stack.callback(long.store.close)
        found = figures(short, long, rounds, now)
        each = statistics(short, SHORT), statistics(long, events)
        found += [
            Figure("statistics, an event: long / short", each[1] / each[0], "", LONGER),
            Figure("statistics, an event: long", each[1] * 1e6, "µs"),
            Figure(f"in {events:,} events", size(long), "B/event"),
            Figure(f"in {SHORT:,} events", size(short), "B/event"),
            Figure("writing both logs", grown, "s"),
        ]
    report(__file__, options, found)


if __name__ == "__main__":
    main()
