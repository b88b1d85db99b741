"""Many callers at once: group commit, against the bare driver's single commits.

Library: 1, 16, 64 and 256 threads share one store; each starts and completes calls in a
conversation of its own, one durable append after the other. Then so many tasks of asyncio do.

Driver: the same number of events, each in a transaction of its own, from one thread, with rows that
the library wrote in a run before (see `append.py`).

The figure is how many times the driver's rate the library reaches: seconds that pass, on disk,
the median over the rounds. Beside it stands what a group commit reaches that does nothing else: as
many threads that hand over rows built beforehand, and CPU time an event of both. Where a disk is
fast, that is what there is to be had.

alone: one caller without group commit, who only waits for the lock, against one with it, in memory
and in CPU time; both the library's own appends.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import bare
from append import RESULT, begin, commits, lifecycles
from measure import Figure, arguments, clock, folder, in_turn, median, report

from eventstore import AsyncEventStore, Conversation, EventStore, FunctionCall, ToolPending
from eventstore.appending import Appender
from eventstore.store import system_clock
from eventstore.task import Decide, Task

Work = list[tuple[Any, list[str]]]

LIMITS = {1: None, 16: 5, 64: 10, 256: 15}


def begun(store: EventStore, callers: int, calls: int, number: int) -> Work:
    """A conversation for each caller, and its calls, waiting to be started."""
    work = []
    for caller in range(callers):
        chat = begin(store, number * callers + caller)
        chat.append(*(request(f"call_{n}") for n in range(calls)))
        work.append((chat, [f"call_{n}" for n in range(calls)]))
    return work


def request(call_id: str) -> ToolPending:
    """A call, asked for."""
    return ToolPending(FunctionCall("search_orders", {"customer": call_id}, call_id), call_id)


def live(chat: Conversation, call_ids: list[str]) -> None:
    """One caller's work."""
    for call_id in call_ids:
        chat.start(call_id)
        chat.complete(call_id, RESULT)


def all_at_once(pool: ThreadPoolExecutor, work: Work) -> None:
    """Every caller's work, each on a thread of its own."""
    for done in [pool.submit(live, chat, call_ids) for chat, call_ids in work]:
        done.result()


async def all_in_tasks(store: AsyncEventStore, work: Work) -> None:
    """Every caller's work, each in a task of its own."""

    async def live(name: str, call_ids: list[str]) -> None:
        chat = store.conversation(name)
        for call_id in call_ids:
            await chat.start(call_id)
            await chat.complete(call_id, RESULT)

    await asyncio.gather(*(live(chat.id, call_ids) for chat, call_ids in work))


def in_threads(pool: ThreadPoolExecutor, _: AsyncEventStore, work: Work) -> Callable[[], None]:
    """The work of a round, in threads."""
    return lambda: all_at_once(pool, work)


def in_tasks(_: ThreadPoolExecutor, store: AsyncEventStore, work: Work) -> Callable[[], None]:
    """The work of a round, in an event loop."""
    return lambda: asyncio.run(all_in_tasks(store, work))


class Spent(NamedTuple):
    """What a piece of work took, in seconds."""

    wall: float
    cpu: float


def spent(work: Callable[[], object]) -> Spent:
    """Do it."""
    began = time.perf_counter(), time.process_time()
    work()
    return Spent(time.perf_counter() - began[0], time.process_time() - began[1])


def measure(
    callers: int, events: int, rounds: int, run: Callable[..., Callable[[], None]]
) -> list[list[Spent]]:
    """What each round took the library, the driver and a bare group commit."""
    calls = max(1, events // callers // 2)
    with folder() as name, ThreadPoolExecutor(callers) as pool:
        model = Path(name) / "model.db"
        with EventStore.open(f"sqlite:///{model}", durability="normal") as store:
            for number in range(rounds):
                for chat, call_ids in begun(store, 1, callers * calls, number):
                    live(chat, call_ids)
        rows = bare.rows(model)
        driver, grouped = (bare.empty(Path(name) / f"{side}.db") for side in ("driver", "group"))
        times = []
        each = len(rows) // rounds
        with EventStore.open(f"sqlite:///{Path(name) / 'library.db'}") as store:
            shared = AsyncEventStore(store)
            for number in range(rounds):
                mine = rows[number * each : (number + 1) * each]
                work = begun(store, callers, calls, number)
                before, rest = mine[: -2 * callers * calls], mine[-2 * callers * calls :]
                commits(driver, before)
                group = bare.Group(partial(bare.commit, grouped))
                sides = (
                    run(pool, shared, work),
                    partial(commits, driver, rest),
                    partial(group.commit_all, pool, callers, rest),
                )
                turns = [(number + turn) % len(sides) for turn in range(len(sides))]
                took = {side: spent(sides[side]) for side in turns}
                times.append([took[side] for side in sorted(took)])
            asyncio.run(shared.close())
        driver.close()
        grouped.close()
    return times


class Ungrouped(Appender):
    """Appends without group commit: who comes waits for the lock, and commits by himself."""

    def append(
        self,
        conversation_id: str,
        decide: Decide,
        expected_version: int | None = None,
        ids: Sequence[bytes] = (),
        *,
        alone: bool = False,
    ) -> Task:
        """Append it, and nothing with it."""
        task = Task(self, conversation_id, decide, expected_version, ids, alone)
        with self._lock:
            self._carry_out(task, self.opened())
        return task


def one_caller(rounds: int) -> float:
    """How many times as long an append takes without group commit, for who is alone."""
    times = []
    with folder(memory=True) as name, contextlib.ExitStack() as stack:
        grouped, ungrouped = (
            stack.enter_context(EventStore.open(f"sqlite:///{Path(name) / side}.db"))
            for side in ("grouped", "ungrouped")
        )
        storage = ungrouped._storage  # noqa: SLF001 - there is no such store but here
        ungrouped._use(Ungrouped(storage, system_clock), storage)  # noqa: SLF001
        for number in range(rounds):
            chats = [begin(store, number) for store in (grouped, ungrouped)]
            works = [partial(lifecycles, chat, 25) for chat in chats]
            times.append(in_turn(clock(memory=True), *works, first=number))
    return median(b / a for a, b in times)


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__, events=2048, rounds=9)
    events = options.events or (512 if options.quick else 2048)
    rounds = options.rounds or (3 if options.quick else 9)
    figures = [Figure("alone: ungrouped / grouped", one_caller(20 * rounds), "", 0.96, floor=True)]
    for name, run in (("threads", in_threads), ("tasks", in_tasks)):
        for callers, least in LIMITS.items():
            times = measure(callers, events, rounds, run)
            each = 1e6 / (max(1, events // callers // 2) * callers * 2)
            figures += [
                Figure(f"{callers} {name}: library / driver",
                       median(driver.wall / ours.wall for ours, driver, _ in times), "times",
                       least, floor=True),
                Figure(f"{callers} {name}: library, CPU",
                       median(ours.cpu for ours, _, _ in times) * each, "µs/event"),
            ]  # fmt: skip
            if name == "threads":
                figures += [
                    Figure(f"{callers} {name}: bare group / driver",
                           median(driver.wall / group.wall for _, driver, group in times), "times"),
                    Figure(f"{callers} {name}: bare group, CPU",
                           median(group.cpu for _, _, group in times) * each, "µs/event"),
                ]  # fmt: skip
    report(__file__, options, figures)


if __name__ == "__main__":
    main()
