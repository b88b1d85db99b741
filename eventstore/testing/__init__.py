"""Support for tests: contracts of storages, providers, projections, importers; builders, a clock.

One class tests that a storage keeps the contract. For a database that only one storage can use at a
time, derive it from `StorageContract` and `EventStoreContract` instead. `SubjectContract`
is for both:

    class TestMine(SharedStorageContract, SharedEventStoreContract, SubjectContract):
        @pytest.fixture
        def open_storage(self):
            opened = []

            def open_storage(tenant=""):
                opened.append(MyStorage(..., tenant))  # one database for each test
                return opened[-1]

            yield open_storage
            for storage in opened:
                storage.close()

Where the storage keeps seals, derive it from `SealsContract`, too.

For a provider, a projection or a file format, derive it from `ProviderContract`,
`ProjectionContract` or `ImporterContract`, which say what they need.

Only tests import this module; it needs pytest.
"""

from __future__ import annotations

from eventstore.testing.appending import all_events, append, append_one, forbid_rebase, rebase_with
from eventstore.testing.builders import (
    approved,
    completed,
    draft,
    failed,
    fingerprint_of,
    log,
    message,
    paused,
    pending,
    rejected,
    running,
)
from eventstore.testing.clock import NOON, FrozenClock
from eventstore.testing.concurrency import run_concurrently
from eventstore.testing.fixtures import OpenStorage
from eventstore.testing.history import (
    Acknowledgement,
    Guarantee,
    Place,
    Placed,
    Reading,
    Violation,
    acknowledged,
    check_history,
    places,
    refused,
    unknown,
)
from eventstore.testing.importer_contract import ImporterContract
from eventstore.testing.projection_contract import ProjectionContract
from eventstore.testing.provider_contract import ProviderContract
from eventstore.testing.seals_contract import SealsContract
from eventstore.testing.shared_store_contract import SharedEventStoreContract
from eventstore.testing.storage_contract import SharedStorageContract, StorageContract
from eventstore.testing.store_contract import EventStoreContract
from eventstore.testing.subject_contract import SubjectContract

__all__ = [
    "NOON",
    "Acknowledgement",
    "EventStoreContract",
    "FrozenClock",
    "Guarantee",
    "ImporterContract",
    "OpenStorage",
    "Place",
    "Placed",
    "ProjectionContract",
    "ProviderContract",
    "Reading",
    "SealsContract",
    "SharedEventStoreContract",
    "SharedStorageContract",
    "StorageContract",
    "SubjectContract",
    "Violation",
    "acknowledged",
    "all_events",
    "append",
    "append_one",
    "approved",
    "check_history",
    "completed",
    "draft",
    "failed",
    "fingerprint_of",
    "forbid_rebase",
    "log",
    "message",
    "paused",
    "pending",
    "places",
    "rebase_with",
    "refused",
    "rejected",
    "run_concurrently",
    "running",
    "unknown",
]
