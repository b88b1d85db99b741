"""Responses whose ids repeat are responses of their own, wherever something was said between."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest

from eventstore import (
    AsyncEventStore,
    AsyncUsageBudget,
    Conversation,
    Dispatcher,
    EventStore,
    UsageBudget,
    UsageLimitExceeded,
    UsageLimits,
    recording,
)
from projections import Projector, model_history, usage_statistics, why

USAGE = {"prompt_tokens": 1000, "completion_tokens": 10}


def response(
    text: str | None = None, *, call: str | None = None, created: int | None = 1, total: int = 0
) -> dict[str, Any]:
    """Return a completion of a server that gives every response the id 17."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if call is not None:
        function = {"name": "poll", "arguments": "{}"}
        message["tool_calls"] = [{"id": call, "type": "function", "function": function}]
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    times = {} if created is None else {"created": created}
    used = {**USAGE, "completion_tokens": 10 + total}
    return {"id": "17", "model": "local", "choices": [choice], "usage": used, **times}


def chunks(given: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a response as the chunks of a stream."""
    (choice,) = given["choices"]
    delta = {**choice["message"]}
    if "tool_calls" in delta:
        delta["tool_calls"] = [{**call, "index": 0} for call in delta["tool_calls"]]
    choices = [{"index": 0, "delta": delta, "finish_reason": "stop"}]
    return [{**given, "choices": choices, "object": "chat.completion.chunk"}]


def assert_counted(chat: Conversation, store: EventStore, times: int) -> None:
    """Check that budgets, statistics, tables and `why` count alike."""
    events = list(chat.events())
    with Projector(store, "sqlite://", views=["usage"]) as projector:
        projector.catch_up()
        assert projector.usage() == usage_statistics(events)
    assert usage_statistics(events).overall.responses == times
    assert UsageBudget(chat, UsageLimits()).used.requests == times
    assert f"{times} response" in why(events).ended


Way = Literal["record", "stream", "budget and record", "record and budget"]


def tell(chat: Conversation, given: dict[str, Any], way: Way, budget: UsageBudget) -> list[Any]:
    """Record a response in one of the ways that a loop may; return its calls."""
    budget.before_request()
    if way == "budget and record":
        budget.after_response(given, "openai")
    if way == "stream":
        with recording(iter(chunks(given)), chat, "openai") as stream:
            list(stream)
        return stream.tools
    tools = chat.record(given, "openai")
    if way == "record and budget":
        budget.after_response(given, "openai")
    return tools


WAYS: list[Way] = ["record", "stream", "budget and record", "record and budget"]


@pytest.mark.parametrize("created", [1, None])
@pytest.mark.parametrize("way", WAYS)
def test_an_equal_response_after_a_result_is_another_one(
    store: EventStore, way: Way, created: int | None
) -> None:
    """A model that polls gets the new state each time, and its limit holds."""
    chat, ran = store.conversation("c"), []

    def poll() -> str:
        ran.append(1)
        return f"state {len(ran)}"

    dispatcher = Dispatcher(chat, [poll])
    budget = UsageBudget(chat, UsageLimits(requests=3))
    for _ in range(3):
        dispatcher.dispatch(tell(chat, response(call="c1", created=created), way, budget))
    assert len(ran) == 3
    assert "state 3" in str(model_history(chat).render("openai"))
    assert_counted(chat, store, 3)
    with pytest.raises(UsageLimitExceeded):
        budget.before_request()


@pytest.mark.parametrize("way", WAYS)
def test_an_equal_response_to_other_words_is_another_one(store: EventStore, way: Way) -> None:
    """Both questions have an answer in the log."""
    chat = store.conversation("c")
    budget = UsageBudget(chat, UsageLimits())
    for _ in range(3):
        chat.add_message("user", "go on")
        tell(chat, response("Yes."), way, budget)
    assert str(model_history(chat).render("openai")).count("Yes.") == 3
    assert_counted(chat, store, 3)


@pytest.mark.parametrize("way", WAYS)
def test_a_repeat_with_nothing_between_is_one_response(store: EventStore, way: Way) -> None:
    """Its calls are those of the log, while one of them is open or is to be repeated."""
    chat = store.conversation("c")
    call = response(call="c1")
    (first,) = tell(chat, call, way, UsageBudget(chat, UsageLimits()))
    chat.start(first.id)
    (again,) = tell(chat, call, way, UsageBudget(chat, UsageLimits()))
    assert (again.id, again.status.name) == (first.id, "Running")
    chat.fail(first.id, "later", delay=5.0)
    (again,) = tell(chat, call, way, UsageBudget(chat, UsageLimits()))
    assert again.id == first.id
    assert_counted(chat, store, 1)


def test_a_response_that_was_cut_off_may_be_recorded_again(store: EventStore) -> None:
    """Its calls have failed, which is no answer to it; what follows has a response of its own."""
    chat = store.conversation("c")
    given = response(call="c1")
    given["choices"][0]["finish_reason"] = "length"
    for each in (given, given, response(call="c2"), response(call="c2")):
        chat.record(each)
    assert list(chat.tools) == ["c1", "c2"]
    assert_counted(chat, store, 2)


@pytest.mark.parametrize("differs", ["created", "usage"])
def test_other_facts_make_another_response(store: EventStore, differs: str) -> None:
    """Nothing is between two responses that the log has without their words, as in a budget's."""
    chat = store.conversation("c")
    for number in range(3):
        total = number if differs == "usage" else 0
        chat.record(response("Yes.", created=number if differs == "created" else 1, total=total))
    assert_counted(chat, store, 3)


def test_a_budget_alone_counts_each_request(store: EventStore) -> None:
    """Only the request between says that an equal response is another one."""
    chat = store.conversation("c")
    budget = UsageBudget(chat, UsageLimits(requests=3))
    for _ in range(3):
        budget.before_request()
        budget.after_response(response("Yes."), "openai")
    with pytest.raises(UsageLimitExceeded):
        budget.before_request()
    assert_counted(chat, store, 3)


def test_responses_of_concurrent_requests_are_recorded_in_any_order(store: EventStore) -> None:
    """Two agents share a budget; each response is recorded, and told of after the other's."""
    chat = store.conversation("c")
    budget = UsageBudget(chat, UsageLimits())
    given = [{**response(f"agent {name}"), "id": name} for name in "ab"]
    for each in given:
        budget.before_request()
        chat.record(each)
    for each in given:
        budget.after_response(each, "openai", latency=1.0)
    assert_counted(chat, store, 2)


def test_a_response_that_was_recorded_by_an_older_version_is_known(store: EventStore) -> None:
    """Its events are stored under what it says alone."""
    from eventstore.append.stored_once import STEM_BYTES, event_id_of
    from eventstore.providers.parsing import parse_own
    from eventstore.providers.responses import response_digest

    chat, given = store.conversation("c"), response(call="c1")
    place = response_digest(given, parse_own(given, "openai"), "openai")[:STEM_BYTES]
    source = store.conversation("source")
    source.record(given)
    events = [recorded.event for recorded in source.events()]
    chat.append(*events, event_ids=[event_id_of(place, n) for n in range(len(events))])
    assert [tool.id for tool in chat.record(given)] == ["c1"]
    assert chat.version == len(events)


def test_the_same_holds_with_asyncio() -> None:
    """`AsyncUsageBudget` and `AsyncConversation` know responses alike."""

    async def main() -> None:
        async with AsyncEventStore.open("sqlite://") as store:
            chat = store.conversation("c")
            budget = AsyncUsageBudget(chat, UsageLimits(requests=2))
            for number in range(2):
                await budget.before_request()
                (tool,) = await chat.record(response(call="c1"))
                await budget.after_response(response(call="c1"), "openai")
                async with chat.running(tool.id) as attempt:
                    await attempt.complete(f"state {number}")
            assert len(await chat.tools()) == 2
            with pytest.raises(UsageLimitExceeded):
                await budget.before_request()

    asyncio.run(main())
