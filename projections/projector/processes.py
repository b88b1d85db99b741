"""Processes that share a piece of work with this one."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def beside(count: int, work: Callable[[], object]) -> Generator[None]:
    """Do `work` in that many other processes meanwhile; at the end they are killed.

    They are started anew and not forked: a fork would carry connections and locks over.
    """
    start = multiprocessing.get_context("spawn").Process
    processes = [start(target=work, daemon=True) for _ in range(count)]
    try:
        for process in processes:
            process.start()
        yield
    finally:
        for process in processes:
            if process.pid is not None:
                process.kill()
                process.join()
