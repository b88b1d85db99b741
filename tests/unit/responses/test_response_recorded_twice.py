"""A response that both `record` and a budget tell of is counted once, and nothing of it is lost."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pytest

from eventstore import (
    AsyncEventStore,
    AsyncUsageBudget,
    Conversation,
    Event,
    EventStore,
    MessageAdded,
    ModelResponded,
    Recorded,
    RunStarted,
    Usage,
    UsageBudget,
    UsageLimitExceeded,
    UsageLimits,
)
from eventstore.provider_messages.record import record_turn
from projections import otlp_trace, usage_statistics, why
from projections.report.data import report_data

COST = Decimal("0.004")
WHOLE = Usage(90, 10, cost=COST)

Order = Literal["record first", "budget first"]
ORDERS: list[Order] = ["record first", "budget first"]


def response(number: int | None, *, calls: bool = False) -> dict[str, Any]:
    """Return a completion; without a number it has no id."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"role": "assistant", "content": "Yes.", "tool_calls": [call] if calls else []}
    named = {} if number is None else {"id": f"chatcmpl-{number}"}
    return {
        **named,
        "model": "gpt-5",
        "choices": [{"finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 90, "completion_tokens": 10},
    }


def tell(chat: Conversation, budget: UsageBudget, given: dict[str, Any], order: Order) -> None:
    """Make a request, and tell of its response twice."""
    budget.before_request()
    if order == "record first":
        chat.record(given)
    budget.after_response(given, "openai", cost=COST, latency=1.5)
    if order == "budget first":
        chat.record(given)


def responses(chat: Conversation) -> list[ModelResponded]:
    """Return the responses in the log."""
    return [r.event for r in chat.events() if isinstance(r.event, ModelResponded)]


def assert_counted(chat: Conversation, times: int) -> None:
    """Check that every reader has so many responses, each with its cost and its latency."""
    events = list(chat.events())
    whole = sum([WHOLE] * (times - 1), WHOLE)
    used = UsageBudget(chat, UsageLimits()).used
    assert (used.requests, used.usage) == (times, whole)
    report = usage_statistics(events)
    for counts in (report.overall, report.by_model["gpt-5"], report.by_conversation["c"]):
        assert (counts.responses, counts.unknown, counts.usage) == (times, 0, whole)
        assert counts.finish_reasons == {"stop": times}
        assert counts.latency.max == 1_500_000
    assert f"{times} response" in (ended := why(events).ended)
    assert f"cost {whole.cost}" in ended
    (spans,) = otlp_trace(events)["resourceSpans"][0]["scopeSpans"]
    assert sum(span["name"] == "chat gpt-5" for span in spans["spans"]) == times
    assert [tokens for _, *tokens in report_data(events).tokens] == [[90, 0, 10]] * times


@pytest.mark.parametrize("number", [1, None])
@pytest.mark.parametrize("order", ORDERS)
def test_a_response_is_counted_once_with_its_cost(
    chat: Conversation, order: Order, number: int | None
) -> None:
    """Whichever tells of it first, with or without an id."""
    tell(chat, UsageBudget(chat, UsageLimits()), response(number), order)
    assert_counted(chat, 1)


@pytest.mark.parametrize("order", ORDERS)
def test_equal_responses_without_an_id_are_responses_of_their_own(
    chat: Conversation, order: Order
) -> None:
    """A loop that goes in circles reaches its limit; a look at what is used changes nothing."""
    budget = UsageBudget(chat, UsageLimits(requests=3))
    for number in range(3):
        assert budget.used.requests == number
        tell(chat, budget, response(None), order)
    assert_counted(chat, 3)
    with pytest.raises(UsageLimitExceeded):
        budget.before_request()


def test_a_budget_that_is_asked_between_takes_the_response_that_came_since(
    chat: Conversation,
) -> None:
    """Reading `used` does not make a response another one."""
    budget = UsageBudget(chat, UsageLimits())
    budget.before_request()
    chat.record(response(None))
    assert budget.used.requests == 1
    budget.after_response(response(None), "openai", cost=COST, latency=1.5)
    assert_counted(chat, 1)


def test_equal_responses_that_only_a_budget_tells_of_are_counted_each(chat: Conversation) -> None:
    """Neither a turn nor a request is between them in the log."""
    budget = UsageBudget(chat, UsageLimits())
    for _ in range(3):
        budget.after_response(response(None), "openai")
    assert (budget.used.requests, chat.version) == (3, 3)


@pytest.mark.parametrize("order", ORDERS)
def test_a_repeat_after_a_crash_stores_nothing(chat: Conversation, order: Order) -> None:
    """Another process tells the same again, in another run or in the same."""
    tell(chat, UsageBudget(chat, UsageLimits()), response(1, calls=True), order)
    version = chat.version
    for other in ORDERS:
        tell(chat, UsageBudget(chat, UsageLimits()), response(1, calls=True), other)
    assert chat.version == version
    assert_counted(chat, 1)
    chat.append(RunStarted("again"))
    budget = UsageBudget(chat, UsageLimits())
    tell(chat, budget, response(1, calls=True), order)
    assert (chat.version, budget.used.requests) == (version + 1, 0)


@pytest.mark.parametrize("order", ORDERS)
def test_a_crash_between_the_two_loses_nothing(chat: Conversation, order: Order) -> None:
    """The first is in the log; the process that goes on tells both again."""
    if order == "record first":
        chat.record(response(1))
    else:
        UsageBudget(chat, UsageLimits()).after_response(response(1), "openai", cost=COST)
    tell(chat, UsageBudget(chat, UsageLimits()), response(1), "record first")
    tell(chat, UsageBudget(chat, UsageLimits()), response(1), "budget first")
    assert_counted(chat, 1)


def test_only_what_is_new_is_stored(chat: Conversation) -> None:
    """The event names the version that it completes, and repeats nothing."""
    budget = UsageBudget(chat, UsageLimits())
    chat.record(response(1))
    budget.after_response(response(1), "openai")
    assert chat.version == 2
    budget.after_response(response(1), "openai", cost=COST)
    budget.after_response(response(1), "openai", cost=Decimal(9), latency=1.5)
    budget.after_response(response(1), "openai", cost=Decimal(9), latency=9)
    reported = ("openai", "gpt-5", "chatcmpl-1", None)
    assert responses(chat) == [
        ModelResponded("openai", "gpt-5", "chatcmpl-1", "stop", Usage(90, 10)),
        ModelResponded(*reported, Usage(cost=COST), completes=2),
        ModelResponded(*reported, latency=1_500_000, completes=2),
    ]
    assert_counted(chat, 1)


def test_a_record_stores_what_the_budget_did_not_know(chat: Conversation) -> None:
    """The latency is known to `record` alone; other responses are stored whole."""
    budget = UsageBudget(chat, UsageLimits())
    budget.after_response(response(1), "openai", cost=COST)
    chat.record(response(1), latency=1.5)
    first, added = responses(chat)
    assert (first.completes, added.completes) == (None, 1)
    assert_counted(chat, 1)
    budget.after_response(response(2), "openai")
    chat.record(response(3))
    assert [event.completes for event in responses(chat)] == [None, 1, None, None]


def test_the_response_of_a_framework_counts_once(chat: Conversation) -> None:
    """Integrations record a turn with what its response said."""
    said = ModelResponded("openai", "gpt-5", "chatcmpl-1", "stop", WHOLE, 1_500_000)
    UsageBudget(chat, UsageLimits()).after_response(said)
    chat.session.run(record_turn(chat.id, (), (), "acme", None, b"1", said))
    assert [type(r.event) for r in chat.events()] == [ModelResponded, MessageAdded]
    assert_counted(chat, 1)


@pytest.mark.parametrize("number", [1, None])
def test_another_process_knows_what_a_budget_recorded(tmp_path: Path, number: int | None) -> None:
    """The append of `record` is decided on the log, and not on what the process has seen."""
    url = f"sqlite:///{tmp_path / 'told.db'}"
    with EventStore.open(url) as one, EventStore.open(url) as other:
        chat = one.conversation("c")
        other.conversation("c").add_message("user", "Is it?")
        budget = UsageBudget(chat, UsageLimits())
        budget.after_response(response(number), "openai", cost=COST, latency=1.5)
        other.conversation("c").record(response(number))
        assert_counted(chat, 1)


class OvertakenConversation(Conversation):
    """A conversation to which another process appends the same first."""

    def append(self, *events: Event, **options: Any) -> list[Recorded]:
        """Append the events twice."""
        super().append(*events, **options)
        return super().append(*events, **options)


def test_processes_that_complete_a_response_at_once_add_its_cost_once(store: EventStore) -> None:
    """Each has read the log before the other has appended."""
    chat = OvertakenConversation(store.session, "c")
    chat.record(response(1))
    UsageBudget(chat, UsageLimits()).after_response(response(1), "openai", cost=COST, latency=1.5)
    assert_counted(chat, 1)


def test_the_same_holds_with_asyncio() -> None:
    """`AsyncUsageBudget` completes what an `AsyncConversation` has recorded.

    The request before says that an equal response is another one, whatever its id.
    """

    async def main() -> None:
        async with AsyncEventStore.open("sqlite://") as store:
            chat = store.conversation("c")
            budget = AsyncUsageBudget(chat, UsageLimits())
            for number in (1, None):
                for _ in range(2):
                    await budget.before_request()
                    await chat.record(response(number))
                    await budget.after_response(response(number), "openai", cost=COST)
            used = await budget.used()
            assert (used.requests, used.usage) == (4, WHOLE + WHOLE + WHOLE + WHOLE)

    asyncio.run(main())
