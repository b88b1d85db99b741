"""The statements on the tables of the projections; `where` gives columns and their values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any

import msgspec
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Insert,
    Table,
    Update,
    bindparam,
    delete,
    func,
    insert,
    select,
    update,
)

from projections.projector.schema import checkpoints, projections

Row = dict[str, object]
"""The values of a row by their columns."""

Found = Sequence[Any]
"""A row that was read, its values in the order of the columns asked for."""

KEYS_PER_QUERY = 500
"""Keys that one statement asks for. SQLite takes at least 999 parameters."""


def _conditions(table: Table, where: Mapping[str, object]) -> list[ColumnElement[bool]]:
    return [table.c[name] == value for name, value in where.items()]


def select_rows(
    connection: Connection,
    table: Table,
    columns: Sequence[str],
    where: Mapping[str, object],
    order: Sequence[str] = (),
) -> Sequence[Found]:
    """Return the rows that `where` describes, in this order."""
    statement = select(*(table.c[name] for name in columns)).where(*_conditions(table, where))
    return connection.execute(statement.order_by(*(table.c[name] for name in order))).fetchall()


def select_page(
    connection: Connection,
    table: Table,
    columns: Sequence[str],
    where: Mapping[str, object],
    after: tuple[int, int],
    limit: int,
    holding: str = "",
) -> Sequence[Found]:
    """Return the next rows after a lane and a position, ordered by these.

    With `holding`, only those whose body has this text.
    """
    lane, position = after
    is_after = (table.c.lane > lane) | ((table.c.lane == lane) & (table.c.position > position))
    conditions = [*_conditions(table, where), is_after]
    if holding:
        conditions.append(table.c.body.contains(holding, autoescape=True))
    statement = (
        select(*(table.c[name] for name in columns))
        .where(*conditions)
        .order_by(table.c.lane, table.c.position)
        .limit(limit)
    )
    return connection.execute(statement).fetchall()


def select_span(
    connection: Connection,
    table: Table,
    columns: Sequence[str],
    where: Mapping[str, object],
    since: int | None,
    until: int | None,
) -> Sequence[Found]:
    """Return the rows whose time bucket starts at `since` or later, and before `until`."""
    conditions = _conditions(table, where)
    if since is not None:
        conditions.append(table.c.starts_at >= since)
    if until is not None:
        conditions.append(table.c.starts_at < until)
    statement = select(*(table.c[name] for name in columns)).where(*conditions)
    return connection.execute(statement).fetchall()


def select_keys(
    connection: Connection,
    table: Table,
    columns: Sequence[str],
    where: Mapping[str, object],
    key: str,
    keys: Iterable[object],
) -> Iterator[Found]:
    """Yield the rows whose `key` column is one of `keys`, however many these are."""
    remaining = iter(keys)
    while some := list(islice(remaining, KEYS_PER_QUERY)):
        statement = select(*(table.c[name] for name in columns))
        conditions = (*_conditions(table, where), table.c[key].in_(some))
        yield from connection.execute(statement.where(*conditions))


def highest(connection: Connection, column: Column[int]) -> int:
    """Return the highest value of a column; 0 if there are no rows."""
    return int(connection.execute(select(func.max(column))).scalar() or 0)


class RowChanges(msgspec.Struct):
    """The rows of a state table that a batch inserts, updates and deletes.

    The rows come without the columns `projection` and `lane`. `removed` are values of the last
    column of the primary key.
    """

    table: Table
    new: list[Row] = []
    changed: list[Row] = []
    removed: Sequence[object] = ()


def write_changes(connection: Connection, at: Row, changes: Iterable[RowChanges]) -> None:
    """Write rows of the lane that `at` describes."""
    for rows in changes:
        if rows.removed:
            key = [column.name for column in rows.table.primary_key][-1]
            delete_keys(connection, rows.table, at, key, rows.removed)
        insert_rows(connection, rows.table, [at | row for row in rows.new])
        update_rows(connection, rows.table, [at | row for row in rows.changed])


def insert_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
    """Insert rows, which all have the same columns."""
    if rows:
        values: Row = {name: bindparam(name) for name in rows[0]}
        _execute(connection, insert(table).values(values), rows)


def update_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
    """Update rows, which all have the same columns; those of the primary key find them."""
    if rows:
        key = [column.name for column in table.primary_key]
        values: Row = {name: bindparam(name) for name in rows[0] if name not in key}
        conditions = (table.c[name] == bindparam(f"key_{name}") for name in key)
        named = [{**row, **{f"key_{name}": row[name] for name in key}} for row in rows]
        _execute(connection, update(table).where(*conditions).values(values), named)


def _execute(
    connection: Connection, statement: Insert | Update, rows: Sequence[Mapping[str, object]]
) -> None:
    """Pass rows to the driver as they are: SQLAlchemy's processing would take a third longer."""
    compiled = statement.compile(dialect=connection.dialect)
    parameters: Any = rows
    if compiled.positional:
        parameters = [*map(itemgetter(*compiled.positiontup or ()), rows)]
    connection.exec_driver_sql(str(compiled), parameters)


def change_state(connection: Connection, generation: int, before: str, after: str) -> bool:
    """Change the state of a generation from `before`; return False if it has another by now."""
    where = {"id": generation, "state": before}
    statement = update(projections).where(*_conditions(projections, where)).values(state=after)
    return connection.execute(statement).rowcount == 1


def advance_checkpoint(connection: Connection, at: Row, revision: int, position: int) -> bool:
    """Advance a lane's checkpoint from a revision; return False if it has another by now."""
    statement = (
        update(checkpoints)
        .where(*_conditions(checkpoints, at | {"revision": revision}))
        .values(position=position, revision=revision + 1)
    )
    return connection.execute(statement).rowcount == 1


def delete_rows(connection: Connection, table: Table, where: Mapping[str, object]) -> None:
    """Delete the rows that `where` describes."""
    connection.execute(delete(table).where(*_conditions(table, where)))


def delete_keys(
    connection: Connection,
    table: Table,
    where: Mapping[str, object],
    key: str,
    keys: Iterable[object],
) -> None:
    """Delete the rows whose `key` column is one of `keys`, however many these are."""
    remaining = iter(keys)
    while some := list(islice(remaining, KEYS_PER_QUERY)):
        conditions = (*_conditions(table, where), table.c[key].in_(some))
        connection.execute(delete(table).where(*conditions))


def delete_some(connection: Connection, table: Table, generation: int, limit: int) -> bool:
    """Delete `limit` rows of a generation at most; return whether there were any."""
    key = [column.name for column in table.primary_key][1:3]  # the lane, and what follows it
    statement = (
        select(*(table.c[name] for name in key))
        .where(table.c.projection == generation)
        .order_by(*(table.c[name] for name in key))
        .limit(limit)
    )
    rows = connection.execute(statement).fetchall()
    if not rows:
        return False
    lane = rows[0][0]
    last = [row[-1] for row in rows if row[0] == lane][-1]
    conditions = _conditions(table, {"projection": generation, "lane": lane})
    connection.execute(delete(table).where(*conditions, table.c[key[-1]] <= last))
    return True
