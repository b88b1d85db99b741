"""Servers of MariaDB or MySQL, each on a machine of its own, that are one database together.

The machines are those of `machines.py`, so that one can be killed, frozen and cut off.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from sqlalchemy import URL, create_engine, make_url
from sqlalchemy.exc import DBAPIError
from support import machines
from support.machines import AS_USER, Network, wait_for
from support.servers import MariaDB

SIZE = 3
PORT = 3306


class Node(machines.Machine):
    """The machine of one server."""

    def __init__(self, network: Network, number: int) -> None:
        super().__init__(network, number)
        self.data = self.folder / "data"

    def url(self, url: str) -> str:
        """Return the URL of a database through this node alone."""
        return make_url(url).set(host=self.address).render_as_string(hide_password=False)

    def crash(self) -> None:
        """Kill the server with signal 9, and the machine."""
        self.kill()

    def asked(self, *statements: str) -> list[Any]:
        """Run statements; return the rows of the last one, or none if the node does not answer."""
        address = URL.create("mysql+pymysql", "root", host=self.address, port=PORT)
        options = {"connect_timeout": 1, "read_timeout": 60, "ssl_disabled": True}
        engine = create_engine(address, connect_args=options, isolation_level="AUTOCOMMIT")
        rows: list[Any] = []
        try:
            with engine.connect() as connection:
                for statement in statements:
                    result = connection.exec_driver_sql(statement.replace("%", "%%"))
                    rows = list(result) if result.returns_rows else []
        except DBAPIError:
            return []
        else:
            return rows
        finally:
            engine.dispose()


class Masters(MariaDB):
    """Three nodes; as a server, it is the first of them."""

    network: Network
    addresses: Sequence[str]
    nodes: Sequence[Node] = ()
    causal: ClassVar[str]
    """The statement by which a session's reads have all that was committed on other nodes."""

    def own_address(self, port: int) -> URL:
        """Return the first node's address; `port` is free here, and not used."""
        self.network = Network(self._folder)
        self.addresses = [f"{self.network.subnet}.{number}" for number in range(1, SIZE + 1)]
        return super().own_address(PORT).set(host=self.addresses[0])

    def own_folder(self) -> None:
        """Take the folder over from the server's user: a machine's user is root outside of it."""
        if self.user is not None:
            os.chown(self._folder, 0, 0)
            self.user = None

    def run(self, *command: str | Path) -> None:
        """Run a tool as the machines' user."""
        super().run(*AS_USER, *command)

    def kill(self) -> None:
        """Kill all nodes, as a power cut does."""
        for node in self.nodes:
            node.kill()

    def remove(self) -> None:
        """Stop the nodes, and remove their files and network."""
        if self._owner == os.getpid():
            self.kill()
            self.network.remove()
            super().remove()

    def urls(self, url: str) -> list[str]:
        """Return the URLs of a database through each node alone."""
        return [node.url(url) for node in self.nodes]

    def urls_of_all(self, url: str) -> list[str]:
        """Return the URLs of a database through all nodes, each with another node first."""
        found, hosts = [], self.addresses
        for number in range(SIZE):
            listed = ",".join([*hosts, *hosts][number : number + SIZE])
            found.append(url.replace(f"{hosts[0]}:{PORT}", listed, 1))
        return found

    def others(self, node: Any) -> list[Any]:
        """Return all nodes but one."""
        return [one for one in self.nodes if one is not node]

    def wait_until_whole(self) -> None:
        """Wait until all nodes are one cluster."""
        raise NotImplementedError

    def assert_all_have_the_same(self, url: str) -> None:
        """Compare each table of a database, row by row, between the nodes."""
        first, *others = (self._digests(one) for one in self.urls(url))
        assert len(first) > 1
        for other in others:
            assert other == first

    def _digests(self, url: str) -> dict[str, tuple[int, str]]:
        """Return the number of rows of each table, and a digest of them, as one node has them."""
        found = {}
        with self.connected(url) as connection:
            connection.exec_driver_sql(self.causal)
            for (table,) in connection.exec_driver_sql("SHOW TABLES").all():
                rows = connection.exec_driver_sql(f"SELECT * FROM {table}")  # noqa: S608 - it exists
                lines = sorted(repr(tuple(row)) for row in rows)
                digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
                found[table] = len(lines), digest
        return found

    def _wait(self, what: str, condition: Callable[[], bool]) -> None:
        try:
            wait_for(what, condition)
        except TimeoutError as error:
            logs = "\n".join(f"{one.name}: {one.end_of_log()}" for one in self.nodes)
            raise TimeoutError(f"{error}\n{logs}") from None
