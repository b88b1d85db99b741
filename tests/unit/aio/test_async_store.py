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
    Conversation,
    EventStore,
    IllegalTransition,
    Lag,
    SilentAttempt,
    StorageError,
    StoreClosed,
    VersionConflict,
    fingerprint,
)
from eventstore.aio.attempt import NOT_RUN
from eventstore.aio.reader import PAGE_EVENTS, Reading, wait
from eventstore.aio.store import Opening
from eventstore.append.command import Command
from eventstore.append.commands import messages
from eventstore.errors import NotAStore, StoreCorrupt, UnknownCall
from eventstore.notifications.local import LocalNotifier
from eventstore.storage.interface import Append, AppendOutcome, Storage
from eventstore.subscriptions.decision import PendingDecision
from eventstore.testing import FrozenClock, message, pending, run_concurrently

NEVER = 3600.0
"""Seconds to the next poll: what is seen sooner came by a notification."""

WRITER, READER = "toolledger-writer", "toolledger-reader"
"""What the names of the threads begin with."""

Main = Callable[[AsyncEventStore], Coroutine[Any, Any, Any]]


class Gate:
    """A storage that holds the first append back until the test lets it continue."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.groups: list[int] = []
        self.inside, self.go = threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.storage, name)

    def append(self, requests: Sequence[Append]) -> list[AppendOutcome]:
        """Hold back the first request; let the requests that came after it pass as a group."""
        self.groups.append(len(requests))
        if requests[0].drafts:
            self.inside.set()
            assert self.go.wait(30)
        return self.storage.append(requests)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return the URL of a store in a file."""
    return f"sqlite:///{tmp_path / 'agent.db'}"


@pytest.fixture
def run(url: str) -> Callable[[Main], Any]:
    """Return a function that runs a coroutine function with a store."""

    def run(main: Main) -> Any:
        async def opened() -> Any:
            async with AsyncEventStore.open(url, clock=FrozenClock()) as store:
                return await main(store)

        return asyncio.run(opened())

    return run


def gated(store: AsyncEventStore) -> Gate:
    """Put a gate around the store's storage and return it."""
    gate = Gate(store.session.blocking.storage)
    store.session.blocking.committer.storage = gate  # type: ignore[assignment]
    return gate


async def until(condition: Callable[[], object]) -> None:
    """Give way to other tasks until the condition holds."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0)


def expecting(store: AsyncEventStore) -> int:
    """Return the number of threads and tasks that wait for new events."""
    return len(store.session.blocking.watcher)


def threads(name: str) -> set[threading.Thread]:
    """Return the threads whose names begin so, of all stores."""
    return {thread for thread in threading.enumerate() if thread.name.startswith(name)}


async def queued(store: AsyncEventStore, gate: Gate, *jobs: Awaitable[Any]) -> list[Any]:
    """Run the jobs after all of them have queued up; return their results in order."""
    first = asyncio.ensure_future(store.conversation("first").append(message()))
    await until(gate.inside.is_set)
    tasks = [asyncio.ensure_future(job) for job in jobs]
    await until(lambda: len(store.session.writer) == len(jobs))
    gate.go.set()
    await first
    return await asyncio.gather(*tasks, return_exceptions=True)


# appending


def test_tasks_that_wait_share_a_commit(run: Callable[[Main], Any]) -> None:
    """Each task gets its own outcome, and the order is the one in which they asked."""

    async def main(store: AsyncEventStore) -> None:
        chat, gate = store.conversation("chat"), gated(store)
        results = await queued(
            store,
            gate,
            chat.request("pay", {}, "1"),
            chat.start("1"),
            chat.start("1"),
            chat.append(message(), expected_version=9),
            store.conversation("new").add_message("user", "hello"),
            chat.complete("1", "paid"),
        )
        assert gate.groups == [1, 6]
        assert [type(r).__name__ for r in results] == [
            "Tool",
            "Tool",
            "IllegalTransition",
            "VersionConflict",
            "Recorded",
            "Tool",
        ]
        assert [r.event.tag async for r in chat.events()] == ["pending", "running", "completed"]

    run(main)


def test_an_exclusive_append_keeps_its_place_in_the_queue(run: Callable[[Main], Any]) -> None:
    """An append with given ids is stored between appends that share a commit with others."""

    async def main(store: AsyncEventStore) -> None:
        chat, gate = store.conversation("chat"), gated(store)
        given = "0192f0c1-2222-7000-8000-000000000001"
        results = await queued(
            store,
            gate,
            chat.append(message("a")),
            chat.append(message("b"), event_ids=[given]),
            chat.record({"role": "user", "content": "c"}),
            chat.append(message("d")),
            chat.append(message("e")),
            chat.append(message("b"), event_ids=[given]),
        )
        assert [r.event.parts[0].text async for r in chat.events()] == list("abcde")  # type: ignore[union-attr]
        assert gate.groups == [1, 1, 1, 1, 2]  # and none for what was stored already
        assert results[5] == results[1]

    run(main)


def test_threads_come_along(run: Callable[[Main], Any]) -> None:
    """A thread that appends to the store itself, and waits, shares the commit of the tasks."""

    async def main(store: AsyncEventStore) -> None:
        gate, sync = gated(store), store.session.blocking
        committer, before = sync.committer, threads(WRITER)
        names = ("one", "two", "three")
        others = [
            threading.Thread(target=sync.run, args=(messages.append(name, [message()]),))
            for name in names
        ]
        for thread in others:  # the first is the leader, the others wait in the queue
            thread.start()
            await until(lambda: not committer.idle)
        await until(lambda: len(committer) == 2)
        task = asyncio.ensure_future(store.conversation("chat").append(message()))
        await until(lambda: threads(WRITER) - before)
        gate.go.set()
        await task
        for thread in others:
            await asyncio.to_thread(thread.join)
        assert sorted([name async for name, _ in store.conversations()]) == sorted([*names, "chat"])
        assert committer.idle

    run(main)


def test_context_variables_are_the_callers(run: Callable[[Main], Any], url: str) -> None:
    """The clock, the decisions and the reads see the caller's context variables."""
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
                assert await store.session.executor.call(who.get) == name

            await asyncio.gather(*(work(name) for name in "abc"))

    asyncio.run(main())
    assert sorted(seen) == ["a", "b", "c"]
    assert who.get() == "nobody"


def test_event_loops_share_a_store(url: str) -> None:
    """Loops may use the store one after the other or together; the store keeps no loop."""
    store = asyncio.run(opened(url))

    async def work(number: int) -> None:
        chat, own = store.conversation("chat"), store.conversation(f"own-{number}")
        for n in range(10):
            await asyncio.gather(chat.append(message()), own.append(message(), expected_version=n))

    def loop(number: int) -> Callable[[], None]:
        return lambda: asyncio.run(work(number))

    assert run_concurrently(*(loop(number) for number in range(4))) == [None] * 4
    assert store.session.blocking.version("chat") == 40
    assert list(store.session.blocking.storage.verify()) == []
    asyncio.run(store.close())


async def opened(url: str) -> AsyncEventStore:
    """Open a store."""
    return await AsyncEventStore.open(url)


@pytest.mark.parametrize("error", [ValueError("no"), StopIteration("no"), SystemExit(3)])
def test_an_error_of_the_clock_is_raised_in_the_caller(
    url: str, error: BaseException, run: Callable[[Main], Any]
) -> None:
    """Any error of the clock reaches the caller, and the next append succeeds."""
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


def test_an_answer_that_cannot_be_read_is_raised_in_the_caller(run: Callable[[Main], Any]) -> None:
    """The append is stored, and the error of reading its answer reaches the caller."""

    async def main(store: AsyncEventStore) -> None:
        chat = store.conversation("chat")
        given = ["0192f0c1-2222-7000-8000-000000000001"]
        await chat.append(message(), event_ids=given)

        def broken(*_: object) -> Any:
            raise StorageError("no answer")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store.session.blocking.committer, "events", broken)
            with pytest.raises(StorageError, match="no answer"):
                await chat.append(message(), event_ids=given)

    run(main)


def test_every_verb_is_there(run: Callable[[Main], Any]) -> None:
    """Each awaited method gives what the blocking method of the same name gives."""

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
        assert set(await chat.tools()) == {first.id, second.id, third.id, "a"}
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
    """An error, a cancellation and a missing result are each recorded as the attempt's end."""

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
        with pytest.raises(ValueError, match="broke"):  # noqa: PT012
            async with chat.running(calls[4]):
                await chat.complete(calls[4], "paid by another")
                raise ValueError("broke")
        late = [r.event async for r in chat.events()][-1]
        assert (late.tag, getattr(late, "attempt", 0)) == ("ended_late", 1)
        tools = await chat.tools()
        found = [getattr(getattr(tools[c].status, "failure", None), "code", "") for c in calls]
        assert found == [None, "no_result", "cancelled", "", ""]

    run(main)


def test_an_attempt_cancelled_as_it_starts_has_not_run(
    run: Callable[[Main], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log says that the tool did not run; if that cannot be recorded, the error says so."""

    async def main(store: AsyncEventStore) -> None:
        chat = store.conversation("chat")
        calls = [(await chat.request("pay", {"n": n})).id for n in range(2)]
        submit = store.session.submit

        def full(command: Command[Any]) -> Any:
            monkeypatch.setattr(store.session, "submit", broken)
            return submit(command)

        def broken(_: object) -> Any:
            raise StorageError("disk full")

        async def enter(call_id: str) -> None:
            async with chat.running(call_id):
                raise AssertionError("it was cancelled before")

        for call_id in calls:
            if call_id == calls[1]:
                monkeypatch.setattr(store.session, "submit", full)
            task = asyncio.ensure_future(enter(call_id))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError) as caught:
                await task
        monkeypatch.undo()
        assert "disk full" in caught.value.__notes__[0]
        tools = await chat.tools()
        assert [tools[c].status.name for c in calls] == ["Failed", "Running"]
        assert tools[calls[0]].status.failure == NOT_RUN  # type: ignore[union-attr]
        assert (await chat.start(calls[0])).attempts == 2

    run(main)


def test_a_cancelled_task_waits_for_its_append(run: Callable[[Main], Any]) -> None:
    """The append is stored before the task continues, however often the task is cancelled."""

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
    """Both open the store, and refuse it with the same errors as `EventStore`."""

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
    """Every use of it raises an error, and nothing is opened."""
    opening = AsyncEventStore.open(f"{url}.none")
    with pytest.raises(AttributeError, match=r"not open yet: write `store = await .*`async with`"):
        getattr(opening, name)
    assert not hasattr(opening, "close")


def test_an_opening_that_is_cancelled_leaves_nothing_open(url: str) -> None:
    """The cancelled task ends after the store was opened and closed again."""
    stores: list[EventStore] = []
    inside, go = threading.Event(), threading.Event()

    def slow() -> AsyncEventStore:
        inside.set()
        assert go.wait(30)
        stores.append(EventStore.open(url))
        return AsyncEventStore(stores[-1])

    async def opening() -> AsyncEventStore:
        return await Opening(slow)

    async def main() -> None:
        task = asyncio.ensure_future(opening())
        await until(inside.is_set)
        task.cancel()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert stores[0].session.committer.closed


def test_closing_carries_out_what_was_asked_for(url: str) -> None:
    """Queued appends are stored, and later ones are refused."""

    async def main() -> list[Any]:
        store = await AsyncEventStore.open(url)
        chat, gate = store.conversation("chat"), gated(store)
        tasks = [asyncio.ensure_future(chat.append(message()))]
        await until(gate.inside.is_set)
        tasks += [asyncio.ensure_future(chat.append(message(str(n)))) for n in range(4)]
        await until(lambda: len(store.session.writer) == 4)
        closing = asyncio.ensure_future(store.close())
        await asyncio.sleep(0)  # it begins to close
        with pytest.raises(StoreClosed):
            await chat.append(message("late"))
        gate.go.set()
        await closing
        for attempt in (chat.append(message()), chat.version, store.end(), chat.tools()):
            with pytest.raises(StoreClosed):
                await attempt
        with pytest.raises(StoreClosed):
            chat.follow()
        return await asyncio.gather(*tasks)

    results = asyncio.run(main())
    with EventStore.open(url) as store:
        assert [[r] for r in store.read()] == results
        assert len(results) == 5


def test_queued_appends_are_stored_before_the_process_ends(url: str) -> None:
    """This holds although the loop was torn down and the store was never closed."""
    script = f"""
import asyncio, threading
from eventstore import AsyncEventStore
from eventstore.append.commands import messages
from eventstore.testing import message

async def main():
    global store
    store = await AsyncEventStore.open({url!r})
    chat = store.conversation("chat")
    storage = store.session.blocking.storage
    def slow(write):
        def slowly(what):
            main_thread.join(10)
            threading.Event().wait(0.1)  # a disk that takes longer than what is left of the process
            return write(what)
        return slowly
    storage.append = slow(storage.append)
    for n in range(3):  # behind asyncio's back, as a loop that is stopped would leave them
        store.session.submit(messages.append("chat", [message(str(n))]))

main_thread = threading.main_thread()
asyncio.run(main())
"""
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)
    with EventStore.open(url) as store:
        assert store.conversation("chat").version == 3


def test_a_store_that_is_thrown_away_leaves_no_thread(url: str) -> None:
    """The threads of the facade end, and the store under it stays open."""
    with EventStore.open(url) as sync:
        store: AsyncEventStore | None = AsyncEventStore(sync)
        assert store is not None
        before = threads(WRITER)
        asyncio.run(store.conversation("chat").append(message()))  # type: ignore[arg-type]
        (thread,) = threads(WRITER) - before
        del store
        gc.collect()
        thread.join(30)
        assert not thread.is_alive()
        assert sync.conversation("chat").version == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("closed", [False, True])
def test_a_forked_child_has_threads_of_its_own(url: str, closed: bool) -> None:
    """Parent and child both continue to append, and a closed store stays closed."""
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
        assert store.session.blocking.version("chat") == 3
        asyncio.run(store.close())


def test_a_fork_resets_the_threads_and_locks(run: Callable[[Main], Any]) -> None:
    """The child has none of its parent's threads, and its locks are free."""

    async def main(store: AsyncEventStore) -> None:
        chat = store.conversation("chat")
        before = threads(WRITER), threads(READER)
        await chat.append(message())
        assert await chat.version == 1
        parents = threads(WRITER) - before[0], threads(READER) - before[1]
        store.session.writer.reset_after_fork()
        store.session.executor.reset_after_fork()
        await chat.append(message())
        assert await chat.version == 2
        assert threads(WRITER) - before[0] - parents[0]
        assert threads(READER) - before[1] - parents[1]

    run(main)


# reading


def test_a_feed_goes_on_after_its_cursor(run: Callable[[Main], Any]) -> None:
    """The cursor follows what was returned, not what was read, also in a later page."""
    count = 2 * PAGE_EVENTS + PAGE_EVENTS // 2

    async def main(store: AsyncEventStore) -> None:
        await store.conversation("chat").append(*(message(str(n)) for n in range(count)))
        feed = store.read()
        assert isinstance(feed, AsyncFeed)
        start = feed.cursor
        seen = [await anext(feed) for _ in range(3)]
        seen += [r async for r in store.read(str(feed.cursor), limit=PAGE_EVENTS + 5)]
        assert [r.version for r in seen] == list(range(1, PAGE_EVENTS + 9))
        assert [r.version async for r in store.read(start)] == list(range(1, count + 1))
        for _ in range(PAGE_EVENTS):
            last = await anext(feed)
        assert [r.version async for r in store.read(feed.cursor, limit=1)] == [last.version + 1]
        assert [r async for r in store.read(await store.end())] == []

    run(main)


def test_events_before_the_damage_are_read(run: Callable[[Main], Any]) -> None:
    """The events before the damaged row are returned; then the error is raised, once."""

    def damaged() -> Any:
        yield from "ab"
        raise StoreCorrupt("here")

    async def main(store: AsyncEventStore) -> None:
        found = Reading(store.session.executor, damaged())
        assert [await anext(found), await anext(found)] == ["a", "b"]
        with pytest.raises(StoreCorrupt, match="here"):
            await anext(found)
        assert [one async for one in found] == []

    run(main)


# following


def test_tasks_follow(run: Callable[[Main], Any]) -> None:
    """A follower of a store or a conversation is woken by appends and ends with the store."""

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


def test_tasks_that_share_a_follower_get_each_event_once(run: Callable[[Main], Any]) -> None:
    """Tasks of a worker pool may take turns with one follower."""

    async def main(store: AsyncEventStore) -> None:
        await store.conversation("chat").append(*(message(str(n)) for n in range(1200)))
        shared, seen = store.follow(timeout=0), []

        async def work() -> None:
            seen.extend([recorded.position async for recorded in shared])

        await asyncio.gather(*(work() for _ in range(4)))
        assert sorted(seen) == list(range(1, 1201))

    run(main)


def test_a_wait_that_is_given_up_loses_nothing(run: Callable[[Main], Any]) -> None:
    """No event is lost when `wait_for` around the next event times out again and again."""

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
    """A follower ends when it is stopped or when nothing comes; until then it polls."""

    async def main(store: AsyncEventStore) -> None:
        chat = store.conversation("chat")
        await chat.append(message())
        stop = asyncio.Event()
        follow = store.follow(stop=stop, poll=0.002)
        assert (await anext(follow)).version == 1
        with EventStore.open(url) as other:
            other.session.committer.notifier = LocalNotifier()  # as of another process
            other.conversation("chat").append(message())
        assert (await anext(follow)).version == 2
        stop.set()
        assert [r async for r in follow] == []
        assert [r.version async for r in store.follow(timeout=0)] == [1, 2]
        assert [r.version async for r in chat.follow(timeout=0.01, poll=0.002)] == [1, 2]
        assert [r async for r in store.follow(str(await store.end()), timeout=0)] == []

    run(main)


def test_a_decision_is_awaited(run: Callable[[Main], Any], url: str) -> None:
    """A decision of this or another process is returned; without one the wait times out."""

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
            other.session.committer.notifier = LocalNotifier()
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
        assert store.session.blocking.committer.notifier.listeners == ()

    run(main)


class MissedDecision(PendingDecision):
    """A decision that is made right after the first check for it."""

    def is_met(self) -> bool:
        """Check, and let the call be approved then."""
        found = super().is_met()
        if not found:
            Conversation(self.session, "chat").approve("pay")
        return found


def test_a_notification_between_check_and_wait_is_not_lost(run: Callable[[Main], Any]) -> None:
    """A task that begins to wait after the notification does not wait."""

    async def main(store: AsyncEventStore) -> None:
        await store.conversation("chat").request("pay", call_id="pay")
        decision = MissedDecision(store.session.blocking, "chat", "pay", None, NEVER)
        assert await wait(decision, store.session)
        assert decision.result().status.name == "Approved"

    run(main)


def test_a_closed_loop_does_not_disturb_other_waiters(url: str) -> None:
    """The waiter of a closed loop is removed."""
    store = asyncio.run(opened(url))
    chat = store.conversation("chat")
    left: list[Any] = []

    async def leave() -> None:
        call = await chat.request("pay")
        left.append(chat.decision(call.id, poll=NEVER))
        left[0].send(None)  # it looks, and is not resumed
        await until(lambda: store.session.blocking.committer.notifier.listeners)
        left.append(call.id)

    asyncio.run(leave())
    chat.blocking.approve(left[1])
    assert not store.session.blocking.committer.notifier.listeners
    left[0].close()
    assert not store.session.blocking.committer.notifier.listeners
    asyncio.run(store.close())


def test_answers_for_a_closed_loop_are_dropped(url: str) -> None:
    """The append is stored, and the next append finds the thread at work."""
    store = asyncio.run(opened(url))
    chat, gate = store.conversation("chat"), gated(store)

    async def leave() -> None:
        store.session.submit(messages.append(chat.id, [message("left")]))
        await until(gate.inside.is_set)

    asyncio.run(leave())
    gate.go.set()
    (recorded,) = asyncio.run(_append(chat))
    assert recorded.version == 2
    asyncio.run(store.close())


async def _append(chat: Any) -> Any:
    return await chat.append(pending("1"))


def test_errors_are_the_same(run: Callable[[Main], Any]) -> None:
    """The awaited methods raise the same errors, with the same attributes."""

    async def main(store: AsyncEventStore) -> None:
        chat = store.conversation("chat")
        with pytest.raises(VersionConflict) as conflict:
            await chat.append(message(), expected_version=4)
        assert (conflict.value.expected, conflict.value.actual) == (4, 0)
        with pytest.raises(UnknownCall):
            await chat.start("nobody")
        with pytest.raises(ValueError, match="not blank"):
            await chat.request("")
        with pytest.raises(ValueError, match="not empty"):
            store.conversation("")
        await chat.append(pending("1"))
        await chat.start("1")
        with pytest.raises(IllegalTransition):
            await chat.start("1")

    run(main)
