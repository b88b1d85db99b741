"""Jobs that start at the same moment."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

T = TypeVar("T")


def run_concurrently(*jobs: Callable[[], T]) -> list[T | Exception]:
    """Run jobs in threads that start at the same moment; return their results or exceptions."""
    barrier = Barrier(len(jobs))

    def run(job: Callable[[], T]) -> T | Exception:
        barrier.wait()
        try:
            return job()
        except Exception as error:  # noqa: BLE001 - the caller gets it
            return error

    with ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(run, jobs))
