"""PostgreSQL: every read uses an index, however little the server knows of the tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from eventstore import EventStore
from eventstore.testing import message

if TYPE_CHECKING:
    from support.servers import PostgreSQL

LONG = 3000
"""Events of each conversation."""


@pytest.fixture(params=["never looked at", "looked at when small", "looked at"])
def storage(postgresql: PostgreSQL, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Return a storage with three long conversations.

    The server has no statistics of its tables.
    """
    url = postgresql.database(migrated=True)
    tables = "toolledger_events, toolledger_conversations, toolledger_fingerprints"
    for table in tables.split(", "):  # it would look at them by itself, sooner or later
        postgresql.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)", database=url)
    with EventStore.open(url) as store:
        for name in ("a", "b", "c"):
            store.conversation(name).append(message())
        if request.param == "looked at when small":
            postgresql.execute(f"ANALYZE {tables}", database=url)
        for _ in range(3):
            for name in ("a", "b", "c"):
                store.conversation(name).append(*[message("x" * 200)] * (LONG // 3))
        if request.param == "looked at":
            postgresql.execute(f"ANALYZE {tables}", database=url)
        yield store.session.storage


def plan(storage: Any, statement: str, *parameters: Any) -> str:
    """Return the server's plan for a statement, on a connection of the storage."""
    with storage.connections.cursor() as cursor:
        cursor.execute("EXPLAIN (ANALYZE, COSTS OFF) " + statement, parameters or None)
        return "\n".join(line for (line,) in cursor.fetchall())


def test_a_page_of_a_conversation_is_read_by_itself(storage: Any) -> None:
    """A page does not read the whole conversation, also beside an event that was seen."""
    lane, key = storage.log.keys.known["a"]
    sql, seen = storage.log.sql, (lane, *storage.log.seen.furthest[lane])
    named = lane, lane, "", "a", LONG - 500, 1000
    for statement in (
        plan(storage, sql.tail, lane, key, LONG - 500),
        plan(storage, sql.conversation, lane, key, LONG - 500, 1000),
        plan(storage, sql.conversation_known, *seen, lane, key, LONG - 500, 1000),
        plan(storage, sql.named, *named),
        plan(storage, sql.named_known, *seen, *named),
    ):
        assert "toolledger_events_version" in statement
        assert "Removed" not in statement
        assert "Sort" not in statement


def test_a_page_of_the_feed_is_read_in_its_order(storage: Any) -> None:
    """The plan has no sort."""
    lane, _ = storage.log.keys.known["a"]
    sql, seen = storage.log.sql, (lane, *storage.log.seen.furthest[lane])
    for found in (
        plan(storage, sql.feed, lane, LONG - 500, 1000),
        plan(storage, sql.feed_known, *seen, lane, LONG - 500, 1000),
    ):
        assert "toolledger_events_pk" in found
        assert "Sort" not in found


def test_names_and_last_versions_are_looked_up(storage: Any) -> None:
    """No table is scanned for one row."""
    lane, key = storage.log.keys.known["a"]
    sql, seen = storage.log.sql, (lane, *storage.log.seen.furthest[lane])
    plans = [
        plan(storage, sql.find, lane, "", "a"),
        plan(storage, sql.names_beside([key]), *seen, lane, key),
        plan(storage, sql.versions_of("a"), lane, lane, "", "a"),
        plan(storage, sql.versions(storage.log.keys.known.values(), apart=False)),
        plan(storage, sql.known, lane, key, b"-" * 16),
        plan(storage, sql.fingerprint, lane, b"-" * 16),
    ]
    for found in plans:
        assert "Index" in found
        assert "Seq Scan" not in found
    assert "Backward using toolledger_events_version" in plans[2]
