"""Machines of a cluster: sets of Linux namespaces, on a network of their own.

The processes of a machine die together, freeze together, and have a network that can be unplugged.
That takes the rights of root.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest
from support.servers import AbsentError, die_with_us, required

WAIT_SECONDS = 120
AS_USER = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
"""What runs a program as a user to whom our files belong: servers do not run as root."""
NOWHERE = "02:00:00:00:00:01"
"""The address of a network card that no machine has."""

_networks = itertools.count()


class Network:
    """A bridge between machines and us, whose files are in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        which = next(_networks)
        number = (os.getpid() + 101 * which) % (50 * 250)
        self.subnet = f"10.{200 + number // 250}.{number % 250}"
        self.bridge = f"tl{os.getpid()}" + f".{which}" * bool(which)

    def start(self) -> None:
        """Put up the bridge."""
        if sys.platform != "linux" or os.geteuid() != 0:
            raise AbsentError("a cluster's machines need Linux and the rights of root")
        _ip(f"link add {self.bridge} type bridge")
        _ip(f"address add {self.subnet}.254/24 dev {self.bridge}")
        _ip(f"link set {self.bridge} up")

    def remove(self) -> None:
        """Remove the bridge."""
        _delete_link(self.bridge)


class Machine:
    """One machine of a network, with an address of its own."""

    def __init__(self, network: Network, number: int) -> None:
        self.name = f"machine{number}"
        self.address = f"{network.subnet}.{number}"
        self.folder = network.folder / self.name
        self._bridge = network.bridge
        self._interface = f"{network.bridge}-{number}"
        self._namespace = ""
        self._process: subprocess.Popen[bytes] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process may know of it."""
        return {**self.__dict__, "_process": None}

    def script(self) -> str:
        """Return the shell script that its first process runs, in its folder."""
        raise NotImplementedError

    def start(self) -> None:
        """Switch it on; its files are those that it had before."""
        self.folder.mkdir(exist_ok=True)
        inside = [
            "echo booted",
            "read _",  # until it has a network card
            "ip link set lo up",
            f"ip address add {self.address}/24 dev eth0",
            "ip link set eth0 up",
            "exec unshare --pid --fork --kill-child --mount-proc "
            + shlex.join([*AS_USER, "sh", "-c", self.script()]),
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
            _ip(f"link set {self._interface} master {self._bridge} up")
            power.write(b"go\n")
        spaces = f"/proc/{self._process.pid}/ns"
        # There is no link between the making of the namespace and that of its first process.
        unmade = "", _link(f"{spaces}/pid")

        def namespace() -> str:
            return _link(f"{spaces}/pid_for_children")

        wait_for("a machine's namespace", lambda: namespace() not in unmade)
        self._namespace = namespace()

    def kill(self) -> None:
        """Kill all its processes at once, as a power cut does."""
        if self._process is None:
            return
        pid = self._process.pid
        with contextlib.suppress(FileNotFoundError):  # it has ended by itself
            for first in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                os.kill(int(first), signal.SIGKILL)  # and with it all that it started
        self._process.wait()
        self._process = None
        _delete_link(self._interface)  # the kernel may take seconds to do so

    def kill_program(self, *words: bytes) -> None:
        """Kill the first process whose command begins with and has these words; others go on."""
        os.kill(self._process_of(*words), signal.SIGKILL)

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

    def isolate(self, others: Iterable[Machine]) -> None:
        """Cut it off from other machines, silently; clients still reach it."""
        for one, other in self._pairs(others):
            one.run_inside(
                f"ip neigh replace {other.address} lladdr {NOWHERE} nud permanent dev eth0"
            )

    def reunite(self, others: Iterable[Machine]) -> None:
        """Connect it to the others again."""
        for one, other in self._pairs(others):
            one.run_inside(f"ip neigh del {other.address} dev eth0")

    def _pairs(self, others: Iterable[Machine]) -> Iterator[tuple[Machine, Machine]]:
        for other in others:
            if other is not self:
                yield self, other
                yield other, self

    def run_inside(self, command: str) -> None:
        """Run a command in its network."""
        assert self._process is not None
        _run(f"nsenter --net --target {self._process.pid} {command}")

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

    def _process_of(self, program: bytes, *words: bytes) -> int:
        for pid in self._processes():
            with contextlib.suppress(OSError):
                command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if command[0].endswith(b"/" + program) and set(words) <= set(command):
                    return pid
        raise AssertionError(f"{program.decode()} does not run on {self.name}")


def wait_for(what: str, condition: Callable[[], bool]) -> None:
    """Wait until a condition holds; raise TimeoutError, with its name, if it does not."""
    until = time.monotonic() + WAIT_SECONDS
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(f"{what} is not there after {WAIT_SECONDS} seconds")
        time.sleep(0.1)


class Cluster(Protocol):
    """What `own` asks of a cluster."""

    def start(self) -> None:
        """Start its machines; raise AbsentError where something is missing."""

    def remove(self) -> None:
        """End its machines, and remove its files."""


_C = TypeVar("_C", bound=Cluster)


def own(name: str, kind: Callable[[], _C]) -> Iterator[_C]:
    """Yield a cluster; skip the test where there is none, or fail if it is required by its name."""
    made: _C | None = None
    try:
        made = kind()
        made.start()
        yield made
    except AbsentError as reason:
        if required(name):
            pytest.fail(f"{reason} (TOOLLEDGER_REQUIRE asks for it)")
        pytest.skip(str(reason))
    finally:
        if made is not None:
            made.remove()


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise AbsentError(f"there is no {name} here: apt-get install iproute2 util-linux")
    return found


def _ip(command: str) -> None:
    _run(f"ip {command}")


def _run(command: str) -> None:
    name, *words = command.split()
    done = subprocess.run([_program(name), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise AbsentError(f"{command}: {done.stderr.strip()}")


def _delete_link(name: str) -> None:
    with contextlib.suppress(AbsentError):  # it is gone, or was never there
        _ip(f"link delete {name}")


def _pids() -> Iterator[int]:
    return (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())


def _link(path: str) -> str:
    with contextlib.suppress(OSError):
        return str(Path(path).readlink())
    return ""
