"""Several projectors at once, killed at any moment: each event is applied exactly once."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import projecting
import pytest
import workers
from projecting import check, new_store

from eventstore import EventStore
from projections import Projector


def filled(path: Path, lanes: int, moves: int) -> EventStore:
    """A store in which much has happened."""
    store = new_store(path, lanes, durability="normal")
    chance = random.Random(lanes)
    for _ in range(moves):
        projecting.act(store, (chance.randrange(9), *projecting.random_move(chance)))
    return store


@pytest.mark.parametrize("lanes", [1, 4])
def test_workers_share_the_lanes_of_a_log(tmp_path: Path, lanes: int) -> None:
    """Four processes at once on one log that does not stand still: nothing twice, nothing left."""
    with filled(tmp_path / "log.db", lanes, 400 * workers.LONG) as store:
        url, tables = f"sqlite:///{tmp_path}/log.db", f"sqlite:///{tmp_path}/tables.db"
        before = sum(at for _, at in store.end().positions)
        jobs = [partial(projecting.project, url, tables, 10)] * 3
        writer = partial(projecting.write_and_project, url, tables, 1, 100 * workers.LONG)
        done = workers.at_once([*jobs, writer])
        with Projector(store, tables) as projector:
            rest = projector.catch_up()
            check(projector, store)
            assert [one for one in done if isinstance(one, Exception)] == []
            assert sum(done) + rest == sum(at for _, at in store.end().positions) > before
            assert (projector.lag().events, projector.parked()) == (0, [])


def test_kill_9_in_the_middle_of_a_batch_leaves_nothing_half_applied(tmp_path: Path) -> None:
    """What was written and not committed is gone, and is applied by the next one."""
    with filled(tmp_path / "log.db", 2, 300) as store:
        url = tables = f"sqlite:///{tmp_path}/log.db"  # beside the log
        for batches in (0, 1, 2, 0):
            job = partial(projecting.project_and_die, url, tables, batches)
            with workers.children([job]) as ((process, pipe),):
                assert list(workers.received(pipe)) == []
                process.join()
                assert process.exitcode == -9
        with Projector(store, tables) as projector:
            assert projector.lag().events > 0
            assert 0 < projector.catch_up() < sum(at for _, at in store.end().positions)
            check(projector, store)
        assert list(store.verify()) == []


def test_a_killed_rebuild_goes_on_and_the_old_tables_are_read_meanwhile(tmp_path: Path) -> None:
    """What was built already is not built again."""
    with filled(tmp_path / "log.db", 1, 500) as store:
        url, tables = f"sqlite:///{tmp_path}/log.db", f"sqlite:///{tmp_path}/tables.db"
        with Projector(store, tables) as projector:
            total = projector.catch_up()
            job = partial(projecting.rebuild_and_die, url, tables, 2)
            with workers.children([job]) as ((process, pipe),):
                assert list(workers.received(pipe)) == []
                process.join()
            check(projector, store)
            assert 0 < projector.rebuild() <= total - 20
            check(projector, store)


def test_a_rebuild_while_events_arrive_misses_none(tmp_path: Path) -> None:
    """Two processes build, one writes and keeps the live tables up; then there is one truth."""
    with filled(tmp_path / "log.db", 4, 300 * workers.LONG) as store:
        url, tables = f"sqlite:///{tmp_path}/log.db", f"sqlite:///{tmp_path}/tables.db"
        assert projecting.project(url, tables, 1000) > 0
        rebuild = partial(projecting.rebuild, url, tables)
        writer = partial(projecting.write_and_project, url, tables, 1, 200 * workers.LONG)
        done = workers.at_once([rebuild, rebuild, writer])
        assert [one for one in done if isinstance(one, Exception)] == []
        with Projector(store, tables) as projector:
            projector.catch_up()
            check(projector, store)


def test_projections_on_servers(tmp_path: Path, server: Any) -> None:
    """The tables in another engine than the log: workers share it, and are killed."""
    tables = server.database()
    with filled(tmp_path / "log.db", 4, 300) as store:
        url = f"sqlite:///{tmp_path}/log.db"
        for batches in (0, 2):
            job = partial(projecting.project_and_die, url, tables, batches)
            with workers.children([job]) as ((process, pipe),):
                assert list(workers.received(pipe)) == []
                process.join()
        done = workers.at_once([partial(projecting.project, url, tables, 10)] * 3)
        assert [one for one in done if isinstance(one, Exception)] == []
        with Projector(store, tables) as projector:
            assert projector.catch_up() == 0
            check(projector, store)
            projector.rebuild()
            check(projector, store)


def test_the_log_of_a_server_is_projected_beside_itself(server: Any) -> None:
    """Sixteen lanes, writers and projectors in one database."""
    url = server.database(migrated=True)
    jobs = [partial(projecting.write_and_project, url, url, n, 60) for n in range(3)]
    done = workers.at_once(jobs)
    assert [one for one in done if isinstance(one, Exception)] == []
    with EventStore.open(url) as store, Projector(store) as projector:
        projector.catch_up()
        check(projector, store)
        assert projector.lag().events == 0
