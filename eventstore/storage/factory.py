"""From a database URL to its backend: the register of all kinds of databases."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from sqlalchemy import URL, create_engine
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from eventstore.domain.arguments import is_number
from eventstore.storage.sql.opening import open_read_only
from eventstore.storage.sql.table_engine import TableEngine
from eventstore.storage.urls import parsed as parsed_url
from eventstore.storage.urls import shown

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from eventstore.storage.interface import Storage
    from eventstore.storage.sql.backend import Backend

DURABILITIES = ("full", "normal")

ENTRY_POINTS = "toolledger.storage"
"""The group of entry points by which other distributions bring a backend.

An entry point is named for the URL's scheme, and gives a `BackendFactory`.
"""

DEFAULT_BUSY_SECONDS = 30.0

MAX_BUSY_SECONDS = 1_000_000
"""Databases count milliseconds, in 32 bits."""

BackendFactory = Callable[[URL, str, float], "Backend"]
"""Makes the backend of a URL, given the durability and `busy_timeout` in seconds."""


def register_backend(scheme: str, factory: BackendFactory) -> None:
    """Let URLs of a scheme (`duckdb`, or with a driver, `duckdb+arrow`) be opened by a backend.

    A scheme that is registered already is replaced.
    """
    _registered[scheme] = factory


def backend_for(
    url: str, durability: str = "full", busy_timeout: float = DEFAULT_BUSY_SECONDS
) -> Backend:
    """Make the backend of a URL.

    Raises:
        ValueError: It is not a database URL, or no backend is registered for its scheme.
    """
    parsed = parsed_url(url)
    factory = _factory(parsed.drivername)
    if factory is None:
        raise ValueError(
            f"{parsed.drivername} is not supported: use a URL that begins with sqlite:///, "
            "postgresql:// or mysql://, or register a backend for it"
        )
    return factory(parsed, durability, busy_timeout)


def open_storage(
    url: str,
    tenant: str,
    durability: str,
    busy_timeout: float,
    *,
    new: bool = True,
    read_only: bool = False,
    upgrade: bool = True,
) -> Storage:
    """Open the storage at a URL, its schema upgraded, and created where it may be `new`.

    With `read_only` nothing is upgraded or created, and its storage refuses to write. Without
    `upgrade` a schema of an older version is refused.

    Raises:
        ValueError: The URL, or another argument, makes no sense.
        NotAStore, SchemaTooNew, SchemaTooOld, StorageError: The database cannot be used.
    """
    if durability not in DURABILITIES:
        raise ValueError(f"durability is {durability!r}: pass 'full' or 'normal'")
    if not is_number(busy_timeout) or not 0 <= busy_timeout <= MAX_BUSY_SECONDS:
        raise ValueError(
            f"busy_timeout is {busy_timeout!r}: pass seconds, from 0 to {MAX_BUSY_SECONDS:,}"
        )
    backend = backend_for(url, durability, busy_timeout)
    backend.upgrades = upgrade
    return open_read_only(backend, tenant) if read_only else backend.open(tenant, new=new)


def migrating(url: str) -> AbstractContextManager[Connection]:
    """Give a connection that may change the schema at a URL while no other process does."""
    return backend_for(url).migrating()


def open_engine(url: str, busy_timeout: float = DEFAULT_BUSY_SECONDS) -> TableEngine:
    """Open any database that SQLAlchemy knows, for tables beside the log.

    Of a file, another writer is waited for `busy_timeout` seconds.

    Raises:
        ValueError: It is not a database URL, or its driver is not installed.
    """
    parsed = parsed_url(url)
    try:
        factory = _factory(parsed.drivername)
        if factory is None:
            return TableEngine(create_engine(parsed, pool_pre_ping=True))
        return factory(parsed, "normal", busy_timeout).table_engine()
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise ValueError(
            f"{shown(parsed)} cannot be used for projections ({error}): pass for "
            "example sqlite:///agent.db or postgresql://user@host/name, with its driver installed"
        ) from error


def _factory(scheme: str) -> BackendFactory | None:
    """Return what makes backends for a scheme; None where nothing is registered for it."""
    if scheme not in _registered:
        for entry in entry_points(group=ENTRY_POINTS, name=scheme):
            _registered[scheme] = entry.load()
    return _registered.get(scheme)


# Each driver is loaded only when a URL asks for it.


def _sqlite(url: URL, durability: str, busy_timeout: float) -> Backend:
    from eventstore.storage.sqlite.backend import Sqlite

    return Sqlite(url.set(drivername="sqlite"), durability, busy_timeout)


def _mysql(url: URL, durability: str, busy_timeout: float) -> Backend:
    from eventstore.storage.mysql.backend import Mysql

    return Mysql(url, durability, busy_timeout)


def _postgresql(url: URL, durability: str, busy_timeout: float) -> Backend:
    from eventstore.storage.postgresql.backend import Postgresql

    return Postgresql(url, durability, busy_timeout)


_registered: dict[str, BackendFactory] = {
    "mariadb": _mysql,
    "mariadb+pymysql": _mysql,
    "mysql": _mysql,
    "mysql+pymysql": _mysql,
    "postgres": _postgresql,
    "postgresql": _postgresql,
    "postgresql+psycopg": _postgresql,
    "sqlite": _sqlite,
    "sqlite+pysqlite": _sqlite,
}
