"""From a database URL to its storage: the one place that knows all engines."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from sqlalchemy import URL, make_url

from eventstore.numbers import is_number
from eventstore.storage import files
from eventstore.storage.sql import SqlStorage
from eventstore.storage.sqlite import SYNCHRONOUS

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from eventstore.storage.server import Server

DURABILITIES = tuple(SYNCHRONOUS)

LONGEST_WAIT = 1_000_000
"""Seconds; databases count milliseconds, in 32 bits."""


def open_storage(
    url: str, tenant: str, durability: str, busy_timeout: float, *, new: bool = True
) -> SqlStorage:
    """The storage at a URL, its schema upgraded, and created where it may be `new`.

    Raises:
        ValueError: the URL, or another argument, makes no sense.
        NotAStore, SchemaTooNew, StorageError: the database cannot be used.
    """
    if durability not in DURABILITIES:
        raise ValueError(f"durability is {durability!r}: pass 'full' or 'normal'")
    if not is_number(busy_timeout) or not 0 <= busy_timeout <= LONGEST_WAIT:
        raise ValueError(
            f"busy_timeout is {busy_timeout!r}: pass seconds, from 0 to {LONGEST_WAIT:,}"
        )
    parsed = parse(url)
    if _is_sqlite(parsed):
        return files.open_storage(url, tenant, durability, busy_timeout, new=new)
    from eventstore.storage import server  # noqa: PLC0415 - not for who uses a file

    return server.open_storage(_server(parsed, durability, busy_timeout), tenant, new=new)


def migrating(url: str) -> AbstractContextManager[Connection]:
    """A connection that may change the schema at a URL, while nobody else does."""
    parsed = parse(url)
    if _is_sqlite(parsed):
        return files.migrating(url)
    from eventstore.storage import server  # noqa: PLC0415

    return server.migrating(_server(parsed, "full", 30.0))


def parse(url: str) -> URL:
    """The URL with the driver that we use.

    Raises:
        ValueError: it is no database URL, or not of an engine that we know.
    """
    try:
        parsed = make_url(url)
    except Exception as error:
        raise ValueError(
            f"{url!r} is not a database URL: for a file write for example sqlite:///agent.db"
        ) from error
    driver = _DRIVERS.get(parsed.drivername)
    if driver is None:
        raise ValueError(
            f"{parsed.drivername} is not supported: use a URL that begins with sqlite:///, "
            "postgresql:// or mysql://"
        )
    if driver != "sqlite" and not parsed.database:
        where = parsed.render_as_string(hide_password=True)
        raise ValueError(f"{where} names no database: append /NAME to the server's address")
    return parsed.set(drivername=driver)


_DRIVERS = {
    "mariadb": "mysql+pymysql",
    "mariadb+pymysql": "mysql+pymysql",
    "mysql": "mysql+pymysql",
    "mysql+pymysql": "mysql+pymysql",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
    "sqlite": "sqlite",
    "sqlite+pysqlite": "sqlite",
}


def _is_sqlite(url: URL) -> bool:
    return url.drivername == "sqlite"


def _server(url: URL, durability: str, busy_timeout: float) -> Server:
    if url.drivername == "mysql+pymysql":
        from eventstore.storage.mysql import Mysql  # noqa: PLC0415

        return Mysql(url, durability, busy_timeout)
    from eventstore.storage.postgresql import Postgresql  # noqa: PLC0415

    return Postgresql(url, durability, busy_timeout)
