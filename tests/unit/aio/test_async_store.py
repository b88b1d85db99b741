"""The event store for asyncio: shared commits, cancellation, closing, forks, following."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from eventstore import (
    AsyncEventStore,
    AsyncFeed,
    EventStore,
    IllegalTransition,
    Lag,
    SilentAttempt,
    StorageError,
    StoreClosed,
    VersionConflict,
    aio,
    fingerprint,
    reader_aio,
    writer_aio,
)
from eventstore.bell import Bell
from eventstore.errors import NotAStore, StoreCorrupt, UnknownCall
from eventstore.following import Decision
from eventstore.storage import Append, Appended, Storage
from eventstore.testing import FrozenClock, message, pending, together

NEVER = 3600.0
"""Seconds to the next look: what is seen sooner was told by a bell."""

Main = Callable[[AsyncEventStore], Coroutine[Any, Any, Any]]


class Gate:
    """A storage that holds the first append back until it is told to go on."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.groups: list[int] = []
        self.inside, self.go = threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.storage, name)

    def append(self, request: Append) -> Appended:
        """One append."""
        self.groups.append(1)
        self.inside.set()
        assert self.go.wait(30)
        return self.storage.append(request)

    def append_all(self, requests: Sequence[Append]) -> list[Appended | Exception]:
        """Appends together."""
        self.groups.append(len(requests))
        return self.storage.append_all(requests)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Where the store is."""
    return f"sqlite:///{tmp_path / 'agent.db'}"


@pytest.fixture
def run(url: str) -> Callable[[Main], Any]:
    """Runs a coroutine function with a store."""

    def run(main: Main) -> Any:
        async def opened() -> Any:
            async with AsyncEventStore.open(url, clock=FrozenClock()) as store:
                return await main(store)

        return asyncio.run(opened())

    return run


def gated(store: AsyncEventStore) -> Gate:
    """The store's storage, with a gate."""
    gate = Gate(store._store._storage)
    store._store.appender._storage = gate  # type: ignore[assignment]
    return gate


async def until(condition: Callable[[], object]) -> None:
    """Give way until it is so."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0)


def expecting(store: AsyncEventStore) -> int:
    """How many wait for what comes."""
    return len(store._store.watch)


async def queued(store: AsyncEventStore, gate: Gate, *jobs: Awaitable[Any]) -> list[Any]:
    """What the jobs gave: carried out after all had queued up, in their order."""
    first = asyncio.ensure_future(store.conversation("first").append(message()))
    await until(gate.inside.is_set)
    tasks = [asyncio.ensure_future(job) for job in jobs]
    await until(lambda: store._asking.writer._queue.qsize() == len(jobs))
    gate.go.set()
    await first
    return await asyncio.gather(*tasks, return_exceptions=True)


# appending


def test_tasks_that_wait_share_a_commit(run: Callable[[Main], Any]) -> None:
    """Each with its own outcome, in the order in which they asked."""

    async def main(store: AsyncEventStore) -> None:
        chat, gate = store.conversation("chat"), gated(store)
        results = await queued(
            store, gate,
            chat.request("pay", {}, "1"),
            chat.start("1"),
            chat.start("1"),
            chat.append(message(), expected_version=9),
            store.conversation("new").add_message("user", "hello"),
            chat.complete("1", "paid"),
        )  # fmt: skip
        assert gate.groups == [1, 6]
        assert [type(r).__name__ for r in results] == [
            "Tool", "Tool", "IllegalTransition", "VersionConflict", "Recorded", "Tool"
        ]  # fmt: skip
        assert [r.event.tag async for r in chat.events()] == ["pending", "running", "completed"]

    run(main)


def test_what_goes_alone_keeps_its_turn(run: Callable[[Main], Any]) -> None:
    """An append under given ids, between two that share a commit with others."""

    async def main(store: AsyncEventStore) -> None:
        chat, gate = store.conversation("chat"), gated(store)
        given = "0192f0c1-2222-7000-8000-000000000001"
        results = await queued(
            store, gate,
            chat.append(message("a")),
            chat.append(message("b"), event_ids=[given]),
            chat.record({"role": "user", "content": "c"}),
            chat.append(message("d")),
            chat.append(message("e")),
            chat.append(message("b"), event_ids=[given]),
        )  # fmt: skip
        assert [r.event.parts[0].text async for r in chat.events()] == list("abcde")  # type: ignore[union-attr]
        assert gate.groups == [1, 1, 1, 1, 2]  # and none for what was stored already
        assert results[5] == results[1]

    run(main)


def test_threads_come_along(run: Callable[[Main], Any]) -> None:
    """Who appends to the store itself, and waits, goes into the same commit."""

    async def main(store: AsyncEventStore) -> None:
        gate, sync = gated(store), store._store
        appender = sync.appender
        names = ("one", "two", "three")
        threads = [
            threading.Thread(target=sync.conversation(name).append, args=(message(),))
            for name in names
        ]
        for thread in threads:  # the first holds the lead, the others queue behind it
            thread.start()
            await until(lambda: appender._led)
        await until(lambda: len(appender._waiting) == 2)
        task = asyncio.ensure_future(store.conversation("chat").append(message()))
        await until(lambda: store._asking.writer._thread)
        gate.go.set()
        await task
        for thread in threads:
            await asyncio.to_thread(thread.join)
        assert sorted([name async for name, _ in store.conversations()]) == sorted([*names, "chat"])
        assert (appender._led, appender._leader, len(appender._waiting)) == (False, 0, 0)

    run(main)


def test_context_variables_are_the_callers(run: Callable[[Main], Any], url: str) -> None:
    """In the clock, in what decides, and in reads."""
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")
    seen: list[str] = []

    def clock() -> int:
        seen.append(who.get())
        return 1

    async def main() -> None:
        async with AsyncEventStore.open(url, clock=clock) as store:

            async def work(name: str) -> None:
                who.set(name)
                await store.conversation(name).append(message())
                assert await store._reader.run(who.get) == name

            await asyncio.gather(*(work(name) for name in "abc"))

    asyncio.run(main())
    assert sorted(seen) == ["a", "b", "c"]
    assert who.get() == "nobody"


def test_event_loops_share_a_store(url: str) -> None:
    """One after the other, and several at once; none is held on to."""
    store = asyncio.run(opened(url))

    async def work(number: int) -> None:
        chat, own = store.conversation("chat"), store.conversation(f"own-{number}")
        for n in range(10):
            await asyncio.gather(chat.append(message()), own.append(message(), expected_version=n))

    def loop(number: int) -> Callable[[], None]:
        return lambda: asyncio.run(work(number))

    assert together(*(loop(number) for number in range(4))) == [None] * 4
    assert store._store.conversation("chat").version == 40
    assert list(store._store.verify()) == []
    asyncio.run(store.close())


async def opened(url: str) -> AsyncEventStore:
    """A store."""
    return await AsyncEventStore.open(url)


@pytest.mark.parametrize("error", [ValueError("no"), StopIteration("no"), SystemExit(3)])
def test_what_the_clock_raises_is_the_callers(
    url: str, error: BaseException, run: Callable[[Main], Any]
) -> None:
    """Whatever it is; the next append gets through."""
    errors: list[BaseException] = [error]

    def clock() -> int:
        if errors:
            raise errors.pop()
        return 1

    async def main(_: AsyncEventStore) -> None:
        async with AsyncEventStore.open(url, clock=clock) as store:
            chat = store.conversation("chat")
            # inside a coroutine, Python itself makes this one another
            expected = RuntimeError if isinstance(error, StopIteration) else type(error)
            try:
                await chat.append(message())
            except BaseException as caught:  # noqa: BLE001 - SystemExit is one
                assert type(caught) is expected  # noqa: PT017
            else:
                raise AssertionError
            assert await chat.version == 0
            assert (await chat.append(message()))[0].version == 1

    run(main)


def test_an_answer_that_fails_is_the_callers(run: Callable[[Main], Any]) -> None:
    """It is stored, and the reading of it fails."""

    async def main(store: AsyncEventStore) -> None:
        chat = store.conversation("chat")
        given = ["0192f0c1-2222-7000-8000-000000000001"]
        await chat.append(message(), event_ids=given)

        def broken(*_: object) -> Any:
            raise StorageError("no answer")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store._asking, "events", broken)
            with pytest.raises(StorageError, match="no answer"):
                await chat.append(message(), event_ids=given)

    run(main)


def test_every_verb_is_there(run: Callable[[Main], Any]) -> None:
    """And gives what its namesake gives."""

    async def main(store: AsyncEventStore) -> None:
        chat = store.conversation("chat")
        assert repr(chat) == "<AsyncConversation 'chat'>"
        assert (await chat.add_message("user", "hello")).version == 1
        assert chat.blocking.version == 1
        first = await chat.request("pay", {"n": 1})
        await chat.approve(first.id, {"n": 2}, by="ada")
        async with chat.running(first.id) as attempt:
            assert (attempt.number, attempt.arguments) == (1, {"n": 2})
            assert (await attempt.fail("no answer", delay=0.5)).status.name == "Failed"
        await chat.start(first.id)
        assert (await chat.complete(first.id, "paid")).status.name == "Completed"
        second = await chat.request("pay", {"n": 3})
        assert (await chat.reject(second.id, "no")).status.name == "Rejected"
        third = await chat.request("pay", {"n": 3})
        assert (await chat.fail(third.id, ValueError("no"))).status.name == "Failed"
        call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        asked = {"role": "assistant", "content": None, "tool_calls": [call]}
        assert [t.id for t in await chat.record(asked)] == ["a"]
        answer = {"role": "tool", "tool_call_id": "a", "content": "no"}
        answered = await chat.record_messages([answer], is_error=lambda _: True)
        assert [t.status.name for t in answered] == ["Failed"]
        assert set(await chat.tools) == {first.id, second.id, third.id, "a"}
        found = [r.version async for r in store.read_fingerprint(fingerprint("pay", {"n": 2}))]
        assert found == [3, 4, 5, 6, 7]
        assert [r.version async for r in store.read_call("chat", second.id)] == [8, 9]
        assert [d async for d in store.verify()] == []
        other = store.conversation("other")
        assert (await other.import_messages([asked, answer])).added == 2
        assert (await other.import_messages([asked, answer])).skipped == 2
        assert [name async for name, _ in store.conversations()] == ["chat", "other"]

    run(main)


# attempts


def test_an_attempt_records_how_it_ends(run: Callable[[Main], Any]) -> None:
    """An error, a cancellation, silence."""

    async def main(store: AsyncEventStore) -> None:
        chat = store.conversation("chat")
        calls = [(await chat.request("pay", {"n": n})).id for n in range(5)]
        with pytest.raises(ValueError, match="broke"):
            async with chat.running(calls[0]):
                raise ValueError("broke")
        with pytest.raises(SilentAttempt):
            async with chat.running(calls[1]):
                pass
        with pytest.raises(TimeoutError):  # noqa: PT012
            async with asyncio.timeout(None) as limit, chat.running(calls[2]):
                limit.reschedule(0)  # it has begun
                await asyncio.Event().wait()
        with pytest.raises(ValueError, match="after"):  # noqa: PT012 - the block is what is tried
            async with chat.running(calls[3]) as attempt:
                await attempt.complete("paid")
                raise ValueError("after")
        with pytest.raises(ValueError, match="broke") as caught:  # noqa: PT012
            async with chat.running(calls[4]):
                await chat.complete(calls[4], "paid by another")
                raise ValueError("broke")
        assert "was not recorded" in caught.value.__notes__[0]
        tools = await chat.tools
        found = [getattr(getattr(tools[c].status, "failure", None), "code", "") for c in calls]
        assert found == [None, "no_result", "cancelled", "", ""]

    run(main)


def test_an_attempt_cancelled_as_it_starts_has_not_run(run: Callable[[Main], Any]) -> None:
    """That is recorded; where it cannot be, the error says so."""

    async def main(store: AsyncEventStore) -> None:
        chat = store.conversation("chat")
        calls = [(await chat.request("pay", {"n": n})).id for n in range(2)]

        async def enter(call_id: str) -> None:
            async with chat.running(call_id):
                raise AssertionError("it was cancelled before")

        for call_id in calls:
            if call_id == calls[1]:

                def broken(*_: object, **__: object) -> Any:
                    raise StorageError("disk full")

                chat._verbs._fail = broken
            task = asyncio.ensure_future(enter(call_id))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError) as caught:
                await task
        assert "disk full" in caught.value.__notes__[0]
        tools = await chat.tools
        assert [tools[c].status.name for c in calls] == ["Failed", "Running"]
        assert tools[calls[0]].status.failure == aio.NOT_RUN  # type: ignore[union-attr]
        assert (await chat.start(calls[0])).attempts == 2

    run(main)


def test_who_is_cancelled_waits_for_his_append(run: Callable[[Main], Any]) -> None:
    """However often; it is stored when he goes on."""

    async def main(store: AsyncEventStore) -> None:
        chat, gate = store.conversation("chat"), gated(store)
        task = asyncio.ensure_future(chat.append(message()))
        await until(gate.inside.is_set)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done()
        gate.go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await chat.version == 1

    run(main)


# opening and closing


def test_a_store_is_awaited_or_entered(url: str) -> None:
    """And refused with the error of its namesake."""

    async def main() -> None:
        store = await AsyncEventStore.open(url)
        await store.conversation("chat").append(message())
        await store.close()
        await store.close()
        async with AsyncEventStore.open(url, create=False) as again:
            assert await again.conversation("chat").version == 1
        with pytest.raises(NotAStore):
            await AsyncEventStore.open(f"{url}.none", create=False)
        with pytest.raises(NotAStore):
            async with AsyncEventStore.open(f"{url}.none", create=False):
                pass
        with pytest.raises(ValueError, match="durability"):
            await AsyncEventStore.open(url, durability="none")

    asyncio.run(main())


@pytest.mark.parametrize("name", ["conversation", "read", "appender", "nonsense"])
def test_a_store_that_was_not_awaited_says_so(url: str, name: str) -> None:
    """Whatever it is asked for; nothing is opened."""
    opening = AsyncEventStore.open(f"{url}.none")
    with pytest.raises(AttributeError, match=r"not open yet: write `store = await .*`async with`"):
        getattr(opening, name)
    assert not hasattr(opening, "close")


def test_an_opening_that_is_cancelled_leaves_nothing_open(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends when the store is open, and closed again."""
    stores: list[EventStore] = []
    inside, go = threading.Event(), threading.Event()
    open_ = EventStore.open

    def slow(*args: Any, **options: Any) -> EventStore:
        inside.set()
        assert go.wait(30)
        stores.append(open_(*args, **options))
        return stores[-1]

    monkeypatch.setattr(EventStore, "open", slow)

    async def main() -> None:
        task = asyncio.ensure_future(opened(url))
        await until(inside.is_set)
        task.cancel()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert stores[0].appender.closed


def test_closing_carries_out_what_was_asked_for(url: str) -> None:
    """What comes later is refused."""

    async def main() -> list[Any]:
        store = await AsyncEventStore.open(url)
        chat, gate = store.conversation("chat"), gated(store)
        tasks = [asyncio.ensure_future(chat.append(message()))]
        await until(gate.inside.is_set)
        tasks += [asyncio.ensure_future(chat.append(message(str(n)))) for n in range(4)]
        await until(lambda: store._asking.writer._queue.qsize() == 4)
        closing = asyncio.ensure_future(store.close())
        await until(lambda: store._asking.writer._ended)
        with pytest.raises(StoreClosed):
            await chat.append(message("late"))
        gate.go.set()
        await closing
        for attempt in (chat.append(message()), chat.version, store.end(), chat.tools):
            with pytest.raises(StoreClosed):
                await attempt
        with pytest.raises(StoreClosed):
            chat.follow()
        return await asyncio.gather(*tasks)

    results = asyncio.run(main())
    with EventStore.open(url) as store:
        assert [[r] for r in store.read()] == results
        assert len(results) == 5


def test_what_was_asked_for_is_carried_out_before_the_process_ends(url: str) -> None:
    """Though its loop was torn down, and nobody closed the store."""
    script = f"""
import asyncio, threading
from eventstore import AsyncEventStore
from eventstore.testing import message

async def main():
    global store
    store = await AsyncEventStore.open({url!r})
    chat = store.conversation("chat")
    storage = store._store._storage
    def slow(write):
        def slowly(what):
            main_thread.join(10)
            threading.Event().wait(0.1)  # a disk that takes longer than what is left of the process
            return write(what)
        return slowly
    storage.append, storage.append_all = slow(storage.append), slow(storage.append_all)
    for n in range(3):  # behind asyncio's back, as a loop that is stopped would leave them
        chat._verbs.append(message(str(n)))

main_thread = threading.main_thread()
asyncio.run(main())
"""
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)
    with EventStore.open(url) as store:
        assert store.conversation("chat").version == 3


def test_a_store_that_is_thrown_away_leaves_no_thread(url: str) -> None:
    """The store under it stays open."""
    with EventStore.open(url) as sync:
        store: AsyncEventStore | None = AsyncEventStore(sync)
        assert store is not None
        asyncio.run(store.conversation("chat").append(message()))  # type: ignore[arg-type]
        thread = store._asking.writer._thread
        assert thread is not None
        assert thread.is_alive()
        del store
        gc.collect()
        thread.join(30)
        assert not thread.is_alive()
        assert sync.conversation("chat").version == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("closed", [False, True])
def test_a_forked_child_has_threads_of_its_own(url: str, closed: bool) -> None:
    """Parent and child both go on; a closed store stays closed."""
    store = asyncio.run(opened(url))
    chat = store.conversation("chat")

    async def work() -> None:
        await chat.append(message())
        assert [r async for r in chat.events()]

    asyncio.run(work())
    if closed:
        asyncio.run(store.close())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child = os.fork()
    if child == 0:
        status = 1
        try:
            asyncio.run(work())
            status = 0
        except StoreClosed:
            status = 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == (2 if closed else 0)
    if not closed:
        asyncio.run(work())
        assert store._store.conversation("chat").version == 3
        asyncio.run(store.close())


def test_what_is_forked_begins_anew(run: Callable[[Main], Any]) -> None:
    """The threads are not there, and locks may be held by one that is not."""

    async def main(store: AsyncEventStore) -> None:
        chat = store.conversation("chat")
        await chat.append(message())
        assert await chat.version == 1
        writer, reader = store._asking.writer, store._reader
        thread, queue, pool = writer._thread, writer._queue, reader._pool
        assert thread is not None
        assert pool is not None
        writer_aio._after_fork()
        reader_aio._after_fork()
        await chat.append(message())
        assert await chat.version == 2
        assert writer._thread is not thread
        assert reader._pool is not pool
        queue.put(None)
        thread.join()
        pool.shutdown()

    run(main)


# reading


def test_a_feed_goes_on_behind_its_cursor(
    run: Callable[[Main], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is behind what was given, not behind what was read."""
    monkeypatch.setattr(reader_aio, "PAGE", 4)

    async def main(store: AsyncEventStore) -> None:
        await store.conversation("chat").append(*(message(str(n)) for n in range(10)))
        feed = store.read()
        assert isinstance(feed, AsyncFeed)
        start = feed.cursor
        seen = [await anext(feed) for _ in range(3)]
        seen += [r async for r in store.read(str(feed.cursor), limit=5)]
        assert [r.version for r in seen] == list(range(1, 9))
        assert [r.version async for r in store.read(start)] == list(range(1, 11))
        assert [r async for r in store.read(await store.end())] == []

    run(main)


def test_what_stands_before_the_damage_is_read(run: Callable[[Main], Any]) -> None:
    """Then the error comes, once."""

    def damaged() -> Any:
        yield from "ab"
        raise StoreCorrupt("here")

    async def main(store: AsyncEventStore) -> None:
        found = reader_aio.Reading(store._reader, damaged())
        assert [await anext(found), await anext(found)] == ["a", "b"]
        with pytest.raises(StoreCorrupt, match="here"):
            await anext(found)
        assert [one async for one in found] == []

    run(main)


# following


def test_tasks_follow(run: Callable[[Main], Any]) -> None:
    """A store and a conversation; woken by what this process appends; to the end of the store."""

    async def main(store: AsyncEventStore) -> None:
        chat = store.conversation("chat")
        await chat.append(message("a"))
        assert (await chat.fail((await chat.request("f")).id, "no")).status.name == "Failed"
        seen: list[list[int]] = [[], []]

        async def collect(found: Any, into: list[int]) -> None:
            async for recorded in found:
                into.append(recorded.version)  # noqa: PERF401 - looked at meanwhile

        follows = (store.follow(poll=NEVER), chat.follow(after=1, poll=NEVER))
        tasks = [asyncio.ensure_future(collect(*pair)) for pair in zip(follows, seen, strict=True)]
        for count in range(3, 6):
            await until(lambda: len(seen[0]) == count and expecting(store) == 2)  # noqa: B023
            await chat.append(message())
        await until(lambda: (len(seen[0]), len(seen[1])) == (6, 5))
        assert await follows[0].lag() == Lag(0, 0.0)
        assert follows[0].cursor == await store.end()
        assert follows[1].cursor == 6
        await store.close()
        await asyncio.gather(*tasks)
        assert seen == [[1, 2, 3, 4, 5, 6], [2, 3, 4, 5, 6]]

    run(main)


def test_of_tasks_that_share_it_each_event_goes_to_one(run: Callable[[Main], Any]) -> None:
    """A pool of workers may take turns."""

    async def main(store: AsyncEventStore) -> None:
        await store.conversation("chat").append(*(message(str(n)) for n in range(1200)))
        shared, seen = store.follow(timeout=0), []

        async def work() -> None:
            seen.extend([recorded.position async for recorded in shared])

        await asyncio.gather(*(work() for _ in range(4)))
        assert sorted(seen) == list(range(1, 1201))

    run(main)


def test_a_wait_that_is_given_up_loses_nothing(run: Callable[[Main], Any]) -> None:
    """`wait_for` around the next event, again and again."""

    async def main(store: AsyncEventStore) -> None:
        chat = store.conversation("chat")
        follow = chat.follow(poll=0.002)
        seen: list[int] = []

        async def write() -> None:
            for n in range(30):
                await chat.append(message(str(n)))

        writing = asyncio.ensure_future(write())
        while len(seen) < 30:
            try:
                seen.append((await asyncio.wait_for(anext(follow), 0.0005)).version)
            except TimeoutError:
                continue
        await writing
        assert seen == list(range(1, 31))

    run(main)


def test_following_ends(run: Callable[[Main], Any], url: str) -> None:
    """When it is told to, and when nothing comes; what others append is looked for until then."""

    async def main(store: AsyncEventStore) -> None:
        chat = store.conversation("chat")
        await chat.append(message())
        stop = asyncio.Event()
        follow = store.follow(stop=stop, poll=0.002)
        assert (await anext(follow)).version == 1
        with EventStore.open(url) as other:
            other.appender.bell = Bell()  # as of another process
            other.conversation("chat").append(message())
        assert (await anext(follow)).version == 2
        stop.set()
        assert [r async for r in follow] == []
        assert [r.version async for r in store.follow(timeout=0)] == [1, 2]
        assert [r.version async for r in chat.follow(timeout=0.01, poll=0.002)] == [1, 2]
        assert [r async for r in store.follow(str(await store.end()), timeout=0)] == []

    run(main)


def test_a_decision_is_awaited(run: Callable[[Main], Any], url: str) -> None:
    """Of this process and of another; or nobody decides."""

    async def main(store: AsyncEventStore) -> None:
        chat = store.conversation("chat")
        here, there, nobody = [(await chat.request("pay", {"n": n})).id for n in range(3)]
        waiting = asyncio.ensure_future(chat.decision(here, poll=NEVER))
        await until(lambda: expecting(store))
        await chat.approve(here, {"n": 7})
        assert (await waiting).effective_call.arguments == {"n": 7}
        waiting = asyncio.ensure_future(chat.decision(there, poll=0.002))
        await until(lambda: expecting(store))
        with EventStore.open(url) as other:
            other.appender.bell = Bell()
            other.conversation("chat").reject(there, "no")
        assert (await waiting).status.name == "Rejected"
        with pytest.raises(TimeoutError, match=nobody):
            await chat.decision(nobody, timeout=0.01, poll=0.002)
        with pytest.raises(UnknownCall):
            await chat.decision("unknown")
        with pytest.raises(ValueError, match="timeout is -1"):
            await chat.decision(nobody, timeout=-1)
        waiting = asyncio.ensure_future(chat.decision(nobody, poll=NEVER))
        await until(lambda: expecting(store))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert expecting(store) == 0
        assert store._store.appender.bell.listeners == ()

    run(main)


def test_a_ring_between_look_and_wait_is_heard(
    run: Callable[[Main], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who begins to wait then does not."""

    async def main(store: AsyncEventStore) -> None:
        chat = store.conversation("chat")
        call = await chat.request("pay")
        look = Decision.look

        def look_and_miss(self: Decision) -> bool:
            found = look(self)
            monkeypatch.setattr(Decision, "look", look)
            chat.blocking.approve(call.id)
            return found

        monkeypatch.setattr(Decision, "look", look_and_miss)
        assert (await chat.decision(call.id, poll=NEVER)).status.name == "Approved"

    run(main)


def test_a_loop_that_is_gone_disturbs_nobody(url: str) -> None:
    """Who waited in it waits no more."""
    store = asyncio.run(opened(url))
    chat = store.conversation("chat")
    left: list[Any] = []

    async def leave() -> None:
        call = await chat.request("pay")
        left.append(chat.decision(call.id, poll=NEVER))
        left[0].send(None)  # it looks, and nobody goes on with it
        await until(lambda: store._store.watch._waiters)
        left.append(call.id)

    asyncio.run(leave())
    chat.blocking.approve(left[1])
    assert not store._store.watch._waiters
    left[0].close()
    assert not store._store.watch._waiters
    asyncio.run(store.close())


def test_answers_for_a_loop_that_is_gone_are_dropped(url: str) -> None:
    """The append is carried out, and the next one finds its thread at work."""
    store = asyncio.run(opened(url))
    chat, gate = store.conversation("chat"), gated(store)

    async def leave() -> None:
        chat._verbs.append(message("left"))
        await until(gate.inside.is_set)

    asyncio.run(leave())
    gate.go.set()
    (recorded,) = asyncio.run(_append(chat))
    assert recorded.version == 2
    asyncio.run(store.close())


async def _append(chat: Any) -> Any:
    return await chat.append(pending("1"))


def test_errors_are_the_same(run: Callable[[Main], Any]) -> None:
    """With the same attributes."""

    async def main(store: AsyncEventStore) -> None:
        chat = store.conversation("chat")
        with pytest.raises(VersionConflict) as conflict:
            await chat.append(message(), expected_version=4)
        assert (conflict.value.expected, conflict.value.actual) == (4, 0)
        with pytest.raises(UnknownCall):
            await chat.start("nobody")
        with pytest.raises(ValueError, match="not empty"):
            await chat.request("")
        with pytest.raises(ValueError, match="not empty"):
            store.conversation("")
        await chat.append(pending("1"))
        await chat.start("1")
        with pytest.raises(IllegalTransition):
            await chat.start("1")

    run(main)
