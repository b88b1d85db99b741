"""The log: store, lanes, conversations, events, fingerprints."""

from __future__ import annotations

import os
import time

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables, the store's epoch and its lanes (one on SQLite, 16 on servers)."""
    store = op.create_table(
        "toolledger_store",
        sa.Column("id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("epoch", sa.Text, nullable=False),
        sa.Column("lanes", sa.Integer, nullable=False),
        sa.Column("created_at", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="toolledger_store_pk"),
    )
    lanes = op.create_table(
        "toolledger_lanes",
        sa.Column("lane", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("lane", name="toolledger_lanes_pk"),
    )
    op.create_table(
        "toolledger_conversations",
        sa.Column("lane", sa.Integer, nullable=False),
        sa.Column("conversation", sa.Integer, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("conversation_id", sa.Text, nullable=False),
        sa.Column("slice", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("lane", "conversation", name="toolledger_conversations_pk"),
        sa.UniqueConstraint(
            "lane", "tenant", "conversation_id", name="toolledger_conversations_id"
        ),
    )
    op.create_table(
        "toolledger_events",
        sa.Column("lane", sa.Integer, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("conversation", sa.Integer, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("event_id", sa.LargeBinary, nullable=False),
        sa.Column("recorded_at", sa.Integer, nullable=False),
        sa.Column("tag", sa.Text, nullable=False),
        sa.Column("schema", sa.Integer, nullable=False),
        sa.Column("fingerprint", sa.LargeBinary, nullable=True),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("lane", "position", name="toolledger_events_pk"),
        sa.UniqueConstraint("lane", "conversation", "version", name="toolledger_events_version"),
        sa.UniqueConstraint("lane", "conversation", "event_id", name="toolledger_events_id"),
    )
    op.create_table(
        "toolledger_fingerprints",
        sa.Column("lane", sa.Integer, nullable=False),
        sa.Column("fingerprint", sa.LargeBinary, nullable=False),
        sa.Column("conversation", sa.Integer, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint(
            "lane", "fingerprint", "conversation", "version", name="toolledger_fingerprints_pk"
        ),
        sqlite_with_rowid=False,
    )
    count = 1 if op.get_bind().dialect.name == "sqlite" else 16
    op.bulk_insert(
        store,
        [{"id": 1, "epoch": os.urandom(8).hex(), "lanes": count,
          "created_at": time.time_ns() // 1000}],
    )  # fmt: skip
    op.bulk_insert(lanes, [{"lane": lane, "position": 0} for lane in range(count)])


def downgrade() -> None:
    """Drop the log and everything in it."""
    for name in ("fingerprints", "events", "conversations", "lanes", "store"):
        op.drop_table(f"toolledger_{name}")
