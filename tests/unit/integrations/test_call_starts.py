"""What the start of a framework's call looks at."""

from __future__ import annotations

import asyncio

import pytest

from eventstore import (
    AsyncEventStore,
    Completed,
    Conversation,
    EventStore,
    Failed,
    Rejected,
    Running,
)
from eventstore.integrations.call_starts import CallStarts
from eventstore.integrations.recorded_calls import AsyncRecordedCalls


@pytest.fixture
def chat(store: EventStore) -> Conversation:
    """Return a conversation with two equal calls, `a` and `b`."""
    chat = store.conversation("c")
    for call_id in "ab":
        chat.request("pay", {"order": 7}, call_id)
    return chat


def test_a_run_does_not_pay_beside_another_of_the_same_process(chat: Conversation) -> None:
    """A run knows of its own calls alone that their end will come."""
    ours, others = CallStarts(chat), CallStarts(chat)
    with ours.running(chat.tool("a")) as first:
        assert first is not None
        with others.running(chat.tool("b")) as second:
            assert second is None
        first.complete("paid")
    assert isinstance(chat.tool("b").status, Rejected)


def test_equal_calls_of_one_run_may_go_on_at_once(chat: Conversation) -> None:
    """The model has asked for both."""
    starts = CallStarts(chat)
    with starts.running(chat.tool("a")) as first, starts.running(chat.tool("b")) as second:
        assert first is not None
        assert second is not None
        first.complete("paid")
        second.complete("paid")
    assert starts.begun == set()


def test_the_same_holds_with_asyncio() -> None:
    """A run's own calls go on, those of another are in the way."""

    async def run() -> None:
        async with AsyncEventStore.open("sqlite://") as store:
            chat = store.conversation("c")
            tools = [await chat.request("pay", {"order": 7}, call_id) for call_id in "abc"]
            ours, others = AsyncRecordedCalls(chat, "x"), AsyncRecordedCalls(chat, "x")
            async with ours.running(tools[0]) as first, ours.running(tools[1]) as second:
                assert first is not None
                assert second is not None
                async with others.running(tools[2]) as third:
                    assert third is None
                await first.complete("paid")
                await second.complete("paid")
            assert isinstance((await chat.tool("c")).status, Rejected)

    asyncio.run(run())


def test_a_call_that_others_have_changed_is_found_again(chat: Conversation) -> None:
    """Another worker has completed it since it was read."""
    read = chat.tool("a")
    with chat.running("a") as attempt:
        attempt.complete("paid elsewhere")
    with CallStarts(chat).running(read) as late:
        assert late is None
    assert isinstance(chat.tool("a").status, Completed)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_tool_that_only_reads_leaves_no_doubt(chat: Conversation, read_only: bool) -> None:
    """The call may be asked for again, and nobody has to settle anything."""
    starts = CallStarts(chat, read_only=["pay"] if read_only else [])
    with pytest.raises(TimeoutError), starts.running(chat.tool("a")):
        raise TimeoutError("late")
    assert isinstance(chat.tool("a").status, Failed)
    assert chat.tool("a").in_doubt is not read_only
    with starts.running(chat.tool("b")) as second:
        assert (second is not None) is read_only
        if second is not None:
            assert isinstance(chat.tool("b").status, Running)
            second.complete("found")
