"""The lock of the one process that archives, on servers."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from eventstore.errors import StoreBusy
from eventstore.storage.sql.backend import translated
from eventstore.storage.sql.connections import reconnecting

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from eventstore.storage.sql.reader import LogReader


@contextmanager
def held(reader: LogReader, take: Callable[[Connection], bool]) -> Generator[None]:
    """Hold a lock, which ends with the connection that `take` takes it on, if it is free.

    Raises:
        StoreBusy: it is not.
    """
    backend = reader.log.backend
    with translated(backend):
        engine = backend.connect()
        try:
            with reconnecting(backend, engine.connect) as connection:
                if not take(connection):
                    raise StoreBusy(
                        "another process archives now, and nothing was done: wait until it is done"
                    )
                yield
        finally:
            engine.dispose()
