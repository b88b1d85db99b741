"""A new store in SQLite: what the migrations make of an empty database, without running them again.

They take some 15 ms, of which SQLite's part is one. A process that opens many new stores, as tests
do, runs them once, and repeats their outcome.
"""

from __future__ import annotations

import os
import time
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import StaticPool, create_engine

from eventstore.storage import migrations
from eventstore.storage.chain import store_digest
from eventstore.storage.sqlite.driver import driver

if TYPE_CHECKING:
    from sqlalchemy import Connection


def make_store(connection: Connection) -> None:
    """Make the tables of a store in the connection's transaction, with an epoch of its own."""
    for statement, values in _statements():
        connection.exec_driver_sql(statement, values)
    ((lanes,),) = connection.exec_driver_sql("SELECT lanes FROM toolledger_store")
    epoch, now = os.urandom(8).hex(), time.time_ns() // 1000
    connection.exec_driver_sql(
        "UPDATE toolledger_store SET epoch = ?, created_at = ?, digest = ?",
        (epoch, now, store_digest(epoch.encode(), lanes, now)),
    )


@cache
def _statements() -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """Return what repeats the migrations' outcome, its tables and its rows, with their values."""
    engine = create_engine("sqlite://", module=driver(), poolclass=StaticPool)
    try:
        with engine.connect() as connection:
            migrations.upgrade(connection)
            run = connection.exec_driver_sql
            made = run("SELECT sql, type, name FROM sqlite_master WHERE sql IS NOT NULL").all()
            schema = [(sql, ()) for sql, _, _ in made]
            rows = [
                (f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", tuple(row))
                for _, kind, name in made
                if kind == "table"
                for row in run(f"SELECT * FROM {name}")
            ]
            return (*schema, *rows)
    finally:
        engine.dispose()
