"""Every server keeps the contract."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from support.storages import open_limited

from eventstore.storage.interface import Storage
from eventstore.testing import (
    OpenStorage,
    SealsContract,
    SharedEventStoreContract,
    SharedStorageContract,
    SubjectContract,
)

if TYPE_CHECKING:
    from support.servers import Server


class TestOnServers(
    SharedStorageContract, SharedEventStoreContract, SealsContract, SubjectContract
):
    """The contract on real servers, with few rows at once, so that short tests read many times."""

    more_than_a_chunk = 14

    @pytest.fixture
    def open_storage(self, server: Server) -> Iterator[OpenStorage]:
        """Return a function that opens storages on one database."""
        url = server.emptied()
        opened: list[Storage] = []

        def open_storage(tenant: str = "") -> Storage:
            opened.append(open_limited(url, tenant, chunk_rows=4))
            return opened[-1]

        yield open_storage
        for storage in opened:
            storage.close()
