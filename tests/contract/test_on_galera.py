"""A Galera cluster keeps the contract, whichever node each storage talks to."""

from __future__ import annotations

import itertools
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
    from support.galera import Galera


class TestOnGalera(SharedStorageContract, SharedEventStoreContract, SealsContract, SubjectContract):
    """The contract, where each storage that a test opens is on another node than the one before."""

    more_than_a_chunk = 14

    @pytest.fixture
    def open_storage(self, galera: Galera) -> Iterator[OpenStorage]:
        """Return a function that opens storages on one database."""
        urls = itertools.cycle(galera.urls(galera.emptied()))
        opened: list[Storage] = []

        def open_storage(tenant: str = "") -> Storage:
            opened.append(open_limited(next(urls), tenant, chunk_rows=4))
            return opened[-1]

        yield open_storage
        for storage in opened:
            storage.close()

    def test_the_epoch_is_of_the_database(self, open_storage: OpenStorage) -> None:
        """A cursor is valid on all nodes; each storage has the URL of its own."""
        mine, other = open_storage(), open_storage("other")
        assert mine.epoch == other.epoch
        assert mine.url != other.url
        assert (mine.tenant, other.tenant) == ("", "other")
