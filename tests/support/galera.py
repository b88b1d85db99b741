"""A Galera cluster: three machines of MariaDB that all take writes.

Debian has the programs: `apt-get install mariadb-server galera-4 rsync`. Tests are skipped where a
part is absent; they fail where TOOLLEDGER_REQUIRE names `galera`.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support import machines, masters
from support.machines import AS_USER
from support.masters import PORT, SIZE, Masters
from support.servers import AbsentError

PROVIDERS = (
    Path("/usr/lib/galera/libgalera_smm.so"),
    Path("/usr/lib/libgalera_smm.so"),
    Path("/usr/lib64/galera-4/libgalera_smm.so"),
)
GUEST = """FLUSH PRIVILEGES;
CREATE USER root@'%';
GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;
"""
"""What the installation runs, besides: clients come over the bridge."""

_SYNCED = 4


class Node(masters.Node):
    """One machine of a Galera cluster; `start` lets it join, with the events that it missed."""

    def __init__(self, cluster: Galera, number: int) -> None:
        super().__init__(cluster.network, number)
        self._program = cluster.program
        self._provider = cluster.provider
        self._cluster_address = f"gcomm://{','.join(cluster.addresses)}"
        self._options: list[str] = []

    def start(self) -> None:
        """Switch it on; it joins the others, or waits for them."""
        position = self.position() if (self.data / "grastate.dat").exists() else None
        self._start(*([f"--wsrep-start-position={position}"] if position else []))

    def bootstrap(self) -> None:
        """Switch it on as the first of a cluster: its events are those that count."""
        state = self.data / "grastate.dat"
        (self.data / "gvwstate.dat").unlink(missing_ok=True)
        options = ["--wsrep-new-cluster"]
        if state.exists():
            text = re.sub("safe_to_bootstrap: 0", "safe_to_bootstrap: 1", state.read_text())
            state.write_text(text)
            options.append(f"--wsrep-start-position={self.position()}")
        self._start(*options)

    def _start(self, *options: str) -> None:
        self._options = list(options)
        super().start()

    def script(self) -> str:
        """Return the command of MariaDB; the machine stays on when it ends."""
        command = shlex.join([*self.command(), *self._options])
        return f"{command} >>mariadb.log 2>&1; exec sleep infinity"

    def command(self) -> list[str]:
        """Return the command of a server with little memory."""
        provider = {"gcache.size": "64M", "gmcast.listen_addr": f"tcp://{self.address}:4567"}
        return [
            str(self._program),
            "--no-defaults",
            f"--datadir={self.data}",
            f"--tmpdir={self.folder}",
            f"--socket={self.folder / 'socket'}",
            f"--port={PORT}",
            f"--bind-address={self.address}",
            "--skip-name-resolve",
            "--innodb-buffer-pool-size=64M",
            "--innodb-log-file-size=32M",
            "--max-connections=500",
            "--binlog-format=ROW",
            "--innodb-autoinc-lock-mode=2",
            "--wsrep-on=ON",
            f"--wsrep-provider={self._provider}",
            "--wsrep-cluster-name=toolledger",
            f"--wsrep-cluster-address={self._cluster_address}",
            f"--wsrep-node-name={self.name}",
            f"--wsrep-node-address={self.address}",
            "--wsrep-sst-method=rsync",
            f"--wsrep-provider-options={';'.join(map('='.join, provider.items()))}",
        ]

    def position(self) -> str:
        """Return its last transaction, the cluster's id and a number; the machine is off."""
        done = subprocess.run(
            [*AS_USER, *self.command(), "--wsrep-recover"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
        )
        found = re.findall(r"Recovered position:\s*(\S+)", done.stderr + done.stdout)
        if not found:
            raise AbsentError(f"{self.name} cannot recover: {done.stderr[-2000:]}")
        return str(found[-1])

    def crash(self) -> None:
        """Kill MariaDB with signal 9, and then the machine: connections end at once."""
        self.kill_program(self._program.name.encode())
        self.kill()

    def status(self) -> dict[str, Any]:
        """Return what it says of its cluster; nothing if it does not answer."""
        return {name: value for name, value in self.asked("SHOW STATUS LIKE 'wsrep%'")}  # noqa: C416 - rows are no pairs

    @property
    def is_synced(self) -> bool:
        """Whether it takes reads and writes, as one of the primary component."""
        status = self.status()
        return (status.get("wsrep_ready"), status.get("wsrep_local_state")) == ("ON", str(_SYNCED))


class Galera(Masters):
    """Three nodes; as a server, it is the first of them."""

    nodes: Sequence[Node] = ()
    causal = "SET SESSION wsrep_sync_wait = 1"

    def install(self, *options: str) -> None:
        """Run `mariadb-install-db` once; the other nodes get all from the first."""
        found = [path for path in PROVIDERS if path.exists()]
        if not found or shutil.which("rsync") is None:
            raise AbsentError("there is no Galera here: apt-get install galera-4 rsync")
        self.provider = found[0]
        self.own_folder()
        guest = self._folder / "guest.sql"
        guest.write_text(GUEST)
        super().install(f"--extra-file={guest}", *options)
        self.nodes = [Node(self, number) for number in range(1, SIZE + 1)]
        for node in self.nodes:
            node.folder.mkdir()
            if node is self.nodes[0]:
                self.data.rename(node.data)
            else:
                node.data.mkdir()

    def start(self) -> None:
        """Start all nodes: the first as a new cluster, or, later on, as `restart` says."""
        try:
            self.network.start()
            self.nodes[0].bootstrap()
            self._wait("the first node", lambda: self.nodes[0].is_synced)
            for node in self.nodes[1:]:
                node.start()
            self.wait_until_whole()
        except TimeoutError as error:
            raise AbsentError(str(error)) from error

    def restart(self) -> None:
        """Start all nodes after all have died: the one that has the most is the first."""
        first = max(self.nodes, key=lambda node: int(node.position().rpartition(":")[2]))
        first.bootstrap()
        self._wait("the first node", lambda: first.is_synced)
        for node in self.others(first):
            node.start()
        self.wait_until_whole()

    def wait_until_whole(self) -> None:
        """Wait until all nodes are one component, and have all of its events."""

        def whole() -> bool:
            sizes = {node.status().get("wsrep_cluster_size") for node in self.nodes}
            return sizes == {str(SIZE)} and all(node.is_synced for node in self.nodes)

        self._wait("a whole cluster", whole)


@pytest.fixture(scope="module")
def own_galera() -> Iterator[Galera]:
    """Return a cluster whose nodes a test may break, if it leaves them whole.

    Its files are on a disk: in memory MariaDB's log outlives a kill, whoever waits for it.
    """
    yield from machines.own("galera", lambda: Galera(Path(tempfile.gettempdir())))
