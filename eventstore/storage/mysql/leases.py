"""A lock that keeps the processes of a whole cluster out, whichever server they use.

1. `GET_LOCK`, and a row that is locked, count on one server only. So the holder is a row of
   `toolledger_locks`: of two that claim it on two servers, the cluster refuses one.
2. The claim ends by itself after `SECONDS`, in case its process ends. A thread renews it meanwhile.
3. A holder whose claim was not renewed in time, and was taken over, is told at its end.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from sqlalchemy.exc import DBAPIError

from eventstore.errors import StoreBusy
from eventstore.latch import Latch
from eventstore.storage.clusters import LOCKS
from eventstore.storage.sql.connections import backoff_delays

if TYPE_CHECKING:
    from sqlalchemy import Engine

SECONDS = 120
"""How long a claim lasts that is not renewed: the servers' clocks may differ by less."""

RENEWAL_SECONDS = 10.0

_CREATE = f"""\
CREATE TABLE IF NOT EXISTS {LOCKS} (
    name VARCHAR(32) NOT NULL PRIMARY KEY, holder CHAR(32) NOT NULL, until DATETIME(6) NOT NULL
) ENGINE=InnoDB"""
_FREE = "'2000-01-01'"
_ADD = f"INSERT IGNORE INTO {LOCKS} (name, holder, until) VALUES (%s, '', {_FREE})"
_CLAIM = f"""\
UPDATE {LOCKS} SET holder = %s, until = UTC_TIMESTAMP(6) + INTERVAL {SECONDS} SECOND
WHERE name = %s AND until < UTC_TIMESTAMP(6)"""
_RENEW = f"""\
UPDATE {LOCKS} SET until = UTC_TIMESTAMP(6) + INTERVAL {SECONDS} SECOND
WHERE holder = %s AND name = %s"""
_RELEASE = f"UPDATE {LOCKS} SET until = {_FREE} WHERE holder = %s AND name = %s"

_NO_TABLE = 1146
_OTHERS_FIRST = frozenset({1020, 1205, 1213, 3101})


@contextmanager
def cluster_lease(engine: Engine, name: str, seconds: float, what: str) -> Generator[None]:
    """Hold a lock of the cluster; wait for it so long. `what` says what its holder does.

    Raises:
        StoreBusy: another process holds it.
    """
    lease = _Lease(engine, name)
    delays = backoff_delays(time.monotonic() + seconds)
    while not lease.claim():
        delay = next(delays, None)
        if delay is None:
            raise StoreBusy(
                f"another process {what}; nothing was changed, try again (if it ended in the "
                f"middle, after {SECONDS} s)"
            )
        time.sleep(delay)
    ended = Latch()
    renewing = threading.Thread(target=lease.renew_until, args=(ended,), daemon=True)
    renewing.start()
    try:
        yield
    finally:
        ended.set()
        renewing.join()
        was_ours = lease.release()
    if not was_ours:
        raise StoreBusy(
            f"the cluster did not answer for more than {SECONDS} s, and another process {what} "
            "now: see that it ends, then run `toolledger verify`"
        )


class _Lease:
    """A claim to a row of the locks."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self._name = name
        self._holder = os.urandom(16).hex()

    def claim(self) -> bool:
        """Return whether it is held now."""
        try:
            return self._changes(_CLAIM) or (self._run(_ADD) and self._changes(_CLAIM))
        except DBAPIError as error:
            code = error.orig.args[0] if error.orig is not None and error.orig.args else None
            if code in _OTHERS_FIRST:
                return False
            if code != _NO_TABLE:
                raise
        with self._engine.connect() as connection:
            connection.exec_driver_sql(_CREATE)
        return self.claim()

    def renew_until(self, ended: Latch) -> None:
        """Renew it again and again."""
        while not ended.wait(RENEWAL_SECONDS):
            with suppress(Exception):  # the release finds out
                self._changes(_RENEW)

    def release(self) -> bool:
        """Give it back; return whether it was held until now."""
        return self._changes(_RELEASE)

    def _changes(self, statement: str) -> bool:
        return self._run(statement, self._holder)

    def _run(self, statement: str, *parameters: str) -> bool:
        """Return whether a statement for the lock has changed its row."""
        with self._engine.connect() as connection:
            done = connection.exec_driver_sql(statement, (*parameters, self._name))
            return done.rowcount == 1
