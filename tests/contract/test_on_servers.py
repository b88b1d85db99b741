"""Every server keeps the contract."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from eventstore.storage import Storage, reading
from eventstore.storage.opening import open_storage as open_at
from eventstore.testing import OpenStorage, SharedEventStoreContract, SharedStorageContract

if TYPE_CHECKING:
    from servers import Server


class TestOnServers(SharedStorageContract, SharedEventStoreContract):
    """Real ones; few rows at once, so that short tests read many times."""

    more_than_a_chunk = 14

    @pytest.fixture(autouse=True)
    def chunk(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Fetch four rows at once."""
        monkeypatch.setattr(reading, "CHUNK", 4)

    @pytest.fixture
    def open_storage(self, server: Server) -> Iterator[OpenStorage]:
        """All of one database."""
        url = server.database(migrated=True)
        opened: list[Storage] = []

        def open_storage(tenant: str = "") -> Storage:
            opened.append(open_at(url, tenant, "full", 30.0))
            return opened[-1]

        yield open_storage
        for storage in opened:
            storage.close()
