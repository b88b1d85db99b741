"""A cluster of Citus that the environment names: PostgreSQL whose tables are spread over nodes.

Citus is in no package registry, so the tests do not start it. TOOLLEDGER_CITUS_URL names a cluster
that runs: a URL with all its hosts, the coordinator first, or with the coordinator alone. The user
has all rights on each node, tests make databases there. Without it the tests are skipped, and say
that Citus was not tried; TOOLLEDGER_REQUIRE=citus lets them fail instead.

TOOLLEDGER_CITUS_KILL and TOOLLEDGER_CITUS_START are commands that kill a node with -9 and start it
again, `{node}` in them its number, 0 for the coordinator. Without them no node is killed.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import shlex
import subprocess
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest
from sqlalchemy import URL, Connection, create_engine, make_url
from sqlalchemy.exc import DBAPIError
from support.servers import EMPTYING, required

VARIABLE = "TOOLLEDGER_CITUS_URL"
KILL, START = "TOOLLEDGER_CITUS_KILL", "TOOLLEDGER_CITUS_START"
PORT = 5432
START_SECONDS = 60


class Node(NamedTuple):
    """A server of the cluster, by the address that the others know."""

    host: str
    port: int


class Citus:
    """The cluster: node 0 is the coordinator."""

    def __init__(self, url: URL) -> None:
        self._named = url
        self._numbers = itertools.count(1)
        self._databases: list[str] = []

    @classmethod
    def at(cls, named: str) -> Citus:
        """Return the cluster of a URL, or of a list of hosts."""
        from eventstore.storage.urls import parsed  # only where a cluster runs

        return cls(parsed(named if "://" in named else f"postgresql://postgres@{named}/postgres"))

    @functools.cached_property
    def nodes(self) -> list[Node]:
        """The nodes as they know each other, the coordinator first."""
        database = self._named.database or "postgres"
        found = self.execute(
            "SELECT nodename, nodeport FROM pg_dist_node WHERE noderole = 'primary' "
            "ORDER BY groupid",
            database=database,
        )
        assert found, f"{VARIABLE} names a database without nodes: add them with citus_add_node"
        return [Node(*row) for row in found]

    @functools.cached_property
    def places(self) -> list[Node]:
        """Where the tests reach the nodes: as the environment says, or as the nodes say."""
        given = _hosts(self._named)
        return given if len(given) > 1 else [*given, *self.nodes[1:]]

    def url(self, database: str, node: int | Sequence[int] | None = 0) -> str:
        """Return the URL of a database at one node, or at several; with None, at all of them."""
        if isinstance(node, int):
            return self._at(self.places[node], database).render_as_string(hide_password=False)
        places = self.places if node is None else [self.places[number] for number in node]
        hosts = ",".join(f"{place.host}:{place.port}" for place in places)
        one = self._at(Node("HOSTS", 1), database).render_as_string(hide_password=False)
        return one.replace("HOSTS:1", hosts)

    def urls_of_all(self, url: str) -> list[str]:
        """Return the URLs of a database that name all nodes, each another one first."""
        database, numbers = url.rpartition("/")[2], range(len(self.places))
        return [self.url(database, [*numbers[first:], *numbers[:first]]) for first in numbers]

    def _at(self, place: Node, database: str) -> URL:
        named = self._named
        return URL.create(
            "postgresql", named.username, named.password, place.host, place.port, database
        )

    def new_name(self) -> str:
        """Return a new database name; the database is dropped at the end of the test run."""
        self._databases.append(f"toolledger_citus_{os.getpid()}_{next(self._numbers)}")
        return self._databases[-1]

    def database(self, *, joined: bool = True) -> str:
        """Create a database with the extension on all nodes, and return its name.

        If it is not `joined`, the coordinator knows of no other node.
        """
        name = self.new_name()
        for number in range(len(self.places)):
            self.execute(f"CREATE DATABASE {name} STRATEGY FILE_COPY", node=number, quiet=True)
            self.execute("CREATE EXTENSION citus", database=name, node=number)
        (first, *others) = self.nodes
        self.execute(
            f"SELECT citus_set_coordinator_host('{first.host}', {first.port})", database=name
        )
        for node in others if joined else ():
            self.execute(f"SELECT citus_add_node('{node.host}', {node.port})", database=name)
        self.execute(
            f"SELECT citus_set_node_property('{first.host}', {first.port}, "
            "'shouldhaveshards', true)",
            database=name,
        )
        return name

    @functools.cached_property
    def _distributed(self) -> str:
        from eventstore.migrate import distribute  # only where a cluster runs

        name = self.database()
        distribute(self.url(name))
        return name

    def emptied(self, node: int | None = 0) -> str:
        """Return the URL of a distributed store without events: the same for all tests."""
        from projections.projector.database import forget  # only where a cluster runs

        database = self._distributed
        ((epoch,),) = self.execute(
            "SELECT epoch FROM toolledger_store WHERE id = 1", database=database
        )
        forget(self.url(database), epoch)
        self.execute(*EMPTYING, "DROP TABLE IF EXISTS toolledger_searched_texts", database=database)
        return self.emptied_at(node)

    def emptied_at(self, node: int | None) -> str:
        """Return the URL of the same store at a node, as it is."""
        return self.url(self._distributed, node)

    def execute(
        self, *statements: str, database: str | None = None, node: int = 0, quiet: bool = False
    ) -> list[Any]:
        """Run statements at a node without the library; return the rows of the last one."""
        with self.connected(database, node) as connection:
            rows: list[Any] = []
            for statement in [*(["SET client_min_messages = error"] if quiet else []), *statements]:
                result = connection.exec_driver_sql(statement)
                rows = list(result) if result.returns_rows else []
            return rows

    @contextlib.contextmanager
    def connected(self, database: str | None = None, node: int = 0) -> Iterator[Connection]:
        """Connect to a database by its name or URL; each statement is committed."""
        if database is not None and "://" in database:
            url = make_url(database)
        else:
            place = self.places[node] if node else _hosts(self._named)[0]
            url = self._at(place, database or "postgres")
        engine = create_engine(
            url.set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT"
        )
        try:
            with engine.connect() as connection:
                yield connection
        finally:
            engine.dispose()

    # its nodes

    def check_commands(self) -> None:
        """Skip a test that kills nodes where nobody has said how."""
        if not (os.environ.get(KILL) and os.environ.get(START)):
            pytest.skip(f"no node can be killed: {KILL} and {START} name no commands")

    def kill(self, node: int) -> None:
        """Kill a node."""
        _run(KILL, node)

    def start(self, node: int) -> None:
        """Start a node that was killed, and wait until it answers."""
        _run(START, node)
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                self.execute("SELECT 1", node=node)
            except DBAPIError:
                assert time.monotonic() < until, f"node {node} does not answer"
                time.sleep(0.1)
            else:
                return

    def prepared(self) -> int:
        """Return how many transactions were prepared and are not committed yet, on all nodes."""
        numbers = range(len(self.places))
        query = "SELECT count(*) FROM pg_prepared_xacts"
        return sum(self.execute(query, node=number)[0][0] for number in numbers)

    def remove(self) -> None:
        """Drop the databases that were made."""
        for name in self._databases:
            for number in range(len(self.places)):
                self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)", node=number)


def _run(variable: str, node: int) -> None:
    command = shlex.split(os.environ[variable].format(node=node))
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def _hosts(url: URL) -> list[Node]:
    """Return the hosts that a URL names."""
    several = url.query.get("host")
    if several is None:
        return [Node(url.host or "localhost", url.port or PORT)]
    ports = str(url.query.get("port", "")).split(",")
    return [
        Node(host, int(port or PORT))
        for host, port in itertools.zip_longest(str(several).split(","), ports)
    ]


@pytest.fixture(scope="session")
def citus() -> Iterator[Citus]:
    """Return the cluster that the environment names; skip the test where it names none."""
    named = os.environ.get(VARIABLE)
    if not named:
        reason = f"Citus was not tried: {VARIABLE} names no cluster"
        if required("citus"):
            pytest.fail(f"{reason} (TOOLLEDGER_REQUIRE asks for it)")
        pytest.skip(reason)
    cluster = Citus.at(named)
    yield cluster
    cluster.remove()
