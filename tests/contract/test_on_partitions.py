"""The contract holds where the tables are partitioned by lane: every unique key begins with it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.servers import EMPTYING
from support.storages import open_limited
from support.tiers import LONG, also_long

from eventstore import EventStore, StorageError
from eventstore.migrate import move, partition
from eventstore.storage.interface import Storage
from eventstore.testing import OpenStorage, SharedEventStoreContract, SharedStorageContract
from projections.cli import app

if TYPE_CHECKING:
    from support.servers import PostgreSQL, Server

PARTITIONS = 4


@pytest.fixture(scope="module")
def partitioned() -> dict[str, str]:
    """Return the URL of the one partitioned store of each engine, once there is one."""
    return {}


class _OnPartitions:
    """A contract with few rows at once, so that short tests read many times."""

    more_than_a_chunk = 14

    @pytest.fixture
    def open_storage(
        self, request: pytest.FixtureRequest, kind: str, partitioned: dict[str, str]
    ) -> Iterator[OpenStorage]:
        """Return a function that opens storages on one database."""
        server: Server = request.getfixturevalue(kind)
        if kind not in partitioned:
            partitioned[kind] = server.database(migrated=True)
            assert partition(partitioned[kind], PARTITIONS) == 1
        url = partitioned[kind]
        server.execute(*EMPTYING, database=url)
        assert partition(url, PARTITIONS) == PARTITIONS
        opened: list[Storage] = []

        def open_storage(tenant: str = "") -> Storage:
            opened.append(open_limited(url, tenant, chunk_rows=4))
            return opened[-1]

        yield open_storage
        for storage in opened:
            storage.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", also_long(["postgresql"], ["mariadb"]))
class TestOnPartitions(_OnPartitions, SharedStorageContract):
    """The contract of storages on servers that keep the lanes in four partitions."""


if LONG:  # partitions are below the storage: no store sees them

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
    class TestStoresOnPartitions(_OnPartitions, SharedEventStoreContract):
        """The contract of stores there."""


def grow(url: str, stop: threading.Event) -> list[str]:
    """Append to conversations in all lanes until told to stop; return what was acknowledged."""
    done: list[str] = []
    with EventStore.open(url) as store:
        while not stop.is_set():
            text = f"{len(done)}"
            store.conversation(f"c{len(done) % 40}").add_message("user", text)
            done.append(text)
    return done


@pytest.mark.server
@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_a_log_is_partitioned_while_others_write(request: pytest.FixtureRequest, kind: str) -> None:
    """Every append is acknowledged and stored once; the log is whole, divided and joined again."""
    url = request.getfixturevalue(kind).database(migrated=True)
    stop = threading.Event()
    with ThreadPoolExecutor(2) as threads:
        writers = [threads.submit(grow, url, stop) for _ in range(2)]
        try:
            with EventStore.open(url) as store:
                counts = (16, 3, 1)
                for count in counts:
                    before = store.end()
                    while store.end() == before:  # each form is written to
                        pass
                    partition(url, count)
                    assert partition(url, count) == count
        finally:
            stop.set()
        written = [text for writer in writers for text in writer.result()]
    with EventStore.open(url) as store:
        found = [recorded.event.parts[0].text for recorded in store.read()]
        assert sorted(found) == sorted(written)
        assert list(store.verify()) == []


@pytest.mark.server
def test_the_command_divides_and_joins(
    postgresql: PostgreSQL, capsys: pytest.CaptureFixture[str]
) -> None:
    """`toolledger migrate --partitions` says what it did."""
    url = postgresql.database(migrated=True)

    def run(*more: str) -> tuple[int, str]:
        status = app.run(["migrate", "--url", url, "--partitions", *more])
        output = capsys.readouterr()
        return status, output.out + output.err

    assert run("4") == (0, "the events went from 1 partition to 4\n")
    assert run("4") == (0, "the events are in 4 partitions: nothing to do\n")
    status, joined = run("1", "--json")
    assert (status, json.loads(joined)) == (0, {"before": 4, "partitions": 1})
    assert "the store has 16 lanes" in run("17")[1]
    assert "pass it without --down" in run("2", "--down", "0001")[1]


@pytest.mark.server
def test_partitions_keep_the_owner_and_the_grants(postgresql: PostgreSQL) -> None:
    """A role that may read the log may read it afterwards, and each lane has its partition."""
    url = postgresql.database(migrated=True)
    reader = postgresql.new_name("reader")
    postgresql.execute(f"CREATE ROLE {reader}")
    postgresql.execute(f"GRANT SELECT ON toolledger_events TO {reader}, PUBLIC", database=url)
    partition(url, 5)
    granted = postgresql.execute(
        "SELECT grantee FROM information_schema.table_privileges "
        "WHERE table_name = 'toolledger_events' AND privilege_type = 'SELECT'",
        database=url,
    )
    assert {reader, "PUBLIC"} <= {name for (name,) in granted}
    with EventStore.open(url) as store:
        for number in range(100):
            store.conversation(f"c{number}").add_message("user", "hi")
    counted = postgresql.execute(
        "SELECT tableoid::regclass::text, min(lane), max(lane) FROM toolledger_events GROUP BY 1",
        database=url,
    )
    assert sorted((low, high) for _, low, high in counted) == [
        (0, 2),
        (3, 5),
        (6, 8),
        (9, 11),
        (12, 15),
    ]
    with pytest.raises(StorageError, match="run `toolledger migrate --partitions 1` first"):
        move(url, "0001")
    assert partition(url, 1) == 5
    postgresql.execute(f"DROP OWNED BY {reader}", database=url)
    postgresql.execute(f"DROP ROLE {reader}")


def test_partitions_of_a_file_are_refused(tmp_path: Path) -> None:
    """A SQLite file has one lane."""
    url = f"sqlite:///{tmp_path / 'a.db'}"
    EventStore.open(url).close()
    with pytest.raises(ValueError, match="a SQLite store has one lane"):
        partition(url, 4)


@pytest.mark.server
@pytest.mark.parametrize("count", [0, 17, -1])
def test_a_count_that_makes_no_sense_is_refused(postgresql: PostgreSQL, count: int) -> None:
    """The error names the count and the lanes."""
    url = postgresql.database(migrated=True)
    with pytest.raises(ValueError, match=f"partitions is {count}: the store has 16 lanes"):
        partition(url, count)
