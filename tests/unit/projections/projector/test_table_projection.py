"""Projections that users write: the example of the documentation, and faulty ones."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table
from support.pages import python_blocks
from support.projected_logs import (
    EXAMPLE,
    PRICES,
    NextCosts,
    check,
    check_costs,
    costs,
    new_store,
    run,
    set_prices,
)
from support.statements import LAST_OF_A_BATCH, after_statements

from eventstore import EventStore, Lag, Recorded
from projections import OtherVersion, Progress, ProjectedLane, Projector
from projections.projector.database import ProjectionDatabase, forget
from projections.projector.settings import ProjectorSettings


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return the database of the projections."""
    found = f"sqlite:///{tmp_path}/tables.db"
    set_prices(found, PRICES)
    return found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EventStore]:
    """Return a log of three lanes."""
    with new_store(tmp_path / "log.db", 3) as opened:
        yield opened


@pytest.fixture
def projector(store: EventStore, url: str) -> Iterator[Projector]:
    """Return the example beside the built-in projections."""
    with open_with(store, url, costs.CostPerTool()) as opened:
        yield opened


def open_with(store: EventStore, url: str, *projections: Any, **options: Any) -> Projector:
    """Open a projector with these projections beside the built-in ones."""
    return Projector(store, url, projections=projections, **options)


class Failing(costs.CostPerTool):  # type: ignore[misc]
    """The example with a bug: it raises on some versions of some conversations."""

    def __init__(self, *bad: tuple[str, int]) -> None:
        self.bad = set(bad)

    def apply(self, state: Any, events: Sequence[Recorded]) -> None:
        """Apply events one by one, and raise in the middle of some batches."""
        for recorded in events:
            super().apply(state, [recorded])
            if (recorded.conversation_id, recorded.version) in self.bad:
                raise RuntimeError("a bug")


class Remembering(costs.CostPerTool):  # type: ignore[misc]
    """The example, whose state stays in memory between batches."""

    def __init__(self) -> None:
        self.loads = 0

    def load(self, lane: ProjectedLane, events: Sequence[Recorded], state: Any) -> Any:
        """Count how often there is nothing in memory."""
        self.loads += state is None
        return super().load(lane, events, state)

    def store(self, connection: Any, lane: ProjectedLane, state: Any) -> Any:
        """Keep the state."""
        super().store(connection, lane, state)
        return state


# the example


def test_the_page_that_shows_the_example_runs(
    store: EventStore,
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its Python runs as a reader would type it, and its errors are those that are raised."""
    monkeypatch.setitem(sys.modules, "cost_per_tool", costs)
    run(store, "a", 2, "tool1")
    monkeypatch.chdir(tmp_path)
    first, second = python_blocks(EXAMPLE.parents[1] / "projections-in-tables.md")
    names: dict[str, Any] = {}
    exec(first[1], names)  # noqa: S102 - our own page
    names["store"].close()
    capsys.readouterr()
    exec(second[1], {"store": store, "url": url})  # noqa: S102 - our own page
    assert capsys.readouterr().out == "{'tool1': 100}\n"


# what is kept


def test_a_users_projection_is_kept_beside_the_built_in_ones(
    store: EventStore, projector: Projector
) -> None:
    """Its events count separately, because it reads the log by itself."""
    for name, tool in (("a", "tool0"), ("b", "tool1"), ("c", "free")):
        run(store, name, 2, tool)
    assert projector.catch_up() == 2 * 18
    assert projector.catch_up() == 0
    assert costs.read_costs(projector) == {"tool0": 6, "tool1": 100, "free": 0}
    check(projector, store)


@pytest.mark.parametrize("batch", [1, 2, 5, 1000])
@pytest.mark.parametrize("kind", [costs.CostPerTool, Remembering])
def test_batches_of_any_size_count_each_event_once(
    store: EventStore, url: str, batch: int, kind: Any
) -> None:
    """This holds if the state is loaded for each batch or stays in memory, and after a restart."""
    for number in range(4):
        run(store, f"chat{number}", 3)
    with open_with(store, url, kind(), batch=batch) as projector:
        projector.catch_up()
        check_costs(projector, store)
        run(store, "chat1", 2)
        projector.catch_up()
        check_costs(projector, store)
    run(store, "chat2", 2, "tool1")
    with open_with(store, url, kind(), batch=batch) as projector:
        projector.catch_up()
        check_costs(projector, store)


def test_a_state_that_store_returns_is_not_loaded_again(tmp_path: Path, url: str) -> None:
    """The state is loaded only at the beginning, and after another worker has stored rows."""
    kept, dropped = Remembering(), Remembering()
    with (
        new_store(tmp_path / "log.db") as store,
        open_with(store, url, kept, views=[], batch=2) as projector,
        open_with(store, url, dropped, views=[]) as other,
    ):
        run(store, "a", 3)
        assert (projector.catch_up(), kept.loads) == (9, 1)
        run(store, "a")
        assert (other.catch_up(), dropped.loads) == (3, 1)
        run(store, "a")
        assert (projector.catch_up(), kept.loads) == (3, 2)
        check_costs(projector, store)


def test_a_long_batch_is_folded_page_by_page(store: EventStore, url: str) -> None:
    """The changes of one page are not lost by the next one's."""
    settings = ProjectorSettings(page_events=2)
    with open_with(store, url, costs.CostPerTool(), settings=settings) as projector:
        run(store, "a", 5)
        run(store, "b", 5, "tool1")
        projector.catch_up()
        check_costs(projector, store)


def test_only_users_projections_may_be_kept(store: EventStore, url: str) -> None:
    """Without the built-in projections their views cannot be read."""
    run(store, "a")
    with open_with(store, url, costs.CostPerTool(), views=[]) as projector:
        assert projector.catch_up() == 3
        check_costs(projector, store)
        message = "the tables hold no statistics, only cost_per_tool: rebuild them"
        with pytest.raises(ValueError, match=message):
            projector.statistics()
        with pytest.raises(ValueError, match=r"the tables hold no lost, .*: pass projections"):
            projector.reading("lost")


def test_projectors_without_the_projection_do_not_disturb_it(store: EventStore, url: str) -> None:
    """The projection has its own checkpoints; it starts at the first event and misses none."""
    run(store, "a", 2)
    with Projector(store, url) as plain, open_with(store, url, costs.CostPerTool()) as projector:
        assert plain.catch_up() == 6
        assert projector.lag().events == 6
        assert projector.catch_up() == 6
        run(store, "a")
        assert plain.catch_up() == 3
        plain.rebuild()
        assert projector.lag().events == 3
        assert projector.catch_up() == 3
        assert projector.lag() == Lag(0, 0.0)
        check_costs(projector, store)


def test_logs_and_tenants_share_its_tables_and_no_rows(tmp_path: Path, url: str) -> None:
    """Each log has a generation of its own for each tenant."""
    log = f"sqlite:///{tmp_path}/one.db"
    with (
        EventStore.open(log, tenant="a") as one,
        EventStore.open(log, tenant="b") as other,
        new_store(tmp_path / "two.db") as third,
    ):
        for number, log_store in enumerate((one, other, third), 1):
            run(log_store, "chat", number)
        for log_store in (one, other, third, one):
            with open_with(log_store, url, costs.CostPerTool()) as projector:
                projector.catch_up()
                check_costs(projector, log_store)


def test_progress_is_of_all_projections_together(store: EventStore, url: str) -> None:
    """Progress never decreases, and ends where the log ends."""
    run(store, "a", 3)
    run(store, "b", 3)
    seen: list[Progress] = []
    with open_with(store, url, costs.CostPerTool(), batch=4) as projector:
        assert projector.catch_up(seen.append) == 36
    assert {at.total for at in seen} == {36}
    assert [at.done for at in seen] == sorted(at.done for at in seen)
    assert seen[-1].done == 36


def test_an_interrupted_batch_leaves_nothing(store: EventStore, projector: Projector) -> None:
    """No change stays in the tables or in memory."""
    run(store, "a", 2)

    def interrupt(statement: str, _: Any) -> None:
        if statement.startswith(LAST_OF_A_BATCH):
            raise KeyboardInterrupt

    with after_statements(interrupt), pytest.raises(KeyboardInterrupt):
        projector.catch_up()
    assert projector.lag().events == 6
    assert costs.read_costs(projector) == {}
    projector.catch_up()
    check_costs(projector, store)


def test_a_worker_that_lost_the_race_begins_anew(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker does not overwrite the rows of the other worker."""
    with (
        new_store(tmp_path / "one.db") as store,
        open_with(store, url, Remembering(), views=[]) as slow,
        open_with(store, url, costs.CostPerTool(), views=[]) as fast,
    ):
        run(store, "a", 2)
        done: list[int] = []
        apply = Remembering.apply

        def late(projection: Remembering, state: Any, events: Sequence[Recorded]) -> None:
            if not done:
                done.append(fast.catch_up())
            apply(projection, state, events)

        monkeypatch.setattr(Remembering, "apply", late)
        assert (slow.catch_up(), done) == (0, [6])
        check_costs(slow, store)


# a rebuild, and versions


def test_a_rebuild_runs_beside_the_live_tables(store: EventStore, url: str) -> None:
    """Reads see the old rows until the rebuild ends; then all is counted at the new prices."""
    for name in ("a", "b", "c"):
        run(store, name, 2)
    with open_with(store, url, costs.CostPerTool(), batch=3) as projector:
        projector.catch_up()
        before = costs.read_costs(projector)
        new_prices = {"tool0": 7}
        set_prices(url, new_prices)
        seen = []
        projector.rebuild(lambda _: seen.append(costs.read_costs(projector)), only="cost_per_tool")
        assert before == {"tool0": 18}
        assert len(seen) > 3
        assert all(found == before for found in seen)
        check_costs(projector, store, new_prices)
        check(projector, store)
        database = ProjectionDatabase(url)
        with database.reading() as connection:
            generations = {
                row.projection for row in connection.execute(costs.cost_per_tool.select())
            }
        database.close()
        assert len(generations) == 1


def test_a_single_projection_can_be_rebuilt(store: EventStore, projector: Projector) -> None:
    """The views of the built-in one are built together."""
    run(store, "a")
    projector.catch_up()
    assert projector.rebuild(only="cost_per_tool") == 3
    assert projector.rebuild(only="tools") == 3
    assert projector.rebuild() == 6
    with pytest.raises(ValueError, match="hold no prices, only statistics, tools, usage, "):
        projector.rebuild(only="prices")
    check(projector, store)
    check_costs(projector, store)


def test_a_changed_version_is_refused_until_it_is_rebuilt(store: EventStore, url: str) -> None:
    """The error says what to do, and others go on."""
    run(store, "a", 2)
    with (
        open_with(store, url, costs.CostPerTool()) as old,
        open_with(store, url, NextCosts()) as new,
    ):
        old.catch_up()
        message = (
            r"tables\.db: the tables hold cost_per_tool@1, and the projection passed is "
            r"cost_per_tool@2; rebuild it: projector\.rebuild\(only='cost_per_tool'\)"
        )
        for refused in (new.catch_up, lambda: costs.read_costs(new), new.retry):
            with pytest.raises(OtherVersion, match=message) as caught:
                refused()
            assert (caught.value.projection, caught.value.passed) == ("cost_per_tool", 2)
            assert caught.value.found == 1
        check(new, store)
        check_costs(old, store)
        assert new.rebuild(only="cost_per_tool") == 6
        check_costs(new, store, {tool: 2 * cents for tool, cents in PRICES.items()})


def test_an_older_version_leaves_the_tables_of_a_newer_one(store: EventStore, url: str) -> None:
    """Two processes that rebuild at each error do not rebuild for ever; going back is a word."""
    run(store, "a", 2)
    with (
        open_with(store, url, costs.CostPerTool()) as old,
        open_with(store, url, NextCosts()) as new,
    ):
        old.catch_up()
        new.rebuild(only="cost_per_tool")
        message = (
            r"tables hold cost_per_tool@2, .* passed is cost_per_tool@1; they are a newer "
            r"version's, and are left to it: upgrade this process, or pass "
            r"rebuild\(only='cost_per_tool', replace_newer=True\) to go back"
        )
        for refused in (old.catch_up, old.rebuild, lambda: old.rebuild(only="cost_per_tool")):
            with pytest.raises(OtherVersion, match=message):
                refused()
        check_costs(new, store, {tool: 2 * cents for tool, cents in PRICES.items()})
        assert old.rebuild(only="tools") == 6
        assert old.rebuild(only="cost_per_tool", replace_newer=True) == 6
        check_costs(old, store)
        with pytest.raises(OtherVersion, match=r"projector\.rebuild\(only='cost_per_tool'\)"):
            new.catch_up()


def test_an_older_version_leaves_what_a_newer_one_is_building(store: EventStore, url: str) -> None:
    """The live tables are still the older one's, which keeps them up."""
    run(store, "a", 2)

    def stop(_: Progress) -> None:
        raise RuntimeError("enough")

    with (
        open_with(store, url, costs.CostPerTool(), batch=2) as old,
        open_with(store, url, NextCosts(), batch=2) as new,
    ):
        old.catch_up()
        with pytest.raises(RuntimeError, match="enough"):
            new.rebuild(stop, only="cost_per_tool")
        with pytest.raises(OtherVersion, match="replace_newer=True"):
            old.rebuild()
        run(store, "a")
        assert old.catch_up() == 6
        assert 9 >= new.rebuild(only="cost_per_tool") >= 7  # two may have been built before
        check_costs(new, store, {tool: 2 * cents for tool, cents in PRICES.items()})


class Beside(costs.CostPerTool):  # type: ignore[misc]
    """The example once more, under another name and in a table of its own."""

    name = "beside"
    tables = ()

    def load(self, lane: Any, events: Sequence[Recorded], state: Any) -> Any:
        """Return how many events there were."""
        del lane, events
        return state or [0]

    def apply(self, state: Any, events: Sequence[Recorded]) -> None:
        """Count the events."""
        state[0] += len(events)

    def store(self, connection: Any, lane: Any, state: Any) -> Any:
        """Keep the count in memory alone."""
        del connection, lane
        return state


def test_a_projection_of_another_version_stops_itself_alone(store: EventStore, url: str) -> None:
    """All others are kept up before the error: the library's tables, and those after it."""
    chat = store.conversation("a")
    chat.request("f", {}, "first")
    with open_with(store, url, costs.CostPerTool()) as old:
        old.catch_up()
        with Projector(store, url, projections=[NextCosts(), Beside()]) as new:
            chat.request("f", {}, "second")
            with pytest.raises(OtherVersion, match="cost_per_tool@2"):
                new.catch_up()
            assert [each.call_id for each in new.pending_approvals()] == ["first", "second"]
            assert new.lag().events == old.lag().events == 1  # those of the version that is live
            assert new.parked() == []
            with new.reading("beside"):
                assert sum(new._worker_of("beside").positions().values()) == 2
            new.rebuild(only="cost_per_tool")
        chat.request("f", {}, "third")
        with pytest.raises(OtherVersion, match="cost_per_tool@2"):
            old.catch_up()
        assert [each.call_id for each in old.pending_approvals()] == ["first", "second", "third"]
        assert old.lag().events == 1


def test_a_half_built_generation_of_another_version_is_not_continued(
    store: EventStore, url: str
) -> None:
    """The generation is retired, and its rows are deleted."""
    run(store, "a", 3)

    def stop(_: Progress) -> None:
        raise RuntimeError("enough")

    with (
        open_with(store, url, costs.CostPerTool(), batch=2) as old,
        open_with(store, url, NextCosts()) as new,
    ):
        old.catch_up()
        with pytest.raises(RuntimeError, match="enough"):
            old.rebuild(stop, only="cost_per_tool")
        new.rebuild(only="cost_per_tool")
        check_costs(new, store, {tool: 2 * cents for tool, cents in PRICES.items()})


def test_rows_of_a_log_that_was_removed_count_for_no_other(tmp_path: Path, url: str) -> None:
    """Users' tables outlive the log's generations, whose numbers are used again."""
    for name, calls in (("one.db", 3), ("two.db", 1)):
        with new_store(tmp_path / name) as store:
            run(store, "a", calls)
            with open_with(store, url, costs.CostPerTool(), views=[]) as projector:
                projector.catch_up()
                check_costs(projector, store)
            forget(url, store.end().epoch)


# poison


@pytest.mark.parametrize("batch", [1, 3, 1000])
def test_an_event_that_apply_raises_on_is_parked_for_this_projection_only(
    store: EventStore, url: str, batch: int
) -> None:
    """Later events of the conversation are parked with it until it can be applied."""
    for _ in range(3):
        for name in ("a", "b", "c"):
            run(store, name)
    failing = Failing(("a", 3), ("b", 9))
    with open_with(store, url, failing, batch=batch) as projector:
        projector.catch_up()
        check(projector, store)
        parked = sorted(projector.parked(), key=lambda item: item.conversation_id)
        assert [(p.conversation_id, p.version, p.waiting) for p in parked] == [
            ("a", 3, 6),
            ("b", 9, 0),
        ]
        assert str(parked[0]) == (
            "cost_per_tool: 'a' version 3: RuntimeError: a bug, 6 later events wait behind it"
        )
        assert costs.read_costs(projector) == {"tool0": 15}
        failing.bad = {("a", 6)}
        assert projector.retry() == 1  # b; a stops further on now
        assert [(p.version, p.waiting) for p in projector.parked()] == [(6, 3)]
        assert projector.rebuild(only="cost_per_tool") == 27
        assert [(p.version, p.waiting) for p in projector.parked()] == [(6, 3)]
        failing.bad.clear()
        assert projector.retry("a") == 1
        assert projector.parked() == []
        check_costs(projector, store)


class Unbindable(costs.CostPerTool):  # type: ignore[misc]
    """The example with a price that no column holds."""

    limit = 2**70

    def apply(self, state: Any, events: Sequence[Recorded]) -> None:
        """Make the call of one tool cost too much."""
        super().apply(state, events)
        if state.cents["dear"]:
            state.cents["dear"] = self.limit


@pytest.mark.parametrize("batch", [1, 4, 1000])
def test_an_event_whose_values_the_driver_does_not_take_is_parked(
    store: EventStore, url: str, batch: int
) -> None:
    """All others are stored; this one is stored when the driver accepts it."""
    prices = PRICES | {"dear": 9}
    set_prices(url, prices)
    for name, tool in (("a", "tool0"), ("b", "dear"), ("c", "tool1"), ("b", "tool0")):
        run(store, name, 2, tool)
    projection = Unbindable()
    with open_with(store, url, projection, batch=batch) as projector:
        projector.catch_up()
        (parked,) = projector.parked()
        assert (parked.conversation_id, parked.version, parked.waiting) == ("b", 3, 9)
        assert "the database does not take it: OverflowError" in parked.problem
        assert projector.retry() == 0
        projection.limit = 18
        assert projector.retry() == 1
        check_costs(projector, store, prices)


def test_an_error_of_load_or_store_ends_the_work_and_loses_nothing(
    store: EventStore, projector: Projector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such an error is a bug of the projection and parks no event."""
    run(store, "a")

    def fail(*_: Any) -> None:
        raise KeyError("a bug")

    for method in ("load", "store"):
        with monkeypatch.context() as patch:
            patch.setattr(costs.CostPerTool, method, fail)
            with pytest.raises(KeyError, match="a bug"):
                projector.catch_up()
    assert projector.parked() == []
    projector.catch_up()
    check_costs(projector, store)


# what is refused


class Odd(costs.CostPerTool):  # type: ignore[misc]
    """The example, declared otherwise."""

    def __init__(self, **declared: Any) -> None:
        self.__dict__.update(declared)


def table(name: str, *columns: Any) -> Table:
    """Return a table of one text column after these."""
    return Table(name, MetaData(), *columns, Column("tool", String(9), primary_key=True))


@pytest.mark.parametrize(
    ("projections", "message"),
    [
        ([Odd(name="Costs")], "name is 'Costs': pass at most 40 lower-case letters, digits"),
        ([Odd(name="c" * 41)], "a letter first"),
        ([Odd(name="tools")], "two projections are named 'tools': give each its own name"),
        ([Odd(), Odd()], "two projections are named 'cost_per_tool'"),
        ([Odd(version=0)], "version of cost_per_tool is 0: pass a number from 1"),
        ([Odd(version="2")], "version of cost_per_tool is '2'"),
        (
            [Odd(tables=[table("t")])],
            r"primary key of table t does not begin with projection and lane: .*\.columns\(\)",
        ),
        (
            [Odd(tables=[table("t", *reversed(ProjectedLane.columns()))])],
            "does not begin with projection and lane",
        ),
        (
            [Odd(tables=[table("toolledger_calls", *ProjectedLane.columns())])],
            "toolledger_calls is a table of toolledger: choose another name",
        ),
    ],
)
def test_projections_that_cannot_be_kept_are_refused(
    store: EventStore, projections: list[Any], message: str
) -> None:
    """The error says what to change, and nothing is created before it."""
    with pytest.raises(ValueError, match=message):
        Projector(store, projections=projections)


def test_tables_are_created_where_they_do_not_exist(store: EventStore, tmp_path: Path) -> None:
    """Tables are created in the database of the projections, with their indexes."""
    tables_url = f"sqlite:///{tmp_path}/new.db"
    mine = Table("mine", MetaData(), *ProjectedLane.columns(), Column("n", Integer, index=True))
    for _ in range(2):
        Projector(store, tables_url, projections=[Odd(name="mine", tables=[mine])]).close()
    database = ProjectionDatabase(tables_url)
    with database.reading() as connection:
        names = connection.exec_driver_sql("SELECT name FROM sqlite_master").scalars().all()
    database.close()
    assert {"mine", "ix_mine_n"} <= set(names)


class Interrupted(Remembering):
    """The example, which Ctrl-C stops once at a version of a conversation."""

    def __init__(self, at: tuple[str, int], *bad: tuple[str, int]) -> None:
        super().__init__()
        self.at: tuple[str, int] | None = at
        self.bad = set(bad)

    def apply(self, state: Any, events: Sequence[Recorded]) -> None:
        """Apply events one by one."""
        for recorded in events:
            place = recorded.conversation_id, recorded.version
            if place == self.at:
                self.at = None
                raise KeyboardInterrupt
            if place in self.bad:
                raise RuntimeError("a bug")
            super().apply(state, [recorded])


def test_an_interrupt_between_parts_leaves_nothing_half_done(url: str, tmp_path: Path) -> None:
    """Events that were applied after the last part was stored are not applied again on top."""
    projection = Interrupted(("c", 170), ("a", 2))
    with (
        new_store(tmp_path / "one.db") as store,
        open_with(store, url, projection) as projector,
    ):
        for name in ("a", "b", "c", "d"):
            run(store, name, 60)
        with pytest.raises(KeyboardInterrupt):
            projector.catch_up()
        assert projection.at is None
        assert 0 < projector.lag().events < 720  # parts were stored
        projector.catch_up()
        (parked,) = projector.parked()
        assert (parked.conversation_id, parked.waiting) == ("a", 178)
        projection.bad.clear()
        projection.at = ("a", 170)
        with pytest.raises(KeyboardInterrupt):
            projector.retry()
        assert projector.retry() == 1
        check_costs(projector, store)
