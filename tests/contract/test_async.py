"""`AsyncEventStore` keeps the contract of the store, on every engine.

The contract's tests are written for `EventStore`. Here they run through a stand-in, that awaits
in an event loop of its own thread whatever `AsyncEventStore` gives.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from eventstore import AsyncEventStore, EventStore, testing
from eventstore.aio import AsyncAttempt, AsyncConversation
from eventstore.storage import Storage, reading
from eventstore.storage.opening import open_storage as open_at
from eventstore.testing import EventStoreContract, OpenStorage, SharedEventStoreContract

if TYPE_CHECKING:
    from servers import MariaDB, MySQL, PostgreSQL

MINE = (AsyncEventStore, AsyncConversation, AsyncAttempt)


class Blocking:
    """What belongs to asyncio, for those who do not: each answer is waited for."""

    def __init__(self, loop: asyncio.AbstractEventLoop, behind: Any) -> None:
        self._loop = loop
        self._behind = behind

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._behind, name)
        if not callable(value):
            return self._waited(value)
        return lambda *args, **options: self._waited(value(*args, **options))

    def __iter__(self) -> Blocking:
        return self

    def __next__(self) -> Any:
        try:
            return self._waited(self._behind.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def __enter__(self) -> Any:
        return self._waited(self._behind.__aenter__())

    def __exit__(self, *error: object) -> Any:
        return self._waited(self._behind.__aexit__(*error))

    def _waited(self, value: Any) -> Any:
        if inspect.isawaitable(value):
            value = asyncio.run_coroutine_threadsafe(_awaited(value), self._loop).result()
        wrapped = (*MINE, AsyncIterator)
        if isinstance(value, wrapped) or hasattr(value, "__aenter__"):
            return Blocking(self._loop, value)
        return value


async def _awaited(value: Any) -> Any:
    return await value


class _Async:
    """The store of every test is an `AsyncEventStore`."""

    @pytest.fixture(autouse=True)
    def asynchronous(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Whatever store the contract makes."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        opened: list[Blocking] = []

        def store(*args: Any) -> Any:
            opened.append(Blocking(loop, AsyncEventStore(EventStore(*args))))
            return opened[-1]

        monkeypatch.setattr(testing, "EventStore", store)
        yield
        for one in opened:
            one.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class TestInMemory(_Async, EventStoreContract):
    """A database in memory."""

    @pytest.fixture
    def open_storage(self) -> Iterator[OpenStorage]:
        """Each call is a database of its own."""
        yield from _opening(lambda: "sqlite://")


class _Shared(_Async, SharedEventStoreContract):
    """Few rows at once, so that short tests read many times."""

    more_than_a_chunk = 14

    @pytest.fixture(autouse=True)
    def chunk(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Fetch four rows at once."""
        monkeypatch.setattr(reading, "CHUNK", 4)
        monkeypatch.setattr("eventstore.reader_aio.PAGE", 3)


class TestInAFile(_Shared):
    """A file."""

    @pytest.fixture
    def open_storage(self, tmp_path: Path) -> Iterator[OpenStorage]:
        """All of one file."""
        yield from _opening(lambda: f"sqlite:///{tmp_path / 'agent.db'}")


class TestPostgresql(_Shared):
    """A real server."""

    @pytest.fixture
    def open_storage(self, postgresql: PostgreSQL) -> Iterator[OpenStorage]:
        """All of one database."""
        url = postgresql.database(migrated=True)
        yield from _opening(lambda: url)


class TestMariadb(_Shared):
    """A real server."""

    @pytest.fixture
    def open_storage(self, mariadb: MariaDB) -> Iterator[OpenStorage]:
        """All of one database."""
        url = mariadb.database(migrated=True)
        yield from _opening(lambda: url)


class TestMysql(_Shared):
    """A real server."""

    @pytest.fixture
    def open_storage(self, mysql: MySQL) -> Iterator[OpenStorage]:
        """All of one database."""
        url = mysql.database(migrated=True)
        yield from _opening(lambda: url)


def _opening(url: Callable[[], str]) -> Iterator[OpenStorage]:
    opened: list[Storage] = []

    def open_storage(tenant: str = "") -> Storage:
        opened.append(open_at(url(), tenant, "full", 30.0))
        return opened[-1]

    yield open_storage
    for storage in opened:
        storage.close()
