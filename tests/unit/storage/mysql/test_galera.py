"""Writers and readers of a Galera cluster: who is refused, who waits, what is looked up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pymysql
import pytest
from sqlalchemy import make_url

from eventstore.errors import StorageError, StoreBusy
from eventstore.migrate import partition
from eventstore.storage.clusters import (
    FENCE,
    GALERA,
    GROUP_REPLICATION,
    NOT_READY,
    SCHEMA,
    Standing,
    Use,
    risk_of_split,
    standing,
)
from eventstore.storage.factory import backend_for, open_storage
from eventstore.storage.interface import Append
from eventstore.storage.mysql.backend import Mysql
from eventstore.storage.mysql.leases import cluster_lease
from eventstore.storage.sql.storage import SqlStorage
from eventstore.storage.stopped_writers import is_in_cluster, writers_stopped
from eventstore.testing import append, draft, message

if TYPE_CHECKING:
    from support.galera import Galera
    from support.servers import MariaDB

Open = Callable[..., SqlStorage]


# how a server stands


def node(ready: str = "ON", part: str = "Primary", state: str = "4") -> dict[str, str]:
    """Return what a node says of itself."""
    return {
        "wsrep_ready": ready,
        "wsrep_cluster_status": part,
        "wsrep_local_state": state,
        "wsrep_local_state_comment": "so",
    }


IN_GALERA = {"wsrep_on": "ON", "wsrep_provider": "/lib/galera.so"}
IN_GROUP = {"group_replication_group_name": "g"}


@pytest.mark.parametrize(
    ("variables", "status", "cluster", "use"),
    [
        (IN_GALERA, node(), GALERA, Use.FULL),
        (IN_GALERA, node(state="2"), GALERA, Use.SPARE),
        (IN_GALERA, node(state="3"), GALERA, Use.NONE),
        (IN_GALERA, node(part="non-Primary"), GALERA, Use.NONE),
        (IN_GALERA, node(ready="OFF"), GALERA, Use.NONE),
        (IN_GALERA, {}, GALERA, Use.NONE),
        ({**IN_GALERA, "wsrep_reject_queries": "ALL"}, node(), GALERA, Use.NONE),
        ({**IN_GALERA, "wsrep_reject_queries": "NONE"}, node(), GALERA, Use.FULL),
        ({"wsrep_on": "ON", "wsrep_provider": "none"}, {}, None, Use.FULL),
        ({"wsrep_on": "OFF", "wsrep_provider": "/lib/galera.so"}, {}, None, Use.FULL),
        ({"read_only": "ON"}, {}, None, Use.NONE),
        ({"read_only": "OFF"}, {}, None, Use.FULL),
        (IN_GROUP, {}, GROUP_REPLICATION, Use.FULL),
        (IN_GROUP, {"1123": "Member must be ONLINE"}, GROUP_REPLICATION, Use.NONE),
        (IN_GROUP, {"1305": "does not exist"}, GROUP_REPLICATION, Use.FULL),
        ({**IN_GROUP, "read_only": "ON"}, {}, GROUP_REPLICATION, Use.NONE),
        ({**IN_GROUP, "offline_mode": "ON"}, {}, GROUP_REPLICATION, Use.NONE),
    ],
)
def test_a_server_says_whether_it_can_be_used(
    variables: dict[str, str], status: dict[str, str], cluster: object, use: Use
) -> None:
    """A node must be part of its cluster; one that gives a copy away is a spare one."""

    def run(statement: str) -> list[Any]:
        if "get_communication_protocol" in statement:
            for code, text in status.items():
                raise pymysql.err.OperationalError(int(code), text)
        return list((status if "STATUS" in statement else variables).items())

    found = standing(run)
    assert (found.cluster, found.use) == (cluster, use)
    if "read_only" in variables:
        assert standing(run, reads_only=True).use is Use.FULL


@pytest.mark.parametrize(
    ("options", "risk"),
    [
        ("evs.version = 1; pc.ignore_quorum = false; pc.ignore_sb = false; x = ", None),
        ("pc.ignore_quorum = false; pc.ignore_sb = true; ", ("pc.ignore_sb is true", "false")),
        ("pc.ignore_quorum = YES", ("pc.ignore_quorum is YES", "false")),
        ("", None),
    ],
)
def test_two_halves_of_a_cluster_must_not_both_write(
    options: str, risk: tuple[str, str] | None
) -> None:
    """The provider's option is named with its right value."""
    assert risk_of_split(options) == risk


@pytest.mark.parametrize(
    ("code", "cluster", "lost"),
    [
        (NOT_READY, None, True),
        (1180, None, False),
        (1180, GALERA, True),
        (1213, GALERA, False),
        (3101, None, False),
        (3101, GALERA, False),
        (3101, GROUP_REPLICATION, True),
        (3100, GROUP_REPLICATION, True),
        (3032, None, True),
        (3796, GROUP_REPLICATION, True),
    ],
)
def test_errors_that_leave_a_commit_in_doubt(code: int, cluster: Any, lost: bool) -> None:
    """Each is looked up as that of a lost connection is; a certain refusal is tried again."""
    backend = backend_for("mysql://h/d")
    assert isinstance(backend, Mysql)
    backend.routing.cluster = cluster
    error = pymysql.err.OperationalError(code, "so")
    assert backend.is_connection_lost(error) is lost
    if not lost and cluster is GALERA:
        assert backend.is_transient(error)


# a real cluster


@pytest.fixture
def url(galera: Galera) -> str:
    """Return the URL of a store on the first node."""
    return galera.emptied()


@pytest.fixture
def nodes(galera: Galera, url: str) -> list[str]:
    """Return the URLs of the store through each node."""
    return galera.urls(url)


@pytest.fixture
def opened() -> Iterator[Open]:
    """Return a function that opens storages."""
    storages: list[SqlStorage] = []

    def opened(url: str, seconds: float = 30.0) -> SqlStorage:
        storage = open_storage(url, "", "full", seconds)
        assert isinstance(storage, SqlStorage)
        storages.append(storage)
        return storage

    yield opened
    for storage in storages:
        storage.close()


def several(galera: Galera, url: str) -> str:
    """Return the URL with all nodes."""
    database = make_url(url).database
    return f"mysql://root@{','.join(galera.addresses)}/{database}?ssl_disabled=true"


def setting(storage: SqlStorage, name: str) -> Any:
    """Return a setting of the connection that writes."""
    cursor = storage.connections.writer()
    cursor.execute(f"SELECT @@{name}")
    return cursor.fetchone()[0]


def test_reads_are_causal_on_a_cluster_alone(
    galera: Galera, mariadb: MariaDB, url: str, nodes: list[str], opened: Open
) -> None:
    """Whether its URL names one node or several."""
    for each in (url, nodes[1], several(galera, url)):
        storage = opened(each)
        assert (setting(storage, "wsrep_sync_wait"), list(storage.backend.fence)) == (1, [*FENCE])
    alone = opened(mariadb.database(migrated=True))
    assert (setting(alone, "wsrep_sync_wait"), list(alone.backend.fence)) == (0, [])


def test_events_of_one_node_are_there_on_the_next(nodes: list[str], opened: Open) -> None:
    """Each append, and each read, follows at once on another node."""
    storages = [opened(each) for each in nodes]
    for version in range(30):
        append(storages[version % 3], "chat", message(str(version)), version=version)
        reader = storages[(version + 1) % 3]
        found = [each.version for each in reader.conversation("chat")]
        assert found == list(range(1, version + 2))
        assert max(storages[(version + 2) % 3].heads().values()) == version + 1


def test_writers_of_one_lane_on_all_nodes_leave_no_gap(nodes: list[str], opened: Open) -> None:
    """The later of two that meet is refused at its COMMIT, and decides again."""
    storages = [opened(each) for each in nodes]
    each_writes = 20
    barrier = threading.Barrier(len(storages))
    failures: list[BaseException] = []

    def write(storage: SqlStorage) -> None:
        try:
            barrier.wait(30)
            for _ in range(each_writes):
                new = [draft(message("so"))]
                storage.append([Append("chat", 0, 0, new, lambda _, new=new: new)])
        except BaseException as error:  # noqa: BLE001 - raised below
            failures.append(error)

    threads = [threading.Thread(target=write, args=(storage,)) for storage in storages]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    total = each_writes * len(storages)
    found = list(opened(nodes[0]).feed({}))
    assert [each.position for each in found] == list(range(1, total + 1))
    assert [each.version for each in found] == list(range(1, total + 1))
    assert len({each.event_id for each in found}) == total
    assert list(opened(nodes[1]).verify()) == []


def test_a_commit_without_an_answer_cannot_take_place_after_its_lookup(
    nodes: list[str], opened: Open
) -> None:
    """Its transaction is open on one node; after the lookup on another one it is refused."""
    storage, other = opened(nodes[0]), opened(nodes[1])
    append(storage, "chat", message("a"))
    lane = next(storage.conversation("chat")).lane
    cursor = storage.connections.writer()
    cursor.execute("BEGIN")
    cursor.execute(FENCE[0], (lane,))  # as an append does
    other.unanswered.lanes.add(lane)
    assert other.known_ids("chat", [b"?" * 16]) == {}
    assert not other.unanswered.lanes
    with pytest.raises(pymysql.err.OperationalError) as caught:
        cursor.execute("COMMIT")
    assert storage.backend.is_transient(caught.value)
    storage.connections.roll_back()
    assert opened(nodes[2]).heads()[lane] == 1


@pytest.mark.parametrize("code", [1180, NOT_READY, 1213])
@pytest.mark.parametrize("took_place", [True, False])
def test_an_error_at_commit_is_looked_up(
    nodes: list[str], opened: Open, monkeypatch: pytest.MonkeyPatch, code: int, took_place: bool
) -> None:
    """Stored once, whether the COMMIT took place or not."""
    storage = opened(nodes[0])
    append(storage, "chat", message("a"))
    failing = [code]

    def commit(cursor: Any, statement: str) -> None:
        if not failing:
            cursor.execute(statement)
            return
        cursor.execute(statement if took_place else "ROLLBACK")
        raise pymysql.err.OperationalError(failing.pop(), "so")

    monkeypatch.setattr(storage, "_commit", commit)
    append(storage, "chat", message("b"), version=1)
    assert failing == []
    for each in nodes:
        assert [one.position for one in opened(each).feed({})] == [1, 2]


def test_a_node_that_is_not_ready_is_left_for_the_next(
    galera: Galera, url: str, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A spare one is taken where there is no other; one alone is waited for."""
    from eventstore.storage.mysql import routing

    uses = [Use.NONE, Use.SPARE, Use.FULL]
    words = iter(uses)

    def standing(*_: object, **__: object) -> Standing:
        return Standing(GALERA, next(words, uses[-1]), "the node joins")

    monkeypatch.setattr(routing, "standing", standing)
    storage = opened(several(galera, url))
    assert isinstance(storage.backend, Mysql)
    assert next(iter(storage.backend.routing.hosts)).host == galera.addresses[2]
    uses[:] = [Use.NONE, Use.SPARE, Use.NONE, Use.NONE, Use.SPARE, Use.NONE]
    words = iter(uses[:3])
    backend = backend_for(several(galera, url))
    assert isinstance(backend, Mysql)
    backend.connect().connect().close()
    assert next(iter(backend.routing.hosts)).host == galera.addresses[1]
    with pytest.raises(StoreBusy, match="the node joins: the server is not part of its cluster"):
        opened(url, 0.0)


@pytest.mark.alone
def test_a_node_that_refuses_each_statement_is_left_for_the_next(
    galera: Galera, url: str, opened: Open
) -> None:
    """The node says 1047, as one does that is cut off from the others."""
    storage = opened(several(galera, url))
    append(storage, "chat", message("a"))
    with galera.connected(url) as connection:
        connection.exec_driver_sql("SET GLOBAL wsrep_reject_queries = ALL")
        try:
            append(storage, "chat", message("b"), version=1)
            with pytest.raises(StoreBusy, match="the server is not part of its cluster now"):
                opened(url, 0.0)
        finally:
            connection.exec_driver_sql("SET GLOBAL wsrep_reject_queries = NONE")
    assert isinstance(storage.backend, Mysql)
    assert next(iter(storage.backend.routing.hosts)).host == galera.addresses[1]
    assert [each.version for each in opened(url).conversation("chat")] == [1, 2]


@pytest.mark.alone
def test_a_node_that_is_desynced_is_a_spare_one(galera: Galera, url: str, opened: Open) -> None:
    """Others are preferred; by itself it is used, and has what was seen elsewhere."""
    first = galera.nodes[0]
    first.asked("SET GLOBAL wsrep_desync = ON")
    try:
        storage = opened(several(galera, url))
        alone = opened(url)
        for version in range(10):
            append(storage, "chat", message("so"), version=version)
            assert len(list(alone.conversation("chat"))) == version + 1
    finally:
        first.asked("SET GLOBAL wsrep_desync = OFF")
        galera.wait_until_whole()
    assert isinstance(storage.backend, Mysql)
    assert next(iter(storage.backend.routing.hosts)).host == galera.addresses[1]


@pytest.mark.alone
@pytest.mark.parametrize(("operators", "ours"), [(0, 1), (1, 1), (6, 7)])
def test_an_operator_may_ask_for_more_than_causal_reads(
    galera: Galera, url: str, opened: Open, operators: int, ours: int
) -> None:
    """The server waits for the same as by its own setting."""
    first = galera.nodes[0]
    first.asked(f"SET GLOBAL wsrep_sync_wait = {operators}")
    try:
        assert setting(opened(url), "wsrep_sync_wait") == ours
    finally:
        first.asked("SET GLOBAL wsrep_sync_wait = 0")


def test_one_process_of_the_cluster_changes_the_schema_at_a_time(
    nodes: list[str], opened: Open
) -> None:
    """The lock counts on all nodes, and is free again at once."""
    first, second = (opened(each).connections.engine for each in nodes[:2])
    with cluster_lease(first, "schema", 5.0, "changes the schema"):
        with (
            pytest.raises(StoreBusy, match="another process changes the schema; nothing was"),
            cluster_lease(second, "schema", 0.05, "changes the schema"),
        ):
            pytest.fail("two hold it")
        with cluster_lease(second, "archiving", 5.0, "archives now"):
            pass
    with cluster_lease(second, "schema", 5.0, "changes the schema"):
        pass


def test_the_holder_of_a_lock_learns_that_it_was_taken_over(nodes: list[str], opened: Open) -> None:
    """Its holder was away for longer than a claim lasts."""
    first, second = (opened(each).connections.engine for each in nodes[:2])

    def hold() -> None:
        with cluster_lease(first, "schema", 5.0, "changes the schema"):
            # On the second node the claim may not be there yet, and would come after this.
            with first.connect() as connection:
                connection.exec_driver_sql("UPDATE toolledger_locks SET until = '2000-01-01'")
            with cluster_lease(second, "schema", 5.0, "changes the schema"):
                pass

    with pytest.raises(StoreBusy, match="did not answer for more than 120 s, and another process"):
        hold()


def test_archiving_excludes_the_other_nodes(nodes: list[str], opened: Open) -> None:
    """One process of the cluster does it."""
    first, second = (opened(each) for each in nodes[:2])
    with (
        first.archives.exclusive(),
        pytest.raises(StoreBusy, match="archives now"),
        second.archives.exclusive(),
    ):
        pytest.fail("two archive")


def test_writers_of_all_nodes_wait_for_a_migration(
    galera: Galera, nodes: list[str], opened: Open
) -> None:
    """The writers are refused as by a lock, and go on when the migration has ended.

    One that was killed stops them for as long as its claim lasts.
    """
    writer = opened(nodes[1])
    append(writer, "chat", message("a"))
    done = threading.Event()

    def write() -> None:
        append(writer, "chat", message("b"), version=1)
        done.set()

    with galera.connected(nodes[0]) as connection:
        assert is_in_cluster(connection)
        with (
            pytest.raises(StorageError, match="run `toolledger migrate`"),
            writers_stopped(connection),
        ):
            pytest.fail("nobody holds the lock")
        thread = threading.Thread(target=write)
        lock = cluster_lease(connection.engine, SCHEMA, 5.0, "changes the schema")
        with lock, writers_stopped(connection):
            hasty = opened(nodes[2], 0.0)
            with pytest.raises(StoreBusy, match="the schema is being changed"):
                append(hasty, "chat", message("c"), version=1)
            thread.start()
            assert [each.version for each in hasty.conversation("chat")] == [1]
            assert not done.is_set()
        thread.join(30)
    assert done.is_set()
    assert [each.version for each in opened(nodes[0]).conversation("chat")] == [1, 2]
    with galera.connected(nodes[0]) as connection:
        lock = cluster_lease(connection.engine, SCHEMA, 5.0, "changes the schema")
        with lock, writers_stopped(connection):
            with pytest.raises(StoreBusy, match="the schema is being changed"):
                append(hasty, "chat", message("c"), version=2)
            connection.exec_driver_sql("UPDATE toolledger_locks SET until = '2000-01-01'")
            append(hasty, "chat", message("c"), version=2)


def test_a_user_who_may_create_no_triggers_makes_a_store_and_migrates_none(
    galera: Galera, opened: Open
) -> None:
    """A new store has no writers to stop. Where there are some, the error names the setting."""
    url = galera.database()
    database = make_url(url).database
    first = galera.nodes[0]
    first.asked("CREATE USER IF NOT EXISTS plain@'%'", f"GRANT ALL ON {database}.* TO plain@'%'")
    plain = make_url(url).set(username="plain").render_as_string(hide_password=False)
    append(opened(plain), "chat", message("a"))
    with (
        pytest.warns(RuntimeWarning, match="may not create triggers"),
        pytest.raises(StorageError, match="nothing was changed; set log_bin_trust_function_cre"),
    ):
        partition(plain, 4)
    append(opened(plain), "chat", message("b"), version=1)
    try:
        for node in galera.nodes:
            node.asked("SET GLOBAL log_bin_trust_function_creators = 1")
        assert partition(plain, 4) == 1
    finally:
        for node in galera.nodes:
            node.asked("SET GLOBAL log_bin_trust_function_creators = 0")
    assert [each.version for each in opened(url).conversation("chat")] == [1, 2]
