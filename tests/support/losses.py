"""Logs that are put back to an older state under an open store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from support.servers import Server


def put_back(path: Path, position: int) -> None:
    """Take back the events after a position, as a failover to a standby that lags does."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in restored(0, position):
            connection.execute(statement)


def put_back_on(server: Server, url: str, lane: int, position: int) -> None:
    """Take back a lane's events after a position on a server; then no connection is left."""
    ours = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    hang_up = f"SELECT pg_terminate_backend(pid, 10000) {ours}"
    server.execute(*restored(lane, position), hang_up, database=url)


def restored(lane: int, position: int) -> Iterator[str]:
    """Yield the statements that take back a lane's events after a position."""
    for table, place in (("events", "position"), ("conversations", "conversation")):
        yield f"DELETE FROM toolledger_{table} WHERE lane = {lane} AND {place} > {position}"  # noqa: S608 - numbers
    for table in ("event_ids", "fingerprints"):
        yield (
            f"DELETE FROM toolledger_{table} WHERE lane = {lane} AND NOT EXISTS "  # noqa: S608 - numbers
            f"(SELECT 1 FROM toolledger_events e WHERE e.lane = toolledger_{table}.lane "
            f"AND e.conversation = toolledger_{table}.conversation "
            f"AND e.version = toolledger_{table}.version)"
        )
    yield f"UPDATE toolledger_lanes SET position = {position} WHERE lane = {lane}"  # noqa: S608 - numbers
