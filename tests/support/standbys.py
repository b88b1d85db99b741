"""A primary of PostgreSQL whose standbys the tests start, stop and promote."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from support.servers import PostgreSQL, postgres_tools

PATIENCE_SECONDS = 60.0
WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


class Primary(PostgreSQL):
    """A PostgreSQL that standbys may follow."""

    def command(self) -> list[str]:
        """Return the command of a server that sends its log."""
        return [*super().command(), "-c", "wal_level=replica", "-c", "max_wal_senders=4"]

    def await_standbys(self, names: str) -> None:
        """Let commits wait for standbys of these names; for none where it is empty."""
        self.execute(
            f"ALTER SYSTEM SET synchronous_standby_names = '{names}'", "SELECT pg_reload_conf()"
        )
        expected = [(names,)]
        self.until(lambda: self.execute("SHOW synchronous_standby_names") == expected)
        if names:
            self.until(self.commits_wait)

    def commits_wait(self) -> bool:
        """Return whether a commit waits: it does once the checkpointer has the setting, too."""
        probe = "SELECT pg_logical_emit_message(true, 'probe', '')"
        commit = threading.Thread(target=self.execute, args=(probe,))
        commit.start()
        while commit.is_alive():
            if self.execute(WAITING):
                self.cancel_waiting()
                commit.join()
                return True
        return False

    def cancel_waiting(self) -> None:
        """Cancel each commit that waits for a standby."""
        for (process,) in self.execute(WAITING):
            self.execute(f"SELECT pg_cancel_backend({process})")

    def until(self, condition: Callable[[], object]) -> None:
        """Wait until the condition holds."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < deadline
            threading.Event().wait(0.02)

    def follow(self, folder: Path) -> subprocess.Popen[bytes]:
        """Start a standby that writes the log to a folder, and says when it is on disk."""
        address = f"host=127.0.0.1 port={self.address.port} user=tester application_name=standby"
        folder.mkdir()
        command = [self.tools / "pg_receivewal", "-D", folder, "--synchronous", "-d", address]
        return subprocess.Popen([*map(str, command), "--no-loop"])


class Standby(PostgreSQL):
    """A server that replays what a primary writes, and answers reads."""

    primary: ClassVar[Primary]

    @classmethod
    def of(cls, primary: Primary) -> type[Standby]:
        """Return the kind of server that follows a primary."""
        return type(cls.__name__, (cls,), {"primary": primary})

    def install(self) -> None:
        """Copy the primary."""
        self.tools = postgres_tools(self._folder, self.user)
        place = f"-h 127.0.0.1 -p {self.primary.address.port} -U tester"
        options = "-R -X stream -c fast --no-sync"
        copy = self.tools / "pg_basebackup"
        self.run(copy, "-D", self.data, *place.split(), *options.split())

    def command(self) -> list[str]:
        """Return the command of a server that cancels at once what is in the way of its replay."""
        settings = "wal_level=replica", "max_wal_senders=4", "max_standby_streaming_delay=0"
        return [*super().command(), *(part for one in settings for part in ("-c", one))]
