"""MySQL's group replication: three machines of MySQL that are one group.

It comes with MySQL as a plugin, which `.ci/mysql` fetches, too. Tests are skipped where a part is
absent; they fail where TOOLLEDGER_REQUIRE names `group`.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest
from support import machines, masters
from support.masters import PORT, SIZE, Masters
from support.servers import AbsentError, MySQL

GROUP = "7001ed6e-0000-4000-8000-000000000000"
GROUP_PORT = 33061
GUEST = """CREATE USER root@'%';
GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;
"""
"""What the installation runs, besides: clients come over the bridge."""

_JOIN = "START GROUP_REPLICATION USER='root', PASSWORD=''"
_STATES = "SELECT MEMBER_STATE FROM performance_schema.replication_group_members"


class Member(masters.Node):
    """One machine of a group."""

    def __init__(self, group: Group, number: int) -> None:
        super().__init__(group.network, number)
        self._number = number
        self._group = group
        self._program = group.program
        self._seeds = ",".join(f"{address}:{GROUP_PORT}" for address in group.addresses)

    def script(self) -> str:
        """Return the command of MySQL; the machine stays on when it ends."""
        return f"{shlex.join(self.command())} >>mysql.log 2>&1; exec sleep infinity"

    def command(self) -> list[str]:
        """Return the command of a server with little memory, which does not join by itself."""
        return [
            str(self._program),
            "--no-defaults",
            f"--datadir={self.data}",
            f"--tmpdir={self.folder}",
            f"--socket={self.folder / 'socket'}",
            f"--port={PORT}",
            f"--bind-address={self.address}",
            f"--report-host={self.address}",
            "--skip-name-resolve",
            "--innodb-buffer-pool-size=64M",
            "--innodb-redo-log-capacity=64M",
            "--max-connections=500",
            "--mysqlx=OFF",
            "--secure-file-priv=NULL",
            f"--server-id={self._number}",
            "--gtid-mode=ON",
            "--enforce-gtid-consistency=ON",
            "--plugin-load-add=group_replication.so",
            f"--group-replication-group-name={GROUP}",
            f"--group-replication-local-address={self.address}:{GROUP_PORT}",
            f"--group-replication-group-seeds={self._seeds}",
            "--group-replication-start-on-boot=OFF",
            "--group-replication-recovery-get-public-key=ON",
        ]

    def boot(self) -> None:
        """Switch it on, and wait until it answers: it takes writes then, and is in no group."""
        super().start()
        self._group.wait(f"{self.name}'s server", lambda: self.asked("SELECT 1") != [])

    def start(self) -> None:
        """Switch it on, and let it join the others."""
        self.boot()
        self.join()

    def join(self) -> None:
        """Let it join the others, and wait until it has what it missed."""
        self.asked(_JOIN)
        self._group.wait(f"{self.name} in its group", lambda: self.is_online)

    def bootstrap(self) -> None:
        """Let it be the first of the group: its events are those that count."""
        name = "group_replication_bootstrap_group"
        self.asked(f"SET GLOBAL {name} = ON", _JOIN)
        self.asked(f"SET GLOBAL {name} = OFF")
        self._group.wait("the first member", lambda: self.is_online)

    def variable(self, name: str) -> Any:
        """Return the value of a global variable; nothing if it does not answer."""
        return next((value for (value,) in self.asked(f"SELECT @@GLOBAL.{name}")), None)

    @property
    def is_online(self) -> bool:
        """Whether it is a member of the group with all that the group has."""
        own = self.asked(f"{_STATES} WHERE MEMBER_ID = @@server_uuid")
        return [state for (state,) in own] == ["ONLINE"]

    @property
    def takes_writes(self) -> bool:
        """Whether it is a primary."""
        return self.is_online and self.variable("read_only") == 0


def _answers(node: Member) -> bool:
    return node.asked("SELECT 1") != []


class Group(Masters, MySQL):
    """Three members, of which one takes writes, or all; as a server, it is the first of them."""

    nodes: Sequence[Member] = ()
    causal = "SET SESSION group_replication_consistency = 'BEFORE'"

    def install(self, *options: str) -> None:
        """Let one server create its files; the others get a copy."""
        self.own_folder()
        guest = self._folder / "guest.sql"
        guest.write_text(GUEST)
        super().install(f"--init-file={guest}", *options)
        (self.data / "auto.cnf").unlink()  # the server's own id
        self.nodes = [Member(self, number) for number in range(1, SIZE + 1)]
        for node in self.nodes:
            node.folder.mkdir()
            shutil.copytree(self.data, node.data)
        shutil.rmtree(self.data)

    def start(self) -> None:
        """Start all members as a new group."""
        try:
            self.network.start()
            self.boot()
            self.nodes[0].bootstrap()
            for node in self.nodes[1:]:
                node.join()
        except TimeoutError as error:
            raise AbsentError(str(error)) from error

    def boot(self) -> None:
        """Switch all machines on, each in no group."""
        for node in self.nodes:
            machines.Machine.start(node)
        for node in self.nodes:
            self.wait(f"{node.name}'s server", partial(_answers, node))

    def restart(self) -> None:
        """Start all members after all have died: one that has what each has is the first."""
        self.boot()
        has = {node: node.variable("gtid_executed") for node in self.nodes}
        first = next(
            node
            for node in self.nodes
            if all(
                node.asked(f"SELECT GTID_SUBSET('{one}', '{has[node]}')") == [(1,)]
                for one in has.values()
            )
        )
        first.bootstrap()
        for node in self.others(first):
            node.join()

    def wait_until_whole(self) -> None:
        """Wait until each member sees all others."""

        def whole() -> bool:
            return all(node.asked(_STATES) == [("ONLINE",)] * SIZE for node in self.nodes)

        self.wait("a whole group", whole)

    def let_all_write(self) -> None:
        """Make each member a primary, from now on."""
        self.nodes[0].asked("SELECT group_replication_switch_to_multi_primary_mode()")
        self.wait("three primaries", lambda: all(node.takes_writes for node in self.nodes))

    def primary(self) -> Member:
        """Return the first member that takes writes; wait until there is one."""
        found: list[Member] = []

        def elected() -> bool:
            found[:] = [node for node in self.nodes if node.takes_writes]
            return bool(found)

        self.wait("a primary", elected)
        return found[0]

    def wait(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds; show the logs if it does not."""
        self._wait(what, condition)


@pytest.fixture
def own_group() -> Iterator[Group]:
    """Return a group of the test's own, of which one member takes writes, until it says more."""
    yield from machines.own("group", Group)
