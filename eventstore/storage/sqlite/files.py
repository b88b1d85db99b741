"""SQLite files: made whole or not at all, upgraded, and opened."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import Connection, make_url
from sqlalchemy.exc import OperationalError

from eventstore import migrate
from eventstore.errors import NotAStore
from eventstore.storage.connections import unforked
from eventstore.storage.database import translated
from eventstore.storage.sql import SqlStorage
from eventstore.storage.sqlite import Sqlite


def create(path: Path, build: Callable[[Path], None]) -> None:
    """Create the database file at `path` whole or not at all.

    It is built beside and linked into place, so that a crash leaves no half-made store and of
    two processes that create it at once one wins and both go on with the same file.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.new")
    try:
        build(draft)
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            if not path.exists():
                draft.replace(path)
    finally:
        for rest in ("", "-wal", "-shm", "-journal"):
            with suppress(OSError):
                draft.with_name(draft.name + rest).unlink()


def open_storage(
    url: str, tenant: str, durability: str, busy_timeout: float, *, new: bool = True
) -> SqlStorage:
    """The storage at a SQLite URL, its schema upgraded, and created where it may be `new`."""
    database = Sqlite(make_url(url), durability, busy_timeout)
    with translated(database), unforked():
        if database.check_file() or database.path is None:
            _upgrade(database, new=new)
        else:
            _begin(database, database.path, new=new)
        database.check_in_place()
        return SqlStorage(database, tenant)


@contextmanager
def migrating(url: str) -> Iterator[Connection]:
    """A connection in a transaction, to change the schema at a SQLite URL; no file is made."""
    database = Sqlite(make_url(url), "full", 30.0)
    with translated(database):
        if not database.check_file():
            _begin(database, Path(str(database.path)), new=False)
        engine = database.connect()
        try:
            with engine.connect() as connection:
                connection.exec_driver_sql(database.begin)
                yield connection
                connection.exec_driver_sql("COMMIT")  # an error before it rolls all back
        finally:
            engine.dispose()


def _begin(database: Sqlite, path: Path, *, new: bool) -> None:
    if not new:
        raise NotAStore(f"there is no store at {path}: name another file")
    create(path, lambda draft: _upgrade(database.at(draft)))


def _upgrade(database: Sqlite, *, new: bool = True) -> None:
    engine = database.connect()
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql("BEGIN")  # else another may upgrade while we look
            found = migrate.revision(connection)
            if found is None:
                _refuse_foreign(database, connection)
                if not new and database.path is not None:
                    raise NotAStore(f"{database.path} holds no store: name another file")
            connection.exec_driver_sql("COMMIT")
            _log_ahead(database, connection)
            if not migrate.check(found):
                return
            connection.exec_driver_sql(database.begin)
            if migrate.check(migrate.revision(connection)):  # nobody else did meanwhile
                migrate.upgrade(connection)
            connection.exec_driver_sql("COMMIT")
    finally:
        if not database.shared():
            engine.dispose()


def _log_ahead(database: Sqlite, connection: Connection) -> None:
    """Set WAL, of the file and for good; where it is so already this writes nothing."""
    until = time.monotonic() + database.busy_timeout
    while True:
        try:
            connection.exec_driver_sql("PRAGMA journal_mode=WAL")
        except OperationalError as error:
            # For this SQLite itself waits for nobody.
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.002)
        else:
            return


def _refuse_foreign(database: Sqlite, connection: Connection) -> None:
    names = connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type='table'")
    foreign = sorted(n for (n,) in names if not n.startswith(("toolledger_", "sqlite_")))
    if foreign:
        raise NotAStore(
            f"{database.path} is the database of another program (it has a table {foreign[0]!r}): "
            "name another file, or run `toolledger migrate` to keep the log in this one, too"
        )
