"""A turn of calls through the dispatcher, against calling and recording by hand.

Dispatcher: `Dispatcher.dispatch` of calls that were recorded beforehand, by a dispatcher that was
made beforehand: checks, one durable append before each call and one after, the `Tool`s it returns.

By hand: what a loop without a dispatcher has to write to record exceptions, too:
`with chat.running(id) as attempt: attempt.complete(function(**attempt.arguments))`, for the same
functions and the same calls; in asyncio all of it is awaited, on an `AsyncConversation`.

Typed: the arguments are checked against the types of the function, too, as they are by default;
by hand they are not.

Both work in turn, round for round, each round in a conversation of its own. A ratio is the
dispatcher's time divided by the other's, the median over the rounds. On disk the clock is the
wall's; in memory it is CPU time.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

from measure import Figure, arguments, clock, folder, in_turn, median, report

from eventstore import (
    AsyncConversation,
    AsyncDispatcher,
    AsyncEventStore,
    Conversation,
    Dispatcher,
    EventStore,
    FunctionTool,
    Tool,
)

RESULT = {
    "orders": [
        {"id": "A-10293", "status": "shipped", "total": 129.9, "items": 3},
        {"id": "A-10411", "status": "open", "total": 18.5, "items": 1},
    ],
    "next": None,
}


def search_orders(customer: str, status: list[str], limit: int = 20, page: int = 1) -> Any:
    """Answer at once: a tool that takes no time."""
    del customer, status, limit, page
    return RESULT


async def search_orders_async(
    customer: str, status: list[str], limit: int = 20, page: int = 1
) -> Any:
    """Answer at once, as an async tool."""
    return search_orders(customer, status, limit, page)


FUNCTIONS = [search_orders, search_orders_async]


def begin(store: EventStore, name: str, tool: str, calls: int) -> tuple[Conversation, list[Tool]]:
    """Return a conversation in which the model has asked for some calls."""
    chat = store.conversation(name)
    chat.add_message("user", "Where are my orders?")
    given = {"customer": "c-00017", "status": ["open", "shipped"], "limit": 20, "page": 1}
    return chat, [chat.request(tool, {**given, "page": n}) for n in range(calls)]


def by_hand(chat: Conversation, tools: list[Tool]) -> None:
    """Run the calls as a loop without a dispatcher does."""
    for tool in tools:
        with chat.running(tool.id) as attempt:
            attempt.complete(search_orders(**attempt.arguments))


async def by_hand_async(chat: AsyncConversation, tools: list[Tool]) -> None:
    """Run the calls as an async loop without a dispatcher does."""
    for tool in tools:
        async with chat.running(tool.id) as attempt:
            await attempt.complete(await search_orders_async(**attempt.arguments))


def measure(
    *, memory: bool, awaited: bool, typed: bool, rounds: int, calls: int
) -> list[tuple[float, float]]:
    """Return the seconds that each round took with the dispatcher and by hand."""
    name = FUNCTIONS[awaited].__name__
    tools = [FunctionTool(function, typed=typed) for function in FUNCTIONS]
    times = []
    now = clock(memory=memory)
    with (
        folder(memory=memory) as place,
        asyncio.Runner() as runner,
        EventStore.open(f"sqlite:///{Path(place) / 'agent.db'}") as store,
    ):
        loop = runner.get_loop()
        shared = AsyncEventStore(store)
        for number in range(rounds):
            ours = begin(store, f"dispatched-{number}", name, calls)
            theirs = begin(store, f"by-hand-{number}", name, calls)
            if awaited:
                chats = [shared.conversation(chat.id) for chat, _ in (ours, theirs)]
                dispatcher = AsyncDispatcher(chats[0], tools)
                dispatch = partial(_awaited, loop, dispatcher.dispatch, ours[1])
                hand = partial(_awaited, loop, by_hand_async, chats[1], theirs[1])
            else:
                dispatch = partial(Dispatcher(ours[0], tools).dispatch, ours[1])
                hand = partial(by_hand, *theirs)
            times.append(in_turn(now, dispatch, hand, first=number))
            assert all(tool.response for tool in ours[0].tools.values())
    return times


def _awaited(loop: asyncio.AbstractEventLoop, function: Any, *args: Any) -> object:
    # `Runner.run` would set up signals each time
    return loop.run_until_complete(function(*args))


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__, calls=10, rounds=101)
    calls = options.calls or 10
    rounds = options.rounds or (21 if options.quick else 101)
    figures = []
    for place in ("disk", "memory"):
        for suffix in ("", ", typed", ", asyncio", ", asyncio, typed"):
            times = measure(
                memory=place == "memory",
                awaited="asyncio" in suffix,
                typed="typed" in suffix,
                rounds=rounds,
                calls=calls,
            )
            us = 1e6 / calls
            figures += [
                Figure(
                    f"{place}{suffix}: dispatcher / by hand",
                    median(a / b for a, b in times),
                    "",
                    1.3 if "typed" in suffix else 1.2,
                ),
                Figure(f"{place}{suffix}: dispatcher", median(a for a, _ in times) * us, "µs/call"),
                Figure(f"{place}{suffix}: by hand", median(b for _, b in times) * us, "µs/call"),
            ]
    report(__file__, options, figures)


if __name__ == "__main__":
    main()
