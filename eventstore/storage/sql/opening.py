"""Opening a log in a database whose schema can be changed in a transaction."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from eventstore.errors import NotAStore, StorageError
from eventstore.storage import migrations
from eventstore.storage.sql.backend import translated
from eventstore.storage.sql.forks import no_fork
from eventstore.storage.sql.storage import SqlStorage
from eventstore.storage.urls import shown

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from eventstore.storage.interface import Storage
    from eventstore.storage.sql.backend import Backend

Result = TypeVar("Result")


def open_in_transaction(backend: Backend, tenant: str, *, new: bool) -> SqlStorage:
    """Open a tenant's storage, its schema upgraded in one transaction; see `Backend.open`."""
    backend.check_names(tenant, "")
    with translated(backend), no_fork():
        with _transaction(backend) as connection:
            found = migrations.revision(connection)
            if found is None and not new:
                raise NotAStore(f"{shown(backend.url)} holds no store: name another database")
            if not backend.upgrades:
                migrations.refuse_old(found)
            if migrations.check(found):
                migrations.upgrade(connection)
        return SqlStorage(backend, tenant)


def open_read_only(backend: Backend, tenant: str) -> Storage:
    """Open a tenant's storage to read alone; nothing is created or upgraded.

    Raises:
        NotAStore, SchemaTooNew, SchemaTooOld, StorageError: The database cannot be used.
    """
    backend.check_names(tenant, "")
    found = read_schema(backend, migrations.revision)
    if found is None:
        raise NotAStore(f"{shown(backend.url)} holds no store: name another database")
    with translated(backend):
        migrations.refuse_old(found)
    return backend.open_to_read(tenant)


def read_schema(backend: Backend, look: Callable[[Connection], Result]) -> Result:
    """Return what `look` finds of a schema with a connection that writes nothing."""
    backend.read_only = True
    backend.can_read_otherwise(refused=False)
    try:
        return _looked(backend, look)
    except NotAStore:
        raise
    except StorageError:
        if not backend.can_read_otherwise(refused=True):
            raise
        return _looked(backend, look)


def _looked(backend: Backend, look: Callable[[Connection], Result]) -> Result:
    with translated(backend), no_fork():
        engine = backend.connect()
        try:
            with engine.connect() as connection:
                return look(connection)
        finally:
            if not backend.single_connection:
                engine.dispose()


@contextmanager
def migrate_in_transaction(backend: Backend) -> Generator[Connection]:
    """Give a connection in a transaction, to change the schema; see `Backend.migrating`."""
    with translated(backend), _transaction(backend) as connection:
        yield connection


@contextmanager
def _transaction(backend: Backend) -> Generator[Connection]:
    engine = backend.connect()
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql(backend.begin)
            yield connection
            connection.exec_driver_sql("COMMIT")  # an error before it rolls all back
    finally:
        if not backend.single_connection:
            engine.dispose()
