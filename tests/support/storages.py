"""Storages opened with other sizes than the usual ones, and the storage of an open store."""

from __future__ import annotations

from eventstore import EventStore
from eventstore.storage.factory import backend_for
from eventstore.storage.sql.backend import Limits
from eventstore.storage.sql.storage import SqlStorage


def open_limited(
    url: str, tenant: str = "", *, durability: str = "full", **limits: int
) -> SqlStorage:
    """Open the storage at a URL, with some of its `Limits`."""
    backend = backend_for(url, durability)
    backend.limits = Limits(**limits)
    storage = backend.open(tenant, new=True)
    assert isinstance(storage, SqlStorage)
    return storage


def sql_storage_of(store: EventStore) -> SqlStorage:
    """Return the storage of a store."""
    storage = store.session.storage
    assert isinstance(storage, SqlStorage)
    return storage
