"""The tables. Every key begins with `lane`, so that they can be partitioned by it.

`conversation` is an integer key, the lane position of the conversation's first event: text
ids would be repeated in every index. `event_ids` has the ids that callers gave, and no others: the
library's own need no index. `chain` is an event's digest, see `eventstore.storage.chain`. On SQLite
the rowid is the position, and the primary key of events is the position alone. `store` has one row
for the store, and after it one for each loss that was accepted, with a mark in place of the epoch.

The same definitions are in `migrations/`; a test holds
the two together on every engine.

Servers compare ids byte for byte, as SQLite does: `COLLATE "C"` on PostgreSQL, a collation without
padding and folding on MariaDB (the migration names it). Their keys have a longest entry, so
there a conversation id has at most 512 characters and a tenant 128.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects import mysql

if TYPE_CHECKING:
    from sqlalchemy.types import TypeEngine

MAX_ID_CHARACTERS = 512
"""Characters of a conversation id on servers; SQLite has no such limit."""

MAX_TENANT_CHARACTERS = 128
"""Characters of a tenant on servers."""

MAX_TAG_CHARACTERS = 64
"""Characters of an event's tag on MariaDB."""

_MYSQL = ("mysql", "mariadb")

metadata = MetaData()


def _name(longest: int) -> TypeEngine[str]:
    text: TypeEngine[str] = Text()
    return text.with_variant(String(longest, collation="C"), "postgresql").with_variant(
        mysql.VARCHAR(longest), *_MYSQL
    )


def _hash(size: int = 16) -> TypeEngine[bytes]:
    return LargeBinary().with_variant(mysql.BINARY(size), *_MYSQL)


def _big() -> TypeEngine[int]:
    return BigInteger().with_variant(Integer(), "sqlite")


def _word() -> TypeEngine[str]:
    return Text().with_variant(mysql.VARCHAR(MAX_TAG_CHARACTERS), *_MYSQL)


store = Table(
    "toolledger_store",
    metadata,
    Column("id", Integer, autoincrement=False, nullable=False),
    Column("epoch", _word(), nullable=False),
    Column("lanes", Integer, nullable=False),
    Column("created_at", _big(), nullable=False),
    Column("digest", _hash(), nullable=True),
    PrimaryKeyConstraint("id", name="toolledger_store_pk"),
)

lanes = Table(
    "toolledger_lanes",
    metadata,
    Column("lane", Integer, autoincrement=False, nullable=False),
    Column("position", _big(), nullable=False),
    PrimaryKeyConstraint("lane", name="toolledger_lanes_pk"),
)

lanes_in_blocks = Table(
    "toolledger_lanes",
    MetaData(),
    Column("lane", Integer, autoincrement=False, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("block", BigInteger, nullable=False, server_default="0"),
    PrimaryKeyConstraint("lane", "block", name="toolledger_lanes_pk"),
)
"""The same on PostgreSQL: see `counter_clauses`."""

conversations = Table(
    "toolledger_conversations",
    metadata,
    Column("lane", Integer, nullable=False),
    Column("conversation", _big(), nullable=False),
    Column("tenant", _name(MAX_TENANT_CHARACTERS), nullable=False),
    Column("conversation_id", _name(MAX_ID_CHARACTERS), nullable=False),
    Column("slice", Integer, nullable=False),
    PrimaryKeyConstraint("lane", "conversation", name="toolledger_conversations_pk"),
    UniqueConstraint("lane", "tenant", "conversation_id", name="toolledger_conversations_id"),
)

events = Table(
    "toolledger_events",
    metadata,
    Column("lane", Integer, nullable=False),
    Column("position", _big(), nullable=False),
    Column("conversation", _big(), nullable=False),
    Column("version", Integer, nullable=False),
    Column("event_id", _hash(), nullable=False),
    Column("recorded_at", _big(), nullable=False),
    Column("occurred_at", _big(), nullable=True),
    Column("tag", _word(), nullable=False),
    Column("schema", Integer, nullable=False),
    Column("fingerprint", _hash(), nullable=True),
    Column("chain", _hash(), nullable=False),
    Column("payload", Text().with_variant(mysql.LONGTEXT(), *_MYSQL), nullable=False),
    Column("salt", _hash(), nullable=True),
    PrimaryKeyConstraint("lane", "position", name="toolledger_events_pk"),
    UniqueConstraint("lane", "conversation", "version", name="toolledger_events_version"),
)

event_ids = Table(
    "toolledger_event_ids",
    metadata,
    Column("lane", Integer, nullable=False),
    Column("conversation", _big(), nullable=False),
    Column("event_id", _hash(), nullable=False),
    Column("version", Integer, nullable=False),
    PrimaryKeyConstraint("lane", "conversation", "event_id", name="toolledger_event_ids_pk"),
    sqlite_with_rowid=False,
)

archives = Table(
    "toolledger_archives",
    metadata,
    Column("lane", Integer, nullable=False),
    Column("conversation", _big(), nullable=False),
    Column("version", Integer, nullable=False),
    Column("archived_at", _big(), nullable=False),
    Column("place", Text(), nullable=False),
    PrimaryKeyConstraint("lane", "conversation", name="toolledger_archives_pk"),
)
"""Each conversation that was archived: up to which version, when, and where its events are."""

subjects = Table(
    "toolledger_subjects",
    metadata,
    Column("lane", Integer, nullable=False),
    Column("subject", _hash(), nullable=False),
    Column("conversation", _big(), nullable=False),
    Column("version", Integer, nullable=False),
    Column("digest", _hash(), nullable=False),
    PrimaryKeyConstraint(
        "lane", "subject", "conversation", "version", name="toolledger_subjects_pk"
    ),
    sqlite_with_rowid=False,
)
"""Which events are about a subject, which a keyed digest stands for; version 0 is all of them.

`digest` covers the other columns, see `eventstore.storage.chain`."""

seals = Table(
    "toolledger_seals",
    metadata,
    Column("lane", Integer, nullable=False),
    Column("previous", _big(), nullable=False),
    Column("size", _big(), nullable=False),
    Column("root", _hash(32), nullable=False),
    Column("edge", LargeBinary(), nullable=False),
    Column("note", Text(), nullable=False),
    PrimaryKeyConstraint("lane", "previous", name="toolledger_seals_pk"),
)
"""The seals of each lane: the size of its tree and of the one before, its root and right edge."""

fingerprints = Table(
    "toolledger_fingerprints",
    metadata,
    Column("lane", Integer, nullable=False),
    Column("fingerprint", _hash(), nullable=False),
    Column("conversation", _big(), nullable=False),
    Column("version", Integer, nullable=False),
    PrimaryKeyConstraint(
        "lane", "fingerprint", "conversation", "version", name="toolledger_fingerprints_pk"
    ),
    sqlite_with_rowid=False,
)


GROWING = frozenset({conversations.name, events.name})
"""The tables in which each new row is behind the others of its lane."""


def metadata_of(dialect: str) -> MetaData:
    """Return the tables as they are on a kind of database."""
    if dialect != "postgresql":
        return metadata
    of_postgresql = MetaData()
    for table in metadata.sorted_tables:
        (lanes_in_blocks if table is lanes else table).to_metadata(of_postgresql)
    return of_postgresql


__all__ = [
    "GROWING",
    "archives",
    "conversations",
    "event_ids",
    "events",
    "fingerprints",
    "lanes",
    "lanes_in_blocks",
    "metadata",
    "metadata_of",
    "seals",
    "store",
    "subjects",
]
