"""Changing a table that others use: its lock is waited for briefly, and several times.

A session that waits for the exclusive lock of a table keeps all others waiting that come after it,
though only one long reader may be in the way. So the wait ends after `WAIT_SECONDS`, the others
continue, and it is tried again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from eventstore.errors import StoreBusy

if TYPE_CHECKING:
    from sqlalchemy import Connection

WAIT_SECONDS = 1
PAUSE_SECONDS = 0.5
TRIES = 40

_LOCK_NOT_AVAILABLE = "55P03"
_LOCK_WAIT_TIMEOUT = 1205
_HAS_TRANSACTION_TIMEOUT = 17_00_00


def tried_briefly(connection: Connection, change: Callable[[], object]) -> None:
    """Make a change of the schema that needs the exclusive lock of a table for a moment.

    Raises:
        StoreBusy: the lock could not be had; nothing was changed.
    """
    for _ in range(TRIES):
        if _tried(connection, change):
            return
        time.sleep(PAUSE_SECONDS)
    raise StoreBusy(
        f"the events are in use: {TRIES} times their lock was not to be had within "
        f"{WAIT_SECONDS} s{_in_the_way(connection)}; nothing was changed: end the long "
        "transactions, or try again when they are over"
    )


def _tried(connection: Connection, change: Callable[[], object]) -> bool:
    from sqlalchemy.exc import DBAPIError  # when a migration runs

    try:
        with _short_waits(connection):
            change()
    except DBAPIError as error:
        cause = error.orig
        codes = (getattr(cause, "sqlstate", None), *getattr(cause, "args", ())[:1])
        if _LOCK_NOT_AVAILABLE in codes or _LOCK_WAIT_TIMEOUT in codes:
            return False
        raise
    return True


@contextmanager
def _short_waits(connection: Connection) -> Generator[None]:
    run = connection.exec_driver_sql
    if connection.dialect.name == "postgresql":
        run("SET LOCAL statement_timeout = 0")
        (version,) = run("SHOW server_version_num").one()
        if int(version) >= _HAS_TRANSACTION_TIMEOUT:
            run("SET LOCAL transaction_timeout = 0")
        (before,) = run("SHOW lock_timeout").one()
        run("SAVEPOINT toolledger_lock")
        try:
            run(f"SET LOCAL lock_timeout = '{WAIT_SECONDS}s'")
            yield
        except BaseException:
            run("ROLLBACK TO SAVEPOINT toolledger_lock")
            raise
        run("RELEASE SAVEPOINT toolledger_lock")
        run(f"SET LOCAL lock_timeout = '{before}'")
    elif connection.dialect.name in ("mysql", "mariadb"):
        (before,) = run("SELECT @@SESSION.lock_wait_timeout").one()
        run(f"SET SESSION lock_wait_timeout = {WAIT_SECONDS}")
        try:
            yield
        finally:
            run(f"SET SESSION lock_wait_timeout = {before}")
    else:
        yield


def _in_the_way(connection: Connection) -> str:
    """Return which sessions hold the lock, where the server says so."""
    if connection.dialect.name != "postgresql":
        return ""
    found = connection.exec_driver_sql(
        "SELECT DISTINCT pid FROM pg_locks WHERE relation = to_regclass('toolledger_events') "
        "AND granted AND pid <> pg_backend_pid() ORDER BY pid"
    ).fetchall()
    return f" (held by the sessions {', '.join(str(row[0]) for row in found)})" if found else ""
