"""Following the log: what is there, then what comes, and nothing passed over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import projecting
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore import EventStore, Follow, IllegalTransition, Lag, Recorded, UnknownCall, following
from eventstore.bell import Bell, bell_of
from eventstore.errors import StoreClosed, StoreCorrupt
from eventstore.storage import reading
from eventstore.storage.opening import open_storage
from eventstore.testing import FrozenClock, message, together

NEVER = 3600.0
"""Seconds to the next look: what is seen sooner was told by a bell."""


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Where the store is."""
    return f"sqlite:///{tmp_path / 'agent.db'}"


@pytest.fixture
def clock() -> FrozenClock:
    """The store's clock."""
    return FrozenClock()


@pytest.fixture
def store(url: str, clock: FrozenClock) -> Iterator[EventStore]:
    """A store."""
    with EventStore.open(url, clock=clock) as store:
        yield store


@pytest.fixture
def other(url: str, store: EventStore) -> Iterator[EventStore]:
    """A store on the same file whose appends no bell tells of, as if of another process."""
    with EventStore.open(url) as other:
        other.appender.bell = Bell()
        yield other


@pytest.fixture(scope="module")
def memory() -> Iterator[EventStore]:
    """A store for many examples."""
    with EventStore.open("sqlite://") as store:
        yield store


@pytest.fixture(params=["store", "conversation"])
def follow(request: pytest.FixtureRequest, store: EventStore) -> Callable[..., Follow[Any]]:
    """To follow a store, or its one conversation."""
    return store.follow if request.param == "store" else store.conversation("chat").follow


def texts(found: Iterator[Recorded]) -> list[str]:
    """The messages' texts."""
    return [recorded.event.parts[0].text for recorded in found]  # type: ignore[union-attr]


def waiting(store: EventStore, count: int = 1) -> None:
    """Until so many wait for what comes."""
    until = time.monotonic() + 30
    while len(store.watch) < count:
        assert time.monotonic() < until


class Reader:
    """A thread that follows; `ready(n)` when it has read n events and waits for more."""

    def __init__(self, store: EventStore, follow: Iterator[Recorded]) -> None:
        self.texts: list[str] = []
        self._store = store
        self._thread = threading.Thread(target=self._read, args=(follow,))
        self._thread.start()

    def _read(self, follow: Iterator[Recorded]) -> None:
        for recorded in follow:
            self.texts += texts(iter([recorded]))

    def ready(self, count: int) -> None:
        """Wait until it does."""
        until = time.monotonic() + 30
        while len(self.texts) < count:
            assert time.monotonic() < until
        waiting(self._store)

    def end(self) -> list[str]:
        """What it has read, when it has come to its end."""
        self._thread.join(30)
        assert not self._thread.is_alive()
        return self.texts


def append(store: EventStore, *words: str, name: str = "chat") -> None:
    """Append messages."""
    store.conversation(name).append(*(message(word) for word in words))


# what comes


def test_it_gives_what_is_there_and_ends_when_nothing_comes(
    store: EventStore, follow: Callable[..., Follow[Any]]
) -> None:
    """With a timeout of 0, at once."""
    append(store, "a", "b")
    assert texts(follow(timeout=0)) == ["a", "b"]
    assert texts(follow(timeout=0.01, poll=0.002)) == ["a", "b"]


def test_what_is_appended_here_comes_at_once(
    store: EventStore, follow: Callable[..., Follow[Any]]
) -> None:
    """Its follower is woken, and does not have to look."""
    append(store, "a")
    reader = Reader(store, follow(poll=NEVER))
    for count, word in enumerate(("b", "c"), 1):
        reader.ready(count)
        append(store, word)
    reader.ready(3)
    store.close()
    assert reader.end() == ["a", "b", "c"]


def test_another_conversation_is_no_news(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its events wake nobody who does not wait for them."""
    looks: list[str] = []
    look = following.Following.look
    monkeypatch.setattr(
        following.Following, "look", lambda self: looks.append(self.name) or look(self)
    )
    append(store, "a")
    reader = Reader(store, store.conversation("chat").follow(poll=NEVER))
    reader.ready(1)
    seen = len(looks)
    for _ in range(5):
        append(store, "x", name="elsewhere")
    assert len(looks) == seen
    append(store, "b")
    reader.ready(2)
    store.close()
    assert reader.end() == ["a", "b"]


def test_what_others_append_is_seen_at_the_next_look(
    store: EventStore, other: EventStore, follow: Callable[..., Follow[Any]]
) -> None:
    """No bell tells of it."""
    append(store, "a")

    def write() -> None:
        waiting(store)
        append(other, "b")

    found = follow(poll=0.002)
    assert together(lambda: texts(iter([next(found), next(found)])), write) == [["a", "b"], None]


def test_it_goes_on_behind_a_cursor(store: EventStore) -> None:
    """Given as it is, or as text; within a page, and at its end."""
    append(store, "a", "b", "c")
    follow = store.follow(timeout=0)
    assert next(follow).version == 1
    assert texts(store.follow(follow.cursor, timeout=0)) == ["b", "c"]
    assert texts(store.follow(str(follow.cursor), timeout=0)) == ["b", "c"]
    assert texts(follow) == ["b", "c"]
    assert follow.cursor == store.end()
    assert texts(store.follow(store.end(), timeout=0)) == []
    assert texts(store.read(follow.cursor)) == []


def test_it_goes_on_behind_a_version(store: EventStore) -> None:
    """A conversation's cursor is its version."""
    append(store, "a", "b", "c")
    follow = store.conversation("chat").follow(after=1, timeout=0)
    assert follow.cursor == 1
    next(follow)
    assert follow.cursor == 2
    assert texts(follow) == ["c"]
    assert follow.cursor == 3


def test_it_can_be_taken_up_again(store: EventStore, follow: Callable[..., Follow[Any]]) -> None:
    """The end of the iteration is not the end of the log."""
    append(store, "a")
    found = follow(timeout=0)
    assert texts(found) == ["a"]
    append(store, "b")
    assert texts(found) == ["b"]


def test_it_ends_when_it_is_told_to(store: EventStore, follow: Callable[..., Follow[Any]]) -> None:
    """Also with events at hand."""
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


def test_it_ends_when_the_store_is_closed(
    store: EventStore, follow: Callable[..., Follow[Any]]
) -> None:
    """And none begins then."""
    append(store, "a")
    reader = Reader(store, follow(poll=NEVER))
    reader.ready(1)
    store.close()
    assert reader.end() == ["a"]
    with pytest.raises(StoreClosed):
        follow()


def test_pages_are_read_one_by_one(
    store: EventStore, follow: Callable[..., Follow[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each event once, whatever the page."""
    monkeypatch.setattr(following, "PAGE", 3)
    words = [str(n) for n in range(8)]
    append(store, *words)
    found = follow(timeout=0)
    assert texts(found) == words
    assert found.cursor in (8, store.end())


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4)), max_size=8), st.data())
def test_every_event_comes_once_wherever_one_stops(
    memory: EventStore, appends: list[tuple[str, int]], data: st.DataObject
) -> None:
    """A follower that goes on behind its cursor sees what one that never stopped sees."""
    store, start = memory, memory.end()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(following, "PAGE", 2)
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


def test_of_threads_that_share_it_each_event_goes_to_one(
    store: EventStore, follow: Callable[..., Follow[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when one has read on while another did."""
    monkeypatch.setattr(following, "PAGE", 7)
    words = [str(n) for n in range(1000)]
    append(store, *words)
    shared = follow(timeout=0)
    seen: list[str] = []
    together(*(lambda: seen.extend(texts(shared)) for _ in range(4)))
    assert sorted(seen) == sorted(words)
    assert shared.lag().events == 0


def test_who_reads_a_page_that_another_has_read_gives_it_up(
    store: EventStore, follow: Callable[..., Follow[Any]]
) -> None:
    """It is the same one, and may have been given out."""
    append(store, "a", "b")
    shared = follow(timeout=0)._following
    read = shared.source.read

    def read_after_another(place: Any, limit: int) -> Any:
        page = read(place, limit)
        shared.source.read = read
        assert shared.look()
        assert shared.next() is not None
        return page

    shared.source.read = read_after_another
    assert shared.look()
    assert texts(iter([shared.next()])) == ["b"]  # type: ignore[list-item]
    assert shared.next() is None


# nothing is passed over


def remove(store: EventStore, where: str) -> None:
    """Take rows away behind the library's back."""
    storage: Any = store._storage
    storage._connection().execute(f"DELETE FROM toolledger_events WHERE {where}")  # noqa: S608


@pytest.mark.parametrize("position", [1, 2, 3])
@pytest.mark.parametrize("chunk", [1, 2, 1000])
def test_a_missing_position_is_never_passed_over(
    store: EventStore, monkeypatch: pytest.MonkeyPatch, position: int, chunk: int
) -> None:
    """At the beginning, in the middle and at the end: by the lane's counter."""
    monkeypatch.setattr(reading, "CHUNK", chunk)
    append(store, "a", "b", "c")
    remove(store, f"position = {position}")
    with pytest.raises(StoreCorrupt, match=f"lane 0 has no event at position {position}"):
        list(store.follow(timeout=0))
    assert len(list(store.read())) == 2  # who reads what is there still can


def test_a_missing_version_is_never_passed_over(store: EventStore) -> None:
    """A conversation proves itself, too."""
    append(store, "a", "b", "c")
    remove(store, "version = 2")
    with pytest.raises(StoreCorrupt, match=r"'chat' has no version 2"):
        list(store.conversation("chat").follow(timeout=0))


def test_a_log_that_was_put_back_is_refused(store: EventStore) -> None:
    """It would give other events under places that were read already."""
    append(store, "a", "b")
    follow = store.follow(timeout=0)
    assert texts(follow) == ["a", "b"]
    storage: Any = store._storage
    storage._connection().execute("UPDATE toolledger_lanes SET position = 1")
    with pytest.raises(StoreCorrupt, match="replaced by an older copy"):
        next(follow)


def test_other_tenants_are_passed_by(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their events are no gaps, are not given, and are not read twice."""
    monkeypatch.setattr(following, "PAGE", 2)
    ours, theirs = (EventStore(open_storage(url, t, "full", 30.0)) for t in ("ours", "theirs"))
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
    """A conversation of each lane, in the lanes' order."""
    storage: Any = store._storage
    names: dict[int, str] = {}
    number = 0
    while len(names) < len(storage.lanes):
        names.setdefault(storage.lane_of(f"chat-{number}"), f"chat-{number}")
        number += 1
    return [names[lane] for lane in storage.lanes]


def test_a_lane_that_grows_as_fast_as_it_is_read_keeps_no_other_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However slow the follower: each lane gets its turn."""
    monkeypatch.setattr(following, "PAGE", 2)
    with projecting.new_store(tmp_path / "agent.db", lanes=4) as store:
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


def test_what_is_passed_by_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another tenant's lanes are behind a follower whose page ends in a later one."""
    monkeypatch.setattr(following, "PAGE", 2)
    path = tmp_path / "agent.db"
    with (
        projecting.new_store(path, lanes=4) as ours,
        projecting.new_store(path, lanes=1, tenant="theirs") as theirs,
    ):
        append(theirs, "x", "y", name=one_of_each_lane(theirs)[0])
        last = one_of_each_lane(ours)[-1]
        append(ours, "1", "2", "3", name=last)
        read: list[int] = []
        storage: Any = ours._storage
        rows = storage.rows

        def counted(statement: str, *parameters: Any) -> Any:
            if statement == storage._sql.feed:
                read.append(parameters[0])
            return rows(statement, *parameters)

        monkeypatch.setattr(storage, "rows", counted)
        follow = ours.follow(timeout=0)
        assert texts(follow) == ["1", "2", "3"]
        assert read == [0, 3, 3]
        assert follow._following.seen == storage.heads()


# lag


def test_how_far_it_is_behind(
    store: EventStore, clock: FrozenClock, follow: Callable[..., Follow[Any]]
) -> None:
    """In events, and by the age of the oldest of them."""
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
def test_what_makes_no_sense_is_refused(
    follow: Callable[..., Follow[Any]], options: Any, error: type[Exception], words: str
) -> None:
    """Before anything is read."""
    with pytest.raises(error, match=words):
        follow(**options)


@pytest.mark.parametrize("after", [-1, "5", None])
def test_what_is_no_version_is_refused(store: EventStore, after: Any) -> None:
    """Not taken for a log with a gap."""
    with pytest.raises(ValueError, match=f"after is {after!r}: pass a version"):
        store.conversation("chat").follow(after)


def test_a_cursor_of_another_store_is_refused(store: EventStore) -> None:
    """Its places mean nothing here."""
    with EventStore.open("sqlite://") as another, pytest.raises(ValueError, match="another store"):
        store.follow(another.end())


# decisions


def test_a_decision_that_was_made_is_given_at_once(store: EventStore) -> None:
    """Also one that nobody made: the call runs, or has ended."""
    chat = store.conversation("chat")
    calls = [chat.request("pay", {"n": n}).id for n in range(4)]
    chat.approve(calls[0], {"n": 10}, by="ada")
    chat.reject(calls[1], "no")
    chat.start(calls[2])
    chat.complete(calls[3], "paid")
    names = [chat.decision(call_id, timeout=0).status.name for call_id in calls]
    assert names == ["Approved", "Rejected", "Running", "Completed"]
    assert chat.decision(calls[0]).effective_call.arguments == {"n": 10}


def test_a_decision_here_comes_at_once(store: EventStore) -> None:
    """What else happens in the conversation is not taken for one."""
    chat = store.conversation("chat")
    call, second = chat.request("pay").id, chat.request("pay").id

    def decide() -> None:
        waiting(store)
        append(store, "x", name="elsewhere")
        chat.approve(second)
        chat.reject(call, "no", by="ada")

    tool, _ = together(lambda: chat.decision(call, poll=NEVER), decide)
    assert not isinstance(tool, Exception)
    assert tool is not None
    assert tool.status.reason == "no"


def test_a_decision_in_another_process_is_seen_at_the_next_look(
    store: EventStore, other: EventStore
) -> None:
    """An approval with edited arguments, which the agent runs with."""
    chat = store.conversation("chat")
    call = chat.request("pay", {"n": 1}).id

    def decide() -> None:
        waiting(store)
        other.conversation("chat").approve(call, {"n": 2}, by="ada")

    tool, _ = together(lambda: chat.decision(call, poll=0.002), decide)
    assert not isinstance(tool, Exception)
    assert chat.start(call).status.arguments == {"n": 2}  # type: ignore[union-attr]
    with pytest.raises(IllegalTransition):
        other.conversation("chat").reject(call)


def test_nobody_waits_for_ever(store: EventStore) -> None:
    """The error names the call and the time."""
    chat = store.conversation("chat")
    call = chat.request("pay").id
    with pytest.raises(TimeoutError, match=f"rejected call '{call}' within 0.01 s"):
        chat.decision(call, timeout=0.01, poll=0.002)
    with pytest.raises(UnknownCall):
        chat.decision("nobody")
    with pytest.raises(ValueError, match="poll is -1"):
        chat.decision(call, poll=-1)


def test_who_waits_for_a_decision_is_told_of_a_closed_store(store: EventStore) -> None:
    """There is no decision to give."""
    chat = store.conversation("chat")
    call = chat.request("pay").id

    def close() -> None:
        waiting(store)
        store.close()

    result, _ = together(partial(chat.decision, call, poll=NEVER), close)
    assert isinstance(result, StoreClosed)


# the bell


def test_stores_of_one_log_share_a_bell(store: EventStore, url: str) -> None:
    """Whichever of them appends."""
    append(store, "a")
    with EventStore.open(url) as second:
        assert second.appender.bell is store.appender.bell is bell_of(store.end().epoch)

        reader = Reader(second, second.follow(poll=NEVER))
        reader.ready(1)
        append(store, "b")
        reader.ready(2)
        second.close()
        assert reader.end() == ["a", "b"]


def test_a_listener_hears_until_it_goes() -> None:
    """And leaves the others alone."""
    bell = Bell()
    heard: list[tuple[str, Collection[str]]] = []
    one, two = partial(_hear, heard, "a"), partial(_hear, heard, "b")
    bell.add(one)
    bell.ring({"1"})
    bell.add(two)
    bell.ring({"2"})
    bell.remove(two)
    bell.ring({"3"})
    bell.remove(one)
    bell.ring({"4"})
    assert heard == [("a", {"1"}), ("a", {"2"}), ("b", {"2"}), ("a", {"3"})]


def _hear(heard: list[tuple[str, Collection[str]]], who: str, names: Collection[str]) -> None:
    heard.append((who, names))
