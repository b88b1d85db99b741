"""Many callers at once: group commit, against the bare driver's single commits.

Library: 1, 16, 64 and 256 threads share one store; each starts and completes calls in a
conversation of its own, one durable append after the other. Then as many asyncio tasks do so.

Driver: the same number of events, each in a transaction of its own, from one thread, with rows that
the library wrote in a run before (see `append.py`).

Beside it stands a group commit that does nothing else: as many threads hand over rows that were
built beforehand. It is the most that the library could reach.

All are on a disk on which each sync takes 5 ms longer (`slow_disk.py`), by elapsed seconds; each
figure is the median over the rounds. One of two limits must hold: a share of the bare group
commit's rate, or a multiple of the rate of single commits. CPU time is a multiple of the bare
group's.

alone: one caller without group commit, which only takes the lock, against one with it, in memory
and in CPU time; both use the library's own appends.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import bare
import slow_disk
from append import RESULT, begin, commits, lifecycles
from measure import Elapsed, Figure, arguments, clock, elapsed, folder, in_turn, median, report

from eventstore import AsyncEventStore, Conversation, EventStore, FunctionCall, ToolPending
from eventstore.append.command import Command, PendingAppend
from eventstore.append.group_commit import GroupCommitter
from eventstore.clock import system_clock

Work = list[tuple[Any, list[str]]]

LIMITS = {16: 8, 64: 25, 256: 40}
"""Callers to the multiple of the rate of single commits."""

OF_BARE_GROUP = 0.8
"""The share of the bare group commit's rate that is enough, too."""

MOST_CPU = 1.5
"""The multiple of the bare group's CPU time."""

SINGLES = 64
"""The driver's single commits of a round; each waits for the disk."""


def prepared(store: EventStore, callers: int, calls: int, number: int) -> Work:
    """Return a conversation for each caller, and its calls, which wait to be started."""
    work = []
    for caller in range(callers):
        chat = begin(store, number * callers + caller)
        chat.append(*(request(f"call_{n}") for n in range(calls)))
        work.append((chat, [f"call_{n}" for n in range(calls)]))
    return work


def request(call_id: str) -> ToolPending:
    """Return the request of a call."""
    return ToolPending(FunctionCall("search_orders", {"customer": call_id}, call_id), call_id)


def run_calls(chat: Conversation, call_ids: list[str]) -> None:
    """Do one caller's work."""
    for call_id in call_ids:
        chat.start(call_id)
        chat.complete(call_id, RESULT)


def all_at_once(pool: ThreadPoolExecutor, work: Work) -> None:
    """Do every caller's work, each on a thread of its own."""
    for done in [pool.submit(run_calls, chat, call_ids) for chat, call_ids in work]:
        done.result()


async def all_in_tasks(store: AsyncEventStore, work: Work) -> None:
    """Do every caller's work, each in a task of its own."""

    async def run_own_calls(name: str, call_ids: list[str]) -> None:
        chat = store.conversation(name)
        for call_id in call_ids:
            await chat.start(call_id)
            await chat.complete(call_id, RESULT)

    await asyncio.gather(*(run_own_calls(chat.id, call_ids) for chat, call_ids in work))


def in_threads(pool: ThreadPoolExecutor, _: AsyncEventStore, work: Work) -> Callable[[], None]:
    """Return the work of a round, in threads."""
    return lambda: all_at_once(pool, work)


def in_tasks(_: ThreadPoolExecutor, store: AsyncEventStore, work: Work) -> Callable[[], None]:
    """Return the work of a round, in an event loop."""
    return lambda: asyncio.run(all_in_tasks(store, work))


Times = list[list[Elapsed]]
"""Those of the library, of single commits and of a bare group commit, in each round."""


def measure(
    callers: int, events: int, rounds: int, run: Callable[..., Callable[[], None]]
) -> Times:
    """Return the times of the library, the driver and a bare group commit in each round."""
    calls = max(1, events // callers // 2)
    with folder() as name, ThreadPoolExecutor(callers) as pool:
        model = Path(name) / "model.db"
        with EventStore.open(f"sqlite:///{model}", durability="normal") as store:
            for number in range(rounds):
                for chat, call_ids in prepared(store, 1, callers * calls, number):
                    run_calls(chat, call_ids)
        rows = bare.rows(model)
        driver, grouped = (bare.empty(Path(name) / f"{side}.db") for side in ("driver", "group"))
        times = []
        each = len(rows) // rounds
        with EventStore.open(f"sqlite:///{Path(name) / 'library.db'}") as store:
            shared = AsyncEventStore(store)
            for number in range(rounds):
                mine = rows[number * each : (number + 1) * each]
                work = prepared(store, callers, calls, number)
                before, rest = mine[: -2 * callers * calls], mine[-2 * callers * calls :]
                bare.commit(driver, before)
                group = bare.Group(partial(bare.commit, grouped))
                singles = rest[:SINGLES]
                sides = (
                    (run(pool, shared, work), len(rest)),
                    (partial(commits, driver, singles), len(singles)),
                    (partial(group.commit_all, pool, callers, rest), len(rest)),
                )
                turns = [(number + turn) % len(sides) for turn in range(len(sides))]
                took = {side: elapsed(*sides[side]) for side in turns}
                bare.commit(driver, rest[SINGLES:])
                times.append([took[side] for side in sorted(took)])
            asyncio.run(shared.close())
        driver.close()
        grouped.close()
    return times


T = TypeVar("T")


class Ungrouped(GroupCommitter):
    """Appends without group commit: each thread waits for the lock, and commits by itself."""

    def run(self, command: Command[T]) -> T:
        """Append one command in a commit of its own."""
        pending = PendingAppend(self.clock, self.events, command)
        with self._lock:
            self._commit_one(pending, self.opened())
        return command.result(pending)


def one_caller(rounds: int) -> float:
    """Return how many times as long a single caller's append takes without group commit."""
    times = []
    with folder(memory=True) as name, contextlib.ExitStack() as stack:
        grouped, ungrouped = (
            stack.enter_context(EventStore.open(f"sqlite:///{Path(name) / side}.db"))
            for side in ("grouped", "ungrouped")
        )
        ungrouped.session.run = Ungrouped(ungrouped.session.storage, system_clock).run
        for number in range(rounds):
            chats = [begin(store, number) for store in (grouped, ungrouped)]
            works = [partial(lifecycles, chat, 25) for chat in chats]
            times.append(in_turn(clock(memory=True), *works, first=number))
    return median(b / a for a, b in times)


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__, events=2048, rounds=9, sync=slow_disk.SYNC_US)
    if not slow_disk.is_active():
        with folder() as scratch:
            code = slow_disk.again(Path(scratch), options.sync)
        if code is not None:
            sys.exit(code)
    events = options.events or (512 if options.quick else 2048)
    rounds = options.rounds or (3 if options.quick else 9)
    figures = [Figure("alone: ungrouped / grouped", one_caller(20 * rounds), "", 0.96, floor=True)]
    for name, run in (("threads", in_threads), ("tasks", in_tasks)):
        for callers in LIMITS:
            figures += compared(f"{callers} {name}", callers, measure(callers, events, rounds, run))
    report(__file__, options, figures)


def compared(name: str, callers: int, times: Times) -> list[Figure]:
    """Return the figures of many callers: the library, single commits and a bare group commit."""
    share = median(group.seconds / ours.seconds for ours, _, group in times)
    multiple = median(driver.seconds / ours.seconds for ours, driver, _ in times)
    near, fast = share >= OF_BARE_GROUP, multiple >= LIMITS[callers]
    return [
        Figure(f"{name}: of a bare group", share, "", OF_BARE_GROUP, floor=True, excused=fast),
        Figure(
            f"{name}: of single commits",
            multiple,
            "times",
            LIMITS[callers],
            floor=True,
            excused=near,
        ),
        Figure(
            f"{name}: bare group, of single commits",
            median(driver.seconds / group.seconds for _, driver, group in times),
            "times",
        ),
        Figure(
            f"{name}: CPU / bare group's",
            median(ours.cpu_seconds / group.cpu_seconds for ours, _, group in times),
            "times",
            MOST_CPU,
        ),
        Figure(
            f"{name}: CPU",
            median(ours.cpu_seconds for ours, _, _ in times) * 1e6,
            "µs/event",
        ),
    ]


if __name__ == "__main__":
    main()
