"""Arguments, tables and logs that a projector refuses."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.losses import put_back
from support.projected_logs import check, execute, run
from support.statements import overtaken

from eventstore import (
    CursorLost,
    EventStore,
    LostPlace,
    ModelResponded,
    SchemaTooNew,
    StorageError,
)
from eventstore.storage.sqlite.driver import driver
from projections import Projector, usage_statistics
from projections.projector.built_in import VIEWS
from projections.projector.settings import ProjectorSettings


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"views": ["lost"]}, r"views are \('lost',\): pass some of statistics, tools, usage"),
        ({"views": []}, r"views are \(\): pass some of"),
        ({"bucket": 0}, "bucket is 0: pass 1 or more"),
        ({"batch": 0}, "batch is 0: pass 1 or more"),
        ({"fingerprints": 0}, "fingerprints is 0: pass 1 or more"),
        ({"url": "nonsense"}, "'nonsense' is not a database URL: for a file write for example"),
        (
            {"url": "oracle+nobody://me:secret@x"},
            r"nobody://me:\*\*\*@x cannot be used .* pass for",
        ),
    ],
)
def test_invalid_arguments_are_refused(
    store: EventStore, options: dict[str, Any], message: str
) -> None:
    """The error says what to pass."""
    with pytest.raises(ValueError, match=message):
        Projector(store, **options)


def test_a_missing_driver_is_reported(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is raised before a connection is opened."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ValueError, match="with its driver installed"):
        Projector(store, "postgresql://nobody@localhost/x")


def test_invalid_times_are_refused(projector: Projector) -> None:
    """Times need a time zone, and steps have to fit the buckets."""
    naive = datetime(2026, 1, 1)  # noqa: DTZ001
    with pytest.raises(ValueError, match="has no time zone: pass for example"):
        projector.timeline(since=naive)
    for every in (timedelta(minutes=1), timedelta(minutes=90)):
        with pytest.raises(ValueError, match="pass a multiple of the buckets of 3600 s"):
            projector.timeline(every=every)


def test_only_projected_views_can_be_read(store: EventStore, tmp_path: Path) -> None:
    """The error names those that can be read.

    Without arguments a projector takes the settings of the tables.
    """
    url = f"sqlite:///{tmp_path}/tables.db"
    run(store, "a")
    with Projector(store, url, views=["tools"], bucket=60) as projector:
        projector.catch_up()
        assert len([*projector.tools()]) == 1
        with pytest.raises(ValueError, match="hold no statistics, only tools: rebuild them"):
            projector.statistics()
        with pytest.raises(ValueError, match="the tables hold no statistics"):
            projector.timeline()
    with Projector(store, url) as projector:
        assert projector.catch_up() == 0
        run(store, "a")
        assert projector.catch_up() == 3
    with Projector(store, url, views=["statistics"], bucket=60) as projector:
        with pytest.raises(ValueError, match="made with views tools and buckets of 60 s, not with"):
            projector.catch_up()
        assert projector.rebuild() == 6
        assert projector.statistics().overall.calls == 2
        with pytest.raises(ValueError, match="the tables hold no tools"):
            projector.pending_approvals()


def test_tables_of_an_older_format_are_refused_until_rebuilt(
    store: EventStore, projector: Projector, path: Path
) -> None:
    """The error names the database, and both ways to rebuild."""
    run(store, "a")
    projector.catch_up()
    execute(path, "UPDATE toolledger_projections SET format = 1")
    expected_message = (
        r"sqlite:.*log\.db: another version of toolledger .*format 1, not 3.* --rebuild`"
    )
    for old in (projector.catch_up, projector.statistics):
        with pytest.raises(StorageError, match=expected_message):
            old()
    with Projector(store, bucket=60) as other, pytest.raises(StorageError, match=r"\.rebuild\(\)"):
        other.catch_up()
    assert projector.rebuild() == 3
    check(projector, store)


def test_tables_without_usage_go_on_and_a_rebuild_adds_it(
    store: EventStore, projector: Projector, path: Path
) -> None:
    """A former version made them, and could not advance those with usage."""
    store.conversation("a").append(ModelResponded("openai"))
    with Projector(store, views=["statistics", "tools"]) as former:
        former.catch_up()
    assert _formats(path) == [2]
    with Projector(store) as later:
        assert later.catch_up() == 0
        assert later.statistics().events == 1
        with pytest.raises(ValueError, match="the tables hold no usage, only statistics, tools: r"):
            later.usage()
    with Projector(store, views=VIEWS) as whole:
        with pytest.raises(ValueError, match="made with views statistics,tools and buckets of"):
            whole.catch_up()
        whole.rebuild()
        assert whole.usage() == usage_statistics(store.read())
    assert _formats(path) == [3]
    with Projector(store) as later:
        assert later.usage().overall.responses == 1


def _formats(path: Path) -> list[int]:
    connection = driver().connect(str(path))
    found = [row[0] for row in connection.execute("SELECT format FROM toolledger_projections")]
    connection.close()
    return found


def test_tables_of_a_newer_format_are_left_alone(
    store: EventStore, projector: Projector, path: Path
) -> None:
    """A rebuild and a new projector refuse them, too."""
    run(store, "a")
    projector.catch_up()
    execute(path, "UPDATE toolledger_projections SET format = 4")
    for attempt in (projector.catch_up, projector.rebuild, lambda: Projector(store)):
        with pytest.raises(SchemaTooNew, match=r"log\.db: a newer .*: upgrade toolledger, or"):
            attempt()
    execute(path, "UPDATE toolledger_projections SET format = 3")
    check(projector, store)


def test_a_log_restored_from_an_older_copy_is_noticed(
    store: EventStore, projector: Projector, path: Path
) -> None:
    """The log ends before the checkpoint."""
    run(store, "a", 2)
    before = [*store.read()]
    projector.catch_up()
    execute(path, "UPDATE toolledger_lanes SET position = 3")
    execute(path, "DELETE FROM toolledger_events WHERE position > 3")
    (there,) = (recorded.event_id for recorded in before if recorded.position == 6)
    with pytest.raises(CursorLost, match="put back: rebuild") as lost:
        projector.catch_up()
    assert lost.value.lost == (LostPlace(0, 6, there, None),)
    assert [*store.read(lost.value.restart)] == [*store.read()]
    assert projector.rebuild() == 3
    assert len([*projector.tools()]) == 1


@pytest.mark.parametrize("others", [0, 3])
def test_a_restored_log_that_has_grown_again_is_noticed(
    path: Path, tmp_path: Path, others: int
) -> None:
    """The log has other events at the checkpoint, of this tenant or of another."""
    url, tables_url = f"sqlite:///{path}", f"sqlite:///{tmp_path}/tables.db"
    with EventStore.open(url) as store:
        run(store, "a", 2)
    before = path.read_bytes()
    with EventStore.open(url) as store, Projector(store, tables_url) as projector:
        run(store, "a")
        with EventStore.open(url, tenant="b") as other:
            run(other, "x", others)
        projector.catch_up()
        check(projector, store)
    path.write_bytes(before)
    with EventStore.open(url) as store, Projector(store, tables_url) as projector:
        run(store, "b", 5)
        with pytest.raises(CursorLost, match=r"older copy, .* tables were not put back: rebu"):
            projector.catch_up()
        projector.rebuild()
        check(projector, store)


def test_a_log_put_back_under_a_running_projector_is_noticed(
    store: EventStore, path: Path, tmp_path: Path
) -> None:
    """Nothing of the other log is applied."""
    with Projector(store, f"sqlite:///{tmp_path}/tables.db") as projector:
        run(store, "a", 2)
        projector.catch_up()
        put_back(path, 3)
        with EventStore.open(f"sqlite:///{path}") as other:
            run(other, "b", 5)
        with pytest.raises(CursorLost, match="the tables were not put back"):
            projector.catch_up()
        assert {name for name, _ in projector.tools()} == {"a"}
        projector.rebuild()
        check(projector, store)


def test_a_restored_log_that_is_as_long_as_before_is_noticed(
    store: EventStore, projector: Projector, path: Path
) -> None:
    """There is nothing to apply, and the event at the checkpoint is another one."""
    run(store, "a", 2)
    projector.catch_up()
    put_back(path, 3)
    with EventStore.open(f"sqlite:///{path}") as other:
        run(other, "b")
    assert store.end().positions == ((0, 6),)
    with Projector(store) as opened_later:
        for each in (projector, opened_later):
            with pytest.raises(CursorLost, match="the tables were not put back"):
                each.catch_up()
    projector.rebuild()
    check(projector, store)


def test_a_projector_that_another_one_has_passed_refuses_nothing(store: EventStore) -> None:
    """The lane is further than where it stood when work began, and not further than the log."""
    run(store, "a", 2)
    with Projector(store) as projector, Projector(store) as other:

        def overtake() -> int:
            run(store, "b")
            return other.catch_up()

        with overtaken("FROM toolledger_checkpoints", overtake) as applied:
            assert (projector.catch_up(), applied) == (0, [9])
        check(projector, store)


def test_lost_events_of_another_tenant_are_noticed(path: Path, tmp_path: Path) -> None:
    """A checkpoint stands behind them; own events may have taken their positions since."""
    url, tables_url = f"sqlite:///{path}", f"sqlite:///{tmp_path}/tables.db"
    with EventStore.open(url) as store:
        run(store, "a", 2)
    before = path.read_bytes()
    with EventStore.open(url) as store, Projector(store, tables_url) as projector:
        with EventStore.open(url, tenant="b") as other:
            run(other, "x", 2)
        projector.catch_up()
    path.write_bytes(before)
    with EventStore.open(url) as store, Projector(store, tables_url) as projector:
        run(store, "b", 5)
        with pytest.raises(CursorLost, match="the tables were not put back"):
            projector.catch_up()
        projector.rebuild()
        check(projector, store)


def test_a_projection_without_checkpoints_is_reported(store: EventStore, path: Path) -> None:
    """The attempts end, and a rebuild helps."""
    run(store, "a")
    with Projector(store) as projector:
        projector.catch_up()
    execute(path, "DELETE FROM toolledger_checkpoints")
    with Projector(store, settings=ProjectorSettings(max_lost_races=3)) as projector:
        with pytest.raises(StorageError, match=r"no batch could be stored .*try again"):
            projector.catch_up()
        assert projector.rebuild() == 3
