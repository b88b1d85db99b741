"""SQLite keeps the contract, in memory and in a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.storages import open_limited

from eventstore.storage.factory import open_storage as open_sqlite
from eventstore.storage.interface import Storage
from eventstore.testing import (
    EventStoreContract,
    OpenStorage,
    SealsContract,
    SharedEventStoreContract,
    SharedStorageContract,
    StorageContract,
    SubjectContract,
)


@pytest.fixture
def opened() -> Iterator[list[Storage]]:
    """Return the storages that a test opened, and close them after it."""
    storages: list[Storage] = []
    yield storages
    for storage in storages:
        storage.close()


class TestInMemory(StorageContract, EventStoreContract, SubjectContract):
    """The contract on a database in memory, which one storage alone can use."""

    @pytest.fixture
    def open_storage(self, opened: list[Storage]) -> OpenStorage:
        """Return a function that opens a new database at each call."""

        def open_storage(tenant: str = "") -> Storage:
            opened.append(open_sqlite("sqlite://", tenant, "full", 30.0))
            return opened[-1]

        return open_storage


class TestInAFile(SharedStorageContract, SharedEventStoreContract, SealsContract, SubjectContract):
    """The contract on a file, with few rows at once, so that short tests read many times."""

    more_than_a_chunk = 14

    @pytest.fixture
    def open_storage(self, tmp_path: Path, opened: list[Storage]) -> OpenStorage:
        """Return a function that opens storages on one file."""

        def open_storage(tenant: str = "") -> Storage:
            opened.append(open_limited(f"sqlite:///{tmp_path / 'agent.db'}", tenant, chunk_rows=4))
            return opened[-1]

        return open_storage
