"""Migrations in processes that are killed in the middle of them."""

from __future__ import annotations

import os
import signal
from functools import partial
from multiprocessing.connection import Connection

from sqlalchemy import event
from sqlalchemy.engine import Engine
from support import workers

from eventstore.migrate import move


def killed(url: str, to: str | None, after: int) -> bool:
    """Move a store to a revision, or be killed before a change; return whether it came to that."""
    with workers.children([partial(_move_or_die, url, to, after)]) as ((process, pipe),):
        said = list(workers.received(pipe))
        process.join()
        assert (said, process.exitcode) in ((["moved"], 0), ([], -signal.SIGKILL))
        return not said


def _move_or_die(url: str, to: str | None, after: int, pipe: Connection) -> None:
    left = iter(range(after))

    @event.listens_for(Engine, "before_cursor_execute")
    def kill(_: object, __: object, statement: str, *___: object) -> None:
        reads = statement.lstrip().startswith(("SELECT", "SET", "SHOW", "PRAGMA"))
        if not reads and next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    move(url, to)
    pipe.send("moved")
