"""`LocalNotifier`: reports this process's appends to the other stores that are open on the log."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection
from threading import Lock

Listener = Callable[[Collection[str]], None]
"""Called with the ids of conversations to which something may have been appended."""


class LocalNotifier:
    """One for each log, however many stores of this process are open on it.

    It is only a hint: appends of other processes are not reported.
    """

    def __init__(self) -> None:
        self.listeners: tuple[Listener, ...] = ()
        self._lock = Lock()

    def notify(self, conversation_ids: Collection[str]) -> None:
        """Tell the listeners that something may have been appended to these conversations."""
        for listener in self.listeners:
            listener(conversation_ids)

    def add(self, listener: Listener) -> None:
        """Call the listener at each notification, in the thread that appends."""
        with self._lock:
            self.listeners = (*self.listeners, listener)

    def remove(self, listener: Listener) -> None:
        """Stop calling the listener."""
        with self._lock:
            self.listeners = tuple(one for one in self.listeners if one != listener)


_notifiers: weakref.WeakValueDictionary[str, LocalNotifier] = weakref.WeakValueDictionary()


def notifier_for(epoch: str) -> LocalNotifier:
    """Return the notifier of the log with this epoch."""
    return _notifiers.setdefault(epoch, LocalNotifier())


def reset_after_fork() -> None:
    """Forget all notifiers in a forked child: the parent's threads are not there."""
    _notifiers.clear()
