"""A server whose machine is suspended: its connections stay open, and nothing is answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from support import proxies

from eventstore import EventStore, StorageError
from eventstore.storage.factory import open_storage
from eventstore.storage.postgresql.backend import Postgresql
from eventstore.storage.sql.server import Server
from eventstore.testing import message, run_concurrently
from projections import Projector
from projections.projector.settings import ProjectorSettings

if TYPE_CHECKING:
    from support.servers import PostgreSQL


@pytest.fixture
def before(
    postgresql: PostgreSQL, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[proxies.Proxy, EventStore]]:
    """Return a proxy, and a store behind it that waits for a second at most."""
    monkeypatch.setattr(Server, "answer_seconds", 0.5)
    url = postgresql.database(migrated=True)
    with proxies.before(postgresql, url) as (proxy, through):
        storage: Any = open_storage(f"{through}?connect_timeout=2", "", "full", 0.5)
        with EventStore(storage) as store:
            store.conversation("chat").append(message("a"))
            yield proxy, store


def read(store: EventStore) -> object:
    """Count the events."""
    return len(list(store.read()))


def followed(store: EventStore) -> object:
    """Count the events that a follower gets first."""
    return len(list(islice(store.follow(timeout=60.0), 1)))


@pytest.mark.parametrize("action", [read, followed])
def test_a_reader_gives_up_and_goes_on_when_the_server_answers_again(
    before: tuple[proxies.Proxy, EventStore], action: Callable[[EventStore], object]
) -> None:
    """The error names the server and how long it has not answered."""
    proxy, store = before
    proxy.is_silent = True
    with pytest.raises(StorageError) as caught:
        action(store)
    assert "127.0.0.1" in str(caught.value)
    proxy.is_silent = False
    assert action(store) == 1


def test_the_error_says_how_long_the_server_has_not_answered(
    before: tuple[proxies.Proxy, EventStore],
) -> None:
    """The time is `busy_timeout` and that of the statement."""
    proxy, store = before
    list(store.read())  # so that its connection is used at once, and not tried before
    proxy.is_silent = True
    with pytest.raises(StorageError, match="the server has not answered for 1 seconds"):
        list(store.read())


@pytest.mark.parametrize("count", [1, 3])
def test_an_append_gives_up_and_its_repetition_is_stored_once(
    before: tuple[proxies.Proxy, EventStore], count: int
) -> None:
    """One event takes the single statement, and several take a transaction."""
    proxy, store = before
    chat, ids = store.conversation("chat"), [uuid4() for _ in range(count)]
    events = [message(f"{number}") for number in range(count)]
    proxy.is_silent = True
    with pytest.raises(StorageError):
        chat.append(*events, event_ids=ids)
    with pytest.raises(StorageError):
        chat.append(*events)
    proxy.is_silent = False
    chat.append(*events, event_ids=ids)
    assert [one.event_id for one in chat.events()][1:] == [one.hex for one in ids]


def test_the_other_connections_to_a_silent_server_are_given_up_unused(
    before: tuple[proxies.Proxy, EventStore],
) -> None:
    """One reader waits; nothing waits for the connections of others and of the writer."""
    proxy, store = before
    first, second = store.read(), store.read()
    assert next(first) == next(second)  # two connections at a time
    proxy.silence()
    with pytest.raises(StorageError):
        list(store.read())
    backend: Any = store.session.storage
    backend.backend.answer_seconds = 3600.0
    assert store.conversation("chat").append(message("b"))[0].version == 2
    assert len(list(store.read())) == 2


def test_a_connection_that_is_being_prepared_is_given_up(
    before: tuple[proxies.Proxy, EventStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server took it, and fell silent then; other callers wait for it meanwhile."""
    proxy, store = before
    prepare = Postgresql.prepare

    def silenced(self: Postgresql, connection: object) -> None:
        proxy.is_silent = True
        prepare(self, connection)

    monkeypatch.setattr(Postgresql, "prepare", silenced)
    readers = [store.read() for _ in range(9)]
    with pytest.raises(StorageError):
        list(zip(*readers, strict=True))  # each holds a connection


def test_callers_that_share_a_store_all_give_up(
    before: tuple[proxies.Proxy, EventStore],
) -> None:
    """A second and a third one wait no longer than the first."""
    proxy, store = before
    proxy.is_silent = True

    def append(number: int) -> object:
        return store.conversation(f"chat-{number}").append(message())

    outcomes = run_concurrently(*(partial(append, number) for number in range(3)))
    assert all(isinstance(outcome, StorageError) for outcome in outcomes), outcomes
    proxy.is_silent = False
    assert store.conversation("chat").append(message("b"))[0].version == 2


def test_a_projector_gives_up_and_goes_on(before: tuple[proxies.Proxy, EventStore]) -> None:
    """Its tables stand on the same server."""
    proxy, store = before
    with Projector(store, settings=ProjectorSettings(busy_timeout=0.5)) as projector:
        assert projector.catch_up() == 1
        store.conversation("chat").append(message("b"))
        proxy.is_silent = True
        with pytest.raises(StorageError):
            projector.catch_up()
        proxy.is_silent = False
        assert projector.catch_up() == 1
