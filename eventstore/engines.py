"""Databases by their URLs: to bring a new kind for the log, or to open one for other tables.

    register_backend("duckdb", DuckDb)      # from now on EventStore.open("duckdb:///agent.db")

Another distribution registers its backend with an entry point, group `toolledger.storage`, named
for the scheme. What a backend must keep is tested by the contracts in `eventstore.testing`.
"""

from __future__ import annotations

from eventstore.storage.factory import (
    BackendFactory,
    backend_for,
    open_engine,
    register_backend,
)
from eventstore.storage.sql.backend import Backend
from eventstore.storage.sql.opening import migrate_in_transaction, open_in_transaction
from eventstore.storage.sql.table_engine import TableEngine
from eventstore.storage.urls import shown as shown_url

__all__ = [
    "Backend",
    "BackendFactory",
    "TableEngine",
    "backend_for",
    "migrate_in_transaction",
    "open_engine",
    "open_in_transaction",
    "register_backend",
    "shown_url",
]
