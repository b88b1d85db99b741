"""SQLite: the lock of the one process that archives, and the permissions of its files."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

from eventstore.errors import StoreBusy
from eventstore.storage.sqlite.driver import driver
from eventstore.storage.sqlite.files import path_of, permissions

if TYPE_CHECKING:
    from eventstore.storage.sql.reader import LogReader


@contextmanager
def exclusive(reader: LogReader) -> Generator[None]:
    """Hold a lock of a file beside the store's, which ends with the process.

    The store's own file is not locked: others append meanwhile.

    Raises:
        StoreBusy: another process holds it.
    """
    store = path_of(reader.log.backend.url)
    if store is None:
        yield
        return
    path = store.with_name(f"{store.name}-retain")
    with closing(driver().connect(str(path), timeout=0, isolation_level=None)) as holder:
        try:
            holder.execute("BEGIN EXCLUSIVE")
        except driver().OperationalError as error:
            raise StoreBusy(
                f"{store}: another process archives now, and nothing was done: wait until it is "
                "done"
            ) from error
        yield
    with suppress(OSError):
        path.unlink()


def file_permissions(reader: LogReader) -> int:
    """Return the permissions of the store's own file."""
    path = path_of(reader.log.backend.url)
    return 0o666 if path is None else permissions(path)
