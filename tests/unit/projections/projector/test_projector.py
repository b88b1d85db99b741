"""What the projector keeps, and how it is read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.projected_logs import check, execute, new_store, run
from support.statements import after_statements, before_statements
from support.storages import open_limited

from eventstore import (
    ErrorKind,
    EventStore,
    Failure,
    FunctionCall,
    FunctionResponse,
    Lag,
    ModelResponded,
    Pending,
    ToolApproved,
    ToolCompleted,
    ToolFailed,
    ToolPaused,
    ToolPending,
    ToolRunning,
    Usage,
    UsageLimitBreach,
)
from eventstore.storage.sqlite.driver import driver
from eventstore.testing import FrozenClock, message
from projections import Progress, Projector, UsageReport, error_statistics, usage_statistics
from projections.projector import schema
from projections.projector.database import LostRace
from projections.projector.settings import ProjectorSettings
from projections.statistics.durations import MAX_EXACT_DURATIONS


def test_an_empty_log_is_projected(projector: Projector) -> None:
    """All reads are empty, and there is no lag."""
    assert projector.catch_up() == 0
    assert projector.lag() == Lag(0, 0.0)
    assert projector.statistics() == error_statistics([])
    assert list(projector.tools()) == projector.pending_approvals() == projector.timeline() == []


def test_the_tables_stand_beside_the_log_and_stay(
    store: EventStore, projector: Projector, path: Path
) -> None:
    """Their names have our prefix, and the next projector goes on with them."""
    run(store, "chat", 3)
    assert projector.catch_up() == 9
    with Projector(store) as other:
        assert other.catch_up() == 0
        check(other, store)
    connection = driver().connect(str(path))
    names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    connection.close()
    assert {table.name for table in schema.metadata.sorted_tables} <= names
    assert all(name.startswith("toolledger_") for name in schema.metadata.tables)
    assert list(store.verify()) == []


def test_a_log_in_memory_has_its_tables_in_memory() -> None:
    """The tables vanish with the log."""
    with EventStore.open("sqlite://") as store, Projector(store) as projector:
        run(store, "chat")
        assert projector.catch_up() == 3
        check(projector, store)


@pytest.mark.parametrize("words", [{"completed": 1}, {"failed": "no"}, {"run_again": True}])
def test_a_doubt_is_kept_until_a_person_settles_it(
    store: EventStore, projector: Projector, words: dict[str, Any]
) -> None:
    """The rows have what a settlement needs, also where attempts were lost before the last."""
    chat = store.conversation("chat")
    chat.start(chat.request("pay", call_id="c").id)
    steps = [
        lambda: chat.start("c", 2),
        lambda: chat.fail("c", "declined"),
        lambda: chat.settle("c", seen=chat.tool("c"), by="ann", **words),
        lambda: "run_again" not in words or chat.start("c"),
    ]
    for step in steps:
        step()
        projector.catch_up()
        check(projector, store)
    assert projector.statistics().overall.settlements == 1


def test_an_announced_attempt_whose_approval_expires_waits_again(store: EventStore) -> None:
    """The rows keep what that pause follows, and the attempt after it counts as a retry."""
    chat = store.conversation("chat")
    call_id = chat.request("pay", call_id="c").id
    for event, is_open in (
        (ToolApproved(call_id, expires_at=2**52), 1),
        (ToolRunning(call_id, 1), 1),
        (ToolFailed(call_id, Failure(ErrorKind.TRANSIENT, "busy"), 1, delay=1), 0),
        (ToolPaused(call_id), 1),
        (ToolApproved(call_id), 1),
        (ToolRunning(call_id, 2), 1),
        (ToolCompleted(call_id, FunctionResponse("pay", "paid", call_id)), 0),
    ):
        chat.append(event)
        with Projector(store) as projector:  # has no more than the rows
            projector.catch_up()
            check(projector, store)
            statistics = projector.statistics()
        assert statistics.overall.open == is_open
    assert (statistics.overall.retries, statistics.overall.recovered) == (1, 1)
    assert statistics.anomalies == ()


def test_tenants_have_their_own_rows(path: Path) -> None:
    """In one database and one lane, no tenant sees or waits for the other."""
    with (
        EventStore.open(f"sqlite:///{path}", tenant="a") as one,
        EventStore.open(f"sqlite:///{path}", tenant="b") as other,
        Projector(one) as ours,
        Projector(other) as theirs,
    ):
        run(one, "chat", 2)
        run(other, "chat")
        run(one, "chat")
        run(other, "more")
        assert (ours.catch_up(), theirs.catch_up()) == (9, 6)
        assert (ours.lag().events, theirs.lag().events) == (0, 0)
        check(ours, one)
        check(theirs, other)


def test_logs_in_one_database_share_no_rows(store: EventStore, tmp_path: Path) -> None:
    """This holds even if their conversations and calls have the same names."""
    tables_url = f"sqlite:///{tmp_path}/tables.db"
    with (
        new_store(tmp_path / "other.db") as other,
        Projector(store, tables_url) as ours,
        Projector(other, tables_url) as theirs,
    ):
        run(store, "chat", 2)
        run(other, "chat")
        for _ in range(2):
            ours.catch_up()
            theirs.catch_up()
            check(ours, store)
            check(theirs, other)
            theirs.rebuild()
            run(other, "chat")


def test_calls_are_read_by_conversation_and_status(store: EventStore) -> None:
    """Calls are returned in call order, page by page."""
    projector = Projector(store, settings=ProjectorSettings(page_rows=2))
    run(store, "a", 5)
    run(store, "b")
    waiting = store.conversation("b").request("pay", {})
    projector.catch_up()
    assert [tool for _, tool in projector.tools("a")] == [*store.conversation("a").tools.values()]
    assert len([*projector.tools(status="completed")]) == 6
    assert [*projector.tools(status="Pending")] == [("b", waiting)]
    assert [*projector.tools("b", "pending")] == [("b", waiting)]
    assert [*projector.tools("nobody")] == []
    assert [a.call_id for a in projector.pending_approvals()] == [waiting.id]
    with pytest.raises(ValueError, match="status is 'lost': pass one of pending, approved"):
        projector.tools(status="lost")
    projector.close()


def test_imported_calls_are_not_pending_approvals(store: EventStore, projector: Projector) -> None:
    """Imported calls may have run where they come from."""
    store.conversation("a").append(ToolPending(FunctionCall("f", {}, "x"), imported=True))
    projector.catch_up()
    assert [tool.status for _, tool in projector.tools()] == [Pending()]
    assert projector.pending_approvals() == []


def test_the_timeline_counts_calls_when_they_were_asked_for(
    store: EventStore, projector: Projector, clock: FrozenClock
) -> None:
    """A call counts in the hour in which it was asked for, whenever it ends."""
    chat = store.conversation("a")
    begin = datetime.fromtimestamp(clock() / 1_000_000, UTC)
    chat.request("f", {}, "early")
    chat.start("early")
    clock.advance(3 * 3600)
    run(store, "a", 2)
    chat.fail("early", Failure(ErrorKind.QUOTA, "no more"))
    projector.catch_up()
    first, last = projector.timeline()
    assert first.start <= begin < first.end == first.start + timedelta(hours=1)
    assert (first.overall.calls, first.overall.failures, last.overall.calls) == (1, 1, 2)
    assert (first.by_kind["quota"].terminal, last.by_kind) == (1, {})
    assert list(last.by_tool) == ["tool0"]
    assert projector.timeline(since=begin + timedelta(hours=1)) == [last]
    assert projector.timeline(until=first.start) == []
    assert projector.timeline(until=begin + timedelta(seconds=1)) == [first]
    (week,) = projector.timeline(every=timedelta(days=7))
    assert (week.overall.calls, week.end - week.start) == (3, timedelta(days=7))
    # Joined buckets are whole, wherever in them the given times are.
    assert projector.timeline(last.start, last.end, timedelta(days=7)) == [week]


def test_buckets_begin_at_the_microsecond_even_if_clocks_jump(
    store: EventStore, path: Path
) -> None:
    """Times before 1970 and after the last day of the calendar have buckets, too."""
    hour = 3_600_000_000
    times = [5 * hour, 5 * hour - 1, 6 * hour - 1, 6 * hour, 0, -1, -hour, -hour - 1]
    times += [2**61, -(2**61)]
    for number in range(len(times)):
        store.conversation("a").request("f", {}, f"call{number}")
    for number, at in enumerate(times):
        execute(
            path, "UPDATE toolledger_events SET recorded_at = ? WHERE version = ?", (at, number + 1)
        )
    with Projector(store) as projector:
        assert projector.catch_up() == len(times)
        assert projector.parked() == []
        found = projector.timeline()
        assert [bucket.overall.calls for bucket in found] == [1, 1, 2, 1, 1, 2, 1, 1]
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        begins = [(bucket.start - epoch) // timedelta(hours=1) for bucket in found]
        assert begins[1:-1] == [-2, -1, 0, 4, 5, 6]
        assert (found[0].start.year, found[-1].end.year) == (1, 9999)
        assert found[2].end == found[3].start == epoch
        known = projector.timeline(epoch, epoch + timedelta(hours=5))
        assert [bucket.overall.calls for bucket in known] == [1, 1]
        ages = timedelta.max // timedelta(days=1) * timedelta(days=1)
        for span in ((), (epoch - timedelta(days=1), epoch + timedelta(days=1))):
            whole = projector.timeline(*span or (None, None), ages)
            assert [bucket.overall.calls for bucket in whole] == [4, 6]
        assert list(projector.tools())
        check(projector, store)


def test_a_replaced_generation_is_deleted_in_small_steps(store: EventStore, path: Path) -> None:
    """All its rows are deleted, even if another worker deletes some at the same time."""
    for name in ("a", "b", "c"):
        run(store, name, 3)
    deletions = 0

    def lose_every_other(statement: str, _: Any) -> None:
        nonlocal deletions
        if "LIMIT" in statement:  # it selects what to delete
            deletions += 1
            if deletions % 2:
                raise LostRace("another deletes them, too")

    with Projector(store, settings=ProjectorSettings(rows_per_delete=2)) as projector:
        projector.catch_up()
        with before_statements(lose_every_other):
            projector.rebuild()
        check(projector, store)
    assert deletions > 2 * (9 // 2 + len(schema.metadata.tables) - 1)
    connection = driver().connect(str(path))
    for table in schema.metadata.tables.keys() - {"toolledger_projections"}:
        kept = connection.execute(f"SELECT DISTINCT projection FROM {table}")  # noqa: S608
        assert list(kept) in ([], [(2,)])
    connection.close()


def test_lag_is_measured_in_events_and_seconds(path: Path, clock: FrozenClock) -> None:
    """The seconds are the age of the oldest event of any lane that is not applied."""
    with new_store(path, 4, clock=clock) as store, Projector(store) as projector:
        for number in range(10):
            store.conversation(f"chat{number}").append(message())
        clock.advance(5)
        store.conversation("chat0").append(message())
        clock.advance(2)
        assert projector.lag() == Lag(11, 7.0)
        reports: list[Progress] = []
        assert projector.catch_up(reports.append) == 11
        assert reports[-1] == Progress(11, 11)
        assert projector.lag() == Lag(0, 0.0)
        store.conversation("chat9").append(message())
        assert projector.lag() == Lag(1, 0.0)
        clock.advance(3)
        for number in range(9):  # in the other lanes, too
            store.conversation(f"chat{number}").append(message())
        assert projector.lag() == Lag(10, 3.0)
        clock.advance(-9)  # it was set back
        assert projector.lag() == Lag(10, 0.0)


@pytest.mark.parametrize(("rows", "loads"), [(0, 2), (1_000, 0)])
def test_a_state_that_is_too_large_leaves_memory(store: EventStore, rows: int, loads: int) -> None:
    """Conversations are loaded again for the next batch, and the tables are the same."""
    settings = ProjectorSettings(max_cached_rows=rows)
    loaded: list[str] = []

    def load(statement: str, _: Any) -> None:
        if "FROM toolledger_streams" in statement:
            loaded.append(statement)

    with Projector(store, batch=4, settings=settings) as projector:
        for number in range(4):
            run(store, f"chat{number % 2}")
            with after_statements(load):
                projector.catch_up()
        assert len(loaded) == loads
        check(projector, store)


@pytest.mark.slow
def test_fingerprints_beyond_the_limit_are_forgotten_as_in_memory(store: EventStore) -> None:
    """Batches of any size forget the same fingerprints, and their rows are deleted."""
    run(store, "chat", 200)
    chat = store.conversation("chat")
    for number in range(150):
        chat.request("other", {"n": number % 90}, f"x{number}")
    for again in (True, False):
        with Projector(store, batch=13, fingerprints=70) as projector:
            if again:
                projector.catch_up()
            else:
                projector.rebuild()
            found = projector.statistics()
        wanted = error_statistics(store.read(), fingerprints=70)
        assert found.forgotten == wanted.forgotten > 0
        assert found.by_fingerprint.keys() == wanted.by_fingerprint.keys()


def test_a_call_that_is_resolved_in_a_batch_stays_resolved(
    store: EventStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row exists until the commit; later events of the same batch do not reopen the call."""
    chat = store.conversation("a")
    tool = chat.request("find", {"n": 1})
    chat.start(tool.id)
    with Projector(store) as projector:
        projector.catch_up()
    chat.complete(tool.id, 1)
    insert = "INSERT INTO toolledger_events SELECT lane, position + 1, conversation, version + 1, "
    rest = "randomblob(16), recorded_at, NULL, tag, schema, fingerprint, chain, payload, salt "
    rest += "FROM toolledger_events WHERE position = 3"
    execute(path, insert + rest)  # it completes once more
    execute(path, "UPDATE toolledger_lanes SET position = 4")
    paged = EventStore(open_limited(store.url, chunk_rows=1))
    with paged, Projector(paged) as projector:
        projector.catch_up()
        check(projector, paged)
        assert projector.statistics().overall.completions == 1


def test_text_that_databases_refuse_is_projected(store: EventStore, projector: Projector) -> None:
    """NUL in names and ids comes back as it was; people see an escape in the tables."""
    chat = store.conversation("caf\u00e9")
    chat.append(ToolPending(FunctionCall("a\x00\u00e9", {"x": "\x00"}, "id\x00")))
    projector.catch_up()
    check(projector, store)
    ((name, tool),) = projector.tools("caf\u00e9")
    assert (name, tool.id, tool.call.name) == ("caf\u00e9", "id\x00", "a\x00\u00e9")
    assert schema.storable("a\x00\u00e9") == "a\\x00\u00e9"


def test_events_without_their_call_are_anomalies(
    store: EventStore, projector: Projector, path: Path
) -> None:
    """Ends without requests and calls without ids are folded as in memory."""
    run(store, "a")
    chat = store.conversation("a")
    chat.request("f", {}, "x")
    chat.start("x")
    execute(
        path,
        "UPDATE toolledger_events SET payload = replace(payload, '\"x\"', '\"y\"') "
        "WHERE position = 4",
    )
    execute(
        path,
        "UPDATE toolledger_events SET payload = replace(payload, '\"id\":', '\"xx\":') "
        "WHERE position = 1",
    )
    projector.catch_up()
    check(projector, store)
    assert projector.statistics().anomaly_count == 4


@pytest.mark.parametrize("lanes", [1, 3])
def test_more_latencies_than_are_kept_exactly_are_those_of_the_fold(
    tmp_path: Path, lanes: int
) -> None:
    """From then on buckets count them, in each row and in the sum of all lanes."""
    with new_store(tmp_path / "many.db", lanes) as store, Projector(store, batch=900) as projector:
        share = MAX_EXACT_DURATIONS // 2
        for number in range(4):
            latencies = range(1_000 * number, 1_000 * number + 97 * share, 97)
            events = (ModelResponded("openai", "gpt-5", latency=each) for each in latencies)
            store.conversation(f"chat{number}").append(*events)
            projector.catch_up()
            assert projector.usage() == usage_statistics(store.read())
        assert projector.usage().overall.latency.count == 2 * MAX_EXACT_DURATIONS


def test_usage_alone_can_be_projected(store: EventStore, tmp_path: Path) -> None:
    """The last response and its turn are known to a projector that begins anew."""
    url = f"sqlite:///{tmp_path}/tables.db"
    chat = store.conversation("a")
    response = ModelResponded("openai", "gpt-5", "r1", usage=Usage(100, 20), latency=7)
    nameless = ModelResponded(None, "gpt-5", "r1", usage=Usage(3, 4))
    chat.request("look", {})
    for events in ([message()], [response], [response], [nameless], [response]):
        chat.append(*events)
        with Projector(store, url, views=["usage"]) as projector:
            assert projector.catch_up() > 0
            used = projector.usage()
        assert used == usage_statistics(store.read())
    assert used.overall.usage == Usage(203, 44)


def test_calls_without_a_response_write_no_usage(store: EventStore, projector: Projector) -> None:
    """The row of a conversation's usage is written where there is something to count alone."""
    run(store, "chat")
    written: list[str] = []

    def note(statement: str, _: Any) -> None:
        if "toolledger_usage" in statement:
            written.append(statement)

    with after_statements(note):
        projector.catch_up()
        assert written == []
        store.conversation("chat").append(ModelResponded("openai", usage=Usage(1, 2)))
        projector.catch_up()
        assert written != []


def test_a_response_counts_for_the_tools_of_a_turn_that_was_stored(
    store: EventStore, tmp_path: Path
) -> None:
    """The turn and its tools stand in tables until the response comes."""
    url = f"sqlite:///{tmp_path}/tables.db"
    chat = store.conversation("a")
    steps = (
        lambda: chat.request("look", {}),
        lambda: chat.append(ModelResponded("openai", response_id="r1", usage=Usage(1, 2))),
        lambda: chat.append(UsageLimitBreach("cost", Decimal(1), Decimal(2))),
    )
    for step in steps:
        step()
        with Projector(store, url, views=["usage"]) as projector:
            projector.catch_up()
            assert projector.usage() == usage_statistics(store.read())
    assert projector_usage(store, url).by_tool["look"].usage == Usage(1, 2)


def test_a_breach_counts_once_however_often_its_lane_is_stored(
    store: EventStore, projector: Projector
) -> None:
    """The next commit adds nothing that was stored already."""
    for number in range(3):
        store.conversation("a").append(UsageLimitBreach("cost", Decimal(1), Decimal(number + 2)))
        projector.catch_up()
        assert projector.usage().breaches == {"cost": number + 1}


def test_a_response_without_an_id_that_is_delivered_again_counts_once(
    store: EventStore, path: Path, tmp_path: Path
) -> None:
    """Its version says so, which is stored where usage alone is projected, too."""
    url = f"sqlite:///{tmp_path}/tables.db"
    store.conversation("a").append(message(), ModelResponded("openai", usage=Usage(1, 2)))
    assert projector_usage(store, url).overall.responses == 1
    insert = "INSERT INTO toolledger_events SELECT lane, position + 1, conversation, version + 1, "
    rest = "randomblob(16), recorded_at, NULL, tag, schema, fingerprint, chain, payload, salt "
    execute(path, insert + rest + "FROM toolledger_events WHERE position = 2")
    execute(path, "UPDATE toolledger_events SET version = 9 WHERE position = 2")
    execute(path, "UPDATE toolledger_events SET version = 2 WHERE position = 3")
    execute(path, "UPDATE toolledger_lanes SET position = 3")
    assert projector_usage(store, url).overall.responses == 1


def projector_usage(store: EventStore, url: str) -> UsageReport:
    """Return the usage from tables that a new projector has brought up to date."""
    with Projector(store, url, views=["usage"]) as projector:
        projector.catch_up()
        return projector.usage()


def test_responses_of_a_stored_conversation_are_not_kept_in_memory(
    store: EventStore, projector: Projector
) -> None:
    """The last of them says whether the next is another one: memory does not grow with them."""
    chat = store.conversation("a")
    sizes: set[int] = set()
    for number in range(3):
        chat.append(*(ModelResponded("openai", response_id=f"{number}-{n}") for n in range(50)))
        chat.append(ModelResponded("openai", response_id="0-0"))
        projector.catch_up()
        (worker,) = projector._workers
        (lane,) = worker._lanes.values()
        assert lane._state is not None
        sizes.add(len(lane._state))
    assert len(sizes) == 1
    assert projector.usage().overall.responses == 153


def test_a_repeated_event_changes_nothing(
    store: EventStore, projector: Projector, path: Path
) -> None:
    """A call that is requested again stays as it was, and so does its result."""
    run(store, "a")
    projector.catch_up()
    again = [recorded.event for recorded in store.read()]
    call = again[0].call  # type: ignore[union-attr]
    assert isinstance(again[2], ToolCompleted)
    insert = "INSERT INTO toolledger_events SELECT lane, position + 3, conversation, version + ?, "
    rest = "randomblob(16), recorded_at, NULL, tag, schema, fingerprint, chain, payload, salt "
    rest += "FROM toolledger_events WHERE position BETWEEN 1 AND 3"
    execute(path, insert + rest, (3,))
    execute(path, "UPDATE toolledger_lanes SET position = 6")
    projector.catch_up()
    assert [tool.call for _, tool in projector.tools()] == [call]
    check(projector, store)


@pytest.mark.parametrize("batch", [1, 3, 1000])
def test_forks_are_counted_once_in_tables(store: EventStore, path: Path, batch: int) -> None:
    """Batches may end inside of a fork, tables may be rebuilt, and copied calls go on."""
    chat = store.conversation("a")
    for name in ("done", "failed", "open"):
        chat.request(name, {"n": 1}, name)
    chat.start("done")
    chat.complete("done", 1)
    chat.start("failed")
    chat.fail("failed", "no")
    chat.append(ModelResponded("openai", "gpt-5", "r1", "stop", Usage(100, 10)))
    with Projector(store, batch=batch) as projector:
        projector.catch_up()
        before = projector.statistics().overall
        for number in range(3):
            fork = store.conversation("a").fork(chat.version, f"fork{number}")
            fork.fork(fork.version, f"fork of {fork.id}")
        projector.catch_up()
        assert projector.statistics().overall == before
        assert projector.statistics().copied_calls == 18
        assert projector.usage().overall.responses == 1
        fork.start("failed", 2)
        projector.catch_up()
        fork.complete("failed", 2)
        fork.request("done", {"n": 1}, "again")
        projector.catch_up()
        check(projector, store)
        overall = projector.statistics().overall
        assert (overall.calls, overall.attempts, overall.recovered, overall.repeated) == (
            4,
            3,
            1,
            1,
        )
        assert sum(bucket.overall.calls for bucket in projector.timeline()) == 4
        projector.rebuild()
        check(projector, store)
        assert projector.statistics().overall == overall
        sql = "SELECT count(*) FROM toolledger_calls WHERE imported < 2 AND projection = {}"
        with projector.reading("tools") as (connection, live):
            # the call that went on in the fork is one of the fork's, too
            assert connection.exec_driver_sql(sql.format(live)).scalar_one() == 5
