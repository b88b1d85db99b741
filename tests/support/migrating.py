"""Migrations in processes that are killed in the middle of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection

from sqlalchemy import event
from sqlalchemy.engine import Engine
from support import workers

from eventstore.migrate import distribute, move, partition


def killed(url: str, to: str | None, after: int) -> bool:
    """Move a store to a revision, or be killed before a change; return whether it came to that."""
    return _killed(partial(move, url, to), after)


def killed_at_partitions(url: str, count: int, after: int) -> bool:
    """Divide a store, or be killed before a change; return whether it came to that."""
    return _killed(partial(partition, url, count), after)


def killed_at_distribution(url: str, after: int) -> bool:
    """Distribute a store, or be killed before a change; return whether it came to that."""
    return _killed(partial(distribute, url), after)


def _killed(job: Callable[[], object], after: int) -> bool:
    with workers.children([partial(_do_or_die, job, after)]) as ((process, pipe),):
        said = list(workers.received(pipe))
        process.join()
        assert (said, process.exitcode) in ((["done"], 0), ([], -signal.SIGKILL))
        return not said


def _do_or_die(job: Callable[[], object], after: int, pipe: Connection) -> None:
    left = iter(range(after))

    @event.listens_for(Engine, "before_cursor_execute")
    def kill(_: object, __: object, statement: str, *___: object) -> None:
        reads = statement.lstrip().startswith(("SELECT", "SET", "SHOW", "PRAGMA"))
        if not reads and next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    job()
    pipe.send("done")
