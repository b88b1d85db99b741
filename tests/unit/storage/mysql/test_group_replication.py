"""MySQL's group replication: which member is used, who is refused, what is looked up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pymysql
import pytest

from eventstore import EventStore
from eventstore.errors import StoreBusy, StoreReadOnly
from eventstore.storage.clusters import FENCE, GROUP_REPLICATION, Standing, Use, runner, standing
from eventstore.storage.factory import backend_for, open_storage
from eventstore.storage.sql.storage import SqlStorage
from eventstore.testing import append, message

if TYPE_CHECKING:
    from support.group_replication import Group, Member


def stands(member: Member, **options: bool) -> Standing:
    """Return what a member says of itself to a user without rights to that."""
    connection = pymysql.connect(host=member.address, user="plain", ssl_disabled=True)
    try:
        return standing(runner(connection), **options)
    finally:
        connection.close()


def several(group: Group, url: str, *nodes: Member) -> str:
    """Return the URL with some members, or all."""
    hosts = [node.address for node in nodes or group.nodes]
    return url.replace(f"{group.addresses[0]}:3306", ",".join(hosts), 1)


def test_a_group_has_one_primary_and_then_three(own_group: Group) -> None:
    """The member that takes writes is found, others are read, one outside of the group is not used.

    Where all take writes, what is appended to one is read from the next, and of two transactions
    that meet the later one is refused at its COMMIT.
    """
    first, second, third = own_group.nodes
    first.asked("CREATE USER plain@'%'")
    url = own_group.database(migrated=True)
    with EventStore.open(several(own_group, url, third, second, first)) as store:
        store.conversation("chat").append(message("a"))
    with EventStore.open(second.url(url), busy_timeout=1.0) as store:
        assert [each.version for each in store.read()] == [1]
        with pytest.raises(StoreReadOnly, match="connect to the primary"):
            store.conversation("chat").append(message("b"))

    assert stands(first) == (GROUP_REPLICATION, Use.FULL, "the server takes writes")
    assert stands(second).use is Use.NONE
    assert stands(second, reads_only=True).use is Use.FULL
    outside = "the server is not in its group, or with few others"
    third.asked(
        "STOP GROUP_REPLICATION", "SET GLOBAL super_read_only = OFF, GLOBAL read_only = OFF"
    )
    assert stands(third, reads_only=True) == (GROUP_REPLICATION, Use.NONE, outside)
    with pytest.raises(StoreBusy, match=f"{outside}: the server is not part of its cluster now"):
        EventStore.open(third.url(url), busy_timeout=0.0)
    with EventStore.open(several(own_group, url, third, first)) as store:
        store.conversation("chat").append(message("b"))
    third.asked("SET GLOBAL offline_mode = ON")
    with pytest.raises(pymysql.err.OperationalError, match="offline mode") as caught:
        stands(third)
    assert backend_for(url).is_connection_lost(caught.value)
    third.asked("SET GLOBAL offline_mode = OFF")
    third.join()

    own_group.let_all_write()
    storages = [open_storage(each, "", "full", 30.0) for each in own_group.urls(url)]
    for version in range(2, 14):
        append(storages[version % 3], "chat", message("so"), version=version)
        reader = storages[(version + 1) % 3]
        assert [each.version for each in reader.conversation("chat")][-1] == version + 1
    late, other = storages[:2]
    assert isinstance(late, SqlStorage)
    assert isinstance(other, SqlStorage)
    lane = next(late.conversation("chat")).lane
    cursor = late.connections.writer()
    cursor.execute("BEGIN")
    cursor.execute(FENCE[0], (lane,))  # as an append does
    other.unanswered.lanes.add(lane)
    assert other.known_ids("chat", [b"?" * 16]) == {}
    with pytest.raises(pymysql.err.OperationalError) as caught:
        cursor.execute("COMMIT")
    assert caught.value.args[0] in GROUP_REPLICATION.in_doubt
    late.connections.roll_back()
    append(late, "chat", message("so"), version=14)
    for storage in storages:
        assert [each.position for each in storage.feed({})] == list(range(1, 16))
        assert list(storage.verify()) == []
        storage.close()
