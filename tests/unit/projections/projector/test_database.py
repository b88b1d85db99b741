"""Errors of the database that the projections are kept in."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, create_engine, event, inspect
from sqlalchemy.exc import DBAPIError, OperationalError
from support.projected_logs import check, run

from eventstore import (
    EventStore,
    NotAStore,
    StorageError,
    StoreBusy,
    StoreCorrupt,
    StoreReadOnly,
)
from eventstore.engines import TableEngine, register_backend
from eventstore.storage.sqlite.backend import Sqlite
from eventstore.storage.sqlite.driver import driver
from projections import Projector
from projections.projector.database import LostRace, ProjectionDatabase
from projections.projector.settings import ProjectorSettings


def test_a_database_locked_by_another_writer_is_busy(
    store: EventStore, projector: Projector, path: Path
) -> None:
    """The error says that nothing was written; the next attempt succeeds."""
    run(store, "a")
    projector.catch_up()
    run(store, "a")
    with Projector(store, settings=ProjectorSettings(busy_timeout=0.01)) as impatient:
        holder = driver().connect(str(path), isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(
            StoreBusy, match="another writer holds it; nothing was written, try again"
        ):
            impatient.catch_up()
        holder.execute("ROLLBACK")
        holder.close()
        assert impatient.catch_up() == 3
    check(projector, store)


class Lost(Exception):
    """The error of a driver for a transaction that lost against another."""

    sqlstate = "40001"


class RacingBackend(Sqlite):
    """A kind of database that has transactions which lose."""

    def is_transient(self, error: BaseException) -> bool:
        """Return whether the transaction has lost."""
        return isinstance(error, Lost)


@pytest.mark.parametrize(
    ("error", "expected"), [(Lost("x"), LostRace), (Exception(1213, "deadlock"), StorageError)]
)
def test_the_backend_says_what_a_lost_race_is(error: Exception, expected: type[Exception]) -> None:
    """Other errors become those of the library."""
    register_backend(
        "racing", lambda url, *rest: RacingBackend(url.set(drivername="sqlite"), *rest)
    )
    opened = ProjectionDatabase("racing://")
    with pytest.raises(expected), opened.reading():
        raise DBAPIError("x", None, error)
    opened.close()


def test_tables_are_waited_for_that_another_session_is_creating() -> None:
    """A server refuses to look at such a table; that is not counted as an attempt."""
    register_backend(
        "racing", lambda url, *rest: RacingBackend(url.set(drivername="sqlite"), *rest)
    )
    others = [DBAPIError("x", None, Lost("x"))] * 3
    table = Table("waited_for", MetaData(), Column("id", Integer))

    @event.listens_for(table, "before_create")
    def refuse(*_: object, **__: object) -> None:
        if others:
            raise others.pop()

    opened = ProjectionDatabase("racing://", ProjectorSettings(create_attempts=1))
    opened.create([table])
    with opened.reading() as connection:
        assert inspect(connection).has_table("waited_for")
    assert others == []
    opened.close()


@pytest.mark.parametrize(
    ("error", "is_transient"),
    [
        (Lost("x"), True),
        (Exception(1213, "deadlock"), True),
        (Exception(1064, "syntax"), False),
        (Exception(), False),
    ],
)
def test_a_database_without_a_backend_says_by_codes_what_a_lost_race_is(
    error: Exception, is_transient: bool
) -> None:
    """The codes are SQLSTATEs, and those of MySQL for drivers that give no SQLSTATE."""
    engine = TableEngine(create_engine("sqlite://"))
    assert engine.is_transient(error) is is_transient
    engine.close()


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("text.db?uri=true", NotAStore, "text.db: file is not a database: .* name another file"),
        ("?uri=true", NotAStore, "is a folder: name a file in it"),
        ("nowhere/x.db?uri=true", StorageError, "x.db: the folder .*/nowhere does not exist"),
        ("x.db?mode=rw&uri=true", StorageError, "unable to open .* make its folder"),
        ("log.db?mode=ro&uri=true", StoreReadOnly, "make the file and its folder writable"),
    ],
)
def test_tables_that_cannot_be_created_are_reported(
    store: EventStore, tmp_path: Path, name: str, kind: type[StorageError], message: str
) -> None:
    """The error is that of a store, raised after several attempts."""
    (tmp_path / "text.db").write_bytes(b"this is no database, and it is long enough for one" * 20)
    with pytest.raises(kind, match=message):
        ProjectionDatabase(f"sqlite:///file:{tmp_path}/{name}")


def test_errors_of_the_database_become_errors_of_the_library(database: ProjectionDatabase) -> None:
    """The errors name the database."""
    message = r"sqlite:///.*log\.db: boom"
    with pytest.raises(StorageError, match=message), database.reading():
        raise OperationalError("x", None, Exception("boom"))


def test_the_error_of_damaged_tables_does_not_offer_verify(database: ProjectionDatabase) -> None:
    """`verify` checks the log and not the tables."""
    broken = driver().OperationalError("no such table: toolledger_parked")
    expected_message = (
        r"log\.db: no such table: .*: nothing was projected; see that the database is there"
    )
    with pytest.raises(StoreCorrupt, match=expected_message), database.reading():
        raise OperationalError("x", None, broken)


def test_an_absent_server_is_reported_without_the_password() -> None:
    """The URL is shown, its password hidden."""
    pytest.importorskip("psycopg")
    expected_message = r"//me:\*\*\*@.*refused.* see that the database is there"
    with pytest.raises(StorageError, match=expected_message):
        ProjectionDatabase(
            "postgresql://me:secret@127.0.0.1:1/x",
            ProjectorSettings(create_attempts=1, busy_timeout=0.0),
        )
