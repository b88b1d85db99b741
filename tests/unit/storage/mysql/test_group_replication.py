"""MySQL's group replication: which member is used, who is refused, what is looked up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pymysql
import pytest
from sqlalchemy import make_url

from eventstore import EventStore
from eventstore.errors import StoreBusy, StoreReadOnly
from eventstore.storage.clusters import FENCE, GROUP_REPLICATION, Standing, Use, runner, standing
from eventstore.storage.factory import backend_for, open_storage
from eventstore.storage.sql.storage import SqlStorage
from eventstore.testing import append, message

if TYPE_CHECKING:
    from support.group_replication import Group, GroupOfPrimaries, Member


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


def test_a_group_with_one_primary(own_group: Group) -> None:
    """The member that takes writes is found; others are read; one that is in no group is not used."""
    first, second, third = own_group.nodes
    first.asked("CREATE USER plain@'%'")
    url = own_group.database(migrated=True)
    with EventStore.open(several(own_group, url, third, second, first)) as store:
        store.conversation("chat").append(message("a"))
    with EventStore.open(second.url(url), busy_timeout=1.0) as store:
        assert [each.version for each in store.read()] == [1]
        with pytest.raises(StoreReadOnly, match="super-read-only option.*connect to the primary"):
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

    with EventStore.open(several(own_group, url), busy_timeout=60.0) as store:
        chat = store.conversation("chat")
        chat.append(message("c"))
        second.asked(f"SELECT group_replication_set_as_primary('{second.variable('server_uuid')}')")
        chat.append(message("d"))
        second.kill()
        chat.append(message("e"))
    assert own_group.primary() is not second
    second.start()
    own_group.assert_all_have_the_same(url)
    with EventStore.open(second.url(url)) as store:
        assert [each.version for each in store.read()] == [1, 2, 3, 4, 5]
        assert list(store.verify()) == []
