"""What happens to the nodes of several masters, and a storm that goes on over it."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from support.storms import Storm

from eventstore import EventStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest
    from support.masters import Masters


def kill(cluster: Masters, node: Any, storm: Storm) -> None:
    """Kill the server of a node; it joins again when the others have gone on."""
    node.crash()
    storm.wait_for_appends()
    node.start()
    cluster.wait_until_whole()


def freeze(cluster: Masters, node: Any, storm: Storm) -> None:
    """Freeze a node until the others have gone on without it."""
    node.freeze()
    storm.wait_for_appends()
    node.thaw()
    cluster.wait_until_whole()


def isolate(cluster: Masters, node: Any, storm: Storm) -> None:
    """Cut a node off from the others until they have gone on; its clients still reach it."""
    others = cluster.others(node)
    node.isolate(others)
    storm.wait_for_appends()
    node.reunite(others)
    cluster.wait_until_whole()


def unplug(cluster: Masters, node: Any, storm: Storm) -> None:
    """Cut a node off from the others and from its clients until the others have gone on."""
    node.unplug()
    storm.wait_for_appends()
    node.plug_in()
    cluster.wait_until_whole()


@contextmanager
def storm_over(cluster: Masters, capsys: pytest.CaptureFixture[str]) -> Iterator[Storm]:
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
