"""`Watch`: all who wait for events of a store, and the one thread that looks for them.

What this process appends wakes those who wait for it at once: the log's bell says which
conversations it was. What other processes append is found by looking from time to time, for all
together. A look reads the lanes' counters, and only where these have moved, or somebody is new,
the versions of the conversations that are waited for. So a thousand who wait cost one statement
an interval while nothing happens, and two when something does. Where the storage is told by others
that they have appended (see `Storage.hints`), it looks at once; where hundreds tell all the time,
as often as `PACE` allows.

On SQLite that costs what `PRAGMA data_version` costs (10 against 13 microseconds). It serves
every engine, and needs no connection of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from eventstore.bell import Bell
    from eventstore.storage import Storage

LINGER = 1.0
"""Seconds for which the thread stays when nobody waits any more."""

PACE = 0.01
"""Seconds from a look to the next one at the soonest that others' hints may bring about."""


class Wanted(Protocol):
    """What somebody waits for."""

    @property
    def name(self) -> str | None:
        """The conversation that it comes in; None where any may be."""

    @property
    def poll(self) -> float:
        """The seconds in which what others append has to be seen."""

    @property
    def seen(self) -> Any:
        """Where the last look for it ended: the conversation's version, or the lanes' positions."""

    @property
    def stopped(self) -> bool:
        """Whether nobody is to wait for it any more."""


class Waiter:
    """One who waits. `wake` is called in any thread, and also for nothing: he looks for himself.

    It raises `RuntimeError` where nobody waits any more.
    `expects`: he has looked. `is_new`: nobody has looked for him since.
    """

    __slots__ = ("expects", "is_new", "wake", "wanted")

    def __init__(self, wanted: Wanted, wake: Callable[[], object]) -> None:
        self.wanted = wanted
        self.wake = wake
        self.expects = False
        self.is_new = True


class Watch:
    """Who waits for events of a store, and the thread that looks for as long as somebody does."""

    def __init__(self, storage: Storage, bell: Bell) -> None:
        self._storage = storage
        self._bell = bell
        self._changed = Condition()  # with a lock that a signal's handler may take again
        self._waiters: dict[str | None, set[Waiter]] = {}
        self._thread: Thread | None = None
        self._interval: float | None = None
        self._hinted = False
        self._heads: Any = None

    def __len__(self) -> int:
        """How many wait."""
        with self._changed:
            return len(self._expecting())

    @contextmanager
    def joined(self, wanted: Wanted, wake: Callable[[], object]) -> Iterator[Waiter]:
        """Be told of what is appended from now on: first look for it, then `expect` more."""
        waiter = Waiter(wanted, wake)
        try:
            with self._changed:
                if not self._waiters:
                    self._bell.add(self._ring)
                self._waiters.setdefault(wanted.name, set()).add(waiter)
            yield waiter
        finally:
            self._leave(waiter)

    def _leave(self, waiter: Waiter) -> None:
        name = waiter.wanted.name
        with self._changed:
            others = self._waiters.get(name, set())
            others.discard(waiter)
            if not others:
                self._waiters.pop(name, None)
            if not self._waiters:
                self._bell.remove(self._ring)

    def expect(self, waiter: Waiter) -> None:
        """Wake him when there is anything but what he has seen."""
        with self._changed:
            waiter.expects = waiter.is_new = True
            if self._thread is None:
                thread = Thread(target=self._work, name="toolledger-watch", daemon=True)
                thread.start()
                self._thread = thread
            elif self._interval is None or waiter.wanted.poll < self._interval:
                self._changed.notify()

    def wake_all(self) -> None:
        """Let everybody look for himself."""
        self._wake(tuple(self._waiters))

    def _expecting(self) -> list[Waiter]:
        everybody = self._waiters.values()
        return [waiter for waiters in everybody for waiter in waiters if waiter.expects]

    def _ring(self, names: Collection[str]) -> None:
        self._wake((*names, None))

    def _wake(self, names: Collection[str | None]) -> None:
        with self._changed:
            woken = [waiter for name in names for waiter in self._waiters.get(name, ())]
        for waiter in woken:
            self._tell(waiter)

    def _tell(self, waiter: Waiter) -> None:
        try:
            waiter.wake()
        except RuntimeError:  # his event loop is closed
            self._leave(waiter)

    # the thread

    def _work(self) -> None:
        last = time.monotonic()
        with self._storage.hints(self._hint):
            while self._is_due(last):
                try:
                    self._look()
                except Exception:  # noqa: BLE001 - who waits looks for himself, and is told
                    self.wake_all()
                last = time.monotonic()

    def _hint(self) -> None:
        """Look soon: others have appended."""
        with self._changed:
            self._hinted = True
            self._changed.notify()

    def _is_due(self, last: float) -> bool:
        """Wait until it is time for the next look; False when nobody waits any more."""
        with self._changed:
            while True:
                polls = [waiter.wanted.poll for waiter in self._expecting()]
                self._interval = min(polls, default=None)
                if self._interval is not None:
                    pause = min(self._interval, PACE) if self._hinted else self._interval
                    left = last + pause - time.monotonic()
                    if left <= 0:
                        self._hinted = False
                        return True
                    self._changed.wait(min(left, LINGER))  # all may have gone by then
                elif self._changed.wait(LINGER):
                    last = time.monotonic()
                elif not self._expecting():
                    self._thread = None
                    return False

    def _look(self) -> None:
        """Wake those for whom there is news, and those who are to end."""
        heads = self._storage.heads()
        with self._changed:
            expecting = self._expecting()
        moved, self._heads = heads != self._heads, heads
        asked = [waiter for waiter in expecting if moved or waiter.is_new]
        names = {name for waiter in asked if (name := waiter.wanted.name) is not None}
        versions = self._storage.versions(names) if names else {}
        for waiter in asked:
            waiter.is_new = False
            name = waiter.wanted.name
            if waiter.wanted.seen != (heads if name is None else versions.get(name, 0)):
                self._tell(waiter)
        for waiter in expecting:
            if waiter.wanted.stopped:
                self._tell(waiter)
