"""Hints between processes: PostgreSQL's NOTIFY.

Who appends tells it behind the commit, from a thread of its own, once for all that came meanwhile:
inside the transaction it would make all commits wait for one another. Who waits for events
listens. It is a hint, and any may be lost: what is there, the lanes' counters say.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import Condition, Event, Thread
from typing import TYPE_CHECKING, Any

from eventstore.storage.sql import SqlStorage

if TYPE_CHECKING:
    from eventstore.storage import Append, Appended

CHANNEL = "toolledger"

PACE = 0.02
"""Seconds from one hint to the next."""

LINGER = 1.0
"""Seconds for which the thread that tells stays when there is nothing to tell."""

GLANCE = 0.5
"""Seconds after which the thread that listens looks whether anybody still wants it."""

RETRY = 5.0
"""Seconds after which one listens again, where that failed."""

_chance = os.urandom(8).hex()


class NotifyingStorage(SqlStorage):
    """The events of one tenant; other processes are told of new ones."""

    def _connect(self) -> None:
        super()._connect()
        self._changed = Condition()
        self._due = False
        self._ending = Event()
        self._teller: Thread | None = None

    def append(self, request: Append) -> Appended:
        """Store the drafts of `request`; see `Storage.append`."""
        done = super().append(request)
        if not self._due:
            self._tell()
        return done

    def append_all(self, requests: Sequence[Append]) -> list[Appended | Exception]:
        """Store the drafts of many in one transaction; see `Storage.append_all`."""
        done = super().append_all(requests)
        if not self._due:
            self._tell()
        return done

    def close(self) -> None:
        """Give up the connections, with the last hint on its way. Twice is once."""
        if not self._closed and self._pid == os.getpid():
            self._tell_the_last()
        super().close()

    # telling

    def _tell(self) -> None:
        with self._changed:
            self._due = True
            if self._teller is not None:
                self._changed.notify()
                return
            self._teller = _started(self._work, "toolledger-notify")
            self._due = self._teller is not None

    def _tell_the_last(self) -> None:
        with self._changed:
            self._ending.set()
            self._changed.notify()
            teller = self._teller
        if teller is not None:
            teller.join(LINGER)

    def _work(self) -> None:
        while self._is_due():
            self._due = False  # what is appended from now on is told the next time
            with suppress(Exception):
                self.rows("SELECT pg_notify(%s, %s)", CHANNEL, f"{self.epoch} {_process()}")
            self._ending.wait(PACE)

    def _is_due(self) -> bool:
        """Wait until there is something to tell; False when there was nothing for a while."""
        with self._changed:
            if not self._due and not self._ending.is_set():
                self._changed.wait(LINGER)
            if not self._due:
                self._teller = None
            return self._due

    # listening

    @contextmanager
    def hints(self, heard: Callable[[], object]) -> Iterator[None]:
        """Call `heard` when another process has appended; see `Storage.hints`."""
        ended = Event()
        _started(partial(self._listen, heard, ended), "toolledger-listen")
        try:
            yield
        finally:
            ended.set()

    def _listen(self, heard: Callable[[], object], ended: Event) -> None:
        while not ended.is_set() and not self._ending.is_set():
            with suppress(Exception):
                self._hear(heard, ended)
            ended.wait(RETRY)

    def _hear(self, heard: Callable[[], object], ended: Event) -> None:
        pooled = self._new_connection()
        pooled.detach()  # it is never given back: it goes on listening
        connection: Any = pooled.dbapi_connection
        try:
            connection.execute(f"LISTEN {CHANNEL}")
            heard()  # what came before it listened
            while not ended.is_set() and not self._ending.is_set():
                for notice in connection.notifies(timeout=GLANCE, stop_after=1):
                    epoch, _, process = notice.payload.partition(" ")
                    if epoch == self.epoch and process != _process():
                        heard()
        finally:
            connection.close()


def _started(work: Callable[[], object], name: str) -> Thread | None:
    """A thread; None where the system gives none, or Python ends: it would but serve a hint."""
    thread = Thread(target=work, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return None
    return thread


def _process() -> str:
    """What tells this process from every other that is connected."""
    return f"{_chance}-{os.getpid()}"
