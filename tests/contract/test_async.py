"""`AsyncEventStore` keeps the contract of the store, on every engine.

The contract's tests are written for `EventStore`. Here they run through a stand-in that awaits the
answers of `AsyncEventStore` in an event loop of its own thread.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.storages import open_limited
from support.tiers import also_long

from eventstore import AsyncEventStore, EventStore
from eventstore.aio.attempt import AsyncAttempt
from eventstore.aio.conversation import AsyncConversation
from eventstore.storage.interface import Storage
from eventstore.testing import EventStoreContract, OpenStorage, SharedEventStoreContract

MINE = (AsyncEventStore, AsyncConversation, AsyncAttempt)


class Blocking:
    """An asyncio object with blocking methods: each call waits for its answer."""

    def __init__(self, loop: asyncio.AbstractEventLoop, behind: Any) -> None:
        self._loop = loop
        self._behind = behind

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._behind, name)
        if name == "tools":  # a property of a Conversation
            return self._waited(value())
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
    """A contract in which every store is an `AsyncEventStore`."""

    @pytest.fixture
    def make_store(self) -> Iterator[Callable[..., Any]]:
        """Return a function that makes blocking stand-ins for asyncio stores."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        opened: list[Blocking] = []

        def store(*args: Any) -> Any:
            opened.append(Blocking(loop, AsyncEventStore(EventStore(*args))))
            return opened[-1]

        yield store
        for one in opened:
            one.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class TestInMemory(_Async, EventStoreContract):
    """The contract on a database in memory."""

    @pytest.fixture
    def open_storage(self) -> Iterator[OpenStorage]:
        """Return a function that opens a new database at each call."""
        yield from _opening(lambda: "sqlite://")


class _Shared(_Async, SharedEventStoreContract):
    """Settings for few rows at once, so that short tests read many times."""

    more_than_a_chunk = 14

    @pytest.fixture(autouse=True)
    def pages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Hand three events at once to the event loop."""
        monkeypatch.setattr("eventstore.aio.reader.PAGE_EVENTS", 3)


class TestInAFile(_Shared):
    """The contract on a file."""

    @pytest.fixture
    def open_storage(self, tmp_path: Path) -> Iterator[OpenStorage]:
        """Return a function that opens storages on one file."""
        yield from _opening(lambda: f"sqlite:///{tmp_path / 'agent.db'}")


# What servers do differently is behind the blocking store, which has their contract.
@pytest.mark.parametrize("engine", also_long(["postgresql"], ["mariadb", "mysql"]))
class TestOnServers(_Shared):
    """The contract on a real server."""

    @pytest.fixture
    def open_storage(self, request: pytest.FixtureRequest, engine: str) -> Iterator[OpenStorage]:
        """Return a function that opens storages on one database."""
        url = request.getfixturevalue(engine).emptied()
        yield from _opening(lambda: url)


def _opening(url: Callable[[], str]) -> Iterator[OpenStorage]:
    opened: list[Storage] = []

    def open_storage(tenant: str = "") -> Storage:
        opened.append(open_limited(url(), tenant, chunk_rows=4))
        return opened[-1]

    yield open_storage
    for storage in opened:
        storage.close()
