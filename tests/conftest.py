"""What holds for all tests: their tier, the servers, and the fixtures that most of them use."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from support import bytecode, tiers
from support.citus import citus
from support.cluster import cluster
from support.galera import own_galera
from support.group_replication import own_group
from support.server_room import (
    ServerRoom,
    galera,
    mariadb,
    mysql,
    own_server,
    postgresql,
    server,
    used,
)

if TYPE_CHECKING:
    from eventstore import Conversation, EventStore
    from eventstore.testing import FrozenClock

__all__ = [
    "citus",
    "cluster",
    "galera",
    "mariadb",
    "mysql",
    "own_galera",
    "own_group",
    "own_server",
    "postgresql",
    "server",
]

TESTS_AT_ONCE = 4

# Its assertions explain themselves like those of test modules.
pytest.register_assert_rewrite("eventstore.testing")


def pytest_configure(config: pytest.Config) -> None:
    """Choose the tier of the tests, and own what all workers share."""
    tiers.choose_tier(config)
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        bytecode.share(config)
        config.add_cleanup(ServerRoom().close)
        # A worker gets a few tests at a time, so that none is left with all the long ones.
        config.option.maxschedchunk = config.option.maxschedchunk or TESTS_AT_ONCE
    worker = getattr(config, "workerinput", {}).get("workerid", "gw0")
    if int(worker[2:]) % 2 and config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        # Two workers meet half-way, and each finds what the other has compiled.
        config.args.reverse()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Let a test that changes settings of a server be the only one that uses servers."""
    if item.get_closest_marker("server") is None:
        return (yield)
    with used(alone=item.get_closest_marker("alone") is not None):
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests, before `-m` chooses from them, and begin with the longest ones.

    Every worker has them in one order, whichever way it has collected them.
    """
    tiers.mark(items)
    items.sort(key=lambda item: (tiers.rank(item), str(item.path)))


@pytest.fixture
def clock() -> FrozenClock:
    """Return a clock that stands still until the test moves it."""
    from eventstore.testing import FrozenClock  # after its assertions are rewritten

    return FrozenClock()


@pytest.fixture
def store(clock: FrozenClock) -> Iterator[EventStore]:
    """Return a store in memory."""
    from eventstore import EventStore  # where a test needs it

    with EventStore.open("sqlite://", clock=clock) as opened:
        yield opened


@pytest.fixture
def chat(store: EventStore) -> Conversation:
    """Return an empty conversation in memory."""
    return store.conversation("c")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let SIGINT interrupt, which background jobs of a shell ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
