"""Tasks are cancelled at random moments: each append is stored once, whole and in order."""

from __future__ import annotations

import asyncio
import random
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import workers
from support.tiers import repeated

from eventstore import AsyncConversation, AsyncEventStore, EventStore, IllegalTransition
from eventstore.testing import Acknowledgement, acknowledged, message, run_concurrently, unknown
from eventstore.testing.appending import text_of

if TYPE_CHECKING:
    from support.servers import Server

TASKS = 12


class AppendReport:
    """The appends that writers asked for, and what they were told of them."""

    def __init__(self) -> None:
        self.notes: list[Acknowledgement] = []
        self._recorded: set[str] = set()

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
                    await self.append(chat, worker, text, chance.randrange(4))

    async def append(self, chat: AsyncConversation, worker: str, text: str, way: int) -> None:
        """Append one event or two, and note it before and after."""
        texts = (text, f"{text}b") if way > 1 else (text,)
        self.notes.append(unknown(worker, texts))
        if way == 0:  # one that goes alone, and returns no places
            await chat.record({"role": "user", "content": text})
            self._recorded.add(text)
            return
        if way == 1:
            recorded = [await chat.add_message("user", text)]
        else:
            recorded = await chat.append(*map(message, texts))
        self.notes.append(acknowledged(worker, workers.by_text(recorded)))

    def check(self, store: EventStore) -> None:
        """Assert every guarantee on the stored events."""
        workers.check_messages(store, self.notes)
        # Those of cancelled tasks are in their order, too, in each conversation.
        asked: dict[str, tuple[str, int]] = {}
        for number, note in enumerate(self.notes):
            asked.setdefault(note.event_ids[0], (note.writer, number))
        assert self._recorded <= {text_of(recorded) for recorded in store.read()}
        last: dict[tuple[str, str], int] = {}
        for recorded in store.read():
            writer, number = asked.get(text_of(recorded), ("", 0))
            if writer:
                assert last.get((recorded.conversation_id, writer), -1) < number
                last[recorded.conversation_id, writer] = number


async def cancelled_at_random(
    store: AsyncEventStore, report: AppendReport, loop: int, seed: int
) -> None:
    """Cancel and replace tasks, one after the other."""
    chance = random.Random(seed)

    def begin(number: int) -> asyncio.Task[None]:
        own = random.Random(f"{seed}-{number}")
        return asyncio.create_task(report.work(store, f"{loop}-{number}", own))

    tasks = [begin(number) for number in range(TASKS)]
    for number in range(TASKS, TASKS + repeated(60)):
        for _ in range(chance.randrange(12)):
            await asyncio.sleep(0)
        await report.append(store.conversation("pace"), f"pace-{loop}", f"pace-{loop}.{number}", 2)
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
                workers.noted(report.notes, "thread", store.conversation("one"), f"thread.{number}")

        def all_loops() -> None:
            try:
                assert run_concurrently(*loops) == [None, None]
            finally:
                enough.set()

        assert run_concurrently(all_loops, write) == [None, None]
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
            tool = (await chat.tools())[call.id]
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
        assert (await chat.tools())[call.id].status.name == "Running"
        with pytest.raises(IllegalTransition):
            await chat.start(call.id)

    asyncio.run(main())
