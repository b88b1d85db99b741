"""SQLite: many rows in few statements.

Of many rows, `_ROWS` go in a statement; what is left over goes row by row. Gain: a tenth of the CPU
of an append of 1,000 events.

They are inserted OR FAIL: the transaction is rolled back after any error, so that SQLite need not
be able to undo a single statement. It would copy every page that the statement changes into a
temporary file. Gain: some 7 %, and no file.
"""

from __future__ import annotations

from functools import cache
from itertools import chain, islice
from typing import TYPE_CHECKING

from eventstore.storage.sql.log_writer import rows_by_statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine.interfaces import DBAPICursor

    from eventstore.storage.sql.rows import Batch
    from eventstore.storage.sql.statements import Statements

_ROWS = 32


def insert_many_rows(cursor: DBAPICursor, sql: Statements, batches: Sequence[Batch]) -> None:
    """Insert the rows of batches; see `log_writer.Insert`."""
    for statement, rows in rows_by_statement(sql, batches):
        left = iter(rows)
        while len(some := list(islice(left, _ROWS))) == _ROWS:
            cursor.execute(many_rows(statement), list(chain.from_iterable(some)))
        if some:
            cursor.executemany(statement, some)


@cache
def many_rows(statement: str) -> str:
    """Return the INSERT of one row as an INSERT of `_ROWS` rows."""
    begin, row = statement.split(" VALUES ")
    begin = begin.replace("INSERT", "INSERT OR FAIL", 1)
    return f"{begin} VALUES {', '.join([row] * _ROWS)}"
