"""Checks of the numbers that callers pass: invalid ones are refused with one clear error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf, nan
from typing import Any

import pytest

from eventstore import Conversation, EventStore, FunctionTool, MessageAdded, RetryPolicy
from eventstore.domain.arguments import is_number
from projections import Projector, Replay, error_statistics, model_history, replay


@pytest.fixture
def chat() -> Iterator[Conversation]:
    """Return a conversation in memory."""
    with EventStore.open("sqlite://") as store:
        yield store.conversation("chat")


NO_NUMBERS = [True, "3", b"3", [1], nan, -1]


def opened(**given: Any) -> None:
    """Open a store and close it."""
    EventStore.open("sqlite://", **given).close()


def store_of(chat: Conversation) -> EventStore:
    """Return the conversation's store."""
    return EventStore(chat.session.outside_transaction(chat.id).storage)


WHOLE: dict[str, Callable[[Conversation, Any], object]] = {
    "after": lambda chat, value: chat.events(value),
    "expected_version": lambda chat, value: chat.append(
        MessageAdded("user"), expected_version=value
    ),
    "limit": lambda chat, value: store_of(chat).read(limit=value),
    "last_turns": lambda _, value: model_history([], last_turns=value),
    "max_tokens": lambda _, value: model_history([], max_tokens=value),
    "since": lambda _, value: model_history([], since=value),
    "fingerprints": lambda _, value: error_statistics([], fingerprints=value),
    "until": lambda _, value: replay([], value),
    "bucket": lambda chat, value: Projector(store_of(chat), "sqlite://", bucket=value),
    "batch": lambda chat, value: Projector(store_of(chat), "sqlite://", batch=value),
    "max_attempts": lambda _, value: RetryPolicy(value),
    "attempt": lambda _, value: RetryPolicy().delay(value),
}
SECONDS: dict[str, Callable[[Conversation, Any], object]] = {
    "busy_timeout": lambda _, value: opened(busy_timeout=value),
    "timeout": lambda chat, value: chat.follow(timeout=value),
    "poll": lambda chat, value: chat.decision("1", poll=value),
    "delay": lambda chat, value: chat.fail("1", "no", delay=value),
    "initial_backoff": lambda _, value: RetryPolicy(2, value),
    "max_backoff": lambda _, value: RetryPolicy(2, 0, value),
    "chance": lambda _, value: RetryPolicy().delay(1, None, value),
    "timeout of tool 'f'": lambda _, value: FunctionTool(str, "f", timeout=value),
}


@pytest.mark.parametrize("name", [*WHOLE, *SECONDS])
def test_an_argument_that_is_not_such_a_number_is_refused(name: str, chat: Conversation) -> None:
    """The error names the argument, its value and what to pass."""
    take = {**WHOLE, **SECONDS}[name]
    for value in [*NO_NUMBERS, *((1.5, inf) if name in WHOLE else ())]:
        with pytest.raises(ValueError, match=name) as caught:
            take(chat, value)
        reported = str(caught.value)
        assert reported.startswith(f"{name} is {value!r}: "), reported
        assert ": pass " in reported or "counted from 1" in reported
    assert chat.version == 0


@pytest.mark.parametrize("name", ["last_turns", "max_tokens", "since", "fingerprints"])
def test_zero_is_refused_where_the_minimum_is_one(name: str, chat: Conversation) -> None:
    """A limit of zero shows nothing."""
    with pytest.raises(ValueError, match=f"{name} is 0: pass "):
        WHOLE[name](chat, 0)


def test_a_hint_of_a_provider_is_a_number() -> None:
    """Any number is accepted, and zero is ignored."""
    assert RetryPolicy().delay(1, nan) == RetryPolicy().delay(1, -1) == RetryPolicy().delay(1)
    for hint in ("3", True):
        with pytest.raises(ValueError, match=f"hint is {hint!r}: pass seconds, or None"):
            RetryPolicy().delay(1, hint)  # type: ignore[arg-type]


def test_a_continued_replay_refuses_invalid_numbers() -> None:
    """The error is raised at the call, not with the first frame."""
    with pytest.raises(ValueError, match="until is nan: pass a version, 0 or more"):
        Replay().frames([], nan)  # type: ignore[arg-type]


def test_a_counter_is_a_function_and_a_summary_text() -> None:
    """The other options of a window are checked, too."""
    with pytest.raises(ValueError, match="count_tokens is 3: pass a function from text to a numb"):
        model_history([], max_tokens=5, count_tokens=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="summary is 3: pass text, or None"):
        model_history([], last_turns=1, summary=3)  # type: ignore[arg-type]


def test_true_is_not_a_number() -> None:
    """Integers and floats are accepted, True and False are refused."""
    assert [is_number(value) for value in (0, 1.5, nan, True, None, "1")] == [True] * 3 + [
        False
    ] * 3
