"""A table that is made anew: how it is created, and how its rows are copied."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.schema import CreateTable


class Span(NamedTuple):
    """Rows of a lane, by the second column of the key: those after one value, up to another."""

    lane: int
    after: Any
    """None stands for the beginning."""
    upto: Any


class TableAnew:
    """A table in its new form, whose rows are copied as they are; derive from it to change them.

    The key of the table begins with the lane. A table `grows` where each row is added behind the
    others of its lane, as events are by their positions: their INSERTs need no note. The tables
    `beside` it are new ones, which it fills together with its own.
    """

    lane = "lane"
    """The expression for the lane of a row that is read."""

    def __init__(self, table: sa.Table, *, grows: bool, beside: Sequence[sa.Table] = ()) -> None:
        self.table = table
        self.grows = grows
        self.beside = beside
        self.name = table.name
        self.new = f"{table.name}_new"
        self.old = f"{table.name}_old"
        self.noted = f"{table.name}_noted"
        self.key: tuple[sa.Column[Any], ...] = tuple(table.primary_key.columns)

    @property
    def order(self) -> str:
        """The column by which a lane is copied: that of the key behind the lane, if it has one."""
        return str(self.key[:2][-1].name)

    def create(self, connection: sa.Connection, ending: str) -> None:
        """Create the empty tables under their names with an ending.

        On PostgreSQL they have no keys yet where there is an ending, see `add_keys`.
        """
        for table in (self.table, *self.beside):
            name = f"{table.name}{ending}"
            if connection.dialect.name == "postgresql":
                made = without_keys(table, name)
            else:
                made = table.to_metadata(sa.MetaData(), name=name)
            connection.execute(CreateTable(made))

    def add_keys(self, connection: sa.Connection) -> None:
        """Add the keys to the filled tables, which costs less than to fill them row by row.

        On PostgreSQL their names are of the whole schema: they get the right ones in the switch.
        """
        if connection.dialect.name != "postgresql":
            return
        for table in (self.table, *self.beside):
            for name, kind, columns in keys(table):
                connection.exec_driver_sql(
                    f"ALTER TABLE {table.name}_new ADD CONSTRAINT {name}_new "
                    f"{kind} ({', '.join(columns)})"
                )

    def copy(self, connection: sa.Connection, source: str, target: str, span: Span) -> None:
        """Copy the rows of a span."""
        where, values = within(span, self)
        order = ", ".join(f"e.{column.name}" for column in self.key)
        connection.execute(
            sa.text(
                f"INSERT INTO {target} ({self._columns(connection)}) "
                f"SELECT {self._columns(connection, 'e.')} FROM {source} e "
                f"WHERE {where} ORDER BY {order}"
            ),
            values,
        )

    def copy_again(
        self,
        connection: sa.Connection,
        source: str,
        target: str,
        notes: Collection[int],
        ends: Mapping[int, Any],
    ) -> None:
        """Copy the rows that some notes name as they are now, and remove those that have gone.

        `ends` are the values of `order` up to which each lane is copied.
        """
        some = f"n.note IN ({', '.join(map(str, notes))})"
        same = " AND ".join(f"n.{column.name} = {{}}.{column.name}" for column in self.key)
        if connection.dialect.name == "postgresql":
            delete = f"DELETE FROM {target} t USING {self.noted} n"
            connection.exec_driver_sql(f"{delete} WHERE {some} AND {same.format(*['t'] * 9)}")
        else:
            delete = f"DELETE t FROM {target} t JOIN {self.noted} n ON {same.format(*['t'] * 9)}"
            connection.exec_driver_sql(f"{delete} WHERE {some}")
        names = ", ".join(f"n.{column.name}" for column in self.key)
        connection.exec_driver_sql(
            f"INSERT INTO {target} ({self._columns(connection)}) "
            f"SELECT {self._columns(connection, 'e.')} FROM {source} e "
            f"JOIN (SELECT DISTINCT {names} FROM {self.noted} n WHERE {some}) n "
            f"ON {same.format(*['e'] * 9)}"
            + (f" WHERE e.{self.order} <= {up_to(ends, 'e')}" if self.grows else "")
        )

    def _columns(self, connection: sa.Connection, before: str = "") -> str:
        quote = connection.dialect.identifier_preparer.quote
        return ", ".join(f"{before}{quote(column.name)}" for column in self.table.columns)


def keys(table: sa.Table) -> list[tuple[str, str, list[str]]]:
    """Return the name of each key of a table, its kind and its columns; the primary key first."""
    found = [
        (str(each.name), isinstance(each, sa.PrimaryKeyConstraint), [c.name for c in each.columns])
        for each in table.constraints
        if isinstance(each, sa.PrimaryKeyConstraint | sa.UniqueConstraint)
    ]
    found.sort(key=lambda key: not key[1])
    return [
        (name, "PRIMARY KEY" if primary else "UNIQUE", columns) for name, primary, columns in found
    ]


def without_keys(table: sa.Table, name: str, **options: Any) -> sa.Table:
    """Return a table of another name with the same columns, and no keys."""
    columns = (
        sa.Column(
            column.name,
            column.type,
            nullable=column.nullable,
            autoincrement=False,
            server_default=getattr(column.server_default, "arg", None),
        )
        for column in table.columns
    )
    return sa.Table(name, sa.MetaData(), *columns, **options)


def lanes_behind(
    connection: sa.Connection,
    source: str,
    table: TableAnew,
    lanes: Sequence[int],
    ends: Mapping[int, Any],
) -> list[int]:
    """Return the lanes with rows that are not copied."""
    values = {f"after{lane}": end for lane, end in ends.items()}
    asked = (
        f"(SELECT {lane} AS lane FROM {source} WHERE lane = {lane} "
        + (f"AND {table.order} > :after{lane} " if lane in ends else "")
        + "LIMIT 1)"
        for lane in lanes
    )
    return sorted(connection.execute(sa.text(" UNION ALL ".join(asked)), values).scalars())


def within(span: Span, table: TableAnew) -> tuple[str, dict[str, Any]]:
    """Return the condition for the rows `e` of a span, and the values of its parameters."""
    values = {"lane": span.lane, "upto": span.upto}
    where = f"e.{table.lane} = :lane AND e.{table.order} <= :upto"
    if span.after is not None:
        where += f" AND e.{table.order} > :after"
        values["after"] = span.after
    return where, values


def up_to(ends: Mapping[int, Any], alias: str) -> str:
    """Return the expression for up to where the lane of a row is copied."""
    cases = " ".join(f"WHEN {lane} THEN {end}" for lane, end in ends.items())
    return f"CASE {alias}.lane {cases} ELSE 0 END" if cases else "0"
