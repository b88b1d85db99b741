"""The contract holds where the tables are partitioned by lane: every unique key begins with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from support.servers import MariaDB, PostgreSQL, Server
from support.storages import open_limited

from eventstore.storage.interface import Storage
from eventstore.testing import OpenStorage, SharedEventStoreContract, SharedStorageContract

TABLES = ("conversations", "event_ids", "events", "fingerprints", "lanes")
PARTITIONS = 4


def partition_postgresql(server: PostgreSQL, url: str) -> None:
    """Put partitioned tables with the same columns, keys and rows in the place of the tables."""
    for name in TABLES:
        table, plain = f"toolledger_{name}", f"toolledger_{name}_plain"
        server.execute(
            f"ALTER TABLE {table} RENAME TO {plain}",
            f"CREATE TABLE {table} (LIKE {plain} INCLUDING ALL) PARTITION BY HASH (lane)",
            *(
                f"CREATE TABLE {table}_{part} PARTITION OF {table} "
                f"FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {part})"
                for part in range(PARTITIONS)
            ),
            f"INSERT INTO {table} SELECT * FROM {plain}",  # noqa: S608 - constants
            f"DROP TABLE {plain}",
            database=url,
        )


def partition_mariadb(server: MariaDB, url: str) -> None:
    """Partition the tables where they are."""
    for name in TABLES:
        change = f"ALTER TABLE toolledger_{name} PARTITION BY HASH (lane) PARTITIONS {PARTITIONS}"
        server.execute(change, database=url)


MakeUrl = Callable[[], str]


@pytest.fixture(scope="module")
def partitioned_postgresql(postgresql: PostgreSQL) -> MakeUrl:
    """Return a function that gives the URL of a new store with partitioned tables."""
    template = postgresql.database(migrated=True)
    partition_postgresql(postgresql, template)
    name = template.rpartition("/")[2].partition("?")[0]

    def make() -> str:
        copy = postgresql.new_name()
        postgresql.execute(f"CREATE DATABASE {copy} TEMPLATE {name}")
        return postgresql.url(copy)

    return make


@pytest.fixture(scope="module")
def partitioned_mariadb(mariadb: MariaDB) -> MakeUrl:
    """Return a function that gives the URL of a new store with partitioned tables."""

    def make() -> str:
        url = mariadb.database(migrated=True)
        partition_mariadb(mariadb, url)
        return url

    return make


def partitions(server: Server, url: str) -> int:
    """Return how many partitions the table of events has."""
    counted = (
        "SELECT count(*) FROM pg_inherits WHERE inhparent = 'toolledger_events'::regclass"
        if isinstance(server, PostgreSQL)
        else "SELECT count(*) FROM information_schema.partitions "
        "WHERE table_schema = DATABASE() AND table_name = 'toolledger_events'"
    )
    ((count,),) = server.execute(counted, database=url)
    return int(count)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
class TestOnPartitions(SharedStorageContract, SharedEventStoreContract):
    """The contract on servers that keep the lanes in four partitions."""

    more_than_a_chunk = 14

    @pytest.fixture
    def open_storage(self, request: pytest.FixtureRequest, kind: str) -> Iterator[OpenStorage]:
        """Return a function that opens storages on one database."""
        url: str = request.getfixturevalue(f"partitioned_{kind}")()
        assert partitions(request.getfixturevalue(kind), url) == PARTITIONS
        opened: list[Storage] = []

        def open_storage(tenant: str = "") -> Storage:
            opened.append(open_limited(url, tenant, chunk_rows=4))
            return opened[-1]

        yield open_storage
        for storage in opened:
            storage.close()
