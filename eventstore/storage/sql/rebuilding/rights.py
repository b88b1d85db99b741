"""What a PostgreSQL table has besides its rows and keys: owner, options, grants, comments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import Connection


def rights(connection: Connection, of: str, to: str) -> Iterator[str]:
    """Yield the statements that give a table what another one has besides rows and keys."""
    quote = connection.dialect.identifier_preparer.quote
    run = connection.exec_driver_sql
    owner = run(
        f"SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = to_regclass('{of}')"
    ).scalar_one()
    yield f"ALTER TABLE {to} OWNER TO {quote(owner)}"
    options = run(
        "SELECT array_to_string(c.reloptions, ', ') FROM pg_class c, pg_class n WHERE c.oid = "
        f"to_regclass('{of}') AND n.oid = to_regclass('{to}') AND n.relkind = 'r'"
    ).scalar()  # a partitioned table has none
    if options:
        yield f"ALTER TABLE {to} SET ({options})"
    granted = run(
        "SELECT grantee, privilege_type FROM information_schema.table_privileges "
        f"WHERE table_schema = current_schema() AND table_name = '{of}'"
    ).fetchall()
    for grantee, privilege in granted:
        role = "PUBLIC" if grantee == "PUBLIC" else quote(grantee)
        yield f"GRANT {privilege} ON {to} TO {role}"
    comments = run(
        "SELECT quote_literal(description), attname FROM pg_description "
        "LEFT JOIN pg_attribute ON attrelid = objoid AND attnum = objsubid AND attnum > 0 "
        f"WHERE classoid = 'pg_class'::regclass AND objoid = to_regclass('{of}')"
    ).fetchall()
    there = {
        name
        for (name,) in run(
            f"SELECT attname FROM pg_attribute WHERE attrelid = to_regclass('{to}') AND attnum > 0"
        )
    }
    for comment, column in comments:
        text = comment.replace("%", "%%")
        if column is None:
            yield f"COMMENT ON TABLE {to} IS {text}"
        elif column in there:
            yield f"COMMENT ON COLUMN {to}.{quote(column)} IS {text}"
