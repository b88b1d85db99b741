"""Waiting for a server that is away, or takes no writes: the same for all that use one."""

from __future__ import annotations

import importlib.metadata
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import make_url
from support import proxies

from eventstore import EventStore, StorageError, StoreReadOnly
from eventstore.storage.factory import open_storage
from eventstore.testing import message
from projections import Projector
from projections.projector.settings import ProjectorSettings

if TYPE_CHECKING:
    from pathlib import Path

    from support.servers import PostgreSQL, Server

PATIENCE_SECONDS = 60.0


@pytest.fixture
def url(server: Server) -> str:
    """Return the URL of a database with a store."""
    return server.database(migrated=True)


@pytest.fixture
def through(server: Server, url: str) -> Iterator[tuple[proxies.Proxy, str]]:
    """Return a proxy, and the URL that leads through it."""
    with proxies.before(server, url) as pair:
        yield pair


class Background:
    """A job in a thread, and what became of it."""

    def __init__(self, job: Callable[[], Any]) -> None:
        self._job = job
        self._outcome: Any = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._outcome = self._job()
        except BaseException as error:  # noqa: BLE001 - it is the outcome
            self._outcome = error

    def outcome(self) -> Any:
        """Return the result of the job; raise its error."""
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome


def wait_until(condition: Callable[[], object]) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


def opened(store: EventStore) -> int:
    """Open the store once more, and count its events."""
    with EventStore.open(store.url, busy_timeout=PATIENCE_SECONDS) as other:
        return len(list(other.read()))


def appended(store: EventStore) -> int:
    """Append an event, and return its version less one."""
    return store.conversation("chat").append(message("b"))[0].version - 1


def read(store: EventStore) -> int:
    """Count the events."""
    return len(list(store.read()))


def followed(store: EventStore) -> int:
    """Count the events that a follower gets first."""
    return len(list(islice(store.follow(timeout=PATIENCE_SECONDS), 1)))


def projected(store: EventStore) -> int:
    """Count the events that a new projector applies."""
    with Projector(store) as projector:
        return projector.catch_up()


@pytest.mark.parametrize("action", [opened, appended, read, followed, projected])
def test_a_server_that_is_away_is_waited_for(
    through: tuple[proxies.Proxy, str], action: Callable[[EventStore], int]
) -> None:
    """Go on as soon as the server is back."""
    proxy, url = through
    with EventStore.open(url, busy_timeout=PATIENCE_SECONDS) as store:
        store.conversation("chat").append(message("a"))
        proxy.refusing = True
        proxy.cut()
        job = Background(lambda: action(store))
        assert proxy.refused.wait(PATIENCE_SECONDS)
        proxy.refusing = False
        assert job.outcome() == 1


def test_a_projector_goes_on_where_its_connection_was_cut(
    through: tuple[proxies.Proxy, str],
) -> None:
    """Apply each event once, whenever the connection of the tables is cut."""
    proxy, url = through
    with EventStore.open("sqlite://") as store, Projector(store, url, batch=1) as projector:
        chat = store.conversation("chat")
        for number in range(5):
            chat.append(message(str(number)))
        applied = projector.catch_up(lambda _: proxy.cut())
        assert applied == 5
        assert projector.lag().events == 0


def test_a_projector_goes_on_where_a_transaction_could_not_begin(
    through: tuple[proxies.Proxy, str],
) -> None:
    """Take a server that is lost while the isolation is chosen like one that is lost later."""
    proxy, url = through
    with EventStore.open("sqlite://") as store, Projector(store, url) as projector:
        store.conversation("chat").append(message())
        proxy.strike(proxies.at(b"ISOLATION LEVEL", proxies.swallow_message))
        assert projector.catch_up() == 1
        assert proxy.faults == 1


@pytest.mark.alone
def test_a_server_that_takes_no_writes_for_a_while_is_waited_for(
    server: Server, through: tuple[proxies.Proxy, str]
) -> None:
    """Wait for a server that is about to be promoted, for the log as for the tables."""
    proxy, url = through
    name = make_url(url).database
    is_postgresql = server.first == "postgres"
    if is_postgresql:
        close, reopen = (
            f"ALTER DATABASE {name} SET default_transaction_read_only = {on}" for on in (1, 0)
        )
    else:
        server.execute("CREATE USER plain", f"GRANT ALL ON {name}.* TO plain")
        url = make_url(url).set(username="plain", password=None).render_as_string()
        close, reopen = ("SET GLOBAL read_only = 1", "SET GLOBAL read_only = 0")
    try:
        with EventStore.open(url, busy_timeout=PATIENCE_SECONDS) as store:
            chat = store.conversation("chat")
            chat.append(message("a"))
            with Projector(store) as projector:
                projector.catch_up()
                server.execute(close)
                proxy.cut()
                before = proxy.accepted
                append = Background(lambda: chat.append(message("b")))
                project = Background(projector.catch_up)
                wait_until(lambda: proxy.accepted > before + 4)
                server.execute(reopen)
                assert append.outcome()[0].version == 2
                project.outcome()
                projector.catch_up()
                assert projector.lag().events == 0
            assert [recorded.version for recorded in chat.events()] == [1, 2]
    finally:
        server.execute(reopen)
        if not is_postgresql:
            server.execute("DROP USER plain")


def test_a_server_that_was_asked_for_as_read_only_is_not_waited_for(
    postgresql: PostgreSQL,
) -> None:
    """Refuse an append at once where the URL asks for a server that takes no writes."""
    address = make_url(postgresql.database(migrated=True))
    postgresql.execute(f"ALTER DATABASE {address.database} SET default_transaction_read_only = on")
    query = {"target_session_attrs": "read-only"}
    url = address.set(query=query).render_as_string(hide_password=False)
    with EventStore.open(url, busy_timeout=PATIENCE_SECONDS) as store:
        began = time.monotonic()
        with pytest.raises(StoreReadOnly, match="connect to the primary"):
            store.conversation("chat").append(message("a"))
        assert time.monotonic() - began < PATIENCE_SECONDS


def test_another_server_of_several_takes_over(postgresql: PostgreSQL) -> None:
    """Use any of the servers that a URL names, whichever answers."""
    url = postgresql.database(migrated=True)
    name = make_url(url).database
    with proxies.before(postgresql, url) as (one, _), proxies.before(postgresql, url) as (two, _):
        one.refusing = True
        several = f"postgresql://tester@127.0.0.1:{one.port},127.0.0.1:{two.port}/{name}"
        with EventStore.open(several, busy_timeout=PATIENCE_SECONDS) as store:
            chat = store.conversation("chat")
            chat.append(message("a"))
            one.refusing, two.refusing = False, True
            two.cut()
            assert chat.append(message("b"))[0].version == 2
            assert one.accepted
            with EventStore.open(store.url) as same, Projector(same) as projector:
                assert projector.catch_up() == 2


@pytest.mark.parametrize("named_by", ["service", "environment"])
def test_the_primary_is_found_among_servers_that_the_url_does_not_name(
    postgresql: PostgreSQL,
    own_server: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    named_by: str,
) -> None:
    """Write to the second server, as the first takes no writes."""
    address = make_url(postgresql.database())
    name, other = address.database, own_server(type(postgresql))
    other.execute(f"CREATE DATABASE {name}")
    postgresql.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    ports = f"{address.port},{other.address.port}"
    if named_by == "service":
        file = tmp_path / "services.conf"
        file.write_text(f"[log]\nhost=127.0.0.1,127.0.0.1\nport={ports}\n")
        monkeypatch.setenv("PGSERVICEFILE", str(file))
        url = f"postgresql://tester@/{name}?service=log"
    else:
        monkeypatch.setenv("PGHOST", "127.0.0.1,127.0.0.1")
        monkeypatch.setenv("PGPORT", ports)
        url = f"postgresql://tester@/{name}"
    with EventStore.open(url, busy_timeout=0.0) as store:
        store.conversation("chat").append(message("a"))
        with Projector(store) as projector:
            assert projector.catch_up() == 1
    there = other.address.set(database=name).render_as_string(hide_password=False)
    with EventStore.open(there) as store:
        assert store.conversation("chat").version == 1


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_a_name_that_cannot_be_resolved_is_waited_for(scheme: str) -> None:
    """Wait for `busy_timeout`, as the name may appear; then name the server."""
    began = time.monotonic()
    with pytest.raises(StorageError, match=r"u:\*\*\*@log\.invalid/d: .*check that the server"):
        open_storage(f"{scheme}://u:hidden@log.invalid/d", "", "full", 0.3)
    assert time.monotonic() - began >= 0.3


def test_the_errors_of_several_servers_name_each() -> None:
    """Name all servers of the URL, and say what each one answered.

    Before 3.2.9, psycopg tells what the last one answered.
    """
    with pytest.raises(StorageError) as caught:
        open_storage("postgresql://u:hidden@127.0.0.1:1,127.0.0.1:2/d", "", "full", 0.0)
    reported = str(caught.value)
    assert reported.startswith("postgresql://u:***@127.0.0.1:1,127.0.0.1:2/d: ")
    assert "port 2 failed" in reported
    version = tuple(map(int, importlib.metadata.version("psycopg").split(".")[:3]))
    assert "port 1 failed" in reported or version < (3, 2, 9)


def test_tables_on_a_server_that_is_away_are_refused_in_time() -> None:
    """Raise an error after the projector's `busy_timeout`, without the password."""
    with EventStore.open("sqlite://") as store, pytest.raises(StorageError, match="refused"):
        Projector(
            store,
            "postgresql://u:hidden@127.0.0.1:1/d",
            settings=ProjectorSettings(busy_timeout=0.0, create_attempts=1),
        )
