"""Many callers at once: group commit, against the bare driver's single commits.

Library: 1, 16, 64 and 256 threads share one store; each starts and completes calls in a
conversation of its own, one durable append after the other. Then so many tasks of asyncio do.

Driver: the same number of events, each in a transaction of its own, from one thread, with rows that
the library wrote in a run before (see `append.py`).

The figure is how many times the driver's rate the library reaches: seconds that pass, on disk,
the median over the rounds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import bare
from append import RESULT, begin, commits
from measure import Figure, arguments, clock, folder, in_turn, median, report

from eventstore import AsyncEventStore, Conversation, EventStore, FunctionCall, ToolPending

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


def measure(
    callers: int, events: int, rounds: int, run: Callable[..., Callable[[], None]]
) -> list[tuple[float, float]]:
    """The seconds that each round took the library and the driver."""
    calls = max(1, events // callers // 2)
    with folder() as name, ThreadPoolExecutor(callers) as pool:
        model = Path(name) / "model.db"
        with EventStore.open(f"sqlite:///{model}", durability="normal") as store:
            for number in range(rounds):
                for chat, call_ids in begun(store, 1, callers * calls, number):
                    live(chat, call_ids)
        rows = bare.rows(model)
        connection = bare.empty(Path(name) / "driver.db")
        times = []
        each = len(rows) // rounds
        with EventStore.open(f"sqlite:///{Path(name) / 'library.db'}") as store:
            shared = AsyncEventStore(store)
            for number in range(rounds):
                mine = rows[number * each : (number + 1) * each]
                work = begun(store, callers, calls, number)
                before = each - 2 * callers * calls
                for row in mine[:before]:
                    commits(connection, [row])
                times.append(
                    in_turn(
                        clock(memory=False),
                        run(pool, shared, work),
                        lambda rest=mine[before:]: commits(connection, rest),  # type: ignore[misc]
                        swap=bool(number % 2),
                    )
                )
            asyncio.run(shared.close())
        connection.close()
    return times


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__, events=2048, rounds=9)
    events = options.events or (512 if options.quick else 2048)
    rounds = options.rounds or (3 if options.quick else 9)
    figures = []
    for name, run in (("threads", in_threads), ("tasks", in_tasks)):
        for callers, least in LIMITS.items():
            times = measure(callers, events, rounds, run)
            figures.append(
                Figure(f"{callers} {name}: library / driver", median(b / a for a, b in times),
                       "times", least, floor=True)
            )  # fmt: skip
    report(__file__, options, figures)


if __name__ == "__main__":
    main()
