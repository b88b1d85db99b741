"""DuckDB, a backend from outside, keeps the contract: in memory, and in a file of one process."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("duckdb")

from support.duckdb_storage import DuckDb
from support.storages import open_limited
from support.tiers import LONG

from eventstore import EventStore, NotAStore, StoreBusy
from eventstore.engines import backend_for
from eventstore.migrate import REVISIONS, move
from eventstore.storage.factory import open_storage as open_at
from eventstore.storage.interface import Storage
from eventstore.testing import (
    EventStoreContract,
    OpenStorage,
    SharedEventStoreContract,
    SharedStorageContract,
    StorageContract,
    SubjectContract,
    message,
)


@pytest.fixture
def opened() -> Iterator[list[Storage]]:
    """Return the storages that a test opened, and close them at its end."""
    storages: list[Storage] = []
    yield storages
    for storage in storages:
        storage.close()


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return the URL of a file to be created."""
    return f"duckdb:///{tmp_path / 'agent.db'}"


class TestInMemory(StorageContract, EventStoreContract, SubjectContract):
    """A database in memory is of one storage alone."""

    __test__ = LONG  # the storage is an example

    @pytest.fixture
    def open_storage(self, opened: list[Storage]) -> OpenStorage:
        """Return a function that opens a new database at each call."""

        def open_storage(tenant: str = "") -> Storage:
            opened.append(open_at("duckdb://", tenant, "full", 30.0))
            return opened[-1]

        return open_storage


class TestInAFile(SharedStorageContract, SharedEventStoreContract, SubjectContract):
    """Several handles of one process share a file; they read few rows at once."""

    __test__ = LONG

    more_than_a_chunk = 14

    @pytest.fixture
    def open_storage(self, url: str, opened: list[Storage]) -> OpenStorage:
        """Return a function that opens storages on one file."""

        def open_storage(tenant: str = "") -> Storage:
            opened.append(open_limited(url, tenant, chunk_rows=4))
            return opened[-1]

        return open_storage


def test_a_store_is_opened_by_its_registered_scheme(url: str) -> None:
    """Stored events are found when the file is opened again."""
    with EventStore.open(url) as store:
        store.conversation("chat").append(message("a"))
    with EventStore.open(url, create=False) as store:
        assert store.conversation("chat").version == 1
        assert list(store.verify()) == []
    assert isinstance(backend_for(url), DuckDb)
    assert move(url) == (REVISIONS[-1], REVISIONS[-1])


def test_a_missing_file_is_not_created_unasked(url: str) -> None:
    """`create=False` refuses a missing file."""
    with pytest.raises(NotAStore, match="there is no store at"):
        EventStore.open(url, create=False)


def test_writers_of_a_process_wait_for_each_other_and_no_longer_than_allowed(url: str) -> None:
    """The one whose wait times out raises StoreBusy."""
    with EventStore.open(url) as one, EventStore.open(url, busy_timeout=0.01) as other:
        refused = pytest.raises(StoreBusy, match="nothing was written")
        with backend_for(url).migrating(), refused:
            other.conversation("chat").append(message("too early"))
        assert other.conversation("chat").append(message("a"))[0].version == 1
        assert one.conversation("chat").version == 1


def _open(url: str) -> str:
    try:
        EventStore.open(url).close()
    except StoreBusy as error:
        return str(error)
    return "opened"


def test_a_second_process_is_refused(url: str) -> None:
    """DuckDB opens a file for one process: this is the one promise that it does not keep."""
    with EventStore.open(url), multiprocessing.get_context("spawn").Pool(1) as pool:
        assert "lock" in pool.apply(_open, (url,))
