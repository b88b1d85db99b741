"""Blocks of positions on PostgreSQL, by which the newest version of a lane's counter is found.

1. The counters get a column, and their key ends with it; see
   `eventstore.storage.sql.counter_clauses`. Other databases are as before.
2. There is a row for each lane, and none is rewritten: the table is locked for a moment.
3. No process has to end: one that has revision 0003 open reads and appends as before.
"""

from __future__ import annotations

from alembic import op

from eventstore.storage.brief_locks import tried_briefly

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

LANES, KEY = "toolledger_lanes", "toolledger_lanes_pk"


def upgrade() -> None:
    """Add the column, and take it into the key."""
    change("ADD COLUMN block BIGINT NOT NULL DEFAULT 0", "lane, block")


def downgrade() -> None:
    """Take the column out again."""
    change("DROP COLUMN block", "lane")


def change(column: str, key: str) -> None:
    """Change the column and the key of the counters on PostgreSQL, under one lock.

    Where the table is distributed, each change is a statement of its own.
    """
    connection = op.get_bind()
    steps = f"DROP CONSTRAINT {KEY}", column, f"ADD CONSTRAINT {KEY} PRIMARY KEY ({key})"

    def change_all() -> None:
        for step in steps:
            connection.exec_driver_sql(f"ALTER TABLE {LANES} {step}")

    if connection.dialect.name == "postgresql":
        tried_briefly(connection, change_all, locks=(LANES,))
