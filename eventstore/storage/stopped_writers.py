"""Keeping the writers of a whole cluster out for the last step of a migration.

A locked row, or table, counts on one server alone. Changes of the schema are done by all servers at
the same place in their order of commits. So a trigger refuses to move a lane's counter, which each
append does: with the error of a lock that was waited for, so that writers of every version try
again, for as long as their `busy_timeout`.

It does so while the lock of the schema is claimed, see `mysql.leases`. So a trigger that a process
left behind that ended in the middle stops no writer after the end of that claim.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from eventstore.errors import StorageError
from eventstore.storage.clusters import LOCKS, SCHEMA, runner, standing

if TYPE_CHECKING:
    from sqlalchemy import Connection

_TRIGGER = "toolledger_writers_stopped"
_DROP = f"DROP TRIGGER IF EXISTS {_TRIGGER}"
_CLAIMED = f"SELECT 1 FROM {LOCKS} WHERE name = '{SCHEMA}' AND until > UTC_TIMESTAMP(6)"
_CREATE = f"""\
CREATE TRIGGER {_TRIGGER} BEFORE UPDATE ON toolledger_lanes FOR EACH ROW
IF EXISTS ({_CLAIMED}) THEN
SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1205, MESSAGE_TEXT = 'the schema is being changed';
END IF"""


def is_in_cluster(connection: Connection) -> bool:
    """Return whether others may write on another server of the same database."""
    return standing(runner(connection.connection)).cluster is not None


@contextmanager
def writers_stopped(connection: Connection) -> Generator[None]:
    """Let no server of the cluster move the counter of a lane, while the schema's lock is held.

    Raises:
        StorageError: it is not held.
    """
    if not _is_claimed(connection):
        raise StorageError(
            "the lock of the cluster's schema is not held; nothing was changed: run `toolledger "
            "migrate`"
        )
    connection.exec_driver_sql(_DROP)
    connection.exec_driver_sql(_CREATE)
    try:
        yield
    finally:
        connection.exec_driver_sql(_DROP)


def _is_claimed(connection: Connection) -> bool:
    has_locks = connection.dialect.has_table(connection, LOCKS)
    return has_locks and connection.exec_driver_sql(_CLAIMED).first() is not None
