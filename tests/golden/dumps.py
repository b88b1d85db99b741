"""The whole of a database as SQL that people can read, and back into an empty one."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import create_engine, make_url, text

_SKIPPED = ("--", "\\", "SET ", "SELECT pg_catalog.set_config")
"""Lines of `pg_dump` that are about its session, and that not every server knows."""


def dump(url: str) -> str:
    """Return the SQL that makes the tables of toolledger with all that is in them."""
    kind = make_url(url).get_backend_name()
    if kind == "sqlite":
        return _dump_sqlite(make_url(url).database or "")
    return _dump_postgresql(url) if kind == "postgresql" else _dump_mysql(url)


def load(sql: str, url: str) -> None:
    """Run a dump in the empty database at `url`."""
    kind = make_url(url).get_backend_name()
    if kind == "sqlite":
        with closing(sqlite3.connect(make_url(url).database or "")) as file:
            file.executescript(sql)
        return
    # One statement a paragraph; the drivers are asked directly, as a payload may hold a `%`.
    statements = [sql] if kind == "postgresql" else [s for s in sql.split(";\n\n") if s.strip()]
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection, closing(connection.connection.cursor()) as cursor:
            for statement in statements:
                cursor.execute(statement)
    finally:
        engine.dispose()


def _dump_sqlite(path: str) -> str:
    with closing(sqlite3.connect(path)) as file:
        return "\n".join(file.iterdump()) + "\n"


def _dump_postgresql(url: str) -> str:
    """Ask `pg_dump`, which has to be found on the PATH."""
    tool = shutil.which("pg_dump")
    if tool is None:
        raise FileNotFoundError("there is no pg_dump on the PATH: it comes with PostgreSQL")
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    command = [tool, "--inserts", "--no-owner", "--no-privileges", "--dbname", plain]
    said = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    lines = [line for line in said.split("\n") if line and not line.startswith(_SKIPPED)]
    return "\n".join(lines).replace("CREATE TABLE", "\nCREATE TABLE") + "\n"


def _dump_mysql(url: str) -> str:
    """Ask the server for its own words of each table."""
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            literal: Any = connection.connection.driver_connection
            parts: list[str] = []
            for (table,) in connection.exec_driver_sql("SHOW TABLES").fetchall():
                made = connection.exec_driver_sql(f"SHOW CREATE TABLE {table}").fetchone()
                assert made is not None
                parts.append(made[1])
                for row in connection.exec_driver_sql(f"SELECT * FROM {table}").fetchall():  # noqa: S608
                    values = ", ".join(_literal(value, literal) for value in row)
                    parts.append(f"INSERT INTO {table} VALUES ({values})")  # noqa: S608
            return ";\n\n".join(parts) + ";\n\n"
    finally:
        engine.dispose()


def _literal(value: Any, connection: Any) -> str:
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return str(connection.escape(value))


class Row(NamedTuple):
    """What identifies a stored event, and its payload."""

    lane: int
    position: int
    conversation_id: str
    version: int
    event_id: str
    tag: str
    schema: int
    payload: str


def stored_events(url: str, tenant: str) -> list[Row]:
    """Return the events of a tenant as plain SQL finds them, without the library."""
    engine = create_engine(url)
    try:
        schema = engine.dialect.identifier_preparer.quote("schema")
        with engine.connect() as connection:
            asked = text(_STORED.replace("e.schema", f"e.{schema}"))
            found = connection.execute(asked, {"tenant": tenant}).fetchall()
    finally:
        engine.dispose()
    return [Row(*row[:4], bytes(row[4]).hex(), *row[5:]) for row in found]


_STORED = """
    SELECT e.lane, e.position, c.conversation_id, e.version, e.event_id,
        e.tag, e.schema, e.payload
    FROM toolledger_events e JOIN toolledger_conversations c
    ON c.lane = e.lane AND c.conversation = e.conversation
    WHERE c.tenant = :tenant ORDER BY e.lane, e.position
"""


def rows(path: Path) -> dict[str, list[Any]]:
    """Return all rows of a SQLite file, by table."""
    with closing(sqlite3.connect(path)) as file:
        names = [n for (n,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: sorted(file.execute(f"SELECT * FROM {name}"), key=repr) for name in names}  # noqa: S608
