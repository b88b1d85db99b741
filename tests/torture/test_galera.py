"""A Galera cluster that loses nodes while many write to all of them, follow and project."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from support.galera import Node
from support.storms import Storm

from eventstore import EventStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.galera import Galera


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


@contextmanager
def storm_over(cluster: Galera, capsys: pytest.CaptureFixture[str]) -> Iterator[Storm]:
    """Yield a storm over all nodes; at its end, see that each node has the same whole log."""
    url = cluster.database(migrated=True)
    nodes = cluster.urls(url)
    with Storm(url, busy_timeout=20.0, nodes=nodes) as storm:
        yield storm
        storm.wait_for_appends()
    line = storm.check()
    cluster.assert_all_have_the_same(url)
    for node in nodes:
        with EventStore.open(node) as store:
            assert list(store.verify()) == []
    with capsys.disabled():
        print(f"\n{storm.appended} appends, {line}")


def test_a_storm_over_a_cluster_that_loses_nodes_loses_nothing(
    own_galera: Galera, capsys: pytest.CaptureFixture[str]
) -> None:
    """One node is killed with signal 9, one is frozen, and one is cut off from the others."""
    first, second, third = own_galera.nodes
    with storm_over(own_galera, capsys) as storm:
        kill(own_galera, first, storm)
        freeze(own_galera, second, storm)
        isolate(own_galera, third, storm)
