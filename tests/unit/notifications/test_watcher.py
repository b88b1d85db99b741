"""Waiting for events: one thread polls for all the threads and tasks that wait."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from eventstore import AsyncEventStore, EventStore, StorageError, Tool
from eventstore.notifications import watcher as watching
from eventstore.notifications.local import LocalNotifier
from eventstore.notifications.watcher import MIN_POLL_SECONDS, Watcher
from eventstore.session import SessionSettings
from eventstore.storage.interface import Storage
from eventstore.subscriptions.sources import ConversationSource, StoreSource
from eventstore.subscriptions.subscription import Subscription
from eventstore.testing import message, run_concurrently

AGENTS = 1_000
NEVER = 3600.0
"""Seconds to the next look: the tests look for themselves."""


class Counted:
    """A storage that counts the calls of its methods, and fails on demand."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.asked: Counter[str] = Counter()
        self.error: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self.storage, name)

        def run(*args: Any) -> Any:
            self.asked[name] += 1
            if self.error is not None:
                raise self.error
            return operation(*args)

        return run if callable(operation) else operation

    def since(self) -> dict[str, int]:
        """Return the calls since the last time, and forget them."""
        asked, self.asked = self.asked, Counter()
        return dict(asked)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return the URL of a store in a file."""
    return f"sqlite:///{tmp_path / 'agent.db'}"


@pytest.fixture
def store(url: str) -> Iterator[EventStore]:
    """Return a store."""
    with EventStore.open(url) as store:
        yield store


@pytest.fixture
def other(url: str, store: EventStore) -> Iterator[EventStore]:
    """Return a store on the same file whose appends wake no waiter, as if in another process."""
    with EventStore.open(url) as other:
        other.session.committer.notifier = LocalNotifier()
        yield other


@pytest.fixture
def counted(store: EventStore) -> Counted:
    """Put the counter around the store's storage and return it."""
    counted = Counted(store.session.storage)
    store.session.committer.storage = store.session.watcher.storage = counted  # type: ignore[assignment]
    return counted


def until(condition: Callable[[], object]) -> None:
    """Wait until the condition holds."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end


def waiting(store: EventStore, count: int) -> bool:
    """Return whether this number of threads or tasks waits."""
    return len(store.session.watcher) == count


def test_a_thousand_waiting_agents_cost_one_statement_per_poll(
    store: EventStore, other: EventStore, counted: Counted
) -> None:
    """A poll that finds appends of others takes two statements, and only waiters with news read."""

    async def settled(condition: Callable[[], object]) -> None:
        end = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < end
            await asyncio.sleep(0.001)

    async def follow(chat: Any) -> int:
        async for recorded in chat.follow(after=1, poll=NEVER):
            return int(recorded.version)
        return 0

    async def main() -> None:
        shared = AsyncEventStore(store)
        chats = [shared.conversation(f"order-{n}") for n in range(AGENTS)]
        await asyncio.gather(*(chat.request("pay", call_id="pay") for chat in chats))
        tasks = [
            asyncio.ensure_future(follow(chat) if n % 2 else chat.decision("pay", poll=NEVER))
            for n, chat in enumerate(chats)
        ]
        await settled(lambda: waiting(store, AGENTS))
        look = store.session.watcher.poll
        counted.since()

        look()
        assert counted.since() == {"heads": 1, "versions": 1}
        for _ in range(3):
            look()
        assert counted.since() == {"heads": 3}

        other.conversation("elsewhere").append(message())
        look()
        assert counted.since() == {"heads": 1, "versions": 1}

        other.conversation("order-6").approve("pay", {"n": 1})
        other.conversation("order-7").reject("pay")
        other.conversation("order-8").append(message())
        look()
        await settled(lambda: waiting(store, AGENTS - 2))
        assert (await tasks[6]).effective_call.arguments == {"n": 1}
        assert await tasks[7] == 2
        await settled(lambda: counted.asked["conversation"] == 3)
        watcher = store.session.watcher
        await settled(lambda: any(one.is_new for one in watcher._expecting()))  # order-8 again
        look()
        assert counted.since() == {"heads": 2, "versions": 2, "conversation": 3}

        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert waiting(store, 0)

    asyncio.run(main())


def test_a_single_thread_polls_for_threads_and_tasks(
    store: EventStore, other: EventStore, counted: Counted
) -> None:
    """The thread polls at the shortest of their intervals, for as long as a caller waits."""
    chats = [store.conversation(name) for name in ("a", "b", "c")]
    calls = [chat.request("pay").id for chat in chats]

    async def decided() -> Tool:
        shared = AsyncEventStore(store).conversation("b")
        return await shared.decision(calls[1], poll=0.002)

    def decide() -> dict[str, int]:
        until(lambda: waiting(store, 4))
        counted.since()
        until(lambda: counted.asked["heads"] > 20)
        asked = counted.since()
        for chat, call in zip(chats, calls, strict=True):
            other.conversation(chat.id).approve(call)
        return asked

    *tools, first, asked = run_concurrently(
        lambda: chats[0].decision(calls[0], poll=NEVER),
        lambda: asyncio.run(decided()),
        lambda: chats[2].decision(calls[2], poll=0.05),
        lambda: next(store.follow(store.end(), poll=NEVER)),
        decide,
    )
    assert isinstance(asked, dict)
    assert asked.pop("heads") > 20
    assert asked.pop("versions", 0) <= 4
    assert asked == {}
    assert [tool.status.name for tool in tools] == ["Approved"] * 3  # type: ignore[union-attr]
    assert first.event.tag == "approved"  # type: ignore[union-attr]


def wait_for_one(store: EventStore, other: EventStore) -> None:
    """Wait for one event that another process appends."""
    follow = store.follow(store.end(), poll=0.002)
    found, _ = run_concurrently(
        lambda: next(follow),
        lambda: until(lambda: waiting(store, 1)) or other.conversation("x").append(message()),
    )
    assert not isinstance(found, Exception)


def pollers() -> set[threading.Thread]:
    """Return the threads that poll, of all stores."""
    return {thread for thread in threading.enumerate() if thread.name == "toolledger-watch"}


def test_the_thread_stays_for_the_next_waiter(store: EventStore, other: EventStore) -> None:
    """The thread does not end with the last waiter, because the next one may come soon."""
    patient = EventStore(store.session.storage, settings=SessionSettings(idle_timeout=60))
    before = pollers()
    wait_for_one(patient, other)
    (first,) = pollers() - before
    wait_for_one(patient, other)
    assert pollers() - before == {first}


def test_the_thread_ends_when_there_are_no_waiters(store: EventStore, other: EventStore) -> None:
    """A later waiter starts a new thread."""
    hasty = EventStore(store.session.storage, settings=SessionSettings(idle_timeout=0.001))
    before = pollers()
    for _ in range(2):
        wait_for_one(hasty, other)
        until(lambda: pollers() <= before)
    assert hasty.session.committer.notifier.listeners == ()


def test_waiters_are_woken_when_polling_fails(store: EventStore, counted: Counted) -> None:
    """Each waiter then looks by itself and gets the error."""
    chat = store.conversation("chat")
    call = chat.request("pay").id

    def fail() -> None:
        until(lambda: waiting(store, 1))
        counted.error = StorageError("the disk is gone")

    error, _ = run_concurrently(lambda: chat.decision(call, poll=0.002), fail)
    assert str(error) == "the disk is gone"
    counted.error = None


def test_a_storage_without_hints_is_polled(
    store: EventStore, other: EventStore, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wait does not depend on hints of other processes' appends."""

    def hints(_: Callable[[], object]) -> None:
        raise StorageError("no connection is left to listen on")

    monkeypatch.setattr(counted.storage, "hints", hints)
    call = store.conversation("chat").request("pay").id
    found, _ = run_concurrently(
        lambda: store.conversation("chat").decision(call, timeout=30, poll=0.002),
        lambda: until(lambda: waiting(store, 1)) or other.conversation("chat").approve(call),
    )
    assert isinstance(found, Tool)


def test_a_transient_polling_error_ends_no_wait(
    store: EventStore, other: EventStore, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A waiter that looks by itself finds nothing wrong, and continues to wait."""
    chat = store.conversation("chat")
    call = chat.request("pay").id
    heads = counted.storage.heads
    passing = [StorageError("the server is gone")] * 3

    def failing() -> dict[int, int]:
        if passing:
            raise passing.pop()
        return heads()

    def decide() -> None:
        until(lambda: waiting(store, 1))
        monkeypatch.setattr(counted.storage, "heads", failing)
        until(lambda: not passing)
        other.conversation("chat").reject(call)

    tool, _ = run_concurrently(lambda: chat.decision(call, poll=0.002), decide)
    assert tool.status.name == "Rejected"  # type: ignore[union-attr]


def test_events_appended_just_before_the_wait_are_not_missed(
    store: EventStore, other: EventStore
) -> None:
    """An append between the check and the wait wakes the waiter at once."""
    watch_, chat = store.session.watcher, store.conversation("chat")
    chat.append(message())
    woken: list[int] = []
    source = ConversationSource(store.session, "chat", 1)
    follow = Subscription(store.session, source, None, None, NEVER)
    with watch_.joined(follow, lambda: woken.append(1)) as waiter:
        assert not follow.is_met()
        other.conversation("chat").append(message())
        watch_.poll()
        assert woken == []
        waiter.expects = True  # as `expect` has it, without the thread
        watch_.poll()
        assert woken == [1]
        assert follow.is_met()


class Hinting:
    """A storage whose hints the test gives, with the times at which it was polled."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.polls: list[float] = []
        self.hint: Callable[[], None] | None = None
        self.hears = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.storage, name)

    def heads(self) -> dict[int, int]:
        """Record the time of the poll."""
        self.polls.append(time.monotonic())
        return self.storage.heads()

    def is_polled_after(self, polls: int) -> bool:
        """Return whether there were more polls than these."""
        return len(self.polls) > polls

    @contextmanager
    def hints(self, hint: Callable[[], None]) -> Iterator[Callable[[], bool]]:
        """Keep the function to call."""
        self.hint = hint
        yield lambda: self.hears


def test_a_hint_brings_the_next_poll_forward(store: EventStore) -> None:
    """A poll that was due in an hour is made now; many hints cause no immediate second poll."""
    storage = Hinting(store.session.storage)
    watcher = Watcher(storage, LocalNotifier(), idle_timeout=0.001)  # type: ignore[arg-type]
    source = StoreSource(store.session, None)
    following = Subscription(store.session, source, None, None, NEVER)
    before = pollers()
    with watcher.joined(following, lambda: None) as waiter:
        watcher.expect(waiter)
        until(lambda: storage.hint)
        assert storage.hint
        assert storage.polls == []
        for _ in range(3):
            polls = len(storage.polls)
            for _ in range(100):
                storage.hint()
            until(partial(storage.is_polled_after, polls))
    pauses = [later - earlier for earlier, later in pairwise(storage.polls)]
    assert min(pauses) >= MIN_POLL_SECONDS
    until(lambda: pollers() <= before)


def test_polls_are_rare_while_hints_come_from_every_process(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new waiter has a poll of its own; all have theirs again when hints end."""
    monkeypatch.setattr(watching, "HEARING_POLL_SECONDS", NEVER)
    storage = Hinting(store.session.storage)
    storage.hears = True
    watcher = Watcher(storage, LocalNotifier(), idle_timeout=0.001)  # type: ignore[arg-type]
    source = StoreSource(store.session, None)
    following = Subscription(store.session, source, None, None, 0.001)
    with watcher.joined(following, lambda: None) as waiter:
        for polls in range(3):
            watcher.expect(waiter)
            until(partial(storage.is_polled_after, polls))
            until(partial(passed, storage.polls[-1] + 0.05))
            assert len(storage.polls) == polls + 1
        storage.hears = False
        until(partial(storage.is_polled_after, 9))


def passed(moment: float) -> bool:
    """Return whether a monotonic time is over."""
    return time.monotonic() > moment


def test_a_stop_is_seen_while_polls_are_rare(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next poll, which is due in an hour, is made now."""
    monkeypatch.setattr(watching, "HEARING_POLL_SECONDS", NEVER)
    storage = Hinting(store.session.storage)
    storage.hears = True
    watcher = Watcher(storage, LocalNotifier())  # type: ignore[arg-type]
    source = StoreSource(store.session, None)
    stop, woken = threading.Event(), threading.Event()
    following = Subscription(store.session, source, stop, None, 0.001)
    with watcher.joined(following, woken.set) as waiter:
        watcher.expect(waiter)
        until(partial(storage.is_polled_after, 0))
        stop.set()
        assert woken.wait(60)


def test_a_forked_child_has_its_own_polling_thread(store: EventStore) -> None:
    """The parent's thread does not exist in the child."""
    before = store.session.watcher
    store.session.reset_after_fork()
    assert store.session.watcher is not before
