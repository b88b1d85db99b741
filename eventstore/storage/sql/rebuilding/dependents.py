"""What others have made of a table, or on it: a table that takes its place would be without it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from eventstore.errors import StorageError

if TYPE_CHECKING:
    from sqlalchemy import Connection

_POSTGRESQL = """\
SELECT pg_describe_object(d.classid, d.objid, 0) FROM pg_depend d
LEFT JOIN pg_constraint k ON d.classid = 'pg_constraint'::regclass AND k.oid = d.objid
LEFT JOIN pg_trigger t ON d.classid = 'pg_trigger'::regclass AND t.oid = d.objid
LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
WHERE d.refclassid = 'pg_class'::regclass AND d.deptype IN ('n', 'a')
AND d.refobjid IN (SELECT to_regclass(name) FROM unnest(ARRAY{names}) AS name)
AND d.classid <> 'pg_attrdef'::regclass AND NOT COALESCE(c.relispartition, false)
AND NOT COALESCE(k.conrelid = d.refobjid AND starts_with(k.conname, 'toolledger_'), false)
AND NOT COALESCE(t.tgisinternal OR starts_with(t.tgname, 'toolledger_'), false)
GROUP BY 1 ORDER BY 1 LIMIT 9"""
"""Asks for views, foreign keys, indexes, triggers, policies and publications of others."""

_MYSQL = """\
SELECT CONCAT('constraint ', constraint_name, ' on table ', table_name)
FROM information_schema.key_column_usage
WHERE (referenced_table_schema = DATABASE() AND referenced_table_name IN ({names}))
OR (table_schema = DATABASE() AND table_name IN ({names}) AND referenced_table_name IS NOT NULL)
UNION SELECT CONCAT('index ', index_name, ' on table ', table_name)
FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name IN ({names})
AND index_name <> 'PRIMARY' AND index_name NOT LIKE 'toolledger%%'
UNION SELECT CONCAT('trigger ', trigger_name, ' on table ', event_object_table)
FROM information_schema.triggers WHERE event_object_schema = DATABASE()
AND event_object_table IN ({names}) AND trigger_name NOT LIKE 'toolledger%%'
ORDER BY 1 LIMIT 9"""
"""Asks for foreign keys, indexes and triggers of others; a view has its tables by their names."""


def refuse_dependents(connection: Connection, names: Iterable[str]) -> None:
    """Refuse to make tables anew that others have built upon.

    Raises:
        StorageError: a view, a foreign key, an index or the like would be lost, or keeps a table.
    """
    if connection.dialect.name == "postgresql":
        asked = _POSTGRESQL.format(names=list(names))
    else:
        asked = _MYSQL.format(names=", ".join(f"'{name}'" for name in names))
    found = [str(what) for (what,) in connection.exec_driver_sql(asked)]
    if found:
        raise StorageError(
            f"tables are to be made anew, and not what others have built upon them: "
            f"{', '.join(found)}; nothing was changed: drop it, and create it again afterwards"
        )
