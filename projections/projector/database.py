"""`ProjectionDatabase`: the database that the projections are kept in, and its errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, event, inspect
from sqlalchemy.exc import DBAPIError, IntegrityError

from eventstore import StorageError, StoreCorrupt
from eventstore.engines import open_engine, shown_url
from projections.projector.queries import delete_rows, highest, select_rows
from projections.projector.schema import checkpoints, metadata, projections
from projections.projector.settings import DEFAULT_SETTINGS, ProjectorSettings

CREATE_RETRY_SECONDS = 0.05
"""The pause before tables are looked at again that another session is creating."""


LOST_RETRY_SECONDS = 0.1
"""The pause before a server is asked again that is away or takes no writes."""


class Refused(StorageError):
    """The database does not take a batch, for the reason in `problem`, or does not answer."""

    def __init__(self, text: str, problem: str) -> None:
        super().__init__(text)
        self.problem = problem


class LostRace(Exception):
    """Another transaction was first; nothing was written."""


class ServerLost(LostRace, StorageError):
    """The server went away, or takes no writes any more; what was under way may be repeated.

    `reason` is the driver's text.
    """

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class ProjectionDatabase:
    """The database of the projections. Tables that do not exist yet are created.

    Raises:
        ValueError: the URL cannot be used.
        StorageError: the database cannot be used.
    """

    def __init__(self, url: str, settings: ProjectorSettings = DEFAULT_SETTINGS) -> None:
        self._create_attempts = settings.create_attempts
        self._busy_timeout = settings.busy_timeout
        self._opened = open_engine(url, settings.busy_timeout)
        self._engine = self._opened.engine
        if self._engine.dialect.name == "sqlite":
            event.listen(self._engine, "connect", _overwrite_deleted)
        self.name = shown_url(self._engine.url)
        """The URL without its secrets."""
        self._lost_since: float | None = None  # no transaction has ended since
        try:
            self.create(metadata.sorted_tables)
        except BaseException:
            self.close()
            raise

    def create(self, tables: Sequence[Table]) -> None:
        """Create the tables that do not exist yet."""
        with self._translated():
            # Other processes may be creating them, too, and be first with one after the other.
            attempts_left = self._create_attempts
            deadline = time.monotonic() + self._busy_timeout
            while True:
                try:
                    with self._opened.connect() as connection, connection.begin():
                        for table in tables:
                            table.create(connection, checkfirst=True)
                        self._opened.share(connection, [table.name for table in tables])
                except DBAPIError as error:
                    passes = self._is_transient(error) or self._is_lost(error)
                    if passes and time.monotonic() < deadline:
                        time.sleep(CREATE_RETRY_SECONDS)
                        continue
                    attempts_left -= 1
                    if attempts_left <= 0:
                        raise
                else:
                    return

    def close(self) -> None:
        """Close the connections."""
        self._opened.close()

    @contextmanager
    def reading(self) -> Generator[Connection]:
        """Open a connection to read from; it sees everything as it was at one moment.

        Raises:
            ServerLost: the server went away in the middle; this attempt may be repeated.
        """
        with self._translated(), self._connected(self._opened.reading) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Generator[Connection]:
        """Open a connection whose transaction is committed at the end, whole or not at all.

        Raises:
            LostRace: another transaction was first.
            ServerLost: the server went away in the middle; this attempt may be repeated.
        """
        with self._translated(), self._connected(self._opened.writing) as connection:
            yield connection

    @contextmanager
    def _connected(
        self, opened: Callable[[], AbstractContextManager[Connection]]
    ) -> Generator[Connection]:
        """Give a connection; wait for a server that is away."""
        deadline = time.monotonic() + self._busy_timeout
        with ExitStack() as stack:
            while True:
                try:
                    connection = stack.enter_context(opened())
                except DBAPIError as error:
                    if not self._is_lost(error):
                        raise
                    if time.monotonic() >= deadline:
                        raise self._unreachable(error) from error
                    time.sleep(LOST_RETRY_SECONDS)
                else:
                    break
            yield connection
        self._lost_since = None

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except IntegrityError as error:
            raise LostRace(str(error.orig)) from error
        except DBAPIError as error:
            if self._is_transient(error):
                raise LostRace(str(error.orig)) from error
            if self._is_lost(error):
                raise self._lost(error) from error
            raise self._error_for(error.orig or error) from error
        except (OverflowError, UnicodeEncodeError) as error:
            # A value that the driver cannot pass on: too large an integer, half a surrogate pair.
            raise self.refused(f"{type(error).__name__}: {error}") from error

    def _is_transient(self, error: DBAPIError) -> bool:
        return error.orig is not None and self._opened.is_transient(error.orig)

    def _is_lost(self, error: DBAPIError) -> bool:
        return error.orig is not None and self._opened.is_connection_lost(error.orig)

    def _lost(self, error: DBAPIError) -> StorageError:
        """Return the error of a transaction whose server went away in the middle.

        The next attempt gets a new connection, perhaps to another server.
        """
        self._engine.dispose()
        now = time.monotonic()
        if self._lost_since is None:
            self._lost_since = now
        unreachable = self._unreachable(error)
        if now - self._lost_since >= self._busy_timeout:
            self._lost_since = None
            return unreachable
        time.sleep(LOST_RETRY_SECONDS)
        return ServerLost(str(unreachable), str(error.orig))

    def _unreachable(self, error: DBAPIError) -> StorageError:
        return StorageError(str(self.refused(str(error.orig))))

    def _error_for(self, error: BaseException) -> StorageError:
        """Return the library's error for a driver's; that of a file is what a store would raise."""
        translated = self._opened.explain(error)
        # A store's advice for a damaged file is `verify`, which looks at the log, not here.
        is_damaged = isinstance(translated, StoreCorrupt)
        if isinstance(translated, StorageError) and not is_damaged:
            return translated
        refused = self.refused(str(error))
        return StoreCorrupt(str(refused)) if is_damaged else refused

    def refused(self, reason: str) -> Refused:
        """Return the error of a write that the database does not take, for the driver's reason."""
        reason = " ".join(reason.split())
        text = (
            f"{self.name}: {reason}: nothing was projected; see that the "
            "database is there and whole, and that it can be written to, then try again"
        )
        return Refused(text, f"the database does not take it: {reason}")


def _overwrite_deleted(connection: Any, _: object) -> None:
    """Have SQLite overwrite what is deleted: a row is rewritten often before it is redacted."""
    connection.execute("PRAGMA secure_delete = ON").close()


class KeptProjection(NamedTuple):
    """A projection of a log in the tables of a database: what it is called, and how far it is."""

    name: str
    positions: dict[int, int]


def kept_projections(url: str, epoch: str, tenant: str) -> list[KeptProjection]:
    """Return the projections of a log's tenant that a database has, live or being built."""
    engine = open_engine(url, DEFAULT_SETTINGS.busy_timeout).engine
    try:
        if not inspect(engine).has_table(projections.name):
            return []
        found: list[KeptProjection] = []
        with engine.begin() as connection:
            columns, where = ("id", "views", "state"), {"epoch": epoch, "tenant": tenant}
            for number, views, state in select_rows(connection, projections, columns, where):
                if state in {"live", "building"}:
                    of = {"projection": number}
                    rows = select_rows(connection, checkpoints, ("lane", "position"), of)
                    found.append(KeptProjection(views, dict(map(tuple, rows))))
        return found
    finally:
        engine.dispose()


def forget(url: str, epoch: str) -> None:
    """Delete the projections of a log that does not exist any more.

    The tables are dropped, too, if they hold no other log's. Tables of users' own projections
    stay.
    """
    engine = open_engine(url, DEFAULT_SETTINGS.busy_timeout).engine
    try:
        if not inspect(engine).has_table(projections.name):
            return
        with engine.begin() as connection:
            for (generation,) in select_rows(connection, projections, ("id",), {"epoch": epoch}):
                for table in metadata.sorted_tables:
                    if table is not projections:
                        delete_rows(connection, table, {"projection": generation})
                delete_rows(connection, projections, {"id": generation})
            if not highest(connection, projections.c.id):
                metadata.drop_all(connection)
    finally:
        engine.dispose()
