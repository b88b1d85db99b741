"""The contract holds where the tables are spread over the nodes of a cluster, at any of them."""

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
    from support.citus import Citus


@pytest.mark.slow
class TestOnCitus(SharedStorageContract, SharedEventStoreContract, SealsContract, SubjectContract):
    """The contract on a cluster: each storage is opened at the next node."""

    more_than_a_chunk = 14

    @pytest.fixture
    def open_storage(self, citus: Citus) -> Iterator[OpenStorage]:
        """Return a function that opens storages on one database."""
        citus.emptied()
        opened: list[Storage] = []

        def open_storage(tenant: str = "") -> Storage:
            node = (len(opened) + 1) % len(citus.places)
            opened.append(open_limited(citus.emptied_at(node), tenant, chunk_rows=4))
            return opened[-1]

        yield open_storage
        for storage in opened:
            storage.close()

    def test_the_epoch_is_of_the_database(self, open_storage: OpenStorage) -> None:
        """A cursor is valid at all nodes; each storage has the URL of its own."""
        mine, other = open_storage(), open_storage("other")
        assert mine.epoch == other.epoch
        assert mine.url != other.url
        assert (mine.tenant, other.tenant) == ("", "other")
