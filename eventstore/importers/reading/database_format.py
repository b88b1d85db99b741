"""The seam for a new form of SQLite databases.

A form is one module with a class that keeps `DatabaseFormat`, and one line in
`formats.DATABASE_FORMATS`. Where the program has its database at a usual place, `about.listing` has
the statements that list its sessions one by one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Protocol, TypeAlias

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_list, is_json_object
from eventstore.importers.reading.about import About
from eventstore.importers.reading.json_lines import decode_noting
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


def bytes_of(cell: object) -> bytes:
    """Return what a cell holds as bytes."""
    return cell if isinstance(cell, bytes) else str(cell).encode()


def object_in(cell: object, problems: Problems, where: str) -> JsonObject | None:
    """Return the object whose JSON a cell holds; anything else is a problem, and None."""
    value = _value_in(cell, problems, where)
    if is_json_object(value):
        return value
    problems.add(f"{where}: a row is not a JSON object")
    return None


def objects_in(cell: object, problems: Problems, where: str, what: str) -> list[JsonObject]:
    """Return the objects in the JSON list that a cell holds; `what` names it in a problem."""
    value = _value_in(cell, problems, where)
    if is_json_list(value):
        return [each for each in value if is_json_object(each)]
    problems.add(f"{where}: {what} not a JSON list")
    return []


def _value_in(cell: object, problems: Problems, where: str) -> JsonValue:
    try:
        return decode_noting(bytes_of(cell), problems, where=where)
    except ValueError:
        return None
