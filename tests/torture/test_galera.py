"""A Galera cluster that loses nodes while many write to all of them, follow and project."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from support import tiers
from support.storms import Storm

from eventstore import EventStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.galera import Galera, Node


def kill(cluster: Galera, node: Node, storm: Storm) -> None:
    """Kill MariaDB on a node; it joins again when the others have gone on."""
    node.kill_mariadb()
    storm.wait_for_appends()
    node.start()
    cluster.wait_until_whole()


def freeze(cluster: Galera, node: Node, storm: Storm) -> None:
    """Freeze a node until the others have gone on without it."""
    node.freeze()
    storm.wait_for_appends()
    node.thaw()
    cluster.wait_until_whole()


def isolate(cluster: Galera, node: Node, storm: Storm) -> None:
    """Cut a node off from the others until they have gone on; its clients still reach it."""
    others = cluster.others(node)
    node.isolate(others)
    storm.wait_for_appends()
    node.reunite(others)
    cluster.wait_until_whole()


def unplug(cluster: Galera, node: Node, storm: Storm) -> None:
    """Cut a node off from the others and from its clients until the others have gone on."""
    node.unplug()
    storm.wait_for_appends()
    node.plug_in()
    cluster.wait_until_whole()


@contextmanager
def storm_over(cluster: Galera, capsys: pytest.CaptureFixture[str]) -> Iterator[Storm]:
    """Yield a storm over all nodes; at its end, see that each node has the same whole log."""
    url = cluster.database(migrated=True)
    began = time.monotonic()
    with Storm(url, busy_timeout=20.0, nodes=cluster.urls_of_all(url)) as storm:
        yield storm
        storm.wait_for_appends()
    line = f"{storm.appended} appends in {time.monotonic() - began:.0f} s, {storm.check()}"
    cluster.assert_all_have_the_same(url)
    for node in cluster.urls(url):
        with EventStore.open(node) as store:
            assert list(store.verify()) == []
    with capsys.disabled():
        print(f"\n{line}")


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
