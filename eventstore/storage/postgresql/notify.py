"""Hints between processes: PostgreSQL's LISTEN and NOTIFY.

After a commit, a thread of its own notifies the other processes, once for all appends since
the last hint. NOTIFY inside the transaction would make all commits wait for one another. A hint may
be lost: only the lanes' counters say which events are stored.

A standby has no notifications, and a pooler passes none on. There nothing is heard, and the
watcher is told so. Where lanes live on several nodes, a listener hears only of what was appended
through its own node.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from threading import Condition, RLock, Thread
from typing import TYPE_CHECKING, Any

from eventstore.latch import Latch

if TYPE_CHECKING:
    from eventstore.storage.sql.log import Log

CHANNEL = "toolledger"

EVERYONE = "host"
"""What is sent in the place of the sending process where that is to hear of it, too."""

NOTIFY_INTERVAL_SECONDS = 0.02
"""The time from one hint to the next."""

LISTENER = "SELECT set_config('application_name', current_setting('application_name') || %s, false)"
"""Tells an operator what the connection is for; the server cuts a long name off."""

IN_RECOVERY = "SELECT pg_is_in_recovery()"
"""Whether the server is a standby."""

LISTEN_POLL_SECONDS = 0.5
"""Time between two checks of the listening thread whether it is still needed."""

_process_mark = os.urandom(8).hex()


class Notifications:
    """Sends hints to other processes when there are new events, and hears of theirs."""

    idle_seconds = 1.0
    """Time for which the notifying thread stays when there is nothing to send."""

    listen_retry_seconds = 5.0
    """Time for which a listener that failed, or has a standby, waits before it tries again."""

    def __init__(self, log: Log) -> None:
        self._connections = log.connections
        self._epoch = log.epoch
        self._hears_all = not log.backend.commits_by_lane
        self._begin()
        log.connections.on_renewal.append(self._begin)

    def _begin(self) -> None:
        """Begin without a thread, as a forked child does."""
        self._notify_lock = RLock()  # entered by itself: see `Watcher`
        self._changed = Condition(self._notify_lock)
        self._due = self._to_all = False
        self._ending = Latch()
        self._notifier: Thread | None = None

    # notifying

    def send(self) -> None:
        """Tell the others soon that something was appended."""
        if self._due:
            return
        with self._notify_lock:
            self._due = True
            if self._notifier is not None:
                self._changed.notify()
                return
            self._notifier = _started(self._notify_others, "toolledger-notify")
            self._due = self._notifier is not None

    def send_to_all(self) -> None:
        """Tell this process, too: it does not know what a host's transaction has stored."""
        with self._notify_lock:
            self._to_all = True
        self.send()

    def close(self) -> None:
        """Send the last hint, and end."""
        with self._notify_lock:
            self._ending.set()
            self._changed.notify()
            notifier = self._notifier
        if notifier is not None:
            notifier.join(self.idle_seconds)

    def _notify_others(self) -> None:
        while self._is_due():
            with self._notify_lock:
                sender = EVERYONE if self._to_all else _process()
                self._due = self._to_all = False  # the next hint covers appends from now on
            with suppress(Exception):
                self._connections.rows(
                    "SELECT pg_notify(%s, %s)", CHANNEL, f"{self._epoch} {sender}"
                )
            self._ending.wait(NOTIFY_INTERVAL_SECONDS)

    def _is_due(self) -> bool:
        """Wait until there is something to send; return False when nothing came for a while."""
        with self._notify_lock:
            if not self._due and not self._ending.is_set():
                self._changed.wait(self.idle_seconds)
            if not self._due:
                self._notifier = None
            return self._due

    # listening

    @contextmanager
    def listen(self, heard: Callable[[], object], /) -> Generator[Callable[[], bool]]:
        """Call `heard` when another process has appended; see `Storage.hints`."""
        ended, hearing = Latch(), _Hearing()
        _started(partial(self._listen, heard, ended, hearing), "toolledger-listen")
        try:
            yield hearing
        finally:
            ended.set()

    def _listen(self, heard: Callable[[], object], ended: Latch, hearing: _Hearing) -> None:
        while not ended.is_set() and not self._ending.is_set():
            with suppress(Exception):
                self._hear_notices(heard, ended, hearing)
            ended.wait(self.listen_retry_seconds)

    def _hear_notices(self, heard: Callable[[], object], ended: Latch, hearing: _Hearing) -> None:
        pooled = self._connections.new_connection()
        pooled.detach()  # it is never given back: it keeps listening
        connection: Any = pooled.dbapi_connection
        try:
            if connection.prepare_threshold is None:  # a pooler does not pass on what is heard
                ended.wait()
                return
            connection.execute(LISTENER, (" listen",))
            while connection.execute(IN_RECOVERY).fetchone()[0]:
                if ended.wait(self.listen_retry_seconds) or self._ending.is_set():
                    return
            connection.execute(f"LISTEN {CHANNEL}")
            hearing.now = self._hears_all
            heard()  # for what came before it listened
            while not ended.is_set() and not self._ending.is_set():
                for notice in connection.notifies(timeout=LISTEN_POLL_SECONDS, stop_after=1):
                    epoch, _, process = notice.payload.partition(" ")
                    if epoch == self._epoch and process != _process():
                        heard()
        finally:
            hearing.now = False
            connection.close()


class _Hearing:
    """Whether hints are heard now."""

    now = False

    def __call__(self) -> bool:
        return self.now


def _started(work: Callable[[], object], name: str) -> Thread | None:
    """Start a thread; return None where none can be started: it would only serve a hint."""
    thread = Thread(target=work, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return None
    return thread


def _process() -> str:
    """Return what tells this process from every other that is connected."""
    return f"{_process_mark}-{os.getpid()}"
