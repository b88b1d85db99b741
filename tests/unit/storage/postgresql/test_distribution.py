"""A log that is distributed over a cluster, and brought back, while others read and write."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import inspect
from support import tiers
from support.migrating import killed_at_distribution

from eventstore import EventStore
from eventstore.errors import StorageError, StoreBusy
from eventstore.migrate import distribute, move, partition, undistribute
from eventstore.storage import brief_locks
from eventstore.storage import migrations as migrate
from eventstore.storage.sql.placement import BY_LANE, EVERYWHERE, placements, problems
from eventstore.storage.sql.rebuilding import driver
from eventstore.storage.sql.schema import metadata_of
from eventstore.testing import message

if TYPE_CHECKING:
    from support.citus import Citus

CONVERSATIONS = tuple(f"chat-{number}" for number in range(7))
EVENTS = 4
ALL = {*(table.name for table in BY_LANE), *EVERYWHERE}
LEFT = ("_new", "_noted", "_rebuild")
BROKEN_OFF = (
    "a move of the tables was broken off, and each append notes what it changes for it: run "
    "`toolledger migrate --distribute` again, or with --undistribute"
)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy few rows at a time, so that a small log has many batches."""
    monkeypatch.setattr(driver, "BATCH_ROWS", 5)
    monkeypatch.setattr(driver, "FEW_ROWS", 3)


@pytest.fixture
def url(citus: Citus) -> str:
    """Return the URL of a log on the coordinator of a cluster."""
    url = citus.url(citus.database())
    with EventStore.open(url) as store:
        for name in CONVERSATIONS:
            store.conversation(name).append(*(message(f"{n}") for n in range(EVENTS)))
    return url


def placed(citus: Citus, url: str) -> set[str]:
    """Return the tables that Citus knows of; nothing is wrong with their places."""
    with citus.connected(url) as connection:

        def ask(statement: str) -> list[Any]:
            return connection.exec_driver_sql(statement).fetchall()

        assert problems(ask) == []
        return set(placements(ask))


def left_over(citus: Citus, url: str) -> list[str]:
    """Return what of a move is there: tables and functions; the schema is as it should be."""
    with citus.connected(url) as connection:
        options = {"version_table": migrate.VERSION_TABLE, "compare_type": True}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, metadata_of("postgresql")) == []
        keys = "SELECT conname FROM pg_constraint WHERE conname LIKE '%%_new'"
        functions = "SELECT proname FROM pg_proc WHERE proname LIKE 'toolledger%%'"
        return [
            *(each for each in inspect(connection).get_table_names() if each.endswith(LEFT)),
            *connection.exec_driver_sql(keys).scalars(),
            *connection.exec_driver_sql(functions).scalars(),
        ]


def versions(url: str) -> dict[str, int]:
    """Return the conversations of a sound log, and how many events they have."""
    with EventStore.open(url, create=False) as store:
        assert list(store.verify()) == []
        return dict(store.conversations())


def test_a_log_is_distributed_and_brought_back(citus: Citus, url: str) -> None:
    """Nothing that others write meanwhile is missed; again is harmless."""
    expected = dict.fromkeys(CONVERSATIONS, EVENTS)
    with EventStore.open(url) as store:

        def change() -> None:
            store.redact("chat-1", by="ann", versions=[1])
            for name in ("chat-0", "chat-3", "new"):
                store.conversation(name).append(
                    *map(message, "abcdefg"), event_ids=[os.urandom(16) for _ in range(7)]
                )
                expected[name] = expected.get(name, 0) + 7

        assert distribute(url, progress=once(change))
        assert list(store.verify()) == []
        for name in ("chat-0", "new") * 3:
            store.conversation(name).append(message("after"))
            expected[name] += 1
    assert expected["new"] == 10
    expected["chat-1"] += 1
    assert placed(citus, url) == ALL
    assert left_over(citus, url) == []
    assert versions(url) == expected
    assert not distribute(url)
    seen: list[int] = []

    def look(done: int, total: int) -> None:
        assert done <= total == sum(expected.values())
        with citus.connected(url) as connection:
            asked = "SELECT count(*) FROM toolledger_events"
            seen.append(connection.exec_driver_sql(asked).scalar_one())

    assert undistribute(url, look)
    assert set(seen) == {sum(expected.values())}
    assert placed(citus, url) == set()
    assert left_over(citus, url) == []
    assert versions(url) == expected
    assert not undistribute(url)


def once(change: Callable[[], object]) -> Callable[[int, int], object]:
    """Return a progress that makes a change after the first batch of events, and not again."""
    left = [change]
    return lambda _done, _total: left and left.pop()()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*a move of the tables was broken off")
def test_a_move_that_is_killed_is_made_by_the_next_one(citus: Citus, url: str) -> None:
    """Whichever change was next: the log is whole and in use; the next run begins anew."""
    expected = dict.fromkeys(CONVERSATIONS, EVENTS)
    for after in count(0, 17 if tiers.LONG else 83):
        died = killed_at_distribution(url, after)
        if not died:
            break
        with EventStore.open(url) as store:
            store.conversation("chat-1").append(message("more"))
            expected["chat-1"] += 1
            assert {each.problem for each in store.verify()} <= {BROKEN_OFF}
    assert after > 200  # there were so many changes
    assert placed(citus, url) == ALL
    assert left_over(citus, url) == []
    assert versions(url) == expected


def test_a_move_that_was_broken_off_is_named(citus: Citus, url: str) -> None:
    """By `verify` and a warning; an upgrade tidies up."""
    killed_at_distribution(url, 100)
    with pytest.warns(RuntimeWarning, match="was broken off"), EventStore.open(url) as store:
        assert [each.problem for each in store.verify()] == [BROKEN_OFF]
    move(url)
    assert left_over(citus, url) == []
    assert placed(citus, url) == set(EVERYWHERE)
    assert versions(url) == dict.fromkeys(CONVERSATIONS, EVENTS)


def test_a_reader_at_another_node_is_not_kept_waiting(
    citus: Citus, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its long transaction makes the way back give up; others read meanwhile."""
    monkeypatch.setattr(brief_locks, "TRIES", 1)
    distribute(url)
    database = url.rpartition("/")[2]
    with citus.connected(citus.url(database, 1)) as sitting:
        sitting.exec_driver_sql("BEGIN")
        sitting.exec_driver_sql("SELECT COUNT(*) FROM toolledger_events").fetchall()
        with pytest.raises(StoreBusy, match="in use"):
            undistribute(url)
        sitting.exec_driver_sql("ROLLBACK")
    assert placed(citus, url) == ALL
    assert versions(url) == dict.fromkeys(CONVERSATIONS, EVENTS)


def test_a_log_that_is_half_distributed_is_made_whole(citus: Citus, url: str) -> None:
    """Tables at their place stay, others come to them; one that is by itself is moved."""
    distribute(url)
    with citus.connected(url) as connection:
        for statement in (
            "SELECT undistribute_table('toolledger_seals')",
            "SELECT undistribute_table('toolledger_store')",
            "SELECT alter_distributed_table('toolledger_events', colocate_with := 'none')",
        ):
            connection.exec_driver_sql(statement).fetchall()
    assert distribute(url)
    assert placed(citus, url) == ALL
    assert left_over(citus, url) == []
    assert versions(url) == dict.fromkeys(CONVERSATIONS, EVENTS)


def test_a_store_that_cannot_be_distributed_is_refused(citus: Citus, url: str) -> None:
    """One clear error; nothing is changed."""
    partition(url, 2)
    with pytest.raises(StorageError, match="--partitions 1` first"):
        distribute(url)
    partition(url, 1)
    with pytest.raises(ValueError, match="shards is 0: pass 1 to 1024"):
        distribute(url, 0)
    distribute(url, 5)
    shards = "SELECT count(*) FROM pg_dist_shard WHERE logicalrelid = 'toolledger_lanes'::regclass"
    assert citus.execute(shards, database=url)[0][0] == 5
    assert not distribute(url, 5)
    with pytest.raises(ValueError, match="shards is 7: the tables have 5 already"):
        distribute(url, 7)
    with pytest.raises(StorageError, match="the tables are distributed"):
        partition(url, 2)
    with pytest.raises(StorageError, match="--undistribute` first"):
        move(url, "0001")
    with pytest.raises(StorageError, match="this is a worker of a Citus cluster"):
        undistribute(citus.url(url.rpartition("/")[2], 1))
    assert placed(citus, url) == ALL
