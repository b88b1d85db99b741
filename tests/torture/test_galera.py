"""A Galera cluster that loses nodes: what was told, what was seen, and a storm that goes on."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from support import tiers
from support.distress import freeze, isolate, kill, storm_over, unplug

from eventstore import EventStore, StoreCorrupt
from eventstore.storage.factory import open_storage
from eventstore.storage.sql.storage import SqlStorage
from eventstore.testing import append, message

if TYPE_CHECKING:
    from support.galera import Galera


def test_a_storm_over_a_cluster_that_loses_nodes_loses_nothing(
    own_galera: Galera, capsys: pytest.CaptureFixture[str]
) -> None:
    """One node is killed with signal 9, one is frozen, and one is cut off from the others."""
    first, second, third = own_galera.nodes
    with storm_over(own_galera, capsys) as storm:
        kill(own_galera, first, storm)
        freeze(own_galera, second, storm)
        isolate(own_galera, third, storm)


@pytest.mark.skipif(not tiers.LONG, reason="the long tier runs it: some ten minutes")
def test_a_storm_over_a_cluster_in_every_distress_loses_nothing(
    own_galera: Galera, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each node is killed, frozen, isolated and unplugged; then all die at once, three times."""
    with storm_over(own_galera, capsys) as storm:
        for node in own_galera.nodes:
            for distress in (kill, freeze, isolate, unplug):
                distress(own_galera, node, storm)
        for _ in range(3):
            own_galera.kill()
            own_galera.restart()
            storm.wait_for_appends()


@pytest.mark.parametrize("took_place", [True, False])
def test_a_commit_whose_node_dies_is_looked_up_on_another(
    own_galera: Galera, monkeypatch: pytest.MonkeyPatch, took_place: bool
) -> None:
    """The append is stored once, whether it took place before the node was killed or not."""
    url = own_galera.database(migrated=True)
    first, second, third = own_galera.nodes
    with closing(open_storage(own_galera.urls_of_all(url)[0], "", "full", 60.0)) as storage:
        assert isinstance(storage, SqlStorage)
        append(storage, "chat", message("a"))
        commits: list[str] = []

        def commit(cursor: Any, statement: str) -> None:
            commits.append(statement)
            if took_place or len(commits) > 1:
                cursor.execute(statement)
            if len(commits) == 1:
                first.crash()
                cursor.execute(statement)  # there is no answer

        monkeypatch.setattr(storage, "_commit", commit)
        append(storage, "chat", message("b"), version=1)
        assert len(commits) == (1 if took_place else 2)
    first.start()
    own_galera.wait_until_whole()
    own_galera.assert_all_have_the_same(url)
    for node in (first, second, third):
        with closing(open_storage(node.url(url), "", "full", 30.0)) as storage:
            assert [each.position for each in storage.feed({})] == [1, 2]


def test_events_that_were_seen_are_there_after_all_nodes_have_died(own_galera: Galera) -> None:
    """Each event was read from another node than the one that it was appended to."""
    url = own_galera.database(migrated=True)
    seen = []
    stores = [EventStore.open(each) for each in own_galera.urls(url)]
    for number in range(30):
        stores[number % 3].conversation(f"chat-{number}").append(message("so"))
        seen = [each.event_id for each in stores[(number + 1) % 3].read()]
    own_galera.kill()
    for store in stores:
        store.close()
    own_galera.restart()
    for each in own_galera.urls(url):
        with EventStore.open(each) as store:
            assert [each.event_id for each in store.read()] == seen
            assert list(store.verify()) == []


def test_nodes_that_do_not_wait_for_the_disk_lose_the_end_and_warn_of_it(
    own_galera: Galera,
) -> None:
    """`open` names the setting; who has seen more than there is raises, and nobody guesses."""
    url = own_galera.database(migrated=True)
    for node in own_galera.nodes:
        node.asked(
            "SET GLOBAL innodb_flush_log_at_trx_commit = 0",
            "SET GLOBAL innodb_flush_log_at_timeout = 2700",  # the log stays in memory
        )
    weak = r"innodb_flush_log_at_trx_commit is 0: what was appended last may be lost.*set it to 1"
    with pytest.warns(RuntimeWarning, match=weak):
        store = EventStore.open(own_galera.urls_of_all(url)[1])
    with store:
        for _ in range(10):
            store.conversation("chat").append(message("so"))
        own_galera.kill()
        own_galera.restart()
        there = len(list(store.read()))
        assert there < 10
        with pytest.raises(StoreCorrupt, match="accept-loss"):
            store.conversation("chat").append(message("so"))
    own_galera.assert_all_have_the_same(url)
    with EventStore.open(url) as store:
        assert [each.position for each in store.read()] == list(range(1, there + 1))
        assert list(store.verify()) == []
