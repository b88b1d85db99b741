"""Who waits for events, and the one thread that looks for all of them."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from eventstore import AsyncEventStore, EventStore, StorageError, Tool, watch
from eventstore.bell import Bell
from eventstore.storage import Storage
from eventstore.testing import message, together

AGENTS = 1_000
NEVER = 3600.0
"""Seconds to the next look: the tests look for themselves."""


class Counted:
    """A storage that counts what it is asked for, and fails when it is told to."""

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
        """What it was asked for since the last time."""
        asked, self.asked = self.asked, Counter()
        return dict(asked)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Where the store is."""
    return f"sqlite:///{tmp_path / 'agent.db'}"


@pytest.fixture
def store(url: str) -> Iterator[EventStore]:
    """A store."""
    with EventStore.open(url) as store:
        yield store


@pytest.fixture
def other(url: str, store: EventStore) -> Iterator[EventStore]:
    """A store on the same file whose appends no bell tells of, as if of another process."""
    with EventStore.open(url) as other:
        other.appender.bell = Bell()
        yield other


@pytest.fixture
def counted(store: EventStore) -> Counted:
    """The store's storage, counted."""
    counted = Counted(store._storage)
    store.appender._storage = store.watch._storage = counted  # type: ignore[assignment]
    return counted


def until(condition: Callable[[], object]) -> None:
    """Wait until it is so."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end


def waiting(store: EventStore, count: int) -> bool:
    """Whether so many wait."""
    return len(store.watch) == count


def test_a_thousand_agents_cost_one_statement_a_look(
    store: EventStore, other: EventStore, counted: Counted
) -> None:
    """Two where others have appended; and nobody looks for himself without news for him."""

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
        look = store.watch._look
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
        await settled(lambda: any(one.is_new for one in store.watch._expecting()))  # order-8 again
        look()
        assert counted.since() == {"heads": 2, "versions": 2, "conversation": 3}

        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert waiting(store, 0)

    asyncio.run(main())


def test_one_thread_looks_for_threads_and_tasks(
    store: EventStore, other: EventStore, counted: Counted
) -> None:
    """Again and again, for as long as somebody waits, at the shortest of their intervals."""
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

    *tools, first, asked = together(
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


def test_the_thread_goes_when_nobody_waits_any_more(
    store: EventStore, other: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at once: who waits next may be near. Later he brings a new one."""

    def wait() -> None:
        follow = store.follow(store.end(), poll=0.002)
        found, _ = together(
            lambda: next(follow),
            lambda: until(lambda: waiting(store, 1)) or other.conversation("x").append(message()),
        )
        assert not isinstance(found, Exception)

    wait()
    first = store.watch._thread
    assert first is not None
    wait()
    assert store.watch._thread is first
    monkeypatch.setattr(watch, "LINGER", 0.001)
    for _ in range(2):
        wait()
        until(lambda: store.watch._thread is None)
    first.join(30)
    assert store.watch._waiters == {}
    assert store.appender.bell.listeners == ()


def test_who_waits_is_told_when_looking_fails(store: EventStore, counted: Counted) -> None:
    """He looks for himself then, and gets the error."""
    chat = store.conversation("chat")
    call = chat.request("pay").id

    def fail() -> None:
        until(lambda: waiting(store, 1))
        counted.error = StorageError("the disk is gone")

    error, _ = together(lambda: chat.decision(call, poll=0.002), fail)
    assert str(error) == "the disk is gone"
    counted.error = None


def test_an_error_that_passes_disturbs_nobody(
    store: EventStore, other: EventStore, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who looks for himself finds nothing wrong, and waits on."""
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

    tool, _ = together(lambda: chat.decision(call, poll=0.002), decide)
    assert tool.status.name == "Rejected"  # type: ignore[union-attr]


def test_what_was_appended_before_the_wait_is_not_missed(
    store: EventStore, other: EventStore
) -> None:
    """Between the look and the wait, though the counters have been read since."""
    watch_, chat = store.watch, store.conversation("chat")
    chat.append(message())
    woken: list[int] = []
    follow = chat.follow(after=1)._following
    with watch_.joined(follow, lambda: woken.append(1)) as waiter:
        assert not follow.look()
        other.conversation("chat").append(message())
        watch_._look()
        assert woken == []
        waiter.expects = True  # as `expect` has it, without the thread
        watch_._look()
        assert woken == [1]
        assert follow.look()


def test_a_hint_brings_the_next_look_forward(store: EventStore) -> None:
    """From an hour to now; however many come, a look is not made right behind another."""
    watch_ = store.watch
    following = store.follow(poll=NEVER)._following
    with watch_.joined(following, lambda: None) as waiter:
        waiter.expects = True  # as `expect` has it, without the thread
        for _ in range(3):
            last = time.monotonic()
            watch_._hint()
            watch_._hint()
            assert watch_._is_due(last)
            assert watch.PACE <= time.monotonic() - last < NEVER
            assert not watch_._hinted


def test_a_forked_child_waits_for_itself(store: EventStore) -> None:
    """The thread is not there."""
    before = store.watch
    store._forked()
    assert store.watch is not before
