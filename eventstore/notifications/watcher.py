"""`Watcher`: everything that waits for events of a store, and the one thread that polls for it.

1. What this process appends wakes its waiters at once: the log's `LocalNotifier` names the
   conversations.
2. What other processes append is found by polling, for all waiters together. A poll reads the
   lanes' counters. Only if these have moved, or a waiter is new, it also reads the versions of the
   conversations that are waited for.
3. If the storage gets hints that other processes have appended (see `Storage.hints`), it polls at
   once, but at most once in `MIN_POLL_SECONDS`.
4. While it hears of every append that way, a poll only has to find what was not told: one in
   `HEARING_POLL_SECONDS` is enough. A waiter that is new, or is to end, has the next at its own.

So a thousand waiters cost one statement per interval while nothing happens, and two when something
does. On SQLite a poll costs as much as `PRAGMA data_version` (10 and 13 microseconds), serves every
engine, and needs no connection of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator
from contextlib import ExitStack, contextmanager, suppress
from threading import Condition, RLock, Thread
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from eventstore.notifications.local import LocalNotifier
    from eventstore.storage.interface import Storage

IDLE_SECONDS = 1.0
"""Time for which the thread stays when there are no waiters any more."""

MIN_POLL_SECONDS = 0.01
"""Time between two polls at least, however many hints come from other processes."""

HEARING_POLL_SECONDS = 1.0
"""Time between two polls at least, while hints come from every other process."""


class Interest(Protocol):
    """What a waiter waits for."""

    @property
    def conversation_id(self) -> str | None:
        """The conversation that it comes in; None for any conversation."""
        ...

    @property
    def poll(self) -> float:
        """The seconds within which it must be seen if another process appends it."""
        ...

    @property
    def seen(self) -> Any:
        """Where the last look for it ended: the conversation's version, or the lanes' positions."""
        ...

    @property
    def stopped(self) -> bool:
        """Whether the wait is to end."""
        ...


class Waiter:
    """A thread or task that waits.

    `wake` is called in any thread, and may be called for nothing: the waiter looks by itself. It
    raises `RuntimeError` if there is nothing left to wake. `expects`: the waiter has looked, and
    waits for more. `is_new`: there was no poll since.
    """

    __slots__ = ("expects", "interest", "is_new", "wake")

    def __init__(self, interest: Interest, wake: Callable[[], object]) -> None:
        self.interest = interest
        self.wake = wake
        self.expects = False
        self.is_new = True


class Watcher:
    """The waiters of a store, and the thread that polls for as long as there are any.

    The thread stays for `idle_timeout` seconds more.
    """

    def __init__(
        self, storage: Storage, notifier: LocalNotifier, *, idle_timeout: float = IDLE_SECONDS
    ) -> None:
        self.storage = storage
        self._idle_timeout = idle_timeout
        self._notifier = notifier
        # A signal's handler may take it again. It is entered by itself and not by its condition,
        # whose `__enter__` is Python code: an interrupt in there would leave it held.
        self._lock = RLock()
        self._changed = Condition(self._lock)
        self._waiters: dict[str | None, set[Waiter]] = {}
        self._thread: Thread | None = None
        self._interval: float | None = None
        self._hinted = False
        self._hears: Callable[[], bool] | None = None
        self._heads: Any = None

    def __len__(self) -> int:
        """Return how many waiters there are."""
        with self._lock:
            return len(self._expecting())

    @contextmanager
    def joined(
        self, interest: Interest, wake: Callable[[], object]
    ) -> Generator[Waiter, None, None]:
        """Call `wake` for what is appended from now on: look for it first, then `expect` more."""
        waiter = Waiter(interest, wake)
        try:
            with self._lock:
                if not self._waiters:
                    self._notifier.add(self._on_append)
                self._waiters.setdefault(interest.conversation_id, set()).add(waiter)
            yield waiter
        finally:
            self._leave(waiter)

    def _leave(self, waiter: Waiter) -> None:
        name = waiter.interest.conversation_id
        with self._lock:
            others = self._waiters.get(name, set())
            others.discard(waiter)
            if not others:
                self._waiters.pop(name, None)
            if not self._waiters:
                self._notifier.remove(self._on_append)

    def expect(self, waiter: Waiter) -> None:
        """Wake the waiter when there is anything that it has not seen."""
        with self._lock:
            waiter.expects = waiter.is_new = True
            if self._thread is None:
                thread = Thread(target=self._run, name="toolledger-watch", daemon=True)
                thread.start()
                self._thread = thread
            elif self._interval is None or waiter.interest.poll < self._interval:
                self._changed.notify()

    def wake_all(self) -> None:
        """Let every waiter look by itself."""
        self._wake(tuple(self._waiters))

    def _expecting(self) -> list[Waiter]:
        every = self._waiters.values()
        return [waiter for waiters in every for waiter in waiters if waiter.expects]

    def _on_append(self, conversation_ids: Collection[str]) -> None:
        self._wake((*conversation_ids, None))

    def _wake(self, conversation_ids: Collection[str | None]) -> None:
        with self._lock:
            woken = [waiter for name in conversation_ids for waiter in self._waiters.get(name, ())]
        for waiter in woken:
            self._wake_one(waiter)

    def _wake_one(self, waiter: Waiter) -> None:
        try:
            waiter.wake()
        except RuntimeError:  # its event loop is closed
            self._leave(waiter)

    # the thread

    def _run(self) -> None:
        last = time.monotonic()
        self._hears = None
        with ExitStack() as hints:
            with suppress(Exception):  # hints shorten the wait; the polls come without them, too
                self._hears = hints.enter_context(self.storage.hints(self._poll_soon))
            while self._is_due(last):
                try:
                    self.poll()
                except Exception:  # noqa: BLE001 - the waiters look, and raise it themselves
                    self.wake_all()
                last = time.monotonic()

    def _poll_soon(self) -> None:
        """Poll as soon as `MIN_POLL_SECONDS` allow: another process has appended."""
        with self._lock:
            self._hinted = True
            self._changed.notify()

    def _is_due(self, last: float) -> bool:
        """Block until the next poll is due; return False when there are no waiters any more."""
        with self._lock:
            while True:
                expecting = self._expecting()
                interval = min((waiter.interest.poll for waiter in expecting), default=None)
                self._interval = None if interval is None else self._pause(interval, expecting)
                if interval is not None and self._interval is not None:
                    left = last + self._interval - time.monotonic()
                    if left <= 0:
                        self._hinted = False
                        return True
                    # By then none may wait, or one is to end.
                    self._changed.wait(min(left, interval, self._idle_timeout))
                elif self._changed.wait(self._idle_timeout):
                    last = time.monotonic()
                elif not self._expecting():
                    self._thread = None
                    return False

    def _pause(self, interval: float, expecting: Collection[Waiter]) -> float:
        """Return the time from one poll to the next, of which the shortest asked for is given."""
        if self._hinted:
            return min(interval, MIN_POLL_SECONDS)
        if self._hears is None or not self._hears():
            return interval
        if any(waiter.is_new or waiter.interest.stopped for waiter in expecting):
            return interval
        return max(interval, HEARING_POLL_SECONDS)

    def poll(self) -> None:
        """Wake the waiters for which there is news, and those whose wait is to end."""
        heads = self.storage.heads()
        with self._lock:
            expecting = self._expecting()
        moved, self._heads = heads != self._heads, heads
        checked = [waiter for waiter in expecting if moved or waiter.is_new]
        names = {
            name for waiter in checked if (name := waiter.interest.conversation_id) is not None
        }
        versions = self.storage.versions(names) if names else {}
        for waiter in checked:
            waiter.is_new = False
            name = waiter.interest.conversation_id
            if waiter.interest.seen != (heads if name is None else versions.get(name, 0)):
                self._wake_one(waiter)
        for waiter in expecting:
            if waiter.interest.stopped:
                self._wake_one(waiter)
