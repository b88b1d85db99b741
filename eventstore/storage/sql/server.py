"""What database servers have in common: connections that break, ids with a limit, one upgrade.

A transaction that the server gave up is begun again. A connection that was lost is replaced;
one that was lost at COMMIT leaves the question whether the commit took place, which is settled
by looking for the event ids behind the lane's lock, never by guessing.
"""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DisconnectionError, NoSuchModuleError
from sqlalchemy.pool import QueuePool

from eventstore import migrate
from eventstore.errors import NotAStore, StorageError, StoreClosed
from eventstore.storage import Draft
from eventstore.storage.connections import unforked
from eventstore.storage.database import translated
from eventstore.storage.schema import LONGEST_ID, LONGEST_TENANT
from eventstore.storage.sql import SqlStorage

DURABILITIES = ("full", "normal")

IDLE = 0.1
"""Seconds after which a pooled connection is tried before it is used again."""

CONNECTING = 10
"""Seconds that a server has to answer a new connection."""


class Server(ABC):
    """What every server does alike; `durability` is "full" or "normal"."""

    begin: str
    driver: ClassVar[str]
    """SQLAlchemy's name for the engine and its driver."""
    extra: ClassVar[str]
    """What to install for it."""
    inheritable = True

    def __init__(self, url: URL, durability: str, busy_timeout: float) -> None:
        self.url = url.set(drivername=self.driver)
        self.durability = durability
        self.busy_timeout = busy_timeout
        self.where = url.set(query={}).render_as_string(hide_password=True)

    # what differs

    @property
    @abstractmethod
    def module(self) -> Any:
        """The driver."""

    @abstractmethod
    def options(self) -> dict[str, Any]:
        """How the driver connects, but for what the URL says."""

    @abstractmethod
    def prepare(self, connection: Any) -> None:
        """Set up a new connection of the driver."""

    @abstractmethod
    def check_server(self, connection: Connection) -> None:
        """Refuse a database that cannot hold a log."""

    @abstractmethod
    def lax(self, connection: Connection) -> tuple[str, str] | None:
        """The server's setting by which it answers a COMMIT too early, and the right value."""

    @abstractmethod
    def alone(self, connection: Connection) -> AbstractContextManager[None]:
        """Nobody else changes the schema meanwhile."""

    @abstractmethod
    def clear(self, connection: Connection) -> None:
        """Take away what is left of a schema that was not made to its end."""

    @abstractmethod
    def meaning(self, error: Any) -> tuple[type[StorageError], str]:
        """The library's class for a driver's error, and the remedy."""

    @abstractmethod
    def says_lost(self, error: Any) -> bool:
        """Whether an error of the driver's says that the connection is gone."""

    @abstractmethod
    def is_passing(self, error: BaseException) -> bool:
        """Whether the server gave the transaction up, to be begun again (a deadlock)."""

    @abstractmethod
    def damage(self, run: Callable[[str], list[Any]]) -> Iterator[str]:
        """What the server itself finds wrong in its tables."""

    # what does not

    def shared(self) -> bool:
        """Whether all must use one connection: never."""
        return False

    def check_in_place(self) -> None:  # noqa: B027 - nothing is the right thing
        """Refuse a write to what is no longer the database that was opened: servers look to it."""

    def check_names(self, tenant: str, conversation_id: str) -> None:
        """Refuse ids that the server's keys cannot hold.

        Raises:
            ValueError: one is too long.
        """
        for what, text, longest in (
            ("tenant", tenant, LONGEST_TENANT),
            ("conversation id", conversation_id, LONGEST_ID),
        ):
            if len(text) > longest:
                raise ValueError(
                    f"the {what} {text[:20]!r}… has {len(text)} characters, a database server "
                    f"takes {longest} at most: use a shorter one"
                )

    def check_sizes(self, drafts: Sequence[Draft]) -> None:  # noqa: B027 - likewise
        """Refuse events for whose size the server gave up the connection: most say so."""

    def storage(self, tenant: str) -> SqlStorage:
        """What reads and writes there, once it has been looked at."""
        return SqlStorage(self, tenant)

    def is_lost(self, error: BaseException) -> bool:
        """Whether the connection is gone; or out of step with the server, as after a Ctrl-C."""
        if not isinstance(error, Exception):
            return True
        error = getattr(error, "orig", None) or error
        return isinstance(error, self.module.Error) and self.says_lost(error)

    def connect(self) -> Engine:
        """A new engine, its connections in autocommit mode."""
        given = self.options()
        options = {name: value for name, value in given.items() if name not in self.url.query}
        try:
            engine = create_engine(
                self.url, isolation_level="AUTOCOMMIT", paramstyle="format", poolclass=QueuePool,
                pool_size=2, max_overflow=-1, pool_reset_on_return=None, connect_args=options,
            )  # fmt: skip
        except (ImportError, NoSuchModuleError) as error:
            raise StorageError(
                f"{self.where}: {error}: pip install 'toolledger[{self.extra}]'"
            ) from error
        event.listen(engine, "connect", self._connected)
        event.listen(engine, "checkin", _checked_in)
        event.listen(engine, "checkout", self._checked_out)
        return engine

    def _connected(self, connection: Any, _: Any) -> None:
        self.prepare(connection)

    def _checked_out(self, connection: Any, record: Any, _: Any) -> None:
        if time.monotonic() - record.info.get("since", 0.0) < IDLE or "since" not in record.info:
            return
        try:
            connection.cursor().execute("SELECT 1")
        except self.module.Error as error:
            raise DisconnectionError from error  # the pool makes a new one

    def upgrade(self, *, new: bool) -> None:
        """Bring the schema up to date; create it where it may be `new`."""
        engine = self.connect()
        try:
            with engine.connect() as connection:
                self.check_server(connection)
                self._check_durability(connection)
                if self._is_current(connection):
                    return
                with self.alone(connection):
                    self.clear(connection)
                    found = migrate.revision(connection)
                    if found is None and not new:
                        raise NotAStore(f"{self.where} holds no store: name another database")
                    if migrate.check(found):  # nobody else did meanwhile
                        migrate.upgrade(connection)
        finally:
            engine.dispose()

    def _check_durability(self, connection: Connection) -> None:
        """Warn of a server that does not keep what "full" promises, whatever a session sets."""
        lax = None if self.durability == "normal" else self.lax(connection)
        if lax is not None:
            setting, right = lax
            warnings.warn(
                f"{self.where}: {setting}: what was appended last may be lost when the server's "
                f"machine goes down; set it to {right}, or open with durability='normal'",
                RuntimeWarning,
                stacklevel=2,
            )

    def _is_current(self, connection: Connection) -> bool:
        try:
            found = migrate.revision(connection)
        except NotAStore:  # or another is about to make it
            return False
        return found is not None and not migrate.check(found)

    def translate(self, error: BaseException) -> BaseException:
        """The library's error for a driver's, with the database named; or the same error."""
        if isinstance(error, StorageError):
            told = self.where in str(error) or isinstance(error, StoreClosed)
            return error if told else type(error)(f"{self.where}: {error}")
        driver_error = getattr(error, "orig", None) or error
        return self.told(driver_error) if isinstance(driver_error, self.module.Error) else error

    def told(self, error: Any) -> StorageError:
        """The library's error for a driver's, which may be another driver than ours."""
        kind, remedy = self.meaning(error)
        text = " ".join(self.text(error).split())
        return kind(f"{self.where}: {text}: {remedy}")

    def text(self, error: Any) -> str:
        """What the driver says."""
        return str(error)


def _checked_in(_: Any, record: Any) -> None:
    record.info["since"] = time.monotonic()


def open_storage(database: Server, tenant: str, *, new: bool) -> SqlStorage:
    """The storage in a server's database, its schema upgraded, and created where it may be."""
    database.check_names(tenant, "")
    with translated(database), unforked():
        database.upgrade(new=new)
        return database.storage(tenant)


@contextmanager
def migrating(database: Server) -> Iterator[Connection]:
    """A connection that may change the schema, while nobody else does."""
    with translated(database):
        engine = database.connect()
        try:
            with engine.connect() as connection:
                database.check_server(connection)
                with database.alone(connection):
                    yield connection
        finally:
            engine.dispose()
