"""PostgreSQL: a store that reads from a standby, which cancels reads and has no notifications."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.server_room import own_servers
from support.standbys import Primary, Standby
from support.storages import sql_storage_of

from eventstore import EventStore, StoreBusy
from eventstore.storage.postgresql.notify import Notifications
from eventstore.testing import message

pytestmark = [pytest.mark.slow, pytest.mark.server]

LONG = 3600.0
"""Seconds between two looks: what comes sooner was heard of."""

LISTENERS = "SELECT query FROM pg_stat_activity WHERE application_name = 'toolledger listen'"


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Primary, Standby]]:
    """Return a primary and its standby."""
    with own_servers() as start:
        primary = start(Primary)
        assert isinstance(primary, Primary)
        standby = start(Standby.of(primary))
        assert isinstance(standby, Standby)
        yield primary, standby


@pytest.fixture
def urls(both: tuple[Primary, Standby]) -> tuple[str, str]:
    """Return the URLs of a store with one event: at the primary, and at the standby."""
    primary, standby = both
    url = primary.database(migrated=True)
    with EventStore.open(url) as store:
        store.conversation("chat").append(message())
    database = url.rpartition("/")[2]
    there = f"SELECT 1 FROM pg_database WHERE datname = '{database}'"  # noqa: S608
    primary.until(lambda: standby.execute(there))
    ((end,),) = primary.execute("SELECT pg_current_wal_lsn()::text")
    replayed = f"SELECT 1 WHERE pg_last_wal_replay_lsn() >= '{end}'::pg_lsn"
    primary.until(lambda: standby.execute(replayed))
    return url, standby.url(database)


def remove_versions(primary: Primary, url: str, while_: threading.Thread) -> None:
    """Append, and clear away old versions of rows, while a thread reads."""
    with EventStore.open(url) as store:
        while while_.is_alive():
            store.conversation("chat").append(message())
            primary.execute("VACUUM toolledger_lanes", database=url)


def read_in_thread(url: str, statement: str, busy_timeout: float) -> tuple[Any, list[Any]]:
    """Read at the standby as the log is read; return the thread and what comes of it."""
    found: list[Any] = []

    def read() -> None:
        with EventStore.open(url, busy_timeout=busy_timeout) as store:
            try:
                found.append(sql_storage_of(store).connections.rows(statement))
            except Exception as error:  # noqa: BLE001 - judged by the test
                found.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    return thread, found


def test_a_read_that_the_standby_cancels_is_read_again(
    both: tuple[Primary, Standby], urls: tuple[str, str]
) -> None:
    """The first read waits until it is cancelled; the next finds what was written meanwhile."""
    at_primary, at_standby = urls
    patient = (
        "SELECT grown FROM (SELECT max(position) > 1 AS grown FROM toolledger_lanes) l, "
        "LATERAL (SELECT pg_sleep(CASE WHEN grown THEN 0 ELSE 600 END)) s"
    )
    thread, found = read_in_thread(at_standby, patient, 60.0)
    remove_versions(both[0], at_primary, thread)
    thread.join()
    assert found == [[(True,)]]


def test_a_standby_that_cancels_without_end_is_named(
    both: tuple[Primary, Standby], urls: tuple[str, str]
) -> None:
    """The error names the standby and its settings, and no other writer."""
    at_primary, at_standby = urls
    thread, found = read_in_thread(at_standby, "SELECT 1, pg_sleep(600)", 0.01)
    remove_versions(both[0], at_primary, thread)
    thread.join()
    (error,) = found
    assert isinstance(error, StoreBusy)
    assert "the standby cancelled the read" in str(error)
    assert "max_standby_streaming_delay" in str(error)
    assert "hot_standby_feedback" in str(error)
    assert "writers" not in str(error)


def test_a_standby_is_listened_to_once_it_is_promoted(
    both: tuple[Primary, Standby], urls: tuple[str, str]
) -> None:
    """Before, it is asked what it is, on one connection, and polled."""
    _, at_standby = urls
    primary, standby = both
    with EventStore.open(at_standby) as store, ThreadPoolExecutor(1) as pool:
        hints = sql_storage_of(store)._hints
        assert isinstance(hints, Notifications)
        hints.listen_retry_seconds = 0.01
        follow = store.follow(poll=LONG, timeout=120)
        assert next(follow).version == 1
        awaited = pool.submit(next, follow)
        primary.until(lambda: standby.execute(LISTENERS) == [("SELECT pg_is_in_recovery()",)])
        standby.execute("SELECT pg_promote()")
        primary.until(lambda: standby.execute(LISTENERS) == [("LISTEN toolledger",)])
        with EventStore.open(at_standby) as other:
            other.conversation("chat").append(message("later"))
            lane = other.session.storage.lane_of("chat")
            standby.execute(
                f"SELECT pg_notify('toolledger', '{other.session.storage.epoch} other')",
                database=at_standby,
            )
            assert awaited.result(60).version == 2
            assert other.session.storage.heads()[lane] == 2
    assert "LISTEN" not in standby.log.read_text("utf-8")
