"""Waits for other writers, by their kind, on each server: they end soon after `busy_timeout`.

The bound of a lock is `busy_timeout` and a second, or on MariaDB the next whole second; that of a
commit which waits for a standby is tested in `postgresql/test_replication.py`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from support.servers import MySQL

from eventstore import EventStore, StoreBusy
from eventstore.storage.interface import Append, Draft
from eventstore.testing import message

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from support.servers import Server

BUSY_SECONDS = 3.0
GRACE_SECONDS = 1.0
NAMES = [f"chat-{number}" for number in range(3)]

pytestmark = pytest.mark.slow


@pytest.fixture
def url(server: Server) -> str:
    """Return the URL of a database with a store that has events."""
    url = server.database(migrated=True)
    with EventStore.open(url) as store:
        for name in NAMES:
            store.conversation(name).append(message())
    return url


@pytest.fixture
def store(url: str) -> Iterator[EventStore]:
    """Return a store that has written, and waits for a short time."""
    with EventStore.open(url, busy_timeout=BUSY_SECONDS) as store:
        for name in NAMES:
            store.conversation(name).append(message())
        yield store


def lane_of(store: EventStore, name: str) -> int:
    """Return the lane of a conversation."""
    return store.session.storage.lane_of(name)


@contextmanager
def locked(server: Server, url: str, lanes: list[int]) -> Generator[Connection]:
    """Lock lanes in a transaction of another session."""
    with server.connected(url) as connection:
        connection.exec_driver_sql("BEGIN")
        for lane in lanes:
            connection.exec_driver_sql(
                f"SELECT 1 FROM toolledger_lanes WHERE lane = {lane} FOR UPDATE"  # noqa: S608
            ).all()
        yield connection
        connection.exec_driver_sql("ROLLBACK")


def one(store: EventStore) -> Any:
    """Append one event, by one statement where there is one."""
    return store.conversation(NAMES[0]).append(message())


def several(store: EventStore) -> Any:
    """Append several events, in a transaction."""
    return store.conversation(NAMES[0]).append(message(), message())


def new(store: EventStore) -> Any:
    """Begin a conversation in the lane of another one."""
    lane = lane_of(store, NAMES[0])
    names = (f"new-{number}" for number in range(1000))
    name = next(name for name in names if lane_of(store, name) == lane)
    return store.conversation(name).append(message())


@pytest.mark.parametrize("append", [one, several, new])
def test_a_lane_is_waited_for_no_longer_than_allowed(
    store: EventStore, server: Server, url: str, append: Callable[[EventStore], Any]
) -> None:
    """Whatever is appended; the error says that nothing was written."""
    with locked(server, url, [lane_of(store, NAMES[0])]):
        began = time.monotonic()
        with pytest.raises(StoreBusy, match="nothing was written"):
            append(store)
        waited = time.monotonic() - began
    assert BUSY_SECONDS <= waited < 2 * BUSY_SECONDS
    append(store)


def test_several_lanes_are_waited_for_together(store: EventStore, server: Server, url: str) -> None:
    """The lock of each comes in time, and all of them would not. MySQL bounds each one alone."""
    storage = store.session.storage
    lanes = sorted({lane_of(store, name) for name in NAMES})
    assert len(lanes) == len(NAMES)
    requests = [
        Append(name, storage_version, 0, (), lambda _: [draft()])
        for name, storage_version in dict.fromkeys(NAMES, 2).items()
    ]
    released = threading.Event()
    with (
        locked(server, url, lanes[:1]) as first,
        locked(server, url, lanes[1:2]) as second,
        locked(server, url, lanes[2:]),
    ):

        def release() -> None:
            for connection in (first, second):
                if not released.wait(BUSY_SECONDS * 0.75):
                    connection.exec_driver_sql("ROLLBACK")

        thread = threading.Thread(target=release)
        began = time.monotonic()
        thread.start()
        with pytest.raises(StoreBusy, match="nothing was written"):
            storage.append(requests)
        waited = time.monotonic() - began
        released.set()
        thread.join()
    assert waited < (len(lanes) if isinstance(server, MySQL) else 2) * BUSY_SECONDS
    assert all(store.conversation(name).version == 2 for name in NAMES)


def draft() -> Draft:
    """Return an event to be stored."""
    return Draft(os.urandom(16), 1, "message_added", 1, b"{}", salt=os.urandom(16))
