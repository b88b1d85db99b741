"""`Bell`: tells the stores that are open on a log what this process has appended to it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection
from threading import Lock

Listener = Callable[[Collection[str]], None]


class Bell:
    """One for each log, however many stores of this process are open on it.

    It is a hint: what others append, in processes of their own, it does not tell.
    """

    def __init__(self) -> None:
        self.listeners: tuple[Listener, ...] = ()
        self._lock = Lock()

    def ring(self, names: Collection[str]) -> None:
        """Tell that something may have been appended to these conversations."""
        for listener in self.listeners:
            listener(names)

    def add(self, listener: Listener) -> None:
        """Call the listener at each ring, in the thread that rings."""
        with self._lock:
            self.listeners = (*self.listeners, listener)

    def remove(self, listener: Listener) -> None:
        """Do so no more."""
        with self._lock:
            self.listeners = tuple(one for one in self.listeners if one != listener)


_bells: weakref.WeakValueDictionary[str, Bell] = weakref.WeakValueDictionary()


def bell_of(epoch: str) -> Bell:
    """The bell of the log of this epoch."""
    return _bells.setdefault(epoch, Bell())


def forget_bells() -> None:
    """In a forked child: who waited, and who rang, is not here."""
    global _bells  # noqa: PLW0603 - the parent goes on with its own
    _bells = weakref.WeakValueDictionary()
