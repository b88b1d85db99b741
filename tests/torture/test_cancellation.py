"""Tasks are cancelled at random moments: each append is stored once, whole and in order."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import workers

from eventstore import AsyncEventStore, EventStore, IllegalTransition
from eventstore.testing import message, run_concurrently

if TYPE_CHECKING:
    from support.servers import Server

TASKS = 12


class AppendReport:
    """The appends that tasks asked for, and those that were acknowledged."""

    def __init__(self) -> None:
        self.asked: dict[str, list[str]] = defaultdict(list)
        self.sure: set[str] = set()

    async def work(self, store: AsyncEventStore, worker: str, chance: random.Random) -> None:
        """Append until cancelled, with every method that appends."""
        own, one = store.conversation(f"own-{worker}"), store.conversation("one")
        number = 0
        while True:
            number += 1
            text = f"{worker}.{number}"
            chat = chance.choice([own, one])
            with suppress(TimeoutError):
                async with asyncio.timeout(chance.choice([None, 0, 0.0005, 0.005])):
                    await self.append(chat, worker, text, chance)

    async def append(self, chat: Any, worker: str, text: str, chance: random.Random) -> None:
        """Append two events or one."""
        self.asked[chat.id, worker].append(text)  # type: ignore[index]
        way = chance.randrange(4)
        if way == 0:  # one that goes alone
            await chat.record({"role": "user", "content": text})
        elif way == 1:
            await chat.add_message("user", text)
        else:
            await chat.append(message(text), message(f"{text}b"))
        self.sure.add(text)

    def check(self, store: EventStore) -> None:
        """Assert every guarantee on the stored events."""
        stored: dict[tuple[str, str], list[str]] = defaultdict(list)
        versions: dict[str, int] = defaultdict(int)
        before = ""
        for recorded in store.read():
            versions[recorded.conversation_id] += 1
            assert recorded.version == versions[recorded.conversation_id]
            text = recorded.event.parts[0].text  # type: ignore[union-attr]
            if text.endswith("b"):
                assert text == f"{before}b"  # whole
            else:
                stored[recorded.conversation_id, text.partition(".")[0]].append(text)
            before = text
        for key, texts in stored.items():
            asked = self.asked[key]  # type: ignore[index]
            there = set(texts)
            assert len(there) == len(texts)
            assert texts == [text for text in asked if text in there]  # in their order
        assert self.sure <= {text for texts in stored.values() for text in texts}
        assert list(store.verify()) == []


async def cancelled_at_random(
    store: AsyncEventStore, report: AppendReport, loop: int, seed: int
) -> None:
    """Cancel and replace tasks, one after the other."""
    chance = random.Random(seed)

    def begin(number: int) -> asyncio.Task[None]:
        own = random.Random(f"{seed}-{number}")
        return asyncio.create_task(report.work(store, f"{loop}-{number}", own))

    tasks = [begin(number) for number in range(TASKS)]
    for number in range(TASKS, TASKS + 60 * workers.LONG):
        for _ in range(chance.randrange(12)):
            await asyncio.sleep(0)
        await store.conversation("pace").append(message(f"pace-{loop}.{number}"))
        place = chance.randrange(TASKS)
        tasks[place].cancel()
        if chance.random() < 0.5:
            with suppress(asyncio.CancelledError):
                await tasks[place]
        tasks[place] = begin(number)
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(outcome, asyncio.CancelledError)


@pytest.mark.parametrize("place", ["memory", "file"])
def test_tasks_cancelled_at_random_lose_and_double_nothing(tmp_path: Path, place: str) -> None:
    """Several event loops and threads append at the same time."""
    check_cancelled("sqlite://" if place == "memory" else f"sqlite:///{tmp_path / 'agent.db'}")


def test_tasks_cancelled_at_random_on_a_server(server: Server) -> None:
    """The same holds where an append takes longer and uses a network."""
    check_cancelled(server.database(migrated=True))


def check_cancelled(url: str) -> None:
    """Cancel tasks of two event loops beside a thread, on one store."""
    report = AppendReport()
    with EventStore.open(url) as store:
        shared = AsyncEventStore(store)
        loops = [
            lambda n=n: asyncio.run(cancelled_at_random(shared, report, n, 7 + n)) for n in range(2)
        ]
        enough = threading.Event()

        def write() -> None:
            number = 0
            while not enough.is_set():
                number += 1
                store.conversation("one").append(message(f"thread.{number}"))
                report.asked["one", "thread"].append(f"thread.{number}")  # type: ignore[index]

        def all_loops() -> None:
            try:
                assert run_concurrently(*loops) == [None, None]
            finally:
                enough.set()

        assert run_concurrently(all_loops, write) == [None, None]
        for loop in range(2):
            report.asked["pace", f"pace-{loop}"] = [  # type: ignore[index]
                f"pace-{loop}.{n}" for n in range(TASKS, TASKS + 60 * workers.LONG)
            ]
        report.check(store)
        asyncio.run(shared.close())


@pytest.fixture(scope="module")
def store() -> Any:
    """Return a store for many examples."""
    with EventStore.open("sqlite://") as store:
        yield store


@settings(max_examples=60)
@given(turns=st.lists(st.integers(0, 4), min_size=1, max_size=6))
def test_an_append_is_stored_when_it_was_asked_for(store: EventStore, turns: list[int]) -> None:
    """If the task is cancelled before it begins, nothing is stored; later the append is stored."""

    async def main() -> None:
        shared = AsyncEventStore(store)
        chat = shared.conversation("chat")
        before = await chat.version
        began = 0
        for number, turn in enumerate(turns):
            task = asyncio.ensure_future(chat.append(message(str(number))))
            for _ in range(turn):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            began += bool(turn)
            assert await chat.version == before + began

    asyncio.run(main())


def test_an_attempt_cancelled_at_any_moment_has_a_true_record(store: EventStore) -> None:
    """The moment decides: the attempt has not run, has an unknown outcome or is completed."""
    seen = set()

    async def attempt(chat: Any, call_id: str, done: list[str]) -> None:
        async with chat.running(call_id) as run:
            done.append("entered")
            await asyncio.sleep(0)
            done.append("ran")
            await run.complete("paid")

    async def main() -> None:
        chat = AsyncEventStore(store).conversation("attempts")
        for turns in list(range(8)) * 3 + [None]:
            call = await chat.request("pay", {})
            done: list[str] = []
            task = asyncio.ensure_future(attempt(chat, call.id, done))
            if turns is None:
                turns = 0  # noqa: PLW2901
                while not done:  # noqa: ASYNC110 - it is what is tried
                    await asyncio.sleep(0)
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            tool = (await chat.tools)[call.id]
            code = getattr(getattr(tool.status, "failure", None), "code", None)
            seen.add((tool.status.name, code))
            if "ran" in done:
                assert tool.status.name == "Completed"
            elif "entered" in done:
                assert code == "cancelled"
            else:
                assert (tool.status.name, code) in {("Pending", None), ("Failed", "not_run")}

    asyncio.run(main())
    assert {("Pending", None), ("Failed", "not_run"), ("Failed", "cancelled")} <= seen


def test_a_cancelled_start_fails_no_attempt_of_another_worker(store: EventStore) -> None:
    """A start that was refused records no end."""

    async def main() -> None:
        chat = AsyncEventStore(store).conversation("raced")
        call = await chat.request("pay", {})
        await chat.start(call.id)

        async def enter() -> None:
            async with chat.running(call.id):
                raise AssertionError("another runs it")

        task = asyncio.ensure_future(enter())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await chat.tools)[call.id].status.name == "Running"
        with pytest.raises(IllegalTransition):
            await chat.start(call.id)

    asyncio.run(main())
