"""The tables of the materialised projections, in any SQL database.

Every row of a state table belongs to a generation of a projection (the column `projection`) and to
a lane of the log. It is written only in the transaction that advances this lane's checkpoint. Keys
are integers and 16-byte digests, so that no text is ever compared, however long or collated it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BINARY,
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects.mysql import LONGBLOB, LONGTEXT

if TYPE_CHECKING:
    from sqlalchemy.schema import SchemaItem
    from sqlalchemy.types import TypeEngine

FORMAT = 2
"""What the tables hold, and how. Tables of an older format are rebuilt, newer ones left alone."""

USAGE_FORMAT = 3
"""The format of tables that hold usage: a version that knows none must not advance them."""

TABLE_OPTIONS: dict[str, Any] = {
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_bin",
}

metadata = MetaData()


def long_text() -> TypeEngine[str]:
    """Return the type of a text of any length."""
    return Text().with_variant(LONGTEXT(), "mysql", "mariadb")


def long_bytes() -> TypeEngine[bytes]:
    """Return the type of bytes of any length."""
    return LargeBinary().with_variant(LONGBLOB(), "mysql", "mariadb")


def _digest() -> TypeEngine[bytes]:
    return LargeBinary(16).with_variant(BINARY(16), "mysql", "mariadb")


def _integer_key(name: str, kind: type[Integer] = BigInteger) -> Column[int]:
    return Column(name, kind, autoincrement=False, nullable=False)


def _number(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False)


def _text(name: str) -> Column[str]:
    return Column(name, long_text(), nullable=False)


def _hash(name: str) -> Column[bytes]:
    return Column(name, _digest(), nullable=False)


def _state_table(name: str, key: Sequence[str], *columns: SchemaItem) -> Table:
    """Return a table whose rows belong to a lane of a projection; `key` finds a row in the lane."""
    return Table(
        f"toolledger_{name}",
        metadata,
        _integer_key("projection"),
        _integer_key("lane", Integer),
        *columns,
        PrimaryKeyConstraint("projection", "lane", *key, name=f"toolledger_{name}_pk"),
        **TABLE_OPTIONS,
    )


projections = Table(
    "toolledger_projections",
    metadata,
    _integer_key("id"),
    _hash("owner"),
    Column("state", String(32), nullable=False),
    _text("tenant"),
    Column("epoch", String(64), nullable=False),
    Column("format", Integer, nullable=False),
    Column("views", String(64), nullable=False),
    _number("bucket"),
    _number("created_at"),
    PrimaryKeyConstraint("id", name="toolledger_projections_pk"),
    UniqueConstraint("owner", "state", name="toolledger_projections_state"),
    **TABLE_OPTIONS,
)
"""The generations of the projections.

`owner` stands for the log, its tenant and the projection. `state` is "live", "building", or
"retired" and the id. `views` and `bucket` say how the projection was defined.
"""

checkpoints = _state_table(
    "checkpoints",
    (),
    _number("position"),
    _number("revision"),
    _text("totals"),
)
"""How far a lane is projected. Each transaction compares and raises `revision`."""

parked = _state_table(
    "parked",
    ("key",),
    _hash("key"),
    _text("conversation_id"),
    _number("version"),
    _number("position"),
    Column("event_id", String(32), nullable=False),
    _number("recorded_at"),
    _text("tag"),
    _text("problem"),
    _number("waiting"),
)

conversations = _state_table(
    "streams",
    ("key",),
    _hash("key"),
    _text("conversation_id"),
    _number("conversation"),
    _number("version"),
)
"""The conversations; `conversation` numbers them in their lane."""

requests = _state_table(
    "asked",
    ("conversation", "page"),
    _integer_key("conversation"),
    _integer_key("page", Integer),
    Column("marks", long_bytes(), nullable=False),
)
"""The fingerprints that each conversation asked for, 8 bytes of each, page by page."""

calls = _state_table(
    "calls",
    ("position",),
    _integer_key("position"),
    _hash("key"),
    _number("conversation"),
    _text("conversation_id"),
    _text("call_id"),
    _text("tool"),
    Column("status", String(16), nullable=False),
    _number("attempts"),
    Column("fingerprint", String(64), nullable=True),
    Column("imported", Integer, nullable=False),
    Column("requested_at", BigInteger, nullable=True),
    _number("changed_at"),
    _text("body"),
    UniqueConstraint("projection", "lane", "key", name="toolledger_calls_key"),
    Index("toolledger_calls_status", "projection", "status", "lane", "position"),
    Index("toolledger_calls_of", "projection", "lane", "conversation", "position"),
)
"""The current calls; `position` is that of the request, `body` the whole call as JSON.

`imported` is 1 for a call of an imported history, and 2 more for a copy without a step of its own.
"""

open_calls = _state_table(
    "open_calls",
    ("key",),
    _hash("key"),
    _text("body"),
)
"""What the statistics keep of each call that is not resolved."""

COUNTS = (
    "calls",
    "open",
    "attempts",
    "retries",
    "completions",
    "failures",
    "terminal_failures",
    "recovered",
    "rejections",
    "outcome_unknown",
    "repeated",
    "first_tries",
    "first_try_successes",
)
"""The columns that count, named as in `ToolNumbers`."""

tool_statistics = _state_table(
    "tool_statistics",
    ("starts_at", "key"),
    _integer_key("starts_at"),
    _hash("key"),
    _text("tool"),
    *map(_number, COUNTS),
    _text("body"),
)
"""A tool's numbers in one time bucket; `body` has all of them and the durations, as JSON."""

kind_statistics = _state_table(
    "kind_statistics",
    ("starts_at", "kind"),
    _integer_key("starts_at"),
    Column("kind", String(32), nullable=False),
    *map(_number, ("failures", "retried", "recovered", "terminal")),
    _text("body"),
)
"""An error kind's numbers in one time bucket."""

call_statistics = _state_table(
    "call_statistics",
    ("page",),
    _integer_key("page"),
    _text("body"),
)
"""The numbers of each fingerprint, many in one row, because all are read at once."""

usage = _state_table(
    "usage",
    ("key",),
    _hash("key"),
    Column("kind", String(16), nullable=False),
    _text("name"),
    _text("body"),
)
"""What the responses of a conversation, for a model or a tool have cost, as JSON."""

turns = _state_table(
    "turns",
    ("conversation",),
    _integer_key("conversation"),
    _text("body"),
)
"""The last turn of each conversation, for the response that may follow."""

responses = _state_table("responses", ("key",), _hash("key"))
"""The ids of responses that older versions counted. Nothing is added; a rebuild removes them."""

FRAMEWORK_TABLES = (checkpoints, parked)
"""The tables that every projection has rows in. Without its checkpoint no worker adds any."""

CONVERSATION_TABLES = (conversations, requests)
TOOL_TABLES = (calls,)
STATISTICS_TABLES = (open_calls, tool_statistics, kind_statistics, call_statistics)
USAGE_TABLES = (usage, turns, responses)


def lane_columns() -> tuple[Column[int], Column[int]]:
    """Return the columns `projection` and `lane`, the beginning of a table's primary key."""
    return (
        Column("projection", BigInteger, primary_key=True, autoincrement=False),
        Column("lane", Integer, primary_key=True, autoincrement=False),
    )


def key_of(*texts: str) -> bytes:
    """Return 16 bytes that stand for the texts in a key."""
    parts = [text.encode("utf-8", "surrogatepass") for text in texts]
    return blake2b(b"".join(b"%d:%b" % (len(p), p) for p in parts), digest_size=16).digest()


def storable(text: str) -> str:
    """Return `text` as any database can hold it, for people to read: NUL is shown as an escape."""
    if text.isascii() and "\x00" not in text:
        return text
    return text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")
