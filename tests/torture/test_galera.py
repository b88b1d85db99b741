"""A Galera cluster that loses nodes while many write to all of them, follow and project."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support import tiers
from support.distress import freeze, isolate, kill, storm_over, unplug

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
