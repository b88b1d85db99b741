"""Following the log: first the stored events, then new ones, without a gap."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import make_url
from support import projected_logs as projecting
from support.storages import open_limited

from eventstore import (
    EventStore,
    Follow,
    IllegalTransition,
    Lag,
    NoDecision,
    Recorded,
    UnknownCall,
)
from eventstore.errors import StoreClosed, StoreCorrupt
from eventstore.notifications.local import LocalNotifier, notifier_for
from eventstore.session import LogSession, SessionSettings
from eventstore.storage.factory import open_storage
from eventstore.storage.interface import Storage
from eventstore.subscriptions.sources import ConversationSource, EventSource, StoreSource
from eventstore.subscriptions.subscription import Subscription
from eventstore.testing import FrozenClock, message, run_concurrently

LATER = datetime(2999, 1, 1, tzinfo=UTC)

NEVER = 3600.0
"""Seconds to the next poll: what is seen sooner came by a notification."""


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return the URL of a store in a file."""
    return f"sqlite:///{tmp_path / 'agent.db'}"


@pytest.fixture
def settings() -> SessionSettings:
    """Return the settings of the store."""
    return SessionSettings()


def in_pages_of(events: int) -> pytest.MarkDecorator:
    """Let the store's subscriptions read so many events in one go."""
    return pytest.mark.parametrize("settings", [SessionSettings(page_events=events)], ids=[""])


@pytest.fixture
def store(url: str, clock: FrozenClock, settings: SessionSettings) -> Iterator[EventStore]:
    """Return a store."""
    with EventStore(open_storage(url, "", "full", 30.0), clock, settings=settings) as store:
        yield store


@pytest.fixture
def other(url: str, store: EventStore) -> Iterator[EventStore]:
    """Return a store on the same file whose appends wake no waiter, as if in another process."""
    with EventStore.open(url) as other:
        other.session.committer.notifier = LocalNotifier()
        yield other


@pytest.fixture(scope="module")
def memory() -> Iterator[EventStore]:
    """Return a store for many examples."""
    storage = open_storage("sqlite://", "", "full", 30.0)
    with EventStore(storage, settings=SessionSettings(page_events=2)) as store:
        yield store


@pytest.fixture(params=["store", "conversation"])
def follow(request: pytest.FixtureRequest, store: EventStore) -> Callable[..., Follow[Any]]:
    """Follow a store, or its one conversation."""
    return store.follow if request.param == "store" else store.conversation("chat").follow


def texts(found: Iterator[Recorded]) -> list[str]:
    """Return the texts of the messages."""
    return [recorded.event.parts[0].text for recorded in found]  # type: ignore[union-attr]


def waiting(store: EventStore, count: int = 1) -> None:
    """Wait until this number of threads or tasks waits for new events."""
    until = time.monotonic() + 30
    while len(store.session.watcher) < count:
        assert time.monotonic() < until


class Reader:
    """A thread that follows a store; `ready(n)` waits until it has read n events."""

    def __init__(self, store: EventStore, follow: Iterator[Recorded]) -> None:
        self.texts: list[str] = []
        self._store = store
        self._thread = threading.Thread(target=self._read, args=(follow,))
        self._thread.start()

    def _read(self, follow: Iterator[Recorded]) -> None:
        for recorded in follow:
            self.texts += texts(iter([recorded]))

    def ready(self, count: int) -> None:
        """Wait until it has read this number of events and waits for more."""
        until = time.monotonic() + 30
        while len(self.texts) < count:
            assert time.monotonic() < until
        waiting(self._store)

    def end(self) -> list[str]:
        """Return what it has read, once its iteration has ended."""
        self._thread.join(30)
        assert not self._thread.is_alive()
        return self.texts


def append(store: EventStore, *words: str, name: str = "chat") -> None:
    """Append messages."""
    store.conversation(name).append(*(message(word) for word in words))


# what comes


def test_a_subscription_returns_stored_events_and_ends_at_its_timeout(
    store: EventStore, follow: Callable[..., Follow[Any]]
) -> None:
    """With a timeout of 0 it ends at once."""
    append(store, "a", "b")
    assert texts(follow(timeout=0)) == ["a", "b"]
    assert texts(follow(timeout=0.01, poll=0.002)) == ["a", "b"]


def test_appends_of_this_process_are_seen_at_once(
    store: EventStore, follow: Callable[..., Follow[Any]]
) -> None:
    """The follower is woken, and does not have to poll."""
    append(store, "a")
    reader = Reader(store, follow(poll=NEVER))
    for count, word in enumerate(("b", "c"), 1):
        reader.ready(count)
        append(store, word)
    reader.ready(3)
    store.close()
    assert reader.end() == ["a", "b", "c"]


class CountedSubscription(Subscription[Any]):
    """A subscription that counts its looks at the log."""

    looks = 0

    def is_met(self) -> bool:
        """Look, and count it."""
        self.looks += 1
        return super().is_met()


def test_another_conversation_wakes_no_follower(store: EventStore) -> None:
    """Its events wake only the followers of that conversation or of the store."""
    append(store, "a")
    source = ConversationSource(store.session, "chat", 0)
    subscription = CountedSubscription(store.session, source, None, None, NEVER)
    reader = Reader(store, Follow(subscription))
    reader.ready(1)
    seen = subscription.looks
    assert seen > 0
    for _ in range(5):
        append(store, "x", name="elsewhere")
    assert subscription.looks == seen
    append(store, "b")
    reader.ready(2)
    store.close()
    assert reader.end() == ["a", "b"]


def test_appends_of_other_processes_are_seen_at_the_next_poll(
    store: EventStore, other: EventStore, follow: Callable[..., Follow[Any]]
) -> None:
    """No notification comes from another process."""
    append(store, "a")

    def write() -> None:
        waiting(store)
        append(other, "b")

    found = follow(poll=0.002)
    assert run_concurrently(lambda: texts(iter([next(found), next(found)])), write) == [
        ["a", "b"],
        None,
    ]


def test_a_subscription_goes_on_after_a_cursor(store: EventStore) -> None:
    """The cursor may be an object or its text, and may lie within a page or at its end."""
    append(store, "a", "b", "c")
    follow = store.follow(timeout=0)
    assert next(follow).version == 1
    assert texts(store.follow(follow.cursor, timeout=0)) == ["b", "c"]
    assert texts(store.follow(str(follow.cursor), timeout=0)) == ["b", "c"]
    assert texts(follow) == ["b", "c"]
    assert follow.cursor == store.end()
    assert texts(store.follow(store.end(), timeout=0)) == []
    assert texts(store.read(follow.cursor)) == []


def test_a_subscription_of_a_conversation_goes_on_after_a_version(store: EventStore) -> None:
    """A conversation's cursor is its version."""
    append(store, "a", "b", "c")
    follow = store.conversation("chat").follow(after=1, timeout=0)
    assert follow.cursor == 1
    next(follow)
    assert follow.cursor == 2
    assert texts(follow) == ["c"]
    assert follow.cursor == 3


def test_an_ended_iteration_can_be_taken_up_again(
    store: EventStore, follow: Callable[..., Follow[Any]]
) -> None:
    """The end of the iteration is not the end of the log."""
    append(store, "a")
    found = follow(timeout=0)
    assert texts(found) == ["a"]
    append(store, "b")
    assert texts(found) == ["b"]


def test_a_subscription_ends_when_its_stop_signal_is_set(
    store: EventStore, follow: Callable[..., Follow[Any]]
) -> None:
    """The subscription ends even if there are events left."""
    stop = threading.Event()
    append(store, "a", "b")
    found = follow(stop=stop)
    next(found)
    stop.set()
    assert list(found) == []
    stop.clear()

    reader = Reader(store, found)
    reader.ready(1)
    stop.set()
    assert reader.end() == ["b"]


def test_a_subscription_ends_when_the_store_is_closed(
    store: EventStore, follow: Callable[..., Follow[Any]]
) -> None:
    """No subscription of a closed store can begin."""
    append(store, "a")
    reader = Reader(store, follow(poll=NEVER))
    reader.ready(1)
    store.close()
    assert reader.end() == ["a"]
    with pytest.raises(StoreClosed):
        follow()


@in_pages_of(3)
def test_pages_are_read_one_by_one(store: EventStore, follow: Callable[..., Follow[Any]]) -> None:
    """Each event is returned once, whatever the page size is."""
    words = [str(n) for n in range(8)]
    append(store, *words)
    found = follow(timeout=0)
    assert texts(found) == words
    assert found.cursor in (8, store.end())


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4)), max_size=8), st.data())
def test_every_event_comes_once_wherever_a_follower_stops(
    memory: EventStore, appends: list[tuple[str, int]], data: st.DataObject
) -> None:
    """A follower that resumes from its cursor sees the same as one that never stopped."""
    store, start = memory, memory.end()
    seen: list[Recorded] = []
    follow = store.follow(start, timeout=0)
    for name, count in appends:
        append(store, *map(str, range(count)), name=name)
        for _ in range(data.draw(st.integers(0, 5))):
            seen += [recorded] if (recorded := next(follow, None)) else []
        if data.draw(st.booleans()):
            follow = store.follow(str(follow.cursor), timeout=0)
    seen += follow
    assert seen == list(store.read(start))


@in_pages_of(7)
def test_threads_that_share_a_follower_get_each_event_once(
    store: EventStore, follow: Callable[..., Follow[Any]]
) -> None:
    """This holds when one thread reads ahead of another, too."""
    words = [str(n) for n in range(1000)]
    append(store, *words)
    shared = follow(timeout=0)
    seen: list[str] = []
    run_concurrently(*(lambda: seen.extend(texts(shared)) for _ in range(4)))
    assert sorted(seen) == sorted(words)
    assert shared.lag().events == 0


@pytest.mark.parametrize(
    "source",
    [
        lambda session: StoreSource(session, None),
        lambda session: ConversationSource(session, "chat", 0),
    ],
    ids=["store", "conversation"],
)
def test_a_page_that_another_thread_has_read_is_dropped(
    store: EventStore, source: Callable[[LogSession], EventSource[Any, Any]]
) -> None:
    """Its events may have been returned already."""
    append(store, "a", "b")
    shared: Any = Subscription(store.session, source(store.session), None, 0, NEVER)
    read = shared.source.read

    def read_after_another(place: Any, limit: int) -> Any:
        page = read(place, limit)
        shared.source.read = read
        assert shared.is_met()
        assert shared.next() is not None
        return page

    shared.source.read = read_after_another
    assert shared.is_met()
    assert texts(iter([shared.next()])) == ["b"]  # type: ignore[list-item]
    assert shared.next() is None


# nothing is passed over


def change(store: EventStore, statement: str) -> None:
    """Change the file of a store without the library."""
    projecting.execute(Path(make_url(store.url).database or ""), statement)


def remove(store: EventStore, where: str) -> None:
    """Delete rows without the library."""
    change(store, f"DELETE FROM toolledger_events WHERE {where}")  # noqa: S608


@pytest.mark.parametrize("position", [1, 2, 3])
@pytest.mark.parametrize("chunk", [1, 2, 1000])
def test_a_missing_position_is_never_skipped(tmp_path: Path, position: int, chunk: int) -> None:
    """A gap at the beginning, in the middle or at the end is found by the lane's counter."""
    with EventStore(open_limited(f"sqlite:///{tmp_path}/log.db", chunk_rows=chunk)) as store:
        append(store, "a", "b", "c")
        remove(store, f"position = {position}")
        with pytest.raises(StoreCorrupt, match=f"lane 0 has no event at position {position}"):
            list(store.follow(timeout=0))
        assert len(list(store.read())) == 2  # a plain read still works


def test_a_missing_version_is_never_skipped(store: EventStore) -> None:
    """A follower of one conversation notices a gap, too."""
    append(store, "a", "b", "c")
    remove(store, "version = 2")
    with pytest.raises(StoreCorrupt, match=r"'chat' has no version 2"):
        list(store.conversation("chat").follow(timeout=0))


def test_a_log_that_was_put_back_is_refused(store: EventStore) -> None:
    """After a restore from a copy other events could stand at positions that were read already."""
    append(store, "a", "b")
    follow = store.follow(timeout=0)
    assert texts(follow) == ["a", "b"]
    change(store, "UPDATE toolledger_lanes SET position = 1")
    with pytest.raises(StoreCorrupt, match="replaced by an older copy"):
        next(follow)


def test_events_of_other_tenants_are_skipped(url: str) -> None:
    """Such events are not gaps, are not returned, and are not read twice."""
    settings = SessionSettings(page_events=2)
    ours, theirs = (
        EventStore(open_storage(url, tenant, "full", 30.0), settings=settings)
        for tenant in ("ours", "theirs")
    )
    for number in range(3):
        append(theirs, "x", "y", "z")
        append(ours, f"{number}")
    append(theirs, "x")
    follow = ours.follow(timeout=0)
    assert texts(follow) == ["0", "1", "2"]
    assert follow.cursor == ours.end()
    assert texts(ours.read(follow.cursor)) == []
    ours.close()
    theirs.close()


def one_of_each_lane(store: EventStore) -> list[str]:
    """Return one conversation per lane, in the lanes' order."""
    storage: Any = store.session.storage
    names: dict[int, str] = {}
    number = 0
    while len(names) < len(storage.log.lanes):
        names.setdefault(storage.lane_of(f"chat-{number}"), f"chat-{number}")
        number += 1
    return [names[lane] for lane in storage.log.lanes]


def test_a_lane_that_grows_as_fast_as_it_is_read_keeps_no_other_waiting(tmp_path: Path) -> None:
    """Each lane gets its turn, however slow the follower is."""
    with (
        projecting.new_store(tmp_path / "agent.db", lanes=4) as opened,
        EventStore(opened.session.storage, settings=SessionSettings(page_events=2)) as store,
    ):
        busy, *others = one_of_each_lane(store)
        append(store, "1", "2", "3", name=busy)
        for name in others:
            append(store, name, name=name)
        follow = store.follow(timeout=0)
        seen = []
        while len(seen) < 12:
            seen += texts(iter([next(follow)]))
            append(store, str(len(seen) + 3), name=busy)
        assert seen[:6] == ["1", "2", "3", *others]
        assert seen[6:] == [str(n) for n in range(4, 10)]
        assert follow.cursor != store.end()


class RecordedFeeds:
    """A storage that notes the places which its feed is read from."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.places: list[dict[int, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.storage, name)

    def feed(self, after: Any, *rest: Any) -> Iterator[Recorded]:
        """Read the feed."""
        self.places.append(dict(after))
        return self.storage.feed(after, *rest)


def test_positions_of_other_tenants_are_not_read_again(tmp_path: Path) -> None:
    """Such positions are skipped also when the page ends in a later lane."""
    path = tmp_path / "agent.db"
    with (
        projecting.new_store(path, lanes=4) as ours,
        projecting.new_store(path, lanes=1, tenant="theirs") as theirs,
    ):
        append(theirs, "x", "y", name=one_of_each_lane(theirs)[0])
        last = one_of_each_lane(ours)[-1]
        append(ours, "1", "2", "3", name=last)
        storage: Any = RecordedFeeds(ours.session.storage)
        session = EventStore(storage, settings=SessionSettings(page_events=2)).session
        subscription = Subscription(session, StoreSource(session, None), None, 0, NEVER)
        assert texts(Follow(subscription)) == ["1", "2", "3"]
        heads = storage.heads()
        assert storage.places == [{}, heads | {3: 2}]
        assert subscription.seen == heads


# lag


def test_the_lag_of_a_subscription(
    store: EventStore, clock: FrozenClock, follow: Callable[..., Follow[Any]]
) -> None:
    """The lag has the number of events and the age of the oldest one."""
    found = follow(timeout=0)
    assert found.lag() == Lag(0, 0.0)
    append(store, "a")
    clock.advance(1.5)
    append(store, "b", "c")
    clock.advance(2)
    assert found.lag() == Lag(3, 3.5)
    next(found)
    assert found.lag() == Lag(2, 2.0)
    assert len(list(found)) == 2
    assert found.lag() == Lag(0, 0.0)


# wrong input


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"timeout": -1}, ValueError, "timeout is -1"),
        ({"timeout": float("nan")}, ValueError, "timeout is nan"),
        ({"timeout": "5"}, ValueError, "timeout is '5'"),
        ({"poll": 0}, ValueError, "poll is 0"),
        ({"poll": None}, ValueError, "poll is None"),
        ({"stop": True}, TypeError, "stop is True"),
    ],
)
def test_invalid_arguments_of_a_subscription_are_refused(
    follow: Callable[..., Follow[Any]], options: Any, error: type[Exception], words: str
) -> None:
    """The error is raised before anything is read."""
    with pytest.raises(error, match=words):
        follow(**options)


@pytest.mark.parametrize("after", [-1, 5.0, None])
def test_following_after_an_invalid_version_is_refused(store: EventStore, after: Any) -> None:
    """The error does not claim that the log has a gap."""
    with pytest.raises(ValueError, match=f"after is {after!r}: pass a version"):
        store.conversation("chat").follow(after)


def test_a_cursor_of_another_store_is_refused(store: EventStore) -> None:
    """Its positions have no meaning in this store."""
    with EventStore.open("sqlite://") as another, pytest.raises(ValueError, match="another store"):
        store.follow(another.end())


# decisions


def test_a_decision_that_was_made_is_returned_at_once(store: EventStore) -> None:
    """The call is returned as it then stands, whatever became of it after the decision."""
    chat = store.conversation("chat")
    calls = [chat.request("pay", {"n": n}).id for n in range(6)]
    chat.approve(calls[0], {"n": 10}, by="ada")
    chat.reject(calls[1], "no")
    for call in calls[2:]:
        chat.approve(call)
    for call in calls[3:5]:
        chat.start(call)
    chat.complete(calls[3], "paid")
    chat.fail(calls[4], "no money")
    chat.defer(calls[5], LATER)
    names = [chat.decision(call_id, timeout=0).status.name for call_id in calls]
    assert names == ["Approved", "Rejected", "Approved", "Completed", "Failed", "Pending"]
    assert chat.decision(calls[0]).effective_call.arguments == {"n": 10}


def test_a_call_without_a_decision_is_named(store: EventStore) -> None:
    """A call that runs, failed or completed without a decision is named, and nothing waits."""
    chat = store.conversation("chat")
    running, failed, completed = [chat.request("pay", {"n": n}).id for n in range(3)]
    chat.start(running)
    chat.fail(failed, "no arguments")
    chat.complete(completed, "paid")
    for call, state in ((running, "Running"), (failed, "Failed"), (completed, "Completed")):
        with pytest.raises(NoDecision, match=f"call '{call}' is {state} without a decision") as no:
            chat.decision(call)
        assert (no.value.call_id, no.value.state) == (call, state)


def test_a_wait_for_a_decision_ends_when_the_call_fails(store: EventStore) -> None:
    """The agent learns that no decision will come; it does not take the failure for one."""
    chat = store.conversation("chat")
    call = chat.request("pay").id

    def fail() -> None:
        waiting(store)
        chat.fail(call, "withdrawn")

    error, _ = run_concurrently(lambda: chat.decision(call, poll=NEVER), fail)
    assert isinstance(error, NoDecision)


def test_a_paused_attempt_waits_for_a_new_decision(store: EventStore) -> None:
    """The approval before the pause does not count for the next attempt."""
    chat = store.conversation("chat")
    call = chat.request("pay").id
    chat.approve(call, by="ada")
    with chat.running(call) as attempt:
        attempt.pause(reason="above the limit")
    with pytest.raises(TimeoutError, match="was neither approved nor rejected"):
        chat.decision(call, timeout=0)

    def decide() -> None:
        waiting(store)
        chat.approve(call, by="grace")

    tool, _ = run_concurrently(lambda: chat.decision(call, poll=NEVER), decide)
    assert not isinstance(tool, Exception)
    assert tool is not None
    assert (tool.status.by, tool.attempts) == ("grace", 1)


def test_a_decision_in_this_process_is_returned_at_once(store: EventStore) -> None:
    """Other events of the conversation are not taken for a decision."""
    chat = store.conversation("chat")
    call, second = chat.request("pay").id, chat.request("pay").id

    def decide() -> None:
        waiting(store)
        append(store, "x", name="elsewhere")
        chat.approve(second)
        chat.reject(call, "no", by="ada")

    tool, _ = run_concurrently(lambda: chat.decision(call, poll=NEVER), decide)
    assert not isinstance(tool, Exception)
    assert tool is not None
    assert tool.status.reason == "no"


def test_a_decision_in_another_process_is_seen_at_the_next_poll(
    store: EventStore, other: EventStore
) -> None:
    """The agent runs the call with the edited arguments of the approval."""
    chat = store.conversation("chat")
    call = chat.request("pay", {"n": 1}).id

    def decide() -> None:
        waiting(store)
        other.conversation("chat").approve(call, {"n": 2}, by="ada")

    tool, _ = run_concurrently(lambda: chat.decision(call, poll=0.002), decide)
    assert not isinstance(tool, Exception)
    assert chat.start(call).status.arguments == {"n": 2}  # type: ignore[union-attr]
    with pytest.raises(IllegalTransition):
        other.conversation("chat").reject(call)


def test_waiting_for_a_decision_times_out(store: EventStore) -> None:
    """The error names the call and the time."""
    chat = store.conversation("chat")
    call = chat.request("pay").id
    with pytest.raises(
        TimeoutError, match=f"call '{call}' was neither approved nor rejected within 0.01 s"
    ):
        chat.decision(call, timeout=0.01, poll=0.002)
    with pytest.raises(UnknownCall):
        chat.decision("nobody")
    with pytest.raises(ValueError, match="poll is -1"):
        chat.decision(call, poll=-1)


def test_closing_the_store_ends_the_wait_for_a_decision(store: EventStore) -> None:
    """The wait raises `StoreClosed`."""
    chat = store.conversation("chat")
    call = chat.request("pay").id

    def close() -> None:
        waiting(store)
        store.close()

    result, _ = run_concurrently(partial(chat.decision, call, poll=NEVER), close)
    assert isinstance(result, StoreClosed)


# notifications


def test_stores_of_one_log_share_a_notifier(store: EventStore, url: str) -> None:
    """A follower is woken whichever of the stores appends."""
    append(store, "a")
    with EventStore.open(url) as second:
        assert (
            second.session.committer.notifier
            is store.session.committer.notifier
            is notifier_for(store.end().epoch)
        )

        reader = Reader(second, second.follow(poll=NEVER))
        reader.ready(1)
        append(store, "b")
        reader.ready(2)
        second.close()
        assert reader.end() == ["a", "b"]


def test_a_listener_is_notified_until_it_is_removed() -> None:
    """Removing one listener does not affect the others."""
    notifier = LocalNotifier()
    heard: list[tuple[str, Collection[str]]] = []
    one, two = partial(_hear, heard, "a"), partial(_hear, heard, "b")
    notifier.add(one)
    notifier.notify({"1"})
    notifier.add(two)
    notifier.notify({"2"})
    notifier.remove(two)
    notifier.notify({"3"})
    notifier.remove(one)
    notifier.notify({"4"})
    assert heard == [("a", {"1"}), ("a", {"2"}), ("b", {"2"}), ("a", {"3"})]


def _hear(heard: list[tuple[str, Collection[str]]], who: str, names: Collection[str]) -> None:
    heard.append((who, names))
