"""PostgreSQL: how long a lane is waited for, and what the connections are called."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from sqlalchemy.exc import OperationalError

from eventstore import EventStore, StoreBusy
from eventstore.storage.postgresql import backend
from eventstore.testing import message

if TYPE_CHECKING:
    from support.servers import PostgreSQL

BUSY_SECONDS = 1.5
QUEUING_MS = 1400
"""How long another session waits for the row: it holds the first of the row's two locks so long."""

QUEUED = (
    "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
    "AND datname = current_database() AND query LIKE '%%FOR UPDATE'"
)


@pytest.mark.slow
def test_the_two_locks_of_a_row_are_waited_for_together(
    postgresql: PostgreSQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's own limit counts for each; the wait is cancelled after the time for one."""
    monkeypatch.setattr(backend, "GRACE_SECONDS", 0.1)
    url = postgresql.database(migrated=True)
    with EventStore.open(url, busy_timeout=BUSY_SECONDS) as store:
        chat = store.conversation("chat")
        chat.append(message())
        lane = store.session.storage.lane_of("chat")
        row = f"SELECT FROM toolledger_lanes WHERE lane = {lane} FOR UPDATE"

        def queue() -> None:
            with postgresql.connected(url) as second:
                second.exec_driver_sql(f"SET lock_timeout = {QUEUING_MS}")
                with pytest.raises(OperationalError, match="lock timeout"):
                    second.exec_driver_sql(row)

        with postgresql.connected(url) as first:
            first.exec_driver_sql("BEGIN")
            first.exec_driver_sql(row)
            thread = threading.Thread(target=queue)
            thread.start()
            while not postgresql.execute(QUEUED, database=url):
                pass
            with pytest.raises(StoreBusy, match="nothing was written") as caught:
                chat.append(message(), message())
            thread.join()
            first.exec_driver_sql("ROLLBACK")
        assert getattr(caught.value.__cause__, "sqlstate", None) == "57014"
        assert chat.append(message())[0].version == 2


@pytest.mark.parametrize("name", ["toolledger", "mine"])
def test_an_operator_sees_whose_connections_they_are(postgresql: PostgreSQL, name: str) -> None:
    """The URL's own name is before the default, and the listener says what it is for."""
    url = postgresql.database(migrated=True)
    named = url if name == "toolledger" else f"{url}?application_name={name}"
    asked = "SELECT application_name FROM pg_stat_activity WHERE datname = current_database()"
    with EventStore.open(named) as store:
        store.conversation("chat").append(message())
        follow = store.follow(timeout=60)
        assert next(follow).version == 1
        thread = threading.Thread(target=next, args=(follow, None))
        thread.start()
        wanted = {name, f"{name} listen"}
        while not wanted <= {found for (found,) in postgresql.execute(asked, database=url)}:
            pass
        store.conversation("chat").append(message())
        thread.join()
