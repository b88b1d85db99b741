"""SQLite keeps the contract, in memory and in a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from eventstore.storage import Storage, reading
from eventstore.storage.files import open_storage as open_sqlite
from eventstore.testing import (
    EventStoreContract,
    OpenStorage,
    SharedEventStoreContract,
    SharedStorageContract,
    StorageContract,
)


@pytest.fixture
def opened() -> Iterator[list[Storage]]:
    """The storages that a test opened; closed behind it."""
    storages: list[Storage] = []
    yield storages
    for storage in storages:
        storage.close()


class TestInMemory(StorageContract, EventStoreContract):
    """A database in memory is of one storage alone."""

    @pytest.fixture
    def open_storage(self, opened: list[Storage]) -> OpenStorage:
        """Each call is a database of its own."""

        def open_storage(tenant: str = "") -> Storage:
            opened.append(open_sqlite("sqlite://", tenant, "full", 30.0))
            return opened[-1]

        return open_storage


class TestInAFile(SharedStorageContract, SharedEventStoreContract):
    """A file, as people use it; few rows at once, so that short tests read many times."""

    more_than_a_chunk = 14

    @pytest.fixture(autouse=True)
    def chunk(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Fetch four rows at once."""
        monkeypatch.setattr(reading, "CHUNK", 4)

    @pytest.fixture
    def open_storage(self, tmp_path: Path, opened: list[Storage]) -> OpenStorage:
        """All of one file."""

        def open_storage(tenant: str = "") -> Storage:
            opened.append(open_sqlite(f"sqlite:///{tmp_path / 'agent.db'}", tenant, "full", 30.0))
            return opened[-1]

        return open_storage
