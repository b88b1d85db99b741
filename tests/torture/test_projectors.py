"""Several projectors at once, killed at any moment: each event is applied exactly once.

A user's projection, the example of the documentation, is among them. It counts its events by
itself, so all events count twice.
"""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support import projected_logs as projecting
from support import workers
from support.projected_logs import check, check_costs, new_store, open_projector
from support.statements import overtaken
from support.tiers import LONG, also_long, repeated

from eventstore import EventStore, StoreFull
from projections import Projector
from projections.projector.tools_table import StoredTools


# The tables of each engine have unit tests; here the processes around them are tried.
@pytest.fixture(params=also_long(["postgresql"], ["mariadb", "mysql"]))
def server(request: pytest.FixtureRequest) -> Any:
    """Return each server in turn."""
    return request.getfixturevalue(request.param)


def filled(path: Path, lanes: int, moves: int) -> EventStore:
    """Return a store in which many calls were made."""
    store = new_store(path, lanes, durability="normal")
    chance = random.Random(lanes)
    for _ in range(moves):
        projecting.act(store, (chance.randrange(9), *projecting.random_move(chance)))
    return store


@pytest.mark.parametrize("lanes", [1, 4])
def test_workers_share_the_lanes_of_a_log(tmp_path: Path, lanes: int) -> None:
    """Four processes on one growing log apply each event once."""
    with filled(tmp_path / "log.db", lanes, repeated(400)) as store:
        url, tables = f"sqlite:///{tmp_path}/log.db", f"sqlite:///{tmp_path}/tables.db"
        before = sum(at for _, at in store.end().positions)
        jobs = [partial(projecting.project, url, tables, 10)] * 3
        writer = partial(projecting.write_and_project, url, tables, 1, repeated(100))
        done = workers.at_once([*jobs, writer])
        with open_projector(store, tables) as projector:
            rest = projector.catch_up()
            check(projector, store)
            check_costs(projector, store)
            assert [one for one in done if isinstance(one, Exception)] == []
            total = sum(at for _, at in store.end().positions)
            assert sum(done) + rest == 2 * total > 2 * before
            assert (projector.lag().events, projector.parked()) == (0, [])


def test_kill_9_in_the_middle_of_a_batch_leaves_nothing_half_applied(tmp_path: Path) -> None:
    """Uncommitted rows are lost, and the next worker applies their events."""
    with filled(tmp_path / "log.db", 2, 300) as store:
        url = tables = f"sqlite:///{tmp_path}/log.db"  # beside the log
        for batches, views in ((0, None), (1, None), (2, []), (0, []), (0, None)):
            job = partial(projecting.project_and_die, url, tables, batches, views)
            with workers.children([job]) as ((process, pipe),):
                assert list(workers.received(pipe)) == []
                process.join()
                assert process.exitcode == -9
        with open_projector(store, tables) as projector:
            assert projector.lag().events > 0
            assert 0 < projector.catch_up() < 2 * sum(at for _, at in store.end().positions)
            check(projector, store)
            check_costs(projector, store)
        assert list(store.verify()) == []


def test_a_killed_rebuild_is_continued_while_the_old_tables_are_read(
    tmp_path: Path,
) -> None:
    """Finished parts are not built again."""
    with filled(tmp_path / "log.db", 1, 500) as store:
        url, tables = f"sqlite:///{tmp_path}/log.db", f"sqlite:///{tmp_path}/tables.db"
        with open_projector(store, tables) as projector:
            total = projector.catch_up()
            job = partial(projecting.rebuild_and_die, url, tables, 2)
            with workers.children([job]) as ((process, pipe),):
                assert list(workers.received(pipe)) == []
                process.join()
            check(projector, store)
            check_costs(projector, store)
            assert 0 < projector.rebuild() <= total - 20
            check(projector, store)
            check_costs(projector, store)


def test_a_rebuild_while_events_arrive_misses_none(tmp_path: Path) -> None:
    """Two processes rebuild and one keeps the live tables up; in the end all are equal."""
    with filled(tmp_path / "log.db", 4, repeated(300)) as store:
        url, tables = f"sqlite:///{tmp_path}/log.db", f"sqlite:///{tmp_path}/tables.db"
        assert projecting.project(url, tables, 1000) > 0
        rebuild = partial(projecting.rebuild, url, tables)
        writer = partial(projecting.write_and_project, url, tables, 1, repeated(200))
        done = workers.at_once([rebuild, rebuild, writer])
        assert [one for one in done if isinstance(one, Exception)] == []
        with open_projector(store, tables) as projector:
            projector.catch_up()
            check(projector, store)
            check_costs(projector, store)


def test_projections_on_servers(tmp_path: Path, server: Any) -> None:
    """The tables are in another engine than the log; workers share it and are killed."""
    tables = server.database()
    with filled(tmp_path / "log.db", 4, 300) as store:
        url = f"sqlite:///{tmp_path}/log.db"
        for batches, views in ((0, None), (2, None), (1, [])):
            job = partial(projecting.project_and_die, url, tables, batches, views)
            with workers.children([job]) as ((process, pipe),):
                assert list(workers.received(pipe)) == []
                process.join()
        done = workers.at_once([partial(projecting.project, url, tables, 10)] * 3)
        assert [one for one in done if isinstance(one, Exception)] == []
        with open_projector(store, tables) as projector:
            assert projector.catch_up() == 0
            check(projector, store)
            check_costs(projector, store)
            projector.rebuild()
            check(projector, store)
            check_costs(projector, store)


def test_the_log_of_a_server_is_projected_beside_itself(server: Any) -> None:
    """Sixteen lanes, writers and projectors use one database."""
    url = server.database(migrated=True)
    jobs = [partial(projecting.write_and_project, url, url, n, 60) for n in range(3)]
    done = workers.at_once(jobs)
    assert [one for one in done if isinstance(one, Exception)] == []
    with EventStore.open(url) as store, open_projector(store) as projector:
        projector.catch_up()
        check(projector, store)
        check_costs(projector, store)
        assert projector.lag().events == 0


@pytest.mark.parametrize("engine", also_long(["sqlite", "postgresql"], ["mariadb"]))
def test_projectors_are_killed_again_and_again_while_many_write(
    tmp_path: Path, engine: str, request: pytest.FixtureRequest
) -> None:
    """Several processes write, two keep up, one rebuilds: each event is applied exactly once."""
    if engine == "sqlite":
        url = f"sqlite:///{tmp_path}/log.db"
        EventStore.open(url).close()
    else:
        url = request.getfixturevalue(engine).database(migrated=True)
    chance = random.Random(engine)
    jobs = [partial(projecting.project_forever, url, url, n == 2) for n in range(3)]
    with workers.children(
        [
            partial(workers.after_signal, partial(projecting.write, url, n, repeated(40)))
            for n in range(8 if LONG else 4)
        ]
    ) as writers:
        for _, pipe in writers:
            assert pipe.recv() == "ready"
            pipe.send("go")
        kills = 0
        while not all(pipe.poll() for _, pipe in writers):
            with workers.children(jobs) as projectors:
                for process, pipe in projectors:
                    assert pipe.recv() == "ready"
                    process.join(chance.random() / 3)
                    assert process.is_alive()
            kills += 3
        notes = [note for _, pipe in writers for note in pipe.recv()]
    with EventStore.open(url) as store, open_projector(store) as projector:
        assert kills > 0
        workers.check_log(store, notes)
        projector.catch_up()
        check(projector, store)
        check_costs(projector, store)
        projector.rebuild()
        check(projector, store)
        check_costs(projector, store)


def test_reads_see_the_tables_of_one_moment(server: Any) -> None:
    """The second statement does not see what another projector commits after the first."""
    url = server.database(migrated=True)
    with EventStore.open(url) as store, Projector(store) as one, Projector(store) as other:
        projecting.write(url, 1, 60)
        one.catch_up()
        before = one.statistics()
        projecting.write(url, 2, 60)
        with overtaken("toolledger_checkpoints.totals", other.catch_up) as applied:
            assert one.statistics() == before
        assert applied[0] > 0
        assert one.statistics().events > before.events


def test_concurrent_rebuilds_all_succeed(server: Any) -> None:
    """The rebuilds build one generation or several, and all tables are equal in the end."""
    url = server.database(migrated=True)
    projecting.write(url, 1, 150)
    done = workers.at_once([partial(projecting.rebuild, url, url)] * (6 if LONG else 4))
    assert [one for one in done if isinstance(one, Exception)] == []
    with EventStore.open(url) as store, open_projector(store) as projector:
        assert projector.catch_up() == 0
        check(projector, store)
        check_costs(projector, store)


def test_an_event_that_a_server_does_not_take_is_parked(tmp_path: Path, mariadb: Any) -> None:
    """A row of 17 MB exceeds the limit of 16 MB; all other events are applied."""
    tables = mariadb.database()
    with new_store(tmp_path / "log.db") as store, Projector(store, tables, batch=4) as projector:
        for n, name in enumerate("abc"):
            store.conversation(name).request("f", {"x": "x" * (17_000_000 if n == 1 else 1)}, "y")
        assert projector.catch_up() == 3
        (parked,) = projector.parked()
        assert parked.conversation_id == "b"
        assert "the database does not take it" in parked.problem
        assert [name for name, _ in projector.tools()] == ["a", "c"]


FULL = {
    "postgresql": (
        (
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100'; END $$"
        ),
        "CREATE TRIGGER full_disk BEFORE INSERT ON toolledger_calls EXECUTE FUNCTION refuse()",
        "DROP TRIGGER full_disk ON toolledger_calls",
    ),
    "mariadb": (
        (
            "CREATE TRIGGER full_disk BEFORE INSERT ON toolledger_calls FOR EACH ROW "
            "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'the table is full'"
        ),
        "DROP TRIGGER full_disk",
    ),
}
"""Statements after which a server refuses a table's rows as it does when its disk is full; the last
one ends that."""


@pytest.mark.parametrize("kind", FULL)
def test_a_full_disk_parks_no_event(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    """No event is at fault, so the error is raised; with space again, all of them are applied."""
    server = request.getfixturevalue(kind)
    tables = server.database()
    with new_store(tmp_path / "log.db") as store, Projector(store, tables, batch=4) as projector:
        store.conversation("a").request("f", {}, "y")
        *fill, free = FULL[kind]
        server.execute(*fill, database=tables)
        with pytest.raises(StoreFull, match="free some space"):
            projector.catch_up()
        assert projector.parked() == []
        server.execute(free, database=tables)
        assert projector.catch_up() == 1
        assert [name for name, _ in projector.tools()] == ["a"]


def test_a_poison_event_holds_up_only_its_own_conversation_on_servers(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unreadable events and those that a fold raises on are applied later."""
    url = server.database(migrated=True)
    projecting.write(url, 1, 80)
    with EventStore.open(url) as store, Projector(store, batch=7) as projector:
        names = ["bad \U0001f384 %s \n'", "broken"]
        for name in names:
            chat = store.conversation(name)
            for number in range(3):
                chat.request("f", {}, f"call{number}")
        where = "position = {} AND lane = {}".format(
            *next((r.position, r.lane) for r in store.conversation(names[0]).events(after=1))
        )
        find = f"SELECT payload FROM toolledger_events WHERE {where}"  # noqa: S608
        ((payload,),) = server.execute(find, database=url)
        spoil = f"UPDATE toolledger_events SET payload = '{{' WHERE {where}"  # noqa: S608
        server.execute(spoil, database=url)
        extend = StoredTools.extend
        bad = {"broken"}

        def fail(view: StoredTools, events: Any) -> None:
            for recorded in events:
                if recorded.conversation_id in bad and recorded.version == 2:
                    raise RuntimeError("a bug \x00 \U0001f384")
                extend(view, [recorded])

        monkeypatch.setattr(StoredTools, "extend", fail)
        projector.catch_up()
        parked = {p.conversation_id: (p.version, p.waiting) for p in projector.parked()}
        assert parked == {names[0]: (2, 1), names[1]: (2, 1)}
        assert len([*projector.tools("chat5")]) == len(store.conversation("chat5").tools) > 0
        assert projector.rebuild() > 0
        assert (projector.retry(), len(projector.parked())) == (0, 2)
        bad.clear()
        mend = f"UPDATE toolledger_events SET payload = '{payload}' WHERE {where}"  # noqa: S608
        server.execute(mend.replace("%", "%%"), database=url)
        assert projector.retry() == 2
        check(projector, store)


def test_two_versions_of_a_projection_do_not_rebuild_without_end(tmp_path: Path) -> None:
    """Processes rebuild at each error, and those of the new version do so once at most."""
    with filled(tmp_path / "log.db", 2, 60) as store:
        url, tables = f"sqlite:///{tmp_path}/log.db", f"sqlite:///{tmp_path}/tables.db"
        projecting.set_prices(tables, projecting.PRICES)
        keep_up = partial(projecting.keep_up_a_version, url, tables)
        assert keep_up(1, 1) == (0, 0)
        old, new = partial(keep_up, 1, repeated(20)), partial(keep_up, 2, repeated(20))
        done = workers.at_once([old, new, old, new])
        assert [one for one in done if isinstance(one, Exception)] == []
        assert {rebuilt for rebuilt, _ in done[::2]} == {0}
        rebuilt, refused = zip(*done[1::2], strict=True)
        assert max(rebuilt) == 1
        assert refused == (0, 0)
        assert keep_up(1, 3) == (0, 3)
        with Projector(store, tables, views=[], projections=[projecting.NextCosts()]) as projector:
            projector.catch_up()
            double = {tool: 2 * cents for tool, cents in projecting.PRICES.items()}
            check_costs(projector, store, double)


def test_a_retry_is_killed_and_goes_on_in_two_processes(tmp_path: Path) -> None:
    """All that was applied before the kill stays, and nothing is applied twice."""
    path, parked = tmp_path / "log.db", 60
    with filled(path, 1, 0) as store:
        url = tables = f"sqlite:///{path}"
        for number in range(parked):
            projecting.run(store, f"chat-{number}", 2)
        payloads = {at: projecting.damage(path, at) for at in range(2, 6 * parked, 6)}
        with open_projector(store, tables) as projector:
            projector.catch_up()
            assert len(projector.parked()) == 2 * parked  # of the example, too
            for at, payload in payloads.items():
                mend = "UPDATE toolledger_events SET payload = ? WHERE position = ?"
                projecting.execute(path, mend, (payload, at))
            with workers.children([partial(projecting.retry_and_die, url, tables, 2)]) as (died,):
                process, pipe = died
                assert list(workers.received(pipe)) == []
                process.join()
                assert process.exitcode == -9
            left = len(projector.parked())
            assert parked < left < 2 * parked
            done = workers.at_once([partial(projecting.retry, url, tables)] * 2)
            assert [one for one in done if isinstance(one, Exception)] == []
            assert left <= sum(done) <= 2 * left
            assert projector.parked() == []
            check(projector, store)
            check_costs(projector, store)
