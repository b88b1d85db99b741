"""The projector: what it parks, what it refuses, what it says of itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from projecting import check, new_store
from sqlalchemy.exc import DBAPIError, OperationalError

from eventstore import (
    ErrorKind,
    EventStore,
    Failure,
    FunctionCall,
    Lag,
    NotAStore,
    Pending,
    SchemaTooNew,
    StorageError,
    StoreBusy,
    StoreCorrupt,
    StoreReadOnly,
    ToolCompleted,
    ToolPending,
)
from eventstore.storage import reading
from eventstore.storage.sqlite import driver
from eventstore.testing import FrozenClock, message
from projections import Parked, Progress, Projector, error_statistics
from projections.projector import driver as work
from projections.projector import lane, stored_tools, tables
from projections.projector.lane import LaneState
from projections.projector.stored_tools import StoredTools, decode_tool


@pytest.fixture
def clock() -> FrozenClock:
    """The time."""
    return FrozenClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the log is."""
    return tmp_path / "log.db"


@pytest.fixture
def store(path: Path, clock: FrozenClock) -> Iterator[EventStore]:
    """A log of one lane."""
    with new_store(path, clock=clock) as opened:
        yield opened


@pytest.fixture
def projector(store: EventStore) -> Iterator[Projector]:
    """Its projector, beside it."""
    with Projector(store) as opened:
        yield opened


def execute(path: Path, *statement: Any) -> None:
    """Write behind everybody's back."""
    connection = driver().connect(str(path))
    connection.execute(*statement)
    connection.commit()
    connection.close()


def run(store: EventStore, conversation: str, calls: int = 1) -> None:
    """Calls that complete."""
    chat = store.conversation(conversation)
    for _ in range(calls):
        tool = chat.request("find", {"n": chat.version})
        chat.start(tool.id)
        chat.complete(tool.id, 1)


# what is kept


def test_an_empty_log_is_projected(projector: Projector) -> None:
    """There is nothing, and it is not behind."""
    assert projector.catch_up() == 0
    assert projector.lag() == Lag(0, 0.0)
    assert projector.statistics() == error_statistics([])
    assert list(projector.tools()) == projector.pending_approvals() == projector.timeline() == []


def test_the_tables_stand_beside_the_log_and_stay(
    store: EventStore, projector: Projector, path: Path
) -> None:
    """They are prefixed, and the next projector goes on with them."""
    run(store, "chat", 3)
    assert projector.catch_up() == 9
    with Projector(store) as other:
        assert other.catch_up() == 0
        check(other, store)
    connection = driver().connect(str(path))
    names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    connection.close()
    assert {table.name for table in tables.metadata.sorted_tables} <= names
    assert all(name.startswith("toolledger_") for name in tables.metadata.tables)
    assert list(store.verify()) == []


def test_a_log_in_memory_has_its_tables_in_memory() -> None:
    """Where else: it is gone with the log."""
    with EventStore.open("sqlite://") as store, Projector(store) as projector:
        run(store, "chat")
        assert projector.catch_up() == 3
        check(projector, store)


def test_tenants_have_their_own_tables_rows(path: Path) -> None:
    """One database, one lane, and neither sees or waits for the other."""
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


def test_logs_share_a_database_and_no_rows(store: EventStore, tmp_path: Path) -> None:
    """Each has its own place in the tables, though conversations and calls are named alike."""
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


def test_calls_are_read_by_conversation_and_status(
    store: EventStore, projector: Projector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In call order, page by page."""
    monkeypatch.setattr(work, "PAGE", 2)
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


def test_imported_calls_wait_for_nobody(store: EventStore, projector: Projector) -> None:
    """Where they come from they may have run."""
    store.conversation("a").append(ToolPending(FunctionCall("f", {}, "x"), imported=True))
    projector.catch_up()
    assert [tool.status for _, tool in projector.tools()] == [Pending()]
    assert projector.pending_approvals() == []


def test_statistics_are_told_over_time(
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
    assert list(last.by_tool) == ["find"]
    assert projector.timeline(since=begin + timedelta(hours=1)) == [last]
    assert projector.timeline(until=first.start) == []
    assert projector.timeline(until=begin + timedelta(seconds=1)) == [first]
    (week,) = projector.timeline(every=timedelta(days=7))
    assert (week.overall.calls, week.end - week.start) == (3, timedelta(days=7))
    # What says that it is a whole week is one, wherever in it the times are.
    assert projector.timeline(last.start, last.end, timedelta(days=7)) == [week]


def test_buckets_part_at_the_microsecond_also_where_clocks_jump(
    store: EventStore, path: Path
) -> None:
    """Before 1970, after the last day of the calendar, and back again."""
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


def test_what_was_replaced_is_removed_bit_by_bit(
    store: EventStore, monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    """All rows of it, and others write meanwhile; who was first with some is no error."""
    for name in ("a", "b", "c"):
        run(store, name, 3)
    monkeypatch.setattr(tables, "REMOVED", 2)
    remove_some = tables.remove_some
    removals = 0

    def remove(connection: Any, table: Any, projection: int) -> bool:
        nonlocal removals
        removals += 1
        if removals % 2:
            raise tables.LostRace("another removes it, too")
        return remove_some(connection, table, projection)

    monkeypatch.setattr(tables, "remove_some", remove)
    with Projector(store) as projector:
        projector.catch_up()
        projector.rebuild()
        check(projector, store)
    assert removals > 2 * (9 // 2 + len(tables.STATES))
    connection = driver().connect(str(path))
    for table in tables.STATES:
        kept = connection.execute(f"SELECT DISTINCT projection FROM {table.name}")  # noqa: S608
        assert list(kept) in ([], [(2,)])
    connection.close()


def test_lag_is_told_in_events_and_seconds(path: Path, clock: FrozenClock) -> None:
    """Of all lanes; the seconds are the age of the oldest event that is not applied."""
    with new_store(path, 4, clock=clock) as store, Projector(store) as projector:
        for number in range(10):
            store.conversation(f"chat{number}").append(message())
        clock.advance(5)
        store.conversation("chat0").append(message())
        clock.advance(2)
        assert projector.lag() == Lag(11, 7.0)
        told: list[Progress] = []
        assert projector.catch_up(told.append) == 11
        assert told[-1] == Progress(11, 11)
        assert projector.lag() == Lag(0, 0.0)
        store.conversation("chat9").append(message())
        assert projector.lag() == Lag(1, 0.0)
        clock.advance(3)
        for number in range(9):  # in the other lanes, too
            store.conversation(f"chat{number}").append(message())
        assert projector.lag() == Lag(10, 3.0)
        clock.advance(-9)  # it was put back
        assert projector.lag() == Lag(10, 0.0)


def test_what_is_at_hand_is_forgotten_when_it_is_much(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory stays flat, and nothing changes."""
    monkeypatch.setattr(lane, "AT_HAND", 0)
    with Projector(store, batch=4) as projector:
        for number in range(4):
            run(store, f"chat{number % 2}", 3)
            projector.catch_up()
        assert projector._states == {}
        check(projector, store)


def test_fingerprints_beyond_the_limit_are_forgotten_as_in_memory(store: EventStore) -> None:
    """The same ones, whatever the batches, and their rows are gone."""
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


def test_a_call_that_is_settled_in_a_batch_stays_settled(
    store: EventStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row is there until the commit; events behind it in the same batch do not wake it."""
    chat = store.conversation("a")
    tool = chat.request("find", {"n": 1})
    chat.start(tool.id)
    with Projector(store) as projector:
        projector.catch_up()
    monkeypatch.setattr(reading, "CHUNK", 1)
    chat.complete(tool.id, 1)
    insert = "INSERT INTO toolledger_events SELECT lane, position + 1, conversation, version + 1, "
    rest = "randomblob(16), recorded_at, tag, schema, fingerprint, digest, payload "
    rest += "FROM toolledger_events WHERE position = 3"
    execute(path, insert + rest)  # it completes once more
    execute(path, "UPDATE toolledger_lanes SET position = 4")
    with Projector(store) as projector:
        projector.catch_up()
        check(projector, store)
        assert projector.statistics().overall.completions == 1


# what is parked


def damage(path: Path, position: int) -> str:
    """Make an event unreadable; its payload."""
    connection = driver().connect(str(path))
    find = "SELECT payload FROM toolledger_events WHERE position = ?"
    ((payload,),) = connection.execute(find, (position,))
    connection.close()
    execute(path, "UPDATE toolledger_events SET payload = '{' WHERE position = ?", (position,))
    return str(payload)


def test_an_unreadable_event_is_parked_with_those_behind_it(
    store: EventStore, projector: Projector, path: Path
) -> None:
    """The other conversations go on; once it can be read again, nothing is missing."""
    run(store, "a", 2)
    run(store, "b", 2)
    payload = damage(path, 3)
    projector.catch_up()
    run(store, "a")
    run(store, "b")
    projector.catch_up()
    (parked,) = projector.parked()
    assert isinstance(parked, Parked)
    assert (parked.conversation_id, parked.version, parked.tag) == ("a", 3, "completed")
    assert parked.waiting == 6
    assert "cannot be read" in str(parked)
    assert "6 later events wait behind it" in str(parked)
    assert len([*projector.tools("a")]) == 1
    assert len([*projector.tools("b")]) == 3
    assert projector.lag().events == 0
    assert (projector.retry("b"), projector.retry()) == (0, 0)  # it still cannot be read
    assert projector.parked() == [parked]
    execute(path, "UPDATE toolledger_events SET payload = ? WHERE position = 3", (payload,))
    assert projector.retry("a") == 1
    assert projector.parked() == []
    check(projector, store)


def test_a_first_event_that_was_parked_is_retried_by_another(
    store: EventStore, projector: Projector, path: Path
) -> None:
    """Its conversation is known already, though the event is its first."""
    run(store, "a")
    payload = damage(path, 1)
    projector.catch_up()
    run(store, "b")
    execute(path, "UPDATE toolledger_events SET payload = ? WHERE position = 1", (payload,))
    with Projector(store) as other:
        assert other.retry() == 1
        other.catch_up()
        check(other, store)


@pytest.mark.parametrize("batch", [1, 3, 1000])
def test_an_event_that_a_projection_fails_on_is_parked(
    store: EventStore, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    """In the middle of a batch, with others that fail: what it half did is undone."""
    for _ in range(3):
        for name in ("a", "b", "c"):
            run(store, name)
    extend = StoredTools.extend
    bad = {("a", 2), ("a", 7), ("b", 4)}

    def fail(view: StoredTools, events: Any) -> None:
        for recorded in events:
            extend(view, [recorded])
            if (recorded.conversation_id, recorded.version) in bad:
                raise RuntimeError("a bug")

    monkeypatch.setattr(StoredTools, "extend", fail)
    with Projector(store, batch=batch) as projector:
        projector.catch_up()
        found = [(p.conversation_id, p.version, p.waiting) for p in projector.parked()]
        assert found == [("a", 2, 7), ("b", 4, 5)]
        assert projector.parked()[0].problem == "RuntimeError: a bug"
        bad.discard(("a", 2))
        assert projector.retry() == 0  # a stops further on now
        found = [(p.conversation_id, p.version, p.waiting) for p in projector.parked()]
        assert sorted(found) == [("a", 7, 2), ("b", 4, 5)]
        run(store, "a")
        bad.clear()
        assert projector.retry() == 2  # up to where the lane is, and no further
        projector.catch_up()
        assert projector.parked() == []
        check(projector, store)


class TooLong(Exception):
    """What a database says of a row that it does not take."""


@pytest.mark.parametrize("batch", [1, 3, 1000])
def test_an_event_that_the_database_does_not_take_is_parked(
    store: EventStore, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    """All others are stored; it is, too, when the database takes it."""
    for _ in range(3):
        for name in ("a", "b", "c"):
            run(store, name)
    bad = {("a", 4), ("b", 1)}
    add = stored_tools.add

    def refuse(connection: Any, table: Any, rows: Any) -> None:
        for row in rows:
            version = decode_tool(row["body"]).call.arguments["n"] + 1
            if (row["conversation_id"], version) in bad:
                raise DBAPIError("INSERT", None, TooLong("it is too long"))
        add(connection, table, rows)

    monkeypatch.setattr(stored_tools, "add", refuse)
    with Projector(store, batch=batch) as projector:
        projector.catch_up()
        found = [(p.conversation_id, p.version, p.waiting) for p in projector.parked()]
        assert found == [("b", 1, 8), ("a", 4, 5)]
        assert projector.parked()[0].problem == "the database does not take it: it is too long"
        assert len([*projector.tools("c")]) == 3
        assert projector.retry() == 0
        run(store, "a")
        bad.clear()
        assert projector.retry() == 2
        projector.catch_up()
        assert projector.parked() == []
        check(projector, store)


def test_an_event_is_not_parked_for_a_database_that_was_gone_for_a_moment(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again by itself before that."""
    run(store, "a")
    left = iter([None])
    store_parked = LaneState._store_parked

    def refuse(state: LaneState, connection: Any) -> None:
        for _ in left:
            raise DBAPIError("INSERT", None, TooLong("the server is gone"))
        store_parked(state, connection)

    monkeypatch.setattr(LaneState, "_store_parked", refuse)
    with Projector(store, batch=1) as projector:
        assert projector.catch_up() == 3
        assert projector.parked() == []
        check(projector, store)


def test_a_database_that_takes_nothing_parks_nothing(
    store: EventStore, projector: Projector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is full, or gone: that is no event's fault."""
    projector.catch_up()
    run(store, "a", 3)

    def refuse(*_: Any) -> None:
        raise DBAPIError("INSERT", None, TooLong("no space left"))

    with monkeypatch.context() as patch:
        patch.setattr(LaneState, "_store_parked", refuse)
        with pytest.raises(StorageError, match="no space left: nothing was projected; see that"):
            projector.catch_up()
    assert (projector.parked(), projector.lag().events) == ([], 9)
    projector.catch_up()
    check(projector, store)


def test_a_rebuild_parks_what_still_fails(
    store: EventStore, projector: Projector, path: Path
) -> None:
    """And nothing else."""
    run(store, "a", 2)
    payload = damage(path, 1)
    projector.catch_up()
    projector.rebuild()
    assert [p.waiting for p in projector.parked()] == [5]
    execute(path, "UPDATE toolledger_events SET payload = ? WHERE position = 1", (payload,))
    projector.rebuild()
    assert projector.parked() == []
    check(projector, store)


def test_a_retry_that_another_was_faster_with_does_nothing(
    store: EventStore, projector: Projector, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not parked any more is not applied again."""
    run(store, "a")
    payload = damage(path, 2)
    projector.catch_up()
    (parked,) = projector.parked()
    execute(path, "UPDATE toolledger_events SET payload = ? WHERE position = 2", (payload,))
    with Projector(store) as other:
        assert other.retry() == 1
    monkeypatch.setattr(projector, "parked", lambda: [parked])
    assert projector.retry() == 1
    check(projector, store)


# what is refused


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"views": ["lost"]}, r"views are \('lost',\): pass some of statistics, tools"),
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
def test_wrong_arguments_are_named(store: EventStore, options: dict[str, Any], told: str) -> None:
    """With what to pass."""
    with pytest.raises(ValueError, match=told):
        Projector(store, **options)


def test_a_missing_driver_is_named(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is connected."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ValueError, match="with its driver installed"):
        Projector(store, "postgresql://nobody@localhost/x")


def test_wrong_times_are_named(projector: Projector) -> None:
    """Times have a zone, steps fit the buckets."""
    naive = datetime(2026, 1, 1)  # noqa: DTZ001
    with pytest.raises(ValueError, match="has no time zone: pass for example"):
        projector.timeline(since=naive)
    for every in (timedelta(minutes=1), timedelta(minutes=90)):
        with pytest.raises(ValueError, match="pass a multiple of the buckets of 3600 s"):
            projector.timeline(every=every)


def test_only_what_is_kept_can_be_read(store: EventStore, tmp_path: Path) -> None:
    """The others are named; what is there decides, where nothing is said."""
    url = f"sqlite:///{tmp_path}/tables.db"
    run(store, "a")
    with Projector(store, url, views=["tools"], bucket=60) as projector:
        projector.catch_up()
        assert len([*projector.tools()]) == 1
        with pytest.raises(ValueError, match="the statistics are not projected, only tools"):
            projector.statistics()
        with pytest.raises(ValueError, match="the statistics are not projected"):
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
        with pytest.raises(ValueError, match="the tools are not projected"):
            projector.pending_approvals()


def test_tables_of_an_older_format_are_built_anew(
    store: EventStore, projector: Projector, path: Path
) -> None:
    """Where that is asked for: the error names the database, and both ways."""
    run(store, "a")
    projector.catch_up()
    execute(path, "UPDATE toolledger_projections SET format = 1")
    told = r"sqlite:.*log\.db: another version of toolledger .*format 1, not 2.* --rebuild`"
    for old in (projector.catch_up, projector.statistics):
        with pytest.raises(StorageError, match=told):
            old()
    with Projector(store, bucket=60) as other, pytest.raises(StorageError, match=r"\.rebuild\(\)"):
        other.catch_up()
    assert projector.rebuild() == 3
    check(projector, store)


def test_tables_of_a_newer_format_are_left_alone(
    store: EventStore, projector: Projector, path: Path
) -> None:
    """Also by a rebuild, and by who looks at them first."""
    run(store, "a")
    projector.catch_up()
    execute(path, "UPDATE toolledger_projections SET format = 3")
    for attempt in (projector.catch_up, projector.rebuild, lambda: Projector(store)):
        with pytest.raises(SchemaTooNew, match=r"log\.db: a newer .*: upgrade toolledger, or"):
            attempt()
    execute(path, "UPDATE toolledger_projections SET format = 2")
    check(projector, store)


def test_who_was_overtaken_while_folding_stores_nothing(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where what it would write is there already, and would only be written over."""
    chat = store.conversation("a")
    for number in range(4):
        chat.request("f", {}, f"call{number}")
    with Projector(store, batch=2) as slow, Projector(store) as fast:
        assert slow.catch_up() == 4
        for number in range(4):
            chat.start(f"call{number}")
        commit = Projector._commit
        done = []

        def late(projector: Projector, *given: Any) -> None:
            if projector is slow and not done:
                done.append(fast.catch_up())
            commit(projector, *given)

        monkeypatch.setattr(Projector, "_commit", late)
        assert (slow.catch_up(), done) == (0, [4])
        check(slow, store)


def test_a_half_built_one_with_other_settings_is_thrown_away(
    store: EventStore, projector: Projector
) -> None:
    """And begun anew with these."""
    run(store, "a", 3)
    projector.catch_up()

    def stop(_: Progress) -> None:
        raise RuntimeError("enough")

    other = Projector(store, bucket=60, batch=2)
    with other, pytest.raises(RuntimeError, match="enough"):
        other.rebuild(stop)
    assert projector.rebuild() == 9
    check(projector, store)


@pytest.mark.parametrize("rebuilds", [1, 2])
def test_a_rebuild_that_others_finish_ends_well(store: EventStore, rebuilds: int) -> None:
    """Also where they have replaced what it was building by something newer."""
    run(store, "a", 3)
    with Projector(store, batch=2) as projector, Projector(store) as other:
        left = iter(range(rebuilds))

        def overtake(_: Progress) -> None:
            for _ in left:
                other.rebuild()

        assert projector.rebuild(overtake) == 2
        check(projector, store)
        assert projector.catch_up() == 0


def test_a_log_that_went_back_is_noticed(
    store: EventStore, projector: Projector, path: Path
) -> None:
    """A copy from yesterday was restored, and the tables are of today."""
    run(store, "a", 2)
    projector.catch_up()
    execute(path, "UPDATE toolledger_lanes SET position = 3")
    execute(path, "DELETE FROM toolledger_events WHERE position > 3")
    told = "position 6 of lane 0, and the log, which ends at 3, does not hold what was projected"
    with pytest.raises(StorageError, match=told):
        projector.catch_up()
    assert projector.rebuild() == 3
    assert len([*projector.tools()]) == 1


@pytest.mark.parametrize("others", [0, 3])
def test_a_log_that_went_back_and_on_is_noticed(path: Path, tmp_path: Path, others: int) -> None:
    """It is longer again, with other events where the projection is; another tenant's, too."""
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
        with pytest.raises(StorageError, match="restored from an older copy, not the tables; rebu"):
            projector.catch_up()
        projector.rebuild()
        check(projector, store)


def test_a_projection_that_lost_its_rows_is_named(
    store: EventStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not go on for ever."""
    monkeypatch.setattr(work, "_PATIENCE", 3)
    run(store, "a")
    with Projector(store) as projector:
        projector.catch_up()
    execute(path, "DELETE FROM toolledger_checkpoints")
    with Projector(store) as projector:
        with pytest.raises(StorageError, match="no batch got through"):
            projector.catch_up()
        assert projector.rebuild() == 3


def test_a_database_that_is_held_by_others_is_busy(
    store: EventStore, projector: Projector, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says that nothing was written, and the next time it is."""
    run(store, "a")
    projector.catch_up()
    run(store, "a")
    monkeypatch.setattr(tables, "BUSY_TIMEOUT", 0.01)
    with Projector(store) as hasty:
        holder = driver().connect(str(path), isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(
            StoreBusy, match="another writer holds it; nothing was written, try again"
        ):
            hasty.catch_up()
        holder.execute("ROLLBACK")
        holder.close()
        assert hasty.catch_up() == 3
    check(projector, store)


class Lost(Exception):
    """What a server's driver says of a transaction that lost."""

    sqlstate = "40001"


@pytest.mark.parametrize("error", [Lost("x"), Exception(1213, "deadlock"), Exception()])
def test_a_lost_race_on_a_server_is_run_again(error: Exception) -> None:
    """By its code; anything else is told."""
    database = tables.Database("sqlite://")
    expected = tables.LostRace if error.args else StorageError
    with pytest.raises(expected), database._translated():
        raise DBAPIError("x", None, error)
    database.close()


@pytest.mark.parametrize(
    ("name", "kind", "told"),
    [
        ("text.db?uri=true", NotAStore, "text.db: file is not a database: .* name another file"),
        ("?uri=true", NotAStore, "is a folder: name a file in it"),
        ("nowhere/x.db?uri=true", StorageError, "x.db: the folder .*/nowhere does not exist"),
        ("x.db?mode=rw&uri=true", StorageError, "unable to open .* it must be there"),
        ("log.db?mode=ro&uri=true", StoreReadOnly, "make the file and its folder writable"),
    ],
)
def test_tables_that_cannot_be_made_are_told(
    store: EventStore, tmp_path: Path, name: str, kind: type[StorageError], told: str
) -> None:
    """As a store tells it; after trying, as others may have been making them."""
    (tmp_path / "text.db").write_bytes(b"this is no database, and it is long enough for one" * 20)
    with pytest.raises(kind, match=told):
        tables.Database(f"sqlite:///file:{tmp_path}/{name}")


def test_a_race_to_be_the_first_has_one_winner(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both go on with the same tables; and who never gets there is told."""
    run(store, "a")
    with Projector(store) as one, Projector(store) as other:
        find = Projector._find
        seen = iter([None, None])

        def late(self: Projector, state: str, connection: Any = None) -> Any:
            return find(self, state, connection) if self is one else next(seen, "later")

        monkeypatch.setattr(Projector, "_find", late)
        assert one.catch_up() == 3
        with pytest.raises(tables.LostRace, match="UNIQUE"):
            other._create("live")
        monkeypatch.setattr(Projector, "_find", lambda *_: None)
        monkeypatch.setattr(work, "_PATIENCE", 2)
        with pytest.raises(StorageError, match=r"others were always first: UNIQUE.*; try again"):
            other._live()
        monkeypatch.setattr(Projector, "_live", lambda _: None)
        with pytest.raises(StorageError, match="removed meanwhile"):
            other.lag()


def test_a_switch_that_lost_its_projection_gives_up(
    store: EventStore, projector: Projector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another has switched already: what is live stays."""
    run(store, "a")
    projector.catch_up()
    live = projector._live().id
    monkeypatch.setattr(work, "_PATIENCE", 2)
    projector._switch(live + 5)
    assert projector._live().id == live


def test_text_that_no_database_holds_is_shown(store: EventStore, projector: Projector) -> None:
    """NUL in names and ids comes back as it was."""
    chat = store.conversation("caf\u00e9")
    chat.append(ToolPending(FunctionCall("a\x00\u00e9", {"x": "\x00"}, "id\x00")))
    projector.catch_up()
    check(projector, store)
    ((name, tool),) = projector.tools("caf\u00e9")
    assert (name, tool.id, tool.call.name) == ("caf\u00e9", "id\x00", "a\x00\u00e9")
    assert tables.storable("a\x00\u00e9") == "a\\x00\u00e9"


def test_what_no_call_explains_is_an_anomaly_and_no_call(
    store: EventStore, projector: Projector, path: Path
) -> None:
    """Damaged logs are folded as in memory: ends without beginnings, calls without ids."""
    run(store, "a")
    chat = store.conversation("a")
    chat.request("f", {}, "x")
    chat.start("x")
    execute(path, "UPDATE toolledger_events SET payload = replace(payload, '\"x\"', '\"y\"') "
                  "WHERE position = 4")  # fmt: skip
    execute(path, "UPDATE toolledger_events SET payload = replace(payload, '\"id\":', '\"xx\":') "
                  "WHERE position = 1")  # fmt: skip
    projector.catch_up()
    check(projector, store)
    assert projector.statistics().anomaly_count == 4


def test_a_repeated_event_changes_nothing(
    store: EventStore, projector: Projector, path: Path
) -> None:
    """A call that is asked for again is the one that it was, and so is its result."""
    run(store, "a")
    projector.catch_up()
    again = [recorded.event for recorded in store.read()]
    call = again[0].call  # type: ignore[union-attr]
    assert isinstance(again[2], ToolCompleted)
    insert = "INSERT INTO toolledger_events SELECT lane, position + 3, conversation, version + ?, "
    rest = "randomblob(16), recorded_at, tag, schema, fingerprint, digest, payload "
    rest += "FROM toolledger_events WHERE position BETWEEN 1 AND 3"
    execute(path, insert + rest, (3,))
    execute(path, "UPDATE toolledger_lanes SET position = 6")
    projector.catch_up()
    assert [tool.call for _, tool in projector.tools()] == [call]
    check(projector, store)


def test_errors_of_the_database_are_the_librarys(projector: Projector) -> None:
    """They name the database."""
    with pytest.raises(StorageError, match=r"sqlite:///.*log\.db: boom"), \
            projector._database.reading():  # fmt: skip
        raise OperationalError("x", None, Exception("boom"))


def test_of_damaged_tables_no_verify_is_offered(projector: Projector) -> None:
    """It would look at the log."""
    broken = driver().OperationalError("no such table: toolledger_parked")
    told = r"log\.db: no such table: .*: nothing was projected; see that the database is there"
    with pytest.raises(StoreCorrupt, match=told), projector._database.reading():
        raise OperationalError("x", None, broken)


def test_a_server_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the password."""
    pytest.importorskip("psycopg")
    monkeypatch.setattr(tables, "TRIES", 1)
    told = r"//me:\*\*\*@.*refused.* see that the database is there"
    with pytest.raises(StorageError, match=told):
        tables.Database("postgresql://me:secret@127.0.0.1:1/x")
