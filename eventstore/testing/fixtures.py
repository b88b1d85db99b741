"""The fixtures of the contracts: a storage, a clock, and a store over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import pytest

from eventstore.storage.interface import Storage
from eventstore.store import EventStore
from eventstore.testing.clock import FrozenClock


class OpenStorage(Protocol):
    """Opens a storage on the one database of a test."""

    def __call__(self, tenant: str = "") -> Storage:
        """Return a storage of the tenant."""
        raise NotImplementedError


MakeStore = Callable[[Storage, Callable[[], int]], EventStore]
"""Makes a store over a storage, with a clock."""


class ContractFixtures:
    """What every test of a contract is given."""

    more_than_a_chunk = 1100
    """More rows than the storage reads at once."""

    @pytest.fixture
    def open_storage(self) -> OpenStorage:
        """Return `open_storage(tenant="")`; its storages use one database, new for each test."""
        raise NotImplementedError("override the fixture `open_storage`")

    @pytest.fixture
    def storage(self, open_storage: OpenStorage) -> Storage:
        """Return a storage on the test's database."""
        return open_storage()

    @pytest.fixture
    def clock(self) -> FrozenClock:
        """Return the clock of the stores."""
        return FrozenClock()

    @pytest.fixture
    def make_store(self) -> MakeStore:
        """Return what makes a store over a storage; override it to test a facade of the store."""
        return EventStore

    @pytest.fixture
    def store(self, storage: Storage, clock: FrozenClock, make_store: MakeStore) -> EventStore:
        """Return a store over the storage."""
        return make_store(storage, clock)
