"""How many lanes a store has: chosen when it is made, and the same for as long as it lasts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import Connection

MAX_LANES = 1024
"""A conversation belongs to one of so many slices, and a lane has one at least."""

PLAN = (
    "to have more, make a new store, and `toolledger restore` there what `toolledger export` "
    "writes: see docs/citus.md"
)


def check_lanes(connection: Connection, lanes: int, *, exists: bool) -> None:
    """Refuse a number of lanes that a store cannot have, or does not have.

    Raises:
        ValueError: it makes no sense.
    """
    if connection.dialect.name == "sqlite" and lanes != 1:
        raise ValueError(f"lanes is {lanes}: a SQLite store has one lane, use a server for more")
    if not 1 <= lanes <= MAX_LANES:
        raise ValueError(f"lanes is {lanes}: pass 1 to {MAX_LANES}")
    if exists:
        found = connection.exec_driver_sql("SELECT lanes FROM toolledger_store ORDER BY id")
        there = found.fetchall()[0][0]
        if there != lanes:
            raise ValueError(
                f"lanes is {lanes}: the store has {there}, which cannot change; {PLAN}"
            )
