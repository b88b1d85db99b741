"""PostgreSQL, through psycopg 3.

A lane's counter is locked by its row, so writers of one lane wait for each other and no others.
All is done under READ COMMITTED: whoever waited for the row sees what the other committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from eventstore.errors import (
    NotAStore,
    StorageError,
    StoreBusy,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
)
from eventstore.storage.at_once import AtOnceStorage
from eventstore.storage.server import CONNECTING, Server

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from eventstore.storage.sql import SqlStorage

LOCK = 0x746F6F6C
"""The advisory lock that whoever changes the schema holds: of this database, nobody else's."""

SHORTEST = 1000
"""Milliseconds that a transaction may always stand still."""

_SETTINGS = """\
SELECT set_config('default_transaction_isolation', 'read committed', false),
       set_config('enable_seqscan', 'off', false),
       set_config('enable_bitmapscan', 'off', false),
       set_config('enable_sort', 'off', false),
       set_config('jit', 'off', false),
       set_config('lock_timeout', %s, false),
       set_config('idle_in_transaction_session_timeout', %s, false),
       set_config('synchronous_commit',
                  CASE WHEN %s THEN 'off'
                       WHEN current_setting('synchronous_commit') = 'off' THEN 'on'
                       ELSE current_setting('synchronous_commit') END, false)"""

_AGAIN = "nothing was written, try again"
_MEANINGS: tuple[tuple[str, type[StorageError], str], ...] = (
    ("08", StorageError, "check that the server runs and can be reached, then try again"),
    ("22001", StorageError, "nothing was written; use a shorter id"),
    (
        "23",
        StoreCorrupt,
        "the log contradicts itself; nothing was written, run `toolledger verify`",
    ),
    ("25006", StoreReadOnly, "nothing was written; connect to the primary server"),
    ("25P03", StoreBusy, f"the transaction stood still for too long; {_AGAIN}"),
    ("25P04", StoreBusy, f"the transaction took too long; {_AGAIN}"),
    ("28", StorageError, "check the user and the password in the URL"),
    ("3D000", NotAStore, "create the database, or name another"),
    ("40", StoreBusy, f"other writers were in the way; {_AGAIN}"),
    ("42501", StoreReadOnly, "grant the user the rights to the tables (or to the schema)"),
    ("42P01", StoreCorrupt, "the tables are gone; restore the database from a copy"),
    ("53100", StoreFull, "nothing was written; free some space and try again"),
    ("53", StoreBusy, f"the server is at its limit; {_AGAIN}"),
    ("55P03", StoreBusy, f"another writer holds the lane; {_AGAIN}"),
    ("57014", StoreBusy, f"the statement took too long; {_AGAIN}"),
    ("57P", StorageError, "check that the server runs and can be reached, then try again"),
    ("XX", StoreCorrupt, "the database is damaged; restore it from a copy"),
)


class Postgresql(Server):
    """What PostgreSQL does in its own way."""

    begin = "BEGIN ISOLATION LEVEL READ COMMITTED"
    driver = "postgresql+psycopg"
    extra = "postgresql"

    @property
    def module(self) -> Any:
        """psycopg, which is imported when an engine is made."""
        import psycopg  # noqa: PLC0415 - optional

        return psycopg

    def options(self) -> dict[str, Any]:
        """A network that was cut is noticed within half a minute."""
        return {
            "client_encoding": "utf8",
            "connect_timeout": CONNECTING,
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 25_000,
        }

    def prepare(self, connection: Any) -> None:
        """Durable as asked, whatever the server's default; waiting no longer than allowed.

        Each statement has an index that gives its rows in order. Before the server has looked at
        new tables it would take others, and read a conversation once for each page of it.

        A client that stops in the middle of a transaction (frozen, or cut off) does not hold
        its lane for longer than the others wait for it.
        """
        wait = max(1, round(self.busy_timeout * 1000))
        connection.execute(
            _SETTINGS, (str(wait), str(max(SHORTEST, wait // 2)), self.durability == "normal")
        )

    def check_server(self, connection: Connection) -> None:
        """Text must be stored as it is.

        Raises:
            NotAStore: the database has another encoding than UTF-8.
        """
        encoding = connection.exec_driver_sql("SHOW server_encoding").scalar()
        if encoding != "UTF8":
            raise NotAStore(
                f"the database has the encoding {encoding}: create it with ENCODING 'UTF8'"
            )

    def lax(self, connection: Connection) -> tuple[str, str] | None:
        """Whatever a session says, with `fsync` off nothing is ever waited for."""
        off = connection.exec_driver_sql("SHOW fsync").scalar() == "off"
        return ("fsync is off", "on") if off else None

    @contextmanager
    def alone(self, connection: Connection) -> Iterator[None]:
        """In one transaction; an error undoes all of it."""
        connection.exec_driver_sql("BEGIN")
        connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = '60s'")
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK})")
        yield
        connection.exec_driver_sql("COMMIT")

    def clear(self, connection: Connection) -> None:
        """Nothing is ever left: the schema is changed in one transaction."""

    def storage(self, tenant: str) -> SqlStorage:
        """One that appends in binary, and tells other processes."""
        return AtOnceStorage(self, tenant)

    def meaning(self, error: Any) -> tuple[type[StorageError], str]:
        """By the SQLSTATE; an error without one is the connection's."""
        state = _state(error)
        for start, kind, remedy in _MEANINGS:
            if state.startswith(start):
                return kind, remedy
        return StorageError, f"SQLSTATE {state}"

    def says_lost(self, error: Any) -> bool:
        """No SQLSTATE, or one of a server that goes down or has closed the connection.

        Whatever the reason: behind a FATAL or a PANIC there is no connection, and it may have come
        in the middle of a COMMIT.
        """
        kinds = (
            self.module.OperationalError,
            self.module.InterfaceError,
            self.module.InternalError,
        )
        if not isinstance(error, kinds):
            return False
        state = _state(error)
        fatal = error.diag.severity_nonlocalized in ("FATAL", "PANIC")
        return fatal or state.startswith(("08", "57P0", "25P03", "53300"))

    def is_passing(self, error: BaseException) -> bool:
        """A serialization failure or a deadlock."""
        return getattr(error, "sqlstate", None) in ("40001", "40P01")

    def damage(self, _: Callable[[str], list[Any]]) -> Iterator[str]:
        """Nothing: it checks its pages as it reads them."""
        yield from ()


def _state(error: Any) -> str:
    """The SQLSTATE; where a connection was refused the driver gives but the server's words."""
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)  # psycopg2's
    if state is not None:
        return str(state)
    text = str(error)
    return next((state for words, state in _REFUSALS if words in text), "08000")


_REFUSALS = (
    ("too many c", "53300"),  # clients; connections for a role, or a database
    ("connection slots", "53300"),
    ("authentication failed", "28P01"),
    ("no password supplied", "28P01"),
    ("role ", "28000"),
    ("pg_hba.conf", "28000"),
    ("does not exist", "3D000"),
    ("invalid connection option", "22023"),
)
