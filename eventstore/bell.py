"""`Bell`: tells those who wait for events that this process has appended some."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, Lock


class Bell:
    """One for each log, however many stores of this process are open on it.

    It is a hint: `rings` has changed when something may have been appended. What others append,
    in processes of their own, it does not tell.
    """

    def __init__(self) -> None:
        self.rings = 0
        self._waiting = 0
        self._condition = Condition()
        self._listeners: tuple[Callable[[], None], ...] = ()
        self._lock = Lock()

    def ring(self) -> None:
        """Wake all who wait. Who begins to wait now sees that `rings` is another number."""
        self.rings += 1
        if self._waiting:
            with self._condition:
                self._condition.notify_all()
        for listener in self._listeners:
            listener()

    def wait(self, heard: int, seconds: float, matters: Callable[[], bool]) -> None:
        """Until it has rung since `heard`, and that `matters`; not longer than some seconds."""
        until = time.monotonic() + seconds
        with self._condition:
            self._waiting += 1
            try:
                while self.rings == heard or not matters():
                    heard = self.rings
                    left = until - time.monotonic()
                    if left <= 0:
                        return
                    self._condition.wait(left)
            finally:
                self._waiting -= 1

    @contextmanager
    def heard_by(self, listener: Callable[[], None]) -> Iterator[None]:
        """Call the listener at each ring, in the thread that rings."""
        with self._lock:
            self._listeners = (*self._listeners, listener)
        try:
            yield
        finally:
            with self._lock:
                self._listeners = tuple(one for one in self._listeners if one is not listener)


_bells: weakref.WeakValueDictionary[str, Bell] = weakref.WeakValueDictionary()


def bell_of(epoch: str) -> Bell:
    """The bell of the log of this epoch."""
    return _bells.setdefault(epoch, Bell())


def forget_bells() -> None:
    """In a forked child: who waited, and who rang, is not here."""
    global _bells  # noqa: PLW0603 - the parent goes on with its own
    _bells = weakref.WeakValueDictionary()
