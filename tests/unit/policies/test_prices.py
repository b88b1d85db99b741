"""Price tables, and the responses that are recorded with their cost."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from pathlib import Path

import pytest

from eventstore import (
    AsyncEventStore,
    EventStore,
    ModelResponded,
    Price,
    PriceTable,
    Recorded,
    Usage,
    UsageBudget,
    UsageLimitExceeded,
    UsageLimits,
    recording,
)
from eventstore.testing import log
from projections import usage_statistics

TABLE = PriceTable(
    {
        "gpt-5": Price(input=Decimal("1.25"), output=Decimal(10), cached=Decimal("0.125")),
        "small": Price(input=Decimal(1), output=Decimal(2)),
    }
)
COMPLETION = {
    "id": "chatcmpl-1",
    "model": "gpt-5-2025-08-07",
    "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "Yes."}}],
    "usage": {
        "prompt_tokens": 1000,
        "completion_tokens": 100,
        "prompt_tokens_details": {"cached_tokens": 400},
    },
}
COST = Decimal("0.0018")
"""600 tokens at 1.25, 400 at 0.125 and 100 at 10 a million."""


def costs(events: list[Recorded]) -> list[Decimal | None]:
    """Return the costs of the responses in the log."""
    found = [r.event for r in events if isinstance(r.event, ModelResponded)]
    return [event.usage.cost if event.usage else None for event in found]


@pytest.mark.parametrize(
    ("model", "cost"),
    [
        ("gpt-5", COST),
        ("gpt-5-2025-08-07", COST),
        ("gpt-5-mini", None),
        ("small-latest", Decimal("0.0012")),
        (None, None),
    ],
)
def test_a_name_stands_for_its_dated_versions(model: str | None, cost: Decimal | None) -> None:
    """Another model has no cost, rather than that of its namesake."""
    usage = Usage(1000, 100, 400)
    assert TABLE.cost(ModelResponded("openai", model, usage=usage)) == cost


def test_responses_are_recorded_with_their_cost(tmp_path: Path) -> None:
    """Streams and budgets price them, too; a cost that was stated stays."""
    stated = ModelResponded("openai", "gpt-5", "r", usage=Usage(1, 1, cost=Decimal(7)))
    ended = {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    begun = {"index": 0, "delta": {"content": "Yes."}, "finish_reason": None}
    chunks = [
        {"id": "c", "model": "gpt-5", "choices": [begun], "object": "chat.completion.chunk"},
        {**ended, "object": "chat.completion.chunk", "usage": COMPLETION["usage"]},
    ]
    url = f"sqlite:///{tmp_path / 'prices.db'}"
    with EventStore.open(url, prices=TABLE) as store:
        chat = store.conversation("one")
        chat.record(COMPLETION)
        with recording(iter(chunks), chat) as response:
            list(response)
        budget = UsageBudget(chat, UsageLimits(cost=Decimal(8)))
        budget.after_response(stated)
        budget.after_response({**COMPLETION, "id": "2"}, "openai")
        with pytest.raises(UsageLimitExceeded):
            budget.after_response(
                ModelResponded("x", response_id="3", usage=Usage(cost=Decimal(2)))
            )
        assert costs(list(chat.events())) == [COST, COST, Decimal(7), COST, Decimal(2)]


async def record_awaited(url: str) -> list[Decimal | None]:
    """Return the costs that an `AsyncEventStore` records."""
    async with AsyncEventStore.open(url, prices=TABLE) as store:
        chat = store.conversation("one")
        await chat.record(COMPLETION)
        return costs([recorded async for recorded in chat.events()])


def test_an_asynchronous_store_takes_a_price_table(tmp_path: Path) -> None:
    """The responses that it records have their cost."""
    assert asyncio.run(record_awaited(f"sqlite:///{tmp_path / 'a.db'}")) == [COST]


def test_statistics_take_a_price_table_for_older_logs() -> None:
    """A response without a cost is priced as it is read."""
    events = log(ModelResponded("openai", "gpt-5", "r", usage=Usage(1000, 100, 400)))
    assert usage_statistics(events).overall.usage.cost is None
    assert usage_statistics(events, TABLE).overall.usage.cost == COST


def test_a_table_is_read_from_a_file(tmp_path: Path) -> None:
    """Amounts are text or numbers; what is no table is named."""
    path = tmp_path / "prices.json"
    path.write_text(json.dumps({"gpt-5": {"input": "1.25", "output": 10, "cached": "0.125"}}))
    usage = Usage(1000, 100, 400)
    assert PriceTable.read(path).cost(ModelResponded("openai", "gpt-5", usage=usage)) == COST
    path.write_text('{"gpt-5": {"input": "much"}}')
    with pytest.raises(ValueError, match=r"prices\.json is no price table: "):
        PriceTable.read(path)


@pytest.mark.parametrize("amount", [Decimal(-1), Decimal("nan"), 1.5, None])
def test_a_price_is_an_amount_of_money(amount: Decimal) -> None:
    """Anything else is refused by name."""
    with pytest.raises(ValueError, match=r"output is .*: pass a Decimal, 0 or more"):
        Price(input=Decimal(1), output=amount)
