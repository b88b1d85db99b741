"""The servers that all test processes of a run share: the first process owns them, others ask.

1. The process that shows the results owns a server of each kind that a test asks for. It starts
   the server with the first question, and removes it when the run ends.
2. A worker of pytest-xdist asks over a socket, and gets the server, or the reason why it is
   missing.
3. Each test that uses a server holds a lock, together with others. A test that changes a setting of
   the whole server (marked `alone`) holds it by itself.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from threading import Thread
from typing import TypeVar

import pytest
from support.galera import Galera
from support.servers import AbsentError, MariaDB, MySQL, PostgreSQL, Server, external, required

ROOM = "TOOLLEDGER_TEST_SERVER_ROOM"
"""The environment's name for the folder of the owner's socket and lock."""

KINDS: tuple[type[Server], ...] = (PostgreSQL, MariaDB, MySQL, Galera)
"""The servers that tests share."""

_of_the_process: dict[type[Server], Server | str] = {}
"""The server of each kind that this process has asked for, or the reason why it is missing."""

_S = TypeVar("_S", bound=Server)


class ServerRoom:
    """What the owner does: answer the questions of workers, each kind's one after the other."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="toolledger-room-")
        self._listener = Listener(str(_socket(self._folder.name)), "AF_UNIX")
        # The kernel ends a server together with the thread that started it.
        self._starters = {kind: ThreadPoolExecutor(1) for kind in KINDS}
        self._was = os.environ.get(ROOM)
        os.environ[ROOM] = self._folder.name
        Thread(target=self._answer_all, daemon=True).start()

    def close(self) -> None:
        """Answer no longer; each server is removed when this process ends."""
        self._listener.close()
        self._folder.cleanup()
        os.environ.pop(ROOM)
        if self._was is not None:
            os.environ[ROOM] = self._was

    def _answer_all(self) -> None:
        while True:
            try:
                asking = self._listener.accept()
            except OSError:  # closed
                return
            Thread(target=self._answer, args=(asking,), daemon=True).start()

    def _answer(self, asking: Connection) -> None:
        with asking:
            kind = asking.recv()
            asking.send(self._starters[kind].submit(_shared, kind).result())


@functools.cache
def _shared(kind: type[Server]) -> Server | str:
    server = _of_this_process(kind)
    if isinstance(server, Server):
        server.template  # noqa: B018 - made once, and sent along
    return server


def _of_this_process(kind: type[_S]) -> _S | str:
    """Start a server that this process owns; return it, or the reason why it is missing."""
    if sys.platform != "linux" and external(kind) is None:
        return "the tests start servers on Linux only"
    server: _S | None = None
    try:
        server = kind()
        server.start()
    except AbsentError as reason:
        if server is not None:
            server.remove()
        return str(reason)
    return server


def _of_the_run(kind: type[Server]) -> Server | str:
    """Return the server of a kind, or the reason why it is missing."""
    folder = os.environ.get(ROOM)
    if folder is None or "PYTEST_XDIST_WORKER" not in os.environ:
        return _of_this_process(kind)
    with Client(str(_socket(folder)), "AF_UNIX") as owner:
        owner.send(kind)
        return owner.recv()  # type: ignore[no-any-return]


def started(kind: type[_S]) -> _S:
    """Return the server of a kind; skip the test where there is none, or fail if it is required."""
    if kind not in _of_the_process:
        _of_the_process[kind] = _of_the_run(kind)
    server = _of_the_process[kind]
    if isinstance(server, kind):
        return server
    if required(kind.__name__.lower()):
        pytest.fail(f"{server} (TOOLLEDGER_REQUIRE asks for it)")
    pytest.skip(str(server))


@contextmanager
def used(*, alone: bool) -> Iterator[None]:
    """Use the servers together with other tests of the run, or alone."""
    folder = os.environ.get(ROOM)
    if folder is None:
        yield
        return
    kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    with Path(folder, "lock").open("wb") as lock:
        # Who waits to be alone keeps the door, or a queue of others would never end.
        with Path(folder, "door").open("wb") as door:
            fcntl.flock(door, kind)
            fcntl.flock(lock, kind)
        yield


def _socket(folder: str) -> Path:
    return Path(folder, "socket")


@pytest.fixture(scope="session")
def postgresql() -> PostgreSQL:
    """Return the PostgreSQL server of this test run."""
    return started(PostgreSQL)


@pytest.fixture(scope="session")
def mariadb() -> MariaDB:
    """Return the MariaDB server of this test run."""
    return started(MariaDB)


@pytest.fixture(scope="session")
def mysql() -> MySQL:
    """Return the MySQL server of this test run."""
    return started(MySQL)


@pytest.fixture(scope="session")
def galera() -> Galera:
    """Return the Galera cluster of this test run, whose nodes nobody breaks."""
    return started(Galera)


@pytest.fixture(params=["postgresql", "mariadb", "mysql"])
def server(request: pytest.FixtureRequest) -> Server:
    """Return each server in turn."""
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]


@contextmanager
def own_servers() -> Iterator[Callable[..., Server]]:
    """Give a function that starts servers of one's own, with files in `place`."""
    servers: list[Server] = []

    def start(kind: type[Server], place: Path | None = None) -> Server:
        if external(kind) is not None:
            pytest.skip("a server that the environment names is not killed")
        started(next(shared for shared in KINDS if issubclass(kind, shared)))
        servers.append(kind(place))
        servers[-1].start()
        return servers[-1]

    try:
        yield start
    finally:
        for server in servers:
            server.remove()
            atexit.unregister(server.remove)


@pytest.fixture
def own_server() -> Iterator[Callable[..., Server]]:
    """Return a function that starts servers that the test may kill, with files in `place`."""
    with own_servers() as start:
        yield start
