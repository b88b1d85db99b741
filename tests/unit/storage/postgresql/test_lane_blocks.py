"""PostgreSQL: the newest version of a lane's counter is found, however many older ones are kept."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from golden.dumps import load
from sqlalchemy import create_engine, text
from support.storages import sql_storage_of

from eventstore import EventStore
from eventstore.migrate import move
from eventstore.storage.sql import lane_heads
from eventstore.storage.sql.counter_clauses import BLOCK_EVENTS, EVERY_COUNTER, newest_counters
from eventstore.testing import message

if TYPE_CHECKING:
    from support.servers import PostgreSQL

LOG_0003 = Path(__file__).parents[3] / "data" / "logs" / "postgresql-0003.sql"
"""What pg_dump 18 gave of a log that 872d5cb wrote: 73 events in two conversations."""

MANY = 3000
"""Versions of a counter's row: they take twenty pages of the table."""


@pytest.fixture
def url(postgresql: PostgreSQL) -> str:
    """Return the URL of a database with a store."""
    return postgresql.database(migrated=True)


@contextmanager
def old_snapshot(url: str) -> Iterator[None]:
    """Keep a transaction open that may still see every row as it is now."""
    engine = create_engine(url, isolation_level="REPEATABLE READ")
    with engine.connect() as connection:
        connection.execute(text("SELECT count(*) FROM toolledger_store")).all()
        yield
    engine.dispose()


def pages(storage: Any, statement: str) -> int:
    """Return how many pages a statement looks at, however often, with planning."""
    with storage.connections.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) {statement}")
        plan = "\n".join(line for (line,) in cursor.fetchall())
    return int(re.findall(r"Buffers: shared hit=([0-9]+)", plan)[0])


def counters(postgresql: PostgreSQL, url: str) -> dict[int, tuple[int, int]]:
    """Return the positions and the blocks of the lanes in use."""
    rows = postgresql.execute(
        "SELECT lane, position, block FROM toolledger_lanes WHERE position > 0", database=url
    )
    return {lane: (position, block) for lane, position, block in rows}


def test_lookups_do_not_read_versions_that_an_old_snapshot_keeps(url: str) -> None:
    """A poll and the statement of an append look at as few pages as before."""
    with EventStore.open(url, durability="normal") as store:
        chat, storage = store.conversation("chat"), sql_storage_of(store)
        chat.append(message())
        lane = storage.lane_of("chat")
        place = {lane: 1}

        def looked_at() -> list[int]:
            block = chat.version // BLOCK_EVENTS
            where = f"lane = {lane} AND block >= {block}"
            statements = (
                newest_counters(16),
                storage.log.sql.heads([lane], place, whole=False),
                storage.log.sql.heads([lane, (lane + 1) % 16], place, whole=False),
                f"UPDATE toolledger_lanes SET position = position WHERE {where}",  # noqa: S608
            )
            return [pages(storage, statement) for statement in statements]

        before = looked_at()
        with old_snapshot(url):
            for _ in range(MANY):
                chat.append(message())
            after = looked_at()
            whole = pages(storage, "SELECT position FROM toolledger_lanes")
            assert whole > 18  # the versions are there
            for few, many in zip(after, before, strict=True):
                assert few <= many + 8
        assert storage.heads()[lane] == MANY + 1


def test_a_poll_reads_the_newest_counters_alone_once_there_are_many_versions(url: str) -> None:
    """All rows are read before, and again after the table is small again."""
    with EventStore.open(url, durability="normal") as store:
        chat, storage = store.conversation("chat"), sql_storage_of(store)
        heads = lane_heads.LaneHeads(storage.log)

        def polled() -> str:
            asked = heads._statement
            assert heads.read() == storage.heads()
            return asked

        chat.append(message())
        assert {polled() for _ in range(lane_heads.FIRST_LOOK + 1)} == {EVERY_COUNTER}
        with old_snapshot(url):
            for _ in range(MANY):
                chat.append(message())
            assert [polled(), polled()] == [EVERY_COUNTER, newest_counters(16)]
            assert heads.read()[storage.lane_of("chat")] == MANY + 1
            assert len(heads.read()) == 16
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text("VACUUM FULL toolledger_lanes"))
        engine.dispose()
        asked = [polled() for _ in range(lane_heads.LOOK_EVERY)]
        assert (asked[0], asked[-1]) == (newest_counters(16), EVERY_COUNTER)


@pytest.mark.parametrize("several", [False, True])
def test_the_block_of_a_counter_follows_its_position(
    postgresql: PostgreSQL, url: str, *, several: bool
) -> None:
    """By one statement for an event, and by a transaction for many."""
    with EventStore.open(url) as store:
        chat = store.conversation("chat")
        lane = store.session.storage.lane_of("chat")
        for _ in range(4 if several else BLOCK_EVENTS * 2 + 1):
            chat.append(*[message()] * (BLOCK_EVENTS - 1 if several else 1))
            position = chat.version
            assert store.session.storage.heads()[lane] == position
            assert counters(postgresql, url) == {lane: (position, position // BLOCK_EVENTS)}
        assert list(store.verify()) == []


def test_a_process_of_revision_0003_leaves_the_block_behind(
    postgresql: PostgreSQL, url: str
) -> None:
    """Such a one moves the position alone; the next append of this version mends the block."""
    with EventStore.open(url) as store:
        chat, storage = store.conversation("chat"), store.session.storage
        lane = storage.lane_of("chat")
        chat.append(*[message()] * (BLOCK_EVENTS * 3))
        postgresql.execute("UPDATE toolledger_lanes SET block = 0", database=url)
        with EventStore.open(url) as later:
            assert later.session.storage.heads()[lane] == BLOCK_EVENTS * 3
            later.conversation("chat").append(message())
        assert counters(postgresql, url) == {lane: (BLOCK_EVENTS * 3 + 1, 3)}
        chat.append(message())
        assert chat.version == BLOCK_EVENTS * 3 + 2
        assert list(store.verify()) == []


def test_a_host_s_transaction_moves_the_block(postgresql: PostgreSQL, url: str) -> None:
    """As the store's own transactions do."""
    engine = create_engine(url)
    with EventStore.open(url) as store:
        chat = store.conversation("chat")
        chat.append(*[message()] * (BLOCK_EVENTS - 1))
        for _ in range(2):
            with engine.begin() as connection:
                host = store.conversation("chat", connection=connection)
                host.append(message(), message())
        lane = store.session.storage.lane_of("chat")
        assert counters(postgresql, url) == {lane: (BLOCK_EVENTS + 3, 1)}
        assert list(store.verify()) == []
    engine.dispose()


def test_two_heads_of_a_lane_are_damage(postgresql: PostgreSQL, url: str) -> None:
    """As after a restore into tables that were there; the further one is read."""
    with EventStore.open(url) as store:
        store.conversation("chat").append(message())
        lane = store.session.storage.lane_of("chat")
        postgresql.execute(
            f"INSERT INTO toolledger_lanes (lane, position, block) VALUES ({lane}, 700, 10)",  # noqa: S608
            database=url,
        )
        problems = [found.problem for found in store.verify()]
    assert "the lane has two heads, 1 and 700" in problems


def test_the_blocks_come_and_go_with_data(postgresql: PostgreSQL, url: str) -> None:
    """A log goes down to 0003 and up again, and a store that stays open appends throughout."""
    with EventStore.open(url) as store:
        chat = store.conversation("chat")
        chat.append(*[message()] * (BLOCK_EVENTS * 2))
    keyed = (
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'toolledger_lanes_pk'"
    )
    assert move(url, "0003") == ("0004", "0003")
    assert postgresql.execute(keyed, database=url) == [("PRIMARY KEY (lane)",)]
    assert move(url) == ("0003", "0004")
    assert postgresql.execute(keyed, database=url) == [("PRIMARY KEY (lane, block)",)]
    with EventStore.open(url) as store:
        lane = store.session.storage.lane_of("chat")
        store.conversation("chat").append(message())
        assert counters(postgresql, url) == {lane: (BLOCK_EVENTS * 2 + 1, 2)}
        assert list(store.verify()) == []


def test_a_log_that_a_process_of_revision_0003_wrote(postgresql: PostgreSQL) -> None:
    """The log is read whole, and each lane's block is right from its next append on."""
    url = postgresql.database()
    load(LOG_0003.read_text("utf-8"), url)
    with EventStore.open(url) as store:
        chat, other = store.conversation("chat"), store.conversation("other")
        texts = [text.text for r in chat.events() for text in getattr(r.event, "parts", ())]
        assert texts == [f"chat {number}" for number in range(70)]
        (tool,) = chat.tools.values()
        assert (tool.call.name, tool.call.arguments) == ("pay", {"order": 7})
        assert (chat.version, other.version) == (71, 2)
        assert list(store.verify()) == []
        lanes = [store.session.storage.lane_of(name) for name in ("chat", "other")]
        assert counters(postgresql, url) == dict(zip(lanes, [(71, 0), (2, 0)], strict=True))
        chat.append(message(), message())
        other.append(message())
        assert counters(postgresql, url) == dict(zip(lanes, [(73, 1), (3, 0)], strict=True))
        assert list(store.verify()) == []
