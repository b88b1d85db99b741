"""`Latch`: a flag that is set once, and ends the waits for it.

1. `threading.Event` guards its flag with a `Condition`, whose `__enter__` is Python code. A Ctrl-C
   that comes right after it took the lock leaves the lock held: the next `set` blocks for ever.
2. Here a lock is held until the flag is set. A thread that waits takes it and gives it back, and so
   lets the next one continue.
3. A Ctrl-C inside of `set` may come before the waits have ended. Then `set` is called again.
"""

from __future__ import annotations

from contextlib import suppress
from threading import TIMEOUT_MAX, Lock


class Latch:
    """A flag that is set once; threads wait for it. It does what is used of `threading.Event`."""

    __slots__ = ("_is_set", "_unset")

    def __init__(self) -> None:
        self._is_set = False
        self._unset = Lock()
        self._unset.acquire()

    def is_set(self) -> bool:
        """Return whether it is set."""
        return self._is_set

    def set(self) -> None:
        """Set it, and end all waits. A second call does nothing."""
        self._is_set = True
        self._release_next()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until it is set, or for `timeout` seconds; return whether it is set."""
        try:
            self._unset.acquire(timeout=-1 if timeout is None else _bounded(timeout))
        finally:
            if self._is_set:
                self._release_next()
        return self._is_set

    def _release_next(self) -> None:
        with suppress(RuntimeError):  # nothing holds it
            self._unset.release()


def _bounded(timeout: float) -> float:
    return min(max(timeout, 0.0), TIMEOUT_MAX)
