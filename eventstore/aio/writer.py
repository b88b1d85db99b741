"""What `AsyncEventStore` appends with: the thread that does it, and what waits for it.

What is asked for goes into a queue, and the thread carries out together whatever is in it.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from itertools import groupby
from queue import Empty, SimpleQueue
from threading import Lock, Thread, current_thread
from time import monotonic
from typing import Any

from eventstore.appending import TOGETHER, Appender
from eventstore.errors import StoreClosed
from eventstore.settling import Outcome, Settling, settle
from eventstore.storage import Draft
from eventstore.task import Decide, Task


class Asked(Task, kw_only=True):
    """An append that a task of an event loop waits for."""

    context: Context
    then: Callable[[Task], Any]
    """Makes of it what its caller gets."""
    settling: Settling[Any]

    def stage(self) -> Sequence[Draft]:
        """Decide, in the caller's context."""
        return self.context.run(Task.stage, self)

    def outcome(self) -> Outcome:
        """What its caller gets."""
        if self.error is not None:
            return None, self.error
        try:
            return self.context.run(self.then, self), None
        except BaseException as error:  # noqa: BLE001 - it is the caller's
            return None, error


class Writer:
    """The thread that appends; it starts with the first append, and ends when it is told to."""

    def __init__(self, appender: Appender) -> None:
        self._appender = appender
        self._ended = False
        self.forked()
        _writers.add(self)

    def forked(self) -> None:
        """Begin anew: in a forked child the thread is not here, nor who waits for it."""
        self._queue: SimpleQueue[Asked | None] = SimpleQueue()
        self._lock = Lock()
        self._thread: Thread | None = None

    def ask(self, asked: Asked) -> None:
        """Queue an append.

        Raises:
            StoreClosed: no more are taken.
        """
        with self._lock:
            if self._ended:
                raise StoreClosed("the store is closed: AsyncEventStore.open() it again")
            if self._thread is None:
                work = partial(_write, self._appender, self._queue)
                # Not one that the interpreter waits for: it is told to end only behind those.
                self._thread = Thread(target=work, name="toolledger-writer", daemon=True)
                self._thread.start()
            self._queue.put(asked)

    def end(self) -> None:
        """Take no more; what is queued is still carried out."""
        with self._lock:
            if not self._ended:
                self._ended = True
                self._queue.put(None)

    def join(self) -> None:
        """Wait until all is carried out."""
        thread = self._thread
        if thread is not None and thread is not current_thread():
            thread.join()


def _write(appender: Appender, queue: SimpleQueue[Asked | None]) -> None:
    """Carry out together what waits together, in the order of the queue."""
    while True:
        waiting = [queue.get()]
        with suppress(Empty):
            while len(waiting) < TOGETHER:
                waiting.append(queue.get_nowait())
        asked = [one for one in waiting if one is not None]
        # Those that go alone would be carried out behind the others.
        for alone, group in groupby(asked, lambda one: one.alone):
            tasks = list(group)
            for some in [[task] for task in tasks] if alone else [tasks]:
                appender.append_together(some)
                settle((task.settling, task.outcome()) for task in some)
        if len(asked) < len(waiting):
            return
        del waiting, asked


class Asking:
    """The `Appender` of a `Conversation` whose verbs give what is to be awaited."""

    def __init__(self, appender: Appender) -> None:
        self._appender = appender
        self.writer = Writer(appender)
        # for what verbs look up while they decide, in the writer's thread
        self.settled, self.events = appender.settled, appender.events

    def do(
        self,
        conversation_id: str,
        decide: Decide,
        then: Callable[[Task], Any],
        expected_version: int | None = None,
        ids: Sequence[bytes] = (),
        *,
        alone: bool = False,
    ) -> Settling[Any]:
        """See `Appender.do`."""
        settling: Settling[Any] = Settling(loop=asyncio.get_running_loop())
        self.writer.ask(Asked(
            self._appender, conversation_id, decide, expected_version, ids, alone or bool(ids),
            asked=monotonic(), context=copy_context(), then=then, settling=settling,
        ))  # fmt: skip
        return settling

    def tool(self, conversation_id: str, decide: Decide) -> Settling[Any]:
        """See `Appender.tool`."""
        return self.do(conversation_id, decide, Task.tool)

    def tools(self, conversation_id: str, decide: Decide) -> Settling[Any]:
        """See `Appender.tools`."""
        return self.do(conversation_id, decide, Task.tools, alone=True)


_writers: weakref.WeakSet[Writer] = weakref.WeakSet()


@atexit.register
def _at_exit() -> None:
    """Carry out what was asked for before the process ends."""
    writers = list(_writers)
    for writer in writers:
        writer.end()
    for writer in writers:
        writer.join()


def _after_fork() -> None:
    for writer in list(_writers):
        writer.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
