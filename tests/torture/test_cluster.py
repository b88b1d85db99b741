"""A cluster that fails over while many write, follow and project."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support import tiers
from support.cluster import Machine
from support.storms import Storm

if TYPE_CHECKING:
    from support.cluster import Cluster


def fail_over(cluster: Cluster, storm: Storm) -> None:
    """Kill the primary's PostgreSQL, and wait until another machine has taken its place."""
    primary = cluster.primary()
    primary.kill_postgresql()
    cluster.primary(besides=primary)
    storm.wait_for_appends()
    cluster.wait_until_whole()


def test_a_failover_and_a_switchover_lose_nothing(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """The primary is killed with signal 9, and then an operator takes another one."""
    with Storm(cluster.url) as storm:
        fail_over(cluster, storm)
        cluster.switch_over()
        storm.wait_for_appends()
    tell(capsys, storm)


@pytest.mark.skipif(not tiers.LONG, reason="the long tier runs it: some three minutes")
def test_a_cluster_in_every_distress_loses_nothing(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """PostgreSQL is killed three times; then machines are killed, frozen and cut off."""
    with Storm(cluster.url, busy_timeout=20.0) as storm:
        for _ in range(3):
            fail_over(cluster, storm)
        for begin, end in (
            (Machine.kill, Machine.start),
            (Machine.freeze, Machine.thaw),
            (Machine.unplug, Machine.plug_in),
        ):
            primary = cluster.primary()
            begin(primary)
            cluster.primary(besides=primary)
            storm.wait_for_appends()
            end(primary)
            cluster.wait_until_whole()
            storm.wait_for_appends()
        cluster.switch_over()
        storm.wait_for_appends()
    tell(capsys, storm)


def tell(capsys: pytest.CaptureFixture[str], storm: Storm) -> None:
    """Check what became of a storm, and print a line of it although the test succeeds."""
    line = storm.check()
    with capsys.disabled():
        print(f"\n{line}")
