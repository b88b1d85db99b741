"""The schema of a store on a server, when it is opened: checked, upgraded, created."""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import TYPE_CHECKING

from eventstore.errors import NotAStore
from eventstore.storage import migrations

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from eventstore.storage.sql.server import Server


def bring_up_to_date(server: Server, *, new: bool) -> None:
    """Upgrade the schema of a server, or create it where it may be `new`.

    Raises:
        NotAStore, SchemaTooNew, SchemaTooOld, StorageError: the database cannot be used.
    """
    engine = server.connect()
    try:
        with engine.connect() as connection:
            server.check_server(connection)
            _check_settings(server, connection)
            if _is_current(connection):
                return
            _refuse_old(server, connection)
            with server.schema_lock(connection):
                server.drop_partial_schema(connection)
                found = migrations.revision(connection)
                if found is None and not new:
                    raise NotAStore(f"{server.address} holds no store: name another database")
                _refuse_old(server, connection)  # another process may have made it meanwhile
                if migrations.check(found) or migrations.is_broken_off(connection):
                    migrations.upgrade(connection)  # no other process did meanwhile
    finally:
        engine.dispose()


def _refuse_old(server: Server, connection: Connection) -> None:
    if not server.upgrades:
        with suppress(NotAStore):  # another process is about to make it, or a part is left
            found = migrations.revision(connection)
            migrations.refuse_old(found, broken_off=migrations.is_broken_off(connection))


def _check_settings(server: Server, connection: Connection) -> None:
    """Warn of a server that does not keep what "full" promises, and of tables out of place."""
    weak = None if server.durability == "normal" else server.weak_durability(connection)
    if weak is not None:
        setting, right = weak
        warnings.warn(
            f"{server.address}: {setting}: what was appended last may be lost when the server's "
            f"machine goes down; set it to {right}, or open with durability='normal'",
            RuntimeWarning,
            stacklevel=2,
        )
    for problem in server.misplaced(connection):
        warnings.warn(f"{server.address}: {problem}", RuntimeWarning, stacklevel=2)


def _is_current(connection: Connection) -> bool:
    try:
        found = migrations.revision(connection)
    except NotAStore:  # or another process is about to make it
        return False
    current = found is not None and not migrations.check(found)
    return current and not migrations.is_broken_off(connection)
