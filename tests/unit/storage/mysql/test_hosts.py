"""Which of several MariaDB servers takes the next connection, and what a URL says of them."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pymysql
import pytest
from sqlalchemy import make_url
from support.proxies import Proxy

from eventstore import EventStore, StorageError, StoreBusy
from eventstore.engines import backend_for, open_engine, shown_url
from eventstore.storage.clusters import Standing, Use
from eventstore.storage.factory import open_storage
from eventstore.storage.mysql.backend import Mysql
from eventstore.storage.mysql.hosts import Hosts, Place, places
from eventstore.storage.sql.storage import SqlStorage
from eventstore.storage.urls import parsed
from eventstore.testing import append, message

if TYPE_CHECKING:
    from support.servers import MariaDB


@pytest.mark.parametrize(
    ("url", "expected", "shown"),
    [
        ("mysql://u:p@h/d", [], "mysql://u:***@h/d"),
        ("mysql://u:p@h1,h2:7,h3/d", [("h1", 3306), ("h2", 7), ("h3", 3306)], None),
        ("mariadb+pymysql://h1:1,[::1]:2/d", [("h1", 1), ("::1", 2)], None),
        ("mysql+pymysql://u@/d?host=h1,h2&port=9", [("h1", 9), ("h2", 9)], "mysql+pymysql://u@h1:9,h2:9/d"),
        ("mysql://u:a,b@h1,h2/d?charset=x", [("h1", 3306), ("h2", 3306)], "mysql://u:***@h1,h2/d?charset=x"),
    ],
)  # fmt: skip
def test_a_url_names_several_servers(url: str, expected: list[Any], shown: str | None) -> None:
    """Their names stand where one server stands, or in the options `host` and `port`."""
    assert places(parsed(url)) == [Place(*each) for each in expected]
    assert shown_url(url) == (shown or url.replace(":p@", ":***@"))


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u:mArKed@h1,h2:3x/d",
        "mysql://u@h1,h2:mArKed/d",
        "mysql://h1,,h2/d?password=mArKed",
        "mysql://u:mArKed@/d?host=h1,h2&port=1,2,3",
    ],
)
def test_servers_that_make_no_sense_are_refused_without_a_secret(url: str) -> None:
    """A port that is no number may be a password."""
    with pytest.raises(
        ValueError, match=r"is not a database URL|a server without a name|more ports than servers"
    ) as caught:
        backend_for(url)
    assert "mArKed" not in str(caught.value)


def test_an_order_of_servers_is_libpqs_or_refused() -> None:
    """The error names the option."""
    with pytest.raises(ValueError, match="load_balance_hosts must be 'disable' or 'random'"):
        backend_for("mysql://h1,h2/d?load_balance_hosts=yes")
    drawn = {tuple(Hosts(parsed("mysql://a,b,c/d?load_balance_hosts=random"))) for _ in range(99)}
    assert len(drawn) > 1


def test_the_server_that_was_taken_comes_first() -> None:
    """The others keep their order; nothing changes where it was the first already."""
    hosts = Hosts(parsed("mysql://a,b,c/d"))
    a, b, c = hosts
    hosts.prefer(a)
    assert hosts.changes == 0
    hosts.prefer(b)
    assert (list(hosts), hosts.changes) == ([b, c, a], 1)
    hosts.leave(c)
    assert hosts.changes == 1
    hosts.leave(b)
    assert (list(hosts), hosts.changes) == ([c, a, b], 2)


def test_one_server_is_connected_to_as_before() -> None:
    """Its options are the driver's own; only libpq's option is not passed on."""
    backend = backend_for("mysql://h:5/d?load_balance_hosts=disable&charset=x")
    assert isinstance(backend, Mysql)
    assert str(backend.engine_url) == "mysql+pymysql://h:5/d?charset=x"
    assert backend.route_options() == {"connect_timeout": 10, "program_name": "toolledger"}
    several = backend_for("mysql://h1,h2,h3/d")
    assert isinstance(several, Mysql)
    assert str(several.engine_url) == "mysql+pymysql:///d"
    assert several.route_options()["connect_timeout"] == 3


# real servers


@pytest.fixture
def silent() -> Iterator[Place]:
    """Return a place where connections are taken and nothing is said."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield Place(*server.getsockname())


@pytest.fixture
def refusing() -> Place:
    """Return a place where nothing listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        return Place(*server.getsockname())


Urls = Callable[..., str]


@pytest.fixture
def at(mariadb: MariaDB) -> Urls:
    """Return a function that gives the URL of a store by places."""
    database = make_url(mariadb.emptied())

    def at(*given: Place, options: str = "") -> str:
        listed = ",".join(map(str, given or [Place(str(database.host), database.port or 0)]))
        return f"mysql://root@{listed}/{database.database}?ssl_disabled=true{options}"

    return at


@pytest.fixture
def proxies(mariadb: MariaDB) -> Iterator[list[Proxy]]:
    """Return two ways to the same server."""
    address = (str(mariadb.address.host), mariadb.address.port or 0)
    made = [Proxy(address), Proxy(address)]
    yield made
    for proxy in made:
        proxy.close()


def test_a_server_that_refuses_or_is_silent_is_left_for_the_next(
    mariadb: MariaDB, at: Urls, silent: Place, refusing: Place
) -> None:
    """The log and the tables beside it are on the one that answers."""
    there = Place(str(mariadb.address.host), mariadb.address.port or 0)
    url = at(refusing, silent, there, options="&connect_timeout=1")
    with EventStore.open(url, busy_timeout=5.0) as store:
        store.conversation("chat").add_message("user", "hello")
        assert store.conversation("chat").version == 1
    opened = open_engine(url, 5.0)
    with opened.engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT COUNT(*) FROM toolledger_events").scalar() == 1
    opened.close()


def test_where_no_server_answers_the_error_names_the_database(
    at: Urls, refusing: Place, silent: Place
) -> None:
    """The error comes when `busy_timeout` is over, and not before."""
    with pytest.raises(StorageError, match=rf"root@{refusing},{silent}/.*can be reached"):
        EventStore.open(at(refusing, silent, options="&connect_timeout=1"), busy_timeout=0.1)


def test_a_wrong_password_is_not_tried_on_each_server(
    mariadb: MariaDB, at: Urls, refusing: Place
) -> None:
    """The same password would be wrong there, too."""
    there = Place(str(mariadb.address.host), mariadb.address.port or 0)
    url = at(there, refusing).replace("root@", "root:mArKed@")
    with pytest.raises(StorageError, match="check the user and the password") as caught:
        EventStore.open(url, busy_timeout=0.1)
    assert "mArKed" not in str(caught.value)


def test_a_replica_is_left_for_the_server_that_takes_writes(
    mariadb: MariaDB, at: Urls, proxies: list[Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was opened to read alone is content with it."""
    from eventstore.storage.mysql import routing

    first, second = (Place("127.0.0.1", proxy.port) for proxy in proxies)
    url = at(first, second)
    backend = backend_for(url)
    assert isinstance(backend, Mysql)
    asked: list[bool] = []
    ask = routing.standing

    def standing(run: Any, *, reads_only: bool) -> Any:
        found = ask(run, reads_only=reads_only)
        asked.append(reads_only)
        if len(asked) == 1 and not reads_only:
            return found._replace(use=routing.Use.NONE, words="the server takes no writes")
        return found

    monkeypatch.setattr(routing, "standing", standing)
    backend.connect().connect().close()
    assert next(iter(backend.routing.hosts)) == second
    assert asked == [False, False]
    backend.read_only = True
    backend.connect().connect().close()
    assert asked[2:] == [True]


def test_all_connections_go_where_the_last_one_went(at: Urls, proxies: list[Proxy]) -> None:
    """The writer's and the readers' are given up when the first server falls silent."""
    first, second = (Place("127.0.0.1", proxy.port) for proxy in proxies)
    url = at(first, second, options="&connect_timeout=1&read_timeout=1")
    with closing(open_storage(url, "", "full", 30.0)) as storage:
        assert isinstance(storage, SqlStorage)
        append(storage, "chat", message("a"))
        assert [each.version for each in storage.conversation("chat")] == [1]
        proxies[0].is_silent = True
        proxies[0].silence()
        append(storage, "chat", message("b"), version=1)
        assert [each.version for each in storage.conversation("chat")] == [1, 2]
        backend = storage.backend
        assert isinstance(backend, Mysql)
        assert next(iter(backend.routing.hosts)) == second


def test_a_server_that_takes_no_writes_anywhere_is_named(
    mariadb: MariaDB, at: Urls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is the library's, and says why."""
    from eventstore.storage.mysql import routing

    there = Place(str(mariadb.address.host), mariadb.address.port or 0)
    none = Standing(None, Use.NONE, "the server takes no writes")
    monkeypatch.setattr(routing, "standing", lambda _, **__: none)
    with pytest.raises(StoreBusy, match=f"{there}: the server takes no writes"):
        EventStore.open(at(there, there), busy_timeout=0.0)


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_a_server_alone_is_asked_nothing_of_clusters(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """An append is four statements, and no connection asks how the server stands."""
    url = request.getfixturevalue(kind).database(migrated=True)
    sent: list[str] = []
    query = pymysql.connections.Connection.query

    def noted(self: Any, sql: str | bytes, *arguments: Any) -> Any:
        sent.append(sql if isinstance(sql, str) else sql.decode("utf-8", "replace"))
        return query(self, sql, *arguments)

    monkeypatch.setattr(pymysql.connections.Connection, "query", noted)
    with closing(open_storage(url, "", "full", 30.0)) as storage:
        append(storage, "chat", message("a"))
        assert len(list(storage.feed({}))) == 1
        sent, before = [], sent
        append(storage, "chat", message("b"), version=1)
    assert [each.split()[0] for each in sent] == ["BEGIN", "UPDATE", "INSERT", "COMMIT"]
    assert not [each for each in before if "SHOW GLOBAL VARIABLES" in each or "protocol()" in each]
