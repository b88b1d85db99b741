"""A server's tables are made anew beside two writers and two readers.

upgrade: a log of revision 0001 is brought to the latest one, while processes of the first release
read and write; they end when the schema is theirs no longer. partitions, and distribute where
`TOOLLEDGER_CITUS_URL` names a cluster: the same beside processes of this version.

wait: the longest append or read of a process, its last one that fails included. log: what the
server wrote to its write-ahead log (InnoDB's redo log), that of the writers included, divided by
the size of the new tables.

A server is started for it, its files on disk (`tests/support/servers.py`). `MYSQL` in the
environment, not empty, measures MariaDB in the same way.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from measure import ROOT, Figure, arguments, folder, report
from sqlalchemy import create_engine, make_url

from eventstore.migrate import distribute, move, partition

sys.path.insert(0, str(ROOT / "tests"))

from support.servers import MariaDB, PostgreSQL

FIRST = "92b71ab"
"""A commit whose schema is of revision 0001."""

CHAT = 250
"""The events of a conversation."""

GROW = """
import sys
from eventstore import EventStore, MessageAdded, Text
with EventStore.open(sys.argv[1], durability="normal") as store:
    for number in range(int(sys.argv[2])):
        texts = (f"{number}.{place} " + "word " * 40 for place in range(250))
        store.conversation(f"c{number}").append(*(MessageAdded("user", (Text(t),)) for t in texts))
"""

BESIDE = """
import os, sys, threading, time
from eventstore import EventStore, MessageAdded, Text
url, writes, longest = sys.argv[1], sys.argv[2] == "write", 0.0
stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
with EventStore.open(url) as store:
    print("ready", flush=True)
    number = 0
    while not stop.is_set():
        number += 1
        chat, began, error = store.conversation(f"c{number % 20}"), time.monotonic(), ""
        try:
            if writes:
                store.conversation(f"{os.getpid()}-{number % 997}").append(
                    MessageAdded("user", (Text("beside"),)))
            else:
                assert len(list(chat.events())) >= 250
        except Exception as raised:
            error = type(raised).__name__ + ": " + str(raised)
        longest = max(longest, time.monotonic() - began)
        if error:
            break
        time.sleep(0.002)
print(longest, number, error, flush=True)
os._exit(0)
"""

EVENTS = ("events", "event_ids")
DIVIDED = (*EVENTS, "conversations", "fingerprints")
SPREAD = (*DIVIDED, "lanes", "archives", "seals", "subjects")


def started(checkout: Path, script: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a script with the library of a checkout."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, "PYTHONPATH": str(checkout)},
        cwd=checkout,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def grow(checkout: Path, url: str, events: int) -> None:
    """Write a log by the library of a checkout."""
    process = started(checkout, GROW, url, str(events // CHAT))
    process.communicate()
    assert process.returncode == 0


class Gauge:
    """What a server has written, and how large tables are."""

    def __init__(self, url: str) -> None:
        parsed = make_url(url)
        self.is_postgresql = parsed.drivername.startswith("postgresql")
        driver = "postgresql+psycopg" if self.is_postgresql else "mysql+pymysql"
        engine = create_engine(parsed.set(drivername=driver), isolation_level="AUTOCOMMIT")
        self.connection = engine.connect()

    def ask(self, statement: str) -> float:
        """Return the last value of the first row."""
        return float(self.connection.exec_driver_sql(statement).fetchall()[0][-1] or 0)

    def written(self) -> float:
        """Return the bytes that the server has logged so far."""
        if self.is_postgresql:
            return self.ask("SELECT pg_current_wal_lsn() - '0/0'")
        return self.ask("SHOW GLOBAL STATUS LIKE 'Innodb_os_log_written'")

    def settle(self) -> None:
        """Let the server do what it would do later."""
        if self.is_postgresql:
            self.connection.exec_driver_sql("VACUUM ANALYZE")
            self.connection.exec_driver_sql("CHECKPOINT")

    def size(self, names: tuple[str, ...]) -> float:
        """Return the bytes of tables, with their keys and partitions."""
        if self.is_postgresql:
            asked = (
                f"SELECT pg_total_relation_size('toolledger_{name}') + COALESCE(SUM("
                "pg_total_relation_size(inhrelid)), 0) FROM pg_inherits "
                f"WHERE inhparent = 'toolledger_{name}'::regclass"
                for name in names
            )
            return sum(map(self.ask, asked))
        for name in names:
            self.connection.exec_driver_sql(f"ANALYZE TABLE toolledger_{name}").fetchall()
        listed = ", ".join(f"'toolledger_{name}'" for name in names)
        return self.ask(
            "SELECT SUM(data_length + index_length) FROM information_schema.tables "
            f"WHERE table_schema = DATABASE() AND table_name IN ({listed})"
        )


def beside(
    what: str, checkout: Path, url: str, change: Callable[[], object], names: tuple[str, ...]
) -> list[Figure]:
    """Make a change while processes of a checkout read and write; return the figures."""
    gauge = Gauge(url)
    gauge.settle()
    roles = ("read", "write") * 2
    processes = [started(checkout, BESIDE, url, role) for role in roles]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    before, began = gauge.written(), time.monotonic()
    change()
    took, logged = time.monotonic() - began, gauge.written() - before
    waits: dict[str, float] = {}
    for role, process in zip(roles, processes, strict=True):
        wait, _, error = process.communicate()[0].strip("\n").split(" ", 2)
        waits[role] = max(waits.get(role, 0), float(wait))
        print(f"{what}: a process that {role}s: {wait} {error}", file=sys.stderr)
        assert what == "upgrade" or not error, "it would have gone on, and perhaps waited longer"
    figures = [
        Figure(f"{what}: the whole", took, "s"),
        Figure(f"{what}: longest wait of a writer", waits["write"], "s", 1),
        Figure(f"{what}: longest wait of a reader", waits["read"], "s", 1),
    ]
    if what != "distribute":  # which writes on other nodes, too
        figures.append(Figure(f"{what}: log", logged / gauge.size(names), "of tables", 1.5))
    return figures


def measured(events: int, scratch: Path) -> list[Figure]:
    """Return the figures of a server that is started, or of the cluster that is named."""
    if os.environ.get("TOOLLEDGER_CITUS_URL"):
        from support.citus import Citus

        cluster = Citus.at(os.environ["TOOLLEDGER_CITUS_URL"])
        url = cluster.url(cluster.database())
        try:
            grow(ROOT, url, events)
            return beside("distribute", ROOT, url, partial(distribute, url), SPREAD)
        finally:
            cluster.remove()
    old = scratch / "old"
    old.mkdir()
    git, tar = (shutil.which(name) or name for name in ("git", "tar"))
    packed = subprocess.run([git, "archive", FIRST], cwd=ROOT, check=True, capture_output=True)
    subprocess.run([tar, "x", "-C", str(old)], input=packed.stdout, check=True)
    server = (MariaDB if os.environ.get("MYSQL") else PostgreSQL)(scratch)
    server.start()
    try:
        url = server.database()
        grow(old, url, events)
        return [
            *beside("upgrade", old, url, partial(move, url), EVENTS),
            *beside("partitions", ROOT, url, partial(partition, url, 4), DIVIDED),
        ]
    finally:
        server.remove()


def main() -> None:
    """Measure."""
    options = arguments(__doc__, events=1_000_000)
    events = options.events or (10_000 if options.quick else 1_000_000)
    with folder() as scratch:
        Path(scratch).chmod(0o755)  # a server runs as another user
        report(__file__, options, measured(events, Path(scratch)))


if __name__ == "__main__":
    main()
