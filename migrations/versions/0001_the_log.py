"""The log: store, lanes, conversations, events, fingerprints."""

from __future__ import annotations

import os
import time
from typing import Any

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.dialects import mysql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
HASH = sa.LargeBinary().with_variant(mysql.BINARY(16), "mysql", "mariadb")
WORD = sa.Text().with_variant(mysql.VARCHAR(64), "mysql", "mariadb")
PAYLOAD = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")


def name(longest: int) -> Any:
    """Return the type of an id: compared byte for byte, limited in length on servers."""
    return (
        sa.Text()
        .with_variant(sa.String(longest, collation="C"), "postgresql")
        .with_variant(mysql.VARCHAR(longest), "mysql", "mariadb")
    )


def options() -> dict[str, Any]:
    """Return options for MariaDB and MySQL: a collation that compares case, accents and blanks."""
    dialect: Any = op.get_bind().dialect
    binary = "utf8mb4_nopad_bin" if getattr(dialect, "is_mariadb", False) else "utf8mb4_0900_bin"
    return {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": binary}


def upgrade() -> None:
    """Create the tables, the store's epoch and its lanes.

    If nothing is said, they are one on SQLite and 16 on servers.
    """
    lanes = op.create_table(
        "toolledger_lanes",
        sa.Column("lane", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("position", BIG, nullable=False),
        sa.PrimaryKeyConstraint("lane", name="toolledger_lanes_pk"),
        **options(),
    )
    op.create_table(
        "toolledger_conversations",
        sa.Column("lane", sa.Integer, nullable=False),
        sa.Column("conversation", BIG, nullable=False),
        sa.Column("tenant", name(128), nullable=False),
        sa.Column("conversation_id", name(512), nullable=False),
        sa.Column("slice", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("lane", "conversation", name="toolledger_conversations_pk"),
        sa.UniqueConstraint(
            "lane", "tenant", "conversation_id", name="toolledger_conversations_id"
        ),
        **options(),
    )
    op.create_table(
        "toolledger_events",
        sa.Column("lane", sa.Integer, nullable=False),
        sa.Column("position", BIG, nullable=False),
        sa.Column("conversation", BIG, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("event_id", HASH, nullable=False),
        sa.Column("recorded_at", BIG, nullable=False),
        sa.Column("tag", WORD, nullable=False),
        sa.Column("schema", sa.Integer, nullable=False),
        sa.Column("fingerprint", HASH, nullable=True),
        sa.Column("digest", HASH, nullable=False),
        sa.Column("payload", PAYLOAD, nullable=False),
        sa.PrimaryKeyConstraint("lane", "position", name="toolledger_events_pk"),
        sa.UniqueConstraint("lane", "conversation", "version", name="toolledger_events_version"),
        sa.UniqueConstraint("lane", "conversation", "event_id", name="toolledger_events_id"),
        **options(),
    )
    op.create_table(
        "toolledger_fingerprints",
        sa.Column("lane", sa.Integer, nullable=False),
        sa.Column("fingerprint", HASH, nullable=False),
        sa.Column("conversation", BIG, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint(
            "lane", "fingerprint", "conversation", "version", name="toolledger_fingerprints_pk"
        ),
        sqlite_with_rowid=False,
        **options(),
    )
    store = op.create_table(
        "toolledger_store",
        sa.Column("id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("epoch", WORD, nullable=False),
        sa.Column("lanes", sa.Integer, nullable=False),
        sa.Column("created_at", BIG, nullable=False),
        sa.PrimaryKeyConstraint("id", name="toolledger_store_pk"),
        **options(),
    )
    usual = 1 if op.get_bind().dialect.name == "sqlite" else 16
    count = context.config.attributes.get("lanes") or usual
    op.bulk_insert(lanes, [{"lane": lane, "position": 0} for lane in range(count)])
    op.bulk_insert(
        store,
        [
            {
                "id": 1,
                "epoch": os.urandom(8).hex(),
                "lanes": count,
                "created_at": time.time_ns() // 1000,
            }
        ],
    )


def downgrade() -> None:
    """Drop the log and everything in it: first the events, so that no part of a log is left."""
    for table in ("events", "fingerprints", "conversations", "lanes", "store"):
        op.drop_table(f"toolledger_{table}")
