"""The seam for a new form of SQLite databases.

A form is one module with a class that keeps `DatabaseFormat`, and one line in
`formats.DATABASE_FORMATS`. One of a program that has its database at a usual place keeps
`SessionDatabase`, so that its sessions are listed one by one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Protocol, TypeAlias, runtime_checkable

import msgspec

from eventstore.importers.reading.about import About
from eventstore.importers.reading.problems import Problems
from eventstore.importers.reading.transcript import Transcript

Tables: TypeAlias = Mapping[str, AbstractSet[str]]
"""The tables of a database, with the columns of each."""


class DatabaseFormat(Protocol):
    """A form of databases that hold conversations."""

    name: str
    """The name of the format."""

    about: About

    def looks_like(self, tables: Tables) -> bool:
        """Return whether a database with these tables is of this form."""
        ...

    def read(self, database: sqlite3.Connection, problems: Problems) -> Iterator[Transcript]:
        """Yield the conversations; what cannot be read becomes a problem."""
        ...


class StoredSession(msgspec.Struct, frozen=True):
    """A session as a database lists it: the id of its conversation, and when it last changed.

    `time` is in microseconds since 1970 UTC. `project` is the folder where the program ran, or
    what else tells people which session it is.
    """

    id: str
    time: int | None = None
    project: str = ""


@runtime_checkable
class SessionDatabase(Protocol):
    """A form of databases whose sessions can be listed without being read."""

    def sessions(self, database: sqlite3.Connection) -> Iterator[StoredSession]:
        """Yield the sessions that people began: none of a sub-agent."""
        ...

    def calls_of(self, database: sqlite3.Connection, session_id: str) -> int:
        """Return how many calls a session has."""
        ...


def bytes_of(cell: object) -> bytes:
    """Return what a cell holds as bytes."""
    return cell if isinstance(cell, bytes) else str(cell).encode()
