"""The tables. Every key begins with `lane`, so that they can be partitioned by it.

`conversation` is an integer key, the lane position of the conversation's first event: text
ids would be repeated in every index. The same definitions are in `migrations/`; a test holds
the two together.
"""

from __future__ import annotations

from sqlalchemy import (
    Column,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()

store = Table(
    "toolledger_store",
    metadata,
    Column("id", Integer, autoincrement=False, nullable=False),
    Column("epoch", Text, nullable=False),
    Column("lanes", Integer, nullable=False),
    Column("created_at", Integer, nullable=False),
    PrimaryKeyConstraint("id", name="toolledger_store_pk"),
)

lanes = Table(
    "toolledger_lanes",
    metadata,
    Column("lane", Integer, autoincrement=False, nullable=False),
    Column("position", Integer, nullable=False),
    PrimaryKeyConstraint("lane", name="toolledger_lanes_pk"),
)

conversations = Table(
    "toolledger_conversations",
    metadata,
    Column("lane", Integer, nullable=False),
    Column("conversation", Integer, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("conversation_id", Text, nullable=False),
    Column("slice", Integer, nullable=False),
    PrimaryKeyConstraint("lane", "conversation", name="toolledger_conversations_pk"),
    UniqueConstraint("lane", "tenant", "conversation_id", name="toolledger_conversations_id"),
)

events = Table(
    "toolledger_events",
    metadata,
    Column("lane", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Column("conversation", Integer, nullable=False),
    Column("version", Integer, nullable=False),
    Column("event_id", LargeBinary, nullable=False),
    Column("recorded_at", Integer, nullable=False),
    Column("tag", Text, nullable=False),
    Column("schema", Integer, nullable=False),
    Column("fingerprint", LargeBinary, nullable=True),
    Column("digest", LargeBinary, nullable=False),
    Column("payload", Text, nullable=False),
    PrimaryKeyConstraint("lane", "position", name="toolledger_events_pk"),
    UniqueConstraint("lane", "conversation", "version", name="toolledger_events_version"),
    UniqueConstraint("lane", "conversation", "event_id", name="toolledger_events_id"),
)

fingerprints = Table(
    "toolledger_fingerprints",
    metadata,
    Column("lane", Integer, nullable=False),
    Column("fingerprint", LargeBinary, nullable=False),
    Column("conversation", Integer, nullable=False),
    Column("version", Integer, nullable=False),
    PrimaryKeyConstraint(
        "lane", "fingerprint", "conversation", "version", name="toolledger_fingerprints_pk"
    ),
    sqlite_with_rowid=False,
)

__all__ = ["conversations", "events", "fingerprints", "lanes", "metadata", "store"]
