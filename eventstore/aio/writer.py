"""`Writer`: the thread that appends for asyncio.

Appends go into a queue, and the thread commits together all that is in it.
"""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Iterable, Sequence
from contextlib import suppress
from contextvars import Context
from functools import partial
from itertools import groupby
from queue import Empty, SimpleQueue
from threading import Lock, Thread, current_thread
from typing import Any

from eventstore.aio.futures import Outcome, UncancellableFuture, resolve
from eventstore.append.command import PendingAppend
from eventstore.append.group_commit import MAX_GROUP_APPENDS
from eventstore.append.lane_committers import Committer
from eventstore.errors import StoreClosed
from eventstore.storage.interface import Draft


class QueuedAppend(PendingAppend, kw_only=True):
    """An append that a task of an event loop waits for."""

    context: Context
    future: UncancellableFuture[Any]

    def stage(self) -> Sequence[Draft]:
        """Decide, in the caller's context."""
        return self.context.run(PendingAppend.stage, self)

    def outcome(self) -> Outcome[Any]:
        """Return the caller's result, or the error to raise there."""
        if self.error is not None:
            return None, self.error
        try:
            return self.context.run(self.command.result, self), None
        except BaseException as error:  # noqa: BLE001 - it is raised in the caller
            return None, error


class Writer:
    """The thread that appends; it starts with the first append, and ends with `end`."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._ended = False
        self.reset_after_fork()
        _writers.add(self)

    def reset_after_fork(self) -> None:
        """Start again: a forked child has neither the thread nor the tasks that wait for it."""
        self._queue: SimpleQueue[QueuedAppend | None] = SimpleQueue()
        self._lock = Lock()
        self._thread: Thread | None = None

    def __len__(self) -> int:
        """Return how many appends are queued."""
        return self._queue.qsize()

    def put(self, append: QueuedAppend) -> None:
        """Queue an append.

        Raises:
            StoreClosed: the writer takes no more appends.
        """
        with self._lock:
            if self._ended:
                raise StoreClosed("the store is closed: open it again with AsyncEventStore.open()")
            if self._thread is None:
                work = partial(_write, self._committer, self._queue)
                # A daemon: the interpreter joins all others before `_at_exit` ends this one.
                self._thread = Thread(target=work, name="toolledger-writer", daemon=True)
                self._thread.start()
            self._queue.put(append)

    def end(self) -> None:
        """Take no more appends; those in the queue are still committed."""
        with self._lock:
            if not self._ended:
                self._ended = True
                self._queue.put(None)

    def join(self) -> None:
        """Block until the queue is empty and the thread has ended."""
        thread = self._thread
        if thread is not None and thread is not current_thread():
            thread.join()


def _write(committer: Committer, queue: SimpleQueue[QueuedAppend | None]) -> None:
    """Commit together what waits together, in the order of the queue, until None comes."""
    while True:
        taken = [queue.get()]
        with suppress(Empty):
            while len(taken) < MAX_GROUP_APPENDS:
                taken.append(queue.get_nowait())
        appends = [append for append in taken if append is not None]
        for group in _in_order(appends):
            committer.commit_together(group)
            resolve((append.future, append.outcome()) for append in group)
        if len(appends) < len(taken):
            return
        del taken, appends


def _in_order(appends: Iterable[QueuedAppend]) -> Iterable[list[QueuedAppend]]:
    """Yield groups to commit; exclusive appends one by one, or they would come after the others."""
    for exclusive, group in groupby(appends, lambda append: append.command.exclusive):
        if exclusive:
            yield from ([append] for append in group)
        else:
            yield list(group)


_writers: weakref.WeakSet[Writer] = weakref.WeakSet()


@atexit.register
def _at_exit() -> None:
    """Commit what is queued before the process ends."""
    writers = list(_writers)
    for writer in writers:
        writer.end()
    for writer in writers:
        writer.join()


def _reset_after_fork() -> None:
    for writer in list(_writers):
        writer.reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
