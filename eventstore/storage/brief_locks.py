"""Changing a table that others use: its lock is waited for briefly, and several times.

A session that waits for the exclusive lock of a table keeps all others waiting that come after it,
though only one long reader may be in the way. So the wait ends after `WAIT_SECONDS`, the others
continue, and it is tried again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from eventstore.errors import StoreBusy

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.exc import DBAPIError

WAIT_SECONDS = 1
PAUSE_SECONDS = 0.5
TRIES = 40
LONG_WAIT_SECONDS = 30

_NOT_NOW = frozenset({"55P03", "40P01", 1205, 1213})
"""SQLSTATEs and numbers of errors for a lock that was not to be had, and for a deadlock."""

_EVENTS = ("toolledger_events",)

_HOLDERS = {
    "postgresql": "SELECT pid, min(name) FROM pg_locks "
    "JOIN unnest(ARRAY{names}) name ON relation = to_regclass(name) "
    "JOIN pg_stat_activity USING (pid) WHERE granted AND pid <> pg_backend_pid() "
    "AND COALESCE(xact_start < clock_timestamp() - interval '{waited} s', true) "
    "GROUP BY pid ORDER BY min(xact_start) LIMIT 9",
    "mysql": "SELECT trx_mysql_thread_id, NULL FROM information_schema.innodb_trx "
    "WHERE trx_mysql_thread_id NOT IN (0, CONNECTION_ID()) ORDER BY trx_started LIMIT 9",
}
"""Asks for the sessions that may hold the lock, those that began first before the others, each with
the name of a table that it has locked, where the server says so."""


def tried_briefly(
    connection: Connection,
    change: Callable[[], object],
    tries: int | None = None,
    locks: Sequence[str] = _EVENTS,
) -> None:
    """Make a change of the schema that needs the exclusive locks of tables for a moment.

    All of the `locks` together are waited for `WAIT_SECONDS`; the change is made once or not at
    all.

    Raises:
        StoreBusy: the locks could not be had; nothing was changed.
    """
    tries = tries or TRIES
    for left in reversed(range(tries)):
        if _tried(connection, change, len(locks)):
            return
        if left:
            time.sleep(PAUSE_SECONDS)
    holders = _in_the_way(connection, locks)
    used = list(dict.fromkeys(name for _, name in holders if name)) or locks
    held = f" (held by the sessions {', '.join(pid for pid, _ in holders)})" if holders else ""
    raise StoreBusy(
        f"{' and '.join(used)} {'is' if len(used) == 1 else 'are'} in use: {tries} times the lock "
        f"was not to be had within {WAIT_SECONDS} s{held}; nothing was changed: end the long "
        "transactions, or try again when they are over"
    )


def is_not_now(error: DBAPIError) -> bool:
    """Return whether a lock was not to be had, or the transaction was given up for another one."""
    cause = error.orig
    codes = (getattr(cause, "sqlstate", None), *getattr(cause, "args", ())[:1])
    return not _NOT_NOW.isdisjoint(codes)


def prepare_changes(connection: Connection) -> None:
    """Let no limit of the database, or of its user, end the changes of the schema that follow.

    On PostgreSQL this holds for the transaction, on MariaDB and MySQL for the session. On Citus the
    nodes wait for locks no longer than the coordinator, and shards change in turn: some statements
    are refused after others that were run in all shards at once.
    """
    run = connection.exec_driver_sql
    if connection.dialect.name == "postgresql":
        run(
            "SELECT set_config('statement_timeout', '0', true), "
            "set_config('citus.multi_shard_modify_mode', 'sequential', true), "
            "set_config('citus.propagate_set_commands', 'local', true), "
            "(SELECT set_config(name, '0', true) FROM pg_settings "
            "WHERE name = 'transaction_timeout')"  # from version 17 on
        ).fetchall()
    elif getattr(connection.dialect, "is_mariadb", False):
        run("SET SESSION max_statement_time = 0")


@contextmanager
def lanes_held(connection: Connection, *, briefly: bool = False) -> Generator[None]:
    """Keep others from writing on MariaDB and MySQL, by the table of the lanes.

    Each change of the schema ends a transaction there, so another connection holds the table.
    Every writer uses it first, and so waits without any lock of the events. With the lanes' rows
    it would be otherwise: a writer that waits for one has looked at the events, too. With `briefly`
    the table is waited for no longer than `WAIT_SECONDS`. In a cluster locks count on one server
    alone.
    """
    from eventstore.storage.stopped_writers import is_in_cluster, writers_stopped

    if is_in_cluster(connection):
        with writers_stopped(connection):
            yield
        return
    with connection.engine.connect() as beside:
        run = beside.exec_driver_sql
        run("SET SESSION wait_timeout = 31536000")
        wait = WAIT_SECONDS if briefly else LONG_WAIT_SECONDS
        run(f"SET SESSION lock_wait_timeout = {wait}")
        try:
            run("LOCK TABLES toolledger_lanes WRITE")
            yield
        finally:
            beside.invalidate()


def _tried(connection: Connection, change: Callable[[], object], locks: int) -> bool:
    from sqlalchemy.exc import DBAPIError  # when a migration runs

    try:
        with _short_waits(connection, locks):
            change()
    except DBAPIError as error:
        if not is_not_now(error):
            raise
        return False
    return True


@contextmanager
def _short_waits(connection: Connection, locks: int) -> Generator[None]:
    run = connection.exec_driver_sql
    if connection.dialect.name == "postgresql":
        (before,) = run("SHOW lock_timeout").one()
        run("SAVEPOINT toolledger_lock")
        try:
            run(f"SET LOCAL lock_timeout = {WAIT_SECONDS * 1000 // locks}")
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


def _in_the_way(connection: Connection, locks: Sequence[str]) -> list[tuple[str, str | None]]:
    """Return the sessions that may hold the lock, where the server says so, each with a table."""
    from sqlalchemy.exc import DBAPIError

    asked = _HOLDERS.get(connection.dialect.name.replace("mariadb", "mysql"))
    if asked is None:
        return []
    try:
        asked = asked.format(names=list(locks), waited=WAIT_SECONDS / len(locks))
        found = connection.exec_driver_sql(asked).fetchall()
    except DBAPIError:  # the user has no right to see them
        return []
    return [(str(pid), name) for pid, name in found]
