"""What was copied is counted once: where it happened."""

from __future__ import annotations

from decimal import Decimal

import pytest

from eventstore import (
    Conversation,
    EventStore,
    Failure,
    FunctionCall,
    MessageAdded,
    ModelResponded,
    ToolFailed,
    ToolPending,
    Usage,
)
from projections import error_statistics, usage_statistics

USAGE = Usage(100, 10, cost=Decimal("0.5"))


@pytest.fixture
def chat(store: EventStore) -> Conversation:
    """Return a conversation with a failed call, and a response of 100 tokens."""
    chat = store.conversation("a")
    chat.append(MessageAdded("assistant", (), turn=1))
    chat.append(ToolPending(FunctionCall("build", {"n": 1}, "one"), turn=1))
    chat.start("one")
    chat.fail("one", "no space left")
    chat.append(ModelResponded("openai", "gpt-5", "r1", "stop", USAGE))
    return chat


def test_a_run_and_three_forks_are_one_failure(store: EventStore, chat: Conversation) -> None:
    """Two of the forks are of a fork, and one is made before the failure."""
    first = chat.fork(chat.version, "b")
    first.fork(first.version, "c")
    first.fork(first.version, "d")
    chat.fork(3, "e")
    for read in (store.read, lambda: list(store.read())):  # headers, and whole events
        found = error_statistics(read())
        overall = found.overall
        assert (overall.calls, overall.attempts, overall.failures) == (1, 1, 1)
        assert (overall.terminal_failures, overall.rejections, overall.open) == (1, 0, 0)
        assert overall.running.count == 1
        assert found.by_kind["internal"].by_tool == {"build": 1}
        (fingerprint,) = found.by_fingerprint.values()
        assert (fingerprint.calls, fingerprint.repeated) == (1, 0)
        assert (found.conversations, found.copied_calls) == (5, 4)
        assert "4 more are copies from another conversation, and counted there" in str(found)
        used = usage_statistics(read())
        assert (used.overall.responses, used.overall.usage) == (1, USAGE)
        assert list(used.by_conversation) == ["a"]
        assert used.by_tool["build"].responses == 1


def test_a_fork_alone_has_nothing_of_its_own(store: EventStore, chat: Conversation) -> None:
    """Asked for its copies, too, it shows all that its origin does."""
    fork = chat.fork(chat.version, "b")
    found = error_statistics(fork.events())
    assert (found.overall.calls, found.copied_calls) == (0, 1)
    assert str(found).splitlines() == [
        "0 calls of 0 tools in 1 conversation (6 events)",
        "1 more is a copy from another conversation, and counted there",
    ]
    assert found.by_tool == found.by_fingerprint == {}
    both = error_statistics(fork.events(), copies=True)
    assert (both.overall, both.copied_calls) == (error_statistics(chat.events()).overall, 0)
    used = usage_statistics(fork.events(), copies=True)
    assert used.overall == usage_statistics(chat.events()).overall
    assert usage_statistics(fork.events()).overall.responses == 0


def test_a_call_that_a_fork_asks_for_again_is_repeated(
    store: EventStore, chat: Conversation
) -> None:
    """The model had seen the copied one: it is the second of its conversation."""
    fork = chat.fork(chat.version, "b")
    fork.request("build", {"n": 1}, "two")
    found = error_statistics(store.read())
    assert (found.overall.calls, found.overall.repeated, found.overall.open) == (2, 1, 1)


@pytest.mark.parametrize("again", ["completes", "fails"])
def test_the_next_attempt_of_a_copied_call_is_counted(
    store: EventStore, chat: Conversation, again: str
) -> None:
    """The fork has an attempt and a retry of a call that its origin has asked for."""
    fork = chat.fork(chat.version, "b")
    fork.start("one", 2)
    middle = error_statistics(store.read()).overall
    assert (middle.calls, middle.attempts, middle.outcome_unknown) == (1, 2, 1)
    if again == "completes":
        fork.complete("one", "built")
    else:
        fork.append(ToolFailed("one", Failure("internal", "still none"), 2))
    found = error_statistics(store.read())
    overall = found.overall
    assert (overall.calls, overall.attempts, overall.retries) == (1, 2, 1)
    assert (overall.failures, overall.completions) == ((1, 1) if again == "completes" else (2, 0))
    assert overall.recovered == overall.completions
    assert overall.terminal_failures == (1 if again == "completes" else 2)
    assert found.by_kind["internal"].retried == 1
    assert (overall.first_tries, overall.first_try_successes) == (1, 0)
    assert overall.outcome_unknown == found.anomaly_count == 0


def test_completing_a_copied_response_is_not_counted(store: EventStore, chat: Conversation) -> None:
    """The response is not counted for a tool either that its turn asks for in the fork."""
    fork = chat.fork(chat.version, "b")
    fork.append(ModelResponded(latency=7, completes=5))
    fork.append(ToolPending(FunctionCall("mail", {}, "two"), turn=1))
    used = usage_statistics(store.read())
    assert (used.overall.responses, used.overall.latency.count) == (1, 0)
    assert list(used.by_tool) == ["build"]
    fork.append(ModelResponded("openai", "gpt-5", "r2", "stop", USAGE))
    used = usage_statistics(store.read())
    assert (used.overall.responses, used.overall.usage.input_tokens) == (2, 200)
    assert used.by_conversation["b"].responses == 1
