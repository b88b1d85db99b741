"""Storms over a cluster that spreads: its nodes are killed, and its lanes are moved, under load."""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from support import feeds as feeding
from support import projected_logs as projecting
from support import workers
from support.storms import Storm
from support.tiers import repeated

from eventstore import EventStore
from eventstore.testing import Acknowledgement, Reading

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from support.citus import Citus

LANES = range(16)


@pytest.fixture
def url(citus: Citus) -> str:
    """Return the URL of a distributed store that names all nodes, with tables to project to."""
    named = citus.emptied(None)
    with EventStore.open(named) as store, projecting.open_projector(store):
        return named


def test_a_storm_over_killed_nodes_loses_nothing(
    citus: Citus, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Writers are processes at all nodes, each of which is killed and started again."""
    citus.check_commands()
    with Storm(url, nodes=citus.urls_of_all(url)) as storm:
        for node in list(range(len(citus.places))) * repeated(1):
            citus.kill(node)
            citus.start(node)
            storm.wait_for_appends()
    tell(capsys, storm)
    assert citus.prepared() == 0


def tell(capsys: pytest.CaptureFixture[str], storm: Storm) -> None:
    """Check what became of a storm, and print a line of it although the test succeeds."""
    line = f"{storm.appended} appends, {storm.check()}"
    with capsys.disabled():
        print(f"\n{line}")


def test_processes_that_die_beside_killed_workers_lose_nothing(citus: Citus, url: str) -> None:
    """Eight processes write, two follow; some writers are killed, and workers, too."""
    citus.check_commands()
    count = repeated(30)
    notes: list[Acknowledgement] = []
    jobs = [partial(feeding.append_until_done, url, f"writer-{n}", count) for n in range(8)]
    with (
        workers.children([partial(feeding.follow, url)] * 2) as readers,
        workers.children(jobs) as writers,
    ):
        for _, pipe in readers:
            assert pipe.poll(60)  # it follows
        for node in list(range(1, len(citus.places))) * repeated(1):
            victim = partial(feeding.append_until_done, url, f"victim-{node}", 10**9)
            with workers.children([victim]) as ((process, pipe),):
                assert pipe.poll(60)
                citus.kill(node)
                process.kill()
                process.join()
                citus.start(node)
                notes.extend(workers.received(pipe))
        for _, pipe in writers:
            notes.extend(workers.received(pipe))
        readings = stopped(readers)
    with EventStore.open(url) as store:
        assert workers.check_log(store, notes, readings) >= 8 * count


def stopped(readers: list[tuple[Any, Connection]]) -> list[Reading]:
    """Tell readers that all has been written; return what each saw."""
    for _, pipe in readers:
        assert pipe.recv() == "follows"
        pipe.send("stop")
    return [pipe.recv() for _, pipe in readers]


@pytest.mark.parametrize("mode", ["block_writes", "force_logical"])
def test_a_storm_over_lanes_that_move_loses_nothing(
    citus: Citus, url: str, mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lanes go from node to node, by both ways that Citus has."""
    with Storm(url, nodes=citus.urls_of_all(url)) as storm:
        for lane in random.Random(mode).choices(LANES, k=2 * repeated(1)):
            move(citus, url, lane, mode)
            storm.wait_for_appends()
    tell(capsys, storm)


def move(citus: Citus, url: str, lane: int, mode: str) -> None:
    """Move the shards of a lane to the next node."""
    database = url.rpartition("/")[2]
    (shard,) = citus.execute(
        f"SELECT get_shard_id_for_distribution_column('toolledger_lanes', {lane})",
        database=database,
    )[0]
    ((host, port),) = citus.execute(
        f"SELECT nodename, nodeport FROM pg_dist_shard_placement WHERE shardid = {shard}",  # noqa: S608 - a number
        database=database,
    )
    here = next(n for n, node in enumerate(citus.nodes) if node == (host, port))
    there = citus.nodes[(here + 1) % len(citus.nodes)]
    citus.execute(
        f"SELECT citus_move_shard_placement({shard}, '{host}', {port}, '{there.host}', "
        f"{there.port}, '{mode}')",
        database=database,
    )
