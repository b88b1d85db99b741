"""Repairing a list of messages and rendering it, for OpenAI Chat and for every other provider.

`repair_messages(messages, "openai")` on lists of 20, 200 and 2,000 messages in which every tenth
call has lost its result, on one that lost only its last, as a crash leaves it, and on one turn of
5,000 parallel calls with one result missing: judged, read, repaired and rendered. A call is not
counted as a message of its own, so that in the one turn each counted message stands for a call and
its result. A valid list is judged and copied.

The ratio is what a message costs in the longest list divided by what it costs in the one a tenth as
long: repair is linear in the list's length.

The same is measured for each provider, on a list of its own with the same words, valid and with
every tenth result lost. There the ratio is the time of repair divided by that of `json.dumps` and
`json.loads` of the same list, which is the least that it takes to send a request.

Where turnsafe is installed (`beside/requirements.txt`), it repairs the lists of the two providers
that it knows in the same run.

The clock is CPU time; each figure is the fastest of several rounds, a ratio their median.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import count
from typing import Any

from measure import Figure, arguments, in_turn, median, report, timed

from eventstore.providers import PROVIDERS
from projections import repair_messages

ROUNDS_PER_LOST_RESULT = 5
"""Each round has two calls; one round in this many loses a result."""

PARALLEL_CALLS = 5_000

MOST_VALID, MOST_BROKEN = 5.0, 12.0
"""The limits of a provider's list, in times of its JSON. Small items, as of OpenAI Responses, take
more of these: each has an entry in the log that the list would be."""

_RESULT_TYPES = ("tool_result", "function_call_output")
_RESULT_MEMBERS = ("function_response", "functionResponse", "toolResult")

Messages = list[dict[str, Any]]


def call(name: str) -> dict[str, Any]:
    """Return a call in OpenAI's form."""
    function = {"name": "find_order", "arguments": f'{{"order_id": "{name}", "details": true}}'}
    return {"id": name, "type": "function", "function": function}


def result(name: str) -> dict[str, Any]:
    """Return the result of a call."""
    content = '{"status": "shipped", "carrier": "DHL", "arrives": "Tuesday"}'
    return {"role": "tool", "tool_call_id": name, "content": content}


def conversation(length: int, *, broken: bool) -> Messages:
    """Return `length` messages: rounds of a question, two calls, their results and an answer."""
    messages: Messages = [{"role": "system", "content": "You answer questions about orders."}]
    number = 0
    while len(messages) < length:
        one, other = f"call_{number}_a", f"call_{number}_b"
        messages += [
            {"role": "user", "content": f"Where are orders {one} and {other}? They are late."},
            {"role": "assistant", "content": None, "tool_calls": [call(one), call(other)]},
            result(one),
        ]
        if not broken or number % ROUNDS_PER_LOST_RESULT:
            messages.append(result(other))
        messages.append({"role": "assistant", "content": "Both were shipped: on Tuesday."})
        number += 1
    return messages


def parallel(calls: int) -> Messages:
    """Return one turn of that many calls; the last has no result."""
    names = [f"call_{number}" for number in range(calls)]
    return [
        {"role": "user", "content": "Look them all up."},
        {"role": "assistant", "content": None, "tool_calls": [call(name) for name in names]},
        *(result(name) for name in names[:-1]),
    ]


def repair(messages: Messages) -> Messages:
    """Return the messages that are sent instead."""
    return repair_messages(messages, "openai").messages


def of_provider(messages: Messages, provider: str) -> Any:
    """Return a valid list of OpenAI's in another provider's form."""
    return repair_messages(messages[1:], "openai", to=provider).messages


def is_result(item: Any) -> bool:
    """Return whether a message, an item or a block is the result of a call."""
    return isinstance(item, dict) and (
        item.get("role") == "tool"
        or item.get("type") in _RESULT_TYPES
        or any(member in item for member in _RESULT_MEMBERS)
    )


def without_some_results(value: Any, numbers: Iterator[int]) -> Any:
    """Return a copy in which every tenth result is missing, the first one among them."""
    if isinstance(value, dict):
        return {key: without_some_results(item, numbers) for key, item in value.items()}
    if isinstance(value, list):
        kept = [item for item in value if not is_result(item) or next(numbers) % 10]
        return [without_some_results(item, numbers) for item in kept]
    return value


def every_provider(length: int, rounds: int) -> list[Figure]:
    """Return the figures of each provider, on lists made of `length` messages."""
    figures = []
    valid = conversation(length, broken=False)
    for provider in sorted(PROVIDERS):
        whole = of_provider(valid, provider)
        broken = without_some_results(whole, count())
        assert repair_messages(whole, provider).repairs == []
        assert repair_messages(broken, provider).repairs != []
        for kind, messages, limit in (
            ("valid", whole, MOST_VALID),
            ("broken", broken, MOST_BROKEN),
        ):
            times = [in_json_times(messages, provider, number) for number in range(rounds)]
            figures.append(Figure(f"{provider}, {kind} / its JSON", median(times), "", limit))
    return figures


def in_json_times(messages: Any, provider: str, first: int) -> float:
    """Return how many times as long repair takes as writing and reading the list's JSON."""
    took = in_turn(
        time.process_time,
        lambda: repair_messages(messages, provider),
        lambda: json.loads(json.dumps(messages)),
        first=first,
    )
    return took[0] / took[1]


def beside_turnsafe(length: int, rounds: int) -> list[Figure]:
    """Return the figures of both repairs, on the same lists."""
    import turnsafe

    figures = []
    for provider in ("anthropic", "openai"):
        valid: Any = of_provider(conversation(length, broken=False), provider)
        for kind, messages, most in (
            ("valid", valid, 1.0),
            ("broken", without_some_results(valid, count()), 1.2),
        ):

            def ours(messages: Any = messages, provider: Any = provider) -> None:
                repair_messages(messages, provider)

            def theirs(messages: Any = messages, provider: Any = provider) -> None:
                turnsafe.repair(messages, provider=provider)

            times = [in_turn(time.process_time, ours, theirs, first=n) for n in range(rounds)]
            ratio = median(a / b for a, b in times)
            figures.append(Figure(f"{provider}, {kind} / turnsafe", ratio, "times", most))
    return figures


def per_message(messages: Messages, rounds: int) -> float:
    """Return the microseconds that a message costs."""
    return min(timed(time.process_time, lambda: repair(messages)) for _ in range(rounds)) * (
        1e6 / len(messages)
    )


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__, messages=2_000, rounds=25)
    longest = options.messages or 2_000
    rounds = options.rounds or (7 if options.quick else 25)
    tenth, long = (conversation(length, broken=True) for length in (longest // 10, longest))
    valid = conversation(longest // 10, broken=False)
    interrupted = valid[:-2]  # the last round has lost a result and the answer
    assert repair(valid) == valid
    assert len(repair(interrupted)) == len(interrupted) + 1
    assert repair(long) != long
    times = [
        in_turn(time.process_time, lambda: repair(long), lambda: repair(tenth), first=n)
        for n in range(rounds)
    ]
    ratio = median(a / len(long) / (b / len(tenth)) for a, b in times)
    figures = [Figure(f"{longest:,} messages / {longest // 10:,}", ratio, "", 1.2)]
    for length in (longest // 100, longest // 10, longest):
        messages = conversation(length, broken=True)
        spent = per_message(messages, rounds * max(1, 2_000 // length // 4))
        figures.append(Figure(f"{length:,} messages", spent, "us/message"))
    many = parallel(longest * PARALLEL_CALLS // 2_000)
    figures += [
        Figure(f"a turn of {len(many) - 1:,} calls", per_message(many, rounds), "us/message"),
        Figure(f"{longest // 10:,} valid messages", per_message(valid, rounds), "us/message"),
        Figure("broken at the end alone", per_message(interrupted, rounds), "us/message"),
    ]
    figures += every_provider(longest // 10, rounds)
    if find_spec("turnsafe"):
        figures += beside_turnsafe(longest // 10, rounds)
    report(__file__, options, figures)


if __name__ == "__main__":
    main()
