"""A log that is distributed over the nodes of Citus: what goes to one node, and what is promised.

These tests run where `TOOLLEDGER_CITUS_URL` names a cluster.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from eventstore import EventStore, SubjectSecret
from eventstore.errors import StorageError, StoreBusy
from eventstore.migrate import REVISIONS, move
from eventstore.seals import SigningKey
from eventstore.storage import migrations
from eventstore.storage.factory import migrating
from eventstore.storage.postgresql.backend import Postgresql
from eventstore.storage.sql import placement
from eventstore.testing import message
from projections.projector import Projector
from projections.search import TextSearch

if TYPE_CHECKING:
    from support.citus import Citus

WATCHED = (
    "?options=-c%20citus.multi_task_query_log_level%3Dwarning%20"
    "-c%20plan_cache_mode%3Dforce_custom_plan"
)
"""Lets a node warn of each statement that several shards have a part of.

Without custom plans it would warn of general ones, too, which it makes and does not take.
"""

SECRET = SubjectSecret(bytes(range(32)))


@pytest.fixture
def url(citus: Citus) -> str:
    """Return the URL of a distributed store without events, by its coordinator."""
    return citus.emptied()


class Watch:
    """Counts the statements that were sent to several shards."""

    def __init__(self) -> None:
        self.count = 0

    def hear(self, notice: Any) -> None:
        """Take a warning of the server."""
        self.count += "multi-task query" in (notice.message_primary or "")

    def during(self, use: Callable[[], object]) -> int:
        """Return how many there were meanwhile."""
        before = self.count
        use()
        return self.count - before


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Return what hears the warnings of all connections that are made from now on."""
    watch = Watch()

    def hear(_: Postgresql, notice: Any) -> None:
        watch.hear(notice)

    monkeypatch.setattr(Postgresql, "_hear", hear)
    return watch


def test_statements_of_one_conversation_go_to_one_node(
    url: str, watch: Watch, tmp_path: Path
) -> None:
    """Appending, reading, redacting, archiving, restoring and tagging ask no second node."""
    with EventStore.open(url + WATCHED, subjects=SECRET) as store:
        chat = store.conversation("chat", subjects=["ann"])
        called: list[str] = []

        def append() -> None:
            for number in range(3):
                chat.append(message(f"{number}"))
            chat.append(message("a"), message("b"), event_ids=[os.urandom(16).hex() for _ in "ab"])
            call = chat.request("pay", {"to": "ann"})
            chat.start(call.id)
            chat.complete(call.id, "paid")
            called.append(call.id)

        def archive() -> None:
            gone = store.retain(timedelta(microseconds=1), folder=tmp_path, dry_run=False)
            assert gone.conversations == 1

        assert watch.during(append) == 0
        for use in (
            lambda: list(store.conversation("chat").events(after=2)),
            lambda: list(store.read_call("chat", called[0])),
            lambda: store.redact("chat", by="me", versions=[1]),
            lambda: store.tag_subject("bob", "chat", [2]),
            archive,
            lambda: store.restore(*tmp_path.iterdir()),
            lambda: list(store.conversation("chat").events()),
        ):
            assert watch.during(use) == 0, use
        assert list(store.verify()) == []


def test_questions_of_all_lanes_ask_each_lane_alone(url: str, watch: Watch) -> None:
    """Only the counters, the seals' lanes and the tenants are asked of all nodes at once."""
    with EventStore.open(url + WATCHED, subjects=SECRET) as store:
        for number in range(20):
            store.conversation(f"chat-{number}", subjects=["ann"]).append(message("a"))
        storage: Any = store.session.storage
        fingerprint = store.conversation("chat-1").request("pay", {"n": 1}).fingerprint or ""
        for use in (
            lambda: list(store.read()),
            lambda: list(store.conversations()),
            lambda: list(store.read_fingerprint(fingerprint)),
            lambda: store.retain(timedelta(days=1), only="payloads"),
            lambda: list(storage.archives.list()),
            lambda: list(storage.subjects.find(bytes(16))),
        ):
            assert watch.during(use) == 0, use
        assert watch.during(store.end) <= 2  # the counters, and the anchors there
        assert watch.during(lambda: list(store.verify())) == 2  # the counters, and the seals
        key = SigningKey.generate("example.com/log")
        assert watch.during(lambda: store.seal(key)) <= len(storage.log.lanes)  # the counters
        assert watch.during(storage.subjects.tenants) == 1
        assert watch.during(store.accept_loss) == 0


# what is promised


@contextmanager
def setting(citus: Citus, node: int, name: str, value: str) -> Generator[None]:
    """Give a node's server a setting for a while."""
    citus.execute(f"ALTER SYSTEM SET {name} = {value}", "SELECT pg_reload_conf()", node=node)
    try:
        yield
    finally:
        citus.execute(f"ALTER SYSTEM RESET {name}", "SELECT pg_reload_conf()", node=node)


def test_a_node_that_does_not_wait_for_its_disk_is_warned_of(citus: Citus, url: str) -> None:
    """A node commits by its own settings, whatever the client's session has."""
    last, heard = len(citus.places) - 1, list[warnings.WarningMessage]()
    with setting(citus, last, "synchronous_commit", "off"):
        named = f"synchronous_commit is off on .*:{citus.nodes[last].port}"
        for _ in range(50):  # until the node's connections have read the setting
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                EventStore.open(url).close()
            if heard:
                break
    assert heard
    assert re.search(named, str(heard[0].message))


def test_one_process_archives_whichever_node_it_uses(
    citus: Citus, url: str, tmp_path: Path
) -> None:
    """The lock is not one of a node; appends go on beside it."""
    database = url.rpartition("/")[2]
    with EventStore.open(url) as store, EventStore.open(citus.url(database, 1)) as other:
        archives: Any = store.session.storage.archives
        other.conversation("chat").append(message("a"))
        with archives.exclusive():
            with pytest.raises(StoreBusy, match="another process archives now"):
                other.retain(timedelta(microseconds=1), folder=tmp_path, dry_run=False)
            other.conversation("chat").append(message("b"))
        gone = other.retain(timedelta(microseconds=1), folder=tmp_path, dry_run=False)
        assert gone.conversations == 1


# upgrades


@pytest.mark.parametrize("revision", ["0002", "0003"])
def test_a_distributed_store_is_upgraded(citus: Citus, revision: str) -> None:
    """New tables are distributed, too, and old ones are changed on all nodes."""
    database = citus.database()
    url = citus.url(database)
    with migrating(url) as connection:
        migrations.upgrade(connection, revision)
    spread_by_hand(citus, database)
    with pytest.raises(StorageError, match="name the coordinator"):
        move(citus.url(database, 1))
    assert move(url) == (revision, REVISIONS[-1])
    assert placement.problems(partial(citus.execute, database=database)) == []
    for node in range(len(citus.places)):
        with EventStore.open(citus.url(database, node), upgrade=False) as store:
            store.conversation("chat").append(message(f"{node}"))
            assert list(store.verify()) == []


def spread_by_hand(citus: Citus, database: str) -> None:
    """Distribute the tables that are there with the functions of Citus alone."""
    run, beside = partial(citus.execute, database=database), "none"
    for name in placement.EVERYWHERE:
        run(f"SELECT create_reference_table('{name}')")
    for table in placement.BY_LANE:
        if run(f"SELECT to_regclass('{table.name}')")[0][0]:
            run(
                f"SELECT create_distributed_table('{table.name}', 'lane', "
                f"colocate_with := '{beside}')"
            )
            beside = table.name


# tables beside the log


def test_projections_are_the_same_at_all_nodes(citus: Citus, url: str) -> None:
    """The coordinator has their tables, and each node writes and reads them there."""
    database = url.rpartition("/")[2]
    with EventStore.open(url) as store:
        with pytest.raises(StorageError, match=f"name the coordinator .*:{citus.nodes[0].port}"):
            Projector(store, citus.url(database, 1))
        for node in range(len(citus.places)):
            with EventStore.open(citus.url(database, node)) as there:
                call = there.conversation(f"chat-{node}").request("pay", {"n": node})
                with Projector(there, citus.url(database, node)) as projector:
                    projector.catch_up()
                    assert projector.lag().events == 0
                    assert call.id in {tool.id for _, tool in projector.tools()}
        with Projector(store, url) as projector:
            assert len(list(projector.tools())) == len(citus.places)
            assert projector.rebuild() == len(citus.places)


def test_texts_are_found_at_all_nodes(citus: Citus, url: str) -> None:
    """The index of searched texts is one of these tables."""
    database = url.rpartition("/")[2]
    with EventStore.open(url) as store:
        store.conversation("chat").append(message("the Needle is here"))
        for node in range(len(citus.places)):
            search = TextSearch()
            with Projector(store, citus.url(database, node), projections=[search]) as projector:
                projector.catch_up()
                assert [found.version for found in search.find(projector, "needle")] == [1]
