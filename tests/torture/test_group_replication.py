"""A group of MySQL servers that loses members while many write, follow and project."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support import tiers
from support.distress import freeze, isolate, kill, storm_over, unplug

if TYPE_CHECKING:
    from support.group_replication import Group


def test_a_storm_over_a_group_that_loses_its_primary_loses_nothing(
    own_group: Group, capsys: pytest.CaptureFixture[str]
) -> None:
    """The one member that takes writes is killed, and another becomes it by an operator's word."""
    with storm_over(own_group, capsys) as storm:
        kill(own_group, own_group.primary(), storm)
        next_one = own_group.others(own_group.primary())[0]
        server = next_one.variable("server_uuid")
        next_one.asked(f"SELECT group_replication_set_as_primary('{server}')")
        own_group.wait("another primary", lambda: next_one.takes_writes)
        storm.wait_for_appends()


@pytest.mark.skipif(not tiers.LONG, reason="the long tier runs it: some ten minutes")
def test_a_storm_over_many_primaries_in_every_distress_loses_nothing(
    own_group: Group, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each member is killed, frozen, isolated and unplugged; then all die at once, three times."""
    own_group.let_all_write()
    with storm_over(own_group, capsys) as storm:
        for node in own_group.nodes:
            for distress in (kill, freeze, isolate, unplug):
                distress(own_group, node, storm)
        for _ in range(3):
            own_group.kill()
            own_group.restart()
            storm.wait_for_appends()
